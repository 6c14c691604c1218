package journal

import (
	"encoding/binary"
	"errors"
	"fmt"

	"sluice/go/internal/event"
)

// An OUTCOMES payload is a list of entries without a count: an entry whose kind is 0 ends it,
// which the zero padding of the frame also reads as. Texts lie behind their entry in lines of
// their own.
//
//	 0      8           12     13      14       16     18      20      22      24   32    40     64
//	┌──────┬───────────┬──────┬───────┬────────┬──────┬───────┬───────┬───────┬────┬─────┬──────┐
//	│ seq  │destination│ kind │ lines │attempt │ code │errlen │ bylen │ flags │ at │next │ zero │
//	└──────┴───────────┴──────┴───────┴────────┴──────┴───────┴───────┴───────┴────┴─────┴──────┘
//	  u64    u32         u8     u8      u16      u16    u16     u16     u8+1z   i64  i64   24 B
//	┌──────────────────────────── lines × 64 bytes ─────────────────────────────────────────────┐
//	│ err (errlen bytes), by (bylen bytes), zeroes                                              │
//	└───────────────────────────────────────────────────────────────────────────────────────────┘
//
// Bit 0 of flags is Outcome.Blocks, bit 1 Outcome.Copied; the others are zero, and not looked at.
const outcomeLinesMax = (2*event.ErrMax + lineSize - 1) / lineSize

const (
	outcomeBlocks = 1 << 0
	outcomeCopied = 1 << 1
)

// The count of lines must fit its byte.
const _ = uint8(outcomeLinesMax)

var errOutcome = errors.New("malformed outcome")

// outcomeText is what of the texts goes to disk: under the space floor only who asked, which no
// later attempt can tell again.
func outcomeText(o *event.Outcome, lowSpace bool) (errText, by string) {
	errText, by = o.Err, o.By
	if lowSpace {
		errText = ""
	}
	return errText[:min(len(errText), event.ErrMax)], by[:min(len(by), event.ErrMax)]
}

func outcomeSize(o *event.Outcome, lowSpace bool) int64 {
	errText, by := outcomeText(o, lowSpace)
	return OutcomeBytes + roundUp(int64(len(errText)+len(by)), lineSize)
}

func appendOutcome(b []byte, o *event.Outcome, lowSpace bool) []byte {
	le := binary.LittleEndian
	errText, by := outcomeText(o, lowSpace)
	lines := (len(errText) + len(by) + lineSize - 1) / lineSize
	at := len(b)
	b = append(b, make([]byte, OutcomeBytes+lines*lineSize)...)
	e := b[at:]
	le.PutUint64(e[0:], uint64(o.Seq))
	le.PutUint32(e[8:], o.Destination)
	e[12], e[13] = uint8(o.Kind), uint8(lines)
	le.PutUint16(e[14:], o.Attempt)
	le.PutUint16(e[16:], o.Code)
	le.PutUint16(e[18:], uint16(len(errText)))
	le.PutUint16(e[20:], uint16(len(by)))
	if o.Blocks {
		e[22] |= outcomeBlocks
	}
	if o.Copied {
		e[22] |= outcomeCopied
	}
	le.PutUint64(e[24:], uint64(o.At))
	le.PutUint64(e[32:], uint64(o.Next))
	copy(e[OutcomeBytes:], errText)
	copy(e[OutcomeBytes+len(errText):], by)
	return b
}

// parseOutcomes reads a payload; its bytes have passed the frame's checksum.
func parseOutcomes(b []byte, list []event.Outcome) ([]event.Outcome, error) {
	le := binary.LittleEndian
	for len(b) >= OutcomeBytes && b[12] != 0 {
		lines := int(b[13]) * lineSize
		errLen, byLen := int(le.Uint16(b[18:])), int(le.Uint16(b[20:]))
		if errLen+byLen > lines || OutcomeBytes+lines > len(b) {
			return list, fmt.Errorf("%w: texts of %d and %d bytes in %d, %d left", errOutcome,
				errLen, byLen, lines, len(b))
		}
		text := b[OutcomeBytes:]
		list = append(list, event.Outcome{
			Seq:         event.Seq(le.Uint64(b)),
			Destination: le.Uint32(b[8:]),
			Kind:        event.OutcomeKind(b[12]),
			Attempt:     le.Uint16(b[14:]),
			Code:        le.Uint16(b[16:]),
			At:          int64(le.Uint64(b[24:])),
			Next:        int64(le.Uint64(b[32:])),
			Err:         string(text[:errLen]),
			By:          string(text[errLen : errLen+byLen]),
			Blocks:      b[22]&outcomeBlocks != 0,
			Copied:      b[22]&outcomeCopied != 0,
		})
		b = b[OutcomeBytes+lines:]
	}
	return list, nil
}
