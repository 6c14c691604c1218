package index

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"sluice/go/internal/event"
)

// LookupDedup finds the first event with a key whose window is open for a frame received at
// received. Of several, which only clocks that went back can leave, it is the one that ends first.
// It belongs to the writer.
func (x *Index) LookupDedup(source uint32, key [16]byte, received int64) (Dedup, bool, error) {
	var best Dedup
	hash := hashKey(source, &key)
	from := max(dayOf(received), x.meta.LivingDay())
	for _, b := range x.buckets {
		if b.day < from || !b.has(hash) {
			continue
		}
		d, ok := x.windows.get(hash, b.day, source, &key)
		if !ok {
			var err error
			if d, ok, err = x.readDedup(b, hash, source, &key); err != nil {
				return Dedup{}, false, err
			}
		}
		if ok && d.Until > received && (best.Until == 0 || d.Until < best.Until) {
			best = d
		}
	}
	return best, best.Until != 0, nil
}

// readDedup asks the rows of a day. A row of a later part takes the place of one before.
func (x *Index) readDedup(
	b *bucket, hash uint64, source uint32, key *[16]byte,
) (d Dedup, ok bool, err error) {
	for part := range b.parts(hash) {
		if d, ok, err = x.readDedupRow(dedupKey(b.day, part, source, key)); ok || err != nil {
			break
		}
	}
	d.Source, d.Key = source, *key
	return d, ok, err
}

func (x *Index) readDedupRow(key []byte) (d Dedup, ok bool, err error) {
	value, closer, err := x.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return d, false, nil
	}
	if err != nil {
		return d, false, fmt.Errorf("read dedup row: %w", damage(err))
	}
	if d, ok = parseDedup(value); !ok {
		err = fmt.Errorf("%w: dedup row of %d bytes", ErrDamaged, len(value))
	}
	return d, true, errors.Join(err, closer.Close())
}

// Fresh gives up to count deliveries of dest that are due since they came, from seq on. more tells
// whether there are others behind them.
func (x *Index) Fresh(dest uint32, from event.Seq, count int) (seqs []event.Seq, more bool,
	err error) {
	it, err := x.iter(freshKey(dest, from), destKey(rowFresh, dest+1))
	if err != nil {
		return nil, false, err
	}
	ok := it.First()
	for ; ok && len(seqs) < count; ok = it.Next() {
		seqs = append(seqs, seqAt(it.Key()))
	}
	return seqs, ok, closeIter(it)
}

// Timed is a delivery that is due at a time.
type Timed struct {
	Due int64
	Seq event.Seq
}

// Before tells whether t sorts before o.
func (t Timed) Before(o Timed) bool {
	return t.Due < o.Due || t.Due == o.Due && t.Seq < o.Seq
}

// Timed gives up to count deliveries of dest that are due at a time, from a place on.
func (x *Index) Timed(dest uint32, from Timed, count int) (list []Timed, more bool, err error) {
	it, err := x.iter(timedKey(dest, from.Due, from.Seq), destKey(rowTimed, dest+1))
	if err != nil {
		return nil, false, err
	}
	ok := it.First()
	for ; ok && len(list) < count; ok = it.Next() {
		key := it.Key()
		list = append(list, Timed{Due: int64(binary.BigEndian.Uint64(key[5:])), Seq: seqAt(key)})
	}
	return list, ok, closeIter(it)
}

// Attempts gives the recorded outcomes of an event, oldest first.
func (x *Index) Attempts(seq event.Seq) (list []event.Outcome, err error) {
	it, err := x.iter(attemptKey(seq, 0), seqKey(rowAttempt, seq+1))
	if err != nil {
		return nil, err
	}
	for ok := it.First(); ok; ok = it.Next() {
		o, err := parseOutcome(seq, it.Value())
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%w: attempt row of %d: %w", ErrDamaged, seq, err),
				it.Close())
		}
		list = append(list, o)
	}
	return list, closeIter(it)
}

// Find gives the event with an ID; nil when there is none.
func (x *Index) Find(id event.ID) (*Record, error) {
	tick := tickKey(idTime(id), 0)
	it, err := x.iter(tick, tickKey(idTime(id)+tickNS, 0))
	if err != nil {
		return nil, err
	}
	var chunks []uint64
	for ok := it.First(); ok; ok = it.Next() {
		x.read.Add(1)
		chunks = append(chunks, uint64(seqAt(it.Key())))
	}
	if err := closeIter(it); err != nil {
		return nil, err
	}
	for _, chunk := range chunks {
		r, err := x.findIn(chunk, id)
		if r != nil || err != nil {
			return r, err
		}
	}
	return nil, nil
}

func (x *Index) findIn(chunk uint64, id event.ID) (found *Record, err error) {
	_, err = x.scan(chunkStart(chunk), chunkStart(chunk+1), false,
		func(seq event.Seq, row []byte) (bool, error) {
			if len(row) < 17 || !bytes.Equal(row[1:17], id[:]) {
				return true, nil
			}
			if found, err = parseRecord(seq, row); err != nil {
				return false, fmt.Errorf("%w: %w", ErrDamaged, err)
			}
			return false, nil
		})
	return found, err
}
