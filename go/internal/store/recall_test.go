package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/store/journal"
)

// keyed is an event to destination 1 whose window is 30 hours.
func keyed(key byte, body string) request {
	return request{source: 1, route: 1, key: key, window: 30 * time.Hour, body: body}
}

// pass lets days go by, in each of which a segment fills.
func (b *bench) pass(days int) {
	b.t.Helper()
	for range days {
		b.aDay(12)
	}
}

// wantGone has the groups up to an event's be dropped, on the disk too, and none from another
// event's on.
func (b *bench) wantGone(gone, kept event.Seq) {
	b.t.Helper()
	for range 12 { // which begin a segment: its table names the dropped ones no more
		b.take(request{source: 3, route: 3, body: string(make([]byte, 100<<10))})
	}
	if first := b.journal.Segments()[0].FirstGroup; first <= gone.Group() || first > kept.Group() {
		b.t.Fatalf("the first group kept is %d, want one of (%d, %d]", first, gone.Group(),
			kept.Group())
	}
}

// threeDays keeps segments for that long. Windows have ended by then.
func threeDays(o *Options) { o.Retention.MaxAge = 72 * time.Hour }

func (b *bench) seqOf(id event.ID) event.Seq {
	b.t.Helper()
	d, err := b.Event(id)
	b.must(err)
	return d.Seq
}

func TestARepeatOfAnEventCarriedForwardStaysOneWithoutTheIndex(t *testing.T) {
	b := newBench(t, threeDays)
	first := b.take(keyed(1, "x"))[0]
	gone := b.seqOf(first)
	b.pass(1)
	repeat := b.take(keyed(1, "x"))[0]
	kept := b.seqOf(repeat)
	b.pass(3)
	b.wantGone(gone, kept)
	for round := range 3 {
		b.loseIndex()
		if b.state(first) != event.Pending || b.state(repeat) != event.Duplicate {
			t.Fatalf("round %d: the first is %s, its repeat %s", round, b.state(first), b.state(repeat))
		}
	}
	b.wantLeased("without the index", first)
}

func TestARepeatOfAnEventThatIsGoneStaysOneWithoutTheIndex(t *testing.T) {
	b := newBench(t, threeDays)
	first := b.take(keyed(1, "x"))[0]
	gone := b.seqOf(first)
	b.end(event.Done, b.lease(1)...)
	b.pass(1)
	repeat := b.take(keyed(1, "x"))[0]
	kept := b.seqOf(repeat)
	b.pass(3)
	b.wantGone(gone, kept)
	b.loseIndex()
	b.wantLeased("without the index")
	if got := b.state(repeat); got != event.Duplicate {
		t.Errorf("the repeat is %s", got)
	}
}

// TestKeysOfEventsThatWentForSpaceAreKnownWithoutTheIndex fills a small disk within the windows,
// twice over: what was carried forward is carried forward again.
func TestKeysOfEventsThatWentForSpaceAreKnownWithoutTheIndex(t *testing.T) {
	b := smallDisk(t, 24)
	body := string(make([]byte, 100<<10))
	first := b.take(keyed(1, "x"))[0]
	gone := b.seqOf(first)
	fill := func(events int) {
		for range events {
			b.take(plain(body))
			b.end(event.Done, b.lease(1)...)
			if b.spaceShort() {
				b.house()
			}
		}
	}
	b.end(event.Done, b.lease(1)...)
	fill(250)
	if b.journal.Segments()[0].FirstGroup <= gone.Group() {
		t.Fatal("the first segment is there still")
	}
	repeat := b.take(keyed(1, "x"))[0]
	if got := b.state(repeat); got != event.Duplicate {
		t.Fatalf("the repeat is %s", got)
	}
	kept := b.seqOf(repeat).Group()
	check := func(when string) {
		t.Helper()
		b.loseIndex()
		again := b.take(keyed(1, "x"))[0]
		if got := b.state(again); got != event.Duplicate {
			t.Errorf("%s: a repeat is %s", when, got)
		}
		if b.journal.Segments()[0].FirstGroup <= kept && b.state(repeat) != event.Duplicate {
			t.Errorf("%s: the first repeat is %s", when, b.state(repeat))
		}
		b.wantLeased(when)
	}
	check("the event is gone")
	fill(250)
	check("what was carried forward is gone")
	b.clock.advance(72 * time.Hour)
	b.take(plain("x"))
	b.end(event.Done, b.lease(1)...)
	again := b.take(keyed(1, "x"))[0]
	if got := b.state(again); got != event.Pending {
		t.Errorf("behind the window an event of the same id is %s", got)
	}
}

// TestKeysThatAreTooManyAreLeftBehind has the bound on them fall and rise again. What repeats an
// event is known as a repeat where it was taken before, whatever becomes of the keys.
func TestKeysThatAreTooManyAreLeftBehind(t *testing.T) {
	b := smallDisk(t, 24)
	body := string(make([]byte, 100<<10))
	turn := func() { // until all segments are others, on the disk as well
		for last, more := b.Durable(), 12; more > 0; {
			b.take(plain(body))
			b.end(event.Done, b.lease(1)...)
			b.house()
			if b.journal.Segments()[0].FirstGroup > last {
				more--
			}
		}
	}
	written := func(keys byte) (carried int) {
		before := b.Durable()
		for key := range keys {
			b.take(keyed(key+1, "x"))
		}
		repeat := b.take(keyed(1, "x"))[0]
		b.end(event.Done, b.lease(1)...)
		turn()
		if _, err := b.Event(repeat); !errors.Is(err, ErrNotFound) {
			t.Errorf("the repeat is there still: %v", err)
		}
		b.must(b.journal.Replay(before, func(g *journal.Group) error {
			for i := range g.Frames {
				if f := &g.Frames[i]; f.Kind == journal.KindCarried {
					c, err := f.Carried()
					b.must(err)
					carried += len(c.Keys)
				}
			}
			return nil
		}))
		return carried
	}
	b.opt.carryShare = b.journalSpace().Total / (2 * journal.CarriedKeyBytes) // two keys fit
	b.Store.opt.carryShare = b.opt.carryShare
	if n := written(3); n != 0 || !b.Stats().KeysLeft {
		t.Errorf("%d keys are carried where three are too many, %v", n, b.Stats().KeysLeft)
	}
	b.loseIndex()
	again := b.take(keyed(1, "x"))[0]
	if got := b.state(again); got != event.Pending {
		t.Errorf("what repeats a key left behind is %s", got)
	}
	b.end(event.Done, b.lease(1)...)
	b.clock.advance(96 * time.Hour) // the windows are over
	b.take(plain("x"))
	b.end(event.Done, b.lease(1)...)
	if n := written(2); n < 2 || b.Stats().KeysLeft {
		t.Errorf("%d keys are carried where two are few enough, %v", n, b.Stats().KeysLeft)
	}
	b.loseIndex()
	if got := b.state(b.take(keyed(2, "x"))[0]); got != event.Duplicate {
		t.Errorf("what repeats a key that was carried is %s", got)
	}
}

// TestAnOutcomeDurableBeforeTheCopyOfItsEventCounts has a delivery end while its event is on the
// way to the end of the journal.
func TestAnOutcomeDurableBeforeTheCopyOfItsEventCounts(t *testing.T) {
	b := newBench(t, nil)
	ids := b.take(request{source: 2, route: 2, body: "x"})
	seq := b.seqOf(ids[0])
	got := b.lease(1)
	for b.journal.Segments()[0].Current {
		b.take(plain(string(make([]byte, 100<<10))))
	}
	survivors, err := b.survivors(b.journal.Segments()[0], nil)
	b.must(err)
	list, err := b.copies(survivors)
	b.must(err)
	b.end(event.Done, got...) // behind the look at what became of it
	b.must(b.submit(context.Background(), func(t *ticket) { b.outbox.addRescues(list, t) }))
	b.take(plain(string(make([]byte, 900<<10))))
	b.must(b.flush(context.Background()))
	ok, err := b.dropSegment(b.journal.Segments()[0], nil)
	if !ok || err != nil {
		t.Fatalf("dropped: %v, %v", ok, err)
	}
	b.take(plain(string(make([]byte, 900<<10)))) // now the disk knows that it is gone
	before, err := b.Event(ids[0])
	b.must(err)
	b.loseIndex()
	after, err := b.Event(ids[0])
	b.must(err)
	if !reflect.DeepEqual(after, before) || after.Seq != seq {
		t.Errorf("without the index\n%+v, was\n%+v", after, before)
	}
	for _, d := range b.lease(1) {
		if d.ID == ids[0] {
			t.Error("what was delivered is delivered again")
		}
	}
}

// TestASegmentThatIsThereAgainCarriesNothingTwice has a crash come before the drop of a segment is
// on the disk: what the index knew of it is gone by then.
func TestASegmentThatIsThereAgainCarriesNothingTwice(t *testing.T) {
	b := smallDisk(t, 24)
	body := string(make([]byte, 100<<10))
	first := b.take(keyed(1, "x"))[0]
	b.clock.advance(time.Minute)
	b.take(keyed(1, "x")) // it would open a window of its own
	b.end(event.Done, b.lease(1)...)
	for b.journal.Segments()[0].FirstGroup == 1 {
		b.take(plain(body))
		b.end(event.Done, b.lease(1)...)
		if b.spaceShort() {
			b.houseMu.Lock() // against the keeper
			b.must(b.flush(context.Background()))
			_, err := b.trim(context.Background())
			b.must(err)
			b.houseMu.Unlock()
		}
	}
	b.crash(rand.New(rand.NewPCG(1, 1)), true)
	if b.journal.Segments()[0].FirstGroup != 1 {
		t.Fatal("the drop of the first segment is on the disk")
	}
	for range 20 {
		b.take(plain(body))
		b.end(event.Done, b.lease(1)...)
		b.house()
	}
	if b.journal.Segments()[0].FirstGroup == 1 {
		t.Fatal("the first segment stays")
	}
	b.loseIndex()
	again, err := b.Event(b.take(keyed(1, "x"))[0])
	if err != nil || again.First != first {
		t.Errorf("a repeat repeats %s, want %s, %v", again.First, first, err)
	}
}

// A segment without events may hold all that is carried forward.
func TestKeysOutliveTheSegmentTheyWereCarriedTo(t *testing.T) {
	b := newBench(t, threeDays)
	long := request{source: 1, route: 1, key: 1, window: 1000 * time.Hour, body: "x"}
	b.take(long)
	b.end(event.Done, b.lease(1)...)
	b.must(b.journal.Reclaim())
	carriedTo := b.journal.Segments()[1].Number
	b.clock.advance(96 * time.Hour)
	b.house() // takes the event, and carries its key to the next segment
	if first := b.journal.Segments()[0].Number; first != carriedTo {
		t.Fatalf("the first segment is %d, want %d", first, carriedTo)
	}
	b.clock.advance(24 * time.Hour)
	b.must(b.journal.Reclaim())
	b.take(plain("y"))
	b.end(event.Done, b.lease(1)...)
	b.must(b.journal.Reclaim())
	b.clock.advance(60 * time.Hour)
	b.take(plain("z"))
	b.house() // takes the segment without events, and that one alone
	if first := b.journal.Segments()[0].Number; first != carriedTo+1 {
		t.Fatalf("the first segment is %d, want %d", first, carriedTo+1)
	}
	b.must(b.journal.Reclaim())
	b.end(event.Done, b.lease(1)...)
	b.loseIndex()
	if got := b.state(b.take(long)[0]); got != event.Duplicate {
		t.Errorf("without the index a repeat is %s", got)
	}
}

// TestWhatASegmentTellsWaitsUntilItIsGone has a crash, and the loss of the index, come between what
// is written of a segment that is to go and its drop: its own groups are judged as of their time.
func TestWhatASegmentTellsWaitsUntilItIsGone(t *testing.T) {
	b := newBench(t, func(o *Options) { o.Retention.MaxAge = 10 * 24 * time.Hour })
	gone := b.seqOf(b.take(plain("x"))[0])
	b.end(event.Done, b.lease(1)...)
	b.pass(12)
	first := b.take(keyed(1, "x"))[0]
	b.clock.advance(time.Hour)
	repeat := b.take(keyed(1, "x"))[0]
	b.pass(5)
	b.wantGone(gone, b.seqOf(first)) // so that a start looks for what was carried forward
	if got := b.state(repeat); got != event.Duplicate {
		t.Fatalf("the repeat is %s", got)
	}
	told := carriedRepeats(b.seqOf(repeat).Group(), b.clock.Now().UnixNano(), nil)
	b.must(b.submit(context.Background(), func(t *ticket) { b.outbox.addCarried(told, t) }))
	b.loseIndex()
	if got := b.state(repeat); got != event.Duplicate {
		t.Errorf("without the index the repeat is %s", got)
	}
}

// TestTheHorizonOfWhatIsGoneIsKnownWithoutTheIndex carries a received time forward that no event
// left behind tells.
func TestTheHorizonOfWhatIsGoneIsKnownWithoutTheIndex(t *testing.T) {
	b := newBench(t, threeDays)
	gone := b.seqOf(b.take(plain("x"))[0])
	b.end(event.Done, b.lease(1)...)
	b.pass(4)
	b.wantGone(gone, b.seqOf(b.take(plain("x"))[0]))
	horizon := b.clock.Now().Add(10 * 24 * time.Hour).UnixNano()
	told := carriedRepeats(gone.Group(), horizon, nil)
	b.must(b.submit(context.Background(), func(t *ticket) { b.outbox.addCarried(told, t) }))
	b.loseIndex()
	if got := b.index.Meta().Horizon; got != horizon {
		t.Errorf("without the index the horizon is %s, want %s", timeOf(got), timeOf(horizon))
	}
}
