package store

import (
	"testing"
	"time"

	"sluice/go/internal/event"
)

func TestLeasesDoNotCareWhatTheWallClockDoes(t *testing.T) {
	const ttl = 15 * time.Minute
	b := newBench(t, func(o *Options) { o.LeaseTTL = ttl })
	ids := b.take(plain("lost"), plain("done"))
	got := b.wantLeased("first", ids...)
	b.clock.set(5 * time.Hour)
	b.wantLeased("set forward")
	b.clock.advance(ttl / 2)
	b.clock.set(-12 * time.Hour)
	b.wantLeased("set back")
	if due, ok := b.NextDue(1); !ok || due.Sub(b.clock.Now()) != ttl/2 {
		t.Errorf("a lease ends in %v, %v, want %v", due.Sub(b.clock.Now()), ok, ttl/2)
	}
	b.end(event.Done, got[1])
	b.clock.advance(ttl/2 - 1)
	b.wantLeased("a moment before the end")
	b.clock.advance(1)
	b.wantLeased("of the worker that died", ids[0])
	b.clock.set(12 * time.Hour)
	b.wantLeased("one duplicate at most")
}

func TestALateWorkerEndsNobodyElsesLease(t *testing.T) {
	b := newBench(t, func(o *Options) { o.LeaseTTL = time.Minute })
	id := b.take(plain("x"))[0]
	late := b.wantLeased("first", id)
	b.clock.advance(time.Minute)
	b.clock.set(-time.Minute) // both leases end at the same time of the wall clock
	b.wantLeased("again", id)
	b.Unlease(late[0])
	b.wantLeased("while the second has it")
}

func TestAHangingWorkerKeepsNothingElseInMemory(t *testing.T) {
	const window, rounds = 16, 400
	b := newBench(t, func(o *Options) { o.window, o.LeaseTTL = window, time.Hour })
	b.take(plain("hangs"))
	b.lease(1)
	for range rounds {
		b.take(plain("a"), plain("b"), plain("c"))
		b.end(event.Done, b.lease(1)...)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.queue(1).leases); n > 2*window {
		t.Errorf("%d leases are remembered, one is out", n)
	}
}

func TestARetryThatMemoryHasNoRoomForComesBack(t *testing.T) {
	b := newBench(t, func(o *Options) { o.LeaseTTL = time.Minute })
	ids := b.take(plain("x"), plain("hangs"))
	list := b.wantLeased("first", ids...)
	b.Finish(b.outcome(list[0], event.Retry, time.Hour))
	b.clock.advance(time.Minute)
	b.wantLeased("the second's lease is over, the first is on its way", ids[1])
	for i := range deferredMax {
		b.deferred[deliveryID{event.NewSeq(1<<40, i), 9}] = event.Outcome{}
	}
	b.deferRetries()
	b.wantLeased("deferred")
	b.clock.advance(time.Minute)
	b.wantLeased("at the end of its lease", ids...)
}

func TestWhatIsDueInTheRowsDoesNotWaitForRetriesInMemory(t *testing.T) {
	b := newBench(t, func(o *Options) { o.window = 4 })
	list := make([]request, 20)
	for i := range list {
		list[i] = plain("x")
	}
	b.take(list...)
	var all []Delivery
	for len(all) < len(list) {
		all = append(all, b.lease(1)...)
	}
	for _, d := range all[:12] {
		b.Finish(b.outcome(d, event.Retry, time.Hour))
	}
	b.put()
	for _, d := range all[12:] {
		b.Finish(b.outcome(d, event.Retry, 2*time.Hour))
	}
	b.deferRetries()
	b.clock.advance(time.Hour)
	due := 0
	for got := b.lease(1); len(got) > 0; got = b.lease(1) {
		due += len(got)
	}
	if due != 12 {
		t.Errorf("%d retries were leased, 12 are due", due)
	}
}
