package tune

import (
	"testing"

	"sluice/go/internal/config"
	"sluice/shm-abi/shmabi"
)

// fixed is a config whose limit is 100, and stays there.
func fixed() config.Admission {
	c := standard()
	c.Algorithm, c.InitialLimit, c.MinLimit = "fixed", 100, 4
	return c
}

func inflight(p *pages, n, held uint64) {
	p.set(shmabi.CountersHeaderInflightOffset, n)
	p.set(shmabi.CountersHeaderHeldOffset, held)
}

func TestOlderDataPlanesFinishAndTheNewestGetsTheRest(t *testing.T) {
	page := newPage()
	b := newBed(t, fixed(), page)
	old, young := newPages(1, 1), newPages(1, 1)
	b.Attach(4, old)
	b.Newest(4)
	inflight(old, 60, 10)
	b.pass(TickInterval, nil)
	if page.NewestGeneration() != 4 || page.Limit() != 100 {
		t.Errorf("alone: newest %d, limit %d", page.NewestGeneration(), page.Limit())
	}
	b.Attach(5, young)
	b.pass(TickInterval, nil)
	if page.NewestGeneration() != 4 || page.Limit() != 100 {
		t.Errorf("one that starts changes something: newest %d, limit %d", page.NewestGeneration(),
			page.Limit())
	}
	b.Newest(5)
	if page.NewestGeneration() != 5 || page.Limit() != 40 || page.ElderLimit() > 100 ||
		page.ElderLimit() < 70 {
		t.Errorf("newest %d, limit %d, elders %d", page.NewestGeneration(), page.Limit(),
			page.ElderLimit())
	}
	before := page.ElderLimit()
	for _, n := range []uint64{60, 90, 40, 80, 5, 60, 0, 3, 0, 0} {
		inflight(old, n, 0)
		b.pass(TickInterval, nil)
		if got := page.ElderLimit(); got > before || got < min(n, before) {
			t.Errorf("with %d in flight the elders' limit goes from %d to %d", n, before, got)
		}
		before = page.ElderLimit()
		if got := page.Limit(); got != max(100-n, 4) {
			t.Errorf("the newest has %d beside %d", got, n)
		}
	}
	b.pass(100*TickInterval, nil)
	if page.ElderLimit() != 1 || page.Limit() != 100 {
		t.Errorf("in the end: limit %d, elders %d", page.Limit(), page.ElderLimit())
	}
	inflight(old, 100, 0) // all of it is theirs, and the newest has its least
	b.pass(TickInterval, nil)
	if page.Limit() != 4 {
		t.Errorf("limit %d beside one that has all", page.Limit())
	}
	b.Detach(4)
	b.pass(TickInterval, nil)
	if page.Limit() != 100 {
		t.Errorf("limit %d when it is gone", page.Limit())
	}
}

// Numbers begin anew where an earlier life left no data plane.
func TestAnEarlierLifesNewestMakesNobodyAnElder(t *testing.T) {
	page := newPage()
	page.StoreNewestGeneration(7)
	b := newBed(t, fixed(), page)
	if got := page.NewestGeneration(); got != 0 {
		t.Errorf("newest %d", got)
	}
	b.Attach(1, newPages(1, 1))
	b.Newest(1)
	if got := page.NewestGeneration(); got != 1 || page.Limit() != 100 {
		t.Errorf("newest %d, limit %d", got, page.Limit())
	}
}
