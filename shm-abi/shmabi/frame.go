package shmabi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net/netip"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrFrame is wrapped by every error about the form of a frame: whoever wrote it has a bug, or the
// bytes were damaged since.
var ErrFrame = errors.New("not a frame")

// Frame is a view of one whole frame: two lines and a payload. It owns nothing.
type Frame []byte

// ParseFrame checks the D line at the start of b against the bytes that are there and gives the
// view of that frame. It loads the length once, so that a peer that writes again cannot stretch the
// view.
func ParseFrame(b []byte) (Frame, error) {
	if len(b) < FrameHeader {
		return nil, fmt.Errorf("%w: %d bytes hold no header", ErrFrame, len(b))
	}
	length := uint64(DLine(b).Length())
	if length < FrameHeader || length%LineSize != 0 || length > uint64(len(b)) {
		return nil, fmt.Errorf("%w: length %d with %d bytes there", ErrFrame, length, len(b))
	}
	return Frame(b[:length:length]), nil
}

// D is the line that the data plane wrote.
func (f Frame) D() DLine { return DLine(f[:DLineSize]) }

// C is the line that the control plane writes.
func (f Frame) C() CLine { return CLine(f[DLineSize : DLineSize+CLineSize]) }

// Kind is what the frame holds.
func (f Frame) Kind() Kind { return Kind(f.D().Kind()) }

// Payload is everything behind the two lines, padding included.
func (f Frame) Payload() []byte { return f[FrameHeader:] }

// CheckCRC compares the payload with the checksum in the D line.
func (f Frame) CheckCRC() error {
	if got, want := crc32.Checksum(f.Payload(), castagnoli), f.D().Crc32c(); got != want {
		return fmt.Errorf("%w: payload has CRC32C %#08x, its header says %#08x", ErrFrame, got, want)
	}
	return nil
}

// Event is a view of the payload of a KindEvent frame whose parts were checked to lie inside it.
type Event struct {
	frame         Frame
	target        []byte
	client        []byte
	headers       []byte
	index         []byte
	body          []byte
	method        []byte
	headersCount  int
	peer          netip.AddrPort
	unixPeerOrNil bool
}

// Event checks the payload head and gives the view. It fails when any part lies outside the frame.
func (f Frame) Event() (Event, error) {
	if f.Kind() != KindEvent {
		return Event{}, fmt.Errorf("%w: kind %d where an event belongs", ErrFrame, f.Kind())
	}
	if len(f) < FrameHeader+PayloadHeadSize {
		return Event{}, fmt.Errorf("%w: %d bytes hold no event", ErrFrame, len(f))
	}
	head := PayloadHead(f[FrameHeader : FrameHeader+PayloadHeadSize])
	targetLength, headersLength := uint64(head.TargetLength()), uint64(head.HeadersLength())
	count, bodyOffset := uint64(head.HeadersCount()), uint64(head.BodyOffset())
	bodyLength, methodLength := uint64(head.BodyLength()), int(head.MethodLength())
	clientLength := 8 * uint64(head.ClientWords())
	at := uint64(FrameHeader + PayloadHeadSize)
	index := (at + targetLength + clientLength + headersLength + 7) &^ 7
	end := index + 8*count
	switch {
	case headersLength > HeaderBlockMax:
		return Event{}, fmt.Errorf("%w: header block of %d bytes", ErrFrame, headersLength)
	case methodLength > 24:
		return Event{}, fmt.Errorf("%w: method of %d bytes", ErrFrame, methodLength)
	case end > bodyOffset || bodyOffset%LineSize != 0 || bodyOffset+bodyLength > uint64(len(f)):
		return Event{}, fmt.Errorf("%w: index ends at %d, body is [%d, %d) of %d", ErrFrame,
			end, bodyOffset, bodyOffset+bodyLength, len(f))
	}
	e := Event{
		frame:        f,
		target:       f[at : at+targetLength : at+targetLength],
		client:       bytes.TrimRight(f[at+targetLength:at+targetLength+clientLength], "\x00"),
		headers:      f[at+targetLength+clientLength:][:headersLength],
		index:        f[index:end],
		body:         f[bodyOffset : bodyOffset+bodyLength : bodyOffset+bodyLength],
		method:       f[FrameHeader+PayloadHeadMethodOffset:][:methodLength:methodLength],
		headersCount: int(count),
	}
	ip := head.PeerIP()
	e.unixPeerOrNil = ip == [16]byte{}
	e.peer = netip.AddrPortFrom(netip.AddrFrom16(ip).Unmap(), head.PeerPort())
	return e, nil
}

// Frame is the frame that the event lies in.
func (e *Event) Frame() Frame { return e.frame }

// Method is the request method.
func (e *Event) Method() []byte { return e.method }

// Target is the request target as it came.
func (e *Event) Target() []byte { return e.target }

// Client is the names in the sender's client certificate, one a line; empty: it showed none.
func (e *Event) Client() []byte { return e.client }

// Body is the request body without transfer coding.
func (e *Event) Body() []byte { return e.body }

// HeaderBlock is the raw header block, each line with its CRLF.
func (e *Event) HeaderBlock() []byte { return e.headers }

// HeaderCount is the number of headers.
func (e *Event) HeaderCount() int { return e.headersCount }

// Header gives header i in wire order, the value without the blanks around it. An index entry that
// points outside the block gives an empty name; ValidHeaders tells beforehand.
func (e *Event) Header(i int) (name, value []byte) {
	entry := e.index[8*i : 8*i+8]
	name, nameIn := e.span(entry[:4])
	value, valueIn := e.span(entry[4:])
	if !nameIn || !valueIn {
		return nil, nil
	}
	return name, value
}

// span is the part of the header block that an offset and a length name, if it lies inside.
func (e *Event) span(pair []byte) ([]byte, bool) {
	from := int(binary.LittleEndian.Uint16(pair))
	to := from + int(binary.LittleEndian.Uint16(pair[2:]))
	if to > len(e.headers) {
		return nil, false
	}
	return e.headers[from:to:to], true
}

// ValidHeaders checks that every index entry lies inside the header block.
func (e *Event) ValidHeaders() error {
	for i := range e.headersCount {
		if name, _ := e.Header(i); len(name) == 0 {
			return fmt.Errorf("%w: header %d lies outside the block of %d bytes",
				ErrFrame, i, len(e.headers))
		}
	}
	return nil
}

// Peer is the sender's address; the zero AddrPort for a Unix socket.
func (e *Event) Peer() netip.AddrPort {
	if e.unixPeerOrNil {
		return netip.AddrPort{}
	}
	return e.peer
}
