package journal

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"time"

	"sluice/go/internal/event"
	"sluice/shm-abi/shmabi"
)

// Lease is a frame that Read returned, valid until Release.
type Lease struct {
	Bytes []byte
	buf   *Buf
}

// Release gives the memory back.
func (l *Lease) Release() { l.buf.Release() }

// Read fetches one frame, from memory if its group is recent, and checks it: both its lines
// against the location, and its payload when it comes from the disk.
func (j *Journal) Read(loc Loc) (*Lease, error) {
	if loc.Length < frameHeader || loc.Length%lineSize != 0 || loc.Offset < 0 {
		return nil, fmt.Errorf("read %d bytes at %d of segment %d: %w: no frame lies there",
			loc.Length, loc.Offset, loc.Segment, ErrDamaged)
	}
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return nil, ErrClosed
	}
	s := j.livingSegment(loc.Segment)
	if s == nil {
		j.mu.Unlock()
		return nil, fmt.Errorf("read from segment %d: %w", loc.Segment, ErrGone)
	}
	if b, buf := j.cache.find(loc); b != nil {
		j.mu.Unlock()
		if crc32.Checksum(b[:frameHeader], castagnoli) != loc.Check {
			buf.Release()
			return nil, fmt.Errorf("read at %d of segment %d: %w: the location is not a frame's",
				loc.Offset, loc.Segment, ErrDamaged)
		}
		return j.leaseCached(b, buf)
	}
	part, first := j.ahead.find(loc, s.end)
	r, err := j.pin(s.file)
	if err != nil && first {
		close(part.ready) // without data
	}
	j.mu.Unlock()
	if err != nil {
		return nil, err
	}
	defer j.unpin(s.file)
	if first {
		part.read(r)
	}
	buf, err := j.pool.get(int64(loc.Length))
	if err != nil {
		return nil, err
	}
	b := buf.data[:loc.Length:loc.Length]
	if part != nil && copy(b, part.frame(loc)) == len(b) && frameFault(b, loc) == "" {
		return &Lease{b, buf}, nil
	}
	// Alone, and what is wrong with it is the disk's fault.
	if _, err := r.ReadAt(b, loc.Offset); err != nil && !errors.Is(err, io.EOF) {
		buf.Release()
		return nil, fmt.Errorf("read at %d of %s: %w", loc.Offset, s.file.name, err)
	}
	if why := frameFault(b, loc); why != "" {
		buf.Release()
		j.mu.Lock()
		defer j.mu.Unlock()
		j.noteDamage(s.file, Damage{Kind: DamageFrame, Segment: loc.Segment, Offset: loc.Offset,
			Length: int64(loc.Length), Detail: why})
		return nil, fmt.Errorf("read at %d of %s: %w: %s", loc.Offset, s.file.name, ErrDamaged, why)
	}
	return &Lease{b, buf}, nil
}

// leaseShare bounds what a lease holds: a buffer of at most this many times its frame. A slow
// delivery of a small frame must not keep a whole group in memory.
const leaseShare = 4

// leaseCached turns a hold on a cached group into a lease.
func (j *Journal) leaseCached(b []byte, buf *Buf) (*Lease, error) {
	if len(buf.data) <= max(BlockSize, len(b)*leaseShare) {
		return &Lease{b, buf}, nil
	}
	defer buf.Release()
	own, err := j.pool.get(int64(len(b)))
	if err != nil {
		return nil, err
	}
	copy(own.data, b)
	return &Lease{own.data[:len(b):len(b)], own}, nil
}

func frameFault(b []byte, loc Loc) string {
	f, err := shmabi.ParseFrame(b)
	switch {
	case err != nil:
		return err.Error()
	case len(f) != int(loc.Length):
		return fmt.Sprintf("frame of %d bytes, want %d", len(f), loc.Length)
	case crc32.Checksum(f[:frameHeader], castagnoli) != loc.Check:
		return "header checksum"
	case f.CheckCRC() != nil:
		return "payload checksum"
	}
	return ""
}

// Forget lets the memory of a recent group go that nobody will read soon: its buffer takes the next
// group while it is still in the processor's cache. Reads of it go to the disk from here on.
func (j *Journal) Forget(g *Group) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.cache.forget(g.Segment, g.begin)
}

// livingSegment finds a segment by number. j.mu is held.
func (j *Journal) livingSegment(number uint64) *segment {
	i, ok := slices.BinarySearchFunc(j.living, number, func(s *segment, n uint64) int {
		switch {
		case s.number < n:
			return -1
		case s.number > n:
			return 1
		}
		return 0
	})
	if !ok {
		return nil
	}
	return j.living[i]
}

// Replay hands every durable group with a number of at least fromGroup to fn, in order; groups
// that become durable meanwhile may be left out, the one in doubt is. A group is valid inside fn
// alone unless fn retains it. Damage met on the way is skipped, logged and added to Damage; a
// frame whose payload is damaged is handed over without bytes.
func (j *Journal) Replay(fromGroup uint64, fn func(*Group) error) error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return ErrClosed
	}
	var list []segment
	for _, s := range j.living {
		if s.lastGroup >= fromGroup {
			s.file.pins++
			list = append(list, *s)
		}
	}
	j.mu.Unlock()
	var err error
	for i := range list {
		if err == nil {
			err = j.replaySegment(&list[i], fromGroup, fn)
		}
		j.unpin(list[i].file)
	}
	return err
}

func (j *Journal) replaySegment(s *segment, fromGroup uint64, fn func(*Group) error) error {
	j.mu.Lock()
	r, err := j.pin(s.file)
	size := s.file.size
	j.mu.Unlock()
	if err != nil {
		return err
	}
	defer j.unpin(s.file)
	scan := scanner{r: r, size: size}
	l := life{s.epoch, s.number}
	limit := min(s.end, size)
	sound := s.firstGroup - 1
	holes, end, err := scan.walk(l, 0, limit, sound, func(p *parsed, off int64) error {
		sound = p.group
		if p.group < fromGroup {
			return nil
		}
		return j.replayGroup(s, p, off, fn)
	})
	if err != nil {
		return err
	}
	if end < s.end {
		holes = append(holes, hole{end, s.end, sound + 1, s.lastGroup, "no valid group"})
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, h := range holes {
		j.noteDamage(s.file, h.damage(s.number))
	}
	return nil
}

func (j *Journal) replayGroup(s *segment, p *parsed, off int64, fn func(*Group) error) error {
	buf, err := j.pool.get(p.length)
	if err != nil {
		return err
	}
	defer buf.Release()
	b := buf.data[:p.length]
	copy(b, p.bytes)
	g := &Group{
		Number: p.group, Segment: p.segment, Time: time.Unix(0, p.time),
		Idle: p.flags&flagIdle != 0, Spans: p.spans,
		Frames: buf.frameList(len(p.frames)), buf: buf, begin: off, size: p.length,
	}
	for i, f := range p.frames {
		at := p.at[i]
		if f.CheckCRC() != nil {
			j.mu.Lock()
			j.noteDamage(s.file, frameDamage(p, off, i))
			j.mu.Unlock()
			g.Frames = append(g.Frames, Frame{Seq: event.NewSeq(p.group, i), Kind: f.Kind(),
				Damaged: true})
			continue
		}
		g.addFrame(b[at:at+int64(len(f)):at+int64(len(f))], f.Kind(), off+at,
			crc32.Checksum(f[:frameHeader], castagnoli))
	}
	return fn(g)
}
