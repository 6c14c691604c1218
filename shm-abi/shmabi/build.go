package shmabi

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net/netip"
)

// ClientMax is the most bytes of names in a client certificate that a frame takes.
const ClientMax = 255 * 8

// EventParts is what an event frame is made of. The data plane makes frames from requests; this
// twin is for events that enter on another way (import, reconciliation) and for tests.
type EventParts struct {
	Method, Target string
	// Client is the names in the sender's client certificate, one a line, at most ClientMax bytes.
	Client        string
	Headers       [][2]string // in wire order
	Body          []byte
	Peer          netip.AddrPort
	SourceID      uint32
	ConfigVersion uint32
	Seq           uint32
	ReceivedNS    uint64
	AdmittedNS    uint64
	Token         uint64
	Position      uint64
	UntilNS       uint64 // boot clock: end of the sender's budget; 0: not known
}

// BuildEvent lays out a KindEvent frame with an empty C line.
func BuildEvent(p EventParts) (Frame, error) {
	if len(p.Method) > 24 {
		return nil, fmt.Errorf("method %q is longer than 24 bytes", p.Method)
	}
	var block, index []byte
	for _, h := range p.Headers {
		entry := [4]int{len(block), len(h[0]), len(block) + len(h[0]) + 2, len(h[1])}
		for _, n := range entry {
			index = binary.LittleEndian.AppendUint16(index, uint16(n))
		}
		block = append(block, h[0]+": "+h[1]+"\r\n"...)
	}
	if len(block) > HeaderBlockMax {
		return nil, fmt.Errorf("header block of %d bytes is over %d", len(block), HeaderBlockMax)
	}
	if len(p.Client) > ClientMax {
		return nil, fmt.Errorf("client names of %d bytes are over %d", len(p.Client), ClientMax)
	}
	at := FrameHeader + PayloadHeadSize
	headersAt := at + len(p.Target) + roundUp(len(p.Client), 8)
	indexAt := (headersAt + len(block) + 7) &^ 7
	bodyAt := roundUp(indexAt+len(index), LineSize)
	f := Frame(make([]byte, roundUp(bodyAt+len(p.Body), LineSize)))
	copy(f[at:], p.Target)
	copy(f[at+len(p.Target):], p.Client)
	copy(f[headersAt:], block)
	copy(f[indexAt:], index)
	copy(f[bodyAt:], p.Body)
	head := f[FrameHeader:]
	binary.LittleEndian.PutUint32(head[PayloadHeadTargetLengthOffset:], uint32(len(p.Target)))
	binary.LittleEndian.PutUint32(head[PayloadHeadHeadersLengthOffset:], uint32(len(block)))
	binary.LittleEndian.PutUint32(head[PayloadHeadHeadersCountOffset:], uint32(len(p.Headers)))
	binary.LittleEndian.PutUint32(head[PayloadHeadBodyOffsetOffset:], uint32(bodyAt))
	binary.LittleEndian.PutUint32(head[PayloadHeadBodyLengthOffset:], uint32(len(p.Body)))
	binary.LittleEndian.PutUint16(head[PayloadHeadPeerPortOffset:], p.Peer.Port())
	head[PayloadHeadMethodLengthOffset] = uint8(len(p.Method))
	head[PayloadHeadClientWordsOffset] = uint8(roundUp(len(p.Client), 8) / 8)
	copy(head[PayloadHeadMethodOffset:], p.Method)
	if p.Peer.IsValid() {
		ip := p.Peer.Addr().As16()
		copy(head[PayloadHeadPeerIPOffset:], ip[:])
	}
	binary.LittleEndian.PutUint32(f[DLineSourceIDOffset:], p.SourceID)
	binary.LittleEndian.PutUint32(f[DLineConfigVersionOffset:], p.ConfigVersion)
	binary.LittleEndian.PutUint32(f[DLineSeqOffset:], p.Seq)
	binary.LittleEndian.PutUint64(f[DLineReceivedNSOffset:], p.ReceivedNS)
	binary.LittleEndian.PutUint64(f[DLineAdmittedNSOffset:], p.AdmittedNS)
	binary.LittleEndian.PutUint64(f[DLineTokenOffset:], p.Token)
	binary.LittleEndian.PutUint64(f[DLinePositionOffset:], p.Position)
	binary.LittleEndian.PutUint64(f[DLineUntilNSOffset:], p.UntilNS)
	seal(f, KindEvent)
	return f, nil
}

// BuildRecord lays out a frame of the control plane's own: kind and payload, padded with zeroes.
func BuildRecord(kind Kind, payload []byte) Frame {
	f := Frame(make([]byte, roundUp(FrameHeader+len(payload), LineSize)))
	copy(f[FrameHeader:], payload)
	seal(f, kind)
	return f
}

func seal(f Frame, kind Kind) {
	binary.LittleEndian.PutUint32(f[DLineLengthOffset:], uint32(len(f)))
	binary.LittleEndian.PutUint16(f[DLineKindOffset:], uint16(kind))
	binary.LittleEndian.PutUint32(f[DLineCrc32cOffset:], crc32.Checksum(f.Payload(), castagnoli))
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }
