package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"sluice/go/internal/event"
	"sluice/go/internal/store/vfs"
)

func Test_the_journal_works_on_the_file_system_of_this_machine(t *testing.T) {
	for _, direct := range []bool{true, false} {
		t.Run(fmt.Sprintf("direct %v", direct), func(t *testing.T) {
			fs := vfs.NewFaulty(vfs.OS(), nil, nil)
			if !direct {
				bufferedOnly(t, fs)
			}
			clock := newClock()
			o := options(fs, clock, 1)
			o.Dir = filepath.Join(t.TempDir(), "data", "journal")
			var want []uint64
			for life := range uint64(4) {
				o.Random = seeded(life)
				j, r := settled(t, o)
				if r.Torn != nil || len(r.Foreign) != 0 {
					t.Fatalf("%+v", r)
				}
				t.Logf("direct writes: %v", j.direct)
				for tag := 1000*life + 1; tag < 1000*life+40; tag++ {
					appendTags(t, j, tag)
					want = append(want, tag)
				}
				if err := j.Prepare(); err != nil {
					t.Fatal(err)
				}
				wantTags(t, j, want...)
				if life%2 == 0 { // the others just end
					if err := j.Close(); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

// Each sub-benchmark writes the same bytes raw and through the journal, so that the two lines of a
// size can be compared; "events/s" counts frames of 1 KB.
func Benchmark_append(b *testing.B) {
	for _, frames := range []int{1, 16, 64, 256, 1024} {
		var batch Batch
		for i := range frames {
			batch.Frames = append(batch.Frames, eventFrame(b, uint64(i), 768))
		}
		size := groupSize(&batch)
		b.Run(fmt.Sprintf("raw/%d", frames), func(b *testing.B) { rawWrites(b, size, frames) })
		b.Run(fmt.Sprintf("journal/%d", frames), func(b *testing.B) {
			j, _, err := Open(Options{FS: vfs.OS(), Dir: filepath.Join(b.TempDir(), "journal")})
			if err != nil {
				b.Fatal(err)
			}
			defer j.Close()
			at := uint64(0)
			last := uint64(0)
			b.SetBytes(size)
			b.ResetTimer()
			for range b.N {
				batch.Spans = []event.Span{{Lane: laneOf(1), From: at, To: at + 1}}
				at++
				g, err := j.Append(&batch)
				if err != nil {
					b.Fatal(err)
				}
				if g.Segment != last {
					last = g.Segment
					recycle(b, j)
				}
				g.Release()
			}
			b.ReportMetric(float64(b.N*frames)/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// recycle keeps two segments, as a store does whose events are delivered at once.
func recycle(b *testing.B, j *Journal) {
	b.StopTimer()
	defer b.StartTimer()
	for s := j.Segments(); len(s) > 2; s = s[1:] {
		if err := j.Drop(s[0].Number); err != nil {
			b.Fatal(err)
		}
	}
	if err := j.Prepare(); err != nil {
		b.Fatal(err)
	}
}

// rawWrites is the limit: one aligned write and nothing else, in a file of the same size.
func rawWrites(b *testing.B, size int64, frames int) {
	const fileSize = SegmentBytesMax
	flags := os.O_RDWR | os.O_CREATE | syscall.O_DIRECT | syscall.O_DSYNC
	f, err := os.OpenFile(filepath.Join(b.TempDir(), "raw"), flags, 0o600)
	if errors.Is(err, syscall.EINVAL) {
		b.Skip("no direct writes on this file system, so there is no raw limit to compare with")
	}
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Fallocate(int(f.Fd()), 0, 0, fileSize); err != nil {
		b.Fatal(err)
	}
	var pool bufPool
	buf, err := pool.get(size)
	if err != nil {
		b.Fatal(err)
	}
	defer buf.Release()
	b.SetBytes(size)
	b.ResetTimer()
	var at int64
	for range b.N {
		if _, err := f.WriteAt(buf.data[:size], at); err != nil {
			b.Fatal(err)
		}
		if at += size; at+size > fileSize {
			at = 0
		}
	}
	b.ReportMetric(float64(b.N*frames)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(0, "ns/op")
}
