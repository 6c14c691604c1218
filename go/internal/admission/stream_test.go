package admission

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// stream makes up what data planes count: any mixture of loads, backends and faults, which follows
// the limit or does not.
type stream struct {
	rng *rand.Rand
	now time.Duration

	left       int // ticks of this regime
	follows    bool
	saturation float64
	capacity   float64 // events a second
	service    float64 // seconds
	drops      float64 // of the samples
	noise      float64
	quiet      bool // saturation stays below 0.3
}

func newStream(rng *rand.Rand) *stream { return &stream{rng: rng} }

func (s *stream) regime() {
	s.left = 10 + s.rng.IntN(200)
	s.follows = s.rng.IntN(2) == 0
	s.saturation = min(1, 1.5*s.rng.Float64())
	if s.quiet {
		s.saturation *= 0.29
	}
	s.capacity = math.Exp(s.rng.Float64()*14 - 2)
	s.service = math.Exp(s.rng.Float64()*11 - 9)
	s.drops = max(0, s.rng.Float64()-0.8)
	s.noise = s.rng.Float64()
}

// window makes the counts of one more tick.
func (s *stream) window(limit uint64) Window {
	if s.left == 0 {
		s.regime()
	}
	s.left--
	s.now += tick
	q := 1 + s.rng.Float64()*100
	if s.follows {
		q = float64(limit)
	}
	span := tick.Seconds()
	n := min(s.capacity, q/s.service) * span * math.Exp(s.noise*s.rng.NormFloat64()/3)
	n = math.Floor(min(n, 1e6) + s.rng.Float64())
	w := Window{Span: tick, Samples: uint64(n), Peak: uint64(q), Sheds: s.rng.Uint64N(3),
		SampleSum: time.Duration(n * s.service * 1e9 * (1 + s.noise*s.rng.Float64())),
		Area:      time.Duration(q * float64(tick)),
		Saturated: time.Duration(s.saturation * float64(tick))}
	if s.rng.Float64() < s.drops {
		w.Drops = 1 + s.rng.Uint64N(1+w.Samples/10)
	}
	if s.rng.IntN(100) == 0 {
		w.Area -= time.Duration(s.rng.Float64() * 3e9) // void time, taken off late
	}
	return w
}

// add counts a window.
func (c *Counts) add(w Window) {
	c.Samples += w.Samples
	c.SampleSumNS += uint64(w.SampleSum)
	c.Drops += w.Drops
	c.AreaNS += uint64(w.Area)
	c.SaturatedNS += uint64(w.Saturated)
	c.MeteredNS += uint64(w.Span)
	c.Sheds += w.Sheds
	c.Peak, c.Inflight = w.Peak, w.Peak
}

func (n Numbers) sane(c Config) string {
	floats := []float64{n.Base, n.ShareRate, n.FloorRate, n.Throughput, n.Saturation}
	for _, f := range floats {
		if math.IsNaN(f) || math.IsInf(f, 0) || f < 0 {
			return "not a number of anything"
		}
	}
	switch {
	case n.Limit < c.MinLimit || n.Limit > c.MaxLimit:
		return "limit out of its bounds"
	case n.Base < float64(c.MinLimit) || n.Base > float64(c.MaxLimit):
		return "base out of its bounds"
	case n.HoldBound < 10*time.Millisecond || n.HoldBound > 300*time.Millisecond:
		return "hold bound out of its bounds"
	case n.ServiceTime < 0 || n.Saturation > 1:
		return "times out of their bounds"
	case n.FloorRate < 1 || n.FloorSlots < 2 || n.FloorSlots > c.MaxLimit/10+2:
		return "floor out of its bounds"
	case n.ShareRate > max(n.Throughput, shareLeast):
		return "a share of more than there is"
	case n.PaceInterval < 0 || (n.PaceInterval > 0) != (n.PaceDepth > 0):
		return "pacing out of its bounds"
	}
	return ""
}

// wild feeds a limiter counts of all kinds and of none: jumps, falls, pauses, clocks that stand.
func wild(t *testing.T, c Config, rng *rand.Rand, ticks int, each func(before, after Numbers)) {
	l, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	s, counts := newStream(rng), Counts{Samples: rng.Uint64(), AreaNS: rng.Uint64()}
	offered := make([]uint64, rng.IntN(20))
	now := time.Duration(rng.Int64N(1 << 50))
	for range ticks {
		counts.add(s.window(l.Numbers().Limit))
		for i := range offered {
			offered[i] += rng.Uint64N(50)
		}
		switch rng.IntN(200) {
		case 0:
			now += 5 * time.Second
		case 1:
			counts = Counts{}
		case 2:
			counts.Samples, counts.SampleSumNS = rng.Uint64(), rng.Uint64()
		case 3:
			counts.MeteredNS = rng.Uint64()
		case 4:
			offered = make([]uint64, rng.IntN(40))
		case 5:
			now -= time.Duration(rng.Int64N(int64(time.Second)))
		case 6:
			counts.SaturatedNS += 1 << 52
		case 7:
			counts.SampleSumNS += 1 << 52
		case 8:
			counts.AreaNS -= 1 << 52
		case 9, 10, 11:
			now -= tick
		}
		counts.Held = rng.Uint64N(2)
		now += tick + time.Duration(rng.Int64N(1e7)) - 5e6
		before := l.Numbers()
		each(before, l.Tick(now, counts, offered))
	}
}

func TestNoCountersMakeANumberThatIsNone(t *testing.T) {
	seed := seeded(t)
	for i := range uint64(count(10, 500)) {
		for _, algorithm := range algorithms {
			c := standard(algorithm)
			c.Pacing = i%2 == 0
			if i%3 == 0 {
				c.MinLimit, c.InitialLimit, c.MaxLimit = 1, 1+i%7, 1+i%7+i%5
			}
			wild(t, c, random(seed, i), 3000, func(before, after Numbers) {
				if fault := after.sane(c); fault != "" {
					t.Fatalf("%s, stream %d: %s: %+v", algorithm, i, fault, after)
				}
				if (after.Reason != "") != (after.Base != before.Base) {
					t.Fatalf("%s, stream %d: base from %v to %v, reason %q", algorithm, i,
						before.Base, after.Base, after.Reason)
				}
				if step := math.Abs(math.Log(after.Base / before.Base)); step > 0.5+1e-9 &&
					math.Abs(after.Base-before.Base) > gradientQueue {
					t.Fatalf("%s, stream %d: a step from %v to %v", algorithm, i,
						before.Base, after.Base)
				}
			})
		}
	}
}

func TestTheSameCountersGiveTheSameNumbers(t *testing.T) {
	seed := seeded(t)
	for _, algorithm := range algorithms {
		var first []Numbers
		wild(t, standard(algorithm), random(seed, 1), 5000, func(_, n Numbers) {
			first = append(first, n)
		})
		i := 0
		wild(t, standard(algorithm), random(seed, 1), 5000, func(_, n Numbers) {
			if n != first[i] {
				t.Fatalf("%s, tick %d: %+v, then %+v", algorithm, i, first[i], n)
			}
			i++
		})
	}
}

// twin runs two limiters over the same stream, the second with its counts changed.
func twin(t *testing.T, c Config, rng *rand.Rand, change func(*Counts), same func(a, b Numbers)) {
	a, errA := New(c)
	b, errB := New(c)
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	s, counts, offered := newStream(rng), Counts{}, []uint64{0, 0, 0}
	for range 5000 {
		counts.add(s.window(a.Numbers().Limit))
		counts.Held = rng.Uint64N(2)
		for i := range offered {
			offered[i] += rng.Uint64N(50)
		}
		changed := counts
		change(&changed)
		same(a.Tick(s.now, counts, offered), b.Tick(s.now, changed, offered))
	}
}

func TestWhereTheCountsBeganDoesNotMatter(t *testing.T) {
	seed := seeded(t)
	for i := range uint64(5) {
		rng := random(seed, 100+i)
		by := Counts{Samples: rng.Uint64(), SampleSumNS: rng.Uint64(), Drops: -rng.Uint64N(100),
			AreaNS: rng.Uint64(), SaturatedNS: -rng.Uint64N(1e9), MeteredNS: -rng.Uint64N(1e9),
			Sheds: rng.Uint64()}
		twin(t, standard(Slope), random(seed, i), func(c *Counts) {
			c.Samples += by.Samples
			c.SampleSumNS += by.SampleSumNS
			c.Drops += by.Drops
			c.AreaNS += by.AreaNS
			c.SaturatedNS += by.SaturatedNS
			c.MeteredNS += by.MeteredNS
			c.Sheds += by.Sheds
		}, func(a, b Numbers) {
			if a != b {
				t.Fatalf("%+v, and from other beginnings %+v", a, b)
			}
		})
	}
}

func TestARefusedRequestMovesTheHoldBoundAndNothingElse(t *testing.T) {
	seed := seeded(t)
	moved := false
	for _, algorithm := range algorithms {
		twin(t, standard(algorithm), random(seed, 0), func(c *Counts) {
			c.Sheds = 0
		}, func(a, b Numbers) {
			moved = moved || a.HoldBound != b.HoldBound
			a.HoldBound = b.HoldBound
			if a != b {
				t.Fatalf("%s: %+v, and without sheds %+v", algorithm, a, b)
			}
		})
	}
	if !moved {
		t.Error("sheds did not even move the hold bound")
	}
}

func TestAnUnsaturatedLimitNeverGrows(t *testing.T) {
	seed := seeded(t)
	for i := range uint64(count(10, 500)) {
		for _, algorithm := range algorithms {
			l, err := New(standard(algorithm))
			if err != nil {
				t.Fatal(err)
			}
			s, c := newStream(random(seed, i)), Counts{}
			s.quiet = true
			for range 2000 {
				c.add(s.window(l.Numbers().Limit))
				before := l.Numbers().Base
				if n := l.Tick(s.now, c, nil); n.Base > before || n.Growing {
					t.Fatalf("%s: from %v to %v, growing %v", algorithm, before, n.Base, n.Growing)
				}
			}
		}
	}
}

func TestWithoutSamplesOrDropsNothingMoves(t *testing.T) {
	seed := seeded(t)
	for _, algorithm := range algorithms {
		l, err := New(standard(algorithm))
		if err != nil {
			t.Fatal(err)
		}
		s, c := newStream(random(seed, 0)), Counts{}
		for range 5000 {
			w := s.window(l.Numbers().Limit)
			w.Samples, w.SampleSum, w.Drops = 0, 0, 0
			c.add(w)
			if n := l.Tick(s.now, c, nil); n.Base != 16 || n.Limit != 16 || n.ServiceTime != 0 {
				t.Fatalf("%s: %+v", algorithm, n)
			}
		}
	}
}

func TestTwoStepsAreAServiceTimeApart(t *testing.T) {
	seed := seeded(t)
	for i, service := range []float64{0.0001, 0.01, 0.05, 0.1, 0.3, 0.8, 5} {
		l, err := New(standard(Slope))
		if err != nil {
			t.Fatal(err)
		}
		rng := random(seed, uint64(i))
		c, now, steps := Counts{}, time.Duration(0), 0
		last := time.Duration(-1)
		apart := time.Duration(max(0.08, min(service, 1)) * 1e9)
		for range 20_000 {
			n := 1 + rng.Uint64N(20)
			c.add(Window{Span: tick, Samples: n, SampleSum: time.Duration(float64(n) * service * 1e9),
				Area: time.Duration(l.Numbers().Limit) * tick, Saturated: tick, Peak: 100})
			now += tick
			if l.Tick(now, c, nil).Reason == "" {
				continue
			}
			if last >= 0 && now-last < apart {
				t.Fatalf("service %v s: steps %v apart", service, now-last)
			}
			last = now
			steps++
		}
		if steps < 3 {
			t.Errorf("service %v s: %d steps", service, steps)
		}
	}
}
