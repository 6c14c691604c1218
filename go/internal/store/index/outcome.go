package index

import (
	"encoding/binary"

	"sluice/go/internal/event"
)

const outcomeBlocks = 1 << 0

func appendOutcome(b []byte, o *event.Outcome) []byte {
	b = binary.AppendUvarint(b, uint64(o.Destination))
	b = append(b, byte(o.Kind))
	b = binary.AppendUvarint(b, uint64(o.Attempt))
	b = binary.AppendUvarint(b, uint64(o.Code))
	b = binary.AppendVarint(b, o.At)
	b = binary.AppendVarint(b, o.Next)
	b = append(binary.AppendUvarint(b, uint64(len(o.Err))), o.Err...)
	b = append(binary.AppendUvarint(b, uint64(len(o.By))), o.By...)
	if o.Blocks {
		b = append(b, outcomeBlocks) // rows without it end here
	}
	return b
}

func parseOutcome(seq event.Seq, row []byte) (event.Outcome, error) {
	c := cursor{b: row}
	o := event.Outcome{Seq: seq}
	o.Destination = uint32(c.uvarint())
	o.Kind = event.OutcomeKind(c.byte())
	o.Attempt = uint16(c.uvarint())
	o.Code = uint16(c.uvarint())
	o.At = c.varint()
	o.Next = c.varint()
	o.Err = string(c.bytes(c.uvarint()))
	o.By = string(c.bytes(c.uvarint()))
	if !c.bad && len(c.b) > 0 {
		o.Blocks = c.byte()&outcomeBlocks != 0
	}
	if c.bad {
		return o, errShort
	}
	return o, nil
}
