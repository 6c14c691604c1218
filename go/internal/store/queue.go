package store

import (
	"cmp"
	"container/heap"
	"fmt"
	"math"
	"slices"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/store/index"
)

// windowMax bounds the deliveries of one destination that are in memory, ready ones and timed ones
// each. The rest waits in the index. Leased ones come on top; the lessee bounds them.
const windowMax = 4096

type entryState uint8

const (
	entryReady entryState = 1 + iota
	entryTimed
	entryLeased
	entryFinished // leased, and its outcome is on its way
	entryGone     // no longer held; what still points to it passes over
)

type entry struct {
	Delivery
	state entryState
	due   int64
	// deferred tells that due and Attempt are those of an outcome that is in memory alone: the
	// index knows the entry elsewhere, so it must not be let go.
	deferred bool
}

// lease is one term of an entry. A later one, or the outcome, makes it void.
type lease struct {
	*entry
	term uint64
	ends time.Duration // of the clock that is never set
}

func (l *lease) valid() bool { return l.state == entryLeased && l.term == l.entry.term }

// queue is what one destination is to get. Everything that waits is either held here or has its
// place at or behind freshFrom and timedFrom in the index.
type queue struct {
	dest   uint32
	window int
	held   map[event.Seq]*entry
	ready  entryHeap // by seq
	timed  entryHeap // by due time
	// timedMax is how many timed ones make evict look which may go.
	timedMax int
	leases   []lease // in the order in which they end, void ones among them
	leased   int
	term     uint64 // of the last lease

	moreFresh bool
	freshFrom event.Seq
	moreTimed bool
	timedFrom index.Timed

	due   chan struct{}
	ended rate // of deliveries
}

func newQueue(dest uint32, window int) *queue {
	return &queue{
		dest: dest, window: window, held: map[event.Seq]*entry{},
		ready: entryHeap{before: func(a, b *entry) bool { return a.Seq < b.Seq }},
		timed: entryHeap{before: func(a, b *entry) bool {
			return a.due < b.due || a.due == b.due && a.Seq < b.Seq
		}},
		// What the index holds of a former run is found by the first refill.
		moreFresh: true, moreTimed: true, timedMax: 2 * window,
		due: make(chan struct{}, 1),
	}
}

// wake tells the lessee to look again.
func (q *queue) wake() {
	select {
	case q.due <- struct{}{}:
	default:
	}
}

// update brings the queue in step with a record. fresh tells that the record is new. What is leased
// stays leased as long as it lives: its own outcome will come.
func (q *queue) update(r *index.Record, d *index.Delivery, fresh bool) {
	if e := q.held[r.Seq]; e != nil && e.state == entryLeased && d.Living() {
		return
	}
	q.release(r.Seq)
	if !d.Living() || d.Blocked {
		return
	}
	if d.Next == 0 {
		if q.moreFresh && r.Seq >= q.freshFrom {
			q.wake()
			return
		}
		if fresh && q.ready.Len() >= q.window {
			q.moreFresh, q.freshFrom = true, r.Seq
			return
		}
		q.hold(r, d, entryReady)
		return
	}
	if q.moreTimed && !(index.Timed{Due: d.Next, Seq: r.Seq}).Before(q.timedFrom) {
		q.wake() // the lessee's timer may be for something later
		return
	}
	q.hold(r, d, entryTimed)
	q.evict()
}

func (q *queue) hold(r *index.Record, d *index.Delivery, state entryState) {
	e := &entry{
		Delivery: Delivery{
			Seq: r.Seq, ID: r.ID, Destination: q.dest, Source: r.Source, Attempt: d.Attempts + 1,
			Received: time.Unix(0, r.Received), OrderKey: r.OrderKey, Route: r.Route, Size: r.Size,
		},
		due: d.Next,
	}
	q.held[r.Seq] = e
	q.enqueue(e, state)
}

func (q *queue) enqueue(e *entry, state entryState) {
	e.state = state
	if state == entryReady {
		heap.Push(&q.ready, e)
	} else {
		heap.Push(&q.timed, e)
	}
	q.wake()
}

// release forgets an entry.
func (q *queue) release(seq event.Seq) {
	e := q.held[seq]
	if e == nil {
		return
	}
	if e.state == entryLeased || e.state == entryFinished {
		q.leased--
	}
	e.state = entryGone
	delete(q.held, seq)
}

// evict lets the timed entries that are due last go back to the index, once they are a window too
// many.
func (q *queue) evict() {
	if q.timed.Len() < q.timedMax {
		return
	}
	list := q.timed.list
	slices.SortFunc(list, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.Seq, b.Seq))
	})
	kept := list[:0]
	for _, e := range list {
		switch {
		case e.state != entryTimed:
		case len(kept) < q.window || e.deferred:
			kept = append(kept, e)
		default:
			place := index.Timed{Due: e.due, Seq: e.Seq}
			if !q.moreTimed || place.Before(q.timedFrom) {
				q.moreTimed, q.timedFrom = true, place
			}
			q.release(e.Seq)
		}
	}
	clear(list[len(kept):])
	q.timed.list = kept // sorted, which is a heap
	q.timedMax = len(kept) + q.window
}

// next is the earliest time at which something may be leased; false: nothing waits. now and elapsed
// are the same instant on two clocks.
func (q *queue) next(now time.Time, elapsed time.Duration) (due int64, ok bool) {
	q.ready.skipGone(entryReady)
	q.timed.skipGone(entryTimed)
	if q.ready.Len() > 0 || q.moreFresh {
		return math.MinInt64, true
	}
	if q.timed.Len() > 0 {
		due, ok = q.timed.list[0].due, true
	}
	if q.moreTimed && (!ok || q.timedFrom.Due < due) {
		due, ok = q.timedFrom.Due, true
	}
	if len(q.leases) > 0 {
		if end := now.Add(q.leases[0].ends - elapsed).UnixNano(); !ok || end < due {
			due, ok = end, true
		}
	}
	return due, ok
}

// expire ends the leases of workers that never came back.
func (q *queue) expire(elapsed time.Duration) (expired int) {
	for len(q.leases) > 0 {
		l := q.leases[0]
		if l.valid() && elapsed < l.ends {
			break
		}
		q.leases[0] = lease{}
		q.leases = q.leases[1:]
		if l.valid() {
			q.leased--
			q.enqueue(l.entry, entryReady)
			expired++
		}
	}
	if len(q.leases) > 2*q.leased+q.window {
		// One worker that hangs would keep the void leases of all others behind its own.
		q.leases = slices.DeleteFunc(q.leases, func(l lease) bool { return !l.valid() })
	}
	return expired
}

// grant begins a lease of an entry. Leases last equally long, so that the last one ends last.
func (q *queue) grant(e *entry, expires time.Time, ends time.Duration) {
	q.term++
	e.state, e.term, e.Expires = entryLeased, q.term, expires
	q.leases = append(q.leases, lease{entry: e, term: q.term, ends: ends})
}

// promote makes timed entries ready whose time has come.
func (q *queue) promote(now int64) {
	for {
		q.timed.skipGone(entryTimed)
		if q.timed.Len() == 0 || q.timed.list[0].due > now {
			return
		}
		e := heap.Pop(&q.timed).(*entry)
		e.state = entryReady
		heap.Push(&q.ready, e)
	}
}

func (q *queue) wantsFresh() bool { return q.moreFresh && q.ready.Len() < q.window/4+1 }

// wantsTimed is asked after promote: what is due in the rows is due before all that are timed here,
// but for those whose outcome is in memory alone.
func (q *queue) wantsTimed(now int64) bool {
	return q.moreTimed && q.ready.Len() < 2*q.window &&
		(q.timedFrom.Due <= now || q.timed.Len() < q.window/4)
}

func (q *queue) wantsRefill(now int64) bool { return q.wantsFresh() || q.wantsTimed(now) }

// refill reads places from the index. What is pending there must be committed. The whole store
// waits meanwhile, so that it takes a part of the window at a time.
func (q *queue) refill(x *index.Index, now int64) error {
	if q.wantsTimed(now) {
		list, more, err := x.Timed(q.dest, q.timedFrom, q.window/4+1)
		if err != nil {
			return err
		}
		seqs := make([]event.Seq, len(list))
		for i, t := range list {
			seqs[i] = t.Seq
			q.timedFrom = index.Timed{Due: t.Due, Seq: t.Seq + 1}
		}
		q.moreTimed = more
		if err := q.take(x, seqs, entryTimed); err != nil {
			return err
		}
		q.promote(now)
	}
	if q.wantsFresh() {
		seqs, more, err := x.Fresh(q.dest, q.freshFrom, q.window/4+1)
		if err != nil {
			return err
		}
		if len(seqs) > 0 {
			q.freshFrom = seqs[len(seqs)-1] + 1
		}
		q.moreFresh = more
		return q.take(x, seqs, entryReady)
	}
	return nil
}

// refillFresh reads fresh places alone, from rows that may be behind what is pending. A row
// cannot be out of date: what is not held does not change, but for a delivery that is freed by
// the one before it in order; those of the same stretch are taken as well. false: the rows end
// there, so that more may be pending behind them; then nothing was taken.
func (q *queue) refillFresh(x *index.Index) (bool, error) {
	seqs, more, err := x.Fresh(q.dest, q.freshFrom, q.window/4+1)
	if err != nil || !more {
		return false, err
	}
	last := seqs[len(seqs)-1]
	seqs = x.AppendFreed(seqs, q.dest, q.freshFrom, last)
	slices.Sort(seqs)
	seqs = slices.Compact(seqs)
	q.freshFrom = last + 1
	return true, q.take(x, seqs, entryReady)
}

// take holds deliveries that the index names.
func (q *queue) take(x *index.Index, seqs []event.Seq, state entryState) error {
	held := func(seq event.Seq) bool { return q.held[seq] != nil }
	return x.LoadAll(slices.DeleteFunc(seqs, held), func(seq event.Seq, r *index.Record) error {
		if r == nil || r.Delivery(q.dest) == nil {
			return fmt.Errorf("%w: delivery of event %d to destination %d is queued and unknown",
				index.ErrDamaged, seq, q.dest)
		}
		q.hold(r, r.Delivery(q.dest), state)
		return nil
	})
}

// lease appends ready entries to a list until it has count of them.
func (q *queue) lease(list []Delivery, count int, expires time.Time,
	ends time.Duration) []Delivery {
	for len(list) < count {
		q.ready.skipGone(entryReady)
		if q.ready.Len() == 0 {
			break
		}
		e := heap.Pop(&q.ready).(*entry)
		q.grant(e, expires, ends)
		q.leased++
		list = append(list, e.Delivery)
	}
	return list
}

// entryHeap is a container/heap of entries; ones that are gone stay in it until they come up.
type entryHeap struct {
	list   []*entry
	before func(a, b *entry) bool
}

func (h *entryHeap) Len() int           { return len(h.list) }
func (h *entryHeap) Less(i, j int) bool { return h.before(h.list[i], h.list[j]) }
func (h *entryHeap) Swap(i, j int)      { h.list[i], h.list[j] = h.list[j], h.list[i] }
func (h *entryHeap) Push(x any)         { h.list = append(h.list, x.(*entry)) }
func (h *entryHeap) Pop() any {
	last := len(h.list) - 1
	e := h.list[last]
	h.list[last] = nil
	h.list = h.list[:last]
	return e
}

func (h *entryHeap) skipGone(want entryState) {
	for len(h.list) > 0 && h.list[0].state != want {
		heap.Pop(h)
	}
}
