package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/store/vfs"
)

// What a store has promised, noted in the record of its disk.
type (
	offeredEvent  struct{ id event.ID }
	promisedEvent struct {
		id        event.ID
		duplicate bool // it repeats one that came before
	}
	promisedOutcome struct {
		id   event.ID
		dest uint32
		kind event.OutcomeKind
	}
)

// cutDrill runs a store whose journal and index lie on one recorded disk.
type cutDrill struct {
	*bench
	rec   *vfs.Recorder
	rng   *rand.Rand
	first map[byte]bool // dedup keys that came
	// retains tells that segments are dropped as time passes.
	retains bool
}

func (d *cutDrill) start() {
	d.t.Helper()
	d.opt.FS, d.opt.indexFS = d.rec, engineFS{d.rec}
	s, err := Open(context.Background(), d.opt)
	d.must(err)
	d.Store = s
	d.must(s.Settle(context.Background()))
}

func newCutDrill(t *testing.T, seed uint64, retains bool) *cutDrill {
	d := &cutDrill{
		bench: &bench{t: t, clock: &clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)},
			lane: event.LaneID{1}},
		rec: vfs.Record(vfs.NewMem()), rng: rand.New(rand.NewPCG(seed, 5)),
		first: map[byte]bool{}, retains: retains,
	}
	d.opt = Options{Dir: "data", Now: d.clock.Now, Log: testLog(),
		SegmentBytes: 64 << 10, LeaseTTL: 1e6 * time.Hour, LockWait: -1,
		Retention: Retention{MaxAge: -1}}
	if retains {
		d.opt.SegmentBytes = 32 << 10
		d.opt.Retention = Retention{MaxAge: 12 * time.Hour, DeadAge: -1}
	}
	d.opt.elapsed = d.clock.elapsed
	d.start()
	d.must(d.PutCatalogue(context.Background(), testRoutes))
	return d
}

// receive appends a group of one or two events, some of which repeat an older one.
func (d *cutDrill) receive() {
	d.t.Helper()
	from := d.at
	var batch Batch
	var notes []promisedEvent
	size := 4000
	if d.retains { // few bytes may be undecided where a segment is to go
		size = 1000
	}
	for range 1 + d.rng.IntN(2) {
		r := request{source: 2, route: 2, key: byte(1 + d.rng.IntN(40)), window: 1000 * time.Hour,
			body: strings.Repeat("x", d.rng.IntN(size))}
		f := d.frame(r)
		id := event.ID(f.C().EventID())
		d.rec.Note(offeredEvent{id})
		notes = append(notes, promisedEvent{id, d.first[r.key]})
		d.first[r.key] = true
		batch.Frames = append(batch.Frames, f)
	}
	batch.Spans = []event.Span{{Lane: d.lane, From: from, To: d.at}}
	d.must(d.Append(batch))
	for _, n := range notes {
		d.rec.Note(n)
	}
}

// deliver ends some deliveries; what it says is promised when a later group is durable.
func (d *cutDrill) deliver() {
	d.t.Helper()
	d.must(d.waitApplied())
	var told []promisedOutcome
	most, kinds := 4, []event.OutcomeKind{event.Done, event.Done, event.Dead, event.Retry}
	if d.retains {
		most, kinds = 40, append(kinds, slices.Repeat(kinds[:1], 12)...)
	}
	for _, dest := range []uint32{1, 2} {
		for _, l := range d.Lease(dest, 1+d.rng.IntN(most), d.clock.Now()) {
			kind := kinds[d.rng.IntN(len(kinds))]
			d.Finish(d.outcome(l, kind, time.Hour))
			if kind != event.Retry {
				told = append(told, promisedOutcome{l.ID, dest, kind})
			}
		}
	}
	d.must(d.Append(Batch{}))
	for _, n := range told {
		d.rec.Note(n)
	}
}

func (d *cutDrill) run(steps int) {
	for range steps {
		if d.retains && d.rng.IntN(4) == 0 {
			d.clock.advance(time.Duration(d.rng.Int64N(int64(12 * time.Hour))))
			d.must(d.keepHouse(context.Background(), true))
		}
		switch d.rng.IntN(12) {
		case 0:
			d.must(d.flush(context.Background()))
		case 1:
			d.must(d.Store.Close())
			d.start()
		case 2:
			_ = d.abandon()
			d.start()
		case 3:
			d.clock.advance(2 * time.Second)
			d.must(d.Idle())
		case 4:
			d.must(d.seen())
		case 5, 6, 7:
			d.deliver()
		default:
			d.receive()
		}
	}
	d.must(d.Store.Close())
}

// recovered opens a store on what a power cut left and holds it to the notes.
func (d *cutDrill) recovered(disk vfs.FS, notes []any) (err error) {
	o := d.opt
	o.FS, o.indexFS = disk, engineFS{disk}
	s, err := Open(context.Background(), o)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer func() { err = errors.Join(err, s.abandon()) }()
	if r := s.Recovery(); len(r.Damage) > 0 {
		return fmt.Errorf("false alarm: %q", r.Damage)
	}
	if err := s.Settle(context.Background()); err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	page, err := s.Events(Filter{})
	repeats, err2 := s.Events(Filter{State: event.Duplicate})
	if err := errors.Join(err, err2); err != nil {
		return fmt.Errorf("list: %w", err)
	}
	events, offered := map[event.ID]Event{}, map[event.ID]bool{}
	for _, e := range slices.Concat(page.Items, repeats.Items) {
		if _, twice := events[e.ID]; twice {
			return fmt.Errorf("event %s is there twice", e.ID)
		}
		events[e.ID] = e
	}
	delivered := map[event.ID]int{}
	for _, n := range notes {
		if o, ok := n.(promisedOutcome); ok && o.kind == event.Done {
			delivered[o.id]++
		}
	}
	for _, n := range notes {
		switch n := n.(type) {
		case offeredEvent:
			offered[n.id] = true
		case promisedEvent:
			e, ok := events[n.id]
			decided := n.duplicate || delivered[n.id] == len(testRoutes.Routes[1].Destinations)
			if !ok && d.retains && decided {
				continue
			}
			if !ok || (e.State == event.Duplicate) != n.duplicate {
				return fmt.Errorf("event %s is acknowledged: there: %v, group %d, state %s, repeats: %v; the "+
					"journal begins at %d, index built again: %v", n.id, ok, e.Seq.Group(), e.State,
					n.duplicate, s.journal.Segments()[0].FirstGroup, s.recovery.IndexRebuilt)
			}
			lease, err := s.Read(e.Seq)
			if err != nil {
				return fmt.Errorf("event %s: %w", n.id, err)
			}
			lease.Release()
		case promisedOutcome:
			for _, at := range events[n.id].Destinations {
				want := map[event.OutcomeKind]event.State{event.Done: event.Delivered,
					event.Dead: event.DeadLetter}[n.kind]
				if at.Destination == n.dest && at.State != want {
					return fmt.Errorf("event %s at %d is %s, its end as %s was durable", n.id, n.dest,
						at.State, want)
				}
			}
		}
	}
	for id := range events {
		if !offered[id] {
			return fmt.Errorf("event %s was never offered", id)
		}
	}
	if s := s.Stats(); s.Applied > s.Durable {
		return fmt.Errorf("the index is at group %d, the journal at %d", s.Applied, s.Durable)
	}
	return nil
}

// Journal and index lie on one disk, which is cut between any two calls of either.
func TestAPowerCutAtAnyMomentLosesNothingAcknowledged(t *testing.T) {
	cutEverywhere(t, 40, false)
}

// Segments are dropped meanwhile: what nobody has decided about is never among what goes.
func TestAPowerCutBesideRetentionLosesNothingUndecided(t *testing.T) {
	cutEverywhere(t, 70, true)
}

func cutEverywhere(t *testing.T, steps int, retains bool) {
	seeds, share := []uint64{1}, steps/10
	switch text := os.Getenv("SLUICE_SEED"); {
	case text != "":
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seeds, share = []uint64{seed}, 1
	case os.Getenv("SLUICE_SOAK") == "1":
		for seed := range uint64(12) {
			seeds = append(seeds, seed+2)
		}
		share = 1
	}
	cuts, states := 0, 0
	for _, seed := range seeds {
		d := newCutDrill(t, seed, retains)
		d.run(steps)
		for cut := range d.rec.Cuts() {
			if d.rng.IntN(share) > 0 {
				continue
			}
			cuts++
			for state := range cut.States(d.rng, 4) {
				states++
				if err := d.recovered(state, cut.Notes()); err != nil {
					t.Fatalf("seed %d, cut %d:\n%v%v", seed, cut.At, cut, err)
				}
			}
		}
		first := d.journal.Segments()[0].FirstGroup
		t.Logf("seed %d: the groups before %d were dropped", seed, first)
		if retains && first == 1 {
			t.Errorf("seed %d: nothing was dropped", seed)
		}
	}
	t.Logf("%d cuts, %d states", cuts, states)
}
