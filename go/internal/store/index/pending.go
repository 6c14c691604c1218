package index

import "sluice/go/internal/event"

// pending is what changed since the last Commit, and records that were looked at lately.
type pending struct {
	dirty map[event.Seq]*Record
	// clean and older are two generations of unchanged records, so that the outcome of a delivery
	// that is under way costs no read.
	clean, older map[event.Seq]*Record
	attempts     []attempt
	dedup        map[dedupID]Dedup
	orders       map[orderID]map[event.Seq]orderChange
	// hints are places that no delivery under a key lives before, so that a seek does not walk
	// over the graves of all that were delivered.
	hints        map[orderID]event.Seq
	newCatalogue bool
}

type attempt struct {
	n       uint32
	outcome event.Outcome
}

type dedupID struct {
	day, source uint32
	key         [16]byte
}

type orderID struct {
	dest uint32
	key  uint64
}

// orderChange says what became of a q row since the last Commit.
type orderChange byte

const (
	orderAdded   orderChange = 1 + iota // not in the rows, living
	orderRemoved                        // in the rows, not living
	orderRevived                        // in the rows, was not living in between, is living
)

// hintsMax bounds the hints.
const hintsMax = 1 << 16

// cleanMax bounds one generation of unchanged records.
const cleanMax = 1 << 14

func newPending() pending {
	return pending{
		dirty: map[event.Seq]*Record{}, clean: map[event.Seq]*Record{},
		dedup: map[dedupID]Dedup{}, orders: map[orderID]map[event.Seq]orderChange{},
		hints: map[orderID]event.Seq{},
	}
}

// Pending counts the events that the next Commit writes.
func (x *Index) Pending() int { return len(x.dirty) }

// Load gives an event with all changes so far; nil when there is none. The writer may change it and
// then says Change.
func (x *Index) Load(seq event.Seq) (*Record, error) {
	if r := x.dirty[seq]; r != nil {
		return r, nil
	}
	if r := x.clean[seq]; r != nil {
		return r, nil
	}
	r := x.older[seq]
	if r == nil {
		var err error
		if r, err = x.Get(seq); r == nil || err != nil {
			return nil, err
		}
	}
	x.keep(r)
	return r, nil
}

func (x *Index) keep(r *Record) {
	if len(x.clean) >= cleanMax {
		x.older, x.clean = x.clean, make(map[event.Seq]*Record, cleanMax)
	}
	x.clean[r.Seq] = r
}

// Change notes that a record is new or not what it was.
func (x *Index) Change(r *Record) { x.dirty[r.Seq] = r }

// AddAttempt appends to an event's history. The record's count goes up; say Change too.
func (x *Index) AddAttempt(r *Record, o event.Outcome) {
	x.attempts = append(x.attempts, attempt{n: r.Attempts, outcome: o})
	r.Attempts++
}

// AddDedup opens a window.
func (x *Index) AddDedup(d Dedup) {
	day := dayOf(d.Until)
	x.dedup[dedupID{day, d.Source, d.Key}] = d
	x.days[day] = true
}

// AddOrder says that a delivery began to live under an ordering key.
func (x *Index) AddOrder(dest uint32, key uint64, seq event.Seq) {
	id := orderID{dest, key}
	changes := x.orders[id]
	if changes == nil {
		changes = map[event.Seq]orderChange{}
		x.orders[id] = changes
	}
	if changes[seq] == orderRemoved {
		changes[seq] = orderRevived
	} else {
		changes[seq] = orderAdded
	}
	if hint, ok := x.hints[id]; ok && seq < hint {
		x.hints[id] = seq
	}
}

// RemoveOrder says that it ceased to.
func (x *Index) RemoveOrder(dest uint32, key uint64, seq event.Seq) {
	id := orderID{dest, key}
	changes := x.orders[id]
	if changes == nil {
		changes = map[event.Seq]orderChange{}
		x.orders[id] = changes
	}
	if changes[seq] == orderAdded {
		delete(changes, seq)
	} else {
		changes[seq] = orderRemoved
	}
}

// SetCatalogue takes the JSON of a new catalogue.
func (x *Index) SetCatalogue(text []byte) { x.catalogue, x.newCatalogue = text, true }

// committed forgets what is in the rows now.
func (x *Index) committed() {
	for _, r := range x.dirty {
		r.settle()
		if r.Living() {
			x.keep(r)
		}
	}
	clear(x.dirty)
	clear(x.dedup)
	clear(x.orders)
	x.attempts = x.attempts[:0]
	x.newCatalogue = false
}
