package ingest

import (
	"fmt"
	"testing"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/store"
	"sluice/shm-abi/shmabi"
)

// pending is what the journal would tell of a stored frame in the next life.
func pending(s stored, states ...event.State) Pending {
	d := s.frame.D()
	p := Pending{
		ID: s.id, Source: d.SourceID(), Token: d.Token(), Seq: d.Seq(), Position: d.Position(),
		ReceivedNS: d.ReceivedNS(), UntilNS: d.UntilNS(),
	}
	for i, state := range states {
		p.Destinations = append(p.Destinations,
			store.DeliveryState{Destination: first + uint32(i), State: state})
	}
	return p
}

func TestARestartStillAnswersDelivered(t *testing.T) {
	for name, test := range map[string]struct {
		from   uint32
		states [2]event.State
		then   []event.OutcomeKind // of what was pending
		kind   shmabi.Reply
		code   uint16
	}{
		"delivered before": {from: waiting, states: [2]event.State{event.Delivered, event.Delivered},
			kind: shmabi.ReplyAccepted, code: 200},
		"its answer is gone": {from: passing, states: [2]event.State{event.Delivered, event.Delivered},
			kind: shmabi.ReplyAccepted, code: 200},
		"dead before": {from: waiting, states: [2]event.State{event.DeadLetter, event.Delivered},
			kind: shmabi.ReplyAccepted, code: 200},
		"failed before": {from: waiting, states: [2]event.State{event.Pending, event.Retrying},
			kind: shmabi.ReplyQueued, code: 202},
		"delivered since": {from: waiting, states: [2]event.State{event.Pending, event.Delivered},
			then: []event.OutcomeKind{event.Done}, kind: shmabi.ReplyAccepted, code: 200},
		"answered since": {from: passing, states: [2]event.State{event.Pending, event.Pending},
			then: []event.OutcomeKind{event.Done, event.Done}, kind: shmabi.ReplyInline, code: 201},
		"failed since": {from: waiting, states: [2]event.State{event.Pending, event.Delivered},
			then: []event.OutcomeKind{event.Retry}, kind: shmabi.ReplyQueued, code: 202},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			p := r.plane(roomy)
			at, id := r.waitsFor(p, test.from, "evt_1")
			r.restart()
			r.service.Resume([]Pending{pending(r.journal.all()[0], test.states[:]...)})
			for i, kind := range test.then {
				silent(t, p)
				r.concluded(id, first+uint32(i), kind, answered(201, "<ok/>"))
			}
			if a := told(t, p, test.kind, test.code, at); a.id != id && a.kind != shmabi.ReplyInline {
				t.Errorf("answered with %s", a.id)
			}
			r.kept(0)
		})
	}
}

func TestARestartWithTheFrameStillInTheLaneAnswersIt(t *testing.T) {
	for name, durable := range map[string]bool{"durable": true, "not durable": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			p := r.plane(narrow)
			fillReplies(t, r, p)
			ring := p.publish(signed(t, atOnce, "evt_1", "{}")) // keeps its room, and what is behind it
			if !durable {
				r.journal.failNext(1 << 30)
			}
			at := p.publish(r.within(time.Minute, signed(t, passing, "evt_2", "{}")))
			r.verified(p)
			if durable {
				eventually(t, "both stored", func() bool { return len(r.journal.all()) == 2 })
			}
			r.stop()
			r.journal.reopen()
			r.start()
			if durable {
				r.service.Resume([]Pending{pending(r.journal.all()[1], event.Pending, event.Delivered)})
			} else {
				eventually(t, "stored", func() bool { return r.storedAt(p, at) })
				r.concluded(idOf(p, at), second, event.Done, nil)
			}
			wantOne(t, p.take(65)[64:], shmabi.ReplyAccepted, 200, ring)
			r.released(p)
			silent(t, p)
			r.concluded(idOf(p, at), first, event.Done, answered(200, "<ok/>"))
			if a := told(t, p, shmabi.ReplyInline, 200, at); a.body != "<ok/>" {
				t.Errorf("body %q", a.body)
			}
		})
	}
}

func TestAFrameWhoseRouteIsGoneIs202InTheNextLife(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	r.journal.failNext(1 << 30)
	at := p.publish(r.within(time.Minute, signed(t, waiting, "evt_1", "{}")))
	r.verified(p)
	r.stop()
	r.journal.reopen()
	s := source(t, waiting, secretText)
	s.Route, s.Destinations = 99, []uint32{second}
	r.table = table(t, s)
	r.start()
	told(t, p, shmabi.ReplyQueued, 202, at)
}

func TestWhatNobodyWaitsForIsNotResumed(t *testing.T) {
	r := newRig(t)
	p, q := r.plane(roomy), r.plane(roomy)
	_, _ = r.waitsFor(p, waiting, "evt_1")
	_, _ = r.waitsFor(q, waiting, "evt_2")
	q.die()
	r.service.Orphaned(q.generation)
	r.ended(q)
	r.restart()
	var list []Pending
	for _, s := range r.journal.all() {
		list = append(list, pending(s, event.Delivered, event.Delivered))
	}
	r.service.Resume(list[1:]) // its lane is gone
	r.pass(time.Hour)
	r.service.Resume(list[:1]) // its data plane has answered 503
	silent(t, p)
	if n := r.service.Waiting(); n != 0 {
		t.Errorf("%d wait", n)
	}
}

func TestARepeatOfAnEarlierLifeIsAnsweredByItsFirst(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	at, _ := r.waitsFor(p, waiting, "evt_1")
	original := event.ID{1, 2, 3}
	r.journal.set(func(j *journal) { j.states[original] = event.Delivered })
	r.restart()
	again := pending(r.journal.all()[0])
	again.First = original
	r.service.Resume([]Pending{again})
	if a := told(t, p, shmabi.ReplyDuplicate, 200, at); a.id != original {
		t.Errorf("answered with %s", a.id)
	}
}

// conclude leases the next delivery of a destination and records what became of it.
func (r *real) conclude(to uint32, kind event.OutcomeKind) event.ID {
	r.t.Helper()
	var leased []store.Delivery
	eventually(r.t, "a delivery", func() bool {
		leased = r.store.Lease(to, 1, time.Now())
		return len(leased) == 1
	})
	d := leased[0]
	r.store.Finish(event.Outcome{
		Seq: d.Seq, Destination: to, Kind: kind, Attempt: d.Attempt, At: time.Now().UnixNano(),
	})
	return d.ID
}

func TestTheJournalKnowsWhoWaits(t *testing.T) {
	r := newReal(t)
	p := r.plane(roomy)
	soon := func(from uint32, id string, budget time.Duration) (uint64, event.ID) {
		q := signed(t, from, id, "{}")
		q.until = bootNS() + uint64(budget)
		at := p.publish(q)
		eventually(t, "its room back", func() bool { return p.consume() == p.commit })
		return at, idOf(p, at)
	}
	done, doneID := soon(waiting, "evt_1", time.Hour)
	for _, to := range []uint32{first, second} {
		if id := r.conclude(to, event.Done); id != doneID {
			t.Fatalf("%s was delivered", id)
		}
	}
	open, openID := soon(passing, "evt_2", time.Hour)
	soon(waiting, "evt_3", time.Nanosecond) // told 202 at once
	soon(durably, "evt_4", time.Hour)
	p.take(2)
	eventually(t, "all in the index", func() bool { return len(r.events()) == 4 })
	r.close()
	r.open()
	list, err := r.service.Unanswered(r.store, time.Since(received).Abs()+time.Hour)
	must(t, err)
	if len(list) != 2 {
		t.Fatalf("%d pending: %v", len(list), list)
	}
	r.service.Resume(list)
	told(t, p, shmabi.ReplyAccepted, 200, done)
	silent(t, p)
	if !r.service.Waits(openID) {
		t.Error("nobody waits for the other one")
	}
	for i, to := range []uint32{second, first} {
		r.service.Concluded(Conclusion{
			ID: openID, Destination: to, Kind: event.Done, Answer: answered(200, fmt.Sprint(i)),
		})
	}
	if a := told(t, p, shmabi.ReplyInline, 200, open); a.body != "1" {
		t.Errorf("body %q", a.body)
	}
	if list, err := r.service.Unanswered(r.store, 0); err != nil || len(list) != 0 {
		t.Errorf("of no budget: %v, %v", list, err)
	}
}
