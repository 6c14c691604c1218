// Package deliver brings every durable event to its destinations: it leases due deliveries, makes
// the attempts, and records what became of them.
//
// It keeps no queue and no order of its own (the store does), knows no protocol of a destination
// (their adapters do), and never gives up an event in silence: what cannot be delivered becomes a
// dead letter.
//
// # States
//
// Each destination has one runner. It leases whatever is due, a little ahead of what may begin, and
// passes over what the destination's filter does not want. An attempt begins when the concurrency,
// the rate and the gate have room for it, unless the destination itself asked for a pause
// (Retry-After with 429 or 503):
//
//	leased ──▶ not wanted ──────────────────────────────▶ Finish(Skip)
//	  │ ├────▶ not to be begun soon, or we stop ────────▶ Unlease: it was no attempt
//	  │ └────▶ filter or transformation gives an error ─▶ Finish(Dead)
//	  └▶ attempt ──▶ delivered ─────────────────────────▶ Finish(Done)
//	       │  ├─────▶ failed, attempts left ────────────▶ Finish(Retry, next)
//	       │  └─────▶ failed for good, or the last ─────▶ Finish(Dead)
//	       └── ended by us (stop) ──────────────────────▶ Unlease
//
// An attempt is ended before its lease is, so that nobody else makes it meanwhile. Stop ends the
// leasing, lets the attempts in flight finish while its context lasts, then cancels them.
//
// # What a crash leaves
//
// Nothing of its own. A delivery whose outcome was not durable is made again, under the same
// Idempotency-Key.
package deliver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice/go/internal/destination"
	"sluice/go/internal/event"
	"sluice/go/internal/retry"
)

// Target is one configured destination.
type Target struct {
	ID          uint32
	Name        string
	Destination destination.Destination // closed by the service, after its last attempt
	Retry       retry.Policy            // zero fields are defaults
	// Schedule takes the place of Retry.Base and Attempts where it is not empty: the waits between
	// the attempts, each off by up to a tenth, so that there is one attempt more than waits.
	Schedule    []time.Duration
	Concurrency Concurrency           // nil: Auto{}
	Rate        float64               // attempts a second at most; 0: no bound
	Gate        Gate                  // nil: Open
	Filter      destination.Filter    // what it does not match is not delivered; nil: all is
	Transform   destination.Transform // of the body, for this destination alone; nil: none
	// Block makes a dead letter block what comes later under its ordering key.
	Block bool
}

// Options is what the service needs. Only Queue is required.
type Options struct {
	Queue      Queue
	SourceName func(id uint32) string
	// Outcome is called after each attempt with "delivered", "retry", "dead" or "cancelled", and
	// with "skipped" for what a filter does not want. It must not block.
	Outcome func(destination, outcome string, code int, took time.Duration)
	// WantAnswer tells whether a sender waits for what becomes of the event; nil: none ever does.
	// It is asked before each attempt and must be cheap.
	WantAnswer func(event.ID) bool
	// Concluded is told what became of a delivery as soon as that is known and before it is
	// durable. It must not block.
	Concluded func(Conclusion)
	Now       func() time.Time // wall clock; nil: time.Now
	Jitter    retry.Jitter     // nil: retry.RandomJitter
	Log       *slog.Logger     // nil: slog.Default
}

// Conclusion is what one attempt, or a filter, made of a delivery.
type Conclusion struct {
	ID          event.ID
	Destination uint32
	Kind        event.OutcomeKind   // Done, Retry, Dead or Skip
	Answer      *destination.Answer // where WantAnswer asked for it and there was one; else nil
}

// Service runs all destinations.
type Service struct {
	options Options
	ctx     context.Context // of every attempt
	cancel  context.CancelFunc

	mu      sync.Mutex
	runners map[uint32]*runner
	stopped bool
	working sync.WaitGroup // runners, and targets with attempts

	terms terms
}

// ErrStopped is the answer after Stop.
var ErrStopped = errors.New("delivery is stopped")

// New makes a service without destinations; Apply gives it some.
func New(o Options) *Service {
	if o.SourceName == nil {
		o.SourceName = func(id uint32) string { return fmt.Sprintf("source-%d", id) }
	}
	if o.Outcome == nil {
		o.Outcome = func(string, string, int, time.Duration) {}
	}
	if o.WantAnswer == nil {
		o.WantAnswer = func(event.ID) bool { return false }
	}
	if o.Concluded == nil {
		o.Concluded = func(Conclusion) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Jitter == nil {
		o.Jitter = retry.RandomJitter
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Service{options: o, ctx: ctx, cancel: cancel, runners: map[uint32]*runner{}}
}

// Apply makes targets the destinations there are: new ones begin, known ones go on with what is
// given now, others end. Attempts in flight finish as they began, and a Destination that is no
// longer used is closed after its last attempt. Handing in the same Destination again keeps it.
func (s *Service) Apply(targets []Target) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return ErrStopped
	}
	seen := map[uint32]bool{}
	for _, t := range targets {
		if t.Destination == nil {
			return fmt.Errorf("destination %q: no adapter", t.Name)
		}
		if seen[t.ID] {
			return fmt.Errorf("destination %q: id %d is given twice", t.Name, t.ID)
		}
		seen[t.ID] = true
	}
	for id, r := range s.runners {
		if !seen[id] {
			r.end()
			// Its successor under the same id must be the only one that hears Due.
			<-r.idle
			delete(s.runners, id)
		}
	}
	for _, t := range targets {
		if r := s.runners[t.ID]; r != nil {
			r.swap(t)
			continue
		}
		r := newRunner(s, t)
		s.runners[t.ID] = r
		s.working.Go(r.run)
	}
	return nil
}

// Stop leases nothing more, waits for the attempts in flight, cancels them when ctx ends, and
// closes the destinations. It returns once no attempt runs, so that the store can be closed; an
// error says that attempts were cancelled, or which of them do not end.
func (s *Service) Stop(ctx context.Context) error {
	s.mu.Lock()
	s.stopped = true
	for _, r := range s.runners {
		r.end()
	}
	s.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		s.working.Wait()
		close(ended)
	}()
	defer s.cancel()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	s.cancel()
	timer := time.NewTimer(cancelGrace)
	defer timer.Stop()
	select {
	case <-ended:
		return fmt.Errorf("attempts in flight were cancelled: %w", ctx.Err())
	case <-timer.C:
		return fmt.Errorf("attempts do not end though cancelled (%s): %w", s.busy(), ctx.Err())
	}
}

// cancelGrace is how long a cancelled attempt may take to notice.
const cancelGrace = 5 * time.Second

// Status is a look at one destination.
type Status struct {
	ID       uint32
	Name     string
	InFlight int       // attempts
	Limit    int       // of them, now; it may be below InFlight for a while after it fell
	Held     time.Time // the destination asked for a pause until then; zero: it did not
}

// Statuses gives all destinations, by id.
func (s *Service) Statuses() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Status, 0, len(s.runners))
	for _, r := range s.runners {
		list = append(list, r.status())
	}
	slices.SortFunc(list, func(a, b Status) int { return int(int64(a.ID) - int64(b.ID)) })
	return list
}

// Limit is how many attempts a destination may have in flight now; 0: there is no such destination.
// It must not be called from inside a gate.
func (s *Service) Limit(id uint32) int {
	s.mu.Lock()
	r := s.runners[id]
	s.mu.Unlock()
	if r == nil {
		return 0
	}
	return r.status().Limit
}

// busy names the destinations with attempts in flight.
func (s *Service) busy() string {
	var names []string
	for _, st := range s.Statuses() {
		if st.InFlight > 0 {
			names = append(names, fmt.Sprintf("%d at %s", st.InFlight, st.Name))
		}
	}
	return strings.Join(names, ", ")
}
