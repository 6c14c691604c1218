package shmabi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"testing"
)

// FuzzFrames reads any bytes as a frame: each part that it names lies inside, or there is a typed
// error. What one frame can be read from, all bytes behind it cannot change.
func FuzzFrames(f *testing.F) {
	whole := sample(f)
	f.Add([]byte(whole))
	for _, at := range []int{
		DLineLengthOffset, FrameHeader + PayloadHeadTargetLengthOffset,
		FrameHeader + PayloadHeadHeadersLengthOffset, FrameHeader + PayloadHeadHeadersCountOffset,
		FrameHeader + PayloadHeadBodyOffsetOffset, FrameHeader + PayloadHeadBodyLengthOffset,
	} {
		for _, value := range []uint32{0, 1, 63, 64, 128, 4096, 1 << 31, 1<<32 - 1} {
			wrong := bytes.Clone(whole)
			binary.LittleEndian.PutUint32(wrong[at:], value)
			f.Add(wrong)
		}
	}
	f.Add([]byte(BuildRecord(KindEvent, []byte("too short"))))
	f.Fuzz(func(t *testing.T, b []byte) {
		frame, err := ParseFrame(b)
		if err != nil {
			typedFrame(t, err)
			return
		}
		if len(frame) < FrameHeader || len(frame) > len(b) {
			t.Fatalf("a frame of %d in %d bytes", len(frame), len(b))
		}
		if err := frame.CheckCRC(); err != nil {
			typedFrame(t, err)
		}
		e, err := frame.Event()
		if err != nil {
			typedFrame(t, err)
			return
		}
		parts := len(e.Target()) + len(e.Client()) + len(e.HeaderBlock()) + 8*e.HeaderCount() +
			len(e.Body())
		if FrameHeader+PayloadHeadSize+parts > len(frame) {
			t.Fatalf("parts of %d bytes in a frame of %d", parts, len(frame))
		}
		valid := e.ValidHeaders()
		typedFrame(t, valid)
		for i := range e.HeaderCount() {
			name, value := e.Header(i)
			if len(name)+len(value) > 2*len(e.HeaderBlock()) || valid == nil && len(name) == 0 {
				t.Fatalf("header %d is %d and %d bytes", i, len(name), len(value))
			}
		}
		_, _, _ = e.Method(), e.Peer(), frame.D().Position()
		again, err := ParseFrame(append(bytes.Clone(b), b...))
		if err != nil || !bytes.Equal(again, frame) {
			t.Fatalf("what follows makes a difference: %v", err)
		}
	})
}

// FuzzEventsReadBack builds frames of any parts: what went in comes out.
func FuzzEventsReadBack(f *testing.F) {
	f.Add("POST", "/in?x=1", "cn:a", "Host", "a", []byte("{}"), uint16(1))
	f.Add("", "", "", "X", "", []byte{}, uint16(0))
	f.Add("PATCH", "/", strings.Repeat("n", ClientMax), "X-A", "\xff\t b", make([]byte, 65), uint16(9))
	f.Fuzz(func(t *testing.T, method, target, client, name, value string, body []byte, port uint16) {
		peer := netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, 1}), port)
		frame, err := BuildEvent(EventParts{
			Method: method, Target: target, Client: client, Body: body, Peer: peer,
			Headers: [][2]string{{name, value}, {"Host", "h"}}, Position: 64,
		})
		if err != nil {
			return // a part that is too long
		}
		parsed, err := ParseFrame(frame)
		if err != nil || parsed.CheckCRC() != nil {
			t.Fatal(err, parsed.CheckCRC())
		}
		e, err := parsed.Event()
		if err != nil {
			t.Fatal(err)
		}
		gotName, gotValue := e.Header(0)
		for _, pair := range [][2]string{
			{method, string(e.Method())}, {target, string(e.Target())}, {name, string(gotName)},
			{value, string(gotValue)}, {string(body), string(e.Body())},
			// Names are text; the zeroes that fill their last word up are none.
			{strings.TrimRight(client, "\x00"), string(e.Client())},
		} {
			if pair[0] != pair[1] {
				t.Fatalf("%q went in, %q came out", pair[0], pair[1])
			}
		}
		if e.Peer() != peer {
			t.Fatalf("%v went in, %v came out", peer, e.Peer())
		}
	})
}

func typedFrame(t *testing.T, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, ErrFrame) {
		t.Fatalf("an error of no kind: %v", err)
	}
}
