package index

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"sluice/go/internal/event"
)

// Dedup remembers the first event with a key until a received time.
type Dedup struct {
	Source uint32
	Key    [16]byte
	First  event.ID
	Until  int64
}

// Commit writes everything pending and Meta, all or nothing. The caller has changed Meta
// beforehand, Applied included.
func (x *Index) Commit() error {
	w := x.db.NewBatch()
	defer func() { _ = w.Close() }()
	p := put{Batch: w}
	for _, r := range x.dirty {
		x.putRecord(&p, r)
	}
	for i := range x.attempts {
		a := &x.attempts[i]
		p.value = appendOutcome(p.value[:0], &a.outcome)
		p.set(attemptKey(a.outcome.Seq, a.n), p.value)
	}
	for k, d := range x.dedup {
		p.value = binary.LittleEndian.AppendUint64(p.value[:0], uint64(d.Until))
		p.value = append(p.value, d.First[:]...)
		p.set(dedupKey(k.day, d.Source, d.Key), p.value)
	}
	for id, changes := range x.orders {
		for seq, change := range changes {
			switch change {
			case orderAdded:
				p.set(orderKey(id.dest, id.key, seq), nil)
			case orderRemoved:
				p.delete(orderKey(id.dest, id.key, seq))
			case orderRevived:
			}
		}
	}
	if x.newCatalogue {
		p.set([]byte{rowMeta, 'c'}, x.catalogue)
	}
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

// put is an engine batch whose first error sticks.
type put struct {
	*pebble.Batch
	value []byte // scratch
	err   error
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
	if !r.stored {
		x.putWays(p, r)
	}
	if want := r.wantMark(); want != r.mark {
		if row := r.mark.row(); row != 0 && row != want.row() {
			p.delete(seqKey(row, r.Seq))
		}
		if row := want.row(); row != 0 {
			p.set(seqKey(row, r.Seq), []byte{byte(want)})
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
	case markLiving, markDead:
		return rowUnfinished
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

// ticksRemembered bounds the memory of t rows just written.
const ticksRemembered = 4096

// putWays adds the rows that lead to a new event from its source and its received time.
func (x *Index) putWays(p *put, r *Record) {
	chunk := chunkOf(r.Seq) + 1 // 0 is "none" in the maps
	if x.lastSource[r.Source] != chunk {
		x.lastSource[r.Source] = chunk
		p.set(sourceKey(r.Source, chunk-1), nil)
	}
	tick := tickOf(idTime(r.ID))
	if x.lastTick[tick] != chunk {
		if len(x.lastTick) >= ticksRemembered {
			clear(x.lastTick)
		}
		x.lastTick[tick] = chunk
		p.set(tickKey(idTime(r.ID), chunk-1), nil)
	}
}

func idTime(id event.ID) int64 { return id.Time().UnixNano() }

// LivingDay is the first dedup bucket that may still decide: one day behind the horizon, so that
// frames that waited in a lane are judged like those that did not. It follows from the journal
// alone.
func (m *Meta) LivingDay() uint32 { return max(dayOf(m.Horizon), 1) - 1 }

func (x *Index) expireDedup(p *put) {
	living := x.meta.LivingDay()
	for day := range x.days {
		if day < living {
			none := [16]byte{}
			p.deleteRange(dedupKey(day, 0, none), dedupKey(day+1, 0, none))
			delete(x.days, day)
		}
	}
}
