package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"sluice/go/internal/event"
	"sluice/go/internal/store/vfs"
)

func Test_a_group_comes_back_as_it_went_in(t *testing.T) {
	fs, clock := vfs.NewMem(), newClock()
	j, r := settled(t, options(fs, clock, 1))
	if !r.Created || r.Doubt {
		t.Fatalf("a new journal reports %+v", r)
	}
	config, err := json.Marshal(event.Catalogue{ConfigVersion: 7,
		Sources: []event.Named{{ID: 1, Name: "github"}}})
	if err != nil {
		t.Fatal(err)
	}
	outcomes := []event.Outcome{
		{Seq: event.NewSeq(3, 4), Destination: 2, Kind: event.Retry, Attempt: 3, Code: 502,
			At: 11, Next: 12, Err: "502 from the destination, which says nothing more"},
		{Seq: event.NewSeq(3, 5), Destination: 1, Kind: event.Done, Attempt: 1, Code: 200, At: 13},
		{Seq: event.NewSeq(3, 6), Destination: 1, Kind: event.Replay, At: 14, Next: 15, By: "op"},
	}
	b := tagBatch(t, 10, 11)
	b.Outcomes, b.Config, b.LaneEnds = outcomes, config, []event.LaneID{laneOf(9)}
	b.Rescues = []Rescue{{Seq: event.NewSeq(1, 1), Frame: eventFrame(t, 5, 200)}}
	g, err := j.Append(b)
	if err != nil {
		t.Fatal(err)
	}
	check := func(g *Group) {
		t.Helper()
		if g.Number != 1 || len(g.Frames) != 6 || !reflect.DeepEqual(g.Spans, b.Spans) {
			t.Fatalf("group %d with %d frames and spans %v", g.Number, len(g.Frames), g.Spans)
		}
		for i, want := range []uint64{10, 11} {
			f := g.Frames[i]
			if f.Seq != event.NewSeq(1, i) || !bytes.Equal(f.Bytes, b.Frames[i]) ||
				tagOf(f.Bytes) != want {
				t.Fatalf("frame %d: %v", i, f.Seq)
			}
		}
		rescued := g.Frames[5]
		if !rescued.Rescued || rescued.Kind != KindEvent || rescued.Seq != event.NewSeq(1, 1) ||
			!bytes.Equal(rescued.Bytes, b.Rescues[0].Frame) {
			t.Fatalf("rescue: %+v", rescued)
		}
		got, err := g.Outcomes()
		if err != nil || !reflect.DeepEqual(got, outcomes) {
			t.Fatalf("outcomes: %+v, %v", got, err)
		}
		if !bytes.Equal(g.Config(), config) {
			t.Fatalf("config: %s", g.Config())
		}
		if !reflect.DeepEqual(g.LaneEnds(), b.LaneEnds) {
			t.Fatalf("lane ends: %v", g.LaneEnds())
		}
		for _, f := range g.Frames {
			lease, err := j.Read(f.Loc)
			if err != nil || !bytes.Equal(lease.Bytes, f.Bytes) && f.Kind != KindRescue {
				t.Fatalf("read of %+v: %v", f.Loc, err)
			}
			lease.Release()
			loc, err := ParseLoc(f.Loc.Append(nil))
			if err != nil || loc != f.Loc {
				t.Fatalf("location %+v became %+v: %v", f.Loc, loc, err)
			}
		}
	}
	check(g)
	g.Release()
	j.mu.Lock()
	j.cache.clear()
	j.mu.Unlock()
	seen := 0
	if err := j.Replay(0, func(g *Group) error { seen++; check(g); return nil }); err != nil {
		t.Fatal(err)
	}
	if seen != 1 {
		t.Fatalf("replayed %d groups", seen)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

func Test_a_restart_knows_lanes_catalogue_and_groups(t *testing.T) {
	fs, clock := vfs.NewMem(), newClock()
	j, first := settled(t, options(fs, clock, 1))
	appendTags(t, j, 10, 11)
	g, err := j.Append(&Batch{Config: []byte(`{"config_version":3}`)})
	if err != nil {
		t.Fatal(err)
	}
	g.Release()
	appendTags(t, j, 20)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	for restart := range 5 {
		o := options(fs.Kill(nil), clock, uint64(2+restart))
		fs = o.FS.(*vfs.Mem)
		j, r := open(t, o)
		if r.JournalID != first.JournalID || !r.Doubt || r.LastGroup != 4 || r.Created ||
			r.Lanes[laneOf(1)] != 21 || string(r.Catalogue) != `{"config_version":3}` ||
			len(r.Damage) != 0 {
			t.Fatalf("restart %d: %+v", restart, r)
		}
		wantTags(t, j, 10, 11, 20)
		if _, err := j.Append(tagBatch(t, 30)); !errors.Is(err, ErrUnsettled) {
			t.Fatalf("append before settle: %v", err)
		}
		if err := errors.Join(j.Settle(), j.Settle(), j.Prepare(), j.Close()); err != nil {
			t.Fatal(err)
		}
		if n := len(fs.Names(dir)); n > 2+sparesMax+2 {
			t.Fatalf("restart %d leaves files: %v", restart, fs.Names(dir))
		}
	}
}

func Test_an_idle_mark_is_written_once_a_second_after_the_last_group(t *testing.T) {
	fs, clock := vfs.NewMem(), newClock()
	j, _ := settled(t, options(fs, clock, 1))
	idle := func(want bool) {
		t.Helper()
		if wrote, err := j.Idle(); wrote != want || err != nil {
			t.Fatalf("idle mark written: %v, %v; want %v", wrote, err, want)
		}
	}
	idle(false)
	appendTags(t, j, 1)
	idle(false)
	clock.now = clock.now.Add(IdleAfter)
	idle(true)
	clock.now = clock.now.Add(IdleAfter)
	idle(false)
	if j.Durable() != 2 {
		t.Fatalf("durable %d", j.Durable())
	}
}

func Test_a_batch_that_is_no_group_is_refused(t *testing.T) {
	fs, clock := vfs.NewMem(), newClock()
	j, _ := settled(t, options(fs, clock, 1))
	appendTags(t, j, 10)
	short := tagBatch(t, 11)
	short.Frames[0] = short.Frames[0][:64]
	long := tagBatch(t, 11)
	long.Frames[0] = append(long.Frames[0], make([]byte, 64)...)
	back := tagBatch(t, 10)
	back.Spans[0].From = 9
	twice := tagBatch(t, 11)
	twice.Spans = append(twice.Spans, event.Span{Lane: laneOf(1), From: 12, To: 13})
	config := &Batch{Config: []byte("{")}
	big := tagBatch(t, 11)
	for range 5 {
		big.Frames = append(big.Frames, eventFrame(t, 11, 1<<20))
	}
	for name, c := range map[string]struct {
		b    *Batch
		want error
	}{
		"short frame": {short, ErrBatch}, "long frame": {long, ErrBatch},
		"position twice": {back, ErrBatch}, "lane twice": {twice, ErrBatch},
		"config": {config, ErrBatch}, "too large": {big, ErrTooLarge},
	} {
		if _, err := j.Append(c.b); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if !j.Writable() {
		t.Error("a bad batch made the journal unwritable")
	}
	appendTags(t, j, 11)
	wantTags(t, j, 10, 11)
}

func Test_a_frame_larger_than_a_segment_gets_one_of_its_own(t *testing.T) {
	fs, clock := vfs.NewMem(), newClock()
	j, _ := settled(t, options(fs, clock, 1))
	appendTags(t, j, 1)
	b := tagBatch(t, 2)
	b.Frames[0] = eventFrame(t, 2, 5<<20)
	g, err := j.Append(b)
	if err != nil {
		t.Fatal(err)
	}
	g.Release()
	appendTags(t, j, 3)
	if n := len(j.Segments()); n != 3 {
		t.Fatalf("%d segments", n)
	}
	j2, _ := settled(t, options(fs.Crash(newRand(t, 3)), clock, 2))
	wantTags(t, j2, 1, 2, 3)
}

func Test_a_skipped_stretch_of_a_lane_joins_the_next_span(t *testing.T) {
	fs, clock := vfs.NewMem(), newClock()
	j, _ := settled(t, options(fs, clock, 1))
	appendTags(t, j, 10)
	g := appendTags(t, j, 50)
	if g.Spans[0].From != 11 || g.Spans[0].To != 51 {
		t.Fatalf("span %v", g.Spans[0])
	}
	_, r := settled(t, options(fs.Kill(nil), clock, 2))
	if r.Lanes[laneOf(1)] != 51 {
		t.Fatalf("lanes %v", r.Lanes)
	}
}

func Test_space_short_leaves_error_texts_out_and_keeps_who_asked(t *testing.T) {
	fs, clock := vfs.NewMem(), newClock()
	j, _ := settled(t, options(fs, clock, 1))
	o := event.Outcome{Seq: 1, Kind: event.Dead, Err: "no route", By: "operator"}
	b := &Batch{Outcomes: []event.Outcome{o}, LowSpace: true}
	g, err := j.Append(b)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Release()
	o.Err = ""
	if got, err := g.Outcomes(); err != nil || !reflect.DeepEqual(got, []event.Outcome{o}) {
		t.Fatalf("%+v, %v", got, err)
	}
	if b.Size() != int64(len(g.Frames[0].Bytes)) {
		t.Fatalf("size %d, frame of %d", b.Size(), len(g.Frames[0].Bytes))
	}
}

func Test_dropped_segments_are_used_again(t *testing.T) {
	fs, clock := vfs.NewMem(), newClock()
	j, _ := settled(t, options(fs, clock, 1))
	var tag uint64
	for range 400 {
		tag++
		appendTags(t, j, tag)
		for len(j.Segments()) > 3 {
			if err := j.Drop(j.Segments()[0].Number); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.Prepare(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(fs.Names(dir)); n > 1+3+1+sparesMax+1 {
		t.Fatalf("files pile up: %v", fs.Names(dir))
	}
	if _, err := j.Read(Loc{Segment: 1, Offset: 4096, Length: 128}); !errors.Is(err, ErrGone) {
		t.Fatalf("read from a dropped segment: %v", err)
	}
	oldest := j.Segments()[0]
	if err := j.Replay(0, func(g *Group) error {
		if g.Number < oldest.FirstGroup {
			return fmt.Errorf("group %d was dropped", g.Number)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func Test_a_held_group_outlives_its_segment_and_the_journal(t *testing.T) {
	fs, clock := vfs.NewMem(), newClock()
	o := options(fs, clock, 1)
	o.CacheBytes = 16 << 10
	j, _ := settled(t, o)
	g, err := j.Append(tagBatch(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	lease, err := j.Read(g.Frames[0].Loc)
	if err != nil {
		t.Fatal(err)
	}
	for tag := uint64(2); tag < 40; tag++ {
		appendTags(t, j, tag)
	}
	if err := j.Drop(g.Segment); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(j.Reclaim(), j.Prepare(), j.Close()); err != nil {
		t.Fatal(err)
	}
	if tagOf(g.Frames[0].Bytes) != 1 || tagOf(lease.Bytes) != 1 {
		t.Fatal("held bytes changed")
	}
	g.Release()
	lease.Release()
}

func Test_segment_size_follows_the_file_system(t *testing.T) {
	for total, want := range map[int64]int64{
		1 << 40: 64 << 20, 1 << 30: 64 << 20, 1<<30 - 1: 32 << 20, 256 << 20: 16 << 20,
		235 << 20: 8 << 20, 10 << 20: 4 << 20,
	} {
		if got := segmentSizeFor(total); got != want {
			t.Errorf("file system of %d: %d, want %d", total, got, want)
		}
	}
}

func Test_the_floor_grows_with_the_living_deliveries(t *testing.T) {
	s := Space{SegmentSize: 4 << 20, Total: 100 << 20, Free: 9 << 20, Used: 50 << 20}
	if s.Full(0) || !s.Full(1<<20) {
		t.Fatalf("floors %d and %d of %d free", s.Floor(0), s.Floor(1<<20), s.Free)
	}
	s.Used = 91 << 20
	if !s.Full(0) {
		t.Fatal("over 90 % is not full")
	}
}

func Test_calls_after_close_are_refused(t *testing.T) {
	fs, clock := vfs.NewMem(), newClock()
	j, _ := settled(t, options(fs, clock, 1))
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	_, appendErr := j.Append(&Batch{})
	_, idleErr := j.Idle()
	_, readErr := j.Read(Loc{Segment: 1, Length: 128})
	replayErr := j.Replay(0, nil)
	for i, err := range []error{appendErr, idleErr, readErr, replayErr, j.Settle(), j.Prepare(),
		j.Reclaim(), j.Close(), j.Drop(1)} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("call %d: %v", i, err)
		}
	}
}

func Test_groups_and_reads_run_beside_each_other(t *testing.T) {
	fs, clock := vfs.NewMem(), newClock()
	o := options(fs, clock, 1)
	o.CacheBytes = 32 << 10
	j, _ := settled(t, o)
	locs := make(chan Frame, 1<<10)
	errs := make(chan error, 3)
	go func() {
		for f := range locs {
			lease, err := j.Read(f.Loc)
			if err == nil {
				if event.Seq(tagOf(lease.Bytes)) != f.Seq {
					err = fmt.Errorf("read %d, want %d", tagOf(lease.Bytes), f.Seq)
				}
				lease.Release()
			}
			if err != nil && !errors.Is(err, ErrGone) {
				errs <- err
			}
		}
		errs <- nil
	}()
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				errs <- nil
				return
			default:
			}
			err := errors.Join(j.Prepare(), j.Replay(0, func(*Group) error { return nil }))
			if err != nil {
				errs <- err
				return
			}
		}
	}()
	for tag := uint64(1); tag <= 500; tag++ {
		g, err := j.Append(tagBatch(t, tag))
		if err != nil {
			t.Fatal(err)
		}
		f := g.Frames[0]
		f.Seq = event.Seq(tag)
		locs <- f
		g.Release()
		if s := j.Segments(); len(s) > 3 {
			if err := j.Drop(s[0].Number); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(locs)
	close(done)
	for range 2 {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	if d := j.Damage(); len(d) != 0 {
		t.Fatalf("damage: %v", d)
	}
}
