package deliver

import (
	"sync"
	"time"

	"sluice/go/internal/store"
)

// Bounds of a runner's waits, and of what it has leased ahead.
const (
	waitMax = time.Minute           // belt: the wall clock may be set
	waitMin = 10 * time.Millisecond // belt: something due that Lease does not give

	// aheadSpan is for how long at the present pace deliveries are leased before they may begin, so
	// that the end of an attempt needs no lease before the next one. At a slow pace that is none.
	aheadSpan = 5 * time.Millisecond
	aheadMax  = 256
	// aheadSifted is the least where there is a filter: what it does not want must not wait for
	// attempts that hang.
	aheadSifted = 64
	// aheadTime bounds how long a delivery is leased without an attempt; half of its lease is
	// another bound.
	aheadTime = 30 * time.Second
)

// runner leases for one destination and starts its attempts. Its own goroutine leases; those that
// make the attempts go on with what is ready, and call it when that gets less.
type runner struct {
	service *Service
	id      uint32
	wake    chan struct{} // an attempt ended, or something was changed
	ended   chan struct{} // closed by end
	idle    chan struct{} // closed when run has returned

	mu      sync.Mutex
	current *target
	limit   *limiter // of the attempts of all targets this runner has had
	rate    bucket
	ready   []leased // for the current target, the oldest lease first; none of them has begun
	over    bool
	open    bool // the gate gave all that it was last asked for
	hungry  bool // more may be due than is leased: the end of an attempt is worth a look
	called  bool // and that look is on its way

	ahead     int       // deliveries to have ready beyond what may begin
	begun     int       // attempts since
	paceSince time.Time // then
}

// leased is a delivery that has not begun, and when it is given back if it has not until then.
type leased struct {
	store.Delivery
	until time.Time
}

func newRunner(s *Service, t Target) *runner {
	r := &runner{
		service: s, id: t.ID, wake: make(chan struct{}, 1), ended: make(chan struct{}),
		idle: make(chan struct{}), current: newTarget(t),
	}
	r.limit = newLimiter(r.current.Concurrency)
	r.rate.set(t.Rate)
	return r
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
	t, room, ok := r.look(now)
	if !ok {
		return 0, nil, false
	}
	changed = t.Gate.Changed()
	admitted, gate := 0, time.Duration(0)
	if room > 0 {
		admitted, gate = t.Gate.Admit(now, room)
	}
	count := r.wants(now, room, admitted)
	var list []store.Delivery
	if count > 0 {
		list = queue.Lease(r.id, count, now)
	}
	more := len(list) == count
	kept := r.sift(t, list)
	began, wait, drained := r.start(t, now, admitted, kept, more)
	if began < admitted {
		t.Gate.Withdraw(admitted - began)
	}
	switch {
	case drained:
		t.Gate.Drained(now)
		next, some := queue.NextDue(r.id)
		if !some {
			return waitMax, changed, true
		}
		return min(max(next.Sub(now), waitMin), waitMax), changed, true
	case more && len(kept) < len(list):
		return 0, changed, true // others like those that were passed over may be due
	case admitted < room:
		return min(bounded(gate), wait), changed, true
	}
	return wait, changed, true
}

// look tells how many attempts may begin now, the gate apart.
func (r *runner) look(now time.Time) (t *target, room int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t, r.called = r.current, false
	if r.over {
		return t, 0, false
	}
	if since := now.Sub(r.paceSince); since >= aheadSpan || since < 0 {
		r.ahead = 0
		if since > 0 {
			r.ahead = int(min(int64(r.begun)*int64(aheadSpan)/int64(since), aheadMax))
		}
		r.begun, r.paceSince = 0, now
	}
	if t.Filter != nil {
		r.ahead = max(r.ahead, aheadSifted)
	}
	if t.held.After(now) {
		r.open = false
		return t, 0, true
	}
	return t, r.room(now), true
}

// room is what the limit and the rate leave. The lock is held.
func (r *runner) room(now time.Time) int {
	n, _ := r.rate.room(now, r.limit.room(now))
	return n
}

// wants is how many deliveries to lease for so many admitted attempts, of so many that there was
// room for. What will not begin soon is given back.
func (r *runner) wants(now time.Time, room, admitted int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if room > 0 {
		r.open = admitted >= room
	}
	stale := 0
	for stale < len(r.ready) && !now.Before(r.ready[stale].until) {
		stale++
	}
	ahead := 0
	switch {
	case r.open:
		ahead = r.ahead
	case admitted == 0:
		stale = len(r.ready)
	}
	r.giveBack(stale)
	if len(r.ready) > admitted+ahead/2 {
		return 0
	}
	return admitted + ahead - len(r.ready)
}

// giveBack ends the oldest leases of what has not begun. The lock is held.
func (r *runner) giveBack(count int) {
	for _, l := range r.ready[:count] {
		r.service.options.Queue.Unlease(l.Delivery)
	}
	r.ready = r.ready[count:]
}

// start begins attempts, as many as were admitted and may begin still, and keeps the rest of what
// is leased. more tells that the lease gave all that it was asked for. It gives how long to wait
// though nothing is signalled, and whether nothing waits that is due.
func (r *runner) start(t *target, now time.Time, admitted int, list []store.Delivery, more bool,
) (began int, wait time.Duration, drained bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range list {
		until := now.Add(aheadTime)
		if half := d.Expires.Sub(now) / 2; !d.Expires.IsZero() && half < aheadTime {
			until = now.Add(half)
		}
		r.ready = append(r.ready, leased{d, until})
	}
	if r.over || r.current != t {
		r.giveBack(len(r.ready)) // all of it is this target's: the next one leases only after this
		return 0, 0, false
	}
	pause := t.held.Sub(now)
	if pause <= 0 {
		began = max(min(admitted, len(r.ready), r.room(now)), 0)
		for range began {
			go r.work(t, r.begin(t))
		}
	}
	drained = !more && len(r.ready) == 0
	r.hungry = !drained
	wait = waitMax // the end of an attempt wakes
	switch n, rated := r.rate.room(now, r.limit.room(now)); {
	case pause > 0:
		wait = min(pause, waitMax)
	case rated > 0:
		wait = min(rated, waitMax)
	case n > 0 && r.open && !drained:
		wait = 0 // an attempt ended meanwhile and did not know that it was worth a look
	}
	if len(r.ready) > 0 {
		wait = min(wait, max(r.ready[0].until.Sub(now), 0))
	}
	return began, wait, drained
}

// begin takes the first that is ready. The lock is held, and there was room.
func (r *runner) begin(t *target) store.Delivery {
	d := r.ready[0].Delivery
	r.ready = r.ready[1:]
	r.limit.begin()
	r.rate.take(1)
	r.begun++
	t.adapter.attempts.Add(1)
	return d
}

// work makes one attempt after the other while there are some that may begin at once.
func (r *runner) work(t *target, d store.Delivery) {
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	for ok := true; ok; {
		e := r.attempt(s, t, d)
		d, ok = r.next(t, e)
		t.adapter.attempts.Done()
	}
}

// next ends an attempt, and gives another one if there is one that may begin at once.
func (r *runner) next(t *target, e ended) (d store.Delivery, ok bool) {
	r.mu.Lock()
	r.limit.end(e.at, e.verdict, e.took)
	if until := e.at.Add(e.pause); e.pause > 0 && until.After(t.held) {
		t.held = until
	}
	if r.open && len(r.ready) > 0 && r.current == t && !t.held.After(e.at) && r.room(e.at) > 0 {
		d, ok = r.begin(t), true
	}
	call := r.hungry && !r.called && (!ok || len(r.ready) <= r.ahead/2)
	r.called = r.called || call
	r.mu.Unlock()
	if ok {
		if admitted, _ := t.Gate.Admit(e.at, 1); admitted < 1 {
			r.undo(t, d, e.at)
			return d, false
		}
	}
	if call {
		r.signal()
	}
	return d, ok
}

// undo takes back what begin did, because the gate does not admit it. What it took of the rate is
// lost: that is little, and nothing goes out for a while anyway.
func (r *runner) undo(t *target, d store.Delivery, now time.Time) {
	r.mu.Lock()
	r.limit.end(now, 0, 0)
	r.service.options.Queue.Unlease(d)
	t.adapter.attempts.Done()
	r.mu.Unlock()
	r.signal()
}

// bounded is a gate's wait as a timer's: 0 is "until told".
func bounded(wait time.Duration) time.Duration {
	if wait <= 0 {
		return waitMax
	}
	return min(max(wait, time.Millisecond), waitMax)
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
	r.limit.configure(next.Concurrency)
	r.rate.set(next.Rate)
	r.giveBack(len(r.ready))
	r.open, r.hungry = false, true
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
	r.giveBack(len(r.ready))
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
	st := Status{ID: r.id, Name: t.Name, InFlight: r.limit.inFlight, Limit: r.limit.limit}
	if t.held.After(r.service.options.Now()) {
		st.Held = t.held
	}
	return st
}
