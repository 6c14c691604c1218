package ingest

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/go/internal/destination"
	"sluice/go/internal/event"
	"sluice/shm-abi/shmabi"
)

// told is what a sender that waits gets.
func told(t testing.TB, p *plane, kind shmabi.Reply, code uint16, position uint64) answer {
	t.Helper()
	a := wantOne(t, p.take(1), kind, code, position)
	if a.token>>20 != uint64(a.seq) {
		t.Fatalf("token %d with request %d", a.token>>20, a.seq)
	}
	return a
}

// silent checks that nothing was answered.
func silent(t testing.TB, p *plane) {
	t.Helper()
	if got := p.drain(10); len(got) != 0 {
		t.Fatalf("answered %v", got)
	}
}

func answered(status int, body string) *destination.Answer {
	return &destination.Answer{Status: status, ContentType: "text/xml", Body: []byte(body)}
}

// waitsFor publishes a request of a sender that waits a minute, and waits until it is durable.
func (r *rig) waitsFor(p *plane, from uint32, id string) (position uint64, name event.ID) {
	r.t.Helper()
	at := p.publish(r.within(time.Minute, signed(r.t, from, id, "{}")))
	r.released(p)
	return at, idOf(p, at)
}

// kept waits until so many waits are kept.
func (r *rig) kept(n int) {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("%d waits are kept", n), func() bool {
		s := r.service.waits
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.count == n && (n > 0 || s.bytes == 0)
	})
}

func TestDelivered200MeansDeliveredAndDurable(t *testing.T) {
	t.Run("durable first", func(t *testing.T) {
		r := newRig(t)
		p := r.plane(roomy)
		at, id := r.waitsFor(p, waiting, "evt_1")
		r.concluded(id, first, event.Done, nil)
		silent(t, p)
		r.concluded(id, second, event.Done, nil)
		if a := told(t, p, shmabi.ReplyAccepted, 200, at); a.id != id {
			t.Errorf("answered with %s", a.id)
		}
		if n := r.service.Waiting(); n != 0 {
			t.Errorf("%d wait", n)
		}
	})
	t.Run("concluded before the committer said durable", func(t *testing.T) {
		r := newRig(t)
		p := r.plane(roomy)
		in, out := make(chan bool), make(chan bool)
		r.journal.set(func(j *journal) {
			j.onStore = func(list []stored) {
				for _, s := range list {
					r.concluded(s.id, first, event.Done, nil)
					r.concluded(s.id, second, event.Done, nil)
				}
				in <- true
				<-out
			}
		})
		at := p.publish(r.within(time.Minute, signed(t, waiting, "evt_1", "{}")))
		<-in
		silent(t, p)
		out <- true
		told(t, p, shmabi.ReplyAccepted, 200, at)
		r.released(p)
	})
	t.Run("skipped and dead destinations are through", func(t *testing.T) {
		r := newRig(t)
		p := r.plane(roomy)
		at, id := r.waitsFor(p, waiting, "evt_1")
		r.concluded(id, second, event.Skip, nil)
		r.concluded(id, second, event.Done, nil) // it was through already
		silent(t, p)
		r.concluded(id, first, event.Dead, answered(422, "no"))
		told(t, p, shmabi.ReplyAccepted, 200, at)
	})
	t.Run("nowhere to deliver", func(t *testing.T) {
		r := newRig(t)
		s := source(t, waiting, secretText)
		s.Destinations = nil
		r.service.SetTable(table(t, s))
		p := r.plane(roomy)
		r.journal.hold()
		at := p.publish(signed(t, waiting, "evt_1", "{}"))
		r.journal.inAppend()
		silent(t, p)
		r.journal.release()
		told(t, p, shmabi.ReplyAccepted, 200, at)
	})
}

func TestAHangingDestinationHoldsNoLaneSpace(t *testing.T) {
	r := newRig(t)
	p := r.plane(size{8192, 1 << 16})
	const frames = 200 // many times what the lane holds
	for i := range frames {
		var f shmabi.Frame
		eventually(t, "room for a frame", func() (fits bool) {
			f, fits = p.frame(r.within(time.Minute, signed(t, waiting, fmt.Sprint(i), "{}")))
			return fits
		})
		p.write(f)
		p.show()
	}
	r.released(p)
	silent(t, p)
	if n := r.service.Waiting(); n != frames {
		t.Fatalf("%d wait", n)
	}
	r.pass(time.Minute)
	for _, a := range p.take(frames) {
		if a.kind != shmabi.ReplyQueued || a.code != 202 {
			t.Fatalf("answered %v", a)
		}
	}
}

func TestAFailureThatMayPassIs202AtOnce(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	at, id := r.waitsFor(p, passing, "evt_1")
	r.concluded(id, first, event.Done, answered(200, "<ok/>"))
	r.concluded(id, second, event.Retry, nil)
	if a := told(t, p, shmabi.ReplyQueued, 202, at); a.id != id {
		t.Errorf("answered with %s", a.id)
	}
	r.concluded(id, second, event.Done, nil)
	silent(t, p)
}

func TestTheFirstListedDestinationAnswersTheSender(t *testing.T) {
	type step struct {
		to     uint32
		kind   event.OutcomeKind
		answer *destination.Answer
	}
	large := strings.Repeat("x", 20<<10)
	for name, test := range map[string]struct {
		steps []step
		kind  shmabi.Reply
		code  uint16
		head  string
		body  string
	}{
		"delivered": {[]step{
			{first, event.Done, answered(201, "<a/>")}, {second, event.Done, answered(202, "<b/>")},
		}, shmabi.ReplyInline, 201, "Content-Type: text/xml\r\n", "<a/>"},
		"in any order": {[]step{
			{second, event.Done, nil}, {first, event.Done, answered(200, "<a/>")},
		}, shmabi.ReplyInline, 200, "Content-Type: text/xml\r\n", "<a/>"},
		"empty": {[]step{
			{second, event.Done, nil}, {first, event.Done, &destination.Answer{Status: 204}},
		}, shmabi.ReplyInline, 204, "", ""},
		"refused for good": {[]step{
			{first, event.Dead, answered(422, "no")}, {second, event.Done, nil},
		}, shmabi.ReplyInline, 422, "Content-Type: text/xml\r\n", "no"},
		"the second is refused": {[]step{
			{first, event.Done, answered(200, "yes")}, {second, event.Dead, answered(422, "no")},
		}, shmabi.ReplyInline, 200, "Content-Type: text/xml\r\n", "yes"},
		"no answer": {[]step{
			{first, event.Done, nil}, {second, event.Done, answered(200, "<b/>")},
		}, shmabi.ReplyAccepted, 200, "", ""},
		"dead without an answer": {[]step{
			{first, event.Dead, nil}, {second, event.Done, nil},
		}, shmabi.ReplyAccepted, 200, "", ""},
		"skipped": {[]step{
			{first, event.Skip, nil}, {second, event.Done, answered(200, "<b/>")},
		}, shmabi.ReplyAccepted, 200, "", ""},
		"too large for the ring": {[]step{
			{first, event.Done, answered(200, large)}, {second, event.Done, nil},
		}, shmabi.ReplyAccepted, 200, "", ""},
		"a status that means nothing": {[]step{
			{first, event.Dead, answered(302, "")}, {second, event.Done, nil},
		}, shmabi.ReplyAccepted, 200, "", ""},
		"a content type that breaks its line": {[]step{
			{first, event.Done, &destination.Answer{Status: 200, ContentType: "a/b\r\nSet-Cookie: x=y"}},
			{second, event.Done, nil},
		}, shmabi.ReplyAccepted, 200, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			p := r.plane(size{1 << 16, 1 << 16}) // a reply of at most 16 KiB
			at, id := r.waitsFor(p, passing, "evt_1")
			for i, s := range test.steps {
				r.concluded(id, s.to, s.kind, s.answer)
				if i+1 < len(test.steps) {
					silent(t, p)
				}
			}
			a := told(t, p, test.kind, test.code, at)
			if a.head != test.head || a.body != test.body {
				t.Errorf("head %q, body %q", a.head, a.body)
			}
			r.kept(0)
		})
	}
}

func TestOnlySendersThatGetAnAnswerPassedOnAskForIt(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	_, own := r.waitsFor(p, waiting, "evt_1")
	_, theirs := r.waitsFor(p, passing, "evt_2")
	if r.service.Waits(own) || !r.service.Waits(theirs) || r.service.Waits(event.ID{1}) {
		t.Error("the wrong ones want an answer")
	}
	r.pass(time.Minute)
	p.take(2)
	if r.service.Waits(theirs) {
		t.Error("an answer is wanted that nobody waits for any more")
	}
}

func TestAnAnswerIsNotKeptBeyondTheBound(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	at, id := r.waitsFor(p, passing, "evt_1")
	r.service.waits.mu.Lock()
	r.service.waits.bytes = answerBytesMax
	r.service.waits.mu.Unlock()
	r.concluded(id, first, event.Done, answered(200, "x"))
	r.concluded(id, second, event.Done, nil)
	told(t, p, shmabi.ReplyAccepted, 200, at)
}

func TestWhileABreakerIsNotClosedEveryLevelIs202(t *testing.T) {
	for _, from := range []uint32{atOnce, durably, waiting, passing} {
		t.Run(fmt.Sprint(from), func(t *testing.T) {
			r := newRig(t)
			s := source(t, from, secretText)
			var degraded atomic.Bool
			degraded.Store(true)
			s.Degraded = degraded.Load
			r.table = table(t, s)
			r.service.SetTable(r.table)
			p := r.plane(roomy)
			r.journal.hold()
			at := p.publish(r.within(time.Minute, signed(t, from, "evt_1", "{}")))
			r.journal.inAppend()
			if from != atOnce { // 2xx means durable, degraded or not
				silent(t, p)
				r.journal.release()
			}
			if a := told(t, p, shmabi.ReplyQueued, 202, at); a.id != idOf(p, at) {
				t.Errorf("answered with %s", a.id)
			}
			r.journal.release()
			r.released(p)
			c := r.journal.all()[0].frame.C()
			if c.Flags()&uint8(shmabi.VerdictFlagDegraded) == 0 || c.ReplyCode() != 202 {
				t.Errorf("flags %d, code %d are stored", c.Flags(), c.ReplyCode())
			}
			degraded.Store(false)
			r.released(p)
			next := p.publish(r.within(time.Minute, signed(t, from, "evt_2", "{}")))
			r.released(p)
			r.concluded(idOf(p, next), first, event.Done, nil)
			r.concluded(idOf(p, next), second, event.Done, nil)
			told(t, p, shmabi.ReplyAccepted, 200, next)
		})
	}
}

func TestADegradedVerdictIsTheSameInTheNextLife(t *testing.T) {
	r := newRig(t)
	s := source(t, waiting, secretText)
	s.Degraded = func() bool { return true }
	r.service.SetTable(table(t, s))
	p := r.plane(roomy)
	r.journal.failNext(1 << 30)
	at := p.publish(r.within(time.Minute, signed(t, waiting, "evt_1", "{}")))
	r.verified(p)
	r.stop()
	r.journal.reopen()
	r.start() // no breaker is open in this one
	told(t, p, shmabi.ReplyQueued, 202, at)
}

func TestABreakerThatOpensAnswersWhoWaitsForItsDestination(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	half, id := r.waitsFor(p, waiting, "evt_1")
	r.concluded(id, first, event.Done, nil)
	at, _ := r.waitsFor(p, waiting, "evt_2")
	r.service.Opened(first)
	told(t, p, shmabi.ReplyQueued, 202, at)
	silent(t, p) // the other one has nothing to expect of that destination
	r.service.Opened(second)
	told(t, p, shmabi.ReplyQueued, 202, half)
}

// The breaker opened after the verdict, and whoever was told of it found no wait yet.
func TestABreakerThatOpensBehindTheVerdictIsSeen(t *testing.T) {
	r := newRig(t)
	s := source(t, waiting, secretText)
	asked := 0
	s.Degraded = func() bool { asked++; return asked > 1 }
	r.service.SetTable(table(t, s))
	p := r.plane(roomy)
	at := p.publish(r.within(time.Minute, signed(t, waiting, "evt_1", "{}")))
	told(t, p, shmabi.ReplyQueued, 202, at)
}

func TestTheAnswerLeavesBeforeTheDataPlanes503(t *testing.T) {
	for _, test := range []struct{ budget, ours time.Duration }{
		{time.Second, 980 * time.Millisecond},
		{40 * time.Millisecond, 20 * time.Millisecond},
		{30 * time.Millisecond, 15 * time.Millisecond},
		{2, 1},
	} {
		r := newRig(t)
		p := r.plane(roomy)
		at := p.publish(r.within(test.budget, signed(t, waiting, "evt_1", "{}")))
		r.released(p)
		r.pass(test.ours - 1)
		if ready, left, any := r.service.waits.due(r.now.Load()); ready != nil || !any || left != 1 {
			t.Errorf("budget %v: %v before it is due: %d, %v, %v", test.budget, left, len(ready), left, any)
		}
		r.pass(1)
		told(t, p, shmabi.ReplyQueued, 202, at)
	}
}

func TestASenderThatBeginsToWaitIsAnsweredInTimeByItself(t *testing.T) {
	const soon = 200 * time.Millisecond
	for name, budgets := range map[string][]time.Duration{
		"behind one that waits long": {time.Hour, soon}, "when all others are gone": {soon, soon},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReal(t)
			p := r.plane(roomy)
			for i, budget := range budgets {
				q := signed(t, waiting, fmt.Sprint(i), "{}")
				q.until = bootNS() + uint64(budget)
				at := p.publish(q)
				if budget == soon { // nobody but the clock says so
					told(t, p, shmabi.ReplyQueued, 202, at)
				}
				eventually(t, "the timer is set", func() bool {
					return len(r.service.waits.changed) == 0 && p.consume() == p.commit
				})
			}
		})
	}
}

func TestABudgetThatEndsBeforeTheFrameIsDurableIs202BehindTheSync(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	r.journal.hold()
	at := p.publish(r.within(time.Second, signed(t, waiting, "evt_1", "{}")))
	r.journal.inAppend()
	r.pass(time.Hour)
	eventually(t, "nobody waits", func() bool { return r.service.Waiting() == 0 })
	silent(t, p)
	r.journal.release()
	told(t, p, shmabi.ReplyQueued, 202, at)
}

func TestWithoutABudgetOrRoomToWaitItIs202(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	at := p.publish(signed(t, waiting, "evt_1", "{}")) // not known
	told(t, p, shmabi.ReplyQueued, 202, at)
	at = p.publish(r.within(0, signed(t, waiting, "evt_2", "{}")))
	told(t, p, shmabi.ReplyQueued, 202, at)
	r.service.waits.mu.Lock()
	r.service.waits.count = waitsMax
	r.service.waits.mu.Unlock()
	at = p.publish(r.within(time.Minute, signed(t, waiting, "evt_3", "{}")))
	told(t, p, shmabi.ReplyQueued, 202, at)
	r.released(p)
}

func TestADuplicateAtDeliveredIs200OnlyWhenTheFirstWasDelivered(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	_, id := r.waitsFor(p, waiting, "evt_1")
	again := func(kind shmabi.Reply, code uint16) {
		t.Helper()
		at := p.publish(r.within(time.Minute, signed(t, waiting, "evt_1", "{}")))
		if a := told(t, p, kind, code, at); a.id != id {
			t.Errorf("answered with %s, not %s", a.id, id)
		}
		if r.storedAt(p, at) {
			t.Error("the duplicate is stored")
		}
	}
	again(shmabi.ReplyQueued, 202) // the first is under way
	r.journal.set(func(j *journal) {
		if j.looks != 0 {
			t.Errorf("the store was asked %d times for what intake knows", j.looks)
		}
	})
	for _, state := range []event.State{event.Pending, event.Retrying, event.DeadLetter} {
		r.concluded(id, first, event.Retry, nil)
		r.journal.set(func(j *journal) { j.states[id] = state })
		p.drain(1)
		again(shmabi.ReplyQueued, 202)
	}
	r.journal.set(func(j *journal) { j.states[id] = event.Delivered })
	again(shmabi.ReplyDuplicate, 200)
	r.journal.set(func(j *journal) { delete(j.states, id) })
	again(shmabi.ReplyQueued, 202)
	forgery := p.publish(forged(t, waiting, "evt_1", "{}"))
	told(t, p, shmabi.ReplyRefused, 401, forgery)
}

func TestADuplicateThatTheApplierFindsIsAnsweredByItsFirst(t *testing.T) {
	for state, want := range map[event.State]struct {
		kind shmabi.Reply
		code uint16
	}{
		event.Delivered: {shmabi.ReplyDuplicate, 200},
		event.Pending:   {shmabi.ReplyQueued, 202},
	} {
		r := newRig(t)
		p := r.plane(roomy)
		original := event.ID{1, 2, 3}
		r.journal.set(func(j *journal) { j.states[original] = state })
		at, id := r.waitsFor(p, waiting, "evt_1")
		r.service.Repeated(id, original)
		r.service.Repeated(id, original)
		if a := told(t, p, want.kind, want.code, at); a.id != original {
			t.Errorf("answered with %s", a.id)
		}
		r.service.Repeated(event.ID{9}, original) // nobody waits
	}
}

func TestAnswersOfDeliveriesWaitForRoomInTheReplyRing(t *testing.T) {
	r := newRig(t)
	p := r.plane(narrow)
	var ids []event.ID
	const waits = 30
	for i := range waits {
		_, id := r.waitsFor(p, passing, fmt.Sprint(i))
		ids = append(ids, id)
	}
	fillReplies(t, r, p)
	for i, id := range ids {
		r.concluded(id, second, event.Done, nil)
		r.concluded(id, first, event.Done, answered(200, fmt.Sprint("answer ", i)))
	}
	eventually(t, "asleep with the wish for room", func() bool {
		return p.load(shmabi.LaneHeaderCPTicketOffset)&3 == 3
	})
	got := p.take(64 + waits)[64:]
	for i, a := range got {
		if a.kind != shmabi.ReplyInline || a.body != fmt.Sprint("answer ", i) {
			t.Errorf("%d: %v", i, a)
		}
	}
	r.kept(0)
}

func TestWhoWaitsAtADeadDataPlaneIsForgotten(t *testing.T) {
	r := newRig(t)
	p, q := r.plane(roomy), r.plane(roomy)
	_, id := r.waitsFor(p, waiting, "evt_1")
	// One whose frame is not durable when the data plane dies.
	r.journal.hold()
	p.publish(r.within(time.Minute, signed(t, waiting, "evt_2", "{}")))
	r.journal.inAppend()
	r.kill(p)
	eventually(t, "known as an orphan", func() bool { return r.service.Lanes()[0].Orphan })
	r.pass(2 * time.Minute)
	eventually(t, "both decided", func() bool { return r.service.Waiting() == 0 })
	r.concluded(id, first, event.Done, nil)
	r.journal.release()
	r.ended(p)
	r.kept(0)
	if len(r.journal.all()) != 2 {
		t.Errorf("%d stored", len(r.journal.all()))
	}
	at, id := r.waitsFor(q, waiting, "evt_3")
	r.concluded(id, second, event.Retry, nil)
	told(t, q, shmabi.ReplyQueued, 202, at)
}

func TestWhoWaitsAtALaneThatEndedIsForgotten(t *testing.T) {
	r := newRig(t)
	p := r.plane(narrow)
	_, open := r.waitsFor(p, waiting, "evt_1")
	_, decided := r.waitsFor(p, waiting, "evt_2")
	fillReplies(t, r, p)
	r.concluded(decided, first, event.Retry, nil) // there is no room for its answer
	f := r.service.feedList()[0]
	p.close()
	f.nudge()
	r.ended(p)
	r.kept(1)
	r.concluded(open, first, event.Retry, nil)
	r.kept(0)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken != nil {
		t.Errorf("memory that is gone was written: %v", f.broken)
	}
}
