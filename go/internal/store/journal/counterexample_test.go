package journal

import (
	"encoding/binary"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/store/vfs"
)

// These are the shortest counterexamples against smaller designs of the journal; each asserts what
// the rules of this one make of it.

// bench is one disk with a control plane that starts and dies on it.
type bench struct {
	t      *testing.T
	mem    *vfs.Mem
	faulty *vfs.Faulty
	clock  *wallClock
	lives  uint64
	sleep  func(time.Duration)
	o      Options
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, mem: vfs.NewMem(), clock: newClock()}
	b.o = options(nil, b.clock, 0)
	return b
}

// start opens the journal through buffered writes, so that sync is a call of its own.
func (b *bench) start() (*Journal, *Recovery) {
	b.t.Helper()
	b.lives++
	b.faulty = vfs.NewFaulty(b.mem, b.clock.Now, func(d time.Duration) {
		if b.sleep != nil {
			b.sleep(d)
		}
	})
	bufferedOnly(b.t, b.faulty)
	b.o.FS, b.o.Random = b.faulty, seeded(b.lives)
	return open(b.t, b.o)
}

func (b *bench) startSettled() *Journal {
	b.t.Helper()
	j, r := b.start()
	if len(r.Damage) > 0 {
		b.t.Fatalf("false alarm: %v", r.Damage)
	}
	if err := j.Settle(); err != nil {
		b.t.Fatal(err)
	}
	return j
}

func (b *bench) kill()             { b.mem = b.mem.Kill(nil) }
func (b *bench) power(seed uint64) { b.mem = b.mem.Crash(newRand(b.t, seed)) }

// haltedAppend dies inside an append, some steps into it.
func (b *bench) haltedAppend(j *Journal, steps int, tags ...uint64) {
	b.t.Helper()
	b.mem.HaltAt(b.mem.Steps() + steps)
	if _, err := j.Append(tagBatch(b.t, tags...)); !isHalted(err) {
		b.t.Fatalf("append was not halted: %v", err)
	}
}

const (
	beforeWrite = 1
	beforeSync  = 2
)

func Test_a_group_in_the_page_cache_alone_is_not_durable_until_written_again(t *testing.T) {
	for seed := range uint64(30) {
		b := newBench(t)
		j := b.startSettled()
		appendTags(t, j, 1)
		b.haltedAppend(j, beforeSync, 2)
		b.kill()
		j, r := b.start()
		if !r.Doubt || r.LastGroup != 2 || j.Durable() != 1 {
			t.Fatalf("recovery %+v, durable %d", r, j.Durable())
		}
		wantTags(t, j, 1)
		if err := j.Settle(); err != nil {
			t.Fatal(err)
		}
		b.power(seed)
		wantTags(t, b.startSettled(), 1, 2)
	}
}

func Test_a_sync_that_failed_is_never_asked_again(t *testing.T) {
	for seed := range uint64(30) {
		b := newBench(t)
		b.mem.Seed(seed)
		j := b.startSettled()
		appendTags(t, j, 1)
		ioError(t, b.faulty, "journal.sync", 2)
		if _, err := j.Append(tagBatch(t, 2)); !errors.Is(err, ErrUnwritable) || j.Writable() {
			t.Fatalf("append with two failing syncs: %v, writable %v", err, j.Writable())
		}
		b.kill()
		j = b.startSettled()
		held := len(tagsIn(t, j))
		b.power(seed)
		if now := len(tagsIn(t, b.startSettled())); now < held || held == 0 {
			t.Fatalf("seed %d: %d frames were settled, %d are left", seed, held, now)
		}
	}
}

func Test_a_poisoned_group_and_its_copy_are_journaled_once(t *testing.T) {
	for seed := range uint64(30) {
		b := newBench(t)
		b.mem.Seed(seed)
		j := b.startSettled()
		appendTags(t, j, 1)
		ioError(t, b.faulty, "journal.sync", 1)
		appendTags(t, j, 2)
		appendTags(t, j, 3)
		if !j.Writable() {
			t.Fatal("the second segment took the group, the journal is not writable")
		}
		b.power(seed)
		wantTags(t, b.startSettled(), 1, 2, 3)
	}
}

func Test_no_lane_position_is_in_two_living_groups(t *testing.T) {
	b := newBench(t)
	j := b.startSettled()
	appendTags(t, j, 1, 2)
	b.kill() // before consume moved: the lane still shows frames 1 and 2
	j, r := b.start()
	if err := j.Settle(); err != nil {
		t.Fatal(err)
	}
	if r.Lanes[laneOf(1)] != 3 {
		t.Fatalf("the lane is durable up to %d, want 3", r.Lanes[laneOf(1)])
	}
	if _, err := j.Append(tagBatch(t, 1, 2)); !errors.Is(err, ErrBatch) {
		t.Fatalf("the same positions again: %v", err)
	}
}

func Test_a_new_boot_ignores_old_positions(t *testing.T) {
	for _, same := range []bool{false, true} {
		b := newBench(t)
		j := b.startSettled()
		appendTags(t, j, 5000)
		b.power(1)
		// The durable group in shared memory is of the boot that wrote it.
		b.o.Witness = Witness{ShmDurableGroup: 99, SameBoot: same}
		j, r := b.start()
		if damaged := len(r.Damage) > 0; damaged != same {
			t.Errorf("of the same boot: %v, damage %v", same, r.Damage)
		}
		if err := j.Settle(); err != nil {
			t.Fatal(err)
		}
		if to := r.Lanes[laneOf(1)]; to != 5001 {
			t.Errorf("the old lane stands at %d", to)
		}
		g, err := j.Append(&Batch{Spans: []event.Span{{Lane: laneOf(2), From: 0, To: 640}},
			Frames: [][]byte{eventFrame(t, 9000, 10)}})
		if err != nil {
			t.Fatal(err)
		}
		if len(g.Spans) != 1 || g.Spans[0].From != 0 || g.Spans[0].To != 640 {
			t.Errorf("the span of the new lane is %v", g.Spans)
		}
		g.Release()
		wantTags(t, j, 5000, 9000)
	}
}

// Test_a_segment_without_its_first_group_cuts_nothing dies at each step of the append that begins
// a segment: until that group is durable, its table says nothing about the segment before.
func Test_a_segment_without_its_first_group_cuts_nothing(t *testing.T) {
	full := func(b *bench) (j *Journal, acknowledged []uint64, last *Batch) {
		j = b.startSettled()
		for tag := uint64(1); ; tag++ {
			next := &Batch{Spans: []event.Span{{Lane: laneOf(1), From: tag, To: tag + 1}},
				Frames: [][]byte{eventFrame(t, tag, 9000)}}
			j.mu.Lock()
			size := groupSize(next)
			fits := j.current == nil || j.current.end+size <= j.current.file.size
			j.mu.Unlock()
			if !fits {
				return j, acknowledged, next
			}
			g, err := j.Append(next)
			if err != nil {
				t.Fatal(err)
			}
			g.Release()
			acknowledged = append(acknowledged, tag)
		}
	}
	for step, whole := 1, false; !whole; step++ {
		for _, power := range []bool{false, true} {
			b := newBench(t)
			j, want, next := full(b)
			b.mem.HaltAt(b.mem.Steps() + step)
			g, err := j.Append(next)
			if whole = err == nil; whole {
				g.Release()
				want = append(want, want[len(want)-1]+1)
			} else if !isHalted(err) {
				t.Fatal(err)
			}
			if power {
				b.power(uint64(step))
			} else {
				b.kill()
			}
			got := tagsIn(t, b.startSettled())
			if len(got) < len(want) || len(got) > len(want)+1 {
				t.Fatalf("step %d, power cut %v: %v are left of %v", step, power, got, want)
			}
		}
	}
}

func Test_an_ended_lane_is_forgotten(t *testing.T) {
	b := newBench(t)
	j := b.startSettled()
	appendTags(t, j, 1)
	g, err := j.Append(&Batch{LaneEnds: []event.LaneID{laneOf(1)}})
	if err != nil {
		t.Fatal(err)
	}
	g.Release()
	for range 3 {
		b.kill()
		j, r := b.start()
		if _, living := r.Lanes[laneOf(1)]; living {
			t.Fatalf("life %d: lanes %v", b.lives, r.Lanes)
		}
		if err := errors.Join(j.Settle(), j.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// Table in a segment header, or the copy in the file of the original: a kill before the first
// group is whole must leave the old segment's end as it was.
func Test_a_crash_during_recovery_loses_nothing(t *testing.T) {
	for first := range 2 {
		for halt := 1; ; halt++ {
			b := newBench(t)
			j := b.startSettled()
			appendTags(t, j, 1)
			if first == 0 {
				appendTags(t, j, 2)
			}
			b.kill()
			j, _ = b.start()
			b.mem.HaltAt(b.mem.Steps() + halt)
			err := j.Settle()
			if !b.mem.Halted() {
				if err != nil || halt < 5 {
					t.Fatalf("settle took %d steps: %v", halt, err)
				}
				break
			}
			switch halt % 3 {
			case 0:
				b.kill()
			case 1:
				b.power(uint64(halt))
			case 2: // start, copy unsynced, kill, start again, power loss
				b.kill()
				j, _ = b.start()
				b.mem.HaltAt(b.mem.Steps() + halt)
				_ = j.Settle()
				b.power(uint64(halt))
			}
			want := []uint64{1, 2}
			wantTags(t, b.startSettled(), want[:2-first]...)
		}
	}
}

func Test_a_first_segment_of_a_run_is_a_new_file(t *testing.T) {
	b := newBench(t)
	j := b.startSettled()
	for tag := range uint64(60) {
		appendTags(t, j, 1+tag)
	}
	if err := j.Drop(j.Segments()[0].Number); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(j.Reclaim(), j.Prepare()); err != nil {
		t.Fatal(err)
	}
	before := b.mem.Names(dir)
	b.kill()
	j = b.startSettled()
	file := j.Segments()[len(j.Segments())-1].File
	for _, name := range before {
		if strings.HasSuffix(name, file) {
			t.Fatalf("%s was there before the start", file)
		}
	}
}

func Test_a_poisoned_file_is_not_written_again_before_a_table_without_it(t *testing.T) {
	b := newBench(t)
	j := b.startSettled()
	appendTags(t, j, 1)
	if err := j.Prepare(); err != nil {
		t.Fatal(err)
	}
	ioError(t, b.faulty, "journal.sync", 2)
	stuck := vfs.Fault{Op: vfs.OpRemove, Err: syscall.EIO}
	if err := b.faulty.Set("stuck", stuck); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Append(tagBatch(t, 2)); !errors.Is(err, ErrUnwritable) {
		t.Fatal(err)
	}
	b.faulty.Clear("stuck")
	poisoned := map[uint64]bool{}
	j.mu.Lock()
	for _, f := range j.unused {
		if !f.poisoned || f.reusable {
			t.Errorf("%s after a failed first group: %+v", f.name, f)
		}
		poisoned[f.id] = true
	}
	j.mu.Unlock()
	if len(poisoned) != 1 {
		t.Fatalf("%d unused files", len(poisoned))
	}
	for tag := uint64(2); tag < 60; tag++ {
		appendTags(t, j, tag)
		if err := j.Prepare(); err != nil {
			t.Fatal(err)
		}
		for _, s := range j.Segments()[1:] {
			if id, _ := parseFileName(s.File); poisoned[id] {
				t.Fatalf("the poisoned file %s is in use again", s.File)
			}
		}
	}
}

func Test_a_disk_that_stays_broken_is_not_filled_by_tries(t *testing.T) {
	b := newBench(t)
	j := b.startSettled()
	appendTags(t, j, 1)
	ioError(t, b.faulty, "journal.write", 0)
	for range 50 {
		if _, err := j.Append(tagBatch(t, 2)); !errors.Is(err, ErrUnwritable) {
			t.Fatal(err)
		}
	}
	if n := len(b.mem.Names(dir)); n > 4 {
		t.Fatalf("%d files: %v", n, b.mem.Names(dir))
	}
	b.faulty.Clear("")
	appendTags(t, j, 2)
	b.power(1)
	wantTags(t, b.startSettled(), 1, 2)
}

func Test_a_recycled_segment_shows_no_old_record(t *testing.T) {
	for seed := range uint64(20) {
		b := newBench(t)
		j := b.startSettled()
		var tag uint64
		for recycled := false; !recycled; {
			tag++
			appendTags(t, j, tag)
			s := j.Segments()
			if len(s) > 2 {
				if err := j.Drop(s[0].Number); err != nil {
					t.Fatal(err)
				}
			}
			id, _ := parseFileName(s[len(s)-1].File)
			recycled = s[len(s)-1].Number > id+1
		}
		tag++
		appendTags(t, j, tag) // the second group: behind it lie old ones, also numbered in a row
		want := tagsIn(t, j)
		b.haltedAppend(j, beforeSync, tag+1)
		b.power(seed)
		got := tagsIn(t, b.startSettled())
		// The last dropped segment may be back: no durable table is without it yet.
		if got[0] > want[0] || got[len(got)-1] < tag || got[len(got)-1] > tag+1 {
			t.Fatalf("seed %d: %v became %v", seed, want, got)
		}
		for i := range got {
			if got[i] != got[0]+uint64(i) {
				t.Fatalf("seed %d: old records among %v", seed, got)
			}
		}
	}
}

// A table that is composed before a Drop and durable after it still names the dropped file.
func Test_a_file_dropped_while_a_table_is_on_its_way_waits_for_the_next(t *testing.T) {
	b := newBench(t)
	j := b.startSettled()
	for tag := range uint64(20) {
		appendTags(t, j, 1+tag)
	}
	victim := j.Segments()[0]
	if victim.Current {
		t.Fatal("want two segments")
	}
	b.sleep = func(time.Duration) {
		b.sleep = nil
		if err := j.Drop(victim.Number); err != nil {
			t.Error(err)
		}
	}
	if err := b.faulty.Set("journal.write", vfs.Fault{Delay: time.Second, Times: 1}); err != nil {
		t.Fatal(err)
	}
	if err := j.Reclaim(); err != nil {
		t.Fatal(err)
	}
	begun := len(j.Segments())
	for tag := uint64(21); len(j.Segments()) == begun; tag++ {
		appendTags(t, j, tag)
	}
	for _, s := range j.Segments() {
		if s.File == victim.File {
			t.Fatalf("segment %d lies in the file that a durable table still names", s.Number)
		}
	}
	b.power(1)
	b.startSettled()
}

// A header that a power cut may yet take back, or whose group is torn, must not share its number
// with a segment that is begun now.
func Test_a_new_segment_number_is_above_every_legible_one(t *testing.T) {
	b := newBench(t)
	j := b.startSettled()
	appendTags(t, j, 1)
	raw := b.mem.Dump(dir + "/" + j.Segments()[0].File)[:BlockSize]
	binary.LittleEndian.PutUint64(raw[24:], 1000) // the checksum fails now
	b.kill()
	b.mem.Put(dir+"/0000000500.seg", raw)
	j = b.startSettled()
	if s := j.Segments(); len(s) != 1 || s[0].Number != 1001 || s[0].File != "0000000501.seg" {
		t.Fatalf("%+v", s)
	}
}

func Test_two_groups_never_share_a_block(t *testing.T) {
	b := newBench(t)
	j := b.startSettled()
	for tag := range uint64(10) {
		appendTags(t, j, 1+tag)
	}
	for _, s := range j.Segments() {
		f, err := b.mem.Open(dir+"/"+s.File, vfs.ReadOnly)
		if err != nil {
			t.Fatal(err)
		}
		scan := scanner{r: f, size: s.Size}
		_, _, err = scan.walk(life{j.living[0].epoch, s.Number}, 0, s.End, 0,
			func(p *parsed, off int64) error {
				if off%BlockSize != 0 || p.length%BlockSize != 0 {
					t.Errorf("group %d at %d, %d bytes", p.group, off, p.length)
				}
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func Test_a_full_disk_recovers_by_dropping(t *testing.T) {
	b := newBench(t)
	b.mem.SetCapacity(6*64<<10 + 8<<10)
	j := b.startSettled()
	tag := uint64(1)
	for {
		g, err := j.Append(tagBatch(t, tag))
		if errors.Is(err, ErrUnwritable) && errors.Is(err, syscall.ENOSPC) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		g.Release()
		tag++
	}
	space, err := j.Space()
	if err != nil || !space.Full(0) {
		t.Fatalf("space %+v, %v", space, err)
	}
	// Everything but the last segments is delivered. Above the floor of two segments there was
	// always room for the table without the dropped ones; give that room back here.
	b.mem.SetCapacity(7*64<<10 + 8<<10)
	for _, s := range j.Segments()[:3] {
		if err := j.Drop(s.Number); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(j.Reclaim(), j.Prepare()); err != nil {
		t.Fatal(err)
	}
	if space, err = j.Space(); err != nil || space.Full(0) || space.Waiting != 0 {
		t.Fatalf("space after dropping %+v, %v", space, err)
	}
	appendTags(t, j, tag)
}

func Test_settle_without_room_waits_and_then_succeeds(t *testing.T) {
	b := newBench(t)
	j := b.startSettled()
	appendTags(t, j, 1)
	if err := j.Prepare(); err != nil { // a file that no table names: unlinked when room is short
		t.Fatal(err)
	}
	b.kill()
	b.mem.SetCapacity(64<<10 + BlockSize)
	j, _ = b.start()
	fault := vfs.Fault{Op: vfs.OpPreallocate, Err: syscall.ENOSPC}
	if err := b.faulty.Set("full", fault); err != nil {
		t.Fatal(err)
	}
	err := j.Settle()
	if !errors.Is(err, ErrUnwritable) || !errors.Is(err, syscall.ENOSPC) || j.Writable() {
		t.Fatalf("settle on a full disk: %v", err)
	}
	if n := len(b.mem.Names(dir)); n != 2 {
		t.Fatalf("files: %v", b.mem.Names(dir))
	}
	wantTags(t, j)
	b.faulty.Clear("full")
	b.mem.SetCapacity(4 * 64 << 10)
	if err := j.Settle(); err != nil || !j.Writable() {
		t.Fatalf("settle with room: %v", err)
	}
	wantTags(t, j, 1)
}

func Test_a_short_segment_serves_where_a_whole_one_does_not_fit(t *testing.T) {
	b := newBench(t)
	j := b.startSettled()
	appendTags(t, j, 1)
	b.kill()
	b.mem.SetCapacity(64<<10 + 3*BlockSize)
	j = b.startSettled()
	if s := j.Segments(); len(s) != 1 || s[0].Size != BlockSize {
		t.Fatalf("segments %+v", s)
	}
	appendTags(t, j, 2)
	b.power(1)
	b.mem.SetCapacity(0)
	wantTags(t, b.startSettled(), 1, 2)
}
