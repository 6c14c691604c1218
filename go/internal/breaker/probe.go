package breaker

import (
	"fmt"
	"time"
)

// ProbePause is the time before the next try where a probe told nothing, or another host has it.
const ProbePause = time.Second

// probe is the one attempt of step 0. It needs a lease, which only one host can have.
type probe struct {
	asked   bool // a member would send it
	leased  bool
	token   uint64
	until   time.Time // of the lease
	flying  bool      // it was admitted
	member  uint32    // to which member
	at      time.Time // when
	notTill time.Time // no lease is asked for before
}

// Lease is one that is not needed any more.
type Lease struct {
	Token uint64
	// Used tells that a probe was made under it. Others should hear what became of it before they
	// can have the next one.
	Used bool
}

// WantsProbe tells that a member waits for a lease. The answer is Grant or Refuse.
func (b *Breaker) WantsProbe() bool {
	return b.atProbe() && b.probe.asked && !b.probe.leased
}

func (b *Breaker) atProbe() bool { return b.state == HalfOpen && b.ramp.step == 0 }

// Grant hands in a lease that ends at until; false: it is not wanted any more and the caller gives
// it back. One that was taken comes back in Output.Ended.
func (b *Breaker) Grant(now time.Time, token uint64, until time.Time) bool {
	now = b.advance(now)
	b.probe.asked = false
	if !b.atProbe() || b.probe.leased || !until.After(now) {
		return false
	}
	b.probe.leased, b.probe.token, b.probe.until = true, token, until
	b.wake()
	return true
}

// Refuse tells that there is no lease to be had. Room says when to ask again.
func (b *Breaker) Refuse(now time.Time) {
	b.probe.asked, b.probe.notTill = false, b.advance(now).Add(ProbePause)
	b.wake()
}

func (b *Breaker) probeRoom(now time.Time) (room int, wait time.Duration) {
	p := &b.probe
	switch {
	case p.flying || b.sickest(now) != nil:
		return 0, 0
	case p.leased:
		return 1, 0
	case now.Before(p.notTill):
		return 0, p.notTill.Sub(now)
	}
	p.asked = true
	return 0, 0
}

// probed takes in what became of the probe.
func (b *Breaker) probed(now time.Time, a Attempt) {
	switch {
	case a.answered():
		b.toStep(now, 1, "probe succeeded")
		b.announce(HalfOpen)
	case a.failed():
		b.trip(now, "probe failed: "+a.text())
	default:
		b.inconclusive(a.RetryAfter)
	}
}

// inconclusive ends a probe that told nothing; another may follow.
func (b *Breaker) inconclusive(pause time.Duration) {
	b.dropProbe()
	b.probe.notTill = b.now.Add(max(pause, ProbePause))
	b.wake()
}

// unused ends a probe that was never sent. Another member may send it under the same lease.
func (b *Breaker) unused() {
	b.probe.flying = false
	for _, id := range b.members {
		if b.waiting[id] && id != b.probe.member {
			if !b.out.Wake {
				b.out.Wake, b.out.Except = true, b.probe.member
			}
			return
		}
	}
	b.dropProbe()
}

// dropProbe gives the lease back, if there is one, and forgets what was asked.
func (b *Breaker) dropProbe() {
	if p := &b.probe; p.leased {
		b.out.Ended = append(b.out.Ended, Lease{Token: p.token, Used: p.flying})
	}
	b.probe = probe{}
}

// watchProbe ends a lease that has run out. What comes of its probe later says nothing.
func (b *Breaker) watchProbe(now time.Time) {
	p := &b.probe
	switch {
	case !p.leased || now.Before(p.until):
	case p.flying:
		b.trip(now, fmt.Sprintf("probe not answered within %v",
			now.Sub(p.at).Round(time.Millisecond)))
	default:
		b.dropProbe()
		b.wake()
	}
}
