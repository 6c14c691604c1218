package ingest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice/go/internal/store"
	"sluice/shm-abi/shmabi"
)

func TestADurable2xxLeavesOnlyAfterAppendReturned(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	r.journal.hold()
	at := p.publish(signed(t, durably, "evt_1", "{}"))
	r.journal.inAppend()
	if answers := p.drain(10); len(answers) != 0 {
		t.Fatalf("answered %v before the sync", answers)
	}
	if p.consume() != 0 {
		t.Fatal("room was given back before the sync")
	}
	r.journal.release()
	a := wantOne(t, p.take(1), shmabi.ReplyAccepted, 200, at)
	if !r.storedAt(p, at) || a.id != idOf(p, at) {
		t.Errorf("answered with %s", a.id)
	}
	r.released(p)
}

func TestRingIsAnsweredAtOnceWhileTheJournalBlocks(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	r.journal.hold()
	p.publish(signed(t, durably, "evt_0", "{}"))
	r.journal.inAppend()
	for i := range 3 {
		at := p.publish(signed(t, atOnce, fmt.Sprint("ring-", i), "{}"))
		wantOne(t, p.take(1), shmabi.ReplyAccepted, 200, at)
	}
	refused := p.publish(forged(t, durably, "evt_2", "{}"))
	wantOne(t, p.take(1), shmabi.ReplyRefused, 401, refused)
	if p.consume() != 0 {
		t.Error("room of frames that no journal has was given back")
	}
	r.journal.release()
	p.take(1)
	r.released(p)
	if n := len(r.journal.all()); n != 4 {
		t.Errorf("%d stored, want 4", n)
	}
}

func TestDuplicateIsSaidOnlyWhenTheFirstCopyIsDurable(t *testing.T) {
	r := newRig(t)
	one, two := r.plane(roomy), r.plane(roomy)
	r.journal.hold()
	first := one.publish(signed(t, durably, "evt_1", "{}"))
	r.journal.inAppend()
	// The retry comes by another lane while the first copy is in flight: it is stored as well, and
	// the applier drops it.
	retry := two.publish(signed(t, durably, "evt_1", "{}"))
	r.verified(two)
	if answers := two.drain(1); len(answers) != 0 {
		t.Fatalf("answered %v while the first copy is in flight", answers)
	}
	r.journal.release()
	a := wantOne(t, one.take(1), shmabi.ReplyAccepted, 200, first)
	wantOne(t, two.take(1), shmabi.ReplyAccepted, 200, retry)
	third := two.publish(signed(t, durably, "evt_1", "{}"))
	if d := wantOne(t, two.take(1), shmabi.ReplyDuplicate, 200, third); d.id != a.id {
		t.Errorf("duplicate of %s, the first was %s", d.id, a.id)
	}
	r.released(two)
	if r.storedAt(two, third) || len(r.journal.all()) != 2 {
		t.Errorf("stored: %v", r.journal.all())
	}
	if n := r.service.Tally(durably).Duplicates.Load(); n != 1 {
		t.Errorf("%d duplicates counted", n)
	}
}

func TestAFailedBatchIsWrittenAgainAsItWas(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	if r.control.Writable() != 1 {
		t.Fatal("not writable at the start")
	}
	r.journal.hold()
	r.journal.failNext(3)
	var ids []uint64
	ids = append(ids, p.publish(signed(t, durably, "evt_0", "{}")))
	r.journal.inAppend()
	for i := range 5 { // these come while the first batch is on its way, and must not join it
		ids = append(ids, p.publish(signed(t, durably, fmt.Sprint("more-", i), "{}")))
	}
	r.verified(p)
	r.journal.release()
	eventually(t, "senders are told", func() bool { return r.control.Writable() == 0 })
	if answers := p.drain(10); len(answers) != 0 {
		t.Fatalf("answered %v while nothing is durable", answers)
	}
	p.take(len(ids)) // the journal checks that the batch is the same
	eventually(t, "writable again", func() bool { return r.control.Writable() == 1 })
	for _, at := range ids {
		if !r.storedAt(p, at) {
			t.Errorf("the frame at %d is not stored", at)
		}
	}
	r.released(p)
	if got := r.journal.sizes(); len(r.journal.all()) != len(ids) || got[0] != 1 {
		t.Errorf("groups of %v", got)
	}
}

func TestFramesThatAreNotStoredNeedNoWrite(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	r.journal.hold()
	for i := range 10 {
		p.publish(forged(t, durably, fmt.Sprint(i), "{}"))
		p.publish(request{source: nobody})
		p.publish(question(t, fmt.Sprint(i)))
	}
	p.take(30)
	r.released(p) // although no write ever returned
	if n := len(r.journal.all()); n != 0 {
		t.Errorf("%d stored", n)
	}
}

func TestRefusedFramesBetweenStoredOnesAreLeftOut(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	r.journal.hold()
	first := p.publish(signed(t, durably, "first", "{}"))
	r.journal.inAppend()
	var want []uint64
	for i := range 20 {
		want = append(want, p.publish(signed(t, durably, fmt.Sprint(i), "{}")))
		p.publish(forged(t, durably, fmt.Sprint("forged", i), "{}"))
	}
	r.verified(p)
	r.journal.release()
	p.take(41)
	r.released(p)
	var got []uint64
	for _, s := range r.journal.all() {
		got = append(got, s.position)
	}
	if !slices.Equal(got, append([]uint64{first}, want...)) {
		t.Errorf("stored %v", got)
	}
	if n := len(r.journal.sizes()); n != 2 {
		t.Errorf("%d groups: what arrived while one was in flight is one group", n)
	}
}

func TestAGroupIsBoundedByBytesOrIsOneFrame(t *testing.T) {
	if groupBytes > store.BatchBytesMax {
		t.Fatalf("groups of %d bytes, the store takes %d", groupBytes, store.BatchBytesMax)
	}
	r := newRig(t)
	p := r.plane(size{32 << 20, 1 << 16})
	body := strings.Repeat("x", 900<<10)
	huge := strings.Repeat("y", 5<<20)
	r.journal.hold()
	p.publish(signed(t, anybody, "", "{}"))
	r.journal.inAppend()
	for range 9 {
		p.publish(signed(t, anybody, "", body))
	}
	p.publish(signed(t, anybody, "", huge))
	p.publish(signed(t, anybody, "", "{}"))
	r.verified(p)
	r.journal.release() // the journal checks the size of each batch
	p.take(12)
	r.released(p)
	if got, want := r.journal.sizes(), []int{1, 3, 3, 3, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("groups of %v frames, want %v", got, want)
	}
}

func TestLanesTakeTurnsInAGroup(t *testing.T) {
	r := newRig(t)
	busy, quiet := r.plane(size{32 << 20, 1 << 16}), r.plane(roomy)
	r.journal.hold()
	busy.publish(signed(t, anybody, "", "{}"))
	r.journal.inAppend()
	body := strings.Repeat("x", 1<<20)
	for range 20 {
		busy.publish(signed(t, anybody, "", body))
	}
	// It does not fit beside what the busy lane puts into each group.
	at := quiet.publish(signed(t, anybody, "", strings.Repeat("y", 900<<10)))
	r.verified(busy)
	r.verified(quiet)
	r.journal.release()
	busy.take(21)
	quiet.take(1)
	// A lane that always has a full group must not keep the other one waiting for all of them.
	for i, s := range r.journal.all() {
		if s.lane == quiet.id && s.position == at && i > 8 {
			t.Errorf("the quiet lane's frame is number %d", i)
		}
	}
}

func TestAFullJournalIsPublished(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	r.journal.set(func(j *journal) { j.full = true })
	p.publish(signed(t, durably, "evt_1", "{}"))
	eventually(t, "full is published", func() bool { return r.control.JournalFull() == 1 })
	r.journal.set(func(j *journal) { j.full = false })
	// Nothing comes any more, since senders are told 503: the committer looks by itself.
	eventually(t, "room is published", func() bool { return r.control.JournalFull() == 0 })
}

func TestAnIdleMarkFollowsTheLastGroup(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	p.publish(signed(t, durably, "evt_1", "{}"))
	p.take(1)
	marks := func() int {
		r.journal.mu.Lock()
		defer r.journal.mu.Unlock()
		return r.journal.marks
	}
	eventually(t, "an idle mark", func() bool { return marks() > 0 })
	if r.control.DurableGroup() == 0 {
		t.Error("no witness in the control page")
	}
}

func TestOutcomesAreWrittenWithoutFrames(t *testing.T) {
	r := newRig(t)
	r.journal.work <- struct{}{}
	eventually(t, "an empty batch", func() bool { return r.journal.Durable() == 1 })
}

func TestWhatComesWhileAGroupIsWrittenIsLaidOutForTheNext(t *testing.T) {
	r := newRig(t)
	one, two := r.plane(roomy), r.plane(roomy)
	r.journal.hold()
	first := one.publish(signed(t, durably, "first", "{}"))
	r.journal.inAppend()
	refused := one.publish(forged(t, durably, "refused", "{}"))
	wantOne(t, one.take(1), shmabi.ReplyRefused, 401, refused)
	second := one.publish(signed(t, durably, "second", "{}"))
	eventually(t, "the second is laid out", func() bool { return r.journal.laid(idOf(one, second)) })
	third := two.publish(signed(t, durably, "third", "{}"))
	eventually(t, "the third is laid out", func() bool { return r.journal.laid(idOf(two, third)) })
	if n := len(r.journal.all()); n != 0 || one.consume() != 0 || r.journal.sizes() != nil {
		t.Fatalf("%d stored, consume at %d while the first group is written", n, one.consume())
	}
	if answers := append(one.drain(10), two.drain(10)...); len(answers) != 0 {
		t.Fatalf("answered %v while the first group is written", answers)
	}
	r.journal.release()
	one.take(2)
	wantOne(t, two.take(1), shmabi.ReplyAccepted, 200, third)
	r.released(one)
	r.released(two)
	if got := r.journal.sizes(); !slices.Equal(got, []int{1, 2}) || !r.storedAt(one, first) {
		t.Errorf("groups of %v frames, want 1 and 2", got)
	}
}

func TestWhatIsLaidOutAtTheStopStaysInItsLane(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	r.journal.hold()
	first := p.publish(signed(t, durably, "first", "{}"))
	r.journal.inAppend()
	r.journal.failNext(1 << 30)
	second := p.publish(signed(t, durably, "second", "{}"))
	eventually(t, "it is laid out", func() bool { return r.journal.laid(idOf(p, second)) })
	r.journal.release()
	eventually(t, "a write failed", func() bool { return r.control.Writable() == 0 })
	r.stop()
	r.journal.reopen()
	r.start()
	p.take(2)
	r.released(p)
	if n := len(r.journal.all()); n != 2 || !r.storedAt(p, first) || !r.storedAt(p, second) {
		t.Errorf("%d stored, want 2", n)
	}
}

func TestALaneWhoseFramesChangeBehindTheVerdictHoldsUpNoOther(t *testing.T) {
	r := newRig(t)
	bad, good := r.plane(roomy), r.plane(roomy)
	r.journal.set(func(j *journal) {
		j.changedBehind = func(f shmabi.Frame) bool { return f.D().SourceID() == anybody }
	})
	sound := bad.publish(signed(t, durably, "sound", "{}"))
	wantOne(t, bad.take(1), shmabi.ReplyAccepted, 200, sound)
	spoilt := bad.publish(signed(t, anybody, "", "{}"))
	eventually(t, "its lane is retired", bad.retired)
	for n := range 3 {
		at := good.publish(signed(t, durably, fmt.Sprint(n), "{}"))
		wantOne(t, good.take(1), shmabi.ReplyAccepted, 200, at)
	}
	r.released(good)
	answers, consume := bad.drain(1), bad.consume()
	if len(answers) != 0 || r.storedAt(bad, spoilt) || consume > spoilt {
		t.Errorf("answered %v, consume at %d of %d", answers, consume, spoilt)
	}
	if r.control.Writable() != 1 {
		t.Error("the journal counts as not writable")
	}
}
