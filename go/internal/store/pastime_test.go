package store

import (
	"context"
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
)

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
