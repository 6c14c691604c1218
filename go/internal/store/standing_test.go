package store

import (
	"encoding/binary"
	"testing"
	"time"

	"sluice/go/internal/event"
	"sluice/shm-abi/shmabi"
)

func TestARepeatWhoseSenderWaitsIsTold(t *testing.T) {
	type told struct {
		repeat
		state event.State
		known bool
	}
	var got []told
	var b *bench
	b = newBench(t, func(o *Options) {
		o.Repeated = func(id, first event.ID) {
			state, known := b.State(first)
			got = append(got, told{repeat{id, first}, state, known})
		}
	})
	take := func(ack shmabi.Ack) event.ID {
		return b.take(request{
			source: 1, route: 1, key: 7, window: time.Hour, ack: ack, body: "x",
		})[0]
	}
	first := take(shmabi.AckDelivered)
	take(shmabi.AckDurable)
	second := take(shmabi.AckDelivered)
	b.end(event.Done, b.lease(1)...)
	third := take(shmabi.AckDelivered)
	b.loseIndex()
	b.restart()
	want := []told{
		{repeat{second, first}, event.Pending, true}, {repeat{third, first}, event.Delivered, true},
	}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("told %+v, want %+v", got, want)
	}
}

func TestStateFollowsAnEvent(t *testing.T) {
	b := newBench(t, nil)
	for _, ack := range []shmabi.Ack{shmabi.AckDelivered, shmabi.AckDurable} {
		id := b.take(request{source: 1, route: 1, ack: ack, body: "x"})[0]
		check := func(want event.State) {
			t.Helper()
			if got, ok := b.State(id); got != want || !ok {
				t.Errorf("%s is %v, %v, want %v", id, got, ok, want)
			}
		}
		for _, step := range []struct {
			kind event.OutcomeKind
			want event.State
		}{
			{event.Retry, event.Retrying}, {event.Dead, event.DeadLetter},
			{event.Replay, event.Pending}, {event.Done, event.Delivered},
		} {
			if step.kind == event.Replay {
				b.replay(Filter{ID: id}, Replay{}, 1)
			} else {
				b.end(step.kind, b.wantLeased("step", id)...)
			}
			b.clock.advance(time.Hour)
			check(step.want)
		}
		b.restart()
		check(event.Delivered)
	}
	if state, ok := b.State(event.ID{1}); ok {
		t.Errorf("an event that never was is %v", state)
	}
}

func TestEventsOfOnePlaceAreNotTakenForEachOther(t *testing.T) {
	var s standings
	var a, b event.ID
	a[0], b[0] = 1, 2
	binary.LittleEndian.PutUint64(b[8:], standingsMax)
	s.move(a, event.Delivered)
	if _, ok := s.get(a); ok || s.list != nil {
		t.Error("something is remembered of nothing")
	}
	s.put(a, event.Pending)
	s.put(b, event.Pending) // takes a's place
	s.move(a, event.Delivered)
	if _, ok := s.get(a); ok {
		t.Error("a is known still")
	}
	if state, ok := s.get(b); state != event.Pending || !ok {
		t.Errorf("b is %v, %v", state, ok)
	}
}
