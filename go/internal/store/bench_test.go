package store

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/go/internal/event"
	"sluice/shm-abi/shmabi"
)

// onRealDisk opens a store in the temporary directory.
func onRealDisk(b *testing.B) *bench {
	x := &bench{t: b, clock: &clock{now: time.Now()}, lane: event.LaneID{1}}
	x.opt = Options{Dir: b.TempDir(), Now: time.Now, Log: testLog()}
	s, err := Open(context.Background(), x.opt)
	x.must(err)
	x.Store = s
	x.must(s.Settle(context.Background()))
	x.must(s.PutCatalogue(context.Background(), testRoutes))
	return x
}

// BenchmarkLife is append, lease, read and finish of 1 KB events in groups of 256, on the disk
// that holds the temporary directory. One iteration is one event; cpu-ns/op is the whole process,
// but for the making of the events.
func BenchmarkLife(b *testing.B) {
	x := onRealDisk(b)
	const group = 256
	body := string(make([]byte, 800))
	b.ReportAllocs()
	var used time.Duration
	for n := 0; n < b.N; n += group {
		b.StopTimer()
		from := x.at
		var batch Batch
		for range group {
			batch.Frames = append(batch.Frames, x.frame(plain(body)))
		}
		batch.Spans = []event.Span{{Lane: x.lane, From: from, To: x.at}}
		b.StartTimer()
		before := processTime()
		x.must(x.Append(batch))
		for _, d := range x.Lease(1, 2*group, time.Now()) {
			p, err := x.Read(d.Seq)
			x.must(err)
			p.Release()
			x.Finish(event.Outcome{
				Seq: d.Seq, Destination: 1, Kind: event.Done, Attempt: 1, Code: 200, At: 1,
			})
		}
		used += processTime() - before
	}
	b.StopTimer()
	b.ReportMetric(float64(used)/float64(b.N), "cpu-ns/op")
	x.must(x.Close())
}

// BenchmarkHandover is the time from the moment at which an event is durable to that at which its
// delivery is leased, of one event whose sender waits, on a quiet store: ns/op is all of it, sync
// included.
func BenchmarkHandover(b *testing.B) {
	x := onRealDisk(b)
	body := string(make([]byte, 800))
	due := x.Due(1)
	var took []time.Duration
	for b.Loop() {
		from := x.at
		f := x.frame(request{source: 1, route: 1, ack: shmabi.AckDelivered, body: body})
		x.must(x.Append(Batch{
			Spans: []event.Span{{Lane: x.lane, From: from, To: x.at}}, Frames: [][]byte{f},
		}))
		durable := time.Now()
		var list []Delivery
		for len(list) == 0 {
			<-due
			list = x.Lease(1, 1, time.Now())
		}
		took = append(took, time.Since(durable))
		x.Finish(x.outcome(list[0], event.Done, 0))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2]), "p50-handover-ns")
	b.ReportMetric(float64(took[len(took)*99/100]), "p99-handover-ns")
	x.must(x.Close())
}

// BenchmarkBacklog is what it costs to deliver an event that does not fit into memory: read from
// the index, lease, outcome, applied. One iteration is one event; longest-ns is the longest time
// that a lease of another destination had to wait.
func BenchmarkBacklog(b *testing.B) {
	x := onRealDisk(b)
	for left := b.N; left > 0; left -= 500 {
		list := make([]request, min(left, 500))
		for i := range list {
			list[i] = plain("x")
		}
		x.append(list...)
	}
	x.must(x.seen())
	var longest atomic.Int64
	stop := make(chan struct{})
	var other sync.WaitGroup
	other.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			began := time.Now()
			x.Lease(2, 1, began)
			longest.Store(max(longest.Load(), int64(time.Since(began))))
		}
	})
	before := processTime()
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; {
		list := x.Lease(1, 64, time.Now())
		left -= len(list)
		for _, d := range list {
			x.Finish(event.Outcome{
				Seq: d.Seq, Destination: 1, Kind: event.Done, Attempt: 1, Code: 200, At: 1,
			})
		}
		x.must(x.Append(Batch{}))
	}
	x.must(x.seen())
	b.StopTimer()
	b.ReportMetric(float64(processTime()-before)/float64(b.N), "cpu-ns/op")
	close(stop)
	other.Wait()
	b.ReportMetric(float64(longest.Load()), "longest-ns")
	x.must(x.Close())
}
