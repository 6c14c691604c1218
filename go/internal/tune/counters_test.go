package tune

import (
	"slices"
	"testing"
	"time"

	"sluice/shm-abi/shmabi"
)

func TestNothingJumpsWhenADataPlaneComesOrGoes(t *testing.T) {
	run := func(change bool) (base uint64, throughput float64, moves int) {
		page, s := newPage(), &store{servers: 32, service: 10 * time.Millisecond}
		b, p := newBed(t, standard(), page), newPages(1, 4)
		b.UseSlots([]int{0, 1})
		b.Attach(1, p)
		b.pass(10*time.Second, b.busy(s, p))
		before := page.BaseLimitMilli()
		if change {
			// One with counts from before that are not ours, and a boot clock of its own.
			next := newPages(2, 4)
			next.count(0, shmabi.WorkerCountersSamplesOffset, 1<<40)
			next.count(1, shmabi.WorkerCountersDropsOffset, 1<<40)
			next.offer(0, 0, 1<<40)
			next.set(shmabi.CountersHeaderAreaNSOffset, 1<<60)
			next.set(shmabi.CountersHeaderMeteredNSOffset, p.MeteredNS())
			b.Attach(2, next)
			b.pass(TickInterval, nil)
			b.Detach(1)
			p = next
		} else {
			b.pass(TickInterval, nil)
		}
		b.pass(TickInterval, b.busy(s, p))
		if got := page.BaseLimitMilli(); got != before {
			t.Errorf("change %v: base %d, it was %d", change, got, before)
		}
		b.pass(2*time.Second, b.busy(s, p))
		return page.BaseLimitMilli(), b.State().Numbers.Throughput, len(b.State().Changes)
	}
	base, throughput, moves := run(false)
	gotBase, gotThroughput, gotMoves := run(true)
	if base != gotBase || throughput != gotThroughput || moves != gotMoves {
		t.Errorf("with a change base %d, throughput %v, %d moves; without %d, %v, %d",
			gotBase, gotThroughput, gotMoves, base, throughput, moves)
	}
}

func TestAnAbsenceOfDataPlanesIsNobodysTime(t *testing.T) {
	page, s := newPage(), &store{servers: 32, service: 10 * time.Millisecond}
	b, p := newBed(t, standard(), page), newPages(1, 1)
	b.Attach(1, p)
	b.pass(10*time.Second, b.busy(s, p))
	metered := b.sums.counts.MeteredNS
	base := page.BaseLimitMilli()
	b.Detach(1)
	b.pass(300*time.Millisecond, nil)
	next := newPages(1, 1)
	b.Attach(2, next) // it has not metered yet
	b.pass(TickInterval, nil)
	next.set(shmabi.CountersHeaderMeteredNSOffset, p.MeteredNS()+uint64(320*time.Millisecond))
	b.pass(TickInterval, nil)
	if got := b.sums.counts.MeteredNS; got != metered {
		t.Errorf("%d ns were metered while there was nobody", got-metered)
	}
	b.pass(TickInterval, b.busy(s, next))
	if got := b.sums.counts.MeteredNS - metered; got != uint64(TickInterval) {
		t.Errorf("then %d ns in a tick", got)
	}
	if page.BaseLimitMilli() != base {
		t.Errorf("base %d, it was %d", page.BaseLimitMilli(), base)
	}
}

// The clock of all data planes is one: what two of them meter is not twice the time.
func TestTwoDataPlanesMeterOneTime(t *testing.T) {
	b := newBed(t, standard(), newPage())
	old, young := newPages(1, 1), newPages(1, 1)
	for _, p := range []*pages{old, young} {
		p.set(shmabi.CountersHeaderMeteredNSOffset, 1000)
	}
	b.Attach(1, old)
	b.Attach(2, young)
	old.set(shmabi.CountersHeaderMeteredNSOffset, 1500)
	young.set(shmabi.CountersHeaderMeteredNSOffset, 1700)
	old.set(shmabi.CountersHeaderAreaNSOffset, 30)
	young.set(shmabi.CountersHeaderAreaNSOffset, 70)
	b.Step()
	old.set(shmabi.CountersHeaderMeteredNSOffset, 1900)
	b.Step()
	c := b.sums.counts
	if c.MeteredNS != 900 || c.AreaNS != 100 {
		t.Errorf("metered %d, area %d", c.MeteredNS, c.AreaNS)
	}
}

func TestCountsThatShrinkSayNothing(t *testing.T) {
	random := seeded(t)
	page, s := newPage(), &store{servers: 32, service: 10 * time.Millisecond}
	b, p := newBed(t, standard(), page), newPages(1, 2)
	b.UseSlots([]int{0, 1})
	b.Attach(1, p)
	world := b.busy(s, p)
	for i := range soak(50, 2000) {
		b.pass(500*time.Millisecond, world)
		before := page.BaseLimitMilli()
		samples := b.sums.counts.Samples
		clear(p.memory)
		clear(p.header)
		p.set(shmabi.CountersHeaderMeteredNSOffset, random.Uint64N(1<<50))
		b.pass(TickInterval, nil)
		if page.BaseLimitMilli() != before || b.sums.counts.Samples != samples {
			t.Fatalf("round %d: base %d was %d; %d samples were %d", i, page.BaseLimitMilli(), before,
				b.sums.counts.Samples, samples)
		}
	}
	if n := page.Limit(); n < 2 || n > 4096 {
		t.Errorf("limit %d", n)
	}
}

func TestVoidTimeIsTakenOffTheArea(t *testing.T) {
	const span = uint64(TickInterval)
	b := newBed(t, standard(), newPage())
	p := newPages(2, 1)
	p.set(shmabi.CountersHeaderMeteredNSOffset, 1)
	b.Attach(1, p)
	tick := func(area, void, drops uint64) int64 {
		before := b.sums.counts.AreaNS
		p.add(shmabi.CountersHeaderMeteredNSOffset, span)
		p.add(shmabi.CountersHeaderAreaNSOffset, area)
		p.count(0, shmabi.WorkerCountersVoidNSOffset, void/2)
		p.count(1, shmabi.WorkerCountersVoidNSOffset, void-void/2)
		p.count(1, shmabi.WorkerCountersDropsOffset, drops)
		b.Step()
		return int64(b.sums.counts.AreaNS - before)
	}
	if got := tick(8*span, 3*span, 0); got != int64(5*span) {
		t.Errorf("area %d", got)
	}
	// Slots that were given back now and taken some ticks ago: the sum over the ticks is right.
	sum := int64(0)
	for range 4 {
		sum += tick(8*span, 0, 0)
	}
	sum += tick(8*span, 20*span, 0)
	if sum != int64(20*span) {
		t.Errorf("the sum of five ticks is %d, want %d", sum, 20*span)
	}
	// What is longer ago than half a second was judged, and so was the time of what is dropped.
	for range 200 {
		tick(8*span, 0, 0)
	}
	if got := tick(8*span, 8*500*span, 0); got >= 0 || got < -int64(8*30*span) {
		t.Errorf("area %d after slots that were taken for ten seconds", got)
	}
	if got := tick(8*span, 8*500*span, 8); got != 0 {
		t.Errorf("area %d in the tick in which all were dropped", got)
	}
	if got := tick(8*span, 0, 0); got != int64(8*span) {
		t.Errorf("area %d in the tick after that", got)
	}
}

func TestEachSourceIsOfferedWhatAllWorkersCounted(t *testing.T) {
	b := newBed(t, standard(), newPage())
	b.UseSlots([]int{0, 2})
	one, two := newPages(2, 4), newPages(1, 3)
	one.offer(0, 0, 100) // before it was attached
	b.Attach(1, one)
	b.Attach(2, two)
	one.offer(0, 0, 5)
	one.offer(1, 0, 7)
	one.offer(0, 1, 1000) // of a source that the config does not have
	two.offer(0, 2, 11)
	b.Step()
	if got := b.sums.offered; !slices.Equal(got, []uint64{12, 0, 11}) {
		t.Errorf("offered %v", got)
	}
	b.Detach(1)
	two.offer(0, 0, 1)
	b.Step()
	b.UseSlots([]int{0, 2, 7}) // beyond what a data plane has
	b.Step()
	if got := b.sums.offered; !slices.Equal(got[:3], []uint64{13, 0, 11}) || len(got) != 8 {
		t.Errorf("offered %v", got)
	}
}

// A request is counted by class and by source, one after the other: the tick may fall in between.
func TestASourceThatIsCountedAfterItsClassIsSeen(t *testing.T) {
	b := newBed(t, standard(), newPage())
	b.UseSlots([]int{0})
	p := newPages(1, 1)
	b.Attach(1, p)
	b.Step()
	p.count(0, shmabi.WorkerCountersClassOfferedOffset, 1)
	b.Step()
	word := p.memory[p.sourceAt(0, 0)+shmabi.SourceCountersOfferedOffset:]
	word[0] = 1
	b.Step()
	if got := b.sums.offered[0]; got != 1 {
		t.Errorf("offered %d", got)
	}
}
