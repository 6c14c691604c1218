package index

import (
	"encoding/binary"
	"errors"
	"fmt"

	"sluice/go/internal/event"
	"sluice/go/internal/store/journal"
)

// Record is one event and where its deliveries stand.
type Record struct {
	Seq      event.Seq
	ID       event.ID
	Loc      journal.Loc // where its frame lies
	Source   uint32
	Route    uint32
	Size     uint32 // of the body
	Received int64  // ns since 1970
	// Horizon is the latest received time in the journal up to this event. It never falls from
	// one event to the next, whatever the clocks did.
	Horizon  int64
	OrderKey uint64 // 0: none
	// First is the event that this one repeats; zero when it is none.
	First event.ID
	// Type is the number of the sender's event type, see Index.TypeNumber; 0: none is known.
	Type uint32
	// Attempts counts the a rows.
	Attempts   uint32
	Deliveries []Delivery

	stored bool // a row of it is in the index, as of the marks in Deliveries
	packed bool // together with others
	mark   mark
}

// Delivery is one destination's part of a Record.
type Delivery struct {
	Destination uint32
	State       event.State
	Attempts    uint16
	Code        uint16
	// Next is when it is due; 0 of a pending one: since it came.
	Next int64
	At   int64 // of the last outcome; 0: none
	Err  string
	// Blocked tells that it waits for another one under the same ordering key.
	Blocked bool
	// Blocks, of a dead letter: it keeps its place under its ordering key, and what comes later
	// waits, until it is replayed or dropped.
	Blocks bool
	// Dropped tells that an operator gave the dead letter up.
	Dropped bool
	// Plain tells that the first attempt delivered it and that there is no a row of that.
	Plain bool

	place  place // the queue row that is in the index
	letter bool  // the x row is in the index
}

// place is a queue row: its kind and, of a timed one, its due time.
type place struct {
	row byte // 0: none
	due int64
}

// mark is the u, v or y row of an event: 0 for none.
type mark byte

const (
	markNeeded    mark = 1
	markDead      mark = 2
	markDuplicate mark = 3
)

// Living tells whether the delivery has still to be made.
func (d *Delivery) Living() bool {
	return d.State == event.Pending || d.State == event.Retrying
}

// Holds tells whether the delivery has a place under its ordering key: it lives, or is a dead
// letter that blocks.
func (d *Delivery) Holds() bool { return d.Living() || d.Blocks && d.Letter() }

func (d *Delivery) wantPlace() place {
	switch {
	case !d.Living() || d.Blocked:
		return place{}
	case d.Next == 0:
		return place{row: rowFresh}
	default:
		return place{row: rowTimed, due: d.Next}
	}
}

// Letter tells whether the delivery is among the dead letters.
func (d *Delivery) Letter() bool { return d.State == event.DeadLetter && !d.Dropped }

func (r *Record) wantMark() mark {
	state := r.State()
	if state == event.Duplicate {
		return markDuplicate
	}
	for i := range r.Deliveries {
		if r.Deliveries[i].Holds() {
			return markNeeded
		}
	}
	if state == event.DeadLetter {
		return markDead
	}
	return 0
}

// State is the event's: that of its least finished delivery. One without deliveries is delivered.
func (r *Record) State() event.State {
	if !r.First.IsZero() {
		return event.Duplicate
	}
	state := event.Delivered
	for i := range r.Deliveries {
		state = min(state, r.Deliveries[i].State)
	}
	return state
}

// Needed tells whether the event must be kept: a delivery of it has still to be made, or a dead
// letter of it blocks others, which an operator alone may end.
func (r *Record) Needed() bool { return r.wantMark() == markNeeded }

// Delivery finds the part of a destination; nil when the event does not go there.
func (r *Record) Delivery(dest uint32) *Delivery {
	for i := range r.Deliveries {
		if r.Deliveries[i].Destination == dest {
			return &r.Deliveries[i]
		}
	}
	return nil
}

// settle notes that what is in r is what is in the index.
func (r *Record) settle() {
	r.stored, r.packed, r.mark = true, false, r.wantMark()
	for i := range r.Deliveries {
		d := &r.Deliveries[i]
		d.place, d.letter = d.wantPlace(), d.Letter()
	}
}

// recordVersion differs from packedVersion, so that one byte tells the two apart.
const recordVersion = 3

const (
	flagBlocked = 1 << iota
	flagDropped
	flagPlain
	flagBlocks
)

var errShort = errors.New("row ends early")

func appendRecord(b []byte, r *Record) []byte {
	b = append(b, recordVersion)
	b = append(b, r.ID[:]...)
	b = r.Loc.Append(b)
	b = binary.AppendUvarint(b, uint64(r.Source))
	b = binary.AppendUvarint(b, uint64(r.Route))
	b = binary.AppendUvarint(b, uint64(r.Size))
	b = binary.AppendVarint(b, r.Received)
	b = binary.AppendVarint(b, r.Horizon-r.Received)
	b = binary.AppendUvarint(b, r.OrderKey)
	b = binary.AppendUvarint(b, uint64(r.Attempts))
	b = binary.AppendUvarint(b, uint64(r.Type))
	if r.First.IsZero() {
		b = append(b, 0)
	} else {
		b = append(append(b, 1), r.First[:]...)
	}
	b = binary.AppendUvarint(b, uint64(len(r.Deliveries)))
	for i := range r.Deliveries {
		d := &r.Deliveries[i]
		var flags byte
		if d.Blocked {
			flags |= flagBlocked
		}
		if d.Dropped {
			flags |= flagDropped
		}
		if d.Plain {
			flags |= flagPlain
		}
		if d.Blocks {
			flags |= flagBlocks
		}
		b = binary.AppendUvarint(b, uint64(d.Destination))
		b = append(b, byte(d.State), flags)
		b = binary.AppendUvarint(b, uint64(d.Attempts))
		b = binary.AppendUvarint(b, uint64(d.Code))
		b = binary.AppendVarint(b, d.Next)
		b = binary.AppendVarint(b, d.At)
		b = binary.AppendUvarint(b, uint64(len(d.Err)))
		b = append(b, d.Err...)
	}
	return b
}

// cursor reads a row; the first fault sticks.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) uvarint() uint64 {
	v, n := binary.Uvarint(c.b)
	if n <= 0 {
		c.bad, c.b = true, nil
		return 0
	}
	c.b = c.b[n:]
	return v
}

func (c *cursor) varint() int64 {
	v, n := binary.Varint(c.b)
	if n <= 0 {
		c.bad, c.b = true, nil
		return 0
	}
	c.b = c.b[n:]
	return v
}

func (c *cursor) bytes(n uint64) []byte {
	if n > uint64(len(c.b)) {
		c.bad, c.b = true, nil
		return nil
	}
	out := c.b[:n]
	c.b = c.b[n:]
	return out
}

func (c *cursor) byte() byte {
	if b := c.bytes(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

func parseRecord(seq event.Seq, row []byte) (*Record, error) {
	c := cursor{b: row}
	if v := c.byte(); v != recordVersion {
		return nil, fmt.Errorf("event row %d: version %d, want %d", seq, v, recordVersion)
	}
	r := &Record{Seq: seq}
	copy(r.ID[:], c.bytes(16))
	if loc := c.bytes(journal.LocBytes); !c.bad {
		var err error
		if r.Loc, err = journal.ParseLoc(loc); err != nil {
			return nil, fmt.Errorf("event row %d: %w", seq, err)
		}
	}
	r.Source = uint32(c.uvarint())
	r.Route = uint32(c.uvarint())
	r.Size = uint32(c.uvarint())
	r.Received = c.varint()
	r.Horizon = r.Received + c.varint()
	r.OrderKey = c.uvarint()
	r.Attempts = uint32(c.uvarint())
	r.Type = uint32(c.uvarint())
	if c.byte() == 1 {
		copy(r.First[:], c.bytes(16))
	}
	count := c.uvarint()
	if count > uint64(len(c.b)) {
		return nil, fmt.Errorf("event row %d: %w", seq, errShort)
	}
	if count > 0 {
		r.Deliveries = make([]Delivery, count)
	}
	for i := range r.Deliveries {
		d := &r.Deliveries[i]
		d.Destination = uint32(c.uvarint())
		d.State = event.State(c.byte())
		flags := c.byte()
		d.Blocked, d.Dropped = flags&flagBlocked != 0, flags&flagDropped != 0
		d.Plain, d.Blocks = flags&flagPlain != 0, flags&flagBlocks != 0
		d.Attempts = uint16(c.uvarint())
		d.Code = uint16(c.uvarint())
		d.Next = c.varint()
		d.At = c.varint()
		d.Err = string(c.bytes(c.uvarint()))
	}
	if c.bad {
		return nil, fmt.Errorf("event row %d: %w", seq, errShort)
	}
	r.settle()
	return r, nil
}
