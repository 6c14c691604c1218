package journal

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"sluice/go/internal/event"
	"sluice/go/internal/store/vfs"
)

// What a life says while it runs, noted in the record of its file system.
type (
	offered      []uint64 // tags that are about to be appended
	acknowledged struct {
		group uint64
		tags  []uint64
	}
	dropped struct{ upTo uint64 } // groups that may be gone from now on
)

// promises are what a recovery has to hold to.
type promises struct {
	offered  map[uint64]bool
	groups   map[uint64][]uint64
	last     uint64
	dropped  uint64
	position uint64 // end of what was acknowledged of the lane
}

func promisesOf(notes []any) *promises {
	p := &promises{offered: map[uint64]bool{}, groups: map[uint64][]uint64{}}
	return p.and(notes)
}

// and adds later notes.
func (p *promises) and(notes []any) *promises {
	next := *p
	next.offered, next.groups = maps.Clone(p.offered), maps.Clone(p.groups)
	next.add(notes)
	return &next
}

func (p *promises) add(notes []any) {
	for _, n := range notes {
		switch n := n.(type) {
		case offered:
			for _, tag := range n {
				p.offered[tag] = true
			}
		case acknowledged:
			p.groups[n.group] = n.tags
			p.last = n.group
			for _, tag := range n.tags {
				p.position = max(p.position, tag+1)
			}
		case dropped:
			p.dropped = n.upTo
		}
	}
}

// drill is a few lives of a journal on a recorded file system.
type drill struct {
	t      testing.TB
	dir    string // instead of dir
	seed   uint64
	rng    *rand.Rand
	rec    *vfs.Recorder
	faulty *vfs.Faulty
	clock  *wallClock
	direct bool
	opens  uint64
	tag    uint64
	j      *Journal
}

func (d *drill) options(fs vfs.FS, seed uint64) Options {
	d.faulty = vfs.NewFaulty(fs, d.clock.Now, nil)
	if !d.direct {
		bufferedOnly(d.t, d.faulty)
	}
	o := options(d.faulty, d.clock, seed)
	o.SegmentSize = 20 << 10
	if d.dir != "" {
		o.Dir = d.dir
	}
	return o
}

func (d *drill) open() {
	d.t.Helper()
	d.opens++
	j, _ := settled(d.t, d.options(d.rec, d.seed<<16+d.opens))
	d.j = j
}

func (d *drill) append() {
	n := 1 + d.rng.IntN(3)
	var tags offered
	for range n {
		d.tag++
		tags = append(tags, d.tag)
	}
	b := tagBatch(d.t, tags...)
	if d.rng.IntN(4) == 0 {
		b.Frames[0] = eventFrame(d.t, tags[0], 1+d.rng.IntN(9000))
	}
	if d.rng.IntN(4) == 0 {
		b.Outcomes = []event.Outcome{{Seq: 1, Kind: event.Done, At: 1, Err: "text"}}
	}
	if d.rng.IntN(6) == 0 {
		b.Config = fmt.Appendf(nil, `{"config_version":%d}`, d.tag)
	}
	d.rec.Note(tags)
	for try := 0; ; try++ {
		g, err := d.j.Append(b)
		if err == nil {
			d.rec.Note(acknowledged{g.Number, tags})
			g.Release()
			return
		}
		if !errors.Is(err, ErrUnwritable) || try == 12 { // two faults may be armed
			d.t.Fatalf("seed %d: append: %v", d.seed, err)
		}
	}
}

func (d *drill) drop() {
	s := d.j.Segments()
	if len(s) < 3 {
		return
	}
	d.rec.Note(dropped{s[0].LastGroup})
	if err := d.j.Drop(s[0].Number); err != nil {
		d.t.Fatalf("seed %d: drop: %v", d.seed, err)
	}
}

// run is the lives: what a control plane does, in an order drawn from the seed.
func (d *drill) run(steps int) {
	d.open()
	for range steps {
		switch n := d.rng.IntN(20); n {
		case 0:
			_ = d.j.Close()
			d.open()
		case 1:
			abandon(d.j)
			d.open()
		case 2:
			d.clock.now = d.clock.now.Add(IdleAfter)
			_, _ = d.j.Idle()
		case 3, 4:
			_ = d.j.Prepare()
		case 5, 6:
			d.drop()
		case 7:
			_ = d.j.Reclaim()
		case 8, 9:
			ioError(d.t, d.faulty, []string{"journal.write", "journal.sync"}[n-8],
				1+d.rng.IntN(3))
		default:
			d.append()
		}
	}
}

// recovered opens what a power cut left, compares it with the promises, and makes one more, which
// is noted if fs is a record.
func (d *drill) recovered(fs vfs.FS, p *promises) error {
	o := d.options(fs, d.rng.Uint64())
	// An index, and an honest disk, would have known the last acknowledged group.
	o.Witness.IndexGroup = p.last
	j, r, err := Open(o)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer abandon(j)
	if len(r.Damage) > 0 || len(r.Foreign) > 0 || len(r.Kept) > 0 {
		return fmt.Errorf("false alarm: %+v", r)
	}
	if err := j.Settle(); err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	groups := map[uint64][]uint64{}
	place := map[uint64]uint64{}
	last := uint64(0)
	if err := j.Replay(0, func(g *Group) error {
		if g.Number <= last {
			return fmt.Errorf("group %d after %d", g.Number, last)
		}
		last = g.Number
		for _, f := range g.Frames {
			if f.Kind != KindEvent {
				continue
			}
			tag := tagOf(f.Bytes)
			if first, twice := place[tag]; twice || f.Damaged || !p.offered[tag] {
				return fmt.Errorf("event %d of group %d: in group %d too: %v, damaged: %v, "+
					"was offered: %v", tag, g.Number, first, twice, f.Damaged, p.offered[tag])
			}
			place[tag] = g.Number
			groups[g.Number] = append(groups[g.Number], tag)
		}
		return nil
	}); err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	for number, tags := range p.groups {
		if number > p.dropped && !slices.Equal(groups[number], tags) {
			return fmt.Errorf("group %d was acknowledged with %v and holds %v", number, tags,
				groups[number])
		}
	}
	to := r.Lanes[laneOf(1)]
	if to < p.position {
		return fmt.Errorf("the lane ends at %d, acknowledged up to %d", to, p.position)
	}
	note := func(any) {}
	if rec, ok := fs.(*vfs.Recorder); ok {
		note = rec.Note
	}
	d.tag = max(d.tag+1, to)
	more := offered{d.tag}
	note(more)
	g, err := j.Append(tagBatch(d.t, more...))
	if err != nil {
		return fmt.Errorf("append: %w", err)
	}
	note(acknowledged{g.Number, more})
	g.Release()
	if d := j.Damage(); len(d) > 0 {
		return fmt.Errorf("false alarm: %v", d)
	}
	return nil
}

// recoveredTwice ends a recovery, at any moment of it, by a kill and by power cuts, and now and
// then the one that follows as well.
func (d *drill) recoveredTwice(fs *vfs.Mem, p *promises, depth int) (recoveries int, err error) {
	rec := vfs.Record(fs)
	if err := d.recovered(rec, p); err != nil || depth == 0 {
		return 1, err
	}
	recoveries = 1
	for cut := range rec.Cuts() {
		known := p.and(cut.Notes())
		states := slices.AppendSeq([]*vfs.Mem{cut.Killed()}, cut.States(d.rng, 2))
		for i, state := range states {
			deeper, chance := 0, 60
			if i == 0 {
				chance = 4 // what is in the page cache alone is the better trap
			}
			if d.rng.IntN(chance) == 0 {
				deeper = depth - 1
			}
			n, err := d.recoveredTwice(state, known, deeper)
			if recoveries += n; err != nil {
				return recoveries, fmt.Errorf("after a cut in the recovery:\n%v%w", cut, err)
			}
		}
	}
	return recoveries, nil
}

func drillSeeds(t testing.TB, short int) []uint64 {
	if text := os.Getenv("SLUICE_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return []uint64{seed}
	}
	if soak() {
		short *= 100
	}
	var list []uint64
	for seed := range short {
		list = append(list, uint64(seed)+1)
	}
	return list
}

func newDrill(t testing.TB, seed uint64) *drill {
	mem := vfs.NewMem()
	mem.Seed(seed)
	return &drill{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 0x63757473)),
		rec: vfs.Record(mem), clock: newClock(), direct: seed%2 == 0}
}

// Every state that a power cut can leave, at every moment between two calls of the journal to the
// file system, and again in the recovery from it.
func Test_a_power_cut_at_any_moment_loses_nothing_acknowledged(t *testing.T) {
	const statesMost = 16
	cuts, states, nested := 0, 0, 0
	for _, seed := range drillSeeds(t, 3) {
		d := newDrill(t, seed)
		d.run(40)
		for cut := range d.rec.Cuts() {
			p := promisesOf(cut.Notes())
			cuts++
			fail := func(err error) {
				t.Fatalf("seed %d, cut %d:\n%v%v", seed, cut.At, cut, err)
			}
			if err := d.recovered(cut.Killed(), p); err != nil {
				fail(fmt.Errorf("killed: %w", err))
			}
			for state := range cut.States(d.rng, statesMost) {
				states++
				if d.rng.IntN(300) == 0 {
					n, err := d.recoveredTwice(state, p, 2)
					if nested += n; err != nil {
						fail(err)
					}
				} else if err := d.recovered(state, p); err != nil {
					fail(err)
				}
			}
		}
	}
	t.Logf("%d cuts, %d states, %d recoveries that followed a cut in one", cuts, states, nested)
}
