package store

import (
	"context"
	"math"
	"testing"
	"time"

	"sluice/go/internal/event"
)

func (b *bench) replay(f Filter, r Replay, want int) {
	b.t.Helper()
	if n, err := b.ReplayEvents(context.Background(), f, r); n != want || err != nil {
		b.t.Fatalf("replay of %d, %v, want %d", n, err, want)
	}
}

func TestAReplayMakesADeliveryWhereTheEventNeverWent(t *testing.T) {
	b := newBench(t, nil)
	stored := func(body string) request { return request{source: 3, route: 3, order: 7, body: body} }
	ids := b.take(stored("a"), stored("b"))
	b.replay(Filter{Source: 3}, Replay{To: 1, By: "op"}, 2)
	if s := b.Stats().Destinations; len(s) != 1 || s[0].Backlog != 2 || b.Space().Living != 2 {
		t.Errorf("destinations %+v", s)
	}
	b.replay(Filter{Source: 3}, Replay{To: 1, By: "op"}, 0) // they wait already
	b.loseIndex()
	b.end(event.Done, b.wantLeased("the first of the key", ids[0])...)
	b.restart()
	b.end(event.Done, b.wantLeased("the second", ids[1])...)
	d, err := b.Event(ids[0])
	b.must(err)
	if len(d.Attempts) != 2 || d.Attempts[0].Kind != event.Replay || d.Attempts[0].By != "op" ||
		d.Attempts[1].Kind != event.Done || d.State != event.Delivered {
		t.Errorf("history %+v", d.Attempts)
	}
	b.replay(Filter{Source: 3}, Replay{By: "op"}, 2) // now it is where they went
}

func TestAReplayKeepsTheOrderOfItsKey(t *testing.T) {
	b := newBench(t, nil)
	var ids []event.ID
	for range 5 {
		ids = append(ids, b.take(ordered(5, "x"))...)
		b.end(event.Done, b.lease(1)...)
	}
	named := []event.ID{ids[4], ids[1], ids[3], ids[1]}
	for _, step := range []struct {
		replay Replay
		want   []event.ID
	}{{Replay{}, ids}, {Replay{IDs: named}, []event.ID{ids[1], ids[3], ids[4]}}} {
		b.replay(Filter{}, step.replay, len(step.want))
		for _, id := range step.want {
			b.end(event.Done, b.wantLeased("replayed", id)...)
		}
	}
}

func TestAReplaySpreadsItsDeliveries(t *testing.T) {
	const events = operatePage + 50
	b := newBench(t, nil)
	list := make([]request, events)
	for i := range list {
		list[i] = plain("x")
	}
	b.take(list...)
	for got := b.lease(1); len(got) > 0; got = b.lease(1) {
		b.end(event.Done, got...)
	}
	began := b.clock.Now()
	b.replay(Filter{}, Replay{Rate: 4}, events)
	page, err := b.Events(Filter{})
	b.must(err)
	for i := range page.Items {
		e := &page.Items[events-1-i] // the oldest is due first
		want := began.Add(time.Duration(i) * time.Second / 4)
		if due := e.Destinations[0].Next; !due.Equal(want) {
			t.Fatalf("event %d is due at %v, want %v", i, due, want)
		}
	}
	for step := range 8 {
		if n := len(b.lease(1)); n != 1 {
			t.Fatalf("%d deliveries are due at step %d", n, step)
		}
		b.clock.advance(time.Second / 4)
	}
}

func TestDeadLettersReplayedElsewhereStayDead(t *testing.T) {
	b := newBench(t, nil)
	ids := b.take(request{source: 2, route: 2, body: "x"}, plain("y"))
	for dest := range uint32(2) {
		b.end(event.Dead, b.lease(dest+1)...)
	}
	n, err := b.ReplayDead(context.Background(), Filter{}, Replay{To: 3, By: "op"})
	if n != 2 || err != nil {
		t.Fatalf("%d deliveries of two events with three dead letters, %v", n, err)
	}
	page, err := b.DeadLetters(Filter{})
	b.must(err)
	if got := idsOf(b.lease(3)); len(page.Items) != 3 || len(got) != 2 || got[0] != ids[0] {
		t.Errorf("%d dead letters, leased %v", len(page.Items), got)
	}
}

func TestAReplayThatCannotBeIsRefused(t *testing.T) {
	b := newBench(t, nil)
	b.take(plain("x"))
	for _, r := range []Replay{
		{To: 99}, {Rate: -1}, {Rate: math.NaN()}, {Rate: math.Inf(1)}, {Rate: RateMin / 2},
	} {
		if n, err := b.ReplayEvents(context.Background(), Filter{}, r); n != 0 || err == nil {
			t.Errorf("%+v of events is taken", r)
		}
		if n, err := b.ReplayDead(context.Background(), Filter{}, r); n != 0 || err == nil {
			t.Errorf("%+v of dead letters is taken", r)
		}
	}
}

func TestACommandForgetsNothingBetweenItsPages(t *testing.T) {
	b := newBench(t, nil)
	list := []request{plain("x")} // so that a page ends between two dead letters of one event
	for range operatePage / 2 {
		list = append(list, request{source: 2, route: 2, body: "x"})
	}
	b.take(list...)
	for dest := range uint32(2) {
		for got := b.lease(dest + 1); len(got) > 0; got = b.lease(dest + 1) {
			b.end(event.Dead, got...)
		}
	}
	n, err := b.DropDead(context.Background(), Filter{}, "hopeless", "op")
	if n != operatePage+1 || err != nil {
		t.Errorf("drop of %d, %v, want %d", n, err, operatePage+1)
	}
	if page, err := b.DeadLetters(Filter{}); len(page.Items) != 0 || err != nil {
		t.Errorf("%d dead letters are left, %v", len(page.Items), err)
	}
}

func TestAReplaySinceATimeFindsWhatCameThen(t *testing.T) {
	b := newBench(t, nil)
	at := b.clock.Now()
	var list []request
	for i := range 9 {
		list = append(list, request{
			source: 1, route: 1, body: "x", received: at.Add(time.Duration(i) * time.Second),
		})
	}
	for i := range 3 {
		b.take(list[3*i : 3*i+3]...)
		b.end(event.Done, b.lease(1)...)
	}
	for i := range 9 {
		f := Filter{Since: list[i].received}
		b.replay(f, Replay{}, 9-i)
		b.end(event.Done, b.lease(1)...)
	}
}
