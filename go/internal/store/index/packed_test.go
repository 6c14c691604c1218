package index

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"sluice/go/internal/event"
)

// eventModel is what an index knows of events, in a map.
type eventModel struct {
	events map[event.Seq]Record
}

func (m *eventModel) note(r *Record) {
	kept := *r
	kept.Deliveries = slices.Clone(r.Deliveries)
	m.events[r.Seq] = kept
}

func (m *eventModel) list(from, before event.Seq, backwards bool) (seqs []event.Seq) {
	for seq := range m.events {
		if seq >= from && seq < before {
			seqs = append(seqs, seq)
		}
	}
	slices.SortFunc(seqs, func(a, b event.Seq) int {
		if backwards {
			return cmp.Compare(b, a)
		}
		return cmp.Compare(a, b)
	})
	return seqs
}

func endedRecord(seq event.Seq, repeats bool) *Record {
	r := pendingRecord(seq)
	r.Deliveries = nil
	if repeats {
		r.First = event.ID{7}
	}
	return r
}

func same(t *testing.T, seed uint64, got, want *Record) {
	t.Helper()
	if got == nil || got.ID != want.ID || got.Loc != want.Loc || got.First != want.First ||
		got.State() != want.State() || len(got.Deliveries) != len(want.Deliveries) {
		t.Fatalf("seed %d: event %d is %+v, want %+v", seed, want.Seq, got, want)
	}
}

// Events that ended when they came, and others between them, in groups of any size; some of both
// change; the index is committed, opened again and trimmed at any time.
func TestPackedRowsHoldWhatWasPut(t *testing.T) {
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 3))
		fs := vfs.NewMem()
		x := open(t, fs)
		m := eventModel{events: map[event.Seq]Record{}}
		group := uint64(0)
		for range 30 {
			group++
			for i := range rng.IntN(400) {
				seq := event.NewSeq(group, i)
				switch roll := rng.IntN(100); {
				case roll < 4 && seed%3 != 0: // seeds without have long rows
					r := pendingRecord(seq)
					x.Change(r)
					m.note(r)
				case roll < 6: // a frame that is no event
				default:
					r := endedRecord(seq, rng.IntN(10) == 0)
					x.AddEnded(r)
					m.note(r)
				}
			}
			if rng.IntN(4) == 0 {
				m.move(t, x, rng)
			}
			if rng.IntN(2) == 0 {
				must(t, x.Commit())
				m.check(t, x, rng, seed)
			}
			if rng.IntN(20) == 0 {
				must(t, x.Commit())
				must(t, x.Close())
				x = open(t, fs)
			}
			if rng.IntN(15) == 0 {
				must(t, x.Commit())
				last := rng.Uint64N(group)
				_, _, err := x.Trim(last, nil)
				must(t, err)
				for seq, r := range m.events {
					if seq.Group() <= last && !r.Needed() {
						delete(m.events, seq)
					}
				}
			}
		}
		must(t, x.Commit())
		m.check(t, x, rng, seed)
		must(t, x.Close())
	}
}

// move gives events of the last groups other places, as a group that is written again does.
func (m *eventModel) move(t *testing.T, x *Index, rng *rand.Rand) {
	all := m.list(0, maxSeq, true)
	for _, seq := range all[:min(len(all), rng.IntN(700))] {
		if rng.IntN(3) == 0 {
			continue
		}
		r, err := x.Load(seq)
		must(t, err)
		if r == nil {
			t.Fatalf("event %d is gone", seq)
		}
		r.Loc.Offset += 64
		x.Change(r)
		m.note(r)
	}
}

func (m *eventModel) check(t *testing.T, x *Index, rng *rand.Rand, seed uint64) {
	t.Helper()
	all := m.list(0, maxSeq, false)
	if len(all) == 0 {
		return
	}
	for range 30 {
		seq := all[rng.IntN(len(all))]
		want := m.events[seq]
		got, err := x.Get(seq)
		must(t, err)
		same(t, seed, got, &want)
		got, err = x.Find(want.ID)
		must(t, err)
		same(t, seed, got, &want)
		if _, held := m.events[seq+1]; !held {
			if got, err := x.Get(seq + 1); got != nil || err != nil {
				t.Fatalf("seed %d: event %d is %+v, %v", seed, seq+1, got, err)
			}
		}
	}
	for range 3 {
		from := all[rng.IntN(len(all))] + event.Seq(rng.IntN(3)) - 1
		before := all[rng.IntN(len(all))] + event.Seq(rng.IntN(3)) - 1
		if rng.IntN(4) == 0 {
			from, before = 0, maxSeq
		}
		for _, backwards := range []bool{false, true} {
			var got []event.Seq
			more, err := x.records(from, before, backwards, func(r *Record) bool {
				want := m.events[r.Seq]
				same(t, seed, r, &want)
				got = append(got, r.Seq)
				return true
			})
			must(t, err)
			if want := m.list(from, before, backwards); !more || !slices.Equal(got, want) {
				t.Fatalf("seed %d: [%d, %d) backwards %v: %d events, want %d", seed, from, before,
					backwards, len(got), len(want))
			}
		}
	}
	repeats := 0
	for _, r := range m.events {
		if r.State() == event.Duplicate {
			repeats++
		}
	}
	must(t, x.Events(Query{State: event.Duplicate}, func(r *Record) bool {
		repeats--
		return true
	}))
	if repeats != 0 {
		t.Fatalf("seed %d: the list of duplicates is %d short", seed, repeats)
	}
}

func TestManyEndedEventsShareARow(t *testing.T) {
	x := open(t, vfs.NewMem())
	const events = 1000
	for i := range events {
		x.AddEnded(endedRecord(event.NewSeq(1, i), false))
	}
	must(t, x.Commit())
	if n := rows(t, x)["e"]; n > events/100 {
		t.Errorf("%d rows for %d events", n, events)
	}
	// One that changes takes the others of its row with it into rows of their own.
	r, err := x.Load(event.NewSeq(1, 500))
	must(t, err)
	r.Loc.Offset = 64
	x.Change(r)
	must(t, x.Commit())
	n := 0
	_, err = x.records(0, maxSeq, false, func(r *Record) bool {
		n++
		return true
	})
	must(t, err)
	if n != events {
		t.Errorf("%d events are left of %d", n, events)
	}
	must(t, x.Close())
}

func TestADamagedPackedRowIsNamed(t *testing.T) {
	row := []byte{packedVersion}
	for i := range uint64(3) {
		r := endedRecord(event.NewSeq(1, int(i)), false)
		row = appendPacked(row, i, appendRecord(nil, r))
	}
	if list, err := unpack(nil, event.NewSeq(1, 0), row); err != nil || len(list) != 3 {
		t.Fatalf("%d events, %v", len(list), err)
	}
	for n := 2; n < len(row); n++ {
		list, err := unpack(nil, event.NewSeq(1, 0), row[:n])
		if err == nil && len(list) == 3 {
			t.Fatalf("%d of %d bytes read as all events", n, len(row))
		}
	}
}
