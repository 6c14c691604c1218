// Package event holds the words that every part of sluice shares: the names of an event, of its
// place in the journal, and of what became of its deliveries.
//
// It reads no frame, opens no file and knows no provider.
package event

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"
)

// ID names an event to senders, operators and destinations. It is a ULID: 48 bits of milliseconds
// since 1970 (the time the request was whole), then 80 bits derived from the lane and the position
// of its frame, so that judging a frame again in a later life of the control plane gives the same
// ID.
type ID [16]byte

// LaneID is the random name of one lane file.
type LaneID [16]byte

// NewID derives the ID of the frame at position of a lane. received is in ns since 1970.
func NewID(lane LaneID, position, receivedNS uint64) ID {
	var seed [24]byte
	copy(seed[:16], lane[:])
	binary.BigEndian.PutUint64(seed[16:], position)
	sum := sha256.Sum256(seed[:])
	var id ID
	ms := receivedNS / uint64(time.Millisecond)
	binary.BigEndian.PutUint64(id[:8], ms<<16)
	copy(id[6:], sum[:10])
	return id
}

// Item is the ID of an event that was made of this one, by its number: the same whenever it is
// made. It keeps the time.
func (id ID) Item(number uint32) ID {
	var seed [20]byte
	copy(seed[:16], id[:])
	binary.BigEndian.PutUint32(seed[16:], number)
	sum := sha256.Sum256(seed[:])
	copy(id[6:], sum[:10])
	return id
}

const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// IsZero tells whether the ID names nothing.
func (id ID) IsZero() bool { return id == ID{} }

// Time is the received time inside the ID, with millisecond resolution.
func (id ID) Time() time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(id[:8]) >> 16))
}

// String is the ULID text form: 26 characters of Crockford's base 32, which sort like the bytes.
func (id ID) String() string {
	var text [26]byte
	hi, lo := binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(id[8:])
	for i := 25; i >= 0; i-- {
		text[i] = crockford[lo&31]
		lo = lo>>5 | hi<<59
		hi >>= 5
	}
	return string(text[:])
}

// ParseID reads the text form. Lower case is taken too.
func ParseID(text string) (ID, error) {
	var id ID
	if len(text) != 26 {
		return id, fmt.Errorf("event id %q: want 26 characters, got %d", text, len(text))
	}
	var hi, lo uint64
	for i := range len(text) {
		v := crockfordValue(text[i])
		if v < 0 || (i == 0 && v > 7) {
			return id, fmt.Errorf("event id %q: character %q has no place there", text, text[i])
		}
		hi = hi<<5 | lo>>59
		lo = lo<<5 | uint64(v)
	}
	binary.BigEndian.PutUint64(id[:8], hi)
	binary.BigEndian.PutUint64(id[8:], lo)
	return id, nil
}

func crockfordValue(c byte) int {
	if c >= 'a' && c <= 'z' {
		c -= 'a' - 'A'
	}
	for i := range len(crockford) {
		if crockford[i] == c {
			return i
		}
	}
	return -1
}

// Seq is an event's place in the journal for good: group number times 65536 plus the index of its
// frame in the group. A copy of the frame in another segment keeps it.
type Seq uint64

// GroupFrames is the most frames one group may hold.
const GroupFrames = 1 << 16

// NewSeq names frame index of a group.
func NewSeq(group uint64, index int) Seq { return Seq(group<<16 | uint64(index)&0xffff) }

// Group is the number of the group that made the event durable.
func (s Seq) Group() uint64 { return uint64(s) >> 16 }

// Index is the frame's index in its group.
func (s Seq) Index() int { return int(s & 0xffff) }

// Span is a stretch [From, To) of one lane, in bytes that only grow.
type Span struct {
	Lane     LaneID
	From, To uint64
}
