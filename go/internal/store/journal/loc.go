package journal

import (
	"encoding/binary"
	"fmt"
)

// LocBytes is the size of an encoded Loc.
const LocBytes = 20

// Loc is where a frame lies now. A rescue moves it; the event's Seq stays.
type Loc struct {
	Segment uint64
	Offset  int64  // of the frame in its file, a multiple of 64
	Length  uint32 // of the whole frame, a multiple of 64
	Check   uint32 // CRC32C of the frame's two lines, which its own checksum does not cover
}

// Append adds the encoded form to b: segment, offset/64, length/64, check.
func (l Loc) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, l.Segment)
	b = binary.LittleEndian.AppendUint32(b, uint32(l.Offset/lineSize))
	b = binary.LittleEndian.AppendUint32(b, l.Length/lineSize)
	return binary.LittleEndian.AppendUint32(b, l.Check)
}

// ParseLoc reads what Append wrote.
func ParseLoc(b []byte) (Loc, error) {
	if len(b) != LocBytes {
		return Loc{}, fmt.Errorf("location of %d bytes: want %d", len(b), LocBytes)
	}
	return Loc{
		Segment: binary.LittleEndian.Uint64(b),
		Offset:  int64(binary.LittleEndian.Uint32(b[8:])) * lineSize,
		Length:  binary.LittleEndian.Uint32(b[12:]) * lineSize,
		Check:   binary.LittleEndian.Uint32(b[16:]),
	}, nil
}
