package protect

import (
	"context"
	"maps"
	"sync"
	"time"

	"sluice/go/internal/breaker"
	"sluice/go/internal/signal"
)

// The bounds of polling.
const (
	IntervalDefault = 5 * time.Second
	IntervalMin     = 250 * time.Millisecond
	TimeoutDefault  = 5 * time.Second
)

// Signal is one configured source of levels.
type Signal struct {
	// Name is the level's where the source gives one of that name, or without a name; else levels
	// are called Name.Level. It is unique within a breaker.
	Name     string
	Interval time.Duration // 0: IntervalDefault; at least IntervalMin
	Timeout  time.Duration // of one read; 0: TimeoutDefault
	For      time.Duration // replaces the levels' own where it is not 0
	// Source is comparable, as a pointer is.
	Source signal.Source
}

func (s Signal) normalized() Signal {
	if s.Interval <= 0 {
		s.Interval = IntervalDefault
	}
	s.Interval = max(s.Interval, IntervalMin)
	if s.Timeout <= 0 {
		s.Timeout = TimeoutDefault
	}
	return s
}

// poller reads one source for one circuit.
type poller struct {
	circuit *circuit
	service *Service
	cancel  context.CancelFunc

	mu    sync.Mutex
	now   Signal
	given map[string]bool // levels that the circuit has of it
	dead  bool            // and that was logged
	over  bool
}

// poll makes the pollers those of a config.
func (s *Service) poll(c Config) {
	var next []*poller
	keep := func(name string, signals []Signal) {
		for _, signal := range signals {
			next = append(next, s.poller(s.circuits[name], signal.normalized()))
		}
	}
	for _, g := range c.Groups {
		keep(g.Name, g.Signals)
	}
	for _, t := range c.Targets {
		keep(t.Name, t.Signals)
	}
	kept := map[*poller]bool{}
	for _, p := range next {
		kept[p] = true
	}
	for _, p := range s.pollers {
		if !kept[p] {
			p.stop(successor(p, next))
		}
	}
	s.pollers = next
}

// successor is the poller of the same signal; nil: there is none.
func successor(p *poller, next []*poller) *poller {
	for _, n := range next {
		if n.circuit == p.circuit && n.now.Name == p.now.Name {
			return n
		}
	}
	return nil
}

// poller goes on with the one of that source, or begins one.
func (s *Service) poller(c *circuit, signal Signal) *poller {
	for _, p := range s.pollers {
		if p.now.Source == signal.Source && p.circuit == c {
			p.use(signal)
			return p
		}
	}
	ctx, cancel := context.WithCancel(s.ctx)
	p := &poller{circuit: c, service: s, cancel: cancel, now: signal, given: map[string]bool{}}
	s.running.Go(func() { p.run(ctx) })
	return p
}

func (p *poller) use(signal Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if signal.Name != p.now.Name {
		p.forget(nil)
	}
	p.now = signal
}

// stop ends it. The source is closed after the read that may be under way. Its levels stay with the
// poller that follows, if there is one: a reload is no recovery.
func (p *poller) stop(next *poller) {
	p.cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	if next == nil {
		p.forget(nil)
		return
	}
	next.mu.Lock()
	maps.Copy(next.given, p.given)
	next.mu.Unlock()
}

func (p *poller) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			if err := p.now.Source.Close(); err != nil {
				p.service.options.Log.Warn("closing a signal", "breaker", p.circuit.name,
					"signal", p.now.Name, "error", err)
			}
			return
		case <-timer.C:
		}
		timer.Reset(p.read(ctx))
	}
}

// read asks the source once and gives the time until the next.
func (p *poller) read(ctx context.Context) time.Duration {
	p.mu.Lock()
	signal := p.now
	p.mu.Unlock()
	call, cancel := context.WithTimeout(ctx, signal.Timeout)
	levels, err := signal.Source.Read(call)
	cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over || ctx.Err() != nil || p.now.Name != signal.Name {
		return 0
	}
	if err != nil {
		p.flag(err)
	} else {
		p.take(levels)
	}
	if p.dead != (err != nil) {
		p.dead = err != nil
		p.log(err)
	}
	return p.now.Interval
}

func (p *poller) log(err error) {
	log := p.service.options.Log.With("breaker", p.circuit.name, "signal", p.now.Name)
	if err != nil {
		log.Warn("signal is dead, its last state stays", "error", err)
	} else {
		log.Info("signal is back")
	}
}

func (p *poller) take(levels []breaker.Level) {
	given := map[string]bool{}
	p.circuit.do(func(b *breaker.Breaker, now time.Time) {
		for _, l := range levels {
			switch l.Signal {
			case "", p.now.Name:
				l.Signal = p.now.Name
			default:
				l.Signal = p.now.Name + "." + l.Signal
			}
			if p.now.For > 0 {
				l.For = p.now.For
			}
			given[l.Signal] = true
			b.Level(now, l)
		}
	})
	p.forget(given)
}

// forget drops the levels that the source gives no more.
func (p *poller) forget(given map[string]bool) {
	p.circuit.do(func(b *breaker.Breaker, now time.Time) {
		for name := range p.given {
			if !given[name] {
				b.Forget(now, name)
			}
		}
	})
	p.given = given
}

func (p *poller) flag(err error) {
	if len(p.given) == 0 {
		p.given = map[string]bool{p.now.Name: true}
	}
	p.circuit.do(func(b *breaker.Breaker, now time.Time) {
		for name := range p.given {
			b.Stale(now, name, err.Error())
		}
	})
}
