package index

import (
	"encoding/binary"
	"errors"

	"sluice/go/internal/event"
)

// Query narrows a listing down as far as rows can. The reader filters the rest.
type Query struct {
	Source uint32      // 0: all
	State  event.State // 0: all but duplicates
	Since  int64       // no event that came before; 0: all
	Before event.Seq   // exclusive; 0: from the newest
}

// Events calls yield with the events that may match, newest first, until it returns false.
func (x *Index) Events(q Query, yield func(*Record) bool) error {
	if q.Before == 0 {
		q.Before = maxSeq
	}
	filtered := func(r *Record) bool {
		if r.Horizon < q.Since {
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
		return x.byMark(rowDuplicate, q.Before, filtered)
	case q.State != 0 && q.State != event.Delivered:
		return x.byMark(rowUnfinished, q.Before, filtered)
	case q.Source != 0:
		return x.bySource(q.Source, q.Before, filtered)
	}
	_, err := x.records(0, q.Before, true, filtered)
	return err
}

// byMark goes through the events that have a u or y row.
func (x *Index) byMark(row byte, before event.Seq, yield func(*Record) bool) error {
	it, err := x.iter(seqKey(row, 0), seqKey(row, before))
	if err != nil {
		return err
	}
	for ok := it.Last(); ok; ok = it.Prev() {
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
func (x *Index) bySource(source uint32, before event.Seq, yield func(*Record) bool) error {
	last := chunkOf(before)
	it, err := x.iter(sourceKey(source, 0), append(sourceKey(source, last), 0))
	if err != nil {
		return err
	}
	for ok := it.Last(); ok; ok = it.Prev() {
		chunk := uint64(seqAt(it.Key()))
		end := before
		if chunk < last {
			end = chunkStart(chunk + 1)
		}
		more, err := x.records(chunkStart(chunk), end, true, yield)
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
	it, err := x.iter([]byte{rowDead}, upper)
	if err != nil {
		return err
	}
	for ok := it.Last(); ok; ok = it.Prev() {
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
