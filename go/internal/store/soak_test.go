package store

import (
	"context"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"
	"time"

	"sluice/go/internal/event"
)

// The down destination's backlog, and what memory may grow by while it does. A record of an event
// takes some 300 bytes there, so that a store which keeps them all is found.
const (
	soakQuick   = 20_000 // with -short
	soakShort   = 50_000
	soakLong    = 1_000_000 // with SLUICE_SOAK=1
	soakHeapMax = 48 << 20
)

// TestADestinationThatIsDownForAnHourHurtsNobody has events come for an hour of virtual time, of
// which one destination takes none and another all.
func TestADestinationThatIsDownForAnHourHurtsNobody(t *testing.T) {
	const group, window = 250, 256
	events := soakShort
	switch {
	case os.Getenv("SLUICE_SOAK") == "1":
		events = soakLong
	case testing.Short():
		events = soakQuick
	}
	b := newSoak(t, window)
	rng := rand.New(rand.NewPCG(1, 2))
	groups := events / group
	pause := time.Hour / time.Duration(groups)
	heap := uint64(0)
	for n := range groups {
		list := make([]request, group)
		for i := range list {
			list[i] = request{source: 2, route: 2, body: "x"}
		}
		b.append(list...)
		if n == groups/5 {
			heap = heapInUse()
		}
		for _, d := range b.Lease(1, group+group/4, b.clock.Now()) {
			backoff := min(time.Hour, 2*time.Second<<min(d.Attempt-1, 12))
			b.Finish(b.outcome(d, event.Retry, 1+time.Duration(rng.Int64N(int64(backoff)))))
		}
		if got := b.lease(2); len(got) != group {
			t.Fatalf("%d deliveries of a healthy destination, want %d", len(got), group)
		} else {
			b.finishAll(got)
		}
		b.clock.advance(pause)
	}
	b.put()
	now := heapInUse()
	t.Logf("%d MiB in use, %d MiB behind a fifth of the backlog", now>>20, heap>>20)
	if now > heap+soakHeapMax {
		t.Errorf("%d MiB in use behind a backlog of %d, %d MiB behind a fifth of it", now>>20, events,
			heap>>20)
	}
	b.boundHeld(3 * window)
	if s := b.Stats().Destinations; s[0].Backlog != uint64(events) || s[1].Backlog != 0 {
		t.Fatalf("destinations %+v", s)
	}
	b.clock.advance(2 * time.Hour)
	left := events
	for left > 0 {
		got := b.Lease(1, 2*group, b.clock.Now())
		if len(got) == 0 {
			t.Fatalf("%d deliveries are left and none is due", left)
		}
		left -= len(got)
		b.finishAll(got)
		b.append()
		b.boundHeld(4*window + 2*group)
	}
	b.put()
	if s := b.Stats().Destinations[0]; s.Backlog != 0 {
		t.Errorf("a backlog of %d is left", s.Backlog)
	}
	b.must(b.Close())
}

// newSoak opens a store on the real file system, so that what is on the disk is not in the heap.
func newSoak(t testing.TB, window int) *bench {
	b := &bench{t: t, clock: &clock{now: time.Now()}, lane: event.LaneID{1}}
	b.opt = Options{
		Dir: t.TempDir(), Now: b.clock.Now, Log: testLog(), LeaseTTL: 1000 * time.Hour,
		seams: seams{window: window, elapsed: b.clock.elapsed},
	}
	b.reopen()
	b.must(b.PutCatalogue(context.Background(), testRoutes))
	return b
}

// reopen is open on the real file system.
func (b *bench) reopen() {
	b.t.Helper()
	s, err := Open(context.Background(), b.opt)
	b.must(err)
	b.Store = s
	b.must(s.Settle(context.Background()))
}

func (b *bench) finishAll(list []Delivery) {
	for _, d := range list {
		b.Finish(b.outcome(d, event.Done, 0))
	}
}

// boundHeld wants no more than count deliveries of destination 1 in memory.
func (b *bench) boundHeld(count int) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queue(1)
	for what, n := range map[string]int{
		"held": len(q.held), "ready": q.ready.Len(), "timed": q.timed.Len(), "leases": len(q.leases),
	} {
		if n > count {
			b.t.Fatalf("%d deliveries are %s, want %d at most", n, what, count)
		}
	}
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}
