package index

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"sluice/go/internal/event"
)

// Dedup remembers the first event with a key until a received time.
type Dedup struct {
	Source uint32
	Key    [16]byte
	First  event.ID
	Seq    event.Seq // of the first
	Until  int64
}

// Commit writes everything pending and Meta, all or nothing. The caller has changed Meta
// beforehand, Applied included.
func (x *Index) Commit() error {
	w := x.batch
	w.Reset()
	p := put{Batch: w, value: x.value}
	defer func() { x.value = p.value[:0] }()
	x.putEnded(&p)
	x.putWindows(&p)
	x.order = x.order[:0]
	for seq := range x.dirty {
		x.order = append(x.order, uint64(seq))
	}
	slices.Sort(x.order)
	if err := x.putDirty(&p); err != nil {
		return err
	}
	for i := range x.newWays {
		p.set(x.newWays[i].key(), nil)
	}
	x.putSenderIDs(&p)
	x.putTypes(&p)
	for i := range x.attempts {
		a := &x.attempts[i]
		p.value = appendOutcome(p.value[:0], &a.outcome)
		p.set(attemptKey(a.outcome.Seq, a.n), p.value)
	}
	x.putOrders(&p)
	x.putRepeats(&p)
	if x.newCatalogue {
		p.set([]byte{rowMeta, 'c'}, x.catalogue)
	}
	x.takeKept()
	x.expireDedup(&p)
	meta, err := json.Marshal(&x.meta)
	if err != nil {
		return fmt.Errorf("encode meta row: %w", err)
	}
	p.set([]byte{rowMeta}, meta)
	if err := errors.Join(p.err, w.Commit(pebble.NoSync)); err != nil {
		return fmt.Errorf("write index: %w", damage(err))
	}
	x.committed()
	return nil
}

// putDirty writes the records whose seqs are in x.order.
func (x *Index) putDirty(p *put) (err error) {
	var apart event.Seq // packed rows up to here are taken apart
	for _, seq := range x.order {
		seq := event.Seq(seq)
		if x.dirty[seq].packed && seq > apart {
			if apart, err = x.takeApart(p, seq); err != nil {
				return err
			}
		}
	}
	for _, seq := range x.order {
		x.putRecord(p, x.dirty[event.Seq(seq)])
	}
	return nil
}

// putEnded writes the rows of events that ended when they came, packed.
func (x *Index) putEnded(p *put) {
	e := &x.ended
	e.packs(func(from, to int) {
		first := e.seqs[from]
		if to == from+1 {
			p.set(seqKey(rowEvent, first), e.row(from))
			return
		}
		p.value = append(p.value[:0], packedVersion)
		for i := from; i < to; i++ {
			p.value = appendPacked(p.value, uint64(e.seqs[i]-first), e.row(i))
		}
		p.set(seqKey(rowEvent, first), p.value)
	})
	for _, seq := range e.repeats {
		p.set(seqKey(rowDuplicate, seq), nil)
	}
}

func (x *Index) putWindows(p *put) {
	x.order = x.windows.places(x.order)
	for _, place := range x.order {
		d := &x.windows.list[uint32(place)]
		key, value := p.setDeferred(dedupKeyBytes, dedupValueBytes)
		putDedupKey(key, d.day, d.part, d.Source, &d.Key)
		binary.LittleEndian.PutUint64(value, uint64(d.Until))
		binary.LittleEndian.PutUint64(value[8:], uint64(d.Seq))
		copy(value[16:], d.First[:])
		p.finish()
	}
}

const dedupValueBytes = 8 + 8 + 16

func parseDedup(value []byte) (d Dedup, ok bool) {
	if len(value) != dedupValueBytes {
		return d, false
	}
	d.Until = int64(binary.LittleEndian.Uint64(value))
	d.Seq = event.Seq(binary.LittleEndian.Uint64(value[8:]))
	d.First = event.ID(value[16:])
	return d, true
}

// put is an engine batch whose first error sticks.
type put struct {
	*pebble.Batch
	value []byte // scratch
	op    *pebble.DeferredBatchOp
	err   error
}

// setDeferred gives the places to write a row to; finish ends it.
func (p *put) setDeferred(keyBytes, valueBytes int) (key, value []byte) {
	p.op = p.SetDeferred(keyBytes, valueBytes)
	return p.op.Key, p.op.Value
}

func (p *put) finish() {
	if err := p.op.Finish(); err != nil && p.err == nil {
		p.err = err
	}
}

func (p *put) set(key, value []byte) {
	if err := p.Set(key, value, nil); err != nil && p.err == nil {
		p.err = err
	}
}

func (p *put) delete(key []byte) {
	if err := p.Delete(key, nil); err != nil && p.err == nil {
		p.err = err
	}
}

func (p *put) deleteRange(from, to []byte) {
	if err := p.DeleteRange(from, to, nil); err != nil && p.err == nil {
		p.err = err
	}
}

// putRecord writes the event's row and moves the rows that point to it from where they are to where
// they belong. Plain Delete, because a replay may write a key twice.
func (x *Index) putRecord(p *put, r *Record) {
	p.value = appendRecord(p.value[:0], r)
	p.set(seqKey(rowEvent, r.Seq), p.value)
	if want := r.wantMark(); want != r.mark {
		if row := r.mark.row(); row != 0 {
			p.delete(seqKey(row, r.Seq))
		}
		if row := want.row(); row != 0 {
			p.set(seqKey(row, r.Seq), nil)
		}
	}
	for i := range r.Deliveries {
		d := &r.Deliveries[i]
		if want := d.wantPlace(); want != d.place {
			if d.place.row != 0 {
				p.delete(d.place.key(d.Destination, r.Seq))
			}
			if want.row != 0 {
				p.set(want.key(d.Destination, r.Seq), nil)
			}
		}
		if want := d.Letter(); want != d.letter {
			if want {
				p.set(deadKey(r.Seq, d.Destination), nil)
			} else {
				p.delete(deadKey(r.Seq, d.Destination))
			}
		}
	}
}

func (m mark) row() byte {
	switch m {
	case markNeeded:
		return rowUnfinished
	case markDead:
		return rowGivenUp
	case markDuplicate:
		return rowDuplicate
	}
	return 0
}

func (p place) key(dest uint32, seq event.Seq) []byte {
	if p.row == rowFresh {
		return freshKey(dest, seq)
	}
	return timedKey(dest, p.due, seq)
}

// LivingDay is the first dedup bucket that may still decide: one day behind the horizon, so that
// frames that waited in a lane are judged like those that did not. It follows from the journal
// alone.
func (m *Meta) LivingDay() uint32 { return max(dayOf(m.Horizon), 1) - 1 }

func (x *Index) expireDedup(p *put) {
	living := x.meta.LivingDay()
	for len(x.buckets) > 0 && x.buckets[0].day < living {
		day := x.buckets[0].day
		p.deleteRange(dedupDayKey(day), dedupDayKey(day+1))
		x.keeper.forget(day, x.buckets[0].Kept)
		delete(x.meta.Dedup, day)
		x.keeper.release(x.buckets[0])
		x.buckets = slices.Delete(x.buckets, 0, 1)
	}
}
