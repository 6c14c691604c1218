package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/store/vfs"
	"sluice/shm-abi/shmabi"
)

// onFaulty opens the bench's store on a disk that can fail and stall.
func (b *bench) onFaulty() *vfs.Faulty {
	b.must(b.Store.Close())
	faulty := vfs.NewFaulty(b.fs, time.Now, nil)
	b.opt.FS, b.opt.indexFS = faulty, b.xfs
	s, err := Open(context.Background(), b.opt)
	b.must(err)
	b.Store = s
	b.must(s.Settle(context.Background()))
	return faulty
}

// grow adds an event to a batch and lays it out. What it was copied from is gone.
func (b *bench) grow(to *Batch, key byte, body string) (id event.ID) {
	from := b.at
	f := b.frame(request{source: 1, route: 1, key: key, window: time.Hour, body: body})
	id = f.C().EventID()
	if len(to.Spans) == 0 {
		to.Spans = []event.Span{{Lane: b.lane, From: from}}
	}
	to.Spans[0].To = b.at
	to.Frames = append(to.Frames, f)
	b.must(b.Lay(to))
	clear(f[shmabi.FrameHeader:])
	return id
}

// While a group is written and cannot be, the next one grows; nothing in it is known before it is
// durable, and all of it is when it is.
func TestABatchGrowsWhileAnotherCannotBeWritten(t *testing.T) {
	b := newBench(t, nil)
	faulty := b.onFaulty()
	b.must(faulty.Set("journal.sync", vfs.Fault{Err: errors.New("no"), Times: 7}))
	b.must(faulty.Set("journal.write", vfs.Fault{Err: errors.New("no"), Times: 7}))
	var away, next Batch
	ids := []event.ID{b.grow(&away, 1, "first")}
	now := b.clock.Now().UnixNano()
	tries := 0
	for ; ; tries++ {
		err := b.Append(away)
		if err == nil {
			break
		}
		if !errors.Is(err, ErrUnwritable) {
			t.Fatal(err)
		}
		ids = append(ids, b.grow(&next, byte(2+tries), "more"))
		if _, known := b.Known(1, [16]byte{2, 0xff}, now); known {
			t.Fatal("a key is known whose event is not durable")
		}
	}
	if tries == 0 {
		t.Fatal("no write failed")
	}
	if _, known := b.Known(1, [16]byte{2, 0xff}, now); known {
		t.Fatal("a key is known whose event is laid out alone")
	}
	b.must(b.Append(next))
	if _, known := b.Known(1, [16]byte{2, 0xff}, now); !known {
		t.Fatal("a key is not known whose event is durable")
	}
	b.must(b.PutCatalogue(context.Background(), testRoutes)) // applied behind all that
	leased := b.lease(1)
	if len(leased) != len(ids) {
		t.Fatalf("%d deliveries, want %d", len(leased), len(ids))
	}
	for i, d := range leased {
		p, err := b.Read(d.Seq)
		b.must(err)
		want := "more"
		if i == 0 {
			want = "first"
		}
		if d.ID != ids[i] || string(p.Body()) != want {
			t.Errorf("delivery %d is %s with %q, want %s with %q", i, d.ID, p.Body(), ids[i], want)
		}
		p.Release()
	}
}

// A batch that is dropped, or open when the store is closed, is as if it had never been.
func TestABatchThatIsOnlyLaidOutIsNotStored(t *testing.T) {
	b := newBench(t, nil)
	first := b.take(plain("first"))[0]
	at := b.at
	var dropped, open Batch
	b.grow(&dropped, 1, "dropped")
	dropped.Drop()
	if len(dropped.Frames) != 0 || len(dropped.Spans) != 0 {
		t.Fatalf("a dropped batch holds %d frames", len(dropped.Frames))
	}
	b.grow(&open, 2, "open")
	b.restart()
	b.at = at
	second := b.take(plain("second"))[0]
	page, err := b.Events(Filter{})
	b.must(err)
	if len(page.Items) != 2 || b.state(first) != event.Pending || b.state(second) != event.Pending {
		t.Errorf("%d events, want two", len(page.Items))
	}
}

func TestABatchRefusesWhatIsNoFrame(t *testing.T) {
	b := newBench(t, nil)
	var batch Batch
	b.grow(&batch, 1, "sound")
	batch.Frames = append(batch.Frames, make([]byte, shmabi.FrameHeader))
	if err := b.Lay(&batch); !errors.Is(err, ErrBatch) {
		t.Fatalf("laid out: %v", err)
	}
	batch.Frames = batch.Frames[:1]
	b.must(b.Append(batch))
}
