package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"sluice/go/internal/event"
	"sluice/shm-abi/shmabi"
)

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
	if b.Draft != nil {
		if len(b.Frames) > 0 {
			return nil, fmt.Errorf("%w: frames beside a draft", ErrBatch)
		}
		return j.append(b.Draft, b)
	}
	d := &j.own
	defer d.Drop()
	if err := d.reserve(b); err != nil {
		return nil, err
	}
	if err := d.Add(b.Frames); err != nil {
		return nil, err
	}
	return j.append(d, b)
}

// append puts what the control plane has to say behind the events of a draft, and writes it. With
// an error it takes that out again.
func (j *Journal) append(d *Draft, b *Batch) (g *Group, err error) {
	events := d.mark()
	defer func() {
		if err != nil {
			d.cut(events)
		}
	}()
	d.time, d.config, d.ended = j.o.Clock().UnixNano(), b.Config, b.LaneEnds
	if b.Config != nil {
		if err := json.Unmarshal(b.Config, new(event.Catalogue)); err != nil {
			return nil, fmt.Errorf("%w: config: %w", ErrBatch, err)
		}
	}
	own := controlFrames(b)
	if err := d.fits(framesSize(own), len(own)); err != nil {
		return nil, err
	}
	if err := d.addOwn(own...); err != nil {
		return nil, err
	}
	if d.spans, err = j.joinSpans(b.Spans); err != nil {
		return nil, err
	}
	return j.put(d)
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
func (j *Journal) put(d *Draft) (*Group, error) {
	j.mu.Lock()
	d.number = j.nextGroup
	seg := j.current
	j.mu.Unlock()
	attempts := 0
	if seg != nil {
		size := d.sizeWith(nil)
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

func (j *Journal) appendTo(s *segment, d *Draft) (*Group, error) {
	g, err := d.seal(s, nil)
	if err != nil {
		return nil, err
	}
	if err := j.store(s, g); err != nil {
		return nil, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.joined(s, d, g)
	return g, nil
}

// begin writes a group as the first of a new segment.
func (j *Journal) begin(d *Draft) (g *Group, err error) {
	before := d.mark()
	defer func() {
		if err != nil {
			d.cut(before)
		}
	}()
	j.mu.Lock()
	t := j.tableNow()
	var names []byte
	if d.config == nil {
		names = j.catalogue
	}
	// Only files that waited before the table was made are free when it is durable.
	waiting := slices.DeleteFunc(slices.Clone(j.unused), func(f *file) bool { return f.reusable })
	s := &segment{number: j.nextSegment, epoch: j.newEpoch(), firstGroup: d.number,
		firstTime: d.time}
	j.nextSegment++
	j.mu.Unlock()

	if names != nil {
		// Every segment names what it may mention, so that older ones can be dropped.
		if err := d.addOwn(shmabi.BuildRecord(KindConfig, names)); err != nil {
			return nil, err
		}
	}
	g, err = d.seal(s, t)
	if err != nil {
		return nil, err
	}
	s.file, err = j.takeFile(max(j.segmentSize, g.size))
	if noRoom(err) {
		// A short segment may still fit: outcomes, and tables that let dropped files go, are what
		// makes a full disk empty again.
		short := roundUp(j.segmentSize/shortShare, BlockSize)
		s.file, err = j.createFile(max(short, g.size))
	}
	if err != nil {
		return nil, err
	}
	if err := j.store(s, g); err != nil {
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

// joined takes a durable group into account, whose memory is not the draft's any more. j.mu is
// held.
func (j *Journal) joined(s *segment, d *Draft, g *Group) {
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
	d.handOver(g)
}

// setCatalogue takes bytes that were checked when they were appended. j.mu is held.
func (j *Journal) setCatalogue(b []byte) {
	var c event.Catalogue
	if err := json.Unmarshal(b, &c); err != nil {
		j.o.Log.Error("the catalogue in the journal is not JSON", "error", err)
	}
	j.catalogue, j.config = b, c.ConfigVersion
}

// store makes a sealed group durable at the end of the segment.
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
func (g *Group) addFrame(f shmabi.Frame, kind Kind, off int64, check uint32) {
	frame := Frame{
		Seq: event.NewSeq(g.Number, len(g.Frames)), Kind: kind, Bytes: f,
		Loc: Loc{
			Segment: g.Segment, Offset: off, Length: uint32(len(f)),
			Check: check,
		},
	}
	if kind == KindRescue {
		frame.unwrapRescue()
	}
	g.Frames = append(g.Frames, frame)
}
