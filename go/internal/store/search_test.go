package store

import (
	"context"
	"fmt"
	"testing"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/store/index"
	"sluice/shm-abi/shmabi"
)

// looked gives what a search found, and how many rows of the index it read for it.
func (b *bench) looked(f Filter) (found []Event, rows uint64) {
	b.t.Helper()
	b.must(b.seen())
	before := b.index.RowsRead()
	page, err := b.Events(f)
	b.must(err)
	return page.Items, b.index.RowsRead() - before
}

// TestASearchReadsWhatItFinds has many common events and a few rare ones, and looks for these in
// every way there is.
func TestASearchReadsWhatItFinds(t *testing.T) {
	const groups, size = 400, 50
	// A chunk is 16 groups: a rare event is found by going through those of its chunk, by its mark
	// and its own row where it has one.
	const rowsMax = 3 * 16 * size
	b := newBench(t, func(o *Options) { o.Describe = describe; o.SegmentBytes = 8 << 20 })
	rare := map[int]request{
		37:  {source: 2, route: 2, body: "to the archive"},
		211: {source: 1, route: 1, body: "of type Z"},
		302: {source: 3, route: 3, body: "of a quiet source"},
	}
	ids := map[int]event.ID{}
	began := b.clock.Now()
	for n := range groups {
		var list []request
		for i := range size {
			list = append(list, request{source: 1, route: 1, body: fmt.Sprintf("common-%d-%d", n, i)})
		}
		if r, ok := rare[n]; ok {
			list[size/2] = r
		}
		ids[n] = b.append(list...)[size/2]
		b.clock.advance(time.Minute)
		for i, d := range b.lease(1) {
			kind := event.Done
			if n == 100 && i == 7 {
				kind = event.Dead
			}
			if n > 150 && n < 350 {
				kind = event.Retry
			}
			b.Finish(b.outcome(d, kind, 1000*time.Hour))
		}
	}
	b.put()
	at := func(n int) time.Time { return began.Add(time.Duration(n) * time.Minute) }
	for what, c := range map[string]struct {
		f     Filter
		want  event.ID
		count int
	}{
		"id":                             {Filter{ID: ids[250]}, ids[250], 1},
		"destination":                    {Filter{Destination: 2}, ids[37], 1},
		"type":                           {Filter{Type: "Z"}, ids[211], 1},
		"source":                         {Filter{Source: 3}, ids[302], 1},
		"sender's id":                    {Filter{ProviderID: "common-250-25"}, ids[250], 1},
		"no such id":                     {Filter{ProviderID: "common-250-250"}, event.ID{}, 0},
		"no such type":                   {Filter{Type: "none"}, event.ID{}, 0},
		"minute":                         {Filter{Since: at(50), Until: at(50).Add(1)}, event.ID{}, size},
		"old page":                       {Filter{Until: at(60), Limit: 10}, event.ID{}, 10},
		"state":                          {Filter{State: event.Pending, Destination: 2}, ids[37], 1},
		"dead":                           {Filter{State: event.DeadLetter}, event.ID{}, 1},
		"source and destination":         {Filter{Source: 2, Destination: 1}, ids[37], 1},
		"source and others' destination": {Filter{Source: 3, Destination: 1}, event.ID{}, 0},
		"type and state":                 {Filter{Type: "Z", State: event.Retrying}, ids[211], 1},
		"state, elsewhere":               {Filter{State: event.DeadLetter, Source: 3}, event.ID{}, 0},
	} {
		t.Run(what, func(t *testing.T) {
			found, rows := b.looked(c.f)
			t.Logf("%d rows read for %d of %d events", rows, len(found), groups*size)
			if len(found) != c.count || !c.want.IsZero() && found[0].ID != c.want {
				t.Errorf("found %+v", found)
			}
			if rows > rowsMax {
				t.Errorf("%d rows read, want %d at the most", rows, rowsMax)
			}
		})
	}
	before := b.index.RowsRead()
	page, err := b.DeadLetters(Filter{Destination: 1, Type: "7"})
	b.must(err)
	if rows := b.index.RowsRead() - before; len(page.Items) != 1 || rows > 20 {
		t.Errorf("%d rows read for the dead letters %+v", rows, page.Items)
	}
}

// TestWhatCameLateIsFoundByItsTime has the clock go back, and a frame that waited in its lane.
func TestWhatCameLateIsFoundByItsTime(t *testing.T) {
	b := newBench(t, func(o *Options) { o.Describe = describe })
	began := b.clock.Now()
	for n := range 200 {
		b.clock.set(time.Minute)
		b.take(plain(fmt.Sprint(n)))
		if n == 150 {
			b.take(request{source: 1, route: 1, body: "late", received: began.Add(30 * time.Minute)})
		}
		if n == 170 {
			b.clock.set(-time.Hour) // 20 that follow came before, by this clock
		}
	}
	f := Filter{Since: began.Add(25 * time.Minute), Until: began.Add(32 * time.Minute)}
	found, _ := b.looked(f)
	var names []string
	for _, e := range found {
		names = append(names, e.ProviderID)
	}
	if want := "[late 30 29 28 27 26 25 24]"; fmt.Sprint(names) != want {
		t.Errorf("found %v, want %v", names, want)
	}
	f = Filter{Since: began.Add(112 * time.Minute), Until: began.Add(114 * time.Minute), Limit: 3}
	var got []string
	for {
		page, err := b.Events(f)
		b.must(err)
		for _, e := range page.Items {
			got = append(got, e.ProviderID)
		}
		if f.Before = page.Next; f.Before == (Cursor{}) {
			break
		}
	}
	if want := "[172 171 112 111]"; fmt.Sprint(got) != want {
		t.Errorf("found %v, want %v", got, want)
	}
}

// TestTypesBeyondTheBoundAreFound gives more types than have numbers of their own.
func TestTypesBeyondTheBoundAreFound(t *testing.T) {
	b := newBench(t, func(o *Options) {
		o.Describe = func(_ string, f shmabi.Frame, use func(id, kind []byte)) {
			e, err := f.Event()
			if err == nil {
				use(nil, e.Body())
			}
		}
	})
	quiet := func(body string) request { return request{source: 3, route: 3, body: body} }
	long := fmt.Sprintf("%0200d", 7)
	b.take(quiet("a"), quiet(long))
	b.mu.Lock()
	for n := range 5000 {
		b.index.TypeNumber(fmt.Appendf(nil, "type %d", n))
	}
	b.mu.Unlock()
	b.take(quiet("one more"), quiet("another"))
	b.restart()
	for _, name := range []string{"a", long, "one more", "another"} {
		found, _ := b.looked(Filter{Type: name})
		if len(found) != 1 || found[0].Type != name {
			t.Errorf("type %.10q: found %+v", name, found)
		}
	}
	if found, _ := b.looked(Filter{Type: "type 4999"}); len(found) != 0 {
		t.Errorf("found %+v", found)
	}
}

// TestASearchSurvivesARebuild loses the index.
func TestASearchSurvivesARebuild(t *testing.T) {
	b := newBench(t, func(o *Options) { o.Describe = describe })
	id := b.take(plain("findme-x"), plain("other-y"))[0]
	b.must(b.Store.Close())
	b.must(index.Remove(b.xfs, "data/index"))
	b.open()
	for _, f := range []Filter{{ProviderID: "findme-x"}, {Type: "x"}, {Destination: 1, Type: "x"}} {
		if found, _ := b.looked(f); len(found) != 1 || found[0].ID != id {
			t.Errorf("%+v found %+v", f, found)
		}
	}
	n, err := b.ReplayEvents(context.Background(), Filter{Type: "x"}, Replay{To: 3, By: "tester"})
	if n != 1 || err != nil {
		t.Errorf("replayed %d, %v", n, err)
	}
	if found, rows := b.looked(Filter{Destination: 3}); len(found) != 1 || found[0].ID != id {
		t.Errorf("found %+v in %d rows where it was replayed to", found, rows)
	}
}
