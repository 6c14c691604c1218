package workers

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/go/internal/signal"
)

const (
	// PerBreakerMax bounds the workers of one breaker, reported and in Redis each.
	PerBreakerMax = 4096

	nameMax    = 128 // bytes of a worker's name
	ttlDefault = 15 * time.Second
	ttlMax     = 10 * time.Minute
	stateMax   = 365 * 24 * time.Hour
)

// The reasons for which a report is not taken.
var (
	// ErrUnwatched tells of a breaker that has no signal of this kind: the operator's to add.
	ErrUnwatched = errors.New("the breaker has no workers signal")
	// ErrFull tells that PerBreakerMax other workers live.
	ErrFull = errors.New("too many workers for one breaker")
	// ErrReport tells of a report that makes no sense: the worker's fault.
	ErrReport = errors.New("bad worker report")
)

// state is what a worker does.
type state uint8

const (
	idle state = iota
	busy
	lockWait
)

func parseState(text string) (state, error) {
	switch text {
	case "idle":
		return idle, nil
	case "busy":
		return busy, nil
	case "lock_wait":
		return lockWait, nil
	}
	return 0, fmt.Errorf(`state %.20q: want "idle", "busy" or "lock_wait"`, text)
}

// report is what one worker said.
type report struct {
	state state
	span  time.Duration // in that state, when it said so
	end   time.Time     // when it is forgotten
}

// Options are what a Registry needs.
type Options struct {
	// Redis, with heartbeats below Prefix; nil: there are none. The caller's to close.
	Redis  *redis.Client
	Prefix string
	Now    func() time.Time // nil: time.Now
	Log    *slog.Logger     // may be nil
}

// Registry holds what workers reported. Its methods may be called from several goroutines.
type Registry struct {
	o Options

	mu       sync.Mutex
	breakers map[string]*breakerWorkers
}

// breakerWorkers are those of one breaker. They live as long as a source of it is open.
type breakerWorkers struct {
	sources int
	reports map[string]report
}

// New makes an empty registry.
func New(o Options) *Registry {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Registry{o: o, breakers: map[string]*breakerWorkers{}}
}

// Report takes what a worker says: its state, for how long it has been in it, and after which time
// without another report it is forgotten (0: 15 s; at most 10 min). Errors wrap ErrUnwatched,
// ErrFull or ErrReport.
func (r *Registry) Report(breaker, worker, text string, span, ttl time.Duration) error {
	if worker == "" || len(worker) > nameMax {
		return fmt.Errorf("%w: the worker's name has %d bytes, want 1 to %d", ErrReport, len(worker),
			nameMax)
	}
	s, err := parseState(text)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrReport, err)
	}
	if span < 0 || span > stateMax {
		return fmt.Errorf("%w: %v in a state, want 0 to %v", ErrReport, span, stateMax)
	}
	if ttl == 0 {
		ttl = ttlDefault
	}
	if ttl < 0 || ttl > ttlMax {
		return fmt.Errorf("%w: a lifetime of %v, want up to %v", ErrReport, ttl, ttlMax)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.breakers[breaker]
	if b == nil {
		return fmt.Errorf("breaker %.100q: %w", breaker, ErrUnwatched)
	}
	now := r.o.Now()
	if _, known := b.reports[worker]; !known && len(b.reports) >= PerBreakerMax {
		if b.forget(now); len(b.reports) >= PerBreakerMax {
			return fmt.Errorf("breaker %s: %w: %d live", breaker, ErrFull, len(b.reports))
		}
	}
	b.reports[worker] = report{state: s, span: span, end: now.Add(ttl)}
	return nil
}

// forget drops the workers whose time is over.
func (b *breakerWorkers) forget(now time.Time) {
	for name, r := range b.reports {
		if !now.Before(r.end) {
			delete(b.reports, name)
		}
	}
}

// SourceOptions say what one breaker's source measures.
type SourceOptions struct {
	Breaker   string
	Name      string           // the level's; empty: "workers"
	Threshold signal.Threshold // of the share of waiting workers, 0 to 1
	After     time.Duration    // waits no longer than that are none
	Redis     bool             // whether heartbeats in Redis count beside reports
}

// Source opens the measure of one breaker; from now on its workers may report. Of several sources
// of one breaker, as there are for a moment when a config changes, each sees all reports.
func (r *Registry) Source(o SourceOptions) (*Source, error) {
	if o.Redis && r.o.Redis == nil {
		return nil, errors.New("signal workers: there is no Redis to look in; set redis.url")
	}
	if o.Name == "" {
		o.Name = "workers"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.breakers[o.Breaker]
	if b == nil {
		b = &breakerWorkers{reports: map[string]report{}}
		r.breakers[o.Breaker] = b
	}
	b.sources++
	return &Source{registry: r, o: o}, nil
}

func (r *Registry) close(breaker string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.breakers[breaker]
	if b.sources--; b.sources == 0 {
		delete(r.breakers, breaker)
	}
}

// living copies the reports of a breaker's living workers.
func (r *Registry) living(breaker string) map[string]report {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.breakers[breaker]
	b.forget(r.o.Now())
	living := make(map[string]report, len(b.reports))
	for name, report := range b.reports {
		living[name] = report
	}
	return living
}
