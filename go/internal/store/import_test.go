package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/store/vfs"
)

// exported makes what an import takes of an event of another store.
func (b *bench) exported(id event.ID) Imported {
	b.t.Helper()
	d, err := b.Event(id)
	b.must(err)
	p, err := b.Read(d.Seq)
	b.must(err)
	defer p.Release()
	var out Imported
	out.Frame = append(out.Frame, p.Frame()...)
	out.Frame.C().SetRouteVersion(RouteImported)
	for _, to := range d.Destinations {
		out.Outcomes = append(out.Outcomes, event.Outcome{
			Destination: to.Destination, Kind: event.Replay, At: d.Received.UnixNano(), By: "import",
		})
	}
	out.Outcomes = append(out.Outcomes, d.Attempts...)
	return out
}

func TestAnImportedEventGoesOnWhereItStood(t *testing.T) {
	from, to := newBench(t, nil), newBench(t, func(o *Options) { o.Describe = describe })
	from.lane = event.LaneID{9}
	ids := from.take(
		request{source: 2, route: 2, body: "delivered and dead"},
		request{source: 1, route: 1, body: "retrying", key: 5, window: time.Hour},
		request{source: 1, route: 1, body: "pending", order: 3},
		request{source: 1, route: 1, body: "pending behind", order: 3},
		request{source: 3, route: 3, body: "stored"},
	)
	for _, d := range from.lease(1) {
		switch d.ID {
		case ids[0]:
			from.Finish(from.outcome(d, event.Done, 0))
		case ids[1]:
			from.Finish(from.outcome(d, event.Retry, time.Hour))
		}
	}
	for _, d := range from.lease(2) {
		from.Finish(from.outcome(d, event.Dead, 0))
	}
	from.put()
	var list []Imported
	for _, id := range ids {
		list = append(list, from.exported(id))
	}
	ctx := context.Background()
	for n, want := range []ImportResult{{Taken: 5}, {Known: 5}} {
		got, err := to.Import(ctx, append(list, list[0])[:5])
		b := to
		b.must(err)
		if got != want {
			t.Errorf("import %d: %+v, want %+v", n+1, got, want)
		}
		b.restart()
	}
	for _, id := range ids {
		was, err := from.Event(id)
		from.must(err)
		is, err := to.Event(id)
		to.must(err)
		if is.State != was.State || !is.Received.Equal(was.Received) || is.Source != was.Source ||
			len(is.Destinations) != len(was.Destinations) {
			t.Errorf("%s: %+v, want %+v", id, is, was)
		}
		p, err := to.Read(is.Seq)
		to.must(err)
		if p.ID() != id || len(p.Body()) != int(was.Size) {
			t.Errorf("%s: body %q of %s", id, p.Body(), p.ID())
		}
		p.Release()
	}
	// The key is known here too, the order under a key holds, and what was retried is due then.
	repeat := to.take(request{source: 1, route: 1, body: "a repeat", key: 5, window: time.Hour})
	if state := to.state(repeat[0]); state != event.Duplicate {
		t.Errorf("a repeat of an imported event is %s", state)
	}
	got := to.lease(1)
	if len(got) != 1 || got[0].ID != ids[2] {
		t.Errorf("leased %+v, want the head of the key", got)
	}
	to.clock.advance(time.Hour)
	if got := to.lease(1); len(got) != 1 || got[0].ID != ids[1] || got[0].Attempt != 2 {
		t.Errorf("leased %+v, want the second attempt", got)
	}
	if found, _ := to.looked(Filter{ProviderID: "pending"}); len(found) != 1 {
		t.Errorf("found %+v by the sender's id", found)
	}
	if dead, err := to.DeadLetters(Filter{}); err != nil || len(dead.Items) != 1 {
		t.Errorf("dead letters %+v, %v", dead.Items, err)
	}
}

func TestAnImportIsWholeOrNotThere(t *testing.T) {
	from, to := newBench(t, nil), newBench(t, nil)
	from.lane = event.LaneID{9}
	list := []Imported{from.exported(from.take(plain("x"))[0])}
	to.must(to.Store.Close())
	faulty := vfs.NewFaulty(to.fs, time.Now, time.Sleep)
	to.opt.FS, to.opt.indexFS, to.opt.elapsed = faulty, to.xfs, to.clock.elapsed
	s, err := Open(context.Background(), to.opt)
	to.must(err)
	to.Store = s
	to.must(s.Settle(context.Background()))
	to.must(faulty.Set("journal.sync", vfs.Fault{Err: errors.New("EIO")}))
	if got, err := to.Import(context.Background(), list); !errors.Is(err, ErrUnwritable) {
		t.Fatalf("imported %+v, %v", got, err)
	}
	if to.look().Writable {
		t.Error("writable on a disk that takes nothing")
	}
	if page, err := to.Events(Filter{}); err != nil || len(page.Items) != 0 {
		t.Errorf("listed %+v, %v", page.Items, err)
	}
	faulty.Clear("journal.sync")
	<-to.Work() // the store asks for a group by itself, and so is well again
	to.put()
	if !to.look().Writable {
		t.Error("not writable on a disk that is well")
	}
	got, err := to.Import(context.Background(), list)
	if to.must(err); got.Taken != 1 {
		t.Errorf("imported %+v", got)
	}
}

func TestWhatIsNoImportIsRefused(t *testing.T) {
	b := newBench(t, nil)
	e := b.exported(b.take(plain("x"))[0])
	routed := Imported{Frame: append([]byte(nil), e.Frame...)}
	routed.Frame.C().SetRouteVersion(1)
	nameless := Imported{Frame: append([]byte(nil), e.Frame...)}
	nameless.Frame.C().SetEventID([16]byte{})
	many := make([]Imported, ImportMax+1)
	for i := range many {
		many[i] = e
	}
	for what, list := range map[string][]Imported{"route": {routed}, "id": {nameless}, "many": many} {
		if got, err := b.Import(context.Background(), list); !errors.Is(err, ErrImport) {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
	full := smallDisk(t, 8)
	for !full.look().Full {
		full.take(plain(string(make([]byte, 100<<10))))
	}
	if got, err := full.Import(context.Background(), []Imported{e}); !errors.Is(err, ErrFull) {
		t.Errorf("on a full disk: %+v, %v", got, err)
	}
}

// TestImportsSurviveAPowerCut imports, loses power, and imports again until all is there.
func TestImportsSurviveAPowerCut(t *testing.T) {
	for _, seed := range seeds(t)[:2] {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { importUnderPowerCuts(t, seed) })
	}
}

func importUnderPowerCuts(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 11))
	from, to := newBench(t, nil), newBench(t, nil)
	from.lane = event.LaneID{9}
	var list []Imported
	for n := range 40 {
		list = append(list, from.exported(from.take(plain(fmt.Sprint(n)))[0]))
	}
	done := 0
	for done < len(list) {
		part := list[max(done-rng.IntN(4), 0):min(done+1+rng.IntN(5), len(list))]
		got, err := to.Import(context.Background(), part)
		to.must(err)
		done += got.Taken
		if rng.IntN(3) == 0 {
			to.crash(rng, rng.IntN(2) == 0)
		}
	}
	page, err := to.Events(Filter{State: event.Pending})
	to.must(err)
	seen := map[event.ID]int{}
	for _, e := range page.Items {
		seen[e.ID]++
	}
	for i := range list {
		if id := event.ID(list[i].Frame.C().EventID()); seen[id] != 1 {
			t.Errorf("event %d is there %d times", i, seen[id])
		}
	}
	if got := to.lease(1); len(got) != len(list) {
		t.Errorf("%d deliveries are due, want %d", len(got), len(list))
	}
}
