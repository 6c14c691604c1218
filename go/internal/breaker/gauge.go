package breaker

import (
	"math"
	"time"
)

// StaleHold is how long a dead source whose last level was sick holds the probe back. It is the
// default cap of the cooldown: so long a breaker waits for a destination without asking it anyway.
const StaleHold = CooldownMaxDefault

// gauge is one level with what it was before.
type gauge struct {
	Level
	at        time.Time // of the last value
	sick      bool      // see "Levels" in the package's documentation
	sickSince time.Time // since then at Trip or above without a break; zero: it is not
	lowSince  time.Time // since then below Recover without a break; zero: it is not
	stale     time.Time // since then its source is dead; zero: it lives
	fault     string    // why
}

func (g *gauge) take(now time.Time, l Level) {
	g.Level, g.at, g.stale, g.fault = l, now, time.Time{}, ""
	if l.Value >= l.Trip {
		g.sick, g.lowSince = true, time.Time{}
		if g.sickSince.IsZero() {
			g.sickSince = now
		}
		return
	}
	g.sickSince = time.Time{}
	switch {
	case l.Value >= l.Recover:
		g.lowSince = time.Time{}
	case g.lowSince.IsZero():
		g.lowSince = now
	}
}

// trips tells that it has been sick for as long as it may. It is asked of a value just taken only:
// a dead source never trips.
func (g *gauge) trips(now time.Time) bool {
	return !g.sickSince.IsZero() && now.Sub(g.sickSince) >= g.For
}

// expired tells that its last value is too old to go by.
func (g *gauge) expired(now time.Time) bool {
	return !g.stale.IsZero() && now.Sub(g.stale) >= StaleHold
}

// holds tells that it stands in the way of recovery. It ends the sickness when that is over.
func (g *gauge) holds(now time.Time, cooldown time.Duration) bool {
	if g.sick && !g.lowSince.IsZero() && now.Sub(g.lowSince) >= cooldown {
		g.sick = false
	}
	return g.sick && !g.expired(now)
}

// Level hands in what a source says. It may trip, bounds the ramp where it is a pool's, and has to
// be well before a probe.
func (b *Breaker) Level(now time.Time, l Level) {
	if math.IsNaN(l.Value) || math.IsNaN(l.Trip) {
		return // nothing to say
	}
	now = b.advance(now)
	g := b.gauges[l.Signal]
	if g == nil {
		g = &gauge{}
		b.gauges[l.Signal] = g
	}
	b.fill(now) // under the bound that was in force until now
	g.take(now, l)
	if g.trips(now) {
		b.trip(now, levelReason(g))
	}
	b.advance(now)
	if b.state == HalfOpen && l.Pool {
		b.wake()
	}
}

// Stale tells that the source of a signal is dead: its last level stays, and is flagged with why. A
// signal that never gave a level is flagged as well.
func (b *Breaker) Stale(now time.Time, signal, why string) {
	now = b.advance(now)
	g := b.gauges[signal]
	if g == nil {
		g = &gauge{Level: Level{Signal: signal, Trip: math.Inf(1), Recover: math.Inf(1)}}
		b.gauges[signal] = g
	}
	if g.stale.IsZero() {
		g.stale = now
	}
	g.fault = quote(why)
}

// Forget drops a signal: it is gone from the config, or its source lives and has nothing to say.
func (b *Breaker) Forget(now time.Time, signal string) {
	now = b.advance(now)
	b.fill(now)
	delete(b.gauges, signal)
	b.advance(now)
}

// sickest gives a level that holds recovery back, the first by name; nil: there is none.
func (b *Breaker) sickest(now time.Time) *gauge {
	var found *gauge
	for _, g := range b.gauges {
		if g.holds(now, b.cooldown) && (found == nil || g.Signal < found.Signal) {
			found = g
		}
	}
	return found
}

// pool is the largest known share of a pool in use, and whether all of them are below Recover;
// false: none is known.
func (b *Breaker) pool(now time.Time) (use float64, low, known bool) {
	low = true
	for _, g := range b.gauges {
		if !g.Pool || g.expired(now) {
			continue
		}
		use, known = max(use, g.Value), true
		low = low && g.Value < g.Recover
	}
	return min(use, 1), low, known
}
