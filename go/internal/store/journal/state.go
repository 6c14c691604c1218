package journal

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"sluice/go/internal/event"
)

// Journal is an open journal. Append, Idle, Settle, Reclaim and Close exclude each other; all
// other methods may run at any time beside them.
type Journal struct {
	o           Options
	id          [16]byte
	segmentSize int64
	direct      bool
	pool        bufPool

	write   sync.Mutex // held while a group is on its way: one in flight
	own     Draft      // of who holds write, for frames that were not laid out before
	prepare sync.Mutex // one Prepare at a time

	mu          sync.Mutex // guards everything below, and the fields of files and segments
	living      []*segment // oldest first; current is the last of them
	current     *segment   // takes the next group; nil: that begins a segment
	unused      []*file
	readers     []*file
	uses        uint64 // of readers, counted
	nextFile    uint64
	nextSegment uint64
	nextGroup   uint64
	durable     uint64 // last durable group
	lastWrite   time.Time
	lastIdle    bool // the last durable group is an idle mark
	lanes       map[event.LaneID]uint64
	catalogue   []byte
	config      uint32 // version of the catalogue
	doubt       *doubt
	writable    bool
	closed      bool
	damage      []Damage
	inspect     bool // nothing is changed: see Check
	// refused: there was no space for the next segment's file, whatever the file system says of it.
	refused bool
	cache   cache
	ahead   ahead
}

// segment is a living segment: it holds at least one durable group.
type segment struct {
	number, epoch         uint64
	file                  *file
	end, lastOffset       int64
	firstGroup, lastGroup uint64
	firstTime, lastTime   int64
	events                uint32
	named                 bool // a durable table of this run states its end
}

// doubt is the group in doubt, with bytes of its own.
type doubt struct {
	group *parsed
	buf   *Buf
}

func (o *Options) setDefaults() {
	if o.CacheBytes == 0 {
		o.CacheBytes = 64 << 20
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Random == nil {
		o.Random = func(b []byte) { rand.Read(b) } // never fails, says its documentation
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

// Open opens or makes the journal in a directory and recovers it. The caller holds the lock of the
// data directory. Nothing found is believed durable beyond what Recovery says: call Settle.
func Open(o Options) (*Journal, *Recovery, error) {
	o.setDefaults()
	if err := o.FS.MkdirAll(o.Dir); err != nil {
		return nil, nil, fmt.Errorf("make journal directory: %w", err)
	}
	j := newJournal(o)
	if j.segmentSize == 0 {
		disk, err := o.FS.Space(o.Dir)
		if err != nil {
			return nil, nil, fmt.Errorf("size of the file system of %s: %w", o.Dir, err)
		}
		j.segmentSize = segmentSizeFor(disk.Total)
	}
	if j.segmentSize%BlockSize != 0 || j.segmentSize < 2*BlockSize {
		return nil, nil, fmt.Errorf("segment size %d is not a multiple of %d, or too small",
			j.segmentSize, BlockSize)
	}
	recovery, err := j.recover()
	if err != nil {
		return nil, nil, fmt.Errorf("open journal %s: %w", o.Dir, err)
	}
	return j, recovery, nil
}

func newJournal(o Options) *Journal {
	j := &Journal{
		o: o, segmentSize: o.SegmentSize, writable: true,
		nextFile: 1, nextSegment: 1, nextGroup: 1,
		lanes: map[event.LaneID]uint64{},
		cache: cache{max: o.CacheBytes},
		pool:  bufPool{keep: poolBytes},
	}
	j.own.j = j
	return j
}

// segmentSizeFor is 1/16 of the file system, rounded down to a power of two and bounded.
func segmentSizeFor(total int64) int64 {
	size := int64(SegmentBytesMax)
	for size > SegmentBytesMin && size > total/16 {
		size /= 2
	}
	return size
}

// usable tells why the journal takes no call. j.mu is held.
func (j *Journal) usable() error {
	switch {
	case j.closed:
		return ErrClosed
	case j.doubt != nil:
		return ErrUnsettled
	}
	return nil
}

// Durable is the number of the last durable group. The one in doubt does not count.
func (j *Journal) Durable() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.durable
}

// Writable tells whether the last group reached the disk.
func (j *Journal) Writable() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.writable
}

// Damage is all damage known so far: Open's, and what reads met since.
func (j *Journal) Damage() []Damage {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.damage)
}

// noteDamage counts and logs damage once, and keeps the file from being used again. j.mu is held.
func (j *Journal) noteDamage(f *file, d Damage) {
	if f != nil {
		f.damaged = true
		d.File = f.name
	}
	same := func(e Damage) bool {
		return e.Kind == d.Kind && e.File == d.File && e.Segment == d.Segment &&
			e.Offset == d.Offset
	}
	if slices.ContainsFunc(j.damage, same) {
		return
	}
	j.damage = append(j.damage, d)
	j.o.Log.Error("journal is damaged: acknowledged bytes are lost", "damage", d.String())
}

// Segments lists the living segments, oldest first.
func (j *Journal) Segments() []SegmentInfo {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.segmentInfos()
}

func (j *Journal) segmentInfos() []SegmentInfo {
	list := make([]SegmentInfo, len(j.living))
	for i, s := range j.living {
		list[i] = SegmentInfo{
			Number: s.number, File: s.file.name, Size: s.file.size, End: s.end,
			FirstGroup: s.firstGroup, LastGroup: s.lastGroup,
			FirstTime: time.Unix(0, s.firstTime), LastTime: time.Unix(0, s.lastTime),
			Events: int(s.events), Current: s == j.current, Damaged: s.file.damaged,
		}
	}
	return list
}

// Drop takes a segment out of the journal; the caller knows that nothing in it is needed, and that
// the index says so durably. Its file is used again, or removed, once the first group of a later
// segment is durable. The current segment cannot be dropped.
func (j *Journal) Drop(number uint64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.usable(); err != nil {
		return err
	}
	i := slices.IndexFunc(j.living, func(s *segment) bool { return s.number == number })
	if i < 0 {
		return fmt.Errorf("drop segment %d: %w", number, ErrGone)
	}
	s := j.living[i]
	if s == j.current {
		return fmt.Errorf("drop segment %d: it is the current one", number)
	}
	j.living = slices.Delete(j.living, i, i+1)
	s.file.living, s.file.reusable = false, false
	j.unused = append(j.unused, s.file)
	return nil
}

// tableNow describes the journal for the first group of a new segment: every living segment ends
// where it ends now. j.mu is held.
func (j *Journal) tableNow() *table {
	t := &table{configVersion: j.config}
	for _, s := range j.living {
		t.segments = append(t.segments, entry{
			number: s.number, epoch: s.epoch, file: s.file.id, end: s.end,
			lastOffset: s.lastOffset, firstGroup: s.firstGroup, lastGroup: s.lastGroup,
			firstTime: s.firstTime, lastTime: s.lastTime, events: s.events,
			damaged: s.file.damaged,
		})
	}
	lanes := slices.SortedFunc(maps.Keys(j.lanes), func(a, b event.LaneID) int {
		return slices.Compare(a[:], b[:])
	})
	for _, lane := range lanes {
		t.lanes = append(t.lanes, laneEnd{lane, j.lanes[lane]})
	}
	return t
}

func (j *Journal) newEpoch() uint64 {
	var b [8]byte
	j.o.Random(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

// Idle writes an idle mark if IdleAfter passed since the last group and that was none. Call it
// about once in IdleAfter. It tells whether it wrote one.
func (j *Journal) Idle() (bool, error) {
	j.write.Lock()
	defer j.write.Unlock()
	j.mu.Lock()
	err := j.usable()
	due := j.durable > 0 && !j.lastIdle && j.o.Clock().Sub(j.lastWrite) >= IdleAfter
	j.mu.Unlock()
	if err != nil || !due {
		return false, err
	}
	err = j.writeIdleMark()
	return err == nil, err
}

func (j *Journal) writeIdleMark() error {
	d := &j.own
	defer d.Drop()
	d.idle, d.time = true, j.o.Clock().UnixNano()
	g, err := j.put(d)
	if err == nil {
		g.Release()
	}
	return err
}

// Close writes an idle mark, if the journal takes one, and closes the files. Groups and leases
// that are still held stay valid.
func (j *Journal) Close() error {
	j.write.Lock()
	defer j.write.Unlock()
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return ErrClosed
	}
	mark := j.doubt == nil && j.durable > 0 && !j.lastIdle && !j.inspect
	j.mu.Unlock()
	var err error
	if mark {
		err = j.writeIdleMark()
	}
	j.prepare.Lock()
	defer j.prepare.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	for _, f := range j.unused {
		closeWriter(f)
	}
	for _, s := range j.living {
		closeWriter(s.file)
	}
	for i := len(j.readers) - 1; i >= 0; i-- {
		if j.readers[i].pins == 0 {
			j.closeReader(i)
		}
	}
	if j.doubt != nil {
		j.doubt.buf.Release()
		j.doubt = nil
	}
	j.cache.clear()
	j.pool.close()
	return err
}
