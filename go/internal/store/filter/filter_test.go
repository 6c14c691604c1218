package filter

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestAFilterKnowsWhatItHolds(t *testing.T) {
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 1))
		f, held := New(NewBudget(8<<20)), map[uint64]bool{}
		for range 400_000 {
			h := rng.Uint64()
			if !held[h] && f.Has(h) {
				// A false "maybe" is allowed; how often is the next test's matter.
				continue
			}
			f.Add(h, 0)
			held[h] = true
		}
		for h := range held {
			if !f.Has(h) {
				t.Fatalf("seed %d: key %#x is lost", seed, h)
			}
		}
		if f.Len() != len(held) {
			t.Errorf("seed %d: length %d, held %d", seed, f.Len(), len(held))
		}
	}
}

func TestFalseHitsAreFew(t *testing.T) {
	const seed = 2
	rng := rand.New(rand.NewPCG(seed, 2))
	f := New(NewBudget(64 << 20))
	const looks = 200_000
	for _, keys := range []int{KeysIn(firstBytes), 200_000, 1_000_000, 3_000_000} {
		for f.Len() < keys {
			f.Add(rng.Uint64(), 0)
		}
		hits := 0
		for range looks {
			if f.Has(rng.Uint64()) {
				hits++
			}
		}
		if hits > looks/2000 {
			t.Errorf("seed %d: %d keys in %d chunks: %d false hits of %d looks, want at most %d",
				seed, keys, len(f.chunks), hits, looks, looks/2000)
		}
		perKey := float64(f.Bytes()*8) / float64(keys)
		if keys > 50_000 && perKey > (growth+1)*bitsPerKey {
			t.Errorf("%d keys take %.1f bits each", keys, perKey)
		}
	}
}

// A key is looked for in the parts of the chunks that may hold it, and in few others.
func TestAFilterNarrowsTheParts(t *testing.T) {
	const seed, parts, partKeys = 5, 60, 20_000
	rng := rand.New(rand.NewPCG(seed, 5))
	f, partOf := New(NewBudget(64<<20)), map[uint64]uint16{}
	for n := range parts * partKeys {
		h := rng.Uint64()
		partOf[h] = uint16(n / partKeys)
		f.Add(h, partOf[h])
	}
	defer f.Release()
	asked := 0
	for h, part := range partOf {
		found := false
		for first, last := range f.Stretches(h) {
			found = found || first <= part && part <= last
			asked += int(last) - int(first) + 1
		}
		if !found {
			t.Fatalf("seed %d: key %#x of part %d is not in its parts", seed, h, part)
		}
	}
	if most := len(partOf) * parts * 3 / 4; asked > most {
		t.Errorf("seed %d: %d parts are asked for %d keys in %d parts, want at most %d", seed, asked,
			len(partOf), parts, most)
	}
	blind := New(NewBudget(0))
	blind.Add(1, 7)
	for first, last := range blind.Stretches(2) {
		if first > 7 || last < 7 {
			t.Errorf("a filter without memory names parts %d to %d, its key is in 7", first, last)
		}
		return
	}
	t.Error("a filter without memory names no part")
}

func TestMemoryIsBounded(t *testing.T) {
	const seed = 3
	rng := rand.New(rand.NewPCG(seed, 3))
	budget := NewBudget(firstBytes * 6)
	f := New(budget)
	var keys []uint64
	for range 20 * KeysIn(firstBytes) {
		keys = append(keys, rng.Uint64())
		f.Add(keys[len(keys)-1], 0)
	}
	if want := int64(firstBytes * 5); f.Bytes() != want {
		t.Errorf("%d bytes are taken, want %d", f.Bytes(), want)
	}
	for _, h := range keys {
		if !f.Has(h) {
			t.Fatalf("seed %d: key %#x is lost", seed, h)
		}
	}
	second, blind := New(budget), New(budget)
	second.Add(1, 0) // takes the rest
	blind.Add(1, 0)
	if second.Bytes() != firstBytes || blind.Bytes() != 0 {
		t.Errorf("%d and %d bytes", second.Bytes(), blind.Bytes())
	}
	if !blind.Has(1) || !blind.Has(2) {
		t.Error("a filter without memory says no")
	}
	if !budget.Short() {
		t.Error("a budget that refused memory does not say so")
	}
	f.Release()
	second.Release()
	if budget.Short() {
		t.Error("memory came back, and the budget is short still")
	}
	if left := budget.Left(); left != firstBytes*6 {
		t.Errorf("%d bytes came back of %d", left, firstBytes*6)
	}
	if blind.Add(1, 0); !blind.Has(2) {
		t.Error("a filter that missed a key says no")
	}
}

func BenchmarkFilter(b *testing.B) {
	for _, keys := range []int{1_000_000, 20_000_000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(4, 4))
			f := New(NewBudget(1 << 30))
			for range keys {
				f.Add(rng.Uint64(), 0)
			}
			hits := 0
			b.ResetTimer()
			for range b.N {
				if f.Has(rng.Uint64()) {
					hits++
				}
			}
			b.ReportMetric(float64(hits)/float64(b.N), "hits/op")
		})
	}
}
