package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/store/index"
	"sluice/go/internal/store/journal"
)

// keyed is an event to destination 1 whose window is 30 hours.
func keyed(key byte, body string) request {
	return request{source: 1, route: 1, key: key, window: 30 * time.Hour, body: body}
}

// pass lets days go by, in each of which a segment fills.
func (b *bench) pass(days int) {
	b.t.Helper()
	for range days {
		b.aDay(12)
	}
}

// wantGone has the groups up to an event's be dropped, on the disk too, and none from another
// event's on.
func (b *bench) wantGone(gone, kept event.Seq) {
	b.t.Helper()
	for range 12 { // which begin a segment: its table names the dropped ones no more
		b.take(request{source: 3, route: 3, body: string(make([]byte, 100<<10))})
	}
	if first := b.journal.Segments()[0].FirstGroup; first <= gone.Group() || first > kept.Group() {
		b.t.Fatalf("the first group kept is %d, want one of (%d, %d]", first, gone.Group(),
			kept.Group())
	}
}

// threeDays keeps segments for that long. Windows have ended by then.
func threeDays(o *Options) { o.Retention.MaxAge = 72 * time.Hour }

func (b *bench) seqOf(id event.ID) event.Seq {
	b.t.Helper()
	d, err := b.Event(id)
	b.must(err)
	return d.Seq
}

func TestARepeatOfAnEventCarriedForwardStaysOneWithoutTheIndex(t *testing.T) {
	b := newBench(t, threeDays)
	first := b.take(keyed(1, "x"))[0]
	gone := b.seqOf(first)
	b.pass(1)
	repeat := b.take(keyed(1, "x"))[0]
	kept := b.seqOf(repeat)
	b.pass(3)
	b.wantGone(gone, kept)
	for round := range 3 {
		b.loseIndex()
		if b.state(first) != event.Pending || b.state(repeat) != event.Duplicate {
			t.Fatalf("round %d: the first is %s, its repeat %s", round, b.state(first), b.state(repeat))
		}
	}
	b.wantLeased("without the index", first)
}

func TestARepeatOfAnEventThatIsGoneStaysOneWithoutTheIndex(t *testing.T) {
	b := newBench(t, threeDays)
	first := b.take(keyed(1, "x"))[0]
	gone := b.seqOf(first)
	b.end(event.Done, b.lease(1)...)
	b.pass(1)
	repeat := b.take(keyed(1, "x"))[0]
	kept := b.seqOf(repeat)
	b.pass(3)
	b.wantGone(gone, kept)
	b.loseIndex()
	b.wantLeased("without the index")
	if got := b.state(repeat); got != event.Duplicate {
		t.Errorf("the repeat is %s", got)
	}
}

// TestKeysOfEventsThatWentForSpaceAreKnownWithoutTheIndex fills a small disk within the windows,
// twice over: what was carried forward is carried forward again.
func TestKeysOfEventsThatWentForSpaceAreKnownWithoutTheIndex(t *testing.T) {
	b := smallDisk(t, 24)
	body := string(make([]byte, 100<<10))
	first := b.take(keyed(1, "x"))[0]
	gone := b.seqOf(first)
	fill := func(events int) {
		for range events {
			b.take(plain(body))
			b.end(event.Done, b.lease(1)...)
			if b.spaceShort() {
				b.house()
			}
		}
	}
	b.end(event.Done, b.lease(1)...)
	fill(250)
	if b.journal.Segments()[0].FirstGroup <= gone.Group() {
		t.Fatal("the first segment is there still")
	}
	repeat := b.take(keyed(1, "x"))[0]
	if got := b.state(repeat); got != event.Duplicate {
		t.Fatalf("the repeat is %s", got)
	}
	kept := b.seqOf(repeat).Group()
	check := func(when string) {
		t.Helper()
		b.loseIndex()
		again := b.take(keyed(1, "x"))[0]
		if got := b.state(again); got != event.Duplicate {
			t.Errorf("%s: a repeat is %s", when, got)
		}
		if b.journal.Segments()[0].FirstGroup <= kept && b.state(repeat) != event.Duplicate {
			t.Errorf("%s: the first repeat is %s", when, b.state(repeat))
		}
		b.wantLeased(when)
	}
	check("the event is gone")
	fill(250)
	check("what was carried forward is gone")
	b.clock.advance(72 * time.Hour)
	b.take(plain("x"))
	b.end(event.Done, b.lease(1)...)
	again := b.take(keyed(1, "x"))[0]
	if got := b.state(again); got != event.Pending {
		t.Errorf("behind the window an event of the same id is %s", got)
	}
}

// TestKeysThatAreTooManyAreLeftBehind has the bound on them fall and rise again. What repeats an
// event is known as a repeat where it was taken before, whatever becomes of the keys.
func TestKeysThatAreTooManyAreLeftBehind(t *testing.T) {
	b := smallDisk(t, 24)
	body := string(make([]byte, 100<<10))
	turn := func() { // until all segments are others, on the disk as well
		for last, more := b.Durable(), 12; more > 0; {
			b.take(plain(body))
			b.end(event.Done, b.lease(1)...)
			b.house()
			if b.journal.Segments()[0].FirstGroup > last {
				more--
			}
		}
	}
	written := func(keys byte) (carried int) {
		before := b.Durable()
		for key := range keys {
			b.take(keyed(key+1, "x"))
		}
		repeat := b.take(keyed(1, "x"))[0]
		b.end(event.Done, b.lease(1)...)
		turn()
		if _, err := b.Event(repeat); !errors.Is(err, ErrNotFound) {
			t.Errorf("the repeat is there still: %v", err)
		}
		b.must(b.journal.Replay(before, func(g *journal.Group) error {
			for i := range g.Frames {
				if f := &g.Frames[i]; f.Kind == journal.KindCarried {
					c, err := f.Carried()
					b.must(err)
					carried += len(c.Keys)
				}
			}
			return nil
		}))
		return carried
	}
	b.opt.carryShare = b.journalSpace().Total / (2 * journal.CarriedKeyBytes) // two keys fit
	b.Store.opt.carryShare = b.opt.carryShare
	if n := written(3); n != 0 || !b.Stats().KeysLeft {
		t.Errorf("%d keys are carried where three are too many, %v", n, b.Stats().KeysLeft)
	}
	b.loseIndex()
	again := b.take(keyed(1, "x"))[0]
	if got := b.state(again); got != event.Pending {
		t.Errorf("what repeats a key left behind is %s", got)
	}
	b.end(event.Done, b.lease(1)...)
	b.clock.advance(96 * time.Hour) // the windows are over
	b.take(plain("x"))
	b.end(event.Done, b.lease(1)...)
	if n := written(2); n < 2 || b.Stats().KeysLeft {
		t.Errorf("%d keys are carried where two are few enough, %v", n, b.Stats().KeysLeft)
	}
	b.loseIndex()
	if got := b.state(b.take(keyed(2, "x"))[0]); got != event.Duplicate {
		t.Errorf("what repeats a key that was carried is %s", got)
	}
}

// TestAnOutcomeDurableBeforeTheCopyOfItsEventCounts has a delivery end while its event is on the
// way to the end of the journal.
func TestAnOutcomeDurableBeforeTheCopyOfItsEventCounts(t *testing.T) {
	b := newBench(t, nil)
	ids := b.take(request{source: 2, route: 2, body: "x"})
	seq := b.seqOf(ids[0])
	got := b.lease(1)
	for b.journal.Segments()[0].Current {
		b.take(plain(string(make([]byte, 100<<10))))
	}
	survivors, err := b.survivors(b.journal.Segments()[0], nil)
	b.must(err)
	list, err := b.copies(survivors)
	b.must(err)
	b.end(event.Done, got...) // behind the look at what became of it
	b.must(b.submit(context.Background(), func(t *ticket) { b.outbox.addRescues(list, t) }))
	b.take(plain(string(make([]byte, 900<<10))))
	b.must(b.flush(context.Background()))
	ok, err := b.dropSegment(b.journal.Segments()[0], nil)
	if !ok || err != nil {
		t.Fatalf("dropped: %v, %v", ok, err)
	}
	b.take(plain(string(make([]byte, 900<<10)))) // now the disk knows that it is gone
	before, err := b.Event(ids[0])
	b.must(err)
	b.loseIndex()
	after, err := b.Event(ids[0])
	b.must(err)
	if !reflect.DeepEqual(after, before) || after.Seq != seq {
		t.Errorf("without the index\n%+v, was\n%+v", after, before)
	}
	for _, d := range b.lease(1) {
		if d.ID == ids[0] {
			t.Error("what was delivered is delivered again")
		}
	}
}

// TestASegmentThatIsThereAgainCarriesNothingTwice has a crash come before the drop of a segment is
// on the disk: what the index knew of it is gone by then.
func TestASegmentThatIsThereAgainCarriesNothingTwice(t *testing.T) {
	b := smallDisk(t, 24)
	body := string(make([]byte, 100<<10))
	first := b.take(keyed(1, "x"))[0]
	b.clock.advance(time.Minute)
	b.take(keyed(1, "x")) // it would open a window of its own
	b.end(event.Done, b.lease(1)...)
	for b.journal.Segments()[0].FirstGroup == 1 {
		b.take(plain(body))
		b.end(event.Done, b.lease(1)...)
		if b.spaceShort() {
			b.houseMu.Lock() // against the keeper
			b.must(b.flush(context.Background()))
			_, err := b.trim(context.Background())
			b.must(err)
			b.houseMu.Unlock()
		}
	}
	b.crash(rand.New(rand.NewPCG(1, 1)), true)
	if b.journal.Segments()[0].FirstGroup != 1 {
		t.Fatal("the drop of the first segment is on the disk")
	}
	for range 20 {
		b.take(plain(body))
		b.end(event.Done, b.lease(1)...)
		b.house()
	}
	if b.journal.Segments()[0].FirstGroup == 1 {
		t.Fatal("the first segment stays")
	}
	b.loseIndex()
	again, err := b.Event(b.take(keyed(1, "x"))[0])
	if err != nil || again.First != first {
		t.Errorf("a repeat repeats %s, want %s, %v", again.First, first, err)
	}
}

// A segment without events may hold all that is carried forward.
func TestKeysOutliveTheSegmentTheyWereCarriedTo(t *testing.T) {
	b := newBench(t, threeDays)
	long := request{source: 1, route: 1, key: 1, window: 1000 * time.Hour, body: "x"}
	b.take(long)
	b.end(event.Done, b.lease(1)...)
	b.must(b.journal.Reclaim())
	carriedTo := b.journal.Segments()[1].Number
	b.clock.advance(96 * time.Hour)
	b.house() // takes the event, and carries its key to the next segment
	if first := b.journal.Segments()[0].Number; first != carriedTo {
		t.Fatalf("the first segment is %d, want %d", first, carriedTo)
	}
	b.clock.advance(24 * time.Hour)
	b.must(b.journal.Reclaim())
	b.take(plain("y"))
	b.end(event.Done, b.lease(1)...)
	b.must(b.journal.Reclaim())
	b.clock.advance(60 * time.Hour)
	b.take(plain("z"))
	b.house() // takes the segment without events, and that one alone
	if first := b.journal.Segments()[0].Number; first != carriedTo+1 {
		t.Fatalf("the first segment is %d, want %d", first, carriedTo+1)
	}
	b.must(b.journal.Reclaim())
	b.end(event.Done, b.lease(1)...)
	b.loseIndex()
	if got := b.state(b.take(long)[0]); got != event.Duplicate {
		t.Errorf("without the index a repeat is %s", got)
	}
}

// pastime drives a store through a random history with retention.
type pastime struct {
	*bench
	rng    *rand.Rand
	leases []Delivery
	keys   int
	// short tells that space is short, so that error texts of outcomes are left out and dead
	// letters go with their segments.
	short bool
}

func (p *pastime) step() {
	p.t.Helper()
	switch n := p.rng.IntN(100); {
	case n < 40:
		p.takeSome()
	case n < 52:
		p.leases = append(p.leases, p.Lease(uint32(1+p.rng.IntN(3)), 1+p.rng.IntN(40), p.clock.Now())...)
	case n < 75:
		p.finishSome()
	case n < 80:
		p.put()
	case n < 83:
		r := Replay{By: "tester", To: uint32(max(p.rng.IntN(6)-2, 0))}
		_, err := p.ReplayDead(context.Background(), Filter{Limit: 1 + p.rng.IntN(3)}, r)
		p.must(err)
	case n < 84:
		_, err := p.DropDead(context.Background(), Filter{Destination: 1}, "gone", "tester")
		p.must(err)
	case n < 96:
		p.clock.advance(time.Duration(p.rng.Int64N(int64(6 * time.Hour))))
		p.house()
	case n < 97:
		p.leases = nil
		p.restart()
	default:
		p.leases = nil
		p.crash(p.rng, p.rng.IntN(2) == 0)
	}
}

func (p *pastime) takeSome() {
	var list []request
	for range 1 + p.rng.IntN(6) {
		source := uint32(1 + p.rng.IntN(3))
		late := time.Duration(p.rng.Int64N(int64(3 * time.Hour)))
		r := request{
			source: source, route: source, order: uint64(p.rng.IntN(3)),
			received: p.clock.Now().Add(-late), body: strings.Repeat("x", p.rng.IntN(4<<10)),
		}
		if p.rng.IntN(2) == 0 {
			r.key = byte(1 + p.rng.IntN(p.keys))
			r.window = time.Duration(p.rng.Int64N(int64(50 * time.Hour)))
		}
		list = append(list, r)
	}
	p.take(list...)
}

func (p *pastime) finishSome() {
	for range (len(p.leases) + p.rng.IntN(len(p.leases)+1)) / 2 {
		i := p.rng.IntN(len(p.leases))
		d := p.leases[i]
		p.leases = append(p.leases[:i], p.leases[i+1:]...)
		kinds := []event.OutcomeKind{event.Done, event.Done, event.Done, event.Done, event.Retry,
			event.Dead, event.Skip}
		kind := kinds[p.rng.IntN(len(kinds))]
		o := p.outcome(d, kind, time.Duration(p.rng.Int64N(int64(9*time.Hour))))
		o.Blocks = kind == event.Dead && d.OrderKey != 0 && p.rng.IntN(3) == 0
		p.Finish(o)
	}
}

// view is what an operator and a sender can see of a store.
type view struct {
	first  uint64 // group that is kept
	events map[event.ID]Detail
	dedup  map[string]index.Dedup
}

func (p *pastime) view() view {
	p.t.Helper()
	p.houseMu.Lock() // nothing is trimmed meanwhile
	defer p.houseMu.Unlock()
	// A segment that was dropped may be there again after a crash.
	v := view{
		first:  max(p.journal.Segments()[0].FirstGroup, p.index.Meta().Trimmed+1),
		events: map[event.ID]Detail{}, dedup: map[string]index.Dedup{},
	}
	for _, f := range []Filter{{}, {State: event.Duplicate}} {
		page, err := p.Events(f)
		p.must(err)
		for _, e := range page.Items {
			detail, err := p.Event(e.ID)
			p.must(err)
			for i := range detail.Destinations {
				detail.Destinations[i].Blocked = false // see heads
				if p.short {
					detail.Destinations[i].LastError = ""
				}
			}
			for i := range detail.Attempts {
				if p.short {
					detail.Attempts[i].Err = ""
				}
			}
			v.events[e.ID] = detail
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for source := range uint32(3) {
		for key := range p.keys {
			for ago := range 5 {
				at := p.clock.Now().Add(-time.Duration(ago) * 5 * time.Hour)
				d, ok, err := p.index.LookupDedup(source+1, [16]byte{byte(key + 1), 0xff}, at.UnixNano())
				p.must(err)
				if ok {
					v.dedup[fmt.Sprint(source+1, key, ago)] = d
				}
			}
		}
	}
	return v
}

// heads wants, of what waits under one ordering key, at most one to go now: one if nothing that is
// dead holds the others back.
func (p *pastime) heads() {
	p.t.Helper()
	type place struct {
		source, dest uint32
		key          uint64
	}
	heads, waiting := map[place]int{}, map[place]int{}
	_, err := func() (bool, error) {
		return true, p.index.Forwards(0, event.NewSeq(1<<40, 0), func(r *index.Record) bool {
			for i := range r.Deliveries {
				if d := &r.Deliveries[i]; r.OrderKey != 0 && d.Holds() {
					at := place{r.Source, d.Destination, r.OrderKey}
					waiting[at]++
					if !d.Blocked {
						heads[at]++
					}
				}
			}
			return true
		})
	}()
	p.must(err)
	for at, n := range waiting {
		if heads[at] != 1 {
			p.t.Errorf("%d of %d deliveries go first under %+v", heads[at], n, at)
		}
	}
}

// fewSeeds are for what takes long; SLUICE_SOAK=1 asks for more.
func fewSeeds(t *testing.T) []uint64 {
	list := seeds(t)
	if os.Getenv("SLUICE_SOAK") == "1" {
		for range 40 {
			list = append(list, rand.Uint64N(1<<32))
		}
		return list
	}
	if len(list) < 3 {
		return list
	}
	return []uint64{list[0], list[1], list[len(list)-1]}
}

// TestAnIndexBuiltAgainShowsWhatTheOneBeforeShowed throws the index away again and again. What
// retention has taken, or may take with its next step, may be missing or there.
func TestAnIndexBuiltAgainShowsWhatTheOneBeforeShowed(t *testing.T) {
	for _, mode := range []string{"age", "size"} {
		dropped := uint64(0)
		for _, seed := range fewSeeds(t) {
			t.Run(fmt.Sprintf("%s/seed=%d", mode, seed), func(t *testing.T) {
				b := newBench(t, func(o *Options) {
					o.SegmentBytes, o.Describe, o.window = 64<<10, describe, 16
					o.Retention.MaxAge, o.keyPart = 30*time.Hour, 3
					if mode == "size" {
						o.Retention.MaxAge, o.Retention.MaxBytes = -1, 2*mib
					}
				})
				p := &pastime{
					bench: b, rng: rand.New(rand.NewPCG(seed, 11)), keys: 12, short: mode == "size",
				}
				groups := uint64(0)
				for range 8 {
					for range 80 {
						p.step()
					}
					groups = max(groups, p.rebuild())
					if t.Failed() {
						return
					}
				}
				t.Logf("the groups before %d were dropped", groups)
				dropped = max(dropped, groups)
			})
		}
		if dropped < 40 && !t.Failed() && os.Getenv("SLUICE_SEED") == "" {
			t.Errorf("%s: no more than the groups before %d were dropped", mode, dropped)
		}
	}
}

// mustStay tells whether retention may not take an event.
func (p *pastime) mustStay(e Detail) bool {
	return slices.ContainsFunc(e.Destinations, func(d DeliveryState) bool {
		return d.State == event.Pending || d.State == event.Retrying || d.Blocks ||
			d.State == event.DeadLetter && !d.Dropped && !p.short
	})
}

// rebuild loses the index, compares, and gives the first group that was kept.
func (p *pastime) rebuild() (first uint64) {
	p.t.Helper()
	p.leases = nil
	p.put()
	before := p.view()
	p.loseIndex()
	after := p.view()
	if p.recovery.Replayed == 0 {
		p.t.Error("the index was not built again")
	}
	first = before.first
	for id, was := range before.events {
		is, ok := after.events[id]
		if !ok && was.Seq.Group() < max(first, after.first) && !p.mustStay(was) {
			continue
		}
		if !ok || !reflect.DeepEqual(is, was) {
			p.t.Errorf("first group %d, event %d (there: %v) is\n%+v, was\n%+v", first, was.Seq, ok, is,
				was)
		}
	}
	for id, is := range after.events {
		if _, ok := before.events[id]; !ok && is.Seq.Group() >= first {
			p.t.Errorf("first group %d, event %d came back: %+v", first, is.Seq, is)
		}
	}
	for at, was := range before.dedup {
		if is := after.dedup[at]; is != was {
			p.t.Errorf("first group %d, key %s is known as %+v, was %+v", first, at, is, was)
		}
	}
	for at, is := range after.dedup {
		if _, ok := before.dedup[at]; !ok {
			p.t.Errorf("first group %d, key %s came back: %+v", first, at, is)
		}
	}
	p.heads()
	return first
}

// TestWhatASegmentTellsWaitsUntilItIsGone has a crash, and the loss of the index, come between what
// is written of a segment that is to go and its drop: its own groups are judged as of their time.
func TestWhatASegmentTellsWaitsUntilItIsGone(t *testing.T) {
	b := newBench(t, func(o *Options) { o.Retention.MaxAge = 10 * 24 * time.Hour })
	gone := b.seqOf(b.take(plain("x"))[0])
	b.end(event.Done, b.lease(1)...)
	b.pass(12)
	first := b.take(keyed(1, "x"))[0]
	b.clock.advance(time.Hour)
	repeat := b.take(keyed(1, "x"))[0]
	b.pass(5)
	b.wantGone(gone, b.seqOf(first)) // so that a start looks for what was carried forward
	if got := b.state(repeat); got != event.Duplicate {
		t.Fatalf("the repeat is %s", got)
	}
	told := carriedRepeats(b.seqOf(repeat).Group(), b.clock.Now().UnixNano(), nil)
	b.must(b.submit(context.Background(), func(t *ticket) { b.outbox.addCarried(told, t) }))
	b.loseIndex()
	if got := b.state(repeat); got != event.Duplicate {
		t.Errorf("without the index the repeat is %s", got)
	}
}

// TestTheHorizonOfWhatIsGoneIsKnownWithoutTheIndex carries a received time forward that no event
// left behind tells.
func TestTheHorizonOfWhatIsGoneIsKnownWithoutTheIndex(t *testing.T) {
	b := newBench(t, threeDays)
	gone := b.seqOf(b.take(plain("x"))[0])
	b.end(event.Done, b.lease(1)...)
	b.pass(4)
	b.wantGone(gone, b.seqOf(b.take(plain("x"))[0]))
	horizon := b.clock.Now().Add(10 * 24 * time.Hour).UnixNano()
	told := carriedRepeats(gone.Group(), horizon, nil)
	b.must(b.submit(context.Background(), func(t *ticket) { b.outbox.addCarried(told, t) }))
	b.loseIndex()
	if got := b.index.Meta().Horizon; got != horizon {
		t.Errorf("without the index the horizon is %s, want %s", timeOf(got), timeOf(horizon))
	}
}
