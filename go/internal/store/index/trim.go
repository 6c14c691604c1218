package index

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"sluice/go/internal/event"
	"sluice/go/internal/store/journal"
)

// Survivor is an event that must be kept and whose frame lies in a segment.
type Survivor struct {
	Seq event.Seq
	Loc journal.Loc
}

// Keep tells whether an event stays for a dead letter that it has. Those that Record.Needed tells
// of stay in any case. nil: none does.
type Keep func(*Record, *Delivery) bool

// Survivors gives up to count events that need a segment or one before it, of the groups up to
// last.
func (x *Index) Survivors(segment, last uint64, count int, keep Keep) (list []Survivor,
	err error) {
	err = x.kept(event.NewSeq(last+1, 0), keep, func(r *Record) bool {
		if r.Loc.Segment <= segment {
			list = append(list, Survivor{Seq: r.Seq, Loc: r.Loc})
		}
		return len(list) < count
	})
	return list, err
}

// kept calls yield with the events before end that must be kept: first those that are needed, then
// those that stay for a dead letter.
func (x *Index) kept(end event.Seq, keep Keep, yield func(*Record) bool) error {
	more := true
	err := x.needed(end, func(r *Record) bool {
		more = yield(r)
		return more
	})
	if !more || keep == nil || err != nil {
		return err
	}
	var last event.Seq
	q := Query{Before: end, Oldest: true}
	_, err = x.walkDead(&q, func(r *Record, d *Delivery) bool {
		if r.Seq == last || r.Needed() || !keep(r, d) {
			return true
		}
		last = r.Seq
		return yield(r)
	})
	return err
}

// FirstNeeded gives the first event from a place on that must be kept for a delivery; nil: none.
func (x *Index) FirstNeeded(from event.Seq) (first *Record, err error) {
	err = x.neededFrom(from, maxSeq, func(r *Record) bool { first = r; return false })
	return first, err
}

// needed calls yield with the events before end that must be kept, oldest first.
func (x *Index) needed(end event.Seq, yield func(*Record) bool) error {
	return x.neededFrom(0, end, yield)
}

func (x *Index) neededFrom(from, end event.Seq, yield func(*Record) bool) error {
	it, err := x.iter(seqKey(rowUnfinished, from), seqKey(rowUnfinished, end))
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
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

// Trim removes the events of all groups up to last and tells how many dead letters went with them,
// and how many events stay. These must be kept: their frames were copied forward. Nothing may be
// pending. It belongs to the writer.
func (x *Index) Trim(last uint64, keep Keep) (dead, stay int, err error) {
	end := event.NewSeq(last+1, 0)
	clear(x.clean)
	clear(x.older)
	var kept []*Record
	staying := map[event.Seq]bool{}
	err = x.kept(end, keep, func(r *Record) bool {
		kept, staying[r.Seq] = append(kept, r), true
		return true
	})
	if err != nil {
		return 0, 0, err
	}
	if dead, err = x.forget(end, staying); err != nil {
		return 0, 0, err
	}
	w := x.db.NewBatch()
	defer func() { _ = w.Close() }()
	p := put{Batch: w}
	for _, row := range []byte{
		rowEvent, rowUnfinished, rowGivenUp, rowDuplicate, rowDead, rowAttempt,
	} {
		p.deleteRange(seqKey(row, 0), seqKey(row, end))
	}
	x.trimWays(&p, chunkOf(end))
	if err := x.trimTicks(&p, end); err != nil {
		return 0, 0, err
	}
	for _, r := range kept {
		if err := x.putAgain(&p, r); err != nil {
			return 0, 0, err
		}
	}
	x.meta.Trimmed = max(x.meta.Trimmed, last)
	meta, err := json.Marshal(&x.meta)
	if err != nil {
		return 0, 0, fmt.Errorf("encode meta row: %w", err)
	}
	p.set([]byte{rowMeta}, meta)
	if err := errors.Join(p.err, w.Commit(pebble.NoSync)); err != nil {
		return 0, 0, fmt.Errorf("trim index: %w", damage(err))
	}
	return dead, len(kept), nil
}

// putAgain writes the rows of an event that the batch has removed. Its queue rows were not.
func (x *Index) putAgain(p *put, r *Record) error {
	history, err := x.Attempts(r.Seq)
	if err != nil {
		return err
	}
	for i := range history {
		p.value = appendOutcome(p.value[:0], &history[i])
		p.set(attemptKey(r.Seq, uint32(i)), p.value)
	}
	r.mark = 0
	for i := range r.Deliveries {
		r.Deliveries[i].letter = false
	}
	x.putRecord(p, r)
	for _, w := range waysTo(nil, r) {
		p.set(w.key(), nil)
	}
	return nil
}

// forget takes the events before end that go out of the sums.
func (x *Index) forget(end event.Seq, staying map[event.Seq]bool) (dead int, err error) {
	_, err = x.records(0, end, false, func(r *Record) bool {
		if staying[r.Seq] {
			return true
		}
		if r.First.IsZero() {
			x.meta.Counts.Events--
		}
		for i := range r.Deliveries {
			if d := &r.Deliveries[i]; d.Letter() {
				dead++
				x.meta.Counts.Destinations[d.Destination].Dead--
			}
		}
		return true
	})
	return dead, err
}

// ticksKept is how many t rows that stay end the search for those that go.
const ticksKept = 4096

// trimTicks removes the t rows of trimmed chunks. They come first, but for clocks that jumped; what
// it leaves behind leads nowhere and harms nobody.
func (x *Index) trimTicks(p *put, end event.Seq) error {
	it, err := x.iter([]byte{rowTick}, []byte{rowTick + 1})
	if err != nil {
		return err
	}
	kept := 0
	for ok := it.First(); ok && kept < ticksKept; ok = it.Next() {
		if binary.BigEndian.Uint64(it.Key()[9:]) < chunkOf(end) {
			p.delete(append([]byte(nil), it.Key()...))
		} else {
			kept++
		}
	}
	return closeIter(it)
}
