package store

import (
	"context"
	"testing"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/store/vfs"
)

// A disk that stalls holds back what waits for it, and nothing else: deliveries of durable events
// go on, listings answer, and what was queued meanwhile is durable when the disk goes on.
func TestAStalledDiskHoldsBackAcknowledgementsAlone(t *testing.T) {
	b := newBench(t, nil)
	b.must(b.Store.Close())
	faulty := vfs.NewFaulty(b.fs, time.Now, nil)
	b.opt.FS, b.opt.indexFS = faulty, b.xfs
	s, err := Open(context.Background(), b.opt)
	b.must(err)
	b.Store = s
	b.must(s.Settle(context.Background()))
	first := b.take(plain("first"))[0]
	b.must(faulty.Set("journal.sync", vfs.Fault{Delay: time.Hour}))
	b.must(faulty.Set("journal.write", vfs.Fault{Delay: time.Hour}))

	from := b.at
	f := b.frame(request{source: 1, route: 1, key: 5, window: time.Hour, body: "second"})
	done := make(chan error, 1)
	go func() {
		done <- s.Append(Batch{Spans: []event.Span{{Lane: b.lane, From: from, To: b.at}},
			Frames: [][]byte{f}})
	}()
	for faulty.Met("journal.sync")+faulty.Met("journal.write") == 0 {
		time.Sleep(time.Millisecond)
	}

	leased := s.Lease(1, 10, b.clock.Now())
	if len(leased) != 1 || leased[0].ID != first {
		t.Fatalf("leased %+v", leased)
	}
	payload, err := s.Read(leased[0].Seq)
	b.must(err)
	payload.Release()
	s.Finish(b.outcome(leased[0], event.Done, 0))
	if got := b.state(first); got != event.Pending {
		t.Errorf("an outcome that is not durable is believed: %s", got)
	}
	if page, err := s.Events(Filter{}); err != nil || len(page.Items) != 1 {
		t.Errorf("a listing has %d events, %v", len(page.Items), err)
	}
	now := b.clock.Now().UnixNano()
	if _, known := s.Known(1, [16]byte{5, 0xff}, now); known {
		t.Error("a key is known whose event is not durable")
	}
	if !s.Space().Writable || s.Stats().Durable == 0 {
		t.Error("a slow disk is called a broken one")
	}
	select {
	case err := <-done:
		t.Fatalf("acknowledged by a disk that stands: %v", err)
	default:
	}

	faulty.Clear("journal.write")
	faulty.Clear("journal.sync")
	b.must(<-done)
	b.must(s.Append(Batch{})) // what was queued meanwhile
	if got := b.state(first); got != event.Delivered {
		t.Errorf("the first event is %s", got)
	}
	if _, known := s.Known(1, [16]byte{5, 0xff}, now); !known {
		t.Error("the key of the second is not known")
	}
}
