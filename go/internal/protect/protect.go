package protect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/go/internal/breaker"
)

// tickInterval is how late what time alone does may be seen to.
const tickInterval = 200 * time.Millisecond

// ErrStopped is the answer after Run has ended.
var ErrStopped = errors.New("destinations are protected no more: the daemon stops")

// Options of New. All may be left out.
type Options struct {
	// Host names this host to others; no two that share a board may have the same.
	Host  string
	Board Board            // nil: this host is alone
	Now   func() time.Time // nil: time.Now; what gates are told must be of the same clock
	// Changed hears each transition, in order, from a goroutine that may be kept waiting.
	Changed func(Change)
	Log     *slog.Logger // nil: slog.Default
}

// Target is one configured destination.
type Target struct {
	ID      uint32 // not 0
	Name    string
	Breaker breaker.Config
	Groups  []string // whose breakers it passes through as well
	Signals []Signal
	// Limit is how many attempts may be in flight, at any time; nil: not known.
	Limit func() int
}

// Group is a dependency that several destinations share.
type Group struct {
	Name    string
	Breaker breaker.Config
	Signals []Signal
}

// Config is all that a reload may change.
type Config struct {
	Targets []Target
	Groups  []Group
	Alerts  Alerts
}

// Service holds the breakers of all destinations and groups.
type Service struct {
	options Options
	ctx     context.Context // of all that runs beside
	cancel  context.CancelFunc
	running sync.WaitGroup
	gates   atomic.Pointer[map[uint32]*Gate]
	tokens  atomic.Uint64
	news    news
	sharing sharing
	alerts  poster

	mu       sync.Mutex
	circuits map[string]*circuit
	pollers  []*poller
	stopped  bool
}

// New makes a service without destinations; Apply gives it some.
func New(o Options) *Service {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Changed == nil {
		o.Changed = func(Change) {}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	s := &Service{options: o, circuits: map[string]*circuit{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.gates.Store(&map[uint32]*Gate{})
	s.news.init()
	s.sharing.init(s)
	s.alerts.init(o.Log, o.Host)
	return s
}

// Apply makes c what is protected. Breakers that were there before keep their state, and gates stay
// the same ones. A signal's Source belongs to the service then and is closed when it is no longer
// given; giving the same one again keeps it. After an error nothing has changed.
func (s *Service) Apply(c Config) error {
	if err := c.Check(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return ErrStopped
	}
	circuits := map[string]*circuit{}
	for _, g := range c.Groups {
		circuits[g.Name] = s.circuit(g.Name, true, g.Breaker)
	}
	for _, t := range c.Targets {
		circuits[t.Name] = s.circuit(t.Name, false, t.Breaker)
	}
	s.link(c.Targets, circuits)
	s.circuits = circuits
	s.poll(c)
	s.alerts.use(c.Alerts)
	return nil
}

// circuit goes on with the one of that name, or begins one.
func (s *Service) circuit(name string, group bool, config breaker.Config) *circuit {
	config = config.Normalized()
	if c := s.circuits[name]; c != nil && c.group == group {
		c.do(func(b *breaker.Breaker, now time.Time) {
			c.probeTime = config.ProbeTime
			b.Configure(now, config)
		})
		return c
	}
	return &circuit{
		service: s, name: name, group: group, probeTime: config.ProbeTime,
		breaker: breaker.New(name, s.options.Host, config, s.options.Now()),
	}
}

// link leads each gate through its circuits, over the links that it has already where they stay.
func (s *Service) link(targets []Target, circuits map[string]*circuit) {
	old, gates := *s.gates.Load(), map[uint32]*Gate{}
	through := map[*circuit][]*link{}
	ways := map[*Gate][]*link{}
	members := map[string][]string{}
	for _, t := range targets {
		g := old[t.ID]
		if g == nil {
			g = newGate(t.ID)
		}
		gates[t.ID] = g
		if limit := t.Limit; limit != nil {
			g.limits.Store(&limit)
		} else {
			g.limits.Store(nil)
		}
		names := slices.Compact(slices.Sorted(slices.Values(t.Groups)))
		members[t.Name] = slices.Clone(names)
		for _, name := range names {
			members[name] = append(members[name], t.Name)
		}
		for _, name := range append(names, t.Name) {
			c := circuits[name]
			l := &link{gate: g, circuit: c}
			for _, had := range *g.links.Load() {
				if had.circuit == c {
					l = had
				}
			}
			through[c] = append(through[c], l)
			ways[g] = append(ways[g], l)
		}
	}
	// The new ways first: a gate that meets a link that is gone looks for its ways again.
	for g, links := range ways {
		g.links.Store(&links)
	}
	for id, g := range old {
		if gates[id] == nil {
			g.removed.Store(true)
			g.links.Store(&[]*link{})
		}
	}
	s.gates.Store(&gates)
	for _, c := range circuits {
		c.relink(through[c], members[c.name])
	}
	for name, c := range s.circuits {
		if circuits[name] != c {
			c.relink(nil, nil)
		}
	}
	for _, g := range gates {
		g.signal()
	}
}

// Check finds what Apply would refuse.
func (c Config) Check() error {
	if err := c.Alerts.check(); err != nil {
		return err
	}
	kinds := map[string]string{}
	for _, g := range c.Groups {
		if kinds[g.Name] != "" {
			return fmt.Errorf("group %q is given twice", g.Name)
		}
		kinds[g.Name] = "group"
	}
	ids := map[uint32]string{}
	for _, t := range c.Targets {
		if kind := kinds[t.Name]; kind != "" {
			return fmt.Errorf("destination %q has the name of another %s", t.Name, kind)
		}
		if other, taken := ids[t.ID]; taken || t.ID == 0 {
			return fmt.Errorf("destination %q: id %d is not its own (%q)", t.Name, t.ID, other)
		}
		ids[t.ID] = t.Name
		for _, g := range t.Groups {
			if kinds[g] != "group" {
				return fmt.Errorf("destination %q: there is no group %q", t.Name, g)
			}
		}
		kinds[t.Name] = "destination"
	}
	return nil
}

// Gate is the one of a destination, the same one over reloads. One that Apply was not told of
// admits everything.
func (s *Service) Gate(destination uint32) *Gate {
	if g := (*s.gates.Load())[destination]; g != nil {
		return g
	}
	return newGate(destination)
}

// Run does what is to be done beside the gates, until ctx ends; then it closes the sources. It is
// called once. Gates work on afterwards, but nobody is told.
func (s *Service) Run(ctx context.Context) {
	s.running.Go(func() { s.tell(s.ctx) })
	s.running.Go(func() { s.alerts.run(s.ctx) })
	if s.options.Board != nil {
		s.running.Go(func() { s.listen(s.ctx) })
		s.running.Go(func() { s.sharing.run(s.ctx) })
	}
	ticker := time.NewTicker(tickInterval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-ticker.C:
			s.tick()
		}
	}
	s.mu.Lock()
	s.stopped = true
	for _, p := range s.pollers {
		p.stop(nil)
	}
	s.pollers = nil
	s.mu.Unlock()
	s.cancel()
	s.running.Wait()
}

func (s *Service) tick() {
	hosts := s.hosts()
	for _, c := range s.all() {
		limit := c.limit()
		c.do(func(b *breaker.Breaker, now time.Time) {
			b.Limit(limit)
			b.Hosts(now, hosts)
			b.Advance(now)
		})
	}
	s.sharing.watch()
}

// all gives the circuits, by name.
func (s *Service) all() []*circuit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.circuits), func(a, b *circuit) int {
		return strings.Compare(a.name, b.name)
	})
}

// localToken makes a token where there is no board to give one.
func (s *Service) localToken() uint64 { return s.tokens.Add(1) }
