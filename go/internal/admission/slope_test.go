package admission

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// seedsOfMean is over how many runs a mean is taken: single runs wander, by design.
const seedsOfMean = 10

// settled runs until the limit has moved in 60 windows.
func settled(p *plant) {
	for windows := 0; windows < 60 && p.now < 120; {
		p.run(0.1, func(n Numbers) {
			if n.Reason == ReasonSlope {
				windows++
			}
		})
	}
}

func TestTheLimitFindsTheServersOfAnyBackend(t *testing.T) {
	seed := seeded(t)
	for _, k := range []int{4, 8, 16, 64, 256} {
		for _, s := range []float64{0.004, 0.02, 0.04, 0.2} {
			// Of more events a second only the soak has the time.
			if float64(k)/s > float64(count(4_000, 64_000)) {
				continue
			}
			limit, good := 0.0, 0.0
			for i := range uint64(seedsOfMean) {
				p := newPlant(t, standard(Slope), random(seed, i))
				p.constant(k, s)
				settled(p)
				before, sum, ticks := p.samples, 0.0, 0.0
				const watched = 10.0
				p.run(watched, func(n Numbers) { sum += n.Base; ticks++ })
				good += float64(p.samples-before) / watched / (float64(k) / s) / seedsOfMean
				limit += sum / ticks / seedsOfMean
			}
			t.Logf("%d x %v s: goodput %.3f, limit/servers %.2f", k, s, good, limit/float64(k))
			if good < 0.92 {
				t.Errorf("%d x %v s: goodput %.3f", k, s, good)
			}
			most := 2.1 * float64(k)
			if k < 16 {
				// Where a slot too many costs a millisecond, little pulls it back.
				most = max(most, float64(k)*(1+0.015/s))
			}
			if limit < 0.97*float64(k) || limit > most {
				t.Errorf("%d x %v s: mean limit %.1f", k, s, limit)
			}
		}
	}
}

// closed is a backend by its formula: throughput by concurrency, always asked for more.
type closed struct {
	throughput func(concurrency float64) float64
	limiter    *Limiter
	numbers    Numbers
	counts     Counts
	now        time.Duration
	part       float64 // of an event
}

func newClosed(t *testing.T, throughput func(float64) float64) *closed {
	l, err := New(standard(Slope))
	if err != nil {
		t.Fatal(err)
	}
	return &closed{throughput: throughput, limiter: l, numbers: l.Tick(0, Counts{}, nil)}
}

// tick goes on by one tick; noise is a standard normal deviate.
func (c *closed) tick(noise float64) {
	q := float64(c.numbers.Limit)
	x := c.throughput(q)
	events := x * tick.Seconds()
	done := max(events+math.Sqrt(0.1*events)*noise+c.part, 0)
	c.part = done - math.Floor(done)
	c.counts.Samples += uint64(done)
	c.counts.SampleSumNS += uint64(math.Floor(done) * q / x * 1e9)
	c.counts.AreaNS += uint64(q * float64(tick))
	c.counts.SaturatedNS += uint64(tick)
	c.counts.MeteredNS += uint64(tick)
	c.counts.Peak, c.counts.Inflight = c.numbers.Limit, c.numbers.Limit
	c.now += tick
	c.numbers = c.limiter.Tick(c.now, c.counts, nil)
}

func TestTheLimitOfAGroupCommitIsWhereAGainIsWorthItsLatency(t *testing.T) {
	seed := seeded(t)
	for _, group := range []struct{ fixed, event float64 }{
		{0.0003, 0.0002}, {0.002, 0.0002}, {0.003, 0.002}, {0.02, 0.001},
	} {
		off := 0.0
		for i := range uint64(seedsOfMean) {
			c := newClosed(t, func(q float64) float64 { return q / (group.fixed + group.event*q) })
			rng := random(seed, i)
			sum := 0.0
			const before, watched = 1000, 1000
			for n := range before + watched {
				c.tick(rng.NormFloat64())
				if n >= before {
					sum += c.numbers.Base / watched
				}
			}
			w := group.fixed + group.event*sum
			off += (group.fixed/w - w/(w+0.5)) / seedsOfMean
		}
		t.Logf("%v: elasticity off by %.3f", group, off)
		if math.Abs(off) > 0.05 {
			t.Errorf("%v: elasticity is off by %.3f from what is worth it", group, off)
		}
	}
}

func TestALimitBeyondWhichThroughputFallsIsNotCrossed(t *testing.T) {
	seed := seeded(t)
	for i, k := range []int{8, 16, 64} {
		p := newPlant(t, standard(Slope), random(seed, uint64(i)))
		p.servers = k
		p.service = func(_, taken int) float64 {
			return 0.01 * max(1, float64(taken)/float64(k)) * varied(p.rng, 0.3)
		}
		p.run(20, nil)
		sum, ticks := 0.0, 0.0
		p.run(20, func(n Numbers) { sum += n.Base; ticks++ })
		t.Logf("%d servers: mean limit %.1f", k, sum/ticks)
		if mean := sum / ticks; mean > 1.3*float64(k) || mean < 0.6*float64(k) {
			t.Errorf("mean limit %.1f for %d servers", mean, k)
		}
	}
}

func TestAStallLeavesTheLimitAndItsEndIsMetAtOnce(t *testing.T) {
	seed := seeded(t)
	for _, k := range []int{8, 16, 32, 64} {
		mean, lowest, highest := 0.0, 0.0, 0.0
		for i := range uint64(seedsOfMean) {
			p := newPlant(t, standard(Slope), random(seed, i))
			p.constant(k, 0.02)
			p.from(3 * float64(k) / 0.02)
			p.budget = 0.3
			p.run(10, nil)
			before := p.numbers.Base
			p.speed = 0.02 / 10
			low, high := before, before
			p.run(3, func(n Numbers) { low, high = min(low, n.Base), max(high, n.Base) })
			lowest += low / seedsOfMean
			highest += high / seedsOfMean
			p.speed = 1
			p.run(0.4, nil)
			samples := p.samples
			p.run(1, nil)
			good := float64(p.samples-samples) * 0.02 / float64(k)
			if good < 0.6 {
				t.Errorf("%d servers: goodput %.3f from 0.4 s after the stall", k, good)
			}
			mean += good / seedsOfMean
		}
		t.Logf("%d servers: goodput %.3f from 0.4 s after the stall", k, mean)
		if mean < 0.93 {
			t.Errorf("%d servers: mean goodput %.3f from 0.4 s after the stall", k, mean)
		}
		if lowest < 0.7*float64(k) || highest > max(2*float64(k), float64(k)+unusedLeast+4) {
			t.Errorf("%d servers: limit %.1f to %.1f in the stall", k, lowest, highest)
		}
	}
}

func TestAnotherRegimeDropsTheOldCurve(t *testing.T) {
	for _, factor := range []float64{10, 0.1} {
		s := 0.005
		c := newClosed(t, func(q float64) float64 { return min(q, 100) / s })
		for range 200 {
			c.tick(0)
		}
		points := func() []point { return c.limiter.controller.(*slope).points }
		if len(points()) < 5 {
			t.Fatalf("only %d points before", len(points()))
		}
		s *= factor
		old := points()[len(points())-1].x
		for range 100 {
			c.tick(0)
			kept := points()
			newest := kept[len(kept)-1].x
			if math.Abs(newest-old) > 1 && math.Abs(kept[0].x-newest) > 1 {
				t.Fatalf("service × %v: points of both regimes are mixed: %v", factor, kept)
			}
		}
		if newest := points()[len(points())-1].x; math.Abs(newest-old) < 1 {
			t.Errorf("service × %v: not one point of the new regime", factor)
		}
	}
}

// An 8 x 4 ms backend takes 2,000 requests a second.
func light(t *testing.T, seed uint64) *plant {
	p := newPlant(t, standard(Slope), random(seed, 0))
	p.constant(8, 0.004)
	return p
}

func TestALoadThatFitsMovesNothingAndHoldsNobodyLong(t *testing.T) {
	seed := seeded(t)
	minutes := float64(count(1, 10))
	for _, rate := range []float64{1000, 5} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			p := light(t, seed)
			p.from(rate)
			least, most := math.Inf(1), 0.0
			p.run(90, nil) // in which it forgets what it begins with and does not need
			p.run(60*minutes, func(n Numbers) {
				least, most = min(least, n.Base), max(most, n.Base)
				if n.ShareRate != 0 && n.Saturation == 0 && len(p.waiting) == 0 {
					t.Fatal("a share is in force")
				}
			})
			if most > 1.1*least || most > 16 || least < unusedLeast {
				t.Errorf("the limit went from %.2f to %.2f", least, most)
			}
			if p.longest > 0.02 || p.ended > 0 {
				t.Errorf("held up to %.3f s, %d shed", p.longest, p.ended)
			}
		})
	}
	t.Run("bursts", func(t *testing.T) {
		p := light(t, seed)
		for range int(minutes * 60 / 0.12) {
			p.from(2 * 0.7 * 2000)
			p.run(0.06, nil)
			p.arrival = math.Inf(1)
			p.run(0.06, nil)
		}
		if p.longest > 0.08 || p.ended > 0 {
			t.Errorf("held up to %.3f s, %d shed", p.longest, p.ended)
		}
	})
}

func TestDemandIsNotTakenForElasticity(t *testing.T) {
	p := light(t, seeded(t))
	p.from(1.1 * 2000)
	p.budget = 0.05
	p.run(float64(count(60, 600)), func(n Numbers) {
		if n.Base > 64 {
			t.Fatalf("at 1.1 of the capacity of 8 servers the limit ran up to %.1f", n.Base)
		}
	})
}

func TestWhatASurgeNeededIsForgotten(t *testing.T) {
	p := light(t, seeded(t))
	p.limiter.controller.(*slope).base = 200
	p.from(400)
	unused := false
	p.run(60, func(n Numbers) {
		unused = unused || n.Reason == ReasonUnused
		if n.Reason != "" && n.Reason != ReasonUnused {
			t.Fatalf("moved by %q", n.Reason)
		}
	})
	if !unused || p.numbers.Base > 30 {
		t.Errorf("a minute after the surge the limit is %.1f", p.numbers.Base)
	}
}

func TestDropsCutOncePerServiceTime(t *testing.T) {
	for _, service := range []time.Duration{5 * time.Millisecond, 300 * time.Millisecond} {
		l, err := New(standard(Slope))
		if err != nil {
			t.Fatal(err)
		}
		now, c := time.Duration(0), Counts{}
		step := func(drops uint64) Numbers {
			now += tick
			c.Samples += 10
			c.SampleSumNS += 10 * uint64(service)
			c.AreaNS += 16 * uint64(tick)
			c.SaturatedNS += uint64(tick) / 2 // no evidence for anything else
			c.MeteredNS += uint64(tick)
			c.Drops += drops
			return l.Tick(now, c, nil)
		}
		for range 50 {
			step(0)
		}
		rest := max(100*time.Millisecond, service*9/10) // the mean is still on its way
		last, cuts := time.Duration(-1), 0
		for l.Numbers().Base > 2 {
			before := l.Numbers().Base
			n := step(1)
			if n.Reason != ReasonDrops {
				if n.Base != before {
					t.Fatalf("moved by %q", n.Reason)
				}
				continue
			}
			if want := max(2, before*0.7); n.Base != want {
				t.Errorf("cut from %v to %v, not %v", before, n.Base, want)
			}
			if last >= 0 && now-last <= rest {
				t.Errorf("service time %v: cut again after %v", service, now-last)
			}
			last = now
			cuts++
			if now > time.Minute {
				t.Fatal("no more cuts")
			}
		}
		if cuts < 5 {
			t.Errorf("%d cuts from 16 to 2", cuts)
		}
		c.Samples += 1000 // one in a hundred is none
		if n := step(10); n.Reason == ReasonDrops {
			t.Error("one drop in a hundred samples cut the limit")
		}
	}
}
