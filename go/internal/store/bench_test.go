package store

import (
	"context"
	"testing"
	"time"

	"sluice/go/internal/event"
)

// BenchmarkLife is append, lease, read and finish of 1 KB events in groups of 256, on the disk that
// holds the temporary directory. One iteration is one event.
func BenchmarkLife(b *testing.B) {
	dir := b.TempDir()
	x := &bench{t: b, clock: &clock{now: time.Now()}, lane: event.LaneID{1}}
	x.opt = Options{Dir: dir, Now: time.Now, Log: testLog()}
	s, err := Open(context.Background(), x.opt)
	x.must(err)
	x.Store = s
	x.must(s.Settle(context.Background()))
	x.must(s.PutCatalogue(context.Background(), testRoutes))
	const group = 256
	body := string(make([]byte, 800))
	b.ReportAllocs()
	for n := 0; n < b.N; n += group {
		b.StopTimer()
		from := x.at
		var batch Batch
		for range group {
			batch.Frames = append(batch.Frames, x.frame(plain(body)))
		}
		batch.Spans = []event.Span{{Lane: x.lane, From: from, To: x.at}}
		b.StartTimer()
		x.must(s.Append(batch))
		for _, d := range s.Lease(1, 2*group, time.Now()) {
			p, err := s.Read(d.Seq)
			x.must(err)
			p.Release()
			s.Finish(event.Outcome{
				Seq: d.Seq, Destination: 1, Kind: event.Done, Attempt: 1, Code: 200, At: 1,
			})
		}
	}
	b.StopTimer()
	x.must(s.Close())
}
