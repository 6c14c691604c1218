package journal

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"testing"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/store/vfs"
	"sluice/shm-abi/shmabi"
)

// laidOut is a draft with these tags, and the span that they fill.
func laidOut(t testing.TB, d *Draft, tags ...uint64) *Batch {
	t.Helper()
	b := tagBatch(t, tags...)
	for _, f := range b.Frames { // as they come
		if err := d.Add([][]byte{f}); err != nil {
			t.Fatal(err)
		}
		clear(f) // it is not looked at again
	}
	return &Batch{Spans: b.Spans, Draft: d}
}

func Test_a_group_is_laid_out_while_the_one_before_it_is_written(t *testing.T) {
	faulty := vfs.NewFaulty(vfs.NewMem(), time.Now, nil)
	j, _ := settled(t, options(faulty, newClock(), 1))
	appendTags(t, j, 1)
	if err := faulty.Set("journal.write", vfs.Fault{Delay: time.Hour}); err != nil {
		t.Fatal(err)
	}
	first := laidOut(t, j.NewDraft(), 2, 3)
	done := make(chan error, 1)
	go func() {
		g, err := j.Append(first)
		if err == nil {
			g.Release()
		}
		done <- err
	}()
	for faulty.Met("journal.write") == 0 {
		time.Sleep(time.Millisecond)
	}
	second := laidOut(t, j.NewDraft(), 4, 5, 6)
	if j.Durable() != 1 || second.Draft.Frames() != 3 {
		t.Fatalf("durable %d, %d frames are laid out", j.Durable(), second.Draft.Frames())
	}
	wantTags(t, j, 1)
	faulty.Clear("journal.write")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	g, err := j.Append(second)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Release()
	wantTags(t, j, 1, 2, 3, 4, 5, 6)
	if second.Draft.Bytes() != 0 || second.Draft.Frames() != 0 {
		t.Fatal("the draft of a durable group is not empty")
	}
}

// Write errors meet each of the first writes of a draft, with the head of the segment at hand or
// with one that carries a table: it is what was laid out that goes on.
func Test_a_draft_goes_to_the_next_segment_as_it_was_laid_out(t *testing.T) {
	for _, direct := range []bool{true, false} {
		for failures := range 6 {
			mem := vfs.NewMem()
			faulty := vfs.NewFaulty(mem, time.Now, nil)
			point := "journal.write"
			if !direct {
				bufferedOnly(t, faulty)
				point = "journal.sync"
			}
			clock := newClock()
			j, _ := settled(t, options(faulty, clock, 1))
			catalogue := []byte(`{"config_version":7}`)
			if _, err := j.Append(&Batch{Config: catalogue}); err != nil {
				t.Fatal(err)
			}
			d := j.NewDraft()
			b := laidOut(t, d, 1, 2, 3)
			laid, frames := d.Bytes(), d.Frames()
			b.Outcomes = []event.Outcome{{Seq: 1, Kind: event.Done, At: 1}}
			if failures > 0 {
				ioError(t, faulty, point, failures)
			}
			tries := 0
			for {
				tries++
				g, err := j.Append(b)
				if err == nil {
					if outcomes, err := g.Outcomes(); len(outcomes) != 1 || err != nil {
						t.Fatalf("outcomes %v, %v", outcomes, err)
					}
					names := 0
					for _, f := range g.Frames {
						if f.Kind == KindConfig {
							names++
						}
					}
					if names > 1 {
						t.Fatalf("the catalogue is in the group %d times", names)
					}
					break
				}
				if !errors.Is(err, ErrUnwritable) || d.Bytes() != laid || d.Frames() != frames {
					t.Fatalf("%v; %d bytes in %d frames of %d in %d", err, d.Bytes(), d.Frames(),
						laid, frames)
				}
				// The next one comes meanwhile.
				if err := d.Add([][]byte{eventFrame(t, uint64(3+tries), 50)}); err != nil {
					t.Fatal(err)
				}
				b.Spans[0].To++
				laid, frames = d.Bytes(), d.Frames()
			}
			// An Append tries twice, or once where the error meets the making of a file.
			if tries < failures/2+1 || tries > failures+1 {
				t.Fatalf("%d errors took %d tries", failures, tries)
			}
			want := []uint64{1, 2, 3}
			for n := 1; n < tries; n++ {
				want = append(want, uint64(3+n))
			}
			wantTags(t, j, want...)
			abandon(j)
			faulty.Clear(point)
			again, r := settled(t, options(mem, clock, 2))
			if r.Lanes[laneOf(1)] != uint64(3+tries) || !bytes.Equal(r.Catalogue, catalogue) {
				t.Fatalf("lanes %v, catalogue %s", r.Lanes, r.Catalogue)
			}
			wantTags(t, again, want...)
		}
	}
}

func Test_what_is_laid_out_at_the_close_leaves_nothing_behind(t *testing.T) {
	mem := vfs.NewMem()
	j, _ := settled(t, options(mem, newClock(), 1))
	appendTags(t, j, 1)
	d := j.NewDraft()
	b := laidOut(t, d, 2, 3)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Append(b); !errors.Is(err, ErrClosed) {
		t.Fatalf("append to a closed journal: %v", err)
	}
	before := j.pool.mapped
	d.Drop()
	if j.pool.mapped != before-1 || d.Bytes() != 0 {
		t.Fatalf("%d buffers, then %d; %d bytes are left", before, j.pool.mapped, d.Bytes())
	}
	again, _ := settled(t, options(mem, newClock(), 2))
	wantTags(t, again, 1)
}

func Test_a_draft_takes_all_frames_of_a_call_or_none(t *testing.T) {
	j, _ := settled(t, options(vfs.NewMem(), newClock(), 1))
	d := j.NewDraft()
	good := eventFrame(t, 1, 100)
	if err := d.Add([][]byte{good}); err != nil {
		t.Fatal(err)
	}
	long, short := bytes.Clone(eventFrame(t, 2, 100)), bytes.Clone(eventFrame(t, 3, 100))
	long = append(long, make([]byte, lineSize)...)
	for name, bad := range map[string][]byte{
		"longer than it says":  long,
		"shorter than it says": short[:len(short)-lineSize],
		"of another kind":      shmabi.BuildRecord(KindConfig, []byte("{}")),
		"too large":            make([]byte, GroupBytesMax),
	} {
		err := d.Add([][]byte{eventFrame(t, 4, 100), bad})
		if !errors.Is(err, ErrBatch) && !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
		if d.Frames() != 1 || d.Bytes() != int64(len(good)) {
			t.Fatalf("%s: %d frames, %d bytes", name, d.Frames(), d.Bytes())
		}
	}
	g, err := j.Append(&Batch{Draft: d, Spans: []event.Span{{Lane: laneOf(1), From: 1, To: 2}}})
	if err != nil {
		t.Fatal(err)
	}
	g.Release()
	wantTags(t, j, 1)
}

// Whatever the sizes of groups and heads: bytes move between buffers and inside them.
func Test_a_draft_grows_and_shrinks_with_its_groups(t *testing.T) {
	seed := drillSeeds(t, 1)[0]
	rng := newRand(t, seed)
	o := options(vfs.NewMem(), newClock(), seed)
	o.SegmentSize = 1 << 20
	j, _ := settled(t, o)
	drafts := []*Draft{j.NewDraft(), j.NewDraft()}
	var want []uint64
	ends := map[event.LaneID]uint64{}
	tag := uint64(0)
	for n := range 300 {
		d := drafts[n%2]
		b := &Batch{Draft: d}
		for range 1 + rng.IntN(7) {
			lane := laneOf(byte(1 + len(b.Spans)))
			from := tag
			for range 1 + rng.IntN(1+rng.IntN(12)) {
				tag++
				f := eventFrame(t, tag, 1+rng.IntN(1+rng.IntN(40_000)))
				if err := d.Add([][]byte{f}); err != nil {
					t.Fatal(err)
				}
				want = append(want, tag)
			}
			b.Spans = append(b.Spans, event.Span{Lane: lane, From: max(from, ends[lane]), To: tag})
			ends[lane] = tag
		}
		g, err := j.Append(b)
		if err != nil {
			t.Fatal(err)
		}
		if int64(len(g.buf.data)) > spareShare*max(g.size, BlockSize) {
			t.Fatalf("a group of %d bytes keeps a buffer of %d", g.size, len(g.buf.data))
		}
		g.Release()
	}
	wantTags(t, j, want...)
}

func Test_the_checksum_of_a_head_and_lines_follows_from_both(t *testing.T) {
	head, lines := []byte("a head of some bytes"), []byte(nil)
	sum := uint32(0)
	for n := range 200 {
		line := bytes.Repeat([]byte(fmt.Sprint(n)), frameHeader)[:frameHeader]
		got := joinFrames(crc32.Checksum(head, castagnoli), n, sum)
		if want := crc32.Checksum(append(bytes.Clone(head), lines...), castagnoli); got != want {
			t.Fatalf("%d frames: %#x, want %#x", n, got, want)
		}
		lines = append(lines, line...)
		sum = joinLines(sum, crc32.Checksum(line, castagnoli))
	}
}
