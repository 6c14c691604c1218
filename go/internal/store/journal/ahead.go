package journal

import "sluice/go/internal/store/vfs"

const (
	// aheadBytes is what is read at once where frames are read in their order, as a backlog is.
	aheadBytes = 128 << 10
	// aheadFrameMax is the largest frame that such a stretch is worth it for.
	aheadFrameMax = aheadBytes / 4
	// aheadCount bounds the stretches in memory: those of a few backlogs at different places.
	aheadCount = 8
	// aheadReach is how far from the last read a read may be to count as the next one: several
	// deliveries read at once, and not in their order.
	aheadReach = aheadBytes / 2
)

// stretch is a part of a segment that was read at once. Durable bytes are never written again, so
// it stays true as long as the segment lives. data is there once ready is closed; nil: it could
// not be read.
type stretch struct {
	segment    uint64
	begin, end int64
	ready      chan struct{}
	data       []byte
}

// ahead holds the stretches, the last used last. It is guarded by the journal's lock.
type ahead struct {
	list        []*stretch
	lastSegment uint64
	lastEnd     int64 // of the last read
}

// find gives the stretch that a frame lies in, or makes one that the caller is to read, if reads
// come in order. durable is the end of what may be read of the segment.
func (a *ahead) find(loc Loc, durable int64) (s *stretch, read bool) {
	end := loc.Offset + int64(loc.Length)
	near := a.lastSegment == loc.Segment && loc.Offset >= a.lastEnd-aheadReach &&
		loc.Offset <= a.lastEnd+aheadReach
	a.lastSegment, a.lastEnd = loc.Segment, end
	for i, s := range a.list {
		if s.segment == loc.Segment && s.begin <= loc.Offset && end <= s.end {
			copy(a.list[i:], a.list[i+1:])
			a.list[len(a.list)-1] = s
			return s, false
		}
	}
	if !near || loc.Length > aheadFrameMax || end > durable {
		return nil, false
	}
	s = &stretch{
		segment: loc.Segment, begin: loc.Offset, end: min(loc.Offset+aheadBytes, durable),
		ready: make(chan struct{}),
	}
	if len(a.list) == aheadCount {
		a.list = append(a.list[:0], a.list[1:]...)
	}
	a.list = append(a.list, s)
	return s, true
}

// read fills the stretch and lets those go on that wait for it.
func (s *stretch) read(r vfs.File) {
	defer close(s.ready)
	data := make([]byte, s.end-s.begin)
	if n, err := r.ReadAt(data, s.begin); err == nil && n == len(data) {
		s.data = data
	}
}

// frame gives a frame's bytes, or nil where they could not be read.
func (s *stretch) frame(loc Loc) []byte {
	<-s.ready
	if s.data == nil {
		return nil
	}
	at := loc.Offset - s.begin
	return s.data[at : at+int64(loc.Length)]
}
