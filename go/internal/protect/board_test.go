package protect

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"sluice/go/internal/breaker"
)

func TestTwoHostsSendExactlyOneProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hub{}
		// Others ask again for the lease just between the end of the probe and the note about it.
		to := &backend{hangs: breaker.ProbePause - noteDelay/2, down: true}
		hosts := make([]*Service, 3)
		runners := make([]*runner, 3)
		for i := range hosts {
			hosts[i] = serve(t, Options{Host: fmt.Sprint("host", i), Board: h.join()},
				Config{Targets: []Target{billing()}})
		}
		for i := range hosts {
			runners[i] = run(t, hosts[i].Gate(1), to, 300)
		}
		for i := range hosts {
			await(t, 2*time.Second, "open", func() bool { return hosts[i].NotClosed(1) })
		}
		pass(time.Second)
		quiet := time.Now()
		to.forget()
		pass(20 * time.Minute)
		to.peak(t, 1)
		// One after each cooldown: 30 s, 60 s, 120 s, 240 s, 300 s …, whoever sends it.
		if n := len(to.since(quiet)); n < 5 || n > 7 {
			t.Errorf("%d probes in twenty minutes", n)
		}
		to.set(false)
		await(t, 6*time.Minute, "the ramp", func() bool { return hosts[0].List()[0].Phase == "ramp" })
		ramp := time.Now()
		pass(4 * time.Second)
		if n := len(to.since(ramp)); n < 20 || n > 45 {
			t.Errorf("%d attempts in 4 s at 10/s for all hosts", n)
		}
		for i, s := range hosts {
			await(t, 20*time.Minute, "closed", func() bool { return !s.NotClosed(1) })
			if runners[i].left() > 0 {
				t.Errorf("host %d closed with %d left", i, runners[i].left())
			}
		}
	})
}

func TestHostsGoOnAloneAndJoinAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hub{}
		config := Config{Targets: []Target{billing()}}
		a := serve(t, Options{Host: "a", Board: h.join()}, config)
		b := serve(t, Options{Host: "b", Board: h.join()}, config)
		h.set(true)
		pass(time.Second)
		to := &backend{down: true}
		run(t, a.Gate(1), to, 10)
		await(t, time.Second, "open", func() bool { return a.NotClosed(1) })
		pass(20 * time.Second)
		if b.NotClosed(1) {
			t.Error("heard of it without a board")
		}
		if l := a.List()[0]; !l.Alone || l.Hosts != 2 {
			t.Errorf("%+v", l)
		}
		to.set(false)
		await(t, time.Minute, "the ramp", func() bool { return a.List()[0].Phase == "ramp" })
		to.set(true)
		await(t, time.Minute, "open again", func() bool { return at(a)["billing"] == breaker.Open })
		h.set(false)
		await(t, time.Second, "b hears where a stands", func() bool { return b.NotClosed(1) })
		if l := b.List()[0]; l.State != breaker.Open || l.Alone {
			t.Errorf("%+v", l)
		}
	})
}

func TestABoardThatHangsHoldsUpNoGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		board := (&hub{}).join()
		board.slow = make(chan struct{})
		s := serve(t, Options{Host: "a", Board: board}, Config{Targets: []Target{billing()}})
		g := s.Gate(1)
		trip(g)
		pass(31 * time.Second)
		for range 5 {
			before := time.Now()
			if n, _ := g.Admit(before, 1); n != 0 {
				t.Error("a probe without a lease")
			}
			if time.Since(before) > 0 {
				t.Error("the gate waited")
			}
			pass(5 * time.Second)
		}
		close(board.slow)
		to := &backend{}
		run(t, g, to, 1)
		await(t, 10*time.Second, "the ramp", func() bool { return to.count() == 1 })
	})
}

func TestALeaseThatIsNotUsedGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hub{}
		s := serve(t, Options{Host: "a", Board: h.join()}, Config{Targets: []Target{billing()}})
		g := s.Gate(1)
		trip(g)
		pass(31 * time.Second)
		g.Admit(time.Now(), 1)
		<-g.Changed()
		synctest.Wait()
		if n, _ := g.Admit(time.Now(), 1); n != 1 {
			t.Fatal("no probe")
		}
		g.Withdraw(1)
		g.Drained(time.Now())
		synctest.Wait()
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.grants != 1 || h.holder != 0 {
			t.Errorf("%d leases, held: %v", h.grants, h.holder != 0)
		}
	})
}

func TestAnOperatorsWordHoldsOnAllHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hub{}
		config := Config{Targets: []Target{billing()}}
		a := serve(t, Options{Host: "a", Board: h.join()}, config)
		b := serve(t, Options{Host: "b", Board: h.join()}, config)
		if _, err := a.Set("billing", "open", time.Hour, "alice"); err != nil {
			t.Fatal(err)
		}
		pass(2 * noteDelay)
		if l := b.List()[0]; l.State != breaker.Open || !l.Held || l.Reason != "forced open by alice" {
			t.Errorf("%+v", l)
		}
		if _, err := b.Set("billing", "auto", 0, "bob"); err != nil {
			t.Fatal(err)
		}
		pass(2 * noteDelay)
		if l := a.List()[0]; l.Held || l.State != breaker.HalfOpen {
			t.Errorf("%+v", l)
		}
	})
}
