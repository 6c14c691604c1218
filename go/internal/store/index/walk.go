package index

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"sluice/go/internal/event"
)

// A walk goes through the chunks that all rows agree on which lead to what is looked for: those of
// a source, of a destination, of a type, and those in which events have a mark. Each in turn jumps
// to its first chunk at or behind the one that another stands at, until all stand at the same. So
// what is rare under one of them is found without going through what is common under the others.

// guide is one kind of rows in a walk, or several of which any leads there. A key has a number
// behind its prefix, which is a chunk or a seq; what follows does not matter.
type guide struct {
	rows []guideRows
	seqs bool // the numbers are seqs
}

type guideRows struct {
	it     *pebble.Iterator
	prefix []byte
}

func (g *guide) key(prefix []byte, chunk uint64) []byte {
	if g.seqs {
		chunk <<= chunkShift
	}
	return binary.BigEndian.AppendUint64(append(make([]byte, 0, 24), prefix...), chunk)
}

// lastChunk holds the last seqs that there can be.
const lastChunk = uint64(maxSeq >> chunkShift)

// seek gives the first chunk with rows, from one on; false: there is none.
func (g *guide) seek(from uint64, backwards bool) (found uint64, ok bool) {
	for _, r := range g.rows {
		var some bool
		switch {
		case !backwards:
			some = r.it.SeekGE(g.key(r.prefix, from))
		case from >= lastChunk:
			some = r.it.Last()
		default:
			some = r.it.SeekLT(g.key(r.prefix, from+1))
		}
		if !some {
			continue
		}
		chunk := binary.BigEndian.Uint64(r.it.Key()[len(r.prefix):])
		if g.seqs {
			chunk = chunkOf(event.Seq(chunk))
		}
		if !ok || backwards == (chunk > found) {
			found, ok = chunk, true
		}
	}
	return found, ok
}

// marksOf are the rows of which one leads to each event of a state; none: nothing but its own row
// does.
func marksOf(state event.State) []byte {
	switch state {
	case event.Pending, event.Retrying:
		return []byte{rowUnfinished}
	case event.DeadLetter: // one that blocks has no v row
		return []byte{rowGivenUp, rowDead}
	case event.Duplicate:
		return []byte{rowDuplicate}
	}
	return nil
}

// guides gives what leads to the events of a query in a stretch.
func (x *Index) guides(q *Query, part stretch) (list []guide, err error) {
	add := func(g *guide, prefix, from, end []byte) {
		if err != nil {
			return
		}
		var it *pebble.Iterator
		if it, err = x.iter(from, end); err == nil {
			g.rows = append(g.rows, guideRows{it, prefix})
		}
	}
	first, behind := chunkOf(part.from), chunkOf(part.end-1)+1
	for _, w := range []struct {
		row  byte
		from uint32
	}{{rowSource, q.Source}, {rowGoesTo, q.Destination}, {rowType, q.Type}} {
		if w.from != 0 {
			var g guide
			add(&g, destKey(w.row, w.from), wayKey(w.row, w.from, first),
				wayKey(w.row, w.from, behind))
			list = append(list, g)
		}
	}
	if marks := marksOf(q.State); marks != nil {
		g := guide{seqs: true}
		for _, row := range marks {
			add(&g, []byte{row}, seqKey(row, part.from), seqKey(row, part.end))
		}
		list = append(list, g)
	}
	if err != nil {
		err = errors.Join(err, closeGuides(list))
	}
	return list, err
}

func closeGuides(list []guide) (err error) {
	for _, g := range list {
		for _, r := range g.rows {
			err = errors.Join(err, closeIter(r.it))
		}
	}
	return err
}

// chunks calls yield with the parts of a stretch in which all guides have rows, until it returns
// false. It tells whether yield wanted more.
func (x *Index) chunks(list []guide, part stretch, backwards bool,
	yield func(stretch) (bool, error)) (more bool, err error) {
	if part.from >= part.end {
		return true, nil
	}
	first, last := chunkOf(part.from), chunkOf(part.end-1)
	chunk, agree := first, 0
	if backwards {
		chunk = last
	}
	for i := 0; ; i = (i + 1) % len(list) {
		found, ok := list[i].seek(chunk, backwards)
		x.read.Add(1)
		if !ok {
			return true, nil
		}
		if found != chunk {
			chunk, agree = found, 0
		}
		if agree++; agree < len(list) {
			continue
		}
		in := stretch{max(chunkStart(chunk), part.from), part.end}
		if chunk < last {
			in.end = chunkStart(chunk + 1)
		}
		if more, err = yield(in); !more || err != nil {
			return false, err
		}
		if backwards && chunk == first || !backwards && chunk == last {
			return true, nil
		}
		agree = 0
		if chunk++; backwards {
			chunk -= 2
		}
	}
}

// walk calls yield with the events of a stretch that the rows of a query lead to, and with some
// beside them. It tells whether yield wanted more.
func (x *Index) walk(q *Query, part stretch, yield func(*Record) bool) (more bool, err error) {
	if part.from >= part.end {
		return true, nil
	}
	list, err := x.guides(q, part)
	if err != nil {
		return false, err
	}
	if len(list) == 0 {
		return x.records(part.from, part.end, !q.Oldest, yield)
	}
	marks := marksOf(q.State)
	more, err = x.chunks(list, part, !q.Oldest, func(in stretch) (bool, error) {
		if marks != nil {
			return x.byMarks(marks, in, !q.Oldest, yield)
		}
		return x.records(in.from, in.end, !q.Oldest, yield)
	})
	return more, errors.Join(err, closeGuides(list))
}

// byMarks goes through the events of a stretch inside a chunk that have one of the rows.
func (x *Index) byMarks(marks []byte, in stretch, backwards bool,
	yield func(*Record) bool) (more bool, err error) {
	var seqs []event.Seq
	for _, row := range marks {
		it, err := x.iter(seqKey(row, in.from), seqKey(row, in.end))
		if err != nil {
			return false, err
		}
		for ok := it.First(); ok; ok = it.Next() {
			x.read.Add(1)
			seqs = append(seqs, event.Seq(binary.BigEndian.Uint64(it.Key()[1:])))
		}
		if err := closeIter(it); err != nil {
			return false, err
		}
	}
	slices.Sort(seqs)
	seqs = slices.Compact(seqs)
	if backwards {
		slices.Reverse(seqs)
	}
	for _, seq := range seqs {
		r, err := x.Get(seq)
		if err != nil {
			return false, err
		}
		if r != nil && !yield(r) {
			return false, nil
		}
	}
	return true, nil
}

// walkDead calls yield with the dead letters of the events that the rows of a query lead to.
func (x *Index) walkDead(q *Query, yield func(*Record, *Delivery) bool) (more bool, err error) {
	part := stretch{q.After + 1, q.Before}
	if part.from >= part.end {
		return true, nil
	}
	events := *q
	events.State = 0 // an event with a dead letter may be pending elsewhere
	list, err := x.guides(&events, part)
	if err != nil {
		return false, err
	}
	it, err := x.iter(deadKey(part.from, 0), deadKey(part.end, 0))
	if err != nil {
		return false, errors.Join(err, closeGuides(list))
	}
	list = append(list, guide{rows: []guideRows{{it, []byte{rowDead}}}, seqs: true})
	more, err = x.chunks(list, part, !q.Oldest, func(in stretch) (bool, error) {
		return x.deadIn(in, q, yield)
	})
	return more, errors.Join(err, closeGuides(list))
}

func (x *Index) deadIn(in stretch, q *Query, yield func(*Record, *Delivery) bool) (more bool,
	err error) {
	it, err := x.iter(deadKey(in.from, 0), deadKey(in.end, 0))
	if err != nil {
		return false, err
	}
	begin, step := direction(it, !q.Oldest)
	for ok := begin(); ok; ok = step() {
		x.read.Add(1)
		key := it.Key()
		dest := binary.BigEndian.Uint32(key[9:])
		if q.Destination != 0 && q.Destination != dest {
			continue
		}
		r, err := x.Get(event.Seq(binary.BigEndian.Uint64(key[1:])))
		if err != nil {
			return false, errors.Join(err, it.Close())
		}
		if r == nil {
			continue
		}
		if d := r.Delivery(dest); d != nil && !yield(r, d) {
			return false, closeIter(it)
		}
	}
	return true, closeIter(it)
}
