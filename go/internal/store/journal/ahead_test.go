package journal

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"sluice/go/internal/store/vfs"
)

func Test_a_backlog_is_read_in_stretches_and_scattered_frames_one_by_one(t *testing.T) {
	const frames = 600
	clock := newClock()
	fs := vfs.NewFaulty(vfs.NewMem(), nil, nil)
	o := options(fs, clock, 1)
	o.SegmentSize = 64 << 20
	o.CacheBytes = 1 // nothing is fresh
	j, _ := settled(t, o)
	var all []Frame
	for tag := range uint64(frames) {
		g, err := j.Append(tagBatch(t, tag+1))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, g.Frames[0])
		g.Release()
	}
	const reads = "reads"
	if err := fs.Set(reads, vfs.Fault{Op: vfs.OpRead, Pattern: "*.seg", Delay: 1}); err != nil {
		t.Fatal(err)
	}
	read := func(n int) {
		lease, err := j.Read(all[n].Loc)
		if err != nil {
			t.Error(err)
			return
		}
		if got := tagOf(lease.Bytes); got != uint64(n+1) {
			t.Errorf("frame %d is read as %d", n, got)
		}
		lease.Release()
	}
	// Some at once and not in their order, as deliveries are.
	var workers sync.WaitGroup
	next := make(chan int)
	for range 8 {
		workers.Go(func() {
			for n := range next {
				read(n)
			}
		})
	}
	for n := range frames {
		next <- n
	}
	close(next)
	workers.Wait()
	span := all[frames-1].Loc.Offset + int64(all[frames-1].Loc.Length)
	if n := fs.Met(reads); n > uint64(span/aheadBytes)*2+16 {
		t.Errorf("%d reads for %d frames in a row over %d bytes", n, frames, span)
	}
	// What was written since lies behind a stretch that ended there.
	g, err := j.Append(tagBatch(t, frames+1))
	if err != nil {
		t.Fatal(err)
	}
	all = append(all, g.Frames[0])
	g.Release()
	read(frames)

	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	before := fs.Met(reads)
	for range 50 {
		read(random.IntN(frames))
	}
	if n := fs.Met(reads) - before; n > 100 {
		t.Errorf("%d reads for 50 scattered frames", n)
	}
}
