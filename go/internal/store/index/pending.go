package index

import (
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"sluice/go/internal/event"
)

// pending is what changed since the last Commit, and records that were looked at lately.
type pending struct {
	dirty map[event.Seq]*Record
	// clean and older are two generations of unchanged records, so that the outcome of a delivery
	// that is under way costs no read.
	clean, older map[event.Seq]*Record
	ended        endedRows
	newWays      []way
	senderIDs    []senderID
	newTypes     []uint32
	attempts     []attempt
	windows      windows
	orders       orders
	repeats      repeats
	newCatalogue bool
}

type attempt struct {
	n       uint32
	outcome event.Outcome
}

// cleanMax bounds one generation of unchanged records.
const cleanMax = 1 << 14

func newPending() pending {
	return pending{
		dirty: map[event.Seq]*Record{}, clean: map[event.Seq]*Record{},
		orders: newOrders(),
	}
}

// endedRows holds the rows of events that ended when they came: encoded at once, in the order of
// their seqs. An event is known by its place in the list, so that it costs no record and no map.
type endedRows struct {
	seqs  []event.Seq
	ends  []uint32 // of the row at the same place, in bytes
	bytes []byte
	// breaks are places in the list that no packed row may reach over: another event lies before.
	breaks []int
	// repeats are those that repeat another.
	repeats []event.Seq
	// looked tells that one was given out and may be changed: then they are not packed.
	looked bool
}

func (e *endedRows) row(i int) []byte {
	from := uint32(0)
	if i > 0 {
		from = e.ends[i-1]
	}
	return e.bytes[from:e.ends[i]]
}

func (e *endedRows) find(seq event.Seq) []byte {
	if n := len(e.seqs); n == 0 || seq < e.seqs[0] || seq > e.seqs[n-1] {
		return nil
	}
	if i, ok := slices.BinarySearch(e.seqs, seq); ok {
		return e.row(i)
	}
	return nil
}

// endedBytesMax keeps the ends in their type; more is committed as records.
const endedBytesMax = 1 << 30

func (e *endedRows) add(r *Record) bool {
	if n := len(e.seqs); n > 0 && r.Seq <= e.seqs[n-1] || len(e.bytes) > endedBytesMax {
		return false
	}
	e.bytes = appendRecord(e.bytes, r)
	e.seqs = append(e.seqs, r.Seq)
	e.ends = append(e.ends, uint32(len(e.bytes)))
	if !r.First.IsZero() {
		e.repeats = append(e.repeats, r.Seq)
	}
	return true
}

// interrupt tells that another event comes between the last one and the next.
func (e *endedRows) interrupt() {
	if n := len(e.breaks); n == 0 || e.breaks[n-1] != len(e.seqs) {
		e.breaks = append(e.breaks, len(e.seqs))
	}
}

// packs calls yield with the stretches of the list that make one row each.
func (e *endedRows) packs(yield func(from, to int)) {
	breaks := e.breaks
	for from := 0; from < len(e.seqs); {
		for len(breaks) > 0 && breaks[0] <= from {
			breaks = breaks[1:]
		}
		to, group, size := from+1, e.seqs[from].Group(), len(e.row(from))
		for to < len(e.seqs) && e.seqs[to].Group() == group && size < packedBytesMax &&
			(len(breaks) == 0 || to < breaks[0]) && !e.looked {
			size += len(e.row(to))
			to++
		}
		yield(from, to)
		from = to
	}
}

func (e *endedRows) clear() {
	e.seqs, e.ends, e.bytes = e.seqs[:0], e.ends[:0], e.bytes[:0]
	e.breaks, e.repeats, e.looked = e.breaks[:0], e.repeats[:0], false
}

// Pending counts the events that the next Commit writes.
func (x *Index) Pending() int { return len(x.dirty) + len(x.ended.seqs) }

// Load gives an event with all changes so far; nil when there is none. The writer may change it and
// then says Change.
func (x *Index) Load(seq event.Seq) (*Record, error) {
	r, err := x.loaded(seq)
	if r == nil && err == nil {
		if r, err = x.Get(seq); r != nil {
			x.keep(r)
		}
	}
	return r, err
}

// loaded is Load of what is in memory.
func (x *Index) loaded(seq event.Seq) (*Record, error) {
	if r := x.dirty[seq]; r != nil {
		return r, nil
	}
	if r := x.clean[seq]; r != nil {
		return r, nil
	}
	if row := x.ended.find(seq); row != nil {
		// Its row is written before those of changed records: it counts as written.
		x.ended.looked = true
		return parseRecord(seq, row)
	}
	r := x.older[seq]
	if r != nil {
		x.keep(r)
	}
	return r, nil
}

// LoadAll is Load of many. They cost less if their seqs are in order.
func (x *Index) LoadAll(seqs []event.Seq, yield func(event.Seq, *Record) error) error {
	var it *pebble.Iterator
	for _, seq := range seqs {
		r, err := x.loaded(seq)
		if r == nil && err == nil {
			if it == nil {
				if it, err = x.iter([]byte{rowEvent}, []byte{rowEvent + 1}); err != nil {
					return err
				}
			}
			if r, err = x.seek(it, seq); r != nil {
				x.keep(r)
			}
		}
		if err == nil {
			err = yield(seq, r)
		}
		if err != nil {
			if it != nil {
				err = errors.Join(err, it.Close())
			}
			return err
		}
	}
	if it == nil {
		return nil
	}
	return closeIter(it)
}

func (x *Index) keep(r *Record) {
	if len(x.clean) >= cleanMax {
		x.older, x.clean = x.clean, make(map[event.Seq]*Record, cleanMax)
	}
	x.clean[r.Seq] = r
}

// AppendFreed appends the events in [from, to] whose delivery to a destination will have a fresh
// place by the next Commit, in no order.
func (x *Index) AppendFreed(seqs []event.Seq, dest uint32, from, to event.Seq) []event.Seq {
	for seq, r := range x.dirty {
		if seq < from || seq > to {
			continue
		}
		if d := r.Delivery(dest); d != nil && d.wantPlace().row == rowFresh {
			seqs = append(seqs, seq)
		}
	}
	return seqs
}

// Change notes that a record is new or not what it was.
func (x *Index) Change(r *Record) {
	if !r.stored && x.dirty[r.Seq] == nil {
		x.addWays(r)
		x.ended.interrupt()
	}
	x.dirty[r.Seq] = r
}

// AddEnded notes a new event that no delivery lives of. The record stays the caller's.
func (x *Index) AddEnded(r *Record) {
	if !x.ended.add(r) {
		kept := *r
		kept.Deliveries = slices.Clone(r.Deliveries)
		x.Change(&kept)
		return
	}
	x.addWays(r)
}

// AddAttempt appends to an event's history. The record's count goes up; say Change too.
func (x *Index) AddAttempt(r *Record, o event.Outcome) {
	x.attempts = append(x.attempts, attempt{n: r.Attempts, outcome: o})
	r.Attempts++
}

// AddDedup opens a window.
func (x *Index) AddDedup(d Dedup) {
	hash, day := hashKey(d.Source, &d.Key), dayOf(d.Until)
	x.windows.put(hash, day, x.addKey(x.bucketOf(day), hash), &d)
}

// SetCatalogue takes the JSON of a new catalogue.
func (x *Index) SetCatalogue(text []byte) { x.catalogue, x.newCatalogue = text, true }

// committed forgets what is in the rows now.
func (x *Index) committed() {
	for _, r := range x.dirty {
		r.settle()
		if r.Needed() {
			x.keep(r)
		}
	}
	clear(x.dirty)
	clear(x.orders.changed)
	x.ended.clear()
	x.windows.clear()
	x.repeats.clear()
	x.newWays = x.newWays[:0]
	x.senderIDs = x.senderIDs[:0]
	x.newTypes = x.newTypes[:0]
	x.attempts = x.attempts[:0]
	x.newCatalogue = false
}
