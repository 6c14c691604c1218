package journal

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Groups come, are forgotten in any order but for some, and go when memory is full.
func TestTheCacheHoldsTheLastGroupsThatWereNotForgotten(t *testing.T) {
	const seed, size, most = 5, 2 * BlockSize, 40
	rng := rand.New(rand.NewPCG(seed, 1))
	pool := bufPool{keep: 1 << 30}
	c := cache{max: most * size}
	type place struct {
		segment uint64
		begin   int64
	}
	var held []place
	at := place{segment: 1}
	find := func(p place) bool {
		b, buf := c.find(Loc{Segment: p.segment, Offset: p.begin + 64, Length: 64})
		if buf == nil {
			return false
		}
		if len(b) != 64 {
			t.Fatalf("seed %d: %d bytes", seed, len(b))
		}
		buf.Release()
		return true
	}
	for range 5000 {
		if rng.IntN(50) == 0 {
			at = place{segment: at.segment + 1}
		}
		buf, err := pool.get(size)
		if err != nil {
			t.Fatal(err)
		}
		c.add(at.segment, at.begin, size, buf)
		buf.Release()
		held = append(held, at)
		at.begin += size
		for rng.IntN(10) > 0 && len(held) > 1 {
			i := 1 + rng.IntN(len(held)-1) // the first stays until it must go
			c.forget(held[i].segment, held[i].begin)
			if find(held[i]) {
				t.Fatalf("seed %d: %+v is still there", seed, held[i])
			}
			held = append(held[:i], held[i+1:]...)
		}
		if len(held) > most {
			held = held[1:]
		}
		if rng.IntN(200) == 0 {
			c.forget(held[0].segment, held[0].begin)
			held = held[1:]
		}
		for _, p := range held {
			if !find(p) {
				t.Fatalf("seed %d: %+v is gone", seed, p)
			}
		}
		if len(c.groups) > 2*len(held)+2 || c.bytes != int64(len(held))*size {
			t.Fatalf("seed %d: %d places and %d bytes for %d groups", seed, len(c.groups), c.bytes,
				len(held))
		}
	}
	c.clear()
	if pool.freeSize != int64(pool.mapped)*size {
		t.Errorf("%d bytes of %d buffers came back", pool.freeSize, pool.mapped)
	}
	pool.close()
}

// A pool that is full of buffers of one size keeps what another size gives back, and stays within
// its bound.
func TestThePoolFollowsTheSizesThatAreAskedFor(t *testing.T) {
	const small, large = BlockSize, 4 * BlockSize
	pool := bufPool{keep: 2 * large}
	var list []*Buf
	for range 2 * large / small {
		b, err := pool.get(small)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, b)
	}
	for _, b := range list {
		b.Release()
	}
	for round := range 3 {
		var pair [2]*Buf
		for i := range pair {
			b, err := pool.get(large)
			if err != nil {
				t.Fatal(err)
			}
			pair[i] = b
		}
		if round > 0 && (!slices.Contains(list, pair[0]) || !slices.Contains(list, pair[1])) {
			t.Fatalf("round %d maps memory anew", round)
		}
		list = pair[:]
		for _, b := range pair {
			b.Release()
		}
		if pool.freeSize > pool.keep || pool.mapped != 2 {
			t.Fatalf("round %d: %d bytes are kept of %d, in %d buffers", round, pool.freeSize,
				pool.keep, pool.mapped)
		}
	}
	pool.close()
	if pool.mapped != 0 {
		t.Errorf("%d buffers are left", pool.mapped)
	}
}
