package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"syscall"
	"testing"
	"time"

	"sluice/go/internal/event"
	"sluice/shm-abi/shmabi"
)

// BenchmarkIntake is what a 1 KB event with a sender's id costs behind its verdict while nothing is
// delivered: append, apply and index, on the disk that holds the temporary directory. One iteration
// is one event; cpu-ns/op is the whole process, background work of the engine included.
func BenchmarkIntake(b *testing.B) {
	for _, group := range []int{32, 256} {
		b.Run(fmt.Sprintf("group=%d", group), func(b *testing.B) { benchmarkIntake(b, group) })
	}
}

func benchmarkIntake(b *testing.B, group int) {
	x := &bench{t: b, clock: &clock{now: time.Now()}, lane: event.LaneID{1}}
	x.opt = Options{Dir: b.TempDir(), Now: time.Now, Log: testLog()}
	s, err := Open(context.Background(), x.opt)
	x.must(err)
	x.Store = s
	x.must(s.Settle(context.Background()))
	x.must(s.PutCatalogue(context.Background(), testRoutes))
	var frames []shmabi.Frame
	for range max(1024, group) {
		frames = append(frames, x.frame(request{
			source: 3, route: 3, key: 1, window: 24 * time.Hour, body: string(make([]byte, 1024)),
		}))
	}
	x.at = 0
	received := time.Now()
	before := processTime()
	b.ReportAllocs()
	b.ResetTimer()
	made := 0
	for made < b.N {
		batch := Batch{Spans: []event.Span{{Lane: x.lane, From: x.at}}}
		for range group {
			f := frames[made%len(frames)]
			received = received.Add(12 * time.Microsecond)
			disguise(f, x.lane, x.at, uint64(made), received)
			batch.Frames = append(batch.Frames, f)
			x.at += uint64(len(f))
			made++
		}
		batch.Spans[0].To = x.at
		x.must(s.Append(batch))
	}
	x.must(s.seen())
	b.StopTimer()
	b.ReportMetric(float64(processTime()-before)/float64(made), "cpu-ns/op")
	if got := s.Stats().Events; got != uint64(made) {
		b.Fatalf("%d events are kept of %d", got, made)
	}
	x.must(s.Close())
}

// disguise makes another event of a frame.
func disguise(f shmabi.Frame, lane event.LaneID, at, number uint64, received time.Time) {
	binary.LittleEndian.PutUint64(f[shmabi.DLineReceivedNSOffset:], uint64(received.UnixNano()))
	c := f.C()
	c.SetEventID(event.NewID(lane, at, uint64(received.UnixNano())))
	var key [16]byte
	binary.LittleEndian.PutUint64(key[:], spread(number))
	binary.LittleEndian.PutUint64(key[8:], number)
	c.SetDedupKey(key)
	c.SetDedupUntilNS(uint64(received.Add(24 * time.Hour).UnixNano()))
}

// spread makes of a counter what a hash of it would look like; no two numbers meet.
func spread(n uint64) uint64 {
	n = (n + 1) * 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}

func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it cannot fail for the process itself
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
