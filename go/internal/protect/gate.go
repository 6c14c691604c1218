package protect

import (
	"sync/atomic"
	"time"

	"sluice/go/internal/breaker"
	"sluice/go/internal/destination"
	"sluice/go/internal/event"
)

// Gate stands before one destination. Its methods are safe for concurrent use; Admit, the Withdraw
// of what a lease did not fill, and Drained come from one goroutine, in that order.
type Gate struct {
	id      uint32
	changed chan struct{}
	links   atomic.Pointer[[]*link] // groups by name, then its own
	removed atomic.Bool             // the destination is no longer configured: nothing passes
	limits  atomic.Pointer[func() int]
}

func newGate(id uint32) *Gate {
	g := &Gate{id: id, changed: make(chan struct{}, 1)}
	g.links.Store(&[]*link{})
	return g
}

// Changed is signalled when Admit may give more than it did. It has one listener.
func (g *Gate) Changed() <-chan struct{} { return g.changed }

func (g *Gate) signal() {
	select {
	case g.changed <- struct{}{}:
	default:
	}
}

func (g *Gate) limit() int {
	if f := g.limits.Load(); f != nil {
		return (*f)()
	}
	return 0
}

// Admit asks to begin n attempts and gives how many may. Each is followed by one Report or counted
// in one Withdraw. After fewer than n, ask again when Changed is signalled, and at the latest after
// wait (0: only then).
func (g *Gate) Admit(now time.Time, n int) (admitted int, wait time.Duration) {
	if n <= 0 || g.removed.Load() {
		return 0, 0
	}
	links := g.lock()
	defer unlock(links, now, g)
	admitted, blocker := n, -1
	for i, l := range links {
		room, after := l.circuit.room(now, g, admitted)
		if room < admitted {
			admitted, wait, blocker = room, after, i
		}
		if room == 0 {
			break
		}
	}
	for i, l := range links {
		switch {
		case admitted > 0:
			l.circuit.breaker.Take(g.id, admitted)
			l.inflight += admitted
		case i != blocker:
			l.circuit.breaker.Excuse(g.id)
		}
	}
	return admitted, wait
}

// room asks one circuit, whose lock is held, and sees to the lease that it may want.
func (c *circuit) room(now time.Time, g *Gate, n int) (room int, wait time.Duration) {
	room, wait = c.breaker.Room(now, g.id, n)
	if room > 0 || !c.breaker.WantsProbe() || c.leasing {
		return room, wait
	}
	if c.service.options.Board != nil {
		c.leasing = true
		c.service.ask(c)
		return room, wait
	}
	c.breaker.Grant(now, c.service.localToken(), now.Add(c.probeTime))
	return c.breaker.Room(now, g.id, n)
}

// Report tells what became of an admitted attempt, and of its delivery.
func (g *Gate) Report(now time.Time, r destination.Result, o event.OutcomeKind,
	took time.Duration) {
	if o == event.Skip {
		g.Withdraw(1)
		return
	}
	a := breaker.Attempt{
		Verdict: r.Kind, Code: r.Code, RetryAfter: r.RetryAfter, Took: took, Err: r.Err,
		Dead: o == event.Dead,
	}
	for _, l := range *g.links.Load() {
		c := l.circuit
		c.mu.Lock()
		if l.inflight > 0 && !l.gone { // else it was admitted before it was linked
			l.inflight--
			c.breaker.Report(now, a)
			c.collect(now, nil)
		}
		c.mu.Unlock()
	}
}

// Withdraw gives n admissions back unused.
func (g *Gate) Withdraw(n int) {
	for _, l := range *g.links.Load() {
		c := l.circuit
		c.mu.Lock()
		if n := min(n, l.inflight); n > 0 && !l.gone {
			l.inflight -= n
			c.breaker.Withdraw(n)
			c.collect(c.service.options.Now(), nil)
		}
		c.mu.Unlock()
	}
}

// Drained tells that nothing waits that is due: a lease gave less than was admitted.
func (g *Gate) Drained(now time.Time) {
	for _, l := range *g.links.Load() {
		if l.circuit.state.Load() == uint32(breaker.Closed) {
			continue // nobody waits for it
		}
		l.circuit.mu.Lock()
		if !l.gone {
			l.circuit.breaker.Drained(now, g.id)
			l.circuit.collect(now, nil)
		}
		l.circuit.mu.Unlock()
	}
}

// lock takes the locks of all circuits that the gate passes through now.
func (g *Gate) lock() []*link {
	for {
		links := *g.links.Load()
		fresh := true
		for _, l := range links {
			l.circuit.mu.Lock()
			fresh = fresh && !l.gone
		}
		if fresh {
			return links
		}
		for _, l := range links {
			l.circuit.mu.Unlock()
		}
	}
}

func unlock(links []*link, now time.Time, asking *Gate) {
	for _, l := range links {
		l.circuit.collect(now, asking)
		l.circuit.mu.Unlock()
	}
}

// NotClosed tells that a circuit on the way to a destination holds back. It is cheap.
func (s *Service) NotClosed(destination uint32) bool {
	return s.State(destination) != breaker.Closed
}

// State is the most cautious state on the way to a destination. It is cheap.
func (s *Service) State(destination uint32) breaker.State {
	gates := s.gates.Load()
	state := breaker.Closed
	if g := (*gates)[destination]; g != nil {
		for _, l := range *g.links.Load() {
			switch at := breaker.State(l.circuit.state.Load()); at {
			case breaker.Open:
				return at
			case breaker.HalfOpen:
				state = at
			}
		}
	}
	return state
}
