package admission

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestTheWaterLevelIsMaxMinFair(t *testing.T) {
	rng := random(seeded(t), 0)
	for range count(5_000, 500_000) {
		rates := make([]float64, rng.IntN(30))
		total := 0.0
		for i := range rates {
			rates[i] = math.Exp(rng.Float64()*12 - 4)
			if i > 0 && rng.IntN(4) == 0 {
				rates[i] = rates[i-1]
			}
			total += rates[i]
		}
		supply := total * rng.Float64() * 1.5
		level := waterLevel(slices.Clone(rates), supply)
		if supply >= total*(1+1e-9) || len(rates) == 0 {
			if !math.IsInf(level, 1) {
				t.Fatalf("level %v though %v is enough for %v", level, supply, rates)
			}
			continue
		}
		if math.IsInf(level, 1) {
			if supply < total*(1-1e-9) {
				t.Fatalf("no level though %v is not enough for %v", supply, rates)
			}
			continue
		}
		// What each gets is what it asks for or the level, and all together is the supply: nobody
		// can have more without one that has no more than it having less.
		sum := 0.0
		for _, rate := range rates {
			sum += min(rate, level)
		}
		if math.Abs(sum-supply) > 1e-9*total {
			t.Fatalf("level %v gives %v of %v to %v", level, sum, supply, rates)
		}
	}
	if level := waterLevel([]float64{1, 2}, 0); level != 0 {
		t.Errorf("nothing to share, and level %v", level)
	}
}

// asked ticks a limiter whose sources ask at those rates, with a throughput of 1,000 a second.
func asked(k *clocked, span time.Duration, sat float64, rates ...uint64) Numbers {
	for range span / tick {
		for i, rate := range rates {
			k.offered[i] += rate * uint64(tick) / uint64(time.Second)
		}
		k.pass(tick, 1000, tick, sat)
	}
	return k.limiter.Numbers()
}

func TestTheShareIsWhatTheOthersLeave(t *testing.T) {
	k := newClocked(t, standard(Fixed))
	k.offered = make([]uint64, 4)
	about := func(n Numbers, want float64) {
		t.Helper()
		if math.Abs(n.ShareRate-want) > 0.01*want {
			t.Errorf("share %v, not %v", n.ShareRate, want)
		}
	}
	about(asked(k, 3*time.Second, 0.6, 100, 200, 5000, 0), 0.9*700)
	about(asked(k, 3*time.Second, 0.6, 100, 5000, 5000, 0), 0.9*450)
	about(asked(k, 3*time.Second, 0.6, 5000, 5000, 5000, 5000), 0.9*250)
	about(asked(k, 3*time.Second, 0.6, 100, 200, 300, 300), 0)
	// Slots are free and nobody waits: no share. Somebody waits: it is in force at once.
	about(asked(k, 3*time.Second, 0.4, 100, 200, 5000, 0), 0)
	k.counts.Held = 1
	about(asked(k, tick, 0.4, 100, 200, 5000, 0), 0.9*700)
	k.counts.Held = 0
	about(asked(k, tick, 0.4, 100, 200, 5000, 0), 0)
}

func TestAStoppedStoreLeavesTheLeastShareAndNotNone(t *testing.T) {
	k := newClocked(t, standard(Fixed))
	k.offered = make([]uint64, 1)
	asked(k, time.Second, 1, 5000)
	k.counts.Held = 5
	for range 500 {
		k.offered[0] += 100
		k.pass(tick, 0, 0, 1)
	}
	if n := k.limiter.Numbers(); n.ShareRate != shareLeast {
		t.Errorf("%+v", n)
	}
}

func TestBeforeTheFirstSampleThereIsNoShare(t *testing.T) {
	k := newClocked(t, standard(Slope))
	k.offered = make([]uint64, 1)
	k.counts.Held = 5
	for range 500 {
		k.offered[0] += 100
		if n := k.pass(tick, 0, 0, 1); n.ShareRate != 0 {
			t.Fatalf("%+v", n)
		}
	}
}

func TestASourceThatFellSilentIsForgotten(t *testing.T) {
	var s shares
	offered := []uint64{0, 0}
	s.see(offered, tick)
	for range 100 {
		offered[0] += 10
		offered[1] += 20
		s.see(offered, tick)
	}
	if math.Abs(s.sources[0].rate-500) > 5 || math.Abs(s.sources[1].rate-1000) > 10 {
		t.Fatalf("rates %+v", s.sources)
	}
	for elapsed := tick; elapsed <= sourceForgotten; elapsed += tick {
		if s.sources[0].rate == 0 {
			t.Fatalf("forgotten after %v", elapsed)
		}
		offered[1] += 20
		s.see(offered, tick)
	}
	if s.sources[0].rate != 0 || s.sources[1].rate == 0 {
		t.Errorf("rates %+v", s.sources)
	}
}

func TestSlotsComeGoAndChangeHandsWithoutAJump(t *testing.T) {
	rng := random(seeded(t), 0)
	var s shares
	offered := []uint64{}
	const most = 50 // a tick
	for range count(20_000, 1_000_000) {
		switch rng.IntN(20) {
		case 0:
			offered = append(offered, rng.Uint64())
		case 1:
			offered = offered[:rng.IntN(len(offered)+1)]
		case 2:
			if len(offered) > 0 {
				offered[rng.IntN(len(offered))] -= rng.Uint64N(1 << 62)
			}
		case 3:
			s.rebase(offered)
		}
		for i := range offered {
			offered[i] += rng.Uint64N(most)
		}
		s.see(offered, tick)
		if len(s.sources) != len(offered) {
			t.Fatalf("%d sources for %d slots", len(s.sources), len(offered))
		}
		for i, a := range s.sources {
			if a.rate < 0 || a.rate > most/tick.Seconds() {
				t.Fatalf("slot %d: rate %v", i, a.rate)
			}
		}
	}
}

func BenchmarkTick(b *testing.B) {
	l, err := New(standard(Slope))
	if err != nil {
		b.Fatal(err)
	}
	rng := random(1, 1)
	s, c, offered := newStream(rng), Counts{Held: 1}, make([]uint64, 1024)
	steps := make([]uint64, 1<<16)
	for i := range steps {
		steps[i] = rng.Uint64N(50)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		c.add(s.window(l.Numbers().Limit))
		for j := range offered {
			offered[j] += steps[(i*7+j)&(len(steps)-1)]
		}
		l.Tick(s.now, c, offered)
	}
}
