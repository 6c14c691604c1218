package ingest

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/go/internal/destination"
	"sluice/go/internal/event"
	"sluice/shm-abi/shmabi"
)

const (
	budgetMax     = time.Second // of senders that wait for a delivery
	refusedStatus = 422         // what a destination answers that refuses for good
)

// fate is what became of the deliveries of one event.
type fate struct {
	stored  stored
	first   event.ID // the event that it repeats
	kinds   [2]event.OutcomeKind
	failed  [2]bool // at least once
	answers [2]*destination.Answer
}

// receivers are the destinations of a world, its applier and its breakers. They deliver what the
// journal holds, at times before the committer has been told that it does.
type receivers struct {
	world    *world
	open     atomic.Bool // a breaker is not closed
	delivers atomic.Bool

	mu     sync.Mutex
	fates  map[event.ID]*fate
	firsts map[recentKey]event.ID
	owed   []event.ID // those with something to deliver
}

func (r *receivers) begin(w *world) {
	r.world = w
	r.fates, r.firsts = make(map[event.ID]*fate), make(map[recentKey]event.ID)
	r.delivers.Store(true)
	w.useTable()
	w.service.SetTable(w.table)
	w.journal.set(func(j *journal) { j.onStore = r.apply })
}

// apply is the applier, right behind the sync.
func (r *receivers) apply(list []stored) {
	for _, s := range list {
		c := s.frame.C()
		if c.Ack() != uint8(shmabi.AckDelivered) {
			continue
		}
		key := recentKey{s.frame.D().SourceID(), c.DedupKey()}
		r.mu.Lock()
		original, repeats := r.firsts[key]
		f := &fate{stored: s}
		r.fates[s.id] = f
		if repeats {
			f.first = original
		} else {
			r.firsts[key] = s.id
			r.owed = append(r.owed, s.id)
		}
		r.mu.Unlock()
		switch {
		case repeats:
			r.world.service.Repeated(s.id, original)
		case r.delivers.Load() && s.id[15]%3 == 0:
			r.conclude(s.id, first, event.Done)
			r.conclude(s.id, second, event.Done)
		}
	}
}

// conclude records an attempt, and tells the service.
func (r *receivers) conclude(id event.ID, to uint32, kind event.OutcomeKind) {
	var answer *destination.Answer
	status := map[event.OutcomeKind]int{event.Done: 200, event.Dead: refusedStatus}[kind]
	if status != 0 {
		answer = &destination.Answer{Status: status, Body: fmt.Append(nil, to, " says of ", id)}
	}
	r.mu.Lock()
	f := r.fates[id]
	if f.kinds[to-first] != 0 {
		r.mu.Unlock()
		return
	}
	if kind == event.Retry {
		f.failed[to-first] = true
	} else {
		f.kinds[to-first], f.answers[to-first] = kind, answer
	}
	state := f.state()
	r.mu.Unlock()
	r.world.journal.set(func(j *journal) { j.states[id] = state })
	r.world.concluded(id, to, kind, answer)
}

// states are those of the two deliveries, as the index has them.
func (f *fate) states() (list []event.State) {
	for i, kind := range f.kinds {
		switch {
		case kind == event.Dead:
			list = append(list, event.DeadLetter)
		case kind != 0:
			list = append(list, event.Delivered)
		case f.failed[i]:
			list = append(list, event.Retrying)
		default:
			list = append(list, event.Pending)
		}
	}
	return list
}

func (f *fate) state() event.State { return slices.Min(f.states()) }

// attempt makes one at an event that is owed.
func (w *world) attempt() {
	w.mu.Lock()
	if len(w.owed) == 0 {
		w.mu.Unlock()
		return
	}
	at := w.random.IntN(len(w.owed))
	id := w.owed[at]
	w.mu.Unlock()
	kinds := []event.OutcomeKind{
		event.Done, event.Done, event.Done, event.Done, event.Skip, event.Dead, event.Retry,
	}
	w.conclude(id, first+uint32(w.random.IntN(2)), kinds[w.random.IntN(len(kinds))])
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := w.fates[id]; f.kinds[0] != 0 && f.kinds[1] != 0 {
		w.owed = slices.Delete(w.owed, at, at+1)
	}
}

// breaker opens the breaker of one destination, or closes it.
func (w *world) breaker() {
	if w.open.CompareAndSwap(false, true) {
		w.service.Opened(first + uint32(w.random.IntN(2)))
		return
	}
	w.open.Store(false)
}

// pending is what the journal tells of who may wait still.
func (w *world) pending() (list []Pending) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.fates {
		v := readVerdict(f.stored.frame.C())
		if v.waitsForDelivery() && f.stored.frame.D().UntilNS() > w.now.Load() {
			p := pending(f.stored, f.states()...)
			if p.First = f.first; !p.First.IsZero() {
				p.Destinations = nil
			}
			list = append(list, p)
		}
	}
	return list
}

// waits tells whether a request's sender waits for the delivery.
func (x *want) waits() bool { return x.source == waiting || x.source == passing }

// name is the event's, if it becomes one.
func (x *want) name() event.ID { return idOf(x.plane, x.position) }

// accepted tells whether an answer says that the request itself is stored.
func (x *want) accepted(a answer) bool {
	switch a.kind {
	case shmabi.ReplyAccepted:
		return true
	case shmabi.ReplyQueued:
		return a.id == x.name()
	case shmabi.ReplyInline:
		return x.waits()
	}
	return false
}

// check holds the answer to a sender that waits against what the destinations did by now.
func (w *world) check(x *want, a answer) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch a.kind {
	case shmabi.ReplyAccepted, shmabi.ReplyInline:
		f := w.fates[x.name()]
		if f == nil || f.kinds[0] == 0 || f.kinds[1] == 0 {
			w.t.Fatalf("the frame at %d was told %v and its deliveries are %v", a.position, a, f)
		}
		says := f.answers[0]
		if a.kind == shmabi.ReplyInline && (x.source != passing || says == nil ||
			says.Status != int(a.code) || string(says.Body) != a.body) {
			w.t.Fatalf("the frame at %d was told %v where the destination said %v", a.position, a, says)
		}
	case shmabi.ReplyDuplicate:
		if f := w.fates[a.id]; f == nil || f.state() != event.Delivered {
			w.t.Fatalf("the frame at %d was told %v, which was not delivered", a.position, a)
		}
	}
}

// drained waits until all that was decided is read.
func (w *world) drained(p *plane) {
	w.t.Helper()
	eventually(w.t, "every answer", func() bool {
		w.service.waits.mu.Lock()
		none := w.service.waits.count == 0
		w.service.waits.mu.Unlock()
		for _, other := range w.planes {
			if !w.dead[other] {
				other.drain(1 << 20)
			}
		}
		return none
	})
	p.drain(1 << 20)
}
