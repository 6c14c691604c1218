package index

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"sluice/go/internal/event"
)

// Events that ended when they came, which nothing changes any more, lie many in one e row: a packed
// one, under the seq of the first. It never reaches over another event's row nor into another
// group, so that the order of rows is the order of events, and what removes whole groups removes
// whole rows. Its value, behind its version, is for each event
//
//	seq less the first's (uvarint) │ length (uvarint) │ row of one event
//
// If one of them is changed after all, all of the row become rows of their own.

const (
	packedVersion  = 2
	packedBytesMax = 16 << 10
)

func isPacked(row []byte) bool { return len(row) > 0 && row[0] == packedVersion }

func appendPacked(b []byte, after uint64, row []byte) []byte {
	b = binary.AppendUvarint(b, after)
	return append(binary.AppendUvarint(b, uint64(len(row))), row...)
}

// eventRow is the row of one event, wherever it lies.
type eventRow struct {
	seq event.Seq
	row []byte
}

// unpack appends the events of an e row to list.
func unpack(list []eventRow, first event.Seq, value []byte) ([]eventRow, error) {
	if !isPacked(value) {
		return append(list, eventRow{first, value}), nil
	}
	c := cursor{b: value[1:]}
	for len(c.b) > 0 {
		seq := first + event.Seq(c.uvarint())
		list = append(list, eventRow{seq, c.bytes(c.uvarint())})
	}
	if c.bad {
		return nil, fmt.Errorf("%w: packed row at event %d: %w", ErrDamaged, first, errShort)
	}
	return list, nil
}

// packedFrom is the first key that a row with seq in it may have.
func packedFrom(seq event.Seq) []byte { return seqKey(rowEvent, event.NewSeq(seq.Group(), 0)) }

// scan calls yield with the events of [from, before), oldest first or backwards. It tells whether
// yield wanted more. The row is valid inside yield alone.
func (x *Index) scan(from, before event.Seq, backwards bool,
	yield func(event.Seq, []byte) (more bool, err error)) (more bool, err error) {
	it, err := x.iter(packedFrom(from), seqKey(rowEvent, before))
	if err != nil {
		return false, err
	}
	begin, step := direction(it, backwards)
	var rows []eventRow
	for ok := begin(); ok; ok = step() {
		x.read.Add(1)
		if rows, err = unpack(rows[:0], seqAt(it.Key()), it.Value()); err != nil {
			return false, errors.Join(err, it.Close())
		}
		for i := range rows {
			r := &rows[i]
			if backwards {
				r = &rows[len(rows)-1-i]
			}
			if r.seq < from || r.seq >= before {
				continue
			}
			if more, err = yield(r.seq, r.row); !more || err != nil {
				return false, errors.Join(err, closeIter(it))
			}
		}
	}
	return true, closeIter(it)
}

// records is scan with the rows read.
func (x *Index) records(from, before event.Seq, backwards bool,
	yield func(*Record) bool) (more bool, err error) {
	return x.scan(from, before, backwards, func(seq event.Seq, row []byte) (bool, error) {
		r, err := parseRecord(seq, row)
		if err != nil {
			return false, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		return yield(r), nil
	})
}

// Get reads one event as it was committed; nil when there is none.
func (x *Index) Get(seq event.Seq) (*Record, error) {
	x.read.Add(1)
	value, closer, err := x.db.Get(seqKey(rowEvent, seq))
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return x.getPacked(seq)
	case err != nil:
		return nil, fmt.Errorf("read event row %d: %w", seq, damage(err))
	case isPacked(value):
		if err := closer.Close(); err != nil {
			return nil, fmt.Errorf("read event row %d: %w", seq, damage(err))
		}
		return x.getPacked(seq)
	}
	r, err := parseRecord(seq, value)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return r, errors.Join(err, closer.Close())
}

// seek is Get by an iterator over e rows.
func (x *Index) seek(it *pebble.Iterator, seq event.Seq) (*Record, error) {
	if !it.SeekGE(seqKey(rowEvent, seq)) || seqAt(it.Key()) != seq || isPacked(it.Value()) {
		if err := it.Error(); err != nil {
			return nil, fmt.Errorf("read event row %d: %w", seq, damage(err))
		}
		return x.getPacked(seq)
	}
	r, err := parseRecord(seq, it.Value())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return r, nil
}

// getPacked looks for an event in the last row that may hold it.
func (x *Index) getPacked(seq event.Seq) (found *Record, err error) {
	it, err := x.iter(packedFrom(seq), append(seqKey(rowEvent, seq), 0))
	if err != nil {
		return nil, err
	}
	if it.Last() && isPacked(it.Value()) {
		var rows []eventRow
		rows, err = unpack(nil, seqAt(it.Key()), it.Value())
		for _, r := range rows {
			if r.seq != seq {
				continue
			}
			if found, err = parseRecord(seq, r.row); err != nil {
				err = fmt.Errorf("%w: %w", ErrDamaged, err)
				break
			}
			found.packed = true
		}
	}
	return found, errors.Join(err, closeIter(it))
}

// takeApart gives the events of the packed row that seq lies in rows of their own, and tells the
// last of them.
func (x *Index) takeApart(p *put, seq event.Seq) (last event.Seq, err error) {
	it, err := x.iter(packedFrom(seq), append(seqKey(rowEvent, seq), 0))
	if err != nil {
		return seq, err
	}
	last = seq
	if it.Last() && isPacked(it.Value()) {
		var rows []eventRow
		rows, err = unpack(nil, seqAt(it.Key()), it.Value())
		for _, r := range rows {
			p.set(seqKey(rowEvent, r.seq), r.row) // the first takes the packed row's place
			last = r.seq
		}
	}
	return last, errors.Join(err, closeIter(it))
}
