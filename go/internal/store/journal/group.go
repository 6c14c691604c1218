package journal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"

	"sluice/go/internal/event"
	"sluice/shm-abi/shmabi"
)

// Kind is the kind of a frame in its D line.
type Kind = shmabi.Kind

// The kinds. Outcomes, config, lane ends and rescues are frames that the control plane writes.
const (
	KindEvent    = shmabi.KindEvent
	KindOutcomes = shmabi.KindOutcomes
	KindConfig   = shmabi.KindConfig
	KindLaneEnd  = shmabi.KindLaneEnd
	// KindRescue is an event frame of an older segment, copied forward: its payload is a line that
	// begins with Rescue.Seq and Rescue.AsOf, then the frame as it was. It is the journal's own and
	// never in a lane.
	KindRescue Kind = 5
)

// Batch is what the committer wants to have durable together. Frames keep their order: frame i of
// the batch is frame i of the group.
type Batch struct {
	// Spans has the stretch of each lane that this group makes durable, at most one per lane. It
	// may hold more than the frames: those that are not stored are left out.
	Spans  []event.Span
	Frames [][]byte // whole EVENT frames, as they lie in the lanes; copied once
	Draft  *Draft   // or they were laid out before
	// Outcomes, Config, LaneEnds, Rescues and Carried become frames behind the events.
	Outcomes []event.Outcome
	Config   []byte // JSON of event.Catalogue
	LaneEnds []event.LaneID
	Rescues  []Rescue
	Carried  *Carried // nil: nothing
	LowSpace bool     // leave the error texts of outcomes out
}

// Rescue is an event copied forward so that its old segment can be dropped.
type Rescue struct {
	Seq event.Seq // of the event, which it keeps
	// AsOf is the group up to which the Outcomes that come along tell all that became of the event.
	AsOf  uint64
	Frame []byte // as Read returned it
}

// controlFrames builds the frames that do not come from a lane.
func controlFrames(b *Batch) []shmabi.Frame {
	var frames []shmabi.Frame
	if len(b.Outcomes) > 0 {
		var payload []byte
		for i := range b.Outcomes {
			payload = appendOutcome(payload, &b.Outcomes[i], b.LowSpace)
		}
		frames = append(frames, shmabi.BuildRecord(KindOutcomes, payload))
	}
	if b.Config != nil {
		frames = append(frames, shmabi.BuildRecord(KindConfig, b.Config))
	}
	for _, lane := range b.LaneEnds {
		frames = append(frames, shmabi.BuildRecord(KindLaneEnd, lane[:]))
	}
	for _, r := range b.Rescues {
		payload := make([]byte, lineSize, lineSize+len(r.Frame))
		binary.LittleEndian.PutUint64(payload, uint64(r.Seq))
		binary.LittleEndian.PutUint64(payload[8:], r.AsOf)
		frames = append(frames, shmabi.BuildRecord(KindRescue, append(payload, r.Frame...)))
	}
	if b.Carried != nil {
		frames = append(frames, shmabi.BuildRecord(KindCarried, b.Carried.encode()))
	}
	return frames
}

// Size is what the batch takes of GroupBytesMax.
func (b *Batch) Size() int64 {
	var size int64
	for _, f := range b.Frames {
		size += int64(len(f))
	}
	if len(b.Outcomes) > 0 {
		size += frameHeader
		for i := range b.Outcomes {
			size += outcomeSize(&b.Outcomes[i], b.LowSpace)
		}
	}
	if b.Config != nil {
		size += roundUp(int64(frameHeader+len(b.Config)), lineSize)
	}
	size += int64(len(b.LaneEnds)) * (frameHeader + lineSize)
	for _, r := range b.Rescues {
		size += frameHeader + lineSize + roundUp(int64(len(r.Frame)), lineSize)
	}
	if b.Carried != nil {
		size += roundUp(int64(frameHeader+b.Carried.size()), lineSize)
	}
	return size
}

// Frame is one frame of a durable group.
type Frame struct {
	// Seq names the event for good; of a rescued one it names the group it was first in. Frames of
	// other kinds have one too, which nothing refers to.
	Seq  event.Seq
	Kind Kind // a rescued event is KindEvent with Rescued set
	Loc  Loc
	// Bytes is the whole frame, both lines included; valid while the group is retained.
	Bytes   []byte
	Rescued bool
	AsOf    uint64 // of a rescued one, see Rescue
	Damaged bool   // the payload fails its checksum; Bytes is nil
}

// unwrapRescue makes the frame inside visible in place of the one around it. One that holds no
// event is left as it is: nothing knows its kind.
func (f *Frame) unwrapRescue() {
	inner := f.Bytes[frameHeader:]
	if len(inner) < lineSize {
		return
	}
	seq := event.Seq(binary.LittleEndian.Uint64(inner))
	frame, err := shmabi.ParseFrame(inner[lineSize:])
	if err != nil || frame.Kind() != KindEvent {
		return
	}
	f.AsOf = binary.LittleEndian.Uint64(inner[8:])
	f.Seq, f.Kind, f.Bytes, f.Rescued = seq, KindEvent, frame, true
	f.Loc.Offset += frameHeader + lineSize
	f.Loc.Length = uint32(len(frame))
	f.Loc.Check = crc32.Checksum(frame[:frameHeader], castagnoli)
}

// Group is a durable group. The bytes of its frames live outside the Go heap and are shared: they,
// and the list of frames, are valid until Release, for as many holders as called Retain, and must
// not be written.
type Group struct {
	Number  uint64
	Segment uint64
	Time    time.Time // when it was built
	Idle    bool      // an idle mark: no spans, and at most the catalogue that a segment carries
	Spans   []event.Span
	Frames  []Frame

	buf   *Buf
	begin int64 // in the segment
	size  int64 // on disk, padding included
}

// Retain keeps the group's bytes for one more Release.
func (g *Group) Retain() { g.buf.Retain() }

// Bytes is what the group takes, on disk and in memory.
func (g *Group) Bytes() int { return int(g.size) }

// Release gives one hold back; the last one frees the memory.
func (g *Group) Release() { g.buf.Release() }

// Outcomes decodes the outcomes that the group carries, in order.
func (g *Group) Outcomes() ([]event.Outcome, error) {
	var list []event.Outcome
	var err error
	for i := range g.Frames {
		f := &g.Frames[i]
		if f.Kind != KindOutcomes || f.Damaged {
			continue
		}
		if list, err = parseOutcomes(f.Bytes[frameHeader:], list); err != nil {
			return list, fmt.Errorf("group %d, frame %d: %w", g.Number, i, err)
		}
	}
	return list, nil
}

// Config is the JSON of the catalogue that the group carries, nil for none. The first group of
// each segment carries it again.
func (g *Group) Config() []byte {
	var config []byte
	for i := range g.Frames {
		if f := &g.Frames[i]; f.Kind == KindConfig && !f.Damaged {
			config = configText(f.Bytes)
		}
	}
	return config
}

// configText is the payload without the padding.
func configText(frame []byte) []byte {
	text := frame[frameHeader:]
	for len(text) > 0 && text[len(text)-1] == 0 {
		text = text[:len(text)-1]
	}
	return text
}

// LaneEnds are the lanes whose end the group records.
func (g *Group) LaneEnds() []event.LaneID {
	var lanes []event.LaneID
	for i := range g.Frames {
		f := &g.Frames[i]
		if f.Kind == KindLaneEnd && !f.Damaged && len(f.Bytes) >= frameHeader+lineSize {
			lanes = append(lanes, event.LaneID(f.Bytes[frameHeader:frameHeader+16]))
		}
	}
	return lanes
}
