package breaker

import (
	"math"
	"slices"
	"strings"
	"time"
)

// Look is a breaker as people see it.
type Look struct {
	Name   string
	State  State
	Reason string
	Since  time.Time
	// Probe is when an open one may be probed; zero: not known.
	Probe time.Time
	// Phase of HALF_OPEN is "probe", "ramp" or "drain"; else empty.
	Phase string
	// Rate is what passes in a second, of HALF_OPEN; 0: no bound.
	Rate      float64
	Held      bool
	HeldUntil time.Time // zero: without an end
	Signals   []Signal  // by name
	Opened    uint64    // times
}

// Signal is one measure as people see it: a level that was handed in, or one of the breaker's own.
type Signal struct {
	Name                 string
	Value, Trip, Recover float64
	Verdict              string // "well", "sick" or "between"; empty: never read
	Stale                bool
	Err                  string // of a stale one
	At                   time.Time
}

// Look shows the breaker at a time.
func (b *Breaker) Look(now time.Time) Look {
	now = b.advance(now)
	l := Look{
		Name: b.name, State: b.state, Reason: b.reason, Since: b.since, Held: b.forced,
		HeldUntil: b.forcedUntil, Opened: b.opened,
	}
	switch {
	case b.state == Open && !b.forced && b.until.After(now):
		l.Probe = b.until
	case b.state == Open && b.forced:
		l.Probe = b.forcedUntil
	case b.state == HalfOpen:
		l.Phase = b.phase()
		if rate := b.rate(); !math.IsInf(rate, 1) {
			l.Rate = rate
		}
	}
	l.Signals = b.ownSignals(now)
	for name, g := range b.gauges {
		s := Signal{
			Name: name, Value: g.Value, Trip: g.Trip, Recover: g.Recover, At: g.at,
			Stale: !g.stale.IsZero(), Err: g.fault,
		}
		if g.at.IsZero() {
			s.Trip, s.Recover = 0, 0
		} else {
			s.Verdict = verdict(s)
		}
		l.Signals = append(l.Signals, s)
	}
	slices.SortFunc(l.Signals, func(a, b Signal) int { return strings.Compare(a.Name, b.Name) })
	return l
}

func (b *Breaker) phase() string {
	switch b.ramp.step {
	case 0:
		return "probe"
	case b.drain():
		return "drain"
	}
	return "ramp"
}

func verdict(s Signal) string {
	switch {
	case s.Value >= s.Trip:
		return "sick"
	case s.Value < s.Recover:
		return "well"
	}
	return "between"
}

// ownSignals are what is measured here and switched on.
func (b *Breaker) ownSignals(now time.Time) []Signal {
	var list []Signal
	add := func(name string, value, trip, recovers float64) {
		s := Signal{Name: name, Value: value, Trip: trip, Recover: recovers, At: now}
		s.Verdict = verdict(s)
		list = append(list, s)
	}
	c := &b.config
	b.window.slide(now)
	if c.Failures > 0 {
		add("failures", float64(b.row), float64(c.Failures), 1)
	}
	if c.Ratio > 0 {
		share, _ := b.window.share(c.Samples)
		add("ratio", share, c.Ratio, c.Ratio)
	}
	if b.window.times != nil {
		p99, _ := b.window.times.p99(c.Samples)
		add("latency", p99.Seconds(), c.Latency.Seconds(), c.Latency.Seconds()/2)
	}
	if c.DeadLetters > 0 {
		add("dead_letters", b.window.deadRate(), c.DeadLetters, c.DeadLetters)
	}
	if c.Inflight && b.limit > 0 {
		// In-flight says something only together with throughput.
		share := 0.0
		if !b.meter.jamSince.IsZero() {
			share = float64(b.inflight) / float64(b.limit)
		}
		add("inflight", share, jamInflight, jamInflight)
	}
	return list
}
