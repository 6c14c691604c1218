package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"syscall"
	"time"

	"sluice/go/internal/event"
	"sluice/shm-abi/shmabi"
)

// draft is a group that has no place yet. It keeps its number over all attempts to write it.
type draft struct {
	number uint64
	time   int64
	idle   bool
	spans  []event.Span
	frames [][]byte
	config []byte // the catalogue among the frames, nil for none
	ended  []event.LaneID
}

// Append makes a batch durable as one group. The caller owns one hold on the group. After
// ErrUnwritable the same batch is to be appended again later, from whatever segment takes it.
//
// A span that begins behind the end of its lane's last one is recorded from there: what lies
// between was not to be stored. One that begins before it is refused, so that no position is in
// two groups.
func (j *Journal) Append(b *Batch) (*Group, error) {
	j.write.Lock()
	defer j.write.Unlock()
	j.mu.Lock()
	err := j.usable()
	j.mu.Unlock()
	if err != nil {
		return nil, err
	}
	d, err := j.draft(b)
	if err != nil {
		return nil, err
	}
	return j.put(d)
}

func (j *Journal) draft(b *Batch) (*draft, error) {
	d := &draft{time: j.o.Clock().UnixNano(), config: b.Config, ended: b.LaneEnds}
	d.frames = append(j.frames[:0], b.Frames...)
	var size int64
	for i, f := range b.Frames {
		if err := checkFrame(f, KindEvent); err != nil {
			return nil, fmt.Errorf("%w: frame %d: %w", ErrBatch, i, err)
		}
		size += int64(len(f))
	}
	for _, f := range controlFrames(b) {
		d.frames = append(d.frames, f)
		size += int64(len(f))
	}
	if b.Config != nil {
		if err := json.Unmarshal(b.Config, new(event.Catalogue)); err != nil {
			return nil, fmt.Errorf("%w: config: %w", ErrBatch, err)
		}
	}
	// One frame is left free for the catalogue that the first group of a segment carries.
	if (size > GroupBytesMax && len(d.frames) > 1) || len(d.frames) >= event.GroupFrames {
		return nil, fmt.Errorf("%w: %d frames of %d bytes", ErrTooLarge, len(d.frames), size)
	}
	j.frames = d.frames
	var err error
	d.spans, err = j.joinSpans(b.Spans)
	return d, err
}

// checkFrame looks at the form; whether the payload is sound was judged before `verified`.
func checkFrame(f []byte, kind Kind) error {
	frame, err := shmabi.ParseFrame(f)
	if err != nil {
		return err
	}
	if len(frame) != len(f) {
		return fmt.Errorf("%d bytes hold a frame of %d", len(f), len(frame))
	}
	if frame.Kind() != kind {
		return fmt.Errorf("kind %d, want %d", frame.Kind(), kind)
	}
	return nil
}

// joinSpans makes each span begin where its lane's last one ended.
func (j *Journal) joinSpans(spans []event.Span) ([]event.Span, error) {
	joined := slices.Clone(spans)
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range joined {
		s := &joined[i]
		for k := range i {
			if joined[k].Lane == s.Lane {
				return nil, fmt.Errorf("%w: two spans of lane %x", ErrBatch, s.Lane)
			}
		}
		end, known := j.lanes[s.Lane]
		if s.To < s.From || (known && s.From < end) {
			return nil, fmt.Errorf("%w: span [%d, %d) of lane %x, which is durable up to %d",
				ErrBatch, s.From, s.To, s.Lane, end)
		}
		if known {
			s.From = end
		}
	}
	return joined, nil
}

// put writes a group: to the current segment, and when that fails or is full to the next. A
// segment that met an error is never written again. After two errors the journal counts as
// unwritable; the caller comes back with the same group.
func (j *Journal) put(d *draft) (*Group, error) {
	j.mu.Lock()
	d.number = j.nextGroup
	seg := j.current
	j.mu.Unlock()
	attempts := 0
	if seg != nil {
		size := groupSize(d.spans, d.frames, nil)
		poisoned := false
		if seg.lastGroup+1 == d.number && seg.end+size <= seg.file.size {
			g, err := j.appendTo(seg, d)
			if err == nil || errors.Is(err, ErrBatch) {
				return g, err
			}
			j.o.Log.Error("segment is poisoned", "segment", seg.number, "group", d.number,
				"error", err)
			attempts, poisoned = 1, true
		}
		j.leave(seg, poisoned)
	}
	for {
		g, err := j.begin(d)
		if err == nil || errors.Is(err, ErrBatch) {
			return g, err
		}
		if attempts++; attempts < 2 && errors.Is(err, errPoisoned) {
			continue
		}
		j.mu.Lock()
		j.writable = false
		j.mu.Unlock()
		return nil, fmt.Errorf("group %d: %w: %w", d.number, ErrUnwritable, err)
	}
}

// errPoisoned means that the disk gave a file but did not take the group.
var errPoisoned = errors.New("segment poisoned by its first group")

// leave closes a segment to further groups; the next table says where it ends.
func (j *Journal) leave(s *segment, poisoned bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s.file.poisoned = s.file.poisoned || poisoned
	closeWriter(s.file)
	j.current = nil
}

func (j *Journal) appendTo(s *segment, d *draft) (*Group, error) {
	g, err := j.compose(s, d, d.frames, nil)
	if err != nil {
		return nil, err
	}
	if err := j.store(s, g); err != nil {
		g.Release()
		return nil, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.joined(s, d, g)
	return g, nil
}

// begin writes a group as the first of a new segment.
func (j *Journal) begin(d *draft) (*Group, error) {
	j.mu.Lock()
	t := j.tableNow()
	frames := d.frames
	if d.config == nil && j.catalogue != nil {
		// Every segment names what it may mention, so that older ones can be dropped.
		frames = append(slices.Clip(frames), shmabi.BuildRecord(KindConfig, j.catalogue))
	}
	// Only files that waited before the table was made are free when it is durable.
	waiting := slices.DeleteFunc(slices.Clone(j.unused), func(f *file) bool { return f.reusable })
	s := &segment{number: j.nextSegment, epoch: j.newEpoch(), firstGroup: d.number,
		firstTime: d.time}
	j.nextSegment++
	j.mu.Unlock()

	g, err := j.compose(s, d, frames, t)
	if err != nil {
		return nil, err
	}
	s.file, err = j.takeFile(max(j.segmentSize, g.size))
	if errors.Is(err, syscall.ENOSPC) {
		// A short segment may still fit: outcomes, and tables that let dropped files go, are what
		// makes a full disk empty again.
		short := roundUp(j.segmentSize/shortShare, BlockSize)
		s.file, err = j.createFile(max(short, g.size))
	}
	if err != nil {
		g.Release()
		return nil, err
	}
	if err := j.store(s, g); err != nil {
		g.Release()
		j.discard(s.file)
		j.o.Log.Error("segment is poisoned by its first group", "segment", s.number,
			"group", d.number, "error", err)
		return nil, fmt.Errorf("%w: %w", errPoisoned, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	s.file.living, s.file.reusable, s.file.blank = true, false, false
	for _, sealed := range j.living {
		sealed.named = true
	}
	for _, w := range waiting {
		w.reusable = true
	}
	j.living = append(j.living, s)
	j.current = s
	j.joined(s, d, g)
	return g, nil
}

// discard removes a file whose first group failed, so that a disk that stays broken is not filled
// by tries. Nothing in it was acknowledged, no table can name it, and the next file that is made
// syncs the directory, before its number could be seen to be free. A file that stays must not be
// written before a table without it is durable: what it holds on the disk is unknown.
func (j *Journal) discard(f *file) {
	f.reusable, f.poisoned = false, true
	closeWriter(f)
	if err := j.o.FS.Remove(j.path(f.name)); err != nil {
		j.o.Log.Warn("a poisoned segment file stays", "file", f.name, "error", err)
		j.setAside(f)
	}
}

// joined takes a durable group into account. j.mu is held.
func (j *Journal) joined(s *segment, d *draft, g *Group) {
	s.lastOffset = s.end
	s.end += g.size
	s.lastGroup, s.lastTime = d.number, d.time
	for i := range g.Frames {
		if g.Frames[i].Kind == KindEvent {
			s.events++
		}
	}
	for _, span := range d.spans {
		j.lanes[span.Lane] = span.To
	}
	for _, lane := range d.ended {
		delete(j.lanes, lane)
	}
	if d.config != nil {
		j.setCatalogue(bytes.Clone(d.config))
	}
	j.durable, j.nextGroup = d.number, d.number+1
	j.lastWrite, j.lastIdle = j.o.Clock(), d.idle
	j.writable = true
	j.cache.add(s.number, s.lastOffset, g.size, g.buf)
}

// setCatalogue takes bytes that were checked when they were appended. j.mu is held.
func (j *Journal) setCatalogue(b []byte) {
	var c event.Catalogue
	if err := json.Unmarshal(b, &c); err != nil {
		j.o.Log.Error("the catalogue in the journal is not JSON", "error", err)
	}
	j.catalogue, j.config = b, c.ConfigVersion
}

func groupSize(spans []event.Span, frames [][]byte, t *table) int64 {
	size := headSize(len(spans), t)
	for _, f := range frames {
		size += int64(len(f))
	}
	return roundUp(size, BlockSize)
}

// compose lays the group out in a buffer, for the end of the segment. Frames are copied before
// they are looked at: their memory belongs to another process.
func (j *Journal) compose(s *segment, d *draft, frames [][]byte, t *table) (*Group, error) {
	size := groupSize(d.spans, frames, t)
	buf, err := j.pool.get(size)
	if err != nil {
		return nil, err
	}
	h := header{
		format: formatVersion, epoch: s.epoch, segment: s.number, group: d.number, time: d.time,
		length: size, headLength: int(headSize(len(d.spans), t)), spans: len(d.spans),
		frames: len(frames), tableLength: t.size(), journal: j.id, block: BlockSize,
	}
	if t != nil {
		h.flags |= flagFirst
	}
	if d.idle {
		h.flags |= flagIdle
	}
	b := buf.data[:size]
	g := &Group{
		Number: d.number, Segment: s.number, Time: time.Unix(0, d.time), Idle: d.idle,
		Spans: d.spans, Frames: buf.frameList(len(frames)), buf: buf, begin: s.end, size: size,
	}
	at := int64(h.headLength)
	buf.checks = buf.checks[:0]
	for i, src := range frames {
		f := b[at : at+int64(len(src)) : at+int64(len(src))]
		copy(f, src)
		if err := checkFrame(f, shmabi.Frame(f).Kind()); err != nil {
			buf.Release()
			return nil, fmt.Errorf("%w: frame %d changed under us: %w", ErrBatch, i, err)
		}
		check := crc32.Checksum(f[:frameHeader], castagnoli)
		buf.checks = append(buf.checks, check)
		g.addFrame(f, s.end+at, check)
		at += int64(len(f))
	}
	h.framesLength = at - int64(h.headLength)
	clear(b[at:])
	encodeHead(b, &h, d.spans, t)
	crc := headChecksum(h.epoch, b[:h.headLength])
	for _, check := range buf.checks {
		crc = joinLines(crc, check)
	}
	putChecksum(b, crc)
	return g, nil
}

// store makes a composed group durable at the end of the segment.
func (j *Journal) store(s *segment, g *Group) error {
	if _, err := s.file.writer.WriteAt(g.buf.data[:g.size], s.end); err != nil {
		return err
	}
	if j.direct {
		return nil
	}
	return s.file.writer.Sync()
}

// addFrame takes the next frame of the group, which lies at off in the file. check is the CRC32C of
// its lines.
func (g *Group) addFrame(f shmabi.Frame, off int64, check uint32) {
	frame := Frame{
		Seq: event.NewSeq(g.Number, len(g.Frames)), Kind: f.Kind(), Bytes: f,
		Loc: Loc{
			Segment: g.Segment, Offset: off, Length: uint32(len(f)),
			Check: check,
		},
	}
	if frame.Kind == KindRescue {
		frame.unwrapRescue()
	}
	g.Frames = append(g.Frames, frame)
}
