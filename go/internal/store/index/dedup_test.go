package index

import (
	"context"
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"sluice/go/internal/event"
)

type dedupModelKey struct {
	source uint32
	key    [16]byte
}

// dedupModel is what an index knows of windows, in a map.
type dedupModel struct {
	windows map[dedupModelKey]map[uint32]Dedup // by day
	horizon int64
}

func (m *dedupModel) lookup(source uint32, key [16]byte, received int64) (best Dedup) {
	for day, d := range m.windows[dedupModelKey{source, key}] {
		if d.Until > received && int64(day) >= m.horizon/dayNS-1 &&
			(best.Until == 0 || d.Until < best.Until) {
			best = d
		}
	}
	return best
}

func (m *dedupModel) add(d Dedup) {
	k := dedupModelKey{d.Source, d.Key}
	if m.windows[k] == nil {
		m.windows[k] = map[uint32]Dedup{}
	}
	m.windows[k][dayOf(d.Until)] = d
}

func (m *dedupModel) clone() dedupModel {
	c := dedupModel{windows: map[dedupModelKey]map[uint32]Dedup{}, horizon: m.horizon}
	for k, days := range m.windows {
		c.windows[k] = maps.Clone(days)
	}
	return c
}

// Keys come again and again over days, with windows of hours and of days. The index is committed,
// and opened again with its filters loaded, not loaded, and loading beside the writer.
func TestDedupDecidesLikeAMap(t *testing.T) {
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 9))
		fs := vfs.NewCrashableMem()
		reopened := func() *Index {
			x := open(t, fs)
			x.partKeys, x.keepBytes = 150, 1
			return x
		}
		x := reopened()
		m := dedupModel{windows: map[dedupModelKey]map[uint32]Dedup{}, horizon: 2000 * dayNS}
		flushed := m.clone()
		var loading sync.WaitGroup
		stop, parted, kept := func() {}, false, false
		for n := range uint64(5000) {
			m.horizon += rng.Int64N(dayNS / 500)
			x.Meta().Horizon = m.horizon
			received := m.horizon - rng.Int64N(dayNS/2)
			d := Dedup{Source: uint32(1 + rng.IntN(2)), Until: received + 1 + rng.Int64N(4*dayNS)}
			binary.LittleEndian.PutUint64(d.Key[5:], rng.Uint64N(700))
			binary.LittleEndian.PutUint64(d.First[:], n+1)
			got, ok, err := x.LookupDedup(d.Source, d.Key, received)
			must(t, err)
			if want := m.lookup(d.Source, d.Key, received); got != want || ok != (want.Until != 0) {
				t.Fatalf("seed %d: key %d: found %+v, want %+v", seed, n, got, want)
			}
			if !ok {
				x.AddDedup(d)
				m.add(d)
			}
			switch rng.IntN(400) {
			case 0, 1, 2, 3, 4, 5, 6, 7:
				must(t, x.Commit())
			case 8:
				must(t, x.Commit())
				must(t, x.db.Flush())
				flushed = m.clone()
			case 9, 10, 11, 12:
				for _, b := range x.buckets {
					parted, kept = parted || b.Part > 0, kept || len(b.Kept) > 0
				}
				stop()
				loading.Wait()
				if rng.IntN(2) == 0 {
					must(t, x.Commit())
					must(t, x.Close())
					flushed = m.clone()
				} else { // what was not flushed comes again, other than before
					crashed := fs.CrashClone(vfs.CrashCloneCfg{
						UnsyncedDataPercent: 30, RNG: rng,
					})
					must(t, x.Abandon())
					fs, m = crashed, flushed.clone()
				}
				x = reopened()
				var ctx context.Context
				ctx, stop = context.WithCancel(context.Background())
				switch opened := x; rng.IntN(3) {
				case 0:
					must(t, x.LoadFilters(ctx))
				case 1:
					loading.Go(func() {
						if err := opened.LoadFilters(ctx); err != nil && ctx.Err() == nil {
							t.Error(err)
						}
					})
				}
			}
		}
		if !parted || !kept {
			t.Errorf("seed %d: a day with a second part: %v, a kept filter: %v", seed, parted, kept)
		}
		stop()
		loading.Wait()
		must(t, x.Close())
	}
}

func TestALoadedFilterSparesReads(t *testing.T) {
	fs := vfs.NewMem()
	x := open(t, fs)
	x.Meta().Horizon = 2000 * dayNS
	key := func(n uint64) (key [16]byte) {
		binary.LittleEndian.PutUint64(key[:], n)
		return key
	}
	const keys = 5000
	for n := range uint64(keys) {
		x.AddDedup(Dedup{Source: 1, Key: key(n), First: event.ID{1}, Until: 2001 * dayNS})
	}
	must(t, x.Commit())
	must(t, x.Close())
	x = open(t, fs)
	asks := func() (n int) {
		for i := range uint64(keys) {
			k := key(keys + i)
			for _, b := range x.buckets {
				if b.has(hashKey(1, &k)) {
					n++
				}
			}
		}
		return n
	}
	if n := asks(); n != keys {
		t.Errorf("before its filter is loaded %d of %d lookups ask rows", n, keys)
	}
	must(t, x.LoadFilters(context.Background()))
	if n := asks(); n > keys/100 {
		t.Errorf("%d of %d lookups of unknown keys ask rows", n, keys)
	}
	for n := range uint64(keys) {
		if _, ok, err := x.LookupDedup(1, key(n), 2000*dayNS); !ok || err != nil {
			t.Fatalf("key %d is lost: %v", n, err)
		}
	}
	must(t, x.Close())
}

func TestADayThatPassedGivesItsMemoryBack(t *testing.T) {
	fs := vfs.NewMem()
	x := open(t, fs)
	fill := func(day int64) {
		x.Meta().Horizon = day * dayNS
		for n := range uint64(100) {
			d := Dedup{Source: 1, First: event.ID{1}, Until: (day+1)*dayNS + 1}
			binary.LittleEndian.PutUint64(d.Key[:], n+uint64(day)<<32)
			x.AddDedup(d)
		}
		must(t, x.Commit())
	}
	used := func() int64 { return FilterBytes - x.budget.Left() }
	fill(2000)
	one := used()
	for day := int64(2001); day < 2020; day++ {
		fill(day)
	}
	if n := len(x.buckets); n > 3 {
		t.Errorf("%d days are kept", n)
	}
	if used() > 3*one {
		t.Errorf("%d bytes are taken, a day takes %d", used(), one)
	}
	if n := rows(t, x)["k"]; n > 300 {
		t.Errorf("%d dedup rows are left", n)
	}
	must(t, x.Close())
	x = open(t, fs)
	must(t, x.LoadFilters(context.Background()))
	fill(2030) // all that was loaded is past
	if used() != one {
		t.Errorf("%d bytes are taken, want %d", used(), one)
	}
	must(t, x.Close())
}
