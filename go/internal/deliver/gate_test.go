package deliver

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/go/internal/destination"
	"sluice/go/internal/event"
)

// countingGate admits up to allowance (0: everything) and keeps the books.
type countingGate struct {
	changed chan struct{}
	wait    time.Duration

	mu        sync.Mutex
	bounded   bool
	shut      bool
	allowance int
	admitted  int
	reported  int
	withdrawn int
	failures  int
	drains    int
	drained   func()
}

func (g *countingGate) Admit(_ time.Time, n int) (int, time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.bounded {
		n = min(n, g.allowance)
		g.allowance -= n
	}
	g.admitted += n
	return n, g.wait
}

func (g *countingGate) Report(_ time.Time, r destination.Result, _ event.OutcomeKind,
	_ time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reported++
	if r.Kind != destination.Delivered {
		g.failures++
	}
}

func (g *countingGate) Withdraw(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.withdrawn += n
	if !g.shut {
		g.allowance += n
	}
}

func (g *countingGate) Drained(time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.drains++; g.drained != nil {
		g.drained()
	}
}

func (g *countingGate) drainCount() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.drains
}

// close lets nothing pass any more.
func (g *countingGate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.bounded, g.allowance, g.shut = true, 0, true
}

func (g *countingGate) Changed() <-chan struct{} { return g.changed }

func (g *countingGate) allow(n int) {
	g.mu.Lock()
	g.allowance += n
	g.mu.Unlock()
}

func (g *countingGate) balanced(t *testing.T) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.admitted != g.reported+g.withdrawn {
		t.Errorf("%d admitted, %d reported, %d withdrawn", g.admitted, g.reported, g.withdrawn)
	}
}

func TestAClosedGateHoldsEverythingUntilItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, r := newQueue(t), accepting()
		gate := &countingGate{bounded: true, changed: make(chan struct{}, 1)}
		q.add(10, 0)
		s := start(t, q, Options{}, Target{Destination: r, Gate: gate})
		synctest.Wait()
		if len(r.seen()) != 0 || len(q.kinds()) != 0 {
			t.Errorf("%d went through a closed gate", len(r.seen()))
		}
		gate.allow(1) // one probe
		gate.changed <- struct{}{}
		synctest.Wait()
		if len(r.seen()) != 1 {
			t.Errorf("%d probes", len(r.seen()))
		}
		gate.allow(100)
		gate.changed <- struct{}{}
		synctest.Wait()
		if len(r.seen()) != 10 {
			t.Errorf("%d of 10", len(r.seen()))
		}
		stop(t, s)
		gate.balanced(t)
		q.check()
	})
}

func TestAGateIsAskedAgainAfterItsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, r := newQueue(t), refusing(500, 0)
		gate := &countingGate{bounded: true, wait: 10 * time.Second}
		q.add(3, 0)
		begin := time.Now()
		s := start(t, q, Options{}, Target{Destination: r, Gate: gate})
		synctest.Wait()
		gate.allow(3)
		time.Sleep(gate.wait + time.Second)
		synctest.Wait()
		if len(r.times) != 3 || r.times[0].Sub(begin) != 10*time.Second {
			t.Errorf("attempts at %v", r.times)
		}
		if gate.failures != 3 {
			t.Errorf("told of %d failures", gate.failures)
		}
		stop(t, s)
		gate.balanced(t)
		q.check()
	})
}
