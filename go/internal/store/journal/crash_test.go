package journal

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"sluice/go/internal/event"
	"sluice/go/internal/store/vfs"
)

// world is one history of lives of a control plane on one disk, with the model of what it
// promised.
type world struct {
	t     *testing.T
	rng   *rand.Rand
	seed  uint64
	mem   *vfs.Mem
	clock *wallClock
	opens uint64

	j        *Journal
	faulty   *vfs.Faulty
	direct   bool
	small    bool // the disk may fill up
	lanes    map[event.LaneID]uint64
	nextLane byte
	nextTag  uint64
	// acked are the tags in acknowledged groups, by group; in flight those nobody was told about.
	acked   map[uint64][]uint64
	dropped map[uint64]bool
	id      [16]byte
	index   uint64 // a group that the index has on disk
	log     []string
}

func (w *world) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

func (w *world) fatal(format string, args ...any) {
	w.t.Helper()
	for _, line := range w.log {
		w.t.Log(line)
	}
	w.t.Fatalf("seed %d: "+format, append([]any{w.seed}, args...)...)
}

func newWorld(t *testing.T, seed uint64) *world {
	rng := rand.New(rand.NewPCG(seed, 0x736c75696365))
	w := &world{t: t, rng: rng, seed: seed, mem: vfs.NewMem(), clock: newClock(), nextTag: 1,
		lanes: map[event.LaneID]uint64{}, acked: map[uint64][]uint64{},
		dropped: map[uint64]bool{}, direct: rng.IntN(2) == 0, small: rng.IntN(3) == 0}
	w.mem.Seed(seed)
	if w.small {
		w.mem.SetCapacity(int64(12+rng.IntN(8)) * 32 << 10)
	}
	return w
}

// open starts a life: a file system with faults, a halt some steps ahead, and recovery. It tells
// whether recovery came through.
func (w *world) open() bool {
	w.opens++
	w.faulty = vfs.NewFaulty(w.mem, w.clock.Now, nil)
	if !w.direct {
		bufferedOnly(w.t, w.faulty)
	}
	o := options(w.faulty, w.clock, w.seed*1000+w.opens)
	o.SegmentSize = 32 << 10
	o.Witness.IndexGroup = w.index
	w.mem.HaltAt(w.mem.Steps() + 1 + w.rng.IntN(120))
	j, r, err := Open(o)
	if isHalted(err) {
		w.note("halted in open")
		return false
	}
	if err != nil {
		if errors.Is(err, syscall.ENOSPC) && w.id == [16]byte{} {
			return false
		}
		w.fatal("open: %v", err)
	}
	w.note("open: doubt %v, last group %d, torn %+v", r.Doubt, r.LastGroup, r.Torn)
	if len(r.Damage) != 0 {
		w.fatal("false alarm: %v", r.Damage)
	}
	if w.id != [16]byte{} && w.id != r.JournalID {
		w.fatal("journal %x became %x", w.id, r.JournalID)
	}
	w.j, w.id = j, r.JournalID
	return w.settle(r)
}

func (w *world) settle(r *Recovery) bool {
	w.maybeFault()
	for try := 0; ; try++ {
		err := w.j.Settle()
		if err == nil {
			break
		}
		if isHalted(err) || w.mem.Halted() {
			w.note("halted in settle")
			return false
		}
		if !errors.Is(err, ErrUnwritable) {
			w.fatal("settle: %v", err)
		}
		if try == 5 {
			w.faulty.Clear("journal.write")
			w.faulty.Clear("journal.sync")
		}
		if try > 10 {
			if w.small && errors.Is(err, syscall.ENOSPC) {
				// Nothing can be dropped before; an operator gives the disk more room.
				w.mem.SetCapacity(64 << 20)
			} else {
				w.fatal("settle never succeeds: %v", err)
			}
		}
	}
	w.note("settled")
	for lane, to := range w.lanes {
		if end, ok := r.Lanes[lane]; ok {
			w.lanes[lane] = max(to, end)
		}
	}
	w.check(r)
	return true
}

// check compares the journal with the promises, and takes what it holds beyond as durable from
// now.
func (w *world) check(r *Recovery) {
	oldest := uint64(1)
	if s := w.j.Segments(); len(s) > 0 {
		oldest = s[0].FirstGroup
	}
	seen := map[uint64][]uint64{}
	places := map[event.Span]uint64{}
	ends := map[event.LaneID]uint64{}
	last := uint64(0)
	err := w.j.Replay(0, func(g *Group) error {
		if g.Number <= last {
			w.fatal("group %d after %d", g.Number, last)
		}
		last = g.Number
		for _, s := range g.Spans {
			if end, ok := ends[s.Lane]; ok && end != s.From {
				w.fatal("group %d: lane %x goes on at %d, was at %d", g.Number, s.Lane[:2],
					s.From, end)
			}
			ends[s.Lane] = s.To
		}
		for _, f := range g.Frames {
			if f.Damaged {
				w.fatal("group %d has a damaged frame", g.Number)
			}
			if f.Kind != KindEvent {
				continue
			}
			tag := tagOf(f.Bytes)
			place := event.Span{From: tag}
			if first, ok := places[place]; ok {
				w.fatal("frame %d is in groups %d and %d", tag, first, g.Number)
			}
			places[place] = g.Number
			seen[g.Number] = append(seen[g.Number], tag)
		}
		return nil
	})
	if isHalted(err) {
		return
	}
	if err != nil {
		w.fatal("replay: %v", err)
	}
	if d := w.j.Damage(); len(d) != 0 {
		w.fatal("false alarm: %v", d)
	}
	for number, tags := range w.acked {
		if number < oldest && w.dropped[number] {
			continue
		}
		if !slices.Equal(seen[number], tags) {
			w.fatal("group %d was acknowledged with %v, the journal has %v", number, tags,
				seen[number])
		}
	}
	maps.Copy(w.acked, seen)
	for lane, end := range ends {
		if r.Lanes[lane] < end {
			w.fatal("lane %x ends at %d, recovery says %d", lane[:2], end, r.Lanes[lane])
		}
	}
}

func (w *world) maybeFault() {
	switch w.rng.IntN(12) {
	case 0:
		w.note("next sync fails")
		_ = w.faulty.Set("journal.sync", vfs.Fault{Err: syscall.EIO, Times: 1 + w.rng.IntN(3),
			After: w.rng.IntN(3)})
	case 1:
		w.note("next write fails")
		_ = w.faulty.Set("journal.write", vfs.Fault{Err: syscall.EIO, Times: 1 + w.rng.IntN(3),
			After: w.rng.IntN(3)})
	case 3:
		w.note("files stay")
		_ = w.faulty.Set("remove", vfs.Fault{Op: vfs.OpRemove | vfs.OpRename, Err: syscall.EIO,
			Times: 1 + w.rng.IntN(3)})
	case 2:
		w.note("no new file")
		_ = w.faulty.Set("create", vfs.Fault{Op: vfs.OpCreate | vfs.OpPreallocate | vfs.OpSyncDir,
			Err: syscall.EMFILE, Times: 1 + w.rng.IntN(2)})
	}
}

// batch takes one to five frames from up to three lanes. A frame's position in its lane is its
// tag, so that a frame twice is a position twice.
func (w *world) batch() *Batch {
	for len(w.lanes) < 3 {
		w.nextLane++
		w.lanes[event.LaneID{w.nextLane, byte(w.opens)}] = w.nextTag
	}
	b := &Batch{}
	lanes := slices.SortedFunc(maps.Keys(w.lanes), func(a, b event.LaneID) int {
		return slices.Compare(a[:], b[:])
	})
	for _, lane := range lanes {
		if w.rng.IntN(2) == 0 {
			continue
		}
		from := w.lanes[lane]
		to := from
		for range 1 + w.rng.IntN(3) {
			size := 1 + w.rng.IntN(1+w.rng.IntN(6000))
			b.Frames = append(b.Frames, eventFrame(w.t, w.nextTag, size))
			w.nextTag++
			to = max(to+1, w.nextTag)
		}
		b.Spans = append(b.Spans, event.Span{Lane: lane, From: from, To: to})
	}
	if w.rng.IntN(4) == 0 {
		b.Outcomes = []event.Outcome{{Seq: 1, Kind: event.Done, At: 1, Err: "text"}}
	}
	if w.rng.IntN(20) == 0 {
		b.Config = fmt.Appendf(nil, `{"config_version":%d}`, w.opens)
	}
	return b
}

// live appends until the file system halts, or for a while.
func (w *world) live() {
	var pending *Batch
	for range w.rng.IntN(60) {
		w.maybeFault()
		b := pending
		if b == nil || w.rng.IntN(4) == 0 {
			b = w.batch()
		}
		g, err := w.j.Append(b)
		switch {
		case err == nil:
			w.acknowledge(g)
			pending = nil
		case w.mem.Halted():
			w.note("halted in append")
			return
		case errors.Is(err, ErrUnwritable):
			w.note("unwritable: %v", err)
			pending = b
			w.relieve()
		default:
			w.fatal("append: %v", err)
		}
		if !w.maintain() {
			return
		}
	}
	if w.rng.IntN(4) == 0 {
		w.note("close: %v", w.j.Close())
	}
}

func (w *world) acknowledge(g *Group) {
	for _, s := range g.Spans {
		w.lanes[s.Lane] = s.To
	}
	var tags []uint64
	for _, f := range g.Frames {
		if f.Kind == KindEvent {
			tags = append(tags, tagOf(f.Bytes))
		}
	}
	w.acked[g.Number] = tags
	w.note("acknowledged group %d in segment %d", g.Number, g.Segment)
	if w.rng.IntN(10) == 0 {
		w.index = g.Number
	}
	g.Release()
}

// relieve does what the store does when the disk is full: gives up what nobody needs.
func (w *world) relieve() {
	w.drop(2)
	w.note("reclaim: %v", w.j.Reclaim())
}

func (w *world) drop(keep int) {
	for {
		s := w.j.Segments()
		if len(s) <= keep || s[0].Current {
			return
		}
		if err := w.j.Drop(s[0].Number); err != nil {
			w.fatal("drop: %v", err)
		}
		w.note("dropped segment %d", s[0].Number)
		for n := s[0].FirstGroup; n <= s[0].LastGroup; n++ {
			w.dropped[n] = true
		}
	}
}

func (w *world) maintain() bool {
	var err error
	switch w.rng.IntN(12) {
	case 0:
		err = w.j.Prepare()
	case 1:
		w.drop(1 + w.rng.IntN(4))
	case 2:
		w.clock.now = w.clock.now.Add(IdleAfter)
		_, err = w.j.Idle()
	case 3:
		err = w.j.Reclaim()
	}
	if w.mem.Halted() {
		w.note("halted in maintenance: %v", err)
		return false
	}
	return true
}

// die ends the life one way or another.
func (w *world) die() {
	abandon(w.j)
	w.j = nil
	switch w.rng.IntN(3) {
	case 0:
		w.note("killed")
		w.mem = w.mem.Kill(w.rng)
	case 1:
		w.note("killed, then power cut")
		w.mem = w.mem.Kill(w.rng).Crash(w.rng)
		clear(w.lanes)
	default:
		w.note("power cut")
		w.mem = w.mem.Crash(w.rng)
		clear(w.lanes)
	}
}

func Test_acknowledged_groups_survive_any_sequence_of_kills_power_cuts_and_faults(t *testing.T) {
	worlds := uint64(400)
	if soak() {
		worlds = 40_000
	}
	for seed := uint64(1); seed <= worlds; seed++ {
		w := newWorld(t, seed)
		for range 8 {
			if w.open() {
				w.live()
			}
			w.die()
		}
		w.mem.SetCapacity(64 << 20)
		w.mem.HaltAt(0)
		w.finish()
	}
}

// finish proves that the last state is usable, without faults.
func (w *world) finish() {
	o := options(w.mem, w.clock, w.seed*1000+999)
	o.SegmentSize = 32 << 10
	j, r, err := Open(o)
	if err != nil || len(r.Damage) != 0 {
		w.fatal("last open: %v, %v", err, r)
	}
	w.j = j
	defer abandon(j)
	if err := j.Settle(); err != nil {
		w.fatal("last settle: %v", err)
	}
	w.check(r)
	g, err := j.Append(&Batch{Frames: [][]byte{eventFrame(w.t, w.nextTag, 10)}})
	if err != nil {
		w.fatal("last append: %v", err)
	}
	w.acknowledge(g)
	if err := errors.Join(j.Prepare(), j.Close()); err != nil {
		w.fatal("last close: %v", err)
	}
	if n := j.pool.mapped; n != 0 {
		w.fatal("%d buffers leak", n)
	}
}
