package store

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/store/index"
)

// pair drives a store and the model with the same operations.
type pair struct {
	*bench
	m      *model
	rng    *rand.Rand
	leases []Delivery
	past   []Delivery // of which a worker may still say something
	steps  []string
}

func seeds(t *testing.T) []uint64 {
	if text := os.Getenv("SLUICE_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return []uint64{seed}
	}
	list := []uint64{1, 2, 3, 4, 5, 6}
	if !testing.Short() {
		for range 6 {
			list = append(list, rand.Uint64N(1<<32))
		}
	}
	return list
}

func TestTheStoreIsTheModel(t *testing.T) {
	for _, window := range []int{windowMax, 4} {
		for _, seed := range seeds(t) {
			t.Run(fmt.Sprintf("window=%d/seed=%d", window, seed), func(t *testing.T) {
				b := newBench(t, func(o *Options) {
					o.window, o.Describe = window, describe
				})
				p := &pair{
					bench: b, m: newModel(testRoutes), rng: rand.New(rand.NewPCG(seed, 7)),
				}
				t.Cleanup(func() {
					if t.Failed() {
						t.Logf("seed %d, steps: %v", seed, p.steps)
					}
				})
				for range 250 {
					p.step()
					if t.Failed() {
						return
					}
				}
				p.drain()
			})
		}
	}
}

func (p *pair) step() {
	p.t.Helper()
	weights := []struct {
		weight int
		name   string
		do     func()
	}{
		{20, "take", p.takeSome},
		{10, "advance", func() { p.clock.advance(time.Duration(p.rng.Int64N(int64(3 * time.Hour)))) }},
		{20, "lease", p.leaseSome},
		{25, "finish", p.finishOne},
		{3, "unlease", p.unleaseOne},
		{3, "late", p.finishLate},
		{8, "put", p.putQueued},
		{4, "replay dead", p.replayDead},
		{2, "drop dead", p.dropDead},
		{3, "replay", p.replayEvents},
		{8, "compare", p.compare},
		{2, "restart", p.cleanRestart},
		{2, "power cut", func() { p.die(false) }},
		{2, "kill", func() { p.die(true) }},
		{1, "lose index", p.loseIndex},
	}
	total := 0
	for _, w := range weights {
		total += w.weight
	}
	n := p.rng.IntN(total)
	for _, w := range weights {
		if n -= w.weight; n < 0 {
			p.steps = append(p.steps, w.name)
			w.do()
			return
		}
	}
}

func (p *pair) takeSome() {
	list := make([]request, 1+p.rng.IntN(5))
	from := p.at
	var batch Batch
	for range list {
		source := uint32(1 + p.rng.IntN(3))
		r := request{
			source: source, route: source, body: fmt.Sprintf("body %d", p.rng.IntN(1000)),
			received: p.clock.Now().Add(-time.Duration(p.rng.Int64N(int64(2 * time.Hour)))),
			order:    uint64(p.rng.IntN(3)),
		}
		if p.rng.IntN(2) == 0 {
			r.key = byte(1 + p.rng.IntN(8))
			r.window = time.Duration(p.rng.Int64N(int64(30 * time.Hour)))
		}
		batch.Frames = append(batch.Frames, p.frame(r))
	}
	batch.Spans = []event.Span{{Lane: p.lane, From: from, To: p.at}}
	p.must(p.Append(batch))
	group := p.Durable()
	for i, f := range batch.Frames {
		p.m.add(event.NewSeq(group, i), f)
	}
	p.m.put()
	p.must(p.seen())
	p.checkKnown()
}

// checkKnown wants the memory set to know nothing but first copies that are durable.
func (p *pair) checkKnown() {
	p.t.Helper()
	now := p.clock.Now().UnixNano()
	for _, e := range p.m.events {
		if e.key == [16]byte{} {
			continue
		}
		id, ok := p.Known(e.Source, e.key, now)
		if !ok {
			continue
		}
		probe := modelEvent{Event: Event{Source: e.Source}, key: e.key}
		first := p.m.first(&probe, now)
		if first == nil || first.ID != id {
			p.t.Errorf("Known says that %s is the first with key %x; the model: %v", id, e.key, first)
		}
	}
}

func (p *pair) leaseSome() {
	dest := uint32(1 + p.rng.IntN(3))
	count := 1 + p.rng.IntN(6)
	may := p.m.leasable(dest, p.clock.Now())
	got := p.Lease(dest, count, p.clock.Now())
	if p.opt.window == windowMax {
		if want := may[:min(count, len(may))]; !slices.Equal(seqsOf(got), want) {
			p.t.Errorf("leased %v of destination %d, want %v", seqsOf(got), dest, want)
		}
	}
	if len(got) == 0 && len(may) > 0 {
		p.t.Errorf("leased nothing of destination %d, may %v", dest, may)
	}
	for _, d := range got {
		e, del := p.m.find(d.Seq, dest)
		if !slices.Contains(may, d.Seq) {
			p.t.Errorf("leased %d, which is not due: %+v %+v", d.Seq, *del, p.m.leased)
			continue
		}
		if d.ID != e.ID || d.Attempt != del.Attempts+1 || d.Source != e.Source || d.Size != e.Size {
			p.t.Errorf("delivery %+v, event %+v", d, e.Event)
		}
		p.m.leased[deliveryID{d.Seq, dest}] = modelLease{term: d.term}
		p.leases = append(p.leases, d)
		p.past = append(p.past, d)
	}
}

func seqsOf(list []Delivery) (seqs []event.Seq) {
	for _, d := range list {
		seqs = append(seqs, d.Seq)
	}
	return seqs
}

func (p *pair) pick() (Delivery, bool) {
	if len(p.leases) == 0 {
		return Delivery{}, false
	}
	i := p.rng.IntN(len(p.leases))
	d := p.leases[i]
	p.leases = slices.Delete(p.leases, i, i+1)
	return d, true
}

func (p *pair) finishOne() {
	d, ok := p.pick()
	if !ok {
		return
	}
	payload, err := p.Read(d.Seq)
	p.must(err)
	if payload.ID() != d.ID || uint32(len(payload.Body())) != d.Size {
		p.t.Errorf("payload of %s has id %s and %d bytes", d.ID, payload.ID(), len(payload.Body()))
	}
	payload.Release()
	p.finish(d)
}

func (p *pair) finish(d Delivery) {
	kinds := []event.OutcomeKind{event.Done, event.Done, event.Retry, event.Dead, event.Skip}
	kind := kinds[p.rng.IntN(len(kinds))]
	o := p.outcome(d, kind, time.Duration(p.rng.Int64N(int64(4*time.Hour))))
	o.Blocks = kind == event.Dead && d.OrderKey != 0 && p.rng.IntN(2) == 0
	p.Finish(o)
	p.m.finish(o)
}

// finishLate has a worker come back whose lease is not his any more, or was finished already.
func (p *pair) finishLate() {
	if len(p.past) > 0 {
		p.finish(p.past[p.rng.IntN(len(p.past))])
	}
}

func (p *pair) unleaseOne() {
	if d, ok := p.pick(); ok {
		p.Unlease(d)
		p.m.unlease(d)
	}
}

func (p *pair) putQueued() {
	p.put()
	p.m.put()
}

// oldestLetters are the model's dead letters in the order in which commands go through them.
func (p *pair) oldestLetters() []DeadLetter {
	list := p.m.letters(Filter{})
	slices.Reverse(list)
	return list
}

// paced is a replay of random kind, and what it makes of a delivery.
func (p *pair) paced(to uint32) (r Replay, due func(event.Seq, uint32) event.Outcome) {
	r = Replay{To: to, By: "tester"}
	step := time.Duration(0)
	if p.rng.IntN(2) == 0 {
		r.Rate, step = 0.125, 8*time.Second
	}
	n := time.Duration(0)
	return r, func(seq event.Seq, dest uint32) event.Outcome {
		o := p.command(event.Replay, seq, dest, "", r.By)
		o.Next += int64(n * step)
		n++
		return o
	}
}

func (p *pair) replayDead() {
	p.putQueued()
	list := p.oldestLetters()
	limit := 1 + p.rng.IntN(3)
	list = list[:min(limit, len(list))]
	r, due := p.paced(uint32(max(p.rng.IntN(6)-2, 0)))
	n, err := p.ReplayDead(context.Background(), Filter{Limit: limit}, r)
	p.must(err)
	var all []event.Outcome
	for i, d := range list {
		if r.To == 0 {
			all = append(all, due(d.Seq, d.Destination))
			continue
		}
		_, to := p.m.find(d.Seq, r.To)
		again := i > 0 && list[i-1].Seq == d.Seq
		if !again && (to == nil || to.State != event.Pending) {
			all = append(all, due(d.Seq, r.To))
		}
	}
	p.commanded("replay of dead letters", all, n)
}

func (p *pair) dropDead() {
	p.putQueued()
	n, err := p.DropDead(context.Background(), Filter{Destination: 1}, "gone", "tester")
	p.must(err)
	var all []event.Outcome
	for _, d := range p.oldestLetters() {
		if d.Destination == 1 {
			all = append(all, p.command(event.Drop, d.Seq, d.Destination, "gone", "tester"))
		}
	}
	p.commanded("drop of dead letters", all, n)
}

func (p *pair) commanded(what string, all []event.Outcome, n int) {
	p.t.Helper()
	if n != len(all) {
		p.t.Errorf("%s made %d deliveries, want %d", what, n, len(all))
	}
	for _, o := range all {
		p.m.apply(o)
	}
}

// replayEvents replays some events by name, or all of a filter.
func (p *pair) replayEvents() {
	p.putQueued()
	seqs := p.m.seqs()
	if len(seqs) == 0 {
		return
	}
	r, due := p.paced(uint32(max(p.rng.IntN(6)-2, 0)))
	f := p.filter()
	if f.State == event.Duplicate {
		return
	}
	if p.rng.IntN(3) > 0 {
		f = Filter{}
		for range 1 + p.rng.IntN(3) {
			r.IDs = append(r.IDs, p.m.events[seqs[p.rng.IntN(len(seqs))]].ID)
		}
	}
	n, err := p.ReplayEvents(context.Background(), f, r)
	p.must(err)
	list := p.m.list(f)
	slices.Reverse(list)
	var all []event.Outcome
	for _, e := range list {
		if r.IDs != nil && !slices.Contains(r.IDs, e.ID) || !e.First.IsZero() {
			continue
		}
		states := map[uint32]event.State{}
		for _, d := range e.Destinations {
			states[d.Destination] = d.State
			if r.To == 0 && d.State != event.Pending &&
				(f.Destination == 0 || f.Destination == d.Destination) {
				all = append(all, due(e.Seq, d.Destination))
			}
		}
		if r.To != 0 && states[r.To] != event.Pending {
			all = append(all, due(e.Seq, r.To))
		}
	}
	p.commanded(fmt.Sprintf("replay of events %+v %+v", f, r), all, n)
}

func (p *pair) filter() Filter {
	var f Filter
	if p.rng.IntN(3) == 0 {
		f.Source = uint32(1 + p.rng.IntN(3))
	}
	if p.rng.IntN(3) == 0 {
		f.Destination = uint32(1 + p.rng.IntN(3))
	}
	if p.rng.IntN(2) == 0 {
		f.State = event.State(1 + p.rng.IntN(5))
	}
	if p.rng.IntN(3) == 0 {
		f.Since = p.clock.Now().Add(-time.Duration(p.rng.Int64N(int64(20 * time.Hour))))
	}
	if p.rng.IntN(3) == 0 {
		f.Until = p.clock.Now().Add(-time.Duration(p.rng.Int64N(int64(10 * time.Hour))))
	}
	if p.rng.IntN(4) == 0 {
		f.Type = fmt.Sprint(p.rng.IntN(11)) // there is no type 10
	}
	if seqs := p.m.seqs(); p.rng.IntN(5) == 0 && len(seqs) > 0 {
		f.ProviderID = p.m.events[seqs[p.rng.IntN(len(seqs))]].ProviderID
	}
	if seqs := p.m.seqs(); p.rng.IntN(6) == 0 && len(seqs) > 0 {
		f.ID = p.m.events[seqs[p.rng.IntN(len(seqs))]].ID
	}
	return f
}

// pages reads a listing page by page.
func pages[T any](p *pair, f Filter, read func(Filter) (Page[T], error)) (list []T) {
	f.Limit = 1 + p.rng.IntN(10)
	for {
		page, err := read(f)
		p.must(err)
		list = append(list, page.Items...)
		if f.Before = page.Next; f.Before == (Cursor{}) {
			return list
		}
	}
}

func (p *pair) compare() {
	p.t.Helper()
	p.putQueued()
	for range 4 {
		f := p.filter()
		f.Oldest = p.rng.IntN(3) == 0
		same(p.t, fmt.Sprintf("events %+v", f), pages(p, f, p.Events), p.m.list(f))
	}
	same(p.t, "dead letters", pages(p, Filter{}, p.DeadLetters), p.m.letters(Filter{}))
	f := p.filter()
	same(p.t, fmt.Sprintf("dead letters %+v", f), pages(p, f, p.DeadLetters), p.m.letters(f))
	for seq, e := range p.m.events {
		detail, err := p.Event(e.ID)
		p.must(err)
		same(p.t, fmt.Sprintf("history of %d", seq), detail.Attempts, p.m.history(seq))
	}
	p.compareStats()
}

func (p *pair) compareStats() {
	p.t.Helper()
	stats := p.Stats()
	dests := map[uint32]DestinationStats{}
	sources := map[uint32]SourceStats{}
	events := uint64(0)
	for _, e := range p.m.events {
		s := sources[e.Source]
		s.Source = e.Source
		if e.First.IsZero() {
			events++
			s.Accepted++
		} else {
			s.Duplicates++
		}
		sources[e.Source] = s
		for _, d := range e.dests {
			n := dests[d.Destination]
			n.Backlog += count(d.living())
			n.Dead += count(d.letter())
			dests[d.Destination] = n
		}
	}
	if stats.Events != events {
		p.t.Errorf("%d events, want %d", stats.Events, events)
	}
	for _, s := range stats.Sources {
		if s != sources[s.Source] {
			p.t.Errorf("source %+v, want %+v", s, sources[s.Source])
		}
	}
	living := uint64(0)
	for _, d := range stats.Destinations {
		want := dests[d.Destination]
		if d.Backlog != want.Backlog || d.Dead != want.Dead {
			p.t.Errorf("destination %+v, want %+v", d, want)
		}
		living += d.Backlog
	}
	if got := p.Space().Living; got != living {
		p.t.Errorf("%d living deliveries, want %d", got, living)
	}
}

func same[T any](t testing.TB, what string, got, want []T) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d, want %d\n got %.500v\nwant %.500v", what, len(got), len(want),
			fmt.Sprint(got), fmt.Sprint(want))
		return
	}
	for i := range got {
		if !reflect.DeepEqual(plainTimes(got[i]), plainTimes(want[i])) {
			t.Errorf("%s: item %d is\n     %+v, want\n     %+v", what, i, got[i], want[i])
			return
		}
	}
}

// plainTimes makes values comparable: the same instant has several forms in memory.
func plainTimes(v any) string { return fmt.Sprintf("%+v", v) }

func (p *pair) cleanRestart() {
	p.restart()
	p.m.put()
	clear(p.m.leased)
	p.leases = nil
}

func (p *pair) die(kill bool) {
	p.crash(p.rng, kill)
	p.m.lose()
	p.leases = nil
}

func (p *pair) loseIndex() {
	p.must(p.Store.Close())
	p.m.put()
	clear(p.m.leased)
	p.leases = nil
	p.must(index.Remove(p.xfs, "data/index"))
	p.open()
	if !p.Recovery().IndexRebuilt {
		p.t.Errorf("the index is gone and was not built again")
	}
}

// drain delivers everything: nothing may be left behind in any corner of the queues.
func (p *pair) drain() {
	p.t.Helper()
	for _, d := range p.leases {
		p.Unlease(d)
		p.m.unlease(d)
	}
	p.leases = nil
	p.putQueued()
	if n, err := p.DropDead(context.Background(), Filter{}, "", ""); n < 0 || err != nil {
		p.t.Error(err)
	}
	for _, d := range p.oldestLetters() {
		p.m.apply(p.command(event.Drop, d.Seq, d.Destination, "", ""))
	}
	p.clock.advance(1000 * time.Hour)
	for round := 0; ; round++ {
		delivered := 0
		for dest := uint32(1); dest <= 3; dest++ {
			for _, d := range p.Lease(dest, 100, p.clock.Now()) {
				o := p.outcome(d, event.Done, 0)
				p.Finish(o)
				p.m.finish(o)
				delivered++
			}
		}
		p.putQueued()
		if delivered == 0 {
			break
		}
	}
	for _, s := range p.Stats().Destinations {
		if s.Backlog != 0 {
			p.t.Errorf("destination %d has a backlog of %d that is never leased", s.Destination,
				s.Backlog)
		}
	}
	slices.SortFunc(p.leases, func(a, b Delivery) int { return cmp.Compare(a.Seq, b.Seq) })
	p.compare()
}
