package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/bits"

	"sluice/go/internal/event"
	"sluice/shm-abi/shmabi"
)

const (
	lineSize    = shmabi.LineSize
	frameHeader = shmabi.FrameHeader

	groupMagic    = 0x52474543_49554c53 // "SLUICEGR"
	formatVersion = 1

	headerBytes  = 128
	spanBytes    = 32
	tableBytes   = 64 // fixed part of the table
	entryBytes   = 80
	tableLane    = 24
	headBytesMax = 64 << 20 // header, spans and table: about 800,000 segments
	groupMax     = 1 << 48  // a Seq has 48 bits for the group number
	segmentMax   = 1 << 62  // a number above it is a damaged one

	flagFirst = 1 << 0 // a table follows the spans
	flagIdle  = 1 << 1 // an idle mark
	flagsAll  = flagFirst | flagIdle
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header is the fixed part of a group; see the package documentation for its place on disk.
type header struct {
	crc          uint32
	format       uint16
	flags        uint16
	epoch        uint64
	segment      uint64
	group        uint64
	time         int64
	length       int64 // of the whole group, padding included
	headLength   int   // header, spans and table
	spans        int
	frames       int
	tableLength  int
	framesLength int64
	journal      [16]byte
	block        uint32
}

// entry is a living segment in a table.
type entry struct {
	number, epoch, file   uint64
	end, lastOffset       int64
	firstGroup, lastGroup uint64
	firstTime, lastTime   int64
	events                uint32
	damaged               bool
}

// table says which segments live, where each ends, and how far each lane has come before the group
// that carries the table.
type table struct {
	segments      []entry
	lanes         []laneEnd
	configVersion uint32
}

type laneEnd struct {
	lane event.LaneID
	to   uint64
}

func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }

func (t *table) size() int {
	if t == nil {
		return 0
	}
	return tableBytes + entryBytes*len(t.segments) + tableLane*len(t.lanes)
}

// headSize is the length of header, spans and table together.
func headSize(spans int, t *table) int64 {
	return roundUp(int64(headerBytes+spanBytes*spans+t.size()), lineSize)
}

// encodeHead fills dst[:h.headLength], the checksum excepted.
func encodeHead(dst []byte, h *header, spans []event.Span, t *table) {
	le := binary.LittleEndian
	clear(dst[:h.headLength])
	le.PutUint64(dst[0:], groupMagic)
	le.PutUint16(dst[12:], h.format)
	le.PutUint16(dst[14:], h.flags)
	le.PutUint64(dst[16:], h.epoch)
	le.PutUint64(dst[24:], h.segment)
	le.PutUint64(dst[32:], h.group)
	le.PutUint64(dst[40:], uint64(h.time))
	le.PutUint64(dst[48:], uint64(h.length))
	le.PutUint32(dst[56:], uint32(h.headLength))
	le.PutUint32(dst[60:], uint32(h.spans))
	le.PutUint32(dst[64:], uint32(h.frames))
	le.PutUint32(dst[68:], uint32(h.tableLength))
	le.PutUint64(dst[72:], uint64(h.framesLength))
	copy(dst[80:96], h.journal[:])
	le.PutUint32(dst[96:], h.block)
	b := dst[headerBytes:]
	for _, s := range spans {
		copy(b, s.Lane[:])
		le.PutUint64(b[16:], s.From)
		le.PutUint64(b[24:], s.To)
		b = b[spanBytes:]
	}
	if t != nil {
		t.encode(b)
	}
}

func (t *table) encode(b []byte) {
	le := binary.LittleEndian
	le.PutUint32(b[0:], uint32(len(t.segments)))
	le.PutUint32(b[4:], uint32(len(t.lanes)))
	le.PutUint32(b[8:], t.configVersion)
	b = b[tableBytes:]
	for _, e := range t.segments {
		le.PutUint64(b[0:], e.number)
		le.PutUint64(b[8:], e.epoch)
		le.PutUint64(b[16:], e.file)
		le.PutUint64(b[24:], uint64(e.end))
		le.PutUint64(b[32:], uint64(e.lastOffset))
		le.PutUint64(b[40:], e.firstGroup)
		le.PutUint64(b[48:], e.lastGroup)
		le.PutUint64(b[56:], uint64(e.firstTime))
		le.PutUint64(b[64:], uint64(e.lastTime))
		le.PutUint32(b[72:], e.events)
		if e.damaged {
			b[76] = 1
		}
		b = b[entryBytes:]
	}
	for _, l := range t.lanes {
		copy(b, l.lane[:])
		le.PutUint64(b[16:], l.to)
		b = b[tableLane:]
	}
}

// checksum covers the head and both lines of every frame.
func checksum(epoch uint64, head []byte, frames func(yield func([]byte) bool)) uint32 {
	crc := headChecksum(epoch, head)
	for f := range frames {
		crc = crc32.Update(crc, castagnoli, f[:frameHeader])
	}
	return crc
}

// headChecksum is the part of the head. The epoch goes in first, so that a group of an older life
// of the file never passes.
func headChecksum(epoch uint64, head []byte) uint32 {
	var seed [8]byte
	binary.LittleEndian.PutUint64(seed[:], epoch)
	return crc32.Update(crc32.Update(0, castagnoli, seed[:]), castagnoli, head[12:])
}

// behindLines advances a CRC32C over both lines of a frame, a byte of it at each place: CRCs are
// linear, so that the sum of a whole follows from those of its halves.
var behindLines = func() (table [4][256]uint32) {
	for place := range table {
		for value := range table[place] {
			crc := uint32(value) << (8 * place)
			for range frameHeader {
				crc = castagnoli[byte(crc)] ^ crc>>8
			}
			table[place][value] = crc
		}
	}
	return table
}()

// joinLines gives the CRC32C of bytes and a frame's lines behind them from both CRC32Cs, so that
// lines are read once.
func joinLines(crc, lines uint32) uint32 {
	return behindLines[0][byte(crc)] ^ behindLines[1][byte(crc>>8)] ^
		behindLines[2][byte(crc>>16)] ^ behindLines[3][byte(crc>>24)] ^ lines
}

// frameBits is enough for any number of frames.
const frameBits = 17

const _ = uint(1<<frameBits - 1 - event.GroupFrames)

// linesBehind[k] advances a CRC32C over the lines of 2^k frames: what becomes of each of its bits.
var linesBehind = func() (table [frameBits][32]uint32) {
	for bit := range 32 {
		table[0][bit] = joinLines(1<<bit, 0)
	}
	for k := range len(table) - 1 {
		for bit := range 32 {
			table[k+1][bit] = sumOf(&table[k], table[k][bit])
		}
	}
	return table
}()

func sumOf(ofBits *[32]uint32, crc uint32) (sum uint32) {
	for ; crc != 0; crc &= crc - 1 {
		sum ^= ofBits[bits.TrailingZeros32(crc)]
	}
	return sum
}

// joinFrames gives the CRC32C of bytes and the lines of so many frames behind them from both
// CRC32Cs.
func joinFrames(crc uint32, frames int, lines uint32) uint32 {
	for n := uint(frames); n != 0; n &= n - 1 {
		crc = sumOf(&linesBehind[bits.TrailingZeros(n)], crc)
	}
	return crc ^ lines
}

// errNoGroup means that no group begins at the bytes looked at. It is wrapped with the reason.
var errNoGroup = errors.New("no valid group")

// parseHeader reads the fixed part and checks everything that can be checked without the rest.
// legible is true when the bytes were meant to be a group header, valid or not.
func parseHeader(b []byte) (h header, legible bool, err error) {
	le := binary.LittleEndian
	if len(b) < headerBytes || le.Uint64(b) != groupMagic {
		return h, false, fmt.Errorf("%w: no header", errNoGroup)
	}
	h = header{
		crc:          le.Uint32(b[8:]),
		format:       le.Uint16(b[12:]),
		flags:        le.Uint16(b[14:]),
		epoch:        le.Uint64(b[16:]),
		segment:      le.Uint64(b[24:]),
		group:        le.Uint64(b[32:]),
		time:         int64(le.Uint64(b[40:])),
		length:       int64(le.Uint64(b[48:])),
		headLength:   int(le.Uint32(b[56:])),
		spans:        int(le.Uint32(b[60:])),
		frames:       int(le.Uint32(b[64:])),
		tableLength:  int(le.Uint32(b[68:])),
		framesLength: int64(le.Uint64(b[72:])),
		journal:      [16]byte(b[80:96]),
		block:        le.Uint32(b[96:]),
	}
	first := h.flags&flagFirst != 0
	switch {
	case h.flags&^flagsAll != 0,
		h.segment == 0 || h.segment >= segmentMax,
		h.group == 0 || h.group >= groupMax,
		h.frames > event.GroupFrames,
		first != (h.tableLength > 0),
		h.headLength > headBytesMax,
		h.spans > headBytesMax/spanBytes,
		h.tableLength > headBytesMax,
		h.framesLength < int64(h.frames)*frameHeader || h.framesLength > groupMax,
		h.block < BlockSize || h.block%BlockSize != 0 || h.block > 1<<20:
		return h, true, fmt.Errorf("%w: header out of bounds", errNoGroup)
	}
	head := roundUp(int64(headerBytes+spanBytes*h.spans+h.tableLength), lineSize)
	if int64(h.headLength) != head ||
		h.length != roundUp(head+h.framesLength, int64(h.block)) {
		return h, true, fmt.Errorf("%w: lengths disagree", errNoGroup)
	}
	return h, true, nil
}

// parsed is a group whose checksum passed. It views the bytes it was parsed from.
type parsed struct {
	header
	bytes  []byte
	spans  []event.Span
	table  *table
	frames []shmabi.Frame
	at     []int64 // where each frame begins, from the start of the group
	bad    []bool  // frames whose payload fails its checksum
	badCnt int
}

// parseGroup checks a whole group. b begins with it and may be longer.
func parseGroup(b []byte) (*parsed, error) {
	h, _, err := parseHeader(b)
	if err != nil {
		return nil, err
	}
	if h.length > int64(len(b)) {
		return nil, fmt.Errorf("%w: %d bytes of %d are there", errNoGroup, len(b), h.length)
	}
	p := &parsed{header: h, bytes: b[:h.length:h.length]}
	if err := p.parseFrames(); err != nil {
		return nil, err
	}
	crc := checksum(h.epoch, p.bytes[:h.headLength], func(yield func([]byte) bool) {
		for _, f := range p.frames {
			if !yield(f) {
				return
			}
		}
	})
	if crc != h.crc {
		return nil, fmt.Errorf("%w: checksum %#08x, header says %#08x", errNoGroup, crc, h.crc)
	}
	if h.format != formatVersion {
		return nil, fmt.Errorf("group %d of segment %d has format %d, this version reads %d: %w",
			h.group, h.segment, h.format, formatVersion, ErrNewer)
	}
	return p, p.parseHead()
}

func (p *parsed) parseFrames() error {
	b := p.bytes[p.headLength:][:p.framesLength]
	p.frames = make([]shmabi.Frame, 0, p.header.frames)
	p.at = make([]int64, 0, p.header.frames)
	at := int64(p.headLength)
	for range p.header.frames {
		f, err := shmabi.ParseFrame(b)
		if err != nil {
			return fmt.Errorf("%w: frame %d: %w", errNoGroup, len(p.frames), err)
		}
		p.frames, p.at = append(p.frames, f), append(p.at, at)
		b, at = b[len(f):], at+int64(len(f))
	}
	if len(b) != 0 {
		return fmt.Errorf("%w: %d bytes behind the last frame", errNoGroup, len(b))
	}
	return nil
}

// parseHead reads spans and table; their bytes have passed the checksum, so that a fault here is
// the writer's.
func (p *parsed) parseHead() error {
	le := binary.LittleEndian
	b := p.bytes[headerBytes:p.headLength]
	p.spans = make([]event.Span, p.header.spans)
	for i := range p.spans {
		p.spans[i] = event.Span{
			Lane: event.LaneID(b[:16]), From: le.Uint64(b[16:]), To: le.Uint64(b[24:]),
		}
		b = b[spanBytes:]
	}
	if p.flags&flagFirst == 0 {
		return nil
	}
	b = b[:p.tableLength]
	if len(b) < tableBytes {
		return fmt.Errorf("%w: table of %d bytes", errNoGroup, len(b))
	}
	segments, lanes := int(le.Uint32(b)), int(le.Uint32(b[4:]))
	if len(b) != tableBytes+entryBytes*segments+tableLane*lanes {
		return fmt.Errorf("%w: table of %d bytes for %d segments and %d lanes", errNoGroup,
			len(b), segments, lanes)
	}
	t := &table{configVersion: le.Uint32(b[8:])}
	b = b[tableBytes:]
	for range segments {
		t.segments = append(t.segments, entry{
			number: le.Uint64(b), epoch: le.Uint64(b[8:]), file: le.Uint64(b[16:]),
			end: int64(le.Uint64(b[24:])), lastOffset: int64(le.Uint64(b[32:])),
			firstGroup: le.Uint64(b[40:]), lastGroup: le.Uint64(b[48:]),
			firstTime: int64(le.Uint64(b[56:])), lastTime: int64(le.Uint64(b[64:])),
			events: le.Uint32(b[72:]), damaged: b[76] == 1,
		})
		b = b[entryBytes:]
	}
	for range lanes {
		t.lanes = append(t.lanes, laneEnd{event.LaneID(b[:16]), le.Uint64(b[16:])})
		b = b[tableLane:]
	}
	p.table = t
	return nil
}

// checkPayloads compares every frame's payload with its checksum and remembers those that fail.
func (p *parsed) checkPayloads() int {
	p.bad, p.badCnt = make([]bool, len(p.frames)), 0
	for i, f := range p.frames {
		if f.CheckCRC() != nil {
			p.bad[i] = true
			p.badCnt++
		}
	}
	return p.badCnt
}

func putChecksum(b []byte, crc uint32) { binary.LittleEndian.PutUint32(b[8:], crc) }
