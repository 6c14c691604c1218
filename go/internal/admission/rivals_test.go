package admission

import (
	"math"
	"testing"
	"time"
)

// judged gives a controller full windows of one kind and the reasons it had.
func judged(c Controller, windows int, w Window) (reasons map[Reason]int) {
	reasons = map[Reason]int{}
	w.Span, w.ServiceTime = 100*time.Millisecond, tick
	for i := range windows {
		reasons[c.Tick(time.Duration(i)*time.Second, w)]++
	}
	return reasons
}

func windowOf(service time.Duration, saturated time.Duration) Window {
	return Window{Samples: 100, SampleSum: 100 * service, Area: 100 * service,
		Saturated: saturated}
}

const full = 100 * time.Millisecond

func TestGradient2FollowsItsFormula(t *testing.T) {
	g := newController(standard(Gradient2), 100)
	if got := judged(g, 1, windowOf(10*time.Millisecond, full)); got[ReasonGradient] != 1 {
		t.Errorf("%v", got)
	}
	// No queue: gradient 1, so a fifth of the queue of 4 is added.
	if got := g.Base(); math.Abs(got-100.8) > 1e-9 {
		t.Errorf("limit %v", got)
	}
	judged(g, 9, windowOf(10*time.Millisecond, full))
	was := g.Base()
	judged(g, 1, windowOf(30*time.Millisecond, full))
	mean := 10 + (30.0-10)*2/601
	want := was*0.8 + (was*1.5*mean/30+4)*0.2
	if got := g.Base(); math.Abs(got-want) > 1e-9 {
		t.Errorf("limit %v, not %v", got, want)
	}
	was = g.Base()
	judged(g, 1, windowOf(time.Hour, full))
	if want = was*0.8 + (was*0.5+4)*0.2; math.Abs(g.Base()-want) > 1e-9 {
		t.Errorf("limit %v, not %v: a gradient below a half", g.Base(), want)
	}
}

func TestGradient2HurriesItsMeanDownAfterATroubledTime(t *testing.T) {
	l := &longMean{}
	for range 5000 {
		l.add(1, 1)
	}
	steps := 0
	for ; l.add(0.01, 1) > 0.021; steps++ {
		if steps > 100 {
			t.Fatalf("mean %v after %d windows", l.value, steps)
		}
	}
}

func TestTheMinimumRisesByDoublingOnceAMinute(t *testing.T) {
	s := &slowMinimum{}
	if s.add(0.02, 1) != 0.02 || s.add(0.005, 1) != 0.005 {
		t.Errorf("minimum %v", s.value)
	}
	for range 60 {
		s.add(1, 1)
	}
	if math.Abs(s.value-0.01) > 1e-9 {
		t.Errorf("minimum %v after a minute", s.value)
	}
	if s.add(0.0101, 60) != 0.0101 {
		t.Errorf("minimum %v is above what was seen", s.value)
	}
}

func TestAIMDAddsOneAndGivesUpATenth(t *testing.T) {
	const service = 10 * time.Millisecond
	a := newController(standard(AIMD), 100)
	if got := judged(a, 10, windowOf(service, full)); got[ReasonAdditive] != 10 || a.Base() != 110 {
		t.Errorf("%v, limit %v", got, a.Base())
	}
	judged(a, 10, windowOf(service, full/2))
	if a.Base() != 110 {
		t.Errorf("unsaturated: limit %v", a.Base())
	}
	slow := judged(a, 2, windowOf(600*time.Millisecond, 0))
	if slow[ReasonLatency] != 2 || math.Abs(a.Base()-89.1) > 1e-9 {
		t.Errorf("beyond its patience: %v, limit %v", slow, a.Base())
	}
	w := windowOf(service, full)
	w.Samples, w.SampleSum, w.Area, w.Drops = 0, 0, 0, 1
	if got := judged(a, 100, w); got[ReasonDrops] == 0 || a.Base() != 2 {
		t.Errorf("drops and not one sample: %v, limit %v", got, a.Base())
	}
}

// What each rule makes of a store that got ten times slower is why slope is the default; that all
// of them stay between the bounds and none stops is what is asked of the others.
func TestEveryAlgorithmServesAStoreAtWhatLimitItFinds(t *testing.T) {
	seed := seeded(t)
	for i, algorithm := range algorithms {
		p := newPlant(t, standard(algorithm), random(seed, uint64(i)))
		p.constant(8, 0.004)
		p.from(4000)
		p.budget = 0.1
		p.run(10, nil)
		before := p.samples
		p.run(10, nil)
		healthy := float64(p.samples-before) / 10 / 2000
		p.speed = 0.1
		p.run(5, nil)
		before = p.samples
		p.run(15, nil)
		slow := float64(p.samples-before) / 15 / 200
		t.Logf("%s: goodput %.2f, of a slow store %.2f at limit %.1f", algorithm, healthy, slow,
			p.numbers.Base)
		least := map[string]float64{Slope: 0.95, Fixed: 0.97}[algorithm]
		if healthy < max(least, 0.6) || slow < max(least, 0.2) {
			t.Errorf("%s: goodput %.2f, of a slow store %.2f", algorithm, healthy, slow)
		}
	}
}
