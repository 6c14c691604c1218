package journal

import (
	"encoding/binary"
	"errors"
	"fmt"

	"sluice/go/internal/event"
)

// KindCarried is a Carried. It is the journal's own and never in a lane.
const KindCarried Kind = 6

// Carried is what must still be known of groups whose segments are dropped, so that whoever reads
// what is left decides as if they were there. All its parts may be empty.
//
// Its payload, all numbers little-endian, the keys first, then the repeats:
//
//	0      8         16     20        64
//	┌──────┬─────────┬──────┬─────────┬──────┐
//	│ last │ horizon │ keys │ repeats │ zero │
//	└──────┴─────────┴──────┴─────────┴──────┘
//	  u64    i64       u32    u32       40 B
//	┌────────┬───────┬─────┬─────┬───────┐  ┌─────┬───────┐
//	│ source │ until │ seq │ key │ first │  │ seq │ first │
//	└────────┴───────┴─────┴─────┴───────┘  └─────┴───────┘
//	  u32      i64     u64   16 B  16 B       u64   16 B
type Carried struct {
	// Last is the last group of a segment that goes: Repeats and Horizon count once it is gone.
	Last    uint64
	Horizon int64 // latest received time up to Last; 0: not told
	Keys    []CarriedKey
	Repeats []CarriedRepeat
}

// CarriedKey is a dedup key of a window that was open. It counts once the group of Seq is gone.
type CarriedKey struct {
	Source uint32
	Until  int64
	Seq    event.Seq // of First
	Key    [16]byte
	First  event.ID
}

// CarriedRepeat is an event in a later group that repeats one that goes.
type CarriedRepeat struct {
	Seq   event.Seq
	First event.ID
}

const (
	// CarriedMax bounds the keys and repeats of one Carried, which takes 213 KB then: what comes from
	// senders meanwhile waits behind it.
	CarriedMax = 4 << 10
	// CarriedKeyBytes is what a key takes.
	CarriedKeyBytes = 4 + 8 + 8 + 16 + 16

	carriedRepeatBytes = 8 + 16
)

var errCarried = errors.New("malformed record of what is carried forward")

func (c *Carried) size() int {
	return lineSize + CarriedKeyBytes*len(c.Keys) + carriedRepeatBytes*len(c.Repeats)
}

func (c *Carried) encode() []byte {
	le := binary.LittleEndian
	b := make([]byte, lineSize, c.size())
	le.PutUint64(b[0:], c.Last)
	le.PutUint64(b[8:], uint64(c.Horizon))
	le.PutUint32(b[16:], uint32(len(c.Keys)))
	le.PutUint32(b[20:], uint32(len(c.Repeats)))
	for i := range c.Keys {
		k := &c.Keys[i]
		b = le.AppendUint32(b, k.Source)
		b = le.AppendUint64(b, uint64(k.Until))
		b = le.AppendUint64(b, uint64(k.Seq))
		b = append(append(b, k.Key[:]...), k.First[:]...)
	}
	for i := range c.Repeats {
		r := &c.Repeats[i]
		b = append(le.AppendUint64(b, uint64(r.Seq)), r.First[:]...)
	}
	return b
}

// Carried decodes a frame of KindCarried that is not damaged.
func (f *Frame) Carried() (*Carried, error) {
	le := binary.LittleEndian
	b := f.Bytes[frameHeader:]
	if len(b) < lineSize {
		return nil, fmt.Errorf("%w: %d bytes", errCarried, len(b))
	}
	keys, repeats := int(le.Uint32(b[16:])), int(le.Uint32(b[20:]))
	c := &Carried{Last: le.Uint64(b), Horizon: int64(le.Uint64(b[8:]))}
	b = b[lineSize:]
	if len(b) < CarriedKeyBytes*keys+carriedRepeatBytes*repeats {
		return nil, fmt.Errorf("%w: %d bytes for %d keys and %d repeats", errCarried, len(b), keys,
			repeats)
	}
	for range keys {
		c.Keys = append(c.Keys, CarriedKey{
			Source: le.Uint32(b), Until: int64(le.Uint64(b[4:])), Seq: event.Seq(le.Uint64(b[12:])),
			Key: [16]byte(b[20:36]), First: event.ID(b[36:52]),
		})
		b = b[CarriedKeyBytes:]
	}
	for range repeats {
		c.Repeats = append(c.Repeats, CarriedRepeat{
			Seq: event.Seq(le.Uint64(b)), First: event.ID(b[8:24]),
		})
		b = b[carriedRepeatBytes:]
	}
	return c, nil
}
