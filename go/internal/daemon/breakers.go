package daemon

import (
	"context"
	"iter"
	"time"

	"sluice/go/internal/admin"
	"sluice/go/internal/breaker"
	"sluice/go/internal/observe"
	"sluice/go/internal/protect"
)

// breakers shows the admin API what the protecting service holds.
type breakers struct{ *protect.Service }

// List gives all by name.
func (b breakers) List() []admin.Breaker {
	var list []admin.Breaker
	for _, l := range b.Service.List() {
		list = append(list, adminBreaker(l))
	}
	return list
}

// Set holds one, or lets it go.
func (b breakers) Set(name, state string, span time.Duration, by string) error {
	_, err := b.Service.Set(name, state, span, by)
	return err
}

// Watch gives each change of a state from now on, until ctx ends.
func (b breakers) Watch(ctx context.Context) iter.Seq[admin.BreakerChange] {
	heard := b.Transitions()
	return func(yield func(admin.BreakerChange) bool) {
		defer heard.Close()
		for {
			select {
			case <-ctx.Done():
				return
			case c := <-heard.Changes():
				if !c.Moved() {
					continue // a step of the ramp
				}
				if !yield(admin.BreakerChange{From: c.From.String(), Breaker: adminBreaker(c.Look)}) {
					return
				}
			}
		}
	}
}

func adminBreaker(l protect.Look) admin.Breaker {
	b := admin.Breaker{
		Name: l.Name, State: l.State.String(), Group: l.Kind == "group", Members: l.Members,
		Reason: l.Reason, Since: l.Since, Probe: l.Probe, Phase: l.Phase, Rate: l.Rate,
		Held: l.Held, HeldUntil: l.HeldUntil, Opened: l.Opened, Hosts: l.Hosts, Alone: l.Alone,
	}
	for _, s := range l.Signals {
		b.Signals = append(b.Signals, admin.BreakerSignal{
			Name: s.Name, Value: s.Value, Trip: s.Trip, Recover: s.Recover, Verdict: s.Verdict,
			Stale: s.Stale, Error: s.Err, At: s.At,
		})
	}
	return b
}

// observeBreakers is what metrics show of all breakers.
func (d *Daemon) observeBreakers() []observe.BreakerLook {
	var list []observe.BreakerLook
	for _, l := range d.protect.List() {
		look := observe.BreakerLook{
			Name: l.Name, Group: l.Kind == "group", State: breakerNumbers[l.State], Alone: l.Alone,
		}
		for _, s := range l.Signals {
			if s.Verdict == "" {
				continue // it was never read
			}
			look.Signals = append(look.Signals,
				observe.BreakerSignal{Name: s.Name, Value: s.Value, Stale: s.Stale})
		}
		list = append(list, look)
	}
	return list
}

// breakerNumbers are the states as metrics count them.
var breakerNumbers = map[breaker.State]observe.Breaker{
	breaker.Closed: observe.Closed, breaker.HalfOpen: observe.HalfOpen,
	breaker.Open: observe.Open,
}
