package breaker

import (
	"fmt"
	"time"
)

// Force holds the breaker OPEN or CLOSED until then (zero: without an end), whatever is measured.
// by is who asked. HALF_OPEN cannot be forced.
func (b *Breaker) Force(now time.Time, s State, until time.Time, by string) error {
	if s != Open && s != Closed {
		return fmt.Errorf("breaker %s: cannot be forced %v, want open or closed", b.name, s)
	}
	now = b.advance(now)
	from := b.state
	b.hold(now, s, until, fmt.Sprintf("forced %v by %s", s, quote(by)))
	b.announce(from)
	return nil
}

func (b *Breaker) hold(now time.Time, s State, until time.Time, reason string) {
	b.forced, b.forcedUntil = true, until
	switch {
	case s == Closed:
		b.shut(now, reason)
	case b.state == Open:
		b.enter(now, Open, reason)
	default:
		b.open(now, now, reason)
	}
}

// Release lets a forced breaker go on by itself: from OPEN to the probe, from CLOSED by what comes.
// It does nothing to one that is not forced.
func (b *Breaker) Release(now time.Time, by string) {
	if !b.forced {
		return
	}
	b.release(now, "released by "+quote(by))
	b.announce(b.state)
	b.settle(now)
}

func (b *Breaker) release(now time.Time, reason string) {
	b.forced, b.forcedUntil = false, time.Time{}
	b.until = now
	b.enter(now, b.state, reason)
}
