package gaps

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"sluice/go/internal/store/vfs"
)

func seedOf(t testing.TB) uint64 {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("SLUICE_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		must(t, err)
	}
	t.Logf("SLUICE_SEED=%d", seed)
	return seed
}

type totals map[pair]uint64

// world is a ledger under random treatment, with what was really refused.
type world struct {
	*desk
	random *rand.Rand
	planes []*fake
	last   uint32 // generation
	// totals and ids are what was refused, whether anybody has looked or not.
	totals totals
	ids    map[pair]map[string]bool
	when   map[pair][]time.Time // those that a look has to cover
	set    bool                 // the clock was set since the last look
	reset  bool                 // and since the last look that was saved
	fails  bool                 // the disk does
	// saved are ledgers that the disk may hold: the last one that it took, and those that it may
	// have taken since.
	saved []totals
	// buried: a data plane died since the last save, so its last refusals are in memory only.
	buried bool
}

func TestTheLedgerHoldsExactlyWhatWasRefusedWhateverHappens(t *testing.T) {
	seed := seedOf(t)
	rounds, steps := 12, 400
	if os.Getenv("SLUICE_SOAK") != "" {
		rounds, steps = 60, 1000
	}
	kinds := map[string]int{}
	for round := range rounds {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			sizes := []bounds{{gaps: 3, ids: 8, idsPerGap: 4}, {gaps: 40, ids: 100, idsPerGap: 20}, {}}
			w := &world{
				desk: newDesk(t, sizes[round%3]), random: rand.New(rand.NewPCG(seed, uint64(round))),
				totals: totals{}, ids: map[pair]map[string]bool{}, when: map[pair][]time.Time{},
				saved: []totals{{}},
			}
			w.mem.Seed(seed + uint64(round))
			for range steps {
				kinds[w.step()]++
				w.check()
			}
			w.lookAtAll()
		})
	}
	t.Logf("%v", kinds)
}

func (w *world) step() string {
	switch n := w.random.IntN(100); {
	case n < 50:
		w.refuse()
		return "refuse"
	case n < 75:
		w.lookAtAll()
		return "look"
	case n < 83:
		w.saveIt()
		return "save"
	case n < 85:
		w.lookAtAll()
		w.set, w.reset = true, true
		w.now = w.now.Add(time.Duration(w.random.Int64N(int64(4*time.Hour))) - 2*time.Hour)
		return "clock set"
	case n < 89:
		w.bear()
		return "born"
	case n < 92:
		w.die()
		return "died"
	case n < 94:
		w.fails = !w.fails
		w.faulty.Clear("")
		if w.fails {
			must(w.t, w.faulty.Set("all", vfs.Fault{
				Op: vfs.OpAll, Err: syscall.EIO, After: w.random.IntN(6),
			}))
		}
		return "disk"
	case n < 98:
		w.again()
		return "killed"
	default:
		w.powerCut()
		return "power cut"
	}
}

func (w *world) bear() {
	if len(w.planes) > 3 {
		return
	}
	w.last++
	p := newFake(w.t, w.last, 1+w.random.IntN(2), w.now)
	w.planes = append(w.planes, p)
	w.Attach(p.plane())
}

// refuse has a data plane refuse some requests; as in life, some have a known id.
func (w *world) refuse() {
	if len(w.planes) == 0 {
		w.bear()
	}
	p := w.planes[w.random.IntN(len(w.planes))]
	w.now = w.now.Add(time.Duration(w.random.IntN(3000)) * time.Millisecond)
	all := slices.Sorted(maps.Keys(words))
	for range 1 + w.random.IntN(5) {
		slot, reason := w.random.IntN(testSources-1), all[w.random.IntN(len(all))]
		worker := w.random.IntN(p.workers)
		source, _ := names(slot)
		name, _ := reasonOf(uint16(reason))
		of := pair{source, name}
		w.totals[of]++
		if !w.set {
			w.when[of] = append(w.when[of], w.now)
		}
		if w.random.IntN(3) == 0 {
			p.count(worker, slot, reason, 1)
			continue
		}
		id := fmt.Sprint("evt_", w.random.IntN(20))
		p.refuse(worker, slot, reason, id)
		if w.ids[of] == nil {
			w.ids[of] = map[string]bool{}
		}
		w.ids[of][id] = true
	}
}

func (w *world) lookAtAll() {
	w.look(time.Duration(w.random.IntN(2000)) * time.Millisecond)
	w.looked()
}

// looked holds the ledger against all that was refused.
func (w *world) looked() {
	w.t.Helper()
	w.set = false
	if got := w.sums(); !maps.Equal(got, w.totals) {
		w.t.Fatalf("the ledger has %v, %v were refused", got, w.totals)
	}
	list := w.List(Filter{})
	for of, times := range w.when {
		for _, at := range times {
			if !slices.ContainsFunc(list, func(g Gap) bool {
				return of == pair{g.Source, g.Reason} && !at.Before(g.From) && !at.After(g.To)
			}) {
				w.t.Fatalf("one of %v was refused at %v, which is in no gap", of, at)
			}
		}
	}
}

func (w *world) sums() totals {
	sums := totals{}
	for _, g := range w.List(Filter{}) {
		sums[pair{g.Source, g.Reason}] += g.Count
	}
	return sums
}

// check is for what holds at any time.
func (w *world) check() {
	w.t.Helper()
	list := w.List(Filter{})
	ids := 0
	for _, g := range list {
		of := pair{g.Source, g.Reason}
		sorted := slices.Sorted(slices.Values(g.IDs))
		if g.From.After(g.To) || g.Count == 0 || g.Unnamed > g.Count ||
			g.Count-g.Unnamed < uint64(len(g.IDs)) || len(g.IDs) == 0 && g.Unnamed != g.Count ||
			len(slices.Compact(sorted)) != len(g.IDs) || len(g.IDs) > w.o.bounds.idsPerGap {
			w.t.Fatalf("a gap is %+v", g)
		}
		for _, id := range g.IDs {
			if !w.ids[of][id] {
				w.t.Fatalf("%s of %v was never refused", id, of)
			}
		}
		ids += len(g.IDs)
	}
	if len(w.gaps) > w.o.bounds.gaps || ids > w.o.bounds.ids || ids != w.Ledger.ids ||
		len(list) != w.Len() {
		w.t.Fatalf("%d single gaps and %d more with %d ids, counted as %d",
			len(w.gaps), len(w.coarse), ids, w.Ledger.ids)
	}
}

func (w *world) saveIt() {
	now := w.sums()
	w.save(true) // as each life does first: what it found may not be durable
	if w.failing {
		w.saved = append(w.saved, now)
		return
	}
	w.saved, w.buried, w.reset = []totals{now}, false, w.set
}

func (w *world) die() {
	if len(w.planes) == 0 {
		return
	}
	i := w.random.IntN(len(w.planes))
	w.Detach(w.planes[i].generation, true)
	w.planes = slices.Delete(w.planes, i, i+1)
	w.buried = true
}

// again is another life of the control plane, some data planes having died meanwhile.
func (w *world) again() {
	w.fails = false
	w.kill()
	w.now = w.now.Add(time.Duration(w.random.IntN(60)) * time.Second)
	for range w.random.IntN(3) {
		if len(w.planes) > 0 {
			w.refuse()
		}
	}
	dead := map[uint32]bool{}
	for _, p := range w.planes {
		w.Attach(p.plane())
		dead[p.generation] = w.random.IntN(4) == 0
		w.Detach(p.generation, false)
	}
	w.planes = slices.DeleteFunc(w.planes, func(p *fake) bool { return dead[p.generation] })
	w.Forget(func(generation uint32) bool { return !dead[generation] })
	for _, p := range w.planes {
		w.Attach(p.plane())
	}
	if w.buried {
		// The last words of a data plane were in memory only. Nothing else may be missing.
		sums := w.sums()
		for of, n := range sums {
			if n > w.totals[of] {
				w.t.Fatalf("%d refusals of %v, %d were there", n, of, w.totals[of])
			}
		}
		w.totals = sums
		clear(w.when)
	}
	if w.reset { // between the look that was saved and now: which times that covers is not known
		clear(w.when)
	}
	w.looked()
	w.buried = true // what died while nobody looked is in memory only, too
	w.saved = append(w.saved, w.sums())
	w.saveIt()
}

// powerCut ends all processes; the disk has one of the ledgers that it was given.
func (w *world) powerCut() {
	w.mem = w.mem.Crash(w.random)
	w.boot++
	w.fails, w.planes, w.last = false, nil, 0
	w.open()
	sums := w.sums()
	if !slices.ContainsFunc(w.saved, func(s totals) bool { return maps.Equal(s, sums) }) {
		w.t.Fatalf("the disk has %v, which is none of %d that it was given", sums, len(w.saved))
	}
	if len(w.Ledger.planes) != 0 {
		w.t.Fatalf("data planes of another boot: %v", w.Ledger.planes)
	}
	w.totals, w.saved, w.buried = sums, []totals{maps.Clone(sums)}, false
	clear(w.when)
}
