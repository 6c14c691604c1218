package store

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/go/internal/event"
)

// What a backlog may take while it comes, is opened again and is searched.
const (
	backlogQuick = 30_000     // with -short
	backlogShort = 200_000    // some 60 MB, were its records kept
	backlogLong  = 10_000_000 // with SLUICE_SOAK=1
	// backlogMemoryMax bounds the growth of the process from its first thousand events on; the
	// whole process has 300 MB with the long one. The engine's memtables and cache, the journal's
	// groups and the set of recent keys are most of it.
	backlogMemoryMax = 200 << 20
)

// TestMemoryDoesNotDependOnTheBacklog has nothing delivered at all.
func TestMemoryDoesNotDependOnTheBacklog(t *testing.T) {
	const group = 1000
	events := backlogShort
	switch {
	case os.Getenv("SLUICE_SOAK") == "1":
		events = backlogLong
	case testing.Short():
		events = backlogQuick
	}
	defer debug.SetGCPercent(debug.SetGCPercent(50))
	b := newSoak(t, windowMax)
	b.opt.Describe = describe
	b.must(b.Store.Close())
	b.reopen()
	var first event.ID
	take := func(n int) {
		list := make([]request, group)
		for i := range list {
			list[i] = plain(fmt.Sprint(n*group + i))
		}
		if ids := b.append(list...); n == 0 {
			first = ids[0]
		}
		b.clock.advance(time.Second)
	}
	take(0)
	before, most := b.resident(), int64(0)
	look := func(when string) {
		t.Helper()
		now := b.resident()
		most = max(most, now)
		if now > before+backlogMemoryMax {
			t.Fatalf("%s: %d MiB more than with %d events", when, (now-before)>>20, group)
		}
	}
	for n := 1; n < events/group; n++ {
		take(n)
		if n%20 == 0 {
			look(fmt.Sprintf("with %d events", n*group))
		}
	}
	b.must(b.seen())
	look("at the end")
	began := time.Now()
	b.must(b.Store.Close())
	b.reopen()
	opened := time.Since(began)
	look("opened again")
	if n := b.Stats().Destinations[0].Backlog; n != uint64(events) {
		t.Fatalf("a backlog of %d, want %d", n, events)
	}
	rows := b.index.RowsRead()
	page, err := b.Events(Filter{ProviderID: fmt.Sprint(events / 2)})
	b.must(err)
	if len(page.Items) != 1 || page.Items[0].State != event.Pending {
		t.Errorf("found %+v", page.Items)
	}
	// A row for each commit, of those that an id may be in.
	if n := b.index.RowsRead() - rows; n > uint64(events)/1000 {
		t.Errorf("%d rows read for one event by its sender's id", n)
	}
	if got := b.Lease(1, 1000, b.clock.Now()); len(got) != 1000 || got[0].ID != first {
		t.Errorf("leased %d of %d, want the first ones", len(got), events)
	}
	look("leasing")
	t.Logf("%d pending: %d MiB at the most, %d MiB with %d, closed and opened in %v", events, most>>20,
		before>>20, group, opened)
	b.must(b.Store.Close())
}

// resident is the memory of this process, in bytes.
func (b *bench) resident() int64 {
	b.t.Helper()
	runtime.GC()
	text, err := os.ReadFile("/proc/self/statm")
	b.must(err)
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	b.must(err)
	return pages * int64(os.Getpagesize())
}
