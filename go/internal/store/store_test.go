package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/store/index"
	"sluice/go/internal/store/vfs"
)

func plain(body string) request { return request{source: 1, route: 1, body: body} }

func TestAnAppendedEventIsLeasedReadAndListed(t *testing.T) {
	b := newBench(t, func(o *Options) { o.Describe = describe })
	id := b.take(plain("hello"))[0]
	got := b.lease(1)
	if len(got) != 1 || got[0].ID != id || got[0].Attempt != 1 {
		t.Fatalf("leased %+v, want %s", got, id)
	}
	p, err := b.Read(got[0].Seq)
	b.must(err)
	if string(p.Body()) != "hello" || string(p.Method()) != "POST" || p.ID() != id ||
		string(p.Target()) != "/hooks/one" || !p.Received().Equal(b.clock.Now()) {
		t.Errorf("read %s %s %q of %s", p.Method(), p.Target(), p.Body(), p.ID())
	}
	p.Release()
	page, err := b.Events(Filter{ProviderID: "hello"})
	b.must(err)
	if len(page.Items) != 1 || page.Items[0].ProviderID != "hello" || page.Items[0].Size != 5 {
		t.Errorf("listed %+v", page.Items)
	}
	if page, err := b.Events(Filter{ProviderID: "other"}); err != nil || len(page.Items) != 0 {
		t.Errorf("listed %+v, %v for another provider id", page.Items, err)
	}
	b.Finish(b.outcome(got[0], event.Done, 0))
	select {
	case <-b.Work():
	default:
		t.Error("an outcome waits and Work is silent")
	}
	if again := b.lease(1); len(again) != 0 {
		t.Errorf("leased again before the outcome was durable: %+v", again)
	}
	b.put()
	if state := b.state(id); state != event.Delivered {
		t.Errorf("state %s after delivery", state)
	}
}

func TestTheFirstCopyWins(t *testing.T) {
	b := newBench(t, nil)
	window := 24 * time.Hour
	copyOf := request{source: 1, route: 1, key: 7, window: window, body: "same"}
	ids := b.take(copyOf, copyOf) // two lanes, one group: neither saw the other
	late := b.take(copyOf)[0]     // judged before the first was durable, appended behind it
	for _, id := range []event.ID{ids[1], late} {
		d, err := b.Event(id)
		b.must(err)
		if d.State != event.Duplicate || d.First != ids[0] || len(d.Destinations) != 0 {
			t.Errorf("copy is %s of %s with %d deliveries", d.State, d.First, len(d.Destinations))
		}
	}
	if got := b.lease(1); len(got) != 1 || got[0].ID != ids[0] {
		t.Errorf("leased %+v, want %s alone", got, ids[0])
	}
	key := [16]byte{7, 0xff}
	if id, ok := b.Known(1, key, b.clock.Now().UnixNano()); !ok || id != ids[0] {
		t.Errorf("Known says %s, %v", id, ok)
	}
	if _, ok := b.Known(2, key, b.clock.Now().UnixNano()); ok {
		t.Error("Known mixes sources up")
	}
	if _, ok := b.Known(1, key, b.clock.Now().Add(window).UnixNano()); ok {
		t.Error("Known outlives the window")
	}
	b.restart()
	if d := b.take(copyOf)[0]; b.state(d) != event.Duplicate {
		t.Error("a restart forgot the key")
	}
	b.clock.advance(window)
	if d := b.take(copyOf)[0]; b.state(d) != event.Pending {
		t.Error("the window did not end")
	}
	stats := b.Stats().Sources[0]
	if stats.Accepted != 2 || stats.Duplicates != 3 {
		t.Errorf("counted %+v", stats)
	}
}

func TestKnownAllocatesNothing(t *testing.T) {
	b := newBench(t, nil)
	b.take(request{source: 1, route: 1, key: 7, window: time.Hour, body: "x"})
	at := b.clock.Now().UnixNano()
	if n := testing.AllocsPerRun(100, func() { b.Known(1, [16]byte{7, 0xff}, at) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestALeaseLostInACrashIsGivenAgain(t *testing.T) {
	b := newBench(t, nil)
	rng := rand.New(rand.NewPCG(1, 2))
	id := b.take(plain("x"))[0]
	first := b.lease(1)[0]
	b.Finish(b.outcome(first, event.Retry, time.Minute)) // not durable yet
	b.crash(rng, true)
	again := b.lease(1)
	if len(again) != 1 || again[0].ID != id || again[0].Attempt != 1 {
		t.Fatalf("leased %+v after the crash", again)
	}
	b.Finish(b.outcome(again[0], event.Retry, time.Minute))
	b.put()
	b.crash(rng, false)
	if early := b.lease(1); len(early) != 0 {
		t.Errorf("leased %+v before its time", early)
	}
	due, ok := b.NextDue(1)
	if !ok || !due.Equal(b.clock.Now().Add(time.Minute)) {
		t.Errorf("next due %v, %v", due, ok)
	}
	b.clock.advance(time.Minute)
	if got := b.lease(1); len(got) != 1 || got[0].Attempt != 2 {
		t.Errorf("leased %+v, want attempt 2", got)
	}
}

func TestALeaseEnds(t *testing.T) {
	b := newBench(t, func(o *Options) { o.LeaseTTL = time.Minute })
	b.take(plain("x"), plain("y"))
	lost, given := b.lease(1), b.lease(1)
	if len(lost) != 2 || len(given) != 0 {
		t.Fatalf("leased %d, then %d", len(lost), len(given))
	}
	b.Unlease(lost[1])
	if got := b.lease(1); len(got) != 1 || got[0].Seq != lost[1].Seq {
		t.Fatalf("leased %+v, want what was given back", got)
	}
	b.Finish(b.outcome(lost[1], event.Done, 0)) // on its way when its lease ends
	b.clock.advance(time.Minute)
	if got := b.lease(1); len(got) != 1 || got[0].Seq != lost[0].Seq {
		t.Errorf("leased %+v, want %d alone", got, lost[0].Seq)
	}
}

func TestABlockedKeyBlocksOnlyItself(t *testing.T) {
	b := newBench(t, nil)
	ordered := func(order uint64, body string) request {
		return request{source: 1, route: 1, order: order, body: body}
	}
	ids := b.take(ordered(5, "a"), ordered(5, "b"), ordered(9, "c"), plain("d"), ordered(5, "e"))
	got := b.lease(1)
	if want := []event.ID{ids[0], ids[2], ids[3]}; !slices.Equal(idsOf(got), want) {
		t.Fatalf("leased %v, want %v", idsOf(got), want)
	}
	b.Finish(b.outcome(got[0], event.Retry, time.Hour))
	b.put()
	if more := b.lease(1); len(more) != 0 {
		t.Fatalf("leased %v past a blocked head", idsOf(more))
	}
	b.clock.advance(time.Hour)
	for _, want := range []event.ID{ids[0], ids[1], ids[4]} {
		got := b.lease(1)
		if len(got) != 1 || got[0].ID != want {
			t.Fatalf("leased %v, want %s alone", idsOf(got), want)
		}
		b.Finish(b.outcome(got[0], event.Dead, 0))
		b.put()
	}
}

func idsOf(list []Delivery) (ids []event.ID) {
	for _, d := range list {
		ids = append(ids, d.ID)
	}
	return ids
}

func TestABacklogIsNotInMemory(t *testing.T) {
	const window, groups, size = 32, 40, 100
	b := newBench(t, func(o *Options) { o.window = window })
	for range groups {
		list := make([]request, size)
		for i := range list {
			list[i] = plain("x")
		}
		b.take(list...)
	}
	bound := func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		q := b.queue(1)
		if n := len(q.held) - q.leased; n > 3*window {
			t.Fatalf("%d deliveries in memory, the window is %d", n, window)
		}
	}
	bound()
	var last event.Seq
	retried := map[event.Seq]bool{}
	for n := 0; n < groups*size; {
		got := b.Lease(1, 20, b.clock.Now())
		if len(got) == 0 {
			t.Fatalf("nothing to lease after %d of %d", n, groups*size)
		}
		for _, d := range got {
			if d.Attempt == 1 && d.Seq <= last {
				t.Fatalf("leased %d behind %d", d.Seq, last)
			}
			kind := event.Done
			if d.Attempt == 1 {
				last = d.Seq
				if len(retried) < 20*window {
					retried[d.Seq], kind = true, event.Retry
				}
			}
			if kind == event.Done {
				n++
			}
			b.Finish(b.outcome(d, kind, time.Duration(1+d.Seq%97)*time.Minute))
		}
		b.put()
		bound()
		if n%10 == 0 {
			b.clock.advance(time.Minute)
		}
		if last.Group() >= groups {
			b.clock.advance(time.Hour)
		}
	}
	if s := b.Stats().Destinations[0]; s.Backlog != 0 {
		t.Errorf("backlog of %d is left", s.Backlog)
	}
}

func TestTheIndexIsNeverAheadOfTheJournal(t *testing.T) {
	for seed := range uint64(60) {
		b := newBench(t, nil)
		rng := rand.New(rand.NewPCG(seed, 3))
		var acknowledged []event.ID
		for life := range 3 {
			b.fs.HaltAt(b.fs.Steps() + 1 + rng.IntN(60))
			for range 40 {
				r := plain(fmt.Sprint(life))
				from := b.at
				f := b.frame(r)
				err := b.Append(Batch{
					Spans:  []event.Span{{Lane: b.lane, From: from, To: b.at}},
					Frames: [][]byte{f},
				})
				if err != nil {
					break
				}
				acknowledged = append(acknowledged, event.ID(f.C().EventID()))
				for _, d := range b.lease(1) {
					b.Finish(b.outcome(d, event.Done, 0))
				}
				if rng.IntN(4) == 0 {
					b.must(b.flush(context.Background()))
				}
			}
			b.crash(rng, rng.IntN(2) == 0)
			if r := b.Recovery(); r.IndexRebuilt || len(r.Damage) > 0 {
				t.Fatalf("seed %d: index rebuilt: %v, damage %v", seed, r.IndexRebuilt, r.Damage)
			}
			if s := b.Stats(); s.Applied > s.Durable {
				t.Fatalf("seed %d: index at group %d, journal at %d", seed, s.Applied, s.Durable)
			}
			for _, id := range acknowledged {
				if _, err := b.Event(id); err != nil {
					t.Fatalf("seed %d: acknowledged and lost: %v", seed, err)
				}
			}
		}
		b.must(b.Store.Close())
	}
}

func TestALostIndexIsBuiltAgain(t *testing.T) {
	b := newBench(t, nil)
	for i := range 30 {
		b.take(request{source: 2, route: 2, key: byte(1 + i%20), window: 48 * time.Hour, body: "x"})
		for _, d := range b.lease(1) {
			b.Finish(b.outcome(d, []event.OutcomeKind{event.Done, event.Dead}[i%2], 0))
		}
	}
	b.put()
	before, err := b.Events(Filter{})
	b.must(err)
	dead, err := b.DeadLetters(Filter{})
	b.must(err)
	b.must(b.Store.Close())
	b.must(index.Remove(b.xfs, "data/index"))
	b.open()
	if !b.Recovery().IndexRebuilt {
		t.Error("Recovery does not say that the index was rebuilt")
	}
	after, err := b.Events(Filter{})
	b.must(err)
	same(t, "events", after.Items, before.Items)
	again, err := b.DeadLetters(Filter{})
	b.must(err)
	same(t, "dead letters", again.Items, dead.Items)
}

// onDisk opens a store in a real directory.
func onDisk(t *testing.T, dir string) (*bench, error) {
	t.Helper()
	b := &bench{t: t, clock: &clock{now: time.Now()}, lane: event.LaneID{1}}
	b.opt = Options{Dir: dir, Now: b.clock.Now, Log: testLog(), SegmentBytes: 1 << 20, LockWait: -1}
	s, err := Open(context.Background(), b.opt)
	if err != nil {
		return nil, err
	}
	b.Store = s
	t.Cleanup(func() { _ = s.Close() })
	b.must(b.Settle(context.Background()))
	b.at = s.Recovery().Lanes[b.lane]
	return b, nil
}

func TestASecondStoreOnTheDirectoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	b, err := onDisk(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := onDisk(t, dir); !errors.Is(err, ErrLocked) {
		t.Fatalf("second open: %v", err)
	}
	b.must(b.Store.Close())
	if _, err := onDisk(t, dir); err != nil {
		t.Fatalf("open after close: %v", err)
	}
}

func TestADamagedIndexIsBuiltAgain(t *testing.T) {
	damages := map[string]func(name string, b []byte) []byte{
		"cut":     func(_ string, b []byte) []byte { return b[:len(b)/2] },
		"zeroed":  func(_ string, b []byte) []byte { return make([]byte, len(b)) },
		"flipped": func(_ string, b []byte) []byte { b[len(b)/3] ^= 0x40; return b },
	}
	for name, damage := range damages {
		for _, pattern := range []string{"*.sst", "MANIFEST*"} {
			t.Run(name+" "+pattern, func(t *testing.T) {
				dir := t.TempDir()
				b, err := onDisk(t, dir)
				if err != nil {
					t.Fatal(err)
				}
				b.must(b.PutCatalogue(context.Background(), testRoutes))
				id := b.take(plain("x"))[0]
				b.must(b.Store.Close())
				files, err := filepath.Glob(filepath.Join(dir, "index", pattern))
				if err != nil || len(files) == 0 {
					t.Fatalf("no %s to damage: %v", pattern, err)
				}
				for _, file := range files {
					text, err := os.ReadFile(file)
					b.must(err)
					b.must(os.WriteFile(file, damage(file, text), 0o600))
				}
				b, err = onDisk(t, dir)
				if err != nil {
					t.Fatal(err)
				}
				if got := b.lease(1); len(got) != 1 || got[0].ID != id {
					t.Errorf("leased %+v, want %s", got, id)
				}
			})
		}
	}
}

func TestDamageMetLaterStopsTheStoreAndTheNextStartMends(t *testing.T) {
	b := newBench(t, nil)
	id := b.take(plain("x"))[0]
	err := b.fail(fmt.Errorf("%w: bad block", index.ErrDamaged))
	if !errors.Is(b.Err(), index.ErrDamaged) || !errors.Is(err, index.ErrDamaged) {
		t.Fatalf("Err is %v", b.Err())
	}
	<-b.Failed()
	if err := b.Append(Batch{}); err == nil {
		t.Error("a broken store takes groups")
	}
	_ = b.Store.Close() // what it says of the index is not the point
	b.open()
	if !b.Recovery().IndexRebuilt {
		t.Error("the damaged index was believed")
	}
	if got := b.lease(1); len(got) != 1 || got[0].ID != id {
		t.Errorf("leased %+v, want %s", got, id)
	}
}

func TestRecordsOfTheControlPlaneSurvive(t *testing.T) {
	b := newBench(t, nil)
	other := event.LaneID{9}
	b.must(b.Append(Batch{Spans: []event.Span{{Lane: other, From: 0, To: 0}}}))
	b.take(plain("x"))
	b.must(b.EndLane(context.Background(), other))
	c := testRoutes
	c.ConfigVersion = 2
	b.must(b.PutCatalogue(context.Background(), c))
	b.crash(rand.New(rand.NewPCG(1, 1)), false)
	if got := b.Catalogue().ConfigVersion; got != 2 {
		t.Errorf("catalogue of version %d", got)
	}
	r := b.Recovery()
	if to := r.Lanes[b.lane]; to != b.at {
		t.Errorf("lane ends at %d, want %d", to, b.at)
	}
	if _, ok := r.Lanes[other]; ok || !r.Ended[other] {
		t.Errorf("ended lane: %v, %v", r.Lanes, r.Ended)
	}
}

// readsOf counts what is read of a journal.
type readsOf struct {
	vfs.FS
	n atomic.Int64
}

type readsOfFile struct {
	vfs.File
	n *atomic.Int64
}

func (r *readsOf) Open(name string, flags vfs.Flag) (vfs.File, error) {
	f, err := r.FS.Open(name, flags)
	return readsOfFile{f, &r.n}, err
}

func (r readsOfFile) ReadAt(b []byte, off int64) (int, error) {
	r.n.Add(1)
	return r.File.ReadAt(b, off)
}

// What is to be delivered is kept in memory; what is not leaves it to the next group.
func TestFreshEventsAreReadFromMemory(t *testing.T) {
	b := newBench(t, nil)
	b.must(b.Store.Close())
	reads := &readsOf{FS: b.fs}
	b.opt.FS, b.opt.indexFS = reads, b.xfs
	s, err := Open(context.Background(), b.opt)
	b.must(err)
	b.Store = s
	b.must(s.Settle(context.Background()))
	b.take(plain("to be delivered"))
	b.take(request{source: 3, route: 3, body: "to nowhere"})
	before := reads.n.Load()
	for n, d := range b.lease(1) {
		p, err := b.Read(d.Seq)
		b.must(err)
		p.Release()
		if got := reads.n.Load() - before; got != 0 {
			t.Errorf("delivery %d took %d reads", n, got)
		}
	}
	page, err := b.Events(Filter{Source: 3})
	b.must(err)
	deadline := time.Now().Add(10 * time.Second)
	for reads.n.Load() == before { // the applier lets go of it behind the listing's back
		if time.Now().After(deadline) {
			t.Fatal("an event that goes nowhere stays in memory")
		}
		p, err := b.Read(page.Items[0].Seq)
		b.must(err)
		if string(p.Body()) != "to nowhere" {
			t.Fatalf("read %q", p.Body())
		}
		p.Release()
	}
}

func TestRetentionKeepsWhatLives(t *testing.T) {
	b := newBench(t, func(o *Options) { o.Retention.MaxAge = 24 * time.Hour })
	body := string(make([]byte, 100<<10))
	var ids []event.ID
	for range 30 { // about three segments
		b.clock.advance(time.Minute)
		ids = append(ids, b.take(plain(body))...)
	}
	house := func() int {
		b.must(b.keepHouse(context.Background(), true))
		return len(b.journal.Segments())
	}
	full := house()
	b.clock.advance(25 * time.Hour)
	b.take(plain(body))
	if n := house(); n != full {
		t.Fatalf("%d segments of %d are left, all of them live", n, full)
	}
	for _, d := range b.lease(1) {
		b.Finish(b.outcome(d, event.Dead, 0))
	}
	b.put()
	if n := house(); n < full {
		t.Fatalf("%d segments of %d are left; nobody has decided about their dead letters", n, full)
	}
	b.clock.advance(DefaultDeadAge)
	if n := house(); n >= full {
		t.Fatalf("%d segments are left", n)
	}
	if _, err := b.Event(ids[0]); !errors.Is(err, ErrNotFound) {
		t.Errorf("oldest event: %v", err)
	}
	page, err := b.Events(Filter{Source: 1})
	b.must(err)
	stats := b.Stats()
	if n := uint64(len(page.Items)); n != stats.Events || n == 0 || n >= 31 {
		t.Errorf("%d events listed, %d counted", n, stats.Events)
	}
	if first := page.Items[len(page.Items)-1]; !stats.Oldest.Equal(first.Received) {
		t.Errorf("oldest %v, want %v", stats.Oldest, first.Received)
	}
	if dead := stats.Destinations[0].Dead; dead != uint64(len(page.Items)) {
		t.Errorf("%d dead letters counted, %d events kept", dead, len(page.Items))
	}
	b.restart()
	again, err := b.Events(Filter{Source: 1})
	b.must(err)
	same(t, "events after a restart", again.Items, page.Items)
}

func TestAWriteThatFailsIsNotAcknowledged(t *testing.T) {
	b := newBench(t, nil)
	b.must(b.Store.Close())
	faulty := vfs.NewFaulty(b.fs, time.Now, time.Sleep)
	b.opt.FS, b.opt.indexFS = faulty, b.xfs
	s, err := Open(context.Background(), b.opt)
	b.must(err)
	b.Store = s
	b.must(s.Settle(context.Background()))
	b.must(faulty.Set("journal.write", vfs.Fault{Err: errors.New("no space")}))
	from := b.at
	f := b.frame(request{source: 1, route: 1, key: 3, window: time.Hour, body: "x"})
	batch := Batch{
		Spans:  []event.Span{{Lane: b.lane, From: from, To: b.at}},
		Frames: [][]byte{f},
	}
	if err := b.Append(batch); !errors.Is(err, ErrUnwritable) {
		t.Fatalf("append: %v", err)
	}
	if b.Space().Writable {
		t.Error("a journal that takes nothing is called writable")
	}
	now := b.clock.Now().UnixNano()
	if _, ok := b.Known(1, [16]byte{3, 0xff}, now); ok {
		t.Error("a key is known whose event is not durable")
	}
	faulty.Clear("journal.write")
	b.must(b.Append(batch))
	if !b.Space().Writable {
		t.Error("not writable again")
	}
	if id, ok := b.Known(1, [16]byte{3, 0xff}, now); !ok || id != event.ID(f.C().EventID()) {
		t.Errorf("Known says %s, %v", id, ok)
	}
}

func TestTailFollows(t *testing.T) {
	b := newBench(t, nil)
	b.take(plain("before"))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	tail := b.Tail(ctx, Filter{Source: 1})
	b.take(plain("one"), request{source: 2, route: 2, body: "other"})
	b.take(plain("three"))
	var sizes []uint32
	for e, err := range tail {
		b.must(err)
		if sizes = append(sizes, e.Size); len(sizes) == 2 {
			cancel()
		}
	}
	if !slices.Equal(sizes, []uint32{3, 5}) {
		t.Errorf("followed events of sizes %v", sizes)
	}
}
