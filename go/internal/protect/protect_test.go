package protect

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/go/internal/breaker"
	"sluice/go/internal/destination"
	"sluice/go/internal/event"
)

func TestAnHourOfOutageEndsWithEverythingDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &backend{hangs: 5 * time.Millisecond}
		var mu sync.Mutex
		var changes []Change
		s := serve(t, Options{Changed: func(c Change) {
			mu.Lock()
			changes = append(changes, c)
			mu.Unlock()
		}}, Config{Targets: []Target{billing()}})
		to.set(true)
		r := run(t, s.Gate(1), to, 20_000)
		await(t, time.Second, "open", func() bool { return s.NotClosed(1) })
		began := time.Now()
		if n := to.count(); n > 5+8 {
			t.Errorf("%d attempts before it opened", n)
		}
		pass(time.Hour)
		// 30 s, 60 s, 120 s, 240 s, then every 300 s.
		if probes := len(to.since(began.Add(time.Second))); probes < 12 || probes > 16 {
			t.Errorf("%d probes in an hour", probes)
		}
		to.set(false)
		await(t, 6*time.Minute, "the probe", func() bool { return s.List()[0].Phase == "ramp" })
		ramp := time.Now()
		await(t, 10*time.Minute, "closed", func() bool { return !s.NotClosed(1) })
		if r.left() > 0 {
			t.Errorf("closed with %d left", r.left())
		}
		for _, step := range []struct {
			from, to time.Duration
			rate     float64
		}{{0, 4 * time.Second, 10}, {6 * time.Second, 9 * time.Second, 50},
			{11 * time.Second, 14 * time.Second, 200}} {
			n := len(to.since(ramp.Add(step.from))) - len(to.since(ramp.Add(step.to)))
			if most := step.rate*(step.to-step.from).Seconds() + 5; float64(n) > most ||
				float64(n) < most/2 {
				t.Errorf("%d attempts from %v to %v of the ramp", n, step.from, step.to)
			}
		}
		to.peak(t, 8)
		mu.Lock()
		defer mu.Unlock()
		first, last := changes[0], changes[len(changes)-1]
		if first.From != breaker.Closed || first.To != breaker.Open ||
			first.Reason != "5 failures in a row, last: connect: refused" ||
			first.Until.Sub(first.At) != 30*time.Second || first.Look.Kind != "destination" {
			t.Errorf("first change %+v", first)
		}
		if last.To != breaker.Closed || last.Reason != "healthy and drained" {
			t.Errorf("last change %+v", last)
		}
	})
}

func TestAnIdleDestinationThatRecoversTakesNoTime(t *testing.T) {
	for name, options := range map[string]Options{
		"alone": {}, "on a board": {Host: "a", Board: (&hub{}).join()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				to := &backend{}
				if options.Board != nil {
					options.Board = (&hub{}).join() // its channel is of this bubble
				}
				s := serve(t, options, Config{Targets: []Target{billing()}})
				to.set(true)
				r := run(t, s.Gate(1), to, 5)
				await(t, time.Second, "open", func() bool { return s.NotClosed(1) })
				r.mu.Lock()
				r.queue = 0 // an operator dropped them
				r.mu.Unlock()
				before := r.calls()
				pass(10 * time.Minute)
				if n := r.calls() - before; n > 100 {
					t.Errorf("asked %d times in ten idle minutes", n)
				}
				to.set(false)
				r.add(1)
				await(t, 2*time.Minute, "closed", func() bool { return !s.NotClosed(1) })
				if r.left() > 0 {
					t.Error("not delivered")
				}
			})
		})
	}
}

// trip fails often enough to open what stands behind a gate.
func trip(g *Gate) {
	for range breaker.FailuresDefault {
		if n, _ := g.Admit(time.Now(), 1); n == 1 {
			g.Report(time.Now(), destination.Failure(errors.New("reset")), event.Retry, 0)
		}
	}
}

func TestAGroupHasOneProbeForAllItsMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := breaker.Default()
		own.Failures, own.Ratio = 0, 0
		targets := make([]Target, 5)
		for i := range targets {
			targets[i] = Target{
				ID: uint32(i + 1), Name: string(rune('a' + i)), Breaker: own, Groups: []string{"db"},
			}
		}
		s := serve(t, Options{}, Config{
			Targets: targets, Groups: []Group{{Name: "db", Breaker: breaker.Default()}},
		})
		to := &backend{hangs: 100 * time.Millisecond, down: true}
		runners := make([]*runner, len(targets))
		for i := range targets {
			runners[i] = run(t, s.Gate(uint32(i+1)), to, 50)
		}
		await(t, time.Second, "open", func() bool { return s.NotClosed(3) })
		if states := at(s); states["db"] != breaker.Open || states["a"] != breaker.Closed {
			t.Errorf("%v", states)
		}
		pass(time.Second)
		to.forget()
		pass(10 * time.Minute)
		to.peak(t, 1)
		to.set(false)
		await(t, 15*time.Minute, "closed", func() bool { return !s.NotClosed(3) })
		for i, r := range runners {
			if r.left() > 0 {
				t.Errorf("closed with %d left at %s", r.left(), targets[i].Name)
			}
		}
	})
}

func TestAMemberThatIsDownDoesNotHoldItsGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, Options{}, Config{
			Targets: []Target{billing("db"), {
				ID: 2, Name: "crm", Breaker: breaker.Default(), Groups: []string{"db"},
			}},
			Groups: []Group{{Name: "db", Breaker: breaker.Default()}},
		})
		down, well := &backend{down: true}, &backend{}
		run(t, s.Gate(1), down, 100)
		await(t, time.Second, "open", func() bool { return at(s)["db"] == breaker.Open })
		r := run(t, s.Gate(2), well, 100)
		// The group's probe may be sent by the one that is down a few times.
		await(t, 30*time.Minute, "the group closed", func() bool {
			return at(s)["db"] == breaker.Closed && r.left() == 0
		})
		if s.NotClosed(2) || !s.NotClosed(1) {
			t.Errorf("%v", at(s))
		}
	})
}

func TestAReloadKeepsStatesAndForgetsWhatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		groups := []Group{{Name: "db", Breaker: breaker.Default()}}
		s := serve(t, Options{}, Config{Targets: []Target{billing("db")}, Groups: groups})
		g := s.Gate(1)
		g.Admit(time.Now(), 8) // in flight over the reload
		trip(g)
		if states := at(s); states["billing"] != breaker.Open || states["db"] != breaker.Open {
			t.Fatalf("%v", states)
		}
		two := Target{ID: 2, Name: "crm", Groups: []string{"db"}}
		err := s.Apply(Config{Targets: []Target{billing(), two}, Groups: groups})
		if err != nil {
			t.Fatal(err)
		}
		if s.Gate(1) != g || at(s)["billing"] != breaker.Open || at(s)["db"] != breaker.Open {
			t.Errorf("%v", at(s))
		}
		if !s.NotClosed(2) {
			t.Error("who joins an open group passes")
		}
		for range 8 {
			g.Report(time.Now(), destination.Delivery(200), event.Done, 0)
		}
		if err := s.Apply(Config{Targets: []Target{two}, Groups: groups}); err != nil {
			t.Fatal(err)
		}
		if n, _ := g.Admit(time.Now(), 8); n != 0 {
			t.Errorf("%d for a destination that is gone", n)
		}
		if s.NotClosed(1) {
			t.Error("a destination that is gone degrades its sources")
		}
		if l := s.List(); len(l) != 2 || strings.Join(l[1].Members, " ") != "crm" {
			t.Errorf("%v", l)
		}
	})
}

func TestWhatIsInFlightOverAReloadIsCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		groups := []Group{{Name: "db"}, {Name: "queue"}}
		s := serve(t, Options{}, Config{Targets: []Target{billing("db")}, Groups: groups})
		g := s.Gate(1)
		g.Admit(time.Now(), 3)
		for _, group := range []string{"queue", "db", "queue"} {
			if err := s.Apply(Config{Targets: []Target{billing(group)}, Groups: groups}); err != nil {
				t.Fatal(err)
			}
			g.Admit(time.Now(), 1)
		}
		g.Withdraw(2)
		for range 4 {
			g.Report(time.Now(), destination.Delivery(200), event.Done, 0)
		}
		nothingFlies(t, s)
	})
}

func TestAConfigThatContradictsItselfChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, Options{}, Config{Targets: []Target{billing()}})
		for want, c := range map[string]Config{
			`no group "db"`:    {Targets: []Target{billing("db")}},
			"another group":    {Targets: []Target{billing()}, Groups: []Group{{Name: "billing"}}},
			"is given twice":   {Groups: []Group{{Name: "db"}, {Name: "db"}}},
			"is not its own":   {Targets: []Target{billing(), {ID: 1, Name: "crm"}}},
			"id 0":             {Targets: []Target{{Name: "crm"}}},
			"whsec_ and":       {Alerts: Alerts{URL: "http://ops", Secret: "whsec_!"}},
			"http:// or https": {Alerts: Alerts{URL: "ftp://ops"}},
		} {
			if err := s.Apply(c); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		}
		if l := s.List(); len(l) != 1 || l[0].Name != "billing" {
			t.Errorf("%v", l)
		}
	})
}

func TestAnOperatorForcesABreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, Options{}, Config{Targets: []Target{billing()}})
		to := &backend{hangs: 10 * time.Millisecond}
		r := run(t, s.Gate(1), to, 0)
		look, err := s.Set("billing", "open", 10*time.Minute, "alice")
		if err != nil || look.State != breaker.Open || !look.Held ||
			time.Until(look.HeldUntil) != 10*time.Minute {
			t.Fatalf("%+v, %v", look, err)
		}
		r.add(10)
		pass(9 * time.Minute)
		if to.count() > 0 {
			t.Error("sent though forced open")
		}
		await(t, 2*time.Minute, "closed", func() bool { return !s.NotClosed(1) })
		if _, err := s.Set("billing", "closed", 0, "alice"); err != nil {
			t.Fatal(err)
		}
		to.set(true)
		r.add(1)
		pass(time.Second)
		if s.NotClosed(1) {
			t.Error("opened though forced closed")
		}
		if look, err = s.Set("billing", "auto", 0, "bob"); err != nil || look.Held {
			t.Errorf("%+v, %v", look, err)
		}
		await(t, time.Minute, "open", func() bool { return s.NotClosed(1) })
		_, err = s.Set("biling", "open", 0, "alice")
		if !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "billing") {
			t.Error(err)
		}
		if _, err = s.Set("billing", "half_open", 0, "alice"); !errors.Is(err, ErrSetState) {
			t.Error(err)
		}
	})
}

func TestASlowListenerMissesWhatItHasNoRoomFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, Options{}, Config{Targets: []Target{billing()}})
		slow, gone := s.Transitions(), s.Transitions()
		gone.Close()
		for i := range subscriptionMax + 10 {
			if _, err := s.Set("billing", []string{"open", "closed"}[i%2], 0, "alice"); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if len(slow.Changes()) != subscriptionMax || slow.Missed() != 10 {
			t.Errorf("%d wait, %d missed", len(slow.Changes()), slow.Missed())
		}
		if len(gone.Changes()) > 0 {
			t.Error("told after Close")
		}
		last := uint64(0)
		for range subscriptionMax {
			c := <-slow.Changes()
			if c.Term <= last {
				t.Fatalf("term %d after %d", c.Term, last)
			}
			last = c.Term
		}
	})
}

func TestAFilteredDeliveryIsNoOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, Options{}, Config{Targets: []Target{billing()}})
		g := s.Gate(1)
		g.Admit(time.Now(), 10)
		for range 10 {
			g.Report(time.Now(), destination.Failure(errors.New("x")), event.Skip, 0)
		}
		if s.NotClosed(1) {
			t.Error("opened")
		}
	})
}

func TestGatesAreSafeWhileTheConfigChanges(t *testing.T) {
	groups := []Group{{Name: "db"}, {Name: "queue"}}
	s := serve(t, Options{}, Config{Targets: []Target{billing("db")}, Groups: groups})
	g := s.Gate(1)
	var working sync.WaitGroup
	for i := range 4 {
		working.Go(func() {
			for j := range 2000 {
				n, _ := g.Admit(time.Now(), 3)
				switch {
				case n == 0:
				case (i+j)%7 == 0:
					g.Withdraw(n)
					g.Drained(time.Now())
				default:
					for range n {
						g.Report(time.Now(), destination.Delivery(200), event.Done, time.Microsecond)
					}
				}
				s.NotClosed(1)
			}
		})
	}
	for i := range 100 {
		target := billing([]string{"db", "queue"}[i%2 : 1+i%2]...)
		if i%5 == 0 {
			target = billing("queue", "db")
		}
		if err := s.Apply(Config{Targets: []Target{target}, Groups: groups}); err != nil {
			t.Fatal(err)
		}
		s.List()
	}
	working.Wait()
	nothingFlies(t, s)
}

func nothingFlies(t *testing.T, s *Service) {
	t.Helper()
	for _, c := range s.all() {
		c.mu.Lock()
		for _, l := range c.links {
			if l.inflight != 0 {
				t.Errorf("%d in flight through %s", l.inflight, c.name)
			}
		}
		if n := c.breaker.InFlight(); n != 0 {
			t.Errorf("%s has %d in flight", c.name, n)
		}
		c.mu.Unlock()
	}
}
