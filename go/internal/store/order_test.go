package store

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/store/index"
)

func ordered(order uint64, body string) request {
	return request{source: 1, route: 1, order: order, body: body}
}

// wantLeased leases all there is of destination 1.
func (b *bench) wantLeased(when string, want ...event.ID) []Delivery {
	b.t.Helper()
	got := b.lease(1)
	if !slices.Equal(idsOf(got), want) {
		b.t.Fatalf("%s: leased %v, want %v", when, idsOf(got), want)
	}
	return got
}

// end records what became of deliveries.
func (b *bench) end(kind event.OutcomeKind, list ...Delivery) {
	b.t.Helper()
	for _, d := range list {
		o := b.outcome(d, kind, time.Hour)
		o.Blocks = kind == event.Dead
		b.Finish(o)
	}
	b.put()
}

// loseIndex is a clean stop, and a start without an index.
func (b *bench) loseIndex() {
	b.t.Helper()
	b.must(b.Store.Close())
	b.must(index.Remove(b.xfs, "data/index"))
	b.open()
}

func TestADeadLetterThatBlocksHoldsItsKeyAlone(t *testing.T) {
	for _, release := range []string{"replay", "drop"} {
		t.Run(release, func(t *testing.T) {
			b := newBench(t, nil)
			ids := b.take(ordered(5, "a"), ordered(5, "b"), ordered(9, "c"))
			got := b.wantLeased("at first", ids[0], ids[2])
			b.end(event.Dead, got[0])
			b.end(event.Done, got[1])
			more := b.take(ordered(5, "d"), plain("e"))
			b.end(event.Done, b.wantLeased("behind the dead letter", more[1])...)
			check := func(when string) {
				t.Helper()
				b.wantLeased(when)
				if due, ok := b.NextDue(1); ok {
					t.Errorf("%s: something is due at %v", when, due)
				}
				s := b.Stats().Destinations[0]
				if s.Backlog != 2 || s.Dead != 1 || b.Space().Living != 2 {
					t.Errorf("%s: %+v, want a backlog of 2 and 1 dead letter", when, s)
				}
			}
			check("blocked")
			b.restart()
			check("after a restart")
			b.loseIndex()
			check("after the index was lost")
			var n int
			var err error
			if release == "replay" {
				n, err = b.ReplayDead(context.Background(), Filter{}, Replay{By: "op"})
			} else {
				n, err = b.DropDead(context.Background(), Filter{}, "hopeless", "op")
			}
			if n != 1 || err != nil {
				t.Fatalf("%s of %d, %v", release, n, err)
			}
			if release == "replay" {
				b.end(event.Done, b.wantLeased("replayed", ids[0])...)
			}
			b.end(event.Done, b.wantLeased("next", ids[1])...)
			b.end(event.Done, b.wantLeased("last", more[0])...)
		})
	}
}

func TestWithoutAKeyADeadLetterBlocksNothing(t *testing.T) {
	b := newBench(t, nil)
	ids := b.take(plain("a"), plain("b"))
	got := b.wantLeased("at first", ids...)
	b.end(event.Dead, got[0])
	b.end(event.Done, got[1])
	b.end(event.Done, b.wantLeased("later", b.take(plain("c"))...)...)
	r, err := b.index.Find(ids[0])
	b.must(err)
	if r.Needed() {
		t.Error("retention would keep a dead letter that blocks nothing")
	}
}

func TestAReplayedEventGoesBeforeALaterDeadLetter(t *testing.T) {
	b := newBench(t, nil)
	ids := b.take(ordered(5, "a"), ordered(5, "b"), ordered(5, "c"))
	b.end(event.Done, b.wantLeased("first", ids[0])...)
	b.end(event.Dead, b.wantLeased("second", ids[1])...)
	replay := func(id event.ID) {
		t.Helper()
		n, err := b.ReplayEvents(context.Background(), Filter{ID: id}, Replay{By: "op"})
		if n != 1 || err != nil {
			t.Fatalf("replay of %d, %v", n, err)
		}
	}
	replay(ids[0])
	again := b.wantLeased("replayed before it", ids[0])
	replay(ids[1])
	b.wantLeased("while the first is under way")
	b.end(event.Done, again...)
	b.end(event.Done, b.wantLeased("then the dead letter", ids[1])...)
	b.end(event.Done, b.wantLeased("then what it blocked", ids[2])...)
}

func TestRetentionKeepsADeadLetterThatBlocks(t *testing.T) {
	b := newBench(t, func(o *Options) { o.Retention.MaxAge = 24 * time.Hour })
	id := b.take(ordered(5, "a"))[0]
	b.end(event.Dead, b.wantLeased("first", id)...)
	fill := func() {
		t.Helper()
		for range 30 {
			b.end(event.Done, b.wantLeased("filling", b.take(plain(string(make([]byte, 100<<10))))...)...)
		}
		b.clock.advance(25 * time.Hour)
		b.must(b.keepHouse(context.Background(), true))
	}
	fill()
	b.restart()
	next := b.take(ordered(5, "b"))[0]
	b.wantLeased("behind the dead letter")
	if n, err := b.DropDead(context.Background(), Filter{}, "hopeless", "op"); n != 1 || err != nil {
		t.Fatalf("drop of %d, %v", n, err)
	}
	b.end(event.Done, b.wantLeased("after the drop", next)...)
	fill()
	if _, err := b.Event(id); !errors.Is(err, ErrNotFound) {
		t.Errorf("a dropped dead letter past its age: %v", err)
	}
}

// TestARescuedHeadStillGoesFirst has the head of a key copied behind what waits for it, and then
// the index lost: the copy is all that tells of it.
func TestARescuedHeadStillGoesFirst(t *testing.T) {
	b := smallDisk(t, 24)
	a := b.take(ordered(5, "a"))[0]
	b.end(event.Retry, b.wantLeased("first", a)...)
	first := b.journal.Segments()[0].Number
	fill := func(until func() bool) {
		t.Helper()
		for n := 0; !until(); n++ {
			b.end(event.Done, b.wantLeased("filling", b.take(plain(string(make([]byte, 100<<10))))...)...)
			if n > 1000 {
				t.Fatal("the segment stays")
			}
		}
	}
	fill(b.spaceShort)
	waiting := b.take(ordered(5, "b"))[0]
	fill(func() bool { b.house(); return b.journal.Segments()[0].Number > first })
	// The table of the next segment is the first that does not name the old one.
	current := func() uint64 { list := b.journal.Segments(); return list[len(list)-1].Number }
	named := current()
	fill(func() bool { return current() > named })
	b.loseIndex()
	if d, err := b.Event(a); err != nil || d.State != event.Retrying || len(d.Attempts) != 1 {
		t.Fatalf("the copy alone should tell of it: %+v, %v", d, err)
	}
	b.wantLeased("while the head is not due")
	b.clock.advance(time.Hour)
	b.end(event.Done, b.wantLeased("after the index was lost", a)...)
	b.wantLeased("then", waiting)
}

func TestASkippedDeliveryIsDeliveredAndRemembered(t *testing.T) {
	b := newBench(t, nil)
	ids := b.take(ordered(5, "a"), ordered(5, "b"))
	b.end(event.Skip, b.wantLeased("first", ids[0])...)
	b.wantLeased("then", ids[1])
	for _, when := range []string{"at once", "after the index was lost"} {
		d, err := b.Event(ids[0])
		b.must(err)
		if d.State != event.Delivered || d.Destinations[0].Attempts != 0 ||
			len(d.Attempts) != 1 || d.Attempts[0].Kind != event.Skip {
			t.Errorf("%s: %+v", when, d)
		}
		b.loseIndex()
	}
}

func TestOneThatIsFreedInTheMiddleOfABacklogIsNotPassedOver(t *testing.T) {
	b := newBench(t, func(o *Options) { o.window = 8 })
	list := []request{ordered(5, "head")}
	for n := range 60 {
		list = append(list, plain(string(rune('a'+n%26))))
		if n == 20 {
			list = append(list, ordered(5, "follower")) // in the rows, far beyond the window
		}
	}
	ids := b.take(list...)
	b.mu.Lock()
	b.must(b.commit())
	b.mu.Unlock()
	got := b.Store.Lease(1, 1, b.clock.Now())
	b.Finish(b.outcome(got[0], event.Done, 0)) // frees the follower; no row says so yet
	b.must(b.Append(Batch{}))
	for b.applied.Load() < b.Durable() {
		time.Sleep(time.Millisecond)
	}
	seen := map[event.ID]bool{got[0].ID: true}
	for len(seen) < len(ids) {
		next := b.Store.Lease(1, 1, b.clock.Now())
		if len(next) == 0 {
			t.Fatalf("%d of %d were leased, then no more", len(seen), len(ids))
		}
		seen[next[0].ID] = true
	}
}
