package main

import (
	"context"
	"iter"
	"time"

	"sluice/go/internal/admin"
)

// worldBreakers are one of each kind and state.
func worldBreakers() []admin.Breaker {
	return []admin.Breaker{
		{
			Name: "archive", State: "open", Reason: "5 failures in a row, last: connect: refused\x1b[2J",
			Since: noon, Probe: noon.Add(30 * time.Second), Opened: 2, Hosts: 3,
		},
		{
			Name: "billing", State: "half_open", Members: []string{"orders-db"}, Since: noon,
			Reason: "the probe was delivered", Phase: "ramp", Rate: 50, Opened: 1, Hosts: 3, Alone: true,
			Signals: []admin.BreakerSignal{
				{Name: "p99", Value: 0.1234, Trip: 0.5, Recover: 0.25, Verdict: "well", At: noon},
				{Name: "queue", Value: 12345, Trip: 1e6, Recover: 1e5, Verdict: "sick", Stale: true,
					Error: "no answer within 2s", At: noon.Add(-time.Minute)},
			},
		},
		{
			Name: "orders-db", State: "closed", Group: true, Members: []string{"billing", "audit"},
			Since: noon.Add(-time.Hour), Reason: "healthy and drained",
		},
	}
}

func (w *world) List() []admin.Breaker { return w.breakers }

func (w *world) Set(name, state string, span time.Duration, by string) error {
	for i := range w.breakers {
		b := &w.breakers[i]
		if b.Name != name {
			continue
		}
		b.Held, b.HeldUntil = state != "auto", time.Time{}
		if b.Held {
			b.State, b.Phase, b.Probe, b.Reason = state, "", time.Time{}, "held by an operator"
		}
		if span > 0 {
			b.HeldUntil = noon.Add(span)
		}
	}
	return nil
}

func (w *world) Watch(context.Context) iter.Seq[admin.BreakerChange] {
	return func(yield func(admin.BreakerChange) bool) {
		yield(admin.BreakerChange{From: "closed", Breaker: w.breakers[0]})
	}
}
