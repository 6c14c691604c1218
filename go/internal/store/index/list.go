package index

import (
	"encoding/binary"
	"errors"
	"sort"

	"github.com/cockroachdb/pebble/v2"

	"sluice/go/internal/event"
)

// Query narrows a listing down as far as rows can. The reader filters the rest.
type Query struct {
	Source uint32      // 0: all
	State  event.State // 0: all but duplicates
	Since  int64       // no event that came before; 0: all
	After  event.Seq   // exclusive; 0: from the oldest
	Before event.Seq   // exclusive; 0: from the newest
	Oldest bool        // the oldest first, not the newest
}

// Events calls yield with the events that may match, newest first unless the query says otherwise,
// until it returns false.
func (x *Index) Events(q Query, yield func(*Record) bool) error {
	if q.Before == 0 {
		q.Before = maxSeq
	}
	if q.Oldest && q.Since > 0 {
		after, err := x.beforeSince(q.Since, q.Before)
		if err != nil {
			return err
		}
		q.After = max(q.After, after)
	}
	filtered := func(r *Record) bool {
		if !q.Oldest && r.Horizon < q.Since {
			return false // nothing older was received later
		}
		if state := r.State(); q.State != 0 && state != q.State ||
			q.State == 0 && state == event.Duplicate || q.Source != 0 && q.Source != r.Source {
			return true
		}
		return yield(r)
	}
	switch {
	case q.State == event.Duplicate:
		return x.byMark(rowDuplicate, &q, filtered)
	case q.State != 0 && q.State != event.Delivered:
		return x.byMark(rowUnfinished, &q, filtered)
	case q.Source != 0:
		return x.bySource(&q, filtered)
	}
	_, err := x.records(q.After+1, q.Before, !q.Oldest, filtered)
	return err
}

// beforeSince gives a place that all events with a horizon of at least since lie behind, but for
// those from end on.
func (x *Index) beforeSince(since int64, end event.Seq) (event.Seq, error) {
	var err error
	group := sort.Search(int(end.Group())+1, func(group int) (found bool) {
		found = true // no event follows
		_, fault := x.records(event.NewSeq(uint64(group), 0), maxSeq, false,
			func(r *Record) bool {
				found = r.Horizon >= since
				return false
			})
		err = errors.Join(err, fault)
		return found
	})
	// The events of the group before may reach it, all but the first.
	return event.NewSeq(uint64(max(group-1, 0)), 0), err
}

// direction is how an iterator goes through its rows.
func direction(it *pebble.Iterator, backwards bool) (begin, step func() bool) {
	if backwards {
		return it.Last, it.Prev
	}
	return it.First, it.Next
}

// byMark goes through the events that have a u or y row.
func (x *Index) byMark(row byte, q *Query, yield func(*Record) bool) error {
	it, err := x.iter(seqKey(row, q.After+1), seqKey(row, q.Before))
	if err != nil {
		return err
	}
	begin, step := direction(it, !q.Oldest)
	for ok := begin(); ok; ok = step() {
		r, err := x.Get(seqAt(it.Key()))
		if err != nil {
			return errors.Join(err, it.Close())
		}
		if r != nil && !yield(r) {
			break
		}
	}
	return closeIter(it)
}

// bySource goes through the chunks that have events of a source.
func (x *Index) bySource(q *Query, yield func(*Record) bool) error {
	it, err := x.iter(sourceKey(q.Source, chunkOf(q.After+1)),
		append(sourceKey(q.Source, chunkOf(q.Before)), 0))
	if err != nil {
		return err
	}
	begin, step := direction(it, !q.Oldest)
	for ok := begin(); ok; ok = step() {
		chunk := uint64(seqAt(it.Key()))
		from, end := max(chunkStart(chunk), q.After+1), q.Before
		if chunk < chunkOf(q.Before) {
			end = chunkStart(chunk + 1)
		}
		more, err := x.records(from, end, !q.Oldest, yield)
		if err != nil {
			return errors.Join(err, it.Close())
		}
		if !more {
			break
		}
	}
	return closeIter(it)
}

// Forwards calls yield with the events of (after, last], oldest first, duplicates included.
func (x *Index) Forwards(after, last event.Seq, yield func(*Record) bool) error {
	_, err := x.records(after+1, last+1, false, yield)
	return err
}

// Dead calls yield with the dead letters before a place, the newest events' first and of one event
// the highest destination's first.
func (x *Index) Dead(before event.Seq, dest uint32, yield func(*Record, *Delivery) bool) error {
	upper := []byte{rowDead + 1}
	if before != 0 {
		upper = deadKey(before, dest)
	}
	return x.dead([]byte{rowDead}, upper, true, yield)
}

// DeadForwards calls yield with the dead letters of the events of (after, last], the other way
// round.
func (x *Index) DeadForwards(after, last event.Seq, yield func(*Record, *Delivery) bool) error {
	return x.dead(deadKey(after+1, 0), deadKey(last+1, 0), false, yield)
}

func (x *Index) dead(from, upper []byte, backwards bool,
	yield func(*Record, *Delivery) bool) error {
	it, err := x.iter(from, upper)
	if err != nil {
		return err
	}
	begin, step := direction(it, backwards)
	for ok := begin(); ok; ok = step() {
		key := it.Key()
		seq := event.Seq(binary.BigEndian.Uint64(key[1:]))
		r, err := x.Get(seq)
		if err != nil {
			return errors.Join(err, it.Close())
		}
		if r == nil {
			continue
		}
		d := r.Delivery(binary.BigEndian.Uint32(key[9:]))
		if d != nil && !yield(r, d) {
			break
		}
	}
	return closeIter(it)
}

// FirstFresh gives the first event from seq on that is due at dest since it came; nil: none.
func (x *Index) FirstFresh(dest uint32, from event.Seq) (*Record, error) {
	seqs, _, err := x.Fresh(dest, from, 1)
	if err != nil || len(seqs) == 0 {
		return nil, err
	}
	return x.Get(seqs[0])
}

// Oldest gives the first event that is kept; nil: none.
func (x *Index) Oldest() (first *Record, err error) {
	err = x.Forwards(0, maxSeq-1, func(r *Record) bool { first = r; return false })
	return first, err
}
