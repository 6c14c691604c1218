package store

import (
	"context"
	"sync"
	"testing"
	"time"

	"sluice/go/internal/event"
)

// TestEveryoneAtOnce has a committer, deliverers and an operator at work together: every event is
// delivered exactly once, for nothing crashes and no lease ends.
func TestEveryoneAtOnce(t *testing.T) {
	const groups, size = 60, 20
	b := newBench(t, func(o *Options) { o.window = 64 })
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var work sync.WaitGroup
	work.Go(func() { commit(ctx, b, groups, size) })
	var mu sync.Mutex
	delivered := map[deliveryID]int{}
	left := 2 * groups * size
	for dest := uint32(1); dest <= 2; dest++ {
		for range 2 {
			work.Go(func() {
				deliverAll(ctx, b, dest, func(d Delivery) {
					mu.Lock()
					defer mu.Unlock()
					delivered[deliveryID{d.Seq, dest}]++
					if left--; left == 0 {
						cancel()
					}
				})
			})
		}
	}
	work.Go(func() {
		for ctx.Err() == nil {
			page, err := b.Events(Filter{Limit: 20, State: event.Pending})
			if err != nil {
				t.Error(err)
			}
			for _, e := range page.Items {
				if _, ok := b.State(e.ID); !ok {
					t.Errorf("the state of %s is not known", e.ID)
				}
			}
			b.Stats()
		}
	})
	work.Wait()
	if len(delivered) != 2*groups*size {
		t.Errorf("%d deliveries of %d", len(delivered), 2*groups*size)
	}
	for id, n := range delivered {
		if n != 1 {
			t.Errorf("event %d went %d times to %d", id.seq, n, id.dest)
		}
	}
}

// commit is the committer of package ingest in a nutshell.
func commit(ctx context.Context, b *bench, groups, size int) {
	for range groups {
		from := b.at
		var batch Batch
		for range size {
			batch.Frames = append(batch.Frames, b.frame(request{source: 2, route: 2, body: "x"}))
		}
		batch.Spans = []event.Span{{Lane: b.lane, From: from, To: b.at}}
		if err := b.Append(batch); err != nil {
			b.t.Error(err)
			return
		}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.Work():
			if err := b.Append(Batch{}); err != nil {
				b.t.Error(err)
				return
			}
		}
	}
}

// deliverAll is a worker of package deliver in a nutshell: the first attempt of each third fails.
func deliverAll(ctx context.Context, b *bench, dest uint32, done func(Delivery)) {
	for ctx.Err() == nil {
		list := b.Lease(dest, 8, b.clock.Now())
		for _, d := range list {
			p, err := b.Read(d.Seq)
			if err != nil {
				b.t.Error(err)
				return
			}
			p.Release()
			kind := event.Done
			if d.Attempt == 1 && d.Seq%3 == 0 {
				kind = event.Retry
			}
			b.Finish(b.outcome(d, kind, 0))
			if kind == event.Done {
				done(d)
			}
		}
		if len(list) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
		case <-b.Due(dest):
		case <-time.After(10 * time.Millisecond): // another worker took the signal
		}
	}
}
