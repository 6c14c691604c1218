package deliver

import (
	"sync"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/store"
)

// Bounds of a runner's wait.
const (
	waitMax = time.Minute           // belt: the wall clock may be set
	waitMin = 10 * time.Millisecond // belt: something due that Lease does not give
)

// runner leases for one destination and starts its attempts.
type runner struct {
	service *Service
	id      uint32
	wake    chan struct{} // an attempt ended, or something was changed
	ended   chan struct{} // closed by end
	idle    chan struct{} // closed when run has returned

	mu       sync.Mutex
	current  *target
	inFlight int // of all targets this runner has had
	over     bool
}

// deadLetterLogEvery bounds what a destination that refuses everything can do to the log.
const deadLetterLogEvery = 10 * time.Second

// target is a Target in use. Attempts finish under the one they began with.
type target struct {
	Target
	adapter *adapter

	// Under runner.mu.
	held     time.Time // the destination asked for a pause until then
	deadTold time.Time // a dead letter was last logged
	deadMore int       // dead letters since
}

// adapter counts the attempts that use a Destination, under whatever targets it is handed on to.
type adapter struct {
	attempts sync.WaitGroup
}

func newTarget(t Target) *target {
	t.Retry = t.Retry.Normalized()
	if t.Concurrency == nil {
		t.Concurrency = Fixed(AutoLimit)
	}
	if t.Gate == nil {
		t.Gate = Open{}
	}
	return &target{Target: t, adapter: &adapter{}}
}

func newRunner(s *Service, t Target) *runner {
	return &runner{
		service: s, id: t.ID, wake: make(chan struct{}, 1), ended: make(chan struct{}),
		idle: make(chan struct{}), current: newTarget(t),
	}
}

// run leases until the end.
func (r *runner) run() {
	defer close(r.idle)
	timer := time.NewTimer(0)
	defer timer.Stop()
	due := r.service.options.Queue.Due(r.id)
	for {
		wait, changed, ok := r.fill()
		if !ok {
			return
		}
		timer.Reset(wait)
		select {
		case <-due:
		case <-changed:
		case <-r.wake:
		case <-timer.C:
		case <-r.ended:
			return
		}
	}
}

// fill starts as many attempts as there may be, and tells how long to wait without a signal. false:
// the runner has ended.
func (r *runner) fill() (wait time.Duration, changed <-chan struct{}, ok bool) {
	queue, now := r.service.options.Queue, r.service.options.Now()
	t, room, pause, ok := r.room(now)
	if !ok {
		return 0, nil, false
	}
	changed = t.Gate.Changed()
	if room <= 0 {
		return waitMax, changed, true // the end of an attempt wakes
	}
	if pause > 0 {
		return min(pause, waitMax), changed, true
	}
	admitted, wait := t.Gate.Admit(now, room)
	if admitted <= 0 {
		return bounded(wait), changed, true
	}
	deliveries := queue.Lease(r.id, admitted, now)
	if unused := admitted - len(deliveries); unused > 0 {
		t.Gate.Withdraw(unused)
		t.Gate.Drained(now)
	}
	switch {
	case !r.start(t, deliveries):
		return 0, changed, true
	case len(deliveries) == room:
		return waitMax, changed, true
	case len(deliveries) == admitted:
		return bounded(wait), changed, true // there may be more; the gate limits
	}
	next, some := queue.NextDue(r.id)
	if !some {
		return waitMax, changed, true
	}
	return min(max(next.Sub(now), waitMin), waitMax), changed, true
}

// room tells how many attempts may begin now, the gate apart, and how long the destination wants
// none.
func (r *runner) room(now time.Time) (t *target, room int, pause time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t = r.current
	return t, t.Concurrency.Limit() - r.inFlight, t.held.Sub(now), !r.over
}

// start begins the attempts. When the target is no longer the current one, or the runner has
// ended, the deliveries go back instead.
func (r *runner) start(t *target, deliveries []store.Delivery) bool {
	r.mu.Lock()
	if r.over || r.current != t {
		r.mu.Unlock()
		if len(deliveries) > 0 {
			t.Gate.Withdraw(len(deliveries))
		}
		for _, d := range deliveries {
			r.service.options.Queue.Unlease(d)
		}
		return false
	}
	defer r.mu.Unlock()
	r.inFlight += len(deliveries)
	t.adapter.attempts.Add(len(deliveries))
	for _, d := range deliveries {
		go r.attempt(t, d)
	}
	return true
}

// bounded is a gate's wait as a timer's: 0 is "until told".
func bounded(wait time.Duration) time.Duration {
	if wait <= 0 {
		return waitMax
	}
	return min(max(wait, time.Millisecond), waitMax)
}

// leave ends one attempt's use of its target. pause is what the destination asked for.
func (r *runner) leave(t *target, pause time.Duration) {
	r.mu.Lock()
	r.inFlight--
	if pause > 0 {
		if until := r.service.options.Now().Add(pause); until.After(t.held) {
			t.held = until
		}
	}
	r.mu.Unlock()
	t.adapter.attempts.Done()
	r.signal()
}

// deadLetter logs one, or counts it towards the next line. All of them are in the store.
func (r *runner) deadLetter(t *target, o event.Outcome, id event.ID) {
	now := r.service.options.Now()
	r.mu.Lock()
	if since := now.Sub(t.deadTold); since >= 0 && since < deadLetterLogEvery {
		t.deadMore++
		r.mu.Unlock()
		return
	}
	more := t.deadMore
	t.deadTold, t.deadMore = now, 0
	r.mu.Unlock()
	r.service.options.Log.Warn("dead letter", "destination", t.Name, "event", id.String(),
		"attempts", o.Attempt, "error", o.Err, "others_before", more)
}

func (r *runner) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// swap goes on with another configuration.
func (r *runner) swap(t Target) {
	next := newTarget(t)
	r.mu.Lock()
	old := r.current
	same := old.Destination == next.Destination
	if same {
		next.adapter, next.held = old.adapter, old.held
	}
	r.current = next
	r.mu.Unlock()
	if !same {
		r.retire(old)
	}
	r.signal()
}

// end starts no more attempts; the current target ends with its last one.
func (r *runner) end() {
	r.mu.Lock()
	was := r.over
	r.over = true
	t := r.current
	r.mu.Unlock()
	if !was {
		close(r.ended)
		r.retire(t)
	}
}

// retire closes the Destination of a target that is given no more attempts, after the last of them.
func (r *runner) retire(t *target) {
	r.service.working.Go(func() {
		t.adapter.attempts.Wait()
		if err := t.Destination.Close(); err != nil {
			r.service.options.Log.Warn("closing a destination", "destination", t.Name, "error", err)
		}
	})
}

func (r *runner) status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.current
	st := Status{ID: r.id, Name: t.Name, InFlight: r.inFlight, Limit: t.Concurrency.Limit()}
	if t.held.After(r.service.options.Now()) {
		st.Held = t.held
	}
	return st
}
