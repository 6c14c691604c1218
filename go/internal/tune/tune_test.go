package tune

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/go/internal/admission"
	"sluice/shm-abi/shmabi"
)

func TestTheNumbersOfTheConfigArePublishedAtOnce(t *testing.T) {
	page := newPage()
	newBed(t, standard(), page)
	if page.Limit() != 16 || page.MaxHeld() != 77 || page.BaseLimitMilli() != 16_000 ||
		page.HoldBudgetNS() != 2_500_000_000 || page.RepeatShareMilli() != 800 {
		t.Errorf("limit %d, held %d, base %d, budget %d, repeats %d", page.Limit(), page.MaxHeld(),
			page.BaseLimitMilli(), page.HoldBudgetNS(), page.RepeatShareMilli())
	}
	if page.FloorSlots() == 0 || page.FloorRateMilli() == 0 {
		t.Errorf("floor %d at %d", page.FloorSlots(), page.FloorRateMilli())
	}
	if page.CodelTargetNS() != 0 || page.CodelIntervalNS() != 0 || page.PaceIntervalNS() != 0 ||
		page.ShareRateMilli() != 0 || page.Growing() != 0 {
		t.Error("something is in force that nobody asked for")
	}
}

func TestCoDelAndPacingArePublishedWhereTheyAreAskedFor(t *testing.T) {
	c, page, s := standard(), newPage(), &store{servers: 8, service: 4 * time.Millisecond}
	c.Overload, c.Pacing = "codel", "little"
	b, p := newBed(t, c, page), newPages(1, 1)
	b.Attach(1, p)
	if page.CodelTargetNS() != 5_000_000 || page.CodelIntervalNS() != 100_000_000 {
		t.Errorf("codel %d in %d", page.CodelTargetNS(), page.CodelIntervalNS())
	}
	b.pass(2*time.Second, b.busy(s, p))
	want := page.ServiceTimeNS() / page.Limit()
	if page.PaceIntervalNS() != want || want == 0 || page.PaceDepthNS() < page.ServiceTimeNS() {
		t.Errorf("a slot each %d ns, %d deep; W/limit is %d", page.PaceIntervalNS(),
			page.PaceDepthNS(), want)
	}
	c.Overload, c.Pacing = "queue", "off"
	must(t, b.Configure(c))
	if page.CodelTargetNS() != 0 || page.PaceIntervalNS() != 0 {
		t.Error("a reload does not take them out of force")
	}
}

func TestTheLimitFindsTheBackendThroughTheWholePath(t *testing.T) {
	for _, servers := range []float64{8, 64} {
		page := newPage()
		b, p := newBed(t, standard(), page), newPages(2, 1)
		b.Attach(1, p)
		b.pass(20*time.Second, b.busy(&store{servers: servers, service: 10 * time.Millisecond}, p))
		base := float64(page.BaseLimitMilli()) / 1000
		if base < servers || base > 2.1*servers {
			t.Errorf("%v servers: base %v", servers, base)
		}
		state := b.State()
		if got, want := state.Numbers.Throughput, servers*100; math.Abs(got-want) > 0.1*want {
			t.Errorf("%v servers: throughput %v, want %v", servers, got, want)
		}
		if got := page.ServiceTimeNS(); got < uint64(10*time.Millisecond) ||
			got != uint64(state.Numbers.ServiceTime) {
			t.Errorf("service time %d", got)
		}
	}
}

func TestARestartTakesTheLimitUpWhereItStood(t *testing.T) {
	page, s := newPage(), &store{servers: 64, service: 10 * time.Millisecond}
	b, p := newBed(t, standard(), page), newPages(1, 1)
	b.Attach(1, p)
	b.pass(20*time.Second, b.busy(s, p))
	base, service := page.BaseLimitMilli(), page.ServiceTimeNS()
	if base < 40_000 {
		t.Fatalf("base %d is too near the initial one to tell", base)
	}
	again := newBed(t, standard(), page)
	if page.BaseLimitMilli() != base || page.ServiceTimeNS() != service {
		t.Errorf("base %d, service %d; they were %d, %d", page.BaseLimitMilli(),
			page.ServiceTimeNS(), base, service)
	}
	again.Attach(1, p) // the data plane lived on
	again.pass(TickInterval, again.busy(s, p))
	if page.BaseLimitMilli() != base {
		t.Errorf("base %d after a tick, it was %d", page.BaseLimitMilli(), base)
	}
	if c := again.State().Changes; len(c) != 1 || c[0].Reason != admission.ReasonRestart ||
		c[0].From != 16 || uint64(math.Round(c[0].To*1000)) != base {
		t.Errorf("changes %v", c)
	}
	fixed := standard()
	fixed.Algorithm, fixed.InitialLimit = "fixed", 32
	newBed(t, fixed, page)
	if page.Limit() != 32 {
		t.Errorf("fixed at 32 begins at %d", page.Limit())
	}
	narrow := standard()
	narrow.InitialLimit, narrow.MaxLimit = 8, 8
	newBed(t, narrow, page)
	if page.Limit() > 8 {
		t.Errorf("limit %d over the bound", page.Limit())
	}
}

// A control page is only as good as who wrote it last.
func TestAControlPageWithNonsenseIsNoReasonNotToStart(t *testing.T) {
	page := newPage()
	page.StoreBaseLimitMilli(math.MaxUint64)
	page.StorePolicyVersion(7) // who wrote it died in the middle
	newBed(t, standard(), page)
	if page.Limit() < 2 || page.Limit() > 4096 {
		t.Errorf("limit %d", page.Limit())
	}
	if page.PolicyVersion()%2 != 0 {
		t.Errorf("policy version %d is not at rest", page.PolicyVersion())
	}
}

func TestAPauseOfTheControlPlaneChangesNothing(t *testing.T) {
	page, s := newPage(), &store{servers: 32, service: 10 * time.Millisecond}
	b, p := newBed(t, standard(), page), newPages(1, 1)
	b.Attach(1, p)
	b.pass(15*time.Second, b.busy(s, p))
	limit, base, version := page.Limit(), page.BaseLimitMilli(), page.PolicyVersion()
	// The world goes on: a stall, then a rush, and nobody looks.
	stalled := *s
	stalled.service = 10 * time.Second
	for range 100 {
		stalled.pass(page, p, 25*time.Millisecond)
		s.pass(page, p, 25*time.Millisecond)
	}
	b.now += 5 * time.Second
	if page.PolicyVersion() != version {
		t.Error("something was published while nobody ticked")
	}
	b.Step()
	if page.Limit() != limit || page.BaseLimitMilli() != base {
		t.Errorf("limit %d, base %d after the pause; they were %d, %d", page.Limit(),
			page.BaseLimitMilli(), limit, base)
	}
	b.pass(5*time.Second, b.busy(s, p))
	if got := float64(page.BaseLimitMilli()) / 1000; got < 25 || got > 2.1*32 {
		t.Errorf("base %v five seconds later", got)
	}
}

func TestSharesAreInForceWhileSlotsAreShort(t *testing.T) {
	page, s := newPage(), &store{servers: 8, service: 10 * time.Millisecond} // 800 a second
	b, p := newBed(t, standard(), page), newPages(1, 3)
	b.UseSlots([]int{0, 1, 2})
	b.Attach(1, p)
	b.pass(5*time.Second, func(span time.Duration) {
		s.pass(page, p, span)
		p.offer(0, 0, 2)  // 100 a second
		p.offer(0, 1, 2)  // 100 a second
		p.offer(0, 2, 40) // 2,000 a second, of which 600 are left
	})
	if got := float64(page.ShareRateMilli()) / 1000; math.Abs(got-0.9*600) > 30 {
		t.Errorf("share %v, want about 540", got)
	}
	b.pass(3*time.Second, func(span time.Duration) {
		p.add(shmabi.CountersHeaderMeteredNSOffset, uint64(span))
		p.set(shmabi.CountersHeaderInflightOffset, 0)
		p.set(shmabi.CountersHeaderHeldOffset, 0)
	})
	if got := page.ShareRateMilli(); got != 0 {
		t.Errorf("share %d with all slots free", got)
	}
}

// The control page is unmapped at the end.
func TestAfterStopNothingIsWritten(t *testing.T) {
	b, p := newBed(t, standard(), newPage()), newPages(1, 1)
	b.Attach(1, p)
	must(t, b.Pin(100, time.Minute))
	b.Stop()
	version := b.page.PolicyVersion()
	b.pass(2*time.Minute, nil)
	b.Release()
	if err := b.Pin(50, time.Minute); !errors.Is(err, ErrStopped) {
		t.Errorf("pin: %v", err)
	}
	if err := b.Configure(standard()); !errors.Is(err, ErrStopped) {
		t.Errorf("configure: %v", err)
	}
	if b.page.Limit() != 100 || b.page.PolicyVersion() != version {
		t.Errorf("limit %d was written after the end", b.page.Limit())
	}
}

func TestAReloadIsInForceAtOnce(t *testing.T) {
	page, s := newPage(), &store{servers: 64, service: 10 * time.Millisecond}
	b, p := newBed(t, standard(), page), newPages(1, 1)
	b.Attach(1, p)
	b.pass(20*time.Second, b.busy(s, p))
	base := page.BaseLimitMilli()
	next := standard()
	next.HoldBudget = time.Second
	must(t, b.Configure(next))
	if page.BaseLimitMilli() != base || page.HoldBudgetNS() != 1_000_000_000 {
		t.Errorf("base %d was %d, budget %d", page.BaseLimitMilli(), base, page.HoldBudgetNS())
	}
	next.MaxLimit = 20
	must(t, b.Configure(next))
	if page.BaseLimitMilli() != 20_000 || page.Limit() > 20 {
		t.Errorf("base %d, limit %d over the new bound", page.BaseLimitMilli(), page.Limit())
	}
	next.Algorithm = "fixed"
	must(t, b.Configure(next))
	if page.Limit() != 16 || b.State().Algorithm != "fixed" {
		t.Errorf("limit %d of %s", page.Limit(), b.State().Algorithm)
	}
	if n := b.State().Decisions[admission.ReasonConfig]; n != 2 {
		t.Errorf("%d moves by a config", n)
	}
	next.InitialLimit, next.MinLimit = 0, 0
	if err := b.Configure(next); err == nil || page.Limit() != 16 {
		t.Errorf("a limit of 0: %v", err)
	}
}

func TestAStepOfTheWallClockChangesNothing(t *testing.T) {
	run := func(step time.Duration) []uint64 {
		page, s := newPage(), &store{servers: 32, service: 10 * time.Millisecond}
		b, p := newBed(t, standard(), page), newPages(1, 1)
		b.Attach(1, p)
		var seen []uint64
		for range 200 {
			b.wall = b.wall.Add(step)
			b.pass(TickInterval, b.busy(s, p))
			seen = append(seen, page.Limit(), page.BaseLimitMilli(), page.HoldBoundNS())
		}
		return seen
	}
	want := run(0)
	for _, step := range []time.Duration{-time.Hour, 24 * time.Hour} {
		if !slices.Equal(run(step), want) {
			t.Errorf("steps of %v change the numbers", step)
		}
	}
}

func TestRunTicksUntilItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		page, s, p := newPage(), &store{servers: 32, service: 10 * time.Millisecond}, newPages(1, 1)
		service, err := New(Options{
			Control: page, Config: standard(),
			Now: func() time.Duration { return time.Since(start) },
		})
		must(t, err)
		service.Attach(1, p)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { service.Run(ctx) })
		time.Sleep(TickInterval / 2)
		for range 1000 {
			time.Sleep(TickInterval)
			service.mu.Lock() // the words of our own are no atomics
			s.pass(page, p, TickInterval)
			service.mu.Unlock()
		}
		must(t, service.Pin(7, time.Second))
		time.Sleep(time.Second - time.Nanosecond)
		synctest.Wait()
		if page.Limit() != 7 {
			t.Errorf("limit %d before the pin's end", page.Limit())
		}
		time.Sleep(TickInterval)
		synctest.Wait()
		if !service.State().PinnedUntil.IsZero() {
			t.Error("the pin does not end")
		}
		if got := service.State().Decisions[admission.ReasonSlope]; got == 0 {
			t.Error("the controller never moved")
		}
		cancel()
		running.Wait()
	})
}

func TestCallsFromSeveralGoroutinesMayMeet(t *testing.T) {
	b := newBed(t, standard(), newPage())
	var group sync.WaitGroup
	for g := range uint32(4) {
		group.Go(func() {
			for i := range 200 {
				b.Attach(g, newPages(2, 8))
				b.UseSlots([]int{0, i % 8})
				b.Step()
				if i%2 == 0 {
					_ = b.Pin(10, time.Minute)
				} else {
					b.Release()
				}
				_ = b.State()
				b.Detach(g)
			}
		})
	}
	group.Wait()
	if len(b.planes) != 0 {
		t.Errorf("%d data planes are left", len(b.planes))
	}
}

func TestMilliKeepsWhatIsThere(t *testing.T) {
	for v, want := range map[float64]uint64{
		0: 0, -1: 0, 0.0001: 1, 0.5: 500, 16.0004: 16000, 1e30: math.MaxInt64,
		math.Inf(1): math.MaxInt64,
	} {
		if got := milli(v); got != want {
			t.Errorf("%v: %d, want %d", v, got, want)
		}
	}
	if milli(math.NaN()) != 0 {
		t.Error("NaN is something")
	}
}

func BenchmarkStep(b *testing.B) {
	for _, c := range []struct {
		name             string
		workers, sources int
		quiet            bool
	}{{"2x1024", 2, 1024, false}, {"2x1024 idle", 2, 1024, true}, {"8x1024", 8, 1024, false},
		{"2x16", 2, 16, false}} {
		b.Run(c.name, func(b *testing.B) {
			page, s := newPage(), &store{servers: 32, service: 10 * time.Millisecond}
			bed, p := newBed(b, standard(), page), newPages(c.workers, c.sources)
			slots := make([]int, c.sources)
			for i := range slots {
				slots[i] = i
			}
			bed.UseSlots(slots)
			bed.Attach(1, p)
			b.ReportAllocs()
			for b.Loop() {
				if !c.quiet {
					s.pass(page, p, TickInterval)
					for w := range c.workers {
						p.offer(w, w, 1)
					}
				}
				bed.now += TickInterval
				bed.Step()
			}
		})
	}
}

// A loop that is held up now and then ticks late, and then several times at once.
func TestLateTicksFindTheSameLimit(t *testing.T) {
	random := seeded(t)
	for range soak(5, 200) {
		page, s := newPage(), &store{servers: 32, service: 10 * time.Millisecond}
		b, p := newBed(t, standard(), page), newPages(1, 1)
		b.Attach(1, p)
		for b.now < 40*time.Second {
			late := time.Duration(random.Int64N(int64(60 * time.Millisecond)))
			if random.IntN(20) == 0 {
				late = time.Duration(random.Int64N(int64(450 * time.Millisecond)))
			}
			s.pass(page, p, late)
			b.now += late
			before := page.BaseLimitMilli()
			b.Step()
			b.Step() // at the same instant
			after := float64(page.BaseLimitMilli()) / float64(before)
			if after > math.Exp(0.5)+0.01 || after < math.Exp(-0.5)-0.01 {
				t.Fatalf("at %v the base moves by a factor of %v", b.now, after)
			}
		}
		if base := float64(page.BaseLimitMilli()) / 1000; base < 32 || base > 2.1*32 {
			t.Errorf("base %v", base)
		}
	}
}
