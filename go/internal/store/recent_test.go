package store

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"

	"sluice/go/internal/event"
)

func recentKeyOf(n uint64) (k recentKey) {
	k.source = uint32(n % 3)
	binary.LittleEndian.PutUint64(k.key[3:], n)
	return k
}

func (r *recent) addAlone(k recentKey, id event.ID, until, received int64) {
	one := [1]freshKey{{k, recentEvent{id, until}, received}}
	r.addAll(one[:])
}

// The set may forget; what it says must be the last that was put in.
func TestTheRecentSetSaysNothingWrong(t *testing.T) {
	const seed = 1
	rng := rand.New(rand.NewPCG(seed, 1))
	var r recent
	if _, ok := r.known(recentKeyOf(1), 0); ok {
		t.Fatal("an empty set knows a key")
	}
	want := map[recentKey]recentEvent{}
	for n := range uint64(600_000) {
		k := recentKeyOf(rng.Uint64N(800_000))
		e := recentEvent{id: event.ID{15: 1}, until: 1 + rng.Int64N(1000)}
		binary.LittleEndian.PutUint64(e.id[:], n)
		received := rng.Int64N(1000)
		switch before, ok := want[k]; {
		case rng.IntN(10) == 0:
			r.put(k, e)
			want[k] = e
		default:
			knew, knows := r.known(k, received)
			r.addAlone(k, e.id, e.until, received)
			if knows && (knew != before.id || before.until <= received) {
				t.Fatalf("seed %d: before %d: %v, want %v", seed, n, knew, before)
			}
			// A key that was forgotten is taken as new.
			if e.until > received && (!ok || !knows) {
				want[k] = e
			}
		}
	}
	held := 0
	for k, e := range want {
		if id, ok := r.known(k, e.until-1); ok {
			if held++; id != e.id {
				t.Fatalf("seed %d: %v is known as %v, want %v", seed, k, id, e.id)
			}
		}
		if id, ok := r.known(k, e.until); ok {
			t.Fatalf("seed %d: %v is known as %v behind its window", seed, k, id)
		}
	}
	if held < recentMax*3/4 {
		t.Errorf("seed %d: %d of %d keys are held", seed, held, len(want))
	}
}

func TestTheRecentSetForgetsTheOldest(t *testing.T) {
	var r recent
	const n = 4 * recentMax
	for i := range uint64(n) {
		r.addAlone(recentKeyOf(i), event.ID{1}, 1, 0)
	}
	const last = recentMax / 8
	held := 0
	for i := uint64(n - last); i < n; i++ {
		if _, ok := r.known(recentKeyOf(i), 0); ok {
			held++
		}
	}
	if held < last*99/100 {
		t.Errorf("%d of the last %d are held", held, last)
	}
	if _, ok := r.known(recentKeyOf(0), 0); ok {
		t.Error("the first of many is held")
	}
}

func TestTheRecentSetAllocatesNothing(t *testing.T) {
	var r recent
	n := uint64(0)
	r.addAlone(recentKeyOf(n), event.ID{1}, 1, 0)
	got := testing.AllocsPerRun(1000, func() {
		n++
		r.addAlone(recentKeyOf(n), event.ID{1}, 1, 0)
		r.known(recentKeyOf(n), 0)
		r.known(recentKeyOf(n+1), 0)
	})
	if got != 0 {
		t.Errorf("%v allocations", got)
	}
}

func TestTheRecentSetIsReadWhileItIsWritten(t *testing.T) {
	var r recent
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for i := range uint64(50_000) {
				id, ok := r.known(recentKeyOf(i%1000), 0)
				if ok && binary.LittleEndian.Uint64(id[:])%1000 != i%1000 {
					t.Errorf("key %d is known as %x", i%1000, id)
					return
				}
			}
		})
	}
	for i := range uint64(50_000) {
		var id event.ID
		binary.LittleEndian.PutUint64(id[:], i)
		r.put(recentKeyOf(i%1000), recentEvent{id: id, until: 1})
	}
	readers.Wait()
}
