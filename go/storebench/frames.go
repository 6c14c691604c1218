package main

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"sluice/go/internal/event"
	"sluice/go/storebench/meter"
	"sluice/shm-abi/shmabi"
)

// The catalogue's numbers. Events of source go to destination.
const (
	source      = 1
	route       = 1
	destination = 1
)

var catalogue = event.Catalogue{
	ConfigVersion: 1,
	Sources:       []event.Named{{ID: source, Name: "source"}},
	Destinations:  []event.Named{{ID: destination, Name: "destination"}},
	Routes: []event.Route{
		{Version: route, Source: source, Destinations: []uint32{destination}},
	},
}

// keyWindow is how long an event's id counts as known.
const keyWindow = 24 * time.Hour

// frames hands out groups of verified frames, as ingest does. It has a limited number of them and
// makes each another event before it is used again; that costs about as much as to touch its lines.
type frames struct {
	lane event.LaneID
	list []shmabi.Frame
	keys bool
	next uint64 // number of the next event
	at   uint64 // position of the next frame in the lane
	take [][]byte
}

// newFrames makes what groups of a case consist of.
func newFrames(size, group int, keys bool) (*frames, error) {
	one, err := buildFrame(size, 0)
	if err != nil {
		return nil, err
	}
	s := &frames{lane: event.LaneID{1}, keys: keys, list: []shmabi.Frame{one}}
	for n := 1; n < max(group, poolBytes/len(one)); n++ {
		f, err := buildFrame(size, uint64(n))
		if err != nil {
			return nil, err
		}
		s.list = append(s.list, f)
	}
	return s, nil
}

func buildFrame(size int, seed uint64) (shmabi.Frame, error) {
	f, err := shmabi.BuildEvent(shmabi.EventParts{
		Method: "POST", Target: "/hooks/source",
		Headers: [][2]string{
			{"Host", "hooks.example.com"}, {"User-Agent", "sender/1.0"},
			{"Content-Type", "application/json"}, {"Content-Length", fmt.Sprint(size)},
			{"X-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958"},
			{"X-Signature-256", "sha256=" + base64.StdEncoding.EncodeToString(meter.Noise(48, seed))},
		},
		Body: meter.Body(size, seed), Peer: netip.MustParseAddrPort("127.0.0.1:4000"), SourceID: source,
	})
	if err != nil {
		return nil, fmt.Errorf("build a frame of %d bytes: %w", size, err)
	}
	c := f.C()
	c.SetState(uint16(shmabi.StateVerified))
	c.SetRouteVersion(route)
	c.SetAck(uint8(shmabi.AckDurable))
	return f, nil
}

// frameBytes is the size of one frame.
func (s *frames) frameBytes() int { return len(s.list[0]) }

// group gives the next n frames, valid until the next call, and the span that they fill.
func (s *frames) group(n int) ([][]byte, event.Span) {
	span := event.Span{Lane: s.lane, From: s.at}
	now := time.Now().UnixNano()
	s.take = s.take[:0]
	for range n {
		f := s.list[s.next%uint64(len(s.list))]
		s.disguise(f, uint64(now))
		s.take = append(s.take, f)
		s.at += uint64(len(f))
		s.next++
	}
	span.To = s.at
	return s.take, span
}

// disguise makes another event of a frame.
func (s *frames) disguise(f shmabi.Frame, now uint64) {
	binary.LittleEndian.PutUint64(f[shmabi.DLineReceivedNSOffset:], now)
	binary.LittleEndian.PutUint64(f[shmabi.DLinePositionOffset:], s.at)
	var id event.ID
	binary.BigEndian.PutUint64(id[:], now/uint64(time.Millisecond)<<16)
	binary.BigEndian.PutUint64(id[8:], spread(s.next))
	c := f.C()
	c.SetEventID(id)
	if s.keys {
		var key [16]byte
		binary.LittleEndian.PutUint64(key[:], spread(s.next))
		binary.LittleEndian.PutUint64(key[8:], s.next)
		c.SetDedupKey(key)
		c.SetDedupUntilNS(now + uint64(keyWindow))
	}
}

// spread makes of a counter what a hash of it would look like; no two numbers meet. It is the
// finalizer of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators).
func spread(n uint64) uint64 {
	n = (n + 1) * 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}

// pieces says into how many equal groups n frames are cut where a group holds so many bytes.
func pieces(n, frame, bytesMax int) int {
	most := max(bytesMax/frame, 1)
	return (n + most - 1) / most
}

// cut gives the sizes of so many pieces of n frames.
func cut(n, pieces int) (sizes []int) {
	for ; pieces > 0; pieces-- {
		sizes = append(sizes, n/pieces)
		n -= n / pieces
	}
	return sizes
}

// storedBytes is what the journal writes for a group of n frames with one span: a header of 128
// bytes and a span of 32 to a line, the frames, all to a block.
func storedBytes(n, frame, block int) int {
	return (192 + n*frame + block - 1) / block * block
}
