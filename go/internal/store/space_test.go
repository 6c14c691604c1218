package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/store/index"
	"sluice/go/internal/store/vfs"
)

const mib = 1 << 20

// smallDisk is a store on a disk of so many MiB.
func smallDisk(t *testing.T, size int64) *bench {
	t.Helper()
	b := newBench(t, nil)
	b.must(b.Store.Close())
	b.fs.SetCapacity(size * mib)
	b.open()
	return b
}

// look asks the file system anew.
func (b *bench) look() Space {
	b.space.forget()
	return b.Space()
}

// house does what the keeper does, often enough for every step to follow the one before.
func (b *bench) house() {
	b.t.Helper()
	for range 4 {
		b.space.forget()
		b.must(b.keepHouse(context.Background(), true))
	}
}

func TestAFullDiskRecoversByDelivering(t *testing.T) {
	b := smallDisk(t, 24)
	body := string(make([]byte, 100<<10))
	taken := 0
	for !b.look().Full {
		b.take(plain(body))
		if taken++; taken > 24*mib/len(body) {
			t.Fatal("24 MiB never fill up")
		}
		if b.look().Full {
			b.house() // what a start left behind may still be won back
		}
	}
	// Under the floor a retry stays in memory; what ends a delivery is written.
	got := b.lease(1)
	if len(got) != taken {
		t.Fatalf("leased %d of %d", len(got), taken)
	}
	for i, d := range got {
		kind := event.Done
		if i%50 == 0 {
			kind = event.Retry
		}
		b.Finish(b.outcome(d, kind, time.Minute))
	}
	b.put()
	b.house()
	if space := b.look(); space.Full || !space.Writable {
		t.Fatalf("still full after delivering: %+v", space)
	}
	b.take(plain("more"))
	b.clock.advance(time.Minute)
	left := b.lease(1)
	if want := (taken+49)/50 + 1; len(left) != want {
		t.Fatalf("%d deliveries are left, want %d", len(left), want)
	}
	for _, d := range left {
		want := uint16(2)
		if d.Size == 4 {
			want = 1
		}
		if p, err := b.Read(d.Seq); err != nil || d.Attempt != want {
			t.Errorf("delivery %d: attempt %d, want %d; read: %v", d.Seq, d.Attempt, want, err)
		} else {
			p.Release()
		}
	}
}

func TestARetryUnderTheFloorIsWrittenLater(t *testing.T) {
	b := newBench(t, nil)
	id := b.take(plain("x"))[0]
	d := b.lease(1)[0]
	b.Finish(b.outcome(d, event.Retry, time.Minute))
	b.deferRetries()
	if b.outbox.waiting() {
		t.Error("the retry is still queued")
	}
	if early := b.lease(1); len(early) != 0 {
		t.Errorf("leased %+v before its time", early)
	}
	b.clock.advance(time.Minute)
	again := b.lease(1)
	if len(again) != 1 || again[0].Attempt != 2 {
		t.Fatalf("leased %+v, want attempt 2", again)
	}
	b.Finish(b.outcome(again[0], event.Retry, time.Minute))
	b.deferRetries()
	b.put() // space is back
	detail, err := b.Event(id)
	b.must(err)
	if detail.State != event.Retrying || detail.Destinations[0].Attempts != 2 {
		t.Errorf("event is %+v", detail)
	}
	b.clock.advance(time.Minute)
	if got := b.lease(1); len(got) != 1 || got[0].Attempt != 3 {
		t.Errorf("leased %+v, want attempt 3", got)
	}
}

func TestFewSurvivorsAreCopiedForward(t *testing.T) {
	b := smallDisk(t, 24)
	id := b.take(plain("survivor"))[0]
	d := b.lease(1)[0]
	b.Finish(b.outcome(d, event.Retry, 1000*time.Hour))
	body := string(make([]byte, 100<<10))
	first := b.journal.Segments()[0].Number
	taken := 0
	for b.journal.Segments()[0].Number == first {
		b.take(plain(body))
		for _, d := range b.lease(1) {
			b.Finish(b.outcome(d, event.Done, 0))
		}
		b.put()
		if b.spaceShort() {
			b.house()
		}
		if taken++; taken > 1000 {
			t.Fatalf("the survivor holds its segment: %+v", b.look())
		}
	}
	check := func(when string) {
		t.Helper()
		detail, err := b.Event(id)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if detail.Seq != d.Seq || detail.State != event.Retrying || len(detail.Attempts) != 1 {
			t.Errorf("%s: %+v", when, detail)
		}
		p, err := b.Read(d.Seq)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if string(p.Body()) != "survivor" || p.ID() != id {
			t.Errorf("%s: read %q of %s", when, p.Body(), p.ID())
		}
		p.Release()
		page, err := b.Events(Filter{Source: 1, State: event.Retrying})
		if err != nil || len(page.Items) != 1 || page.Items[0].ID != id {
			t.Errorf("%s: listed %+v, %v", when, page.Items, err)
		}
	}
	check("after the rescue")
	b.restart()
	check("after a restart")
	b.must(b.Store.Close())
	b.must(index.Remove(b.xfs, "data/index"))
	b.open()
	b.clock.advance(1000 * time.Hour)
	if got := b.lease(1); len(got) != 1 || got[0].ID != id {
		t.Errorf("leased %+v after the index was lost, want the survivor", got)
	}
}

func TestTheGroupInDoubtIsWrittenBeforeAnythingElse(t *testing.T) {
	b := newBench(t, nil)
	id := b.take(plain("x"))[0]
	b.must(b.flush(context.Background()))
	b.must(b.Store.Close())
	faulty := vfs.NewFaulty(b.fs, time.Now, time.Sleep)
	b.opt.FS, b.opt.indexFS = faulty, b.xfs
	s, err := Open(context.Background(), b.opt)
	b.must(err)
	b.Store = s
	b.must(faulty.Set("journal.write", vfs.Fault{Err: errors.New("no space")}))
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if err := b.Settle(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("settle on a full disk: %v", err)
	}
	if err := b.Append(Batch{}); !errors.Is(err, ErrNotSettled) {
		t.Errorf("append in doubt: %v", err)
	}
	if b.Space().Writable {
		t.Error("writable in doubt")
	}
	got := b.lease(1)
	if len(got) != 1 || got[0].ID != id {
		t.Fatalf("leased %+v in doubt", got)
	}
	b.Finish(b.outcome(got[0], event.Done, 0))
	faulty.Clear("journal.write")
	b.must(b.Settle(context.Background()))
	if p, err := b.Read(got[0].Seq); err != nil {
		t.Errorf("read after the group moved: %v", err)
	} else {
		p.Release()
	}
	b.put()
	if state := b.state(id); state != event.Delivered {
		t.Errorf("state %s", state)
	}
}

// The group in doubt is written again elsewhere. An index that had it, and that lost what it was
// told of the new place, must be told again: the old place ends before it.
func TestAGroupThatMovedIsFoundAfterTheNextCrash(t *testing.T) {
	for _, kill := range []bool{true, false} {
		rng := rand.New(rand.NewPCG(4, 4))
		b := newBench(t, nil)
		b.take(plain("before"))
		id := b.take(plain("moves"))[0]
		b.must(b.flush(context.Background()))
		b.crash(rng, true) // the last group, which the index has, moves
		b.append(plain("after"))
		b.must(b.journal.Prepare()) // cuts what is behind the end of the old place
		b.crash(rng, kill)          // the index forgets all since its flush
		if b.Recovery().IndexRebuilt {
			t.Fatal("the index was built again: this shows nothing")
		}
		e, err := b.Event(id)
		b.must(err)
		payload, err := b.Read(e.Seq)
		if err != nil {
			t.Fatalf("killed: %v: %v", kill, err)
		}
		payload.Release()
		if got := b.lease(1); len(got) != 3 {
			t.Fatalf("killed: %v: leased %+v", kill, got)
		}
		b.must(b.Store.Close())
	}
}

func TestAnEmptyJournalHasNothingToSay(t *testing.T) {
	b := newBench(t, nil)
	page, err := b.Events(Filter{})
	b.must(err)
	if len(page.Items) != 0 || len(b.lease(1)) != 0 {
		t.Error("an empty store lists or leases something")
	}
	if _, ok := b.NextDue(1); ok {
		t.Error("something is due")
	}
	if _, err := b.Event(event.ID{1}); !errors.Is(err, ErrNotFound) {
		t.Errorf("unknown event: %v", err)
	}
	n, err := b.ReplayDead(context.Background(), Filter{}, Replay{By: "tester"})
	if n != 0 || err != nil {
		t.Errorf("replayed %d, %v", n, err)
	}
	if s := fmt.Sprint(b.Recovery().Damage); s != "[]" {
		t.Errorf("damage %s", s)
	}
}

func TestSpaceKnowsTheOldestEvent(t *testing.T) {
	b := newBench(t, nil)
	if at := b.look().Oldest; !at.IsZero() {
		t.Errorf("oldest of nothing: %v", at)
	}
	came := b.clock.Now()
	b.take(plain("x"))
	b.clock.advance(time.Hour)
	b.take(plain("y"))
	if at := b.look().Oldest; !at.Equal(came) {
		t.Errorf("oldest %v, want %v", at, came)
	}
	stats := b.Stats()
	if len(stats.Destinations) != 1 || !stats.Destinations[0].Oldest.Equal(came) {
		t.Errorf("oldest waiting %+v", stats.Destinations)
	}
}

func TestAnEventTheDiskLostIsNamed(t *testing.T) {
	b := newBench(t, nil)
	id := b.take(plain("the body of this one goes bad"))[0]
	b.take(plain("kept"))
	b.must(b.Store.Close())
	for _, name := range b.fs.Names("data/journal/") {
		text := b.fs.Dump(name)
		if at := bytes.LastIndex(text, []byte("the body of this one")); at >= 0 {
			text[at] ^= 1
			b.fs.Put(name, text)
		}
	}
	b.open()
	got := b.lease(1)
	if len(got) != 2 || got[0].ID != id {
		t.Fatalf("leased %+v", got)
	}
	if _, err := b.Read(got[0].Seq); !errors.Is(err, ErrLost) || !errors.Is(err, ErrNotFound) {
		t.Errorf("read of what is lost: %v", err)
	}
	if len(b.Damage()) == 0 {
		t.Error("the loss is not named")
	}
	p, err := b.Read(got[1].Seq)
	b.must(err)
	p.Release()
}

// quota is a disk that does not say how little of it one may have, as under a quota.
type quota struct{ vfs.FS }

func (quota) Space(string) (vfs.Space, error) {
	return vfs.Space{Total: 1 << 40, Free: 1 << 39}, nil
}

// TestAnUntoldBoundOfTheDiskIsKept has retention begin where no more files can be made.
func TestAnUntoldBoundOfTheDiskIsKept(t *testing.T) {
	b := newBench(t, nil)
	b.must(b.Store.Close())
	b.fs.SetCapacity(24 * mib)
	o := b.opt
	o.FS, o.indexFS, o.elapsed = quota{b.fs}, b.xfs, b.clock.elapsed
	s, err := Open(context.Background(), o)
	b.must(err)
	b.Store = s
	b.must(s.Settle(context.Background()))
	body := string(make([]byte, 100<<10))
	for taken := 0; taken < 4*24*mib; taken += len(body) {
		if b.look().Full {
			b.house()
			continue
		}
		b.take(plain(body))
		b.end(event.Done, b.lease(1)...)
		_ = b.journal.Prepare() // what the preparer does now and then
	}
	if first := b.journal.Segments()[0].FirstGroup; first == 1 {
		t.Error("nothing was dropped")
	}
	b.fs.SetCapacity(0)
	for range 3 {
		b.must(b.journal.Prepare())
	}
	if s := b.look(); s.TotalBytes < 1<<38 {
		t.Errorf("with space again: %+v", s)
	}
}
