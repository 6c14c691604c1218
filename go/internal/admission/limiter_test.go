package admission

import (
	"math"
	"strings"
	"testing"
	"time"
)

// clocked ticks a limiter on a clock of its own with counts that are easy to say.
type clocked struct {
	t       *testing.T
	limiter *Limiter
	now     time.Duration
	counts  Counts
	offered []uint64
}

func newClocked(t *testing.T, c Config) *clocked {
	t.Helper()
	l, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	k := &clocked{t: t, limiter: l}
	l.Tick(0, k.counts, nil)
	return k
}

// pass ticks for so long: events a second of that service time, and part of the time saturated.
func (k *clocked) pass(span time.Duration, rate int, service time.Duration, sat float64) Numbers {
	for range span / tick {
		n := uint64(rate) * uint64(tick) / uint64(time.Second)
		w := Window{Span: tick, Samples: n, SampleSum: time.Duration(n) * service,
			Area: time.Duration(n) * service, Saturated: time.Duration(sat * float64(tick))}
		w.Peak = k.limiter.Numbers().Limit
		k.counts.add(w)
		k.now += tick
		k.limiter.Tick(k.now, k.counts, k.offered)
	}
	return k.limiter.Numbers()
}

func TestAConfigIsCheckedFieldByField(t *testing.T) {
	for field, spoil := range map[string]func(*Config){
		"algorithm":     func(c *Config) { c.Algorithm = "vegas" },
		"min limit":     func(c *Config) { c.MinLimit = 0 },
		"max limit":     func(c *Config) { c.MaxLimit = LimitMax + 1 },
		"initial limit": func(c *Config) { c.InitialLimit = 1 },
		"patience":      func(c *Config) { c.Patience = 0 },
		"smoothing":     func(c *Config) { c.Algorithm, c.Smoothing = Gradient2, 0 },
		"tolerance":     func(c *Config) { c.Algorithm, c.Tolerance = MinGradient, math.NaN() },
		"start":         func(c *Config) { c.Start = math.Inf(1) },
	} {
		c := standard(Slope)
		spoil(&c)
		if _, err := New(c); err == nil || !strings.HasPrefix(err.Error(), field+": ") {
			t.Errorf("%s: %v", field, err)
		}
		k := newClocked(t, standard(Slope))
		if err := k.limiter.Reconfigure(c); err == nil {
			t.Errorf("%s: reconfigured", field)
		}
		if k.limiter.config != standard(Slope) {
			t.Errorf("%s: the config changed in spite of the error", field)
		}
	}
}

func TestARestartTakesUpTheLimit(t *testing.T) {
	for _, algorithm := range algorithms {
		c := standard(algorithm)
		c.Start = 123.5
		l, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		want, reason := 123.5, ReasonRestart
		if algorithm == Fixed {
			want, reason = 16, ""
		}
		if n := l.Numbers(); n.Base != want || n.Limit != uint64(math.Round(want)) {
			t.Errorf("%s: %+v", algorithm, n)
		}
		if n := l.Tick(time.Hour, Counts{Samples: 1e6}, nil); n.Base != want || n.Reason != reason {
			t.Errorf("%s: %+v", algorithm, n)
		}
		c.Start = 1e6
		if l, err = New(c); err != nil || l.Numbers().Limit > c.MaxLimit {
			t.Errorf("%s: %v, %+v", algorithm, err, l.Numbers())
		}
	}
}

func TestAPinHoldsWhateverHappensAndItsEndGoesOnFromBefore(t *testing.T) {
	for _, algorithm := range algorithms {
		k := newClocked(t, standard(algorithm))
		k.limiter.Pin(300)
		if n := k.pass(tick, 1000, tick, 1); n.Reason != ReasonPinned || n.Limit != 300 ||
			n.Base != 16 {
			t.Errorf("%s: %+v", algorithm, n)
		}
		for range 10 {
			k.counts.Drops += 5
			n := k.pass(time.Second, 1000, time.Second, 1)
			if n.Limit != 300 || n.Base != 16 || n.Reason != "" || n.Growing {
				t.Fatalf("%s: pinned, and %+v", algorithm, n)
			}
			if n.ServiceTime == 0 || n.Throughput == 0 {
				t.Fatalf("%s: a pin blinds: %+v", algorithm, n)
			}
		}
		k.limiter.Unpin()
		n := k.pass(tick, 0, 0, 0)
		const want = 16
		if n.Reason != ReasonReleased || n.Base != want || n.Limit != want || k.limiter.Pinned() != 0 {
			t.Errorf("%s: let go, and %+v", algorithm, n)
		}
		k.limiter.Unpin()
		if n = k.pass(tick, 0, 0, 0); n.Reason != "" || n.Base != want {
			t.Errorf("%s: let go twice, and %+v", algorithm, n)
		}
	}
	k := newClocked(t, standard(Slope))
	for pin, want := range map[uint64]uint64{0: 1, 1: 1, 5000: 5000, math.MaxUint64: LimitMax} {
		k.limiter.Pin(pin)
		if n := k.pass(tick, 0, 0, 0); n.Limit != want || k.limiter.Pinned() != want {
			t.Errorf("pinned at %d: %+v", pin, n)
		}
	}
	k.limiter.Unpin()
	if n := k.pass(tick, 0, 0, 0); n.Limit > 4096 || n.Limit < 2 {
		t.Errorf("let go out of the bounds: %+v", n)
	}
}

func TestAnotherConfigKeepsTheLimitWithinItsBounds(t *testing.T) {
	k := newClocked(t, standard(Slope))
	k.pass(5*time.Second, 10_000, 2*time.Millisecond, 1)
	was := k.limiter.Numbers().Base
	points := len(k.limiter.controller.(*slope).points)
	if was < 1001 || points < 2 {
		t.Fatalf("base %v, %d points: nothing to keep", was, points)
	}
	same := func(c Config, want float64, reason Reason) {
		t.Helper()
		if err := k.limiter.Reconfigure(c); err != nil {
			t.Fatal(err)
		}
		if n := k.pass(tick, 0, 0, 0); n.Base != want || n.Reason != reason {
			t.Errorf("base %v, reason %q instead of %v, %q", n.Base, n.Reason, want, reason)
		}
	}
	c := standard(Slope)
	c.Start = 7
	same(c, was, "")
	if now := len(k.limiter.controller.(*slope).points); now != points {
		t.Errorf("the same config cost evidence: %d points instead of %d", now, points)
	}
	c = standard(Gradient2)
	c.Pacing = true
	same(c, was, "")
	if n := k.limiter.Numbers(); n.PaceInterval == 0 || n.PaceDepth < 10*time.Millisecond {
		t.Errorf("no pacing: %+v", n)
	}
	c.MinLimit, c.InitialLimit, c.MaxLimit = 1000, 1000, 1001
	same(c, 1001, ReasonConfig)
	k.limiter.Pin(50)
	same(c, 1001, ReasonPinned)
	c = standard(AIMD)
	same(c, 1001, "")
	k.limiter.Unpin()
	same(c, 1001, ReasonReleased)
	c.Algorithm, c.InitialLimit = Fixed, 77
	same(c, 77, ReasonConfig)
}

func TestAfterAGapTheNumbersStayAndTheEvidenceIsGone(t *testing.T) {
	for _, gap := range []time.Duration{5 * time.Second, -3 * time.Second} {
		k := newClocked(t, standard(Slope))
		k.offered = []uint64{0, 0}
		k.counts.Held = 3
		for range 250 {
			k.offered[0] += 400
			k.offered[1] += 40
			k.pass(tick, 10_000, 2*time.Millisecond, 1)
		}
		before := k.limiter.Numbers()
		before.Reason = ""
		if before.ShareRate == 0 {
			t.Fatalf("no share to lose: %+v", before)
		}
		s := k.limiter.controller.(*slope)
		bound, sign, noise := s.bound, s.sign, s.noise
		k.now += gap
		k.offered[0] += 1e6
		k.counts.add(Window{Span: 5 * time.Second, Samples: 1e6, SampleSum: 1e6 * time.Second,
			Drops: 1e5, Sheds: 1e6})
		if after := k.limiter.Tick(k.now, k.counts, k.offered); after != before {
			t.Errorf("gap of %v: %+v, before %+v", gap, after, before)
		}
		if len(s.points) != 0 || s.gained != (evidence{}) || s.settle != 0 {
			t.Errorf("gap of %v: evidence is left: %+v", gap, s)
		}
		if s.bound != bound || s.sign != sign || s.noise != noise {
			t.Errorf("gap of %v: more is gone than evidence", gap)
		}
		next := k.pass(tick, 10_000, 2*time.Millisecond, 1)
		if math.Abs(next.Throughput-10_000) > 500 || next.Base != before.Base {
			t.Errorf("gap of %v: what was in it came out later: %+v", gap, next)
		}
	}
}

func TestAMeterThatStandsStillLosesNothing(t *testing.T) {
	seed := seeded(t)
	run := func(stands bool) (events float64, n Numbers) {
		l, err := New(standard(Slope))
		if err != nil {
			t.Fatal(err)
		}
		s, c, shown := newStream(random(seed, 0)), Counts{}, Counts{}
		rng := random(seed, 1)
		l.Tick(0, c, nil)
		for i := range 2000 {
			c.add(s.window(16))
			before := shown
			shown = c
			if stands && i%50 < 20 && i > 0 {
				// Nobody metered, but some of the counts come.
				shown.MeteredNS, shown.AreaNS = before.MeteredNS, before.AreaNS
				shown.SaturatedNS = before.SaturatedNS
				if rng.IntN(2) == 0 {
					shown.Samples, shown.SampleSumNS = before.Samples, before.SampleSumNS
				}
			}
			was := l.numbers.Base
			had := l.counts
			n = l.Tick(s.now, shown, nil)
			if shown.MeteredNS == had.MeteredNS && n.Base != was {
				t.Fatal("the limit moved without metered time")
			}
			events += float64(l.counts.Samples - had.Samples)
		}
		return events, n
	}
	all, _ := run(false)
	kept, _ := run(true)
	if all == 0 || kept != all {
		t.Errorf("%v of %v events were counted", kept, all)
	}
}

func TestCountsThatFellAreANewBeginning(t *testing.T) {
	for name, spoil := range map[string]func(*Counts){
		"all":       func(c *Counts) { *c = Counts{} },
		"samples":   func(c *Counts) { c.Samples -= 1000 },
		"sum":       func(c *Counts) { c.SampleSumNS = 1 },
		"saturated": func(c *Counts) { c.SaturatedNS = 1 },
		"metered":   func(c *Counts) { c.MeteredNS -= 1e9 },
		"drops":     func(c *Counts) { c.Drops-- },
		"sheds":     func(c *Counts) { c.Sheds -= 1 << 60 },
		"area":      func(c *Counts) { c.AreaNS -= 1 << 60 },
		"beyond":    func(c *Counts) { c.Samples += 1 << 60 },
	} {
		k := newClocked(t, standard(Slope))
		k.counts.Drops = 1
		k.pass(3*time.Second, 10_000, 2*time.Millisecond, 1)
		before := k.limiter.Numbers()
		before.Reason = ""
		spoil(&k.counts)
		k.now += tick
		if after := k.limiter.Tick(k.now, k.counts, nil); after != before {
			t.Errorf("%s: %+v, before %+v", name, after, before)
		}
		after := k.pass(tick, 10_000, 2*time.Millisecond, 1)
		if math.Abs(after.Throughput/before.Throughput-1) > 0.01 ||
			after.ServiceTime != before.ServiceTime {
			t.Errorf("%s: then %+v, before %+v", name, after, before)
		}
	}
}

func TestTheHoldBoundIsAsShortAsKeepsTheSlotsBusy(t *testing.T) {
	k := newClocked(t, standard(Fixed))
	shed := func(span time.Duration, sat float64) time.Duration {
		for range span / tick {
			k.counts.Sheds++
			k.pass(tick, 1000, tick, sat)
		}
		return k.limiter.Numbers().HoldBound
	}
	if got := k.pass(time.Second, 1000, tick, 0.5).HoldBound; got != 10*time.Millisecond {
		t.Errorf("without sheds %v", got)
	}
	if got := shed(100*time.Millisecond, 0.5); got != 12500*time.Microsecond {
		t.Errorf("after a tenth of a second of sheds with free slots %v", got)
	}
	if got := shed(5*time.Second, 0.96); got != 300*time.Millisecond {
		t.Errorf("with free slots for long %v", got)
	}
	if got := shed(100*time.Millisecond, 1); got != 285*time.Millisecond {
		t.Errorf("after a tenth of a second without free slots %v", got)
	}
	if got := shed(10*time.Second, 1); got != 10*time.Millisecond {
		t.Errorf("without free slots for long %v", got)
	}
}

func TestServiceTimeAndThroughputAreMeansOfTheirOwnSpan(t *testing.T) {
	k := newClocked(t, standard(Fixed))
	n := k.pass(300*time.Millisecond, 10_000, 2*time.Millisecond, 0)
	if want := 10_000 * (1 - math.Exp(-1)); math.Abs(n.Throughput-want) > 1 {
		t.Errorf("throughput %v after one time constant, not %v", n.Throughput, want)
	}
	n = k.pass(3*time.Second, 10_000, 2*time.Millisecond, 0)
	if math.Abs(n.Throughput-10_000) > 1 || n.ServiceTime.Round(1000) != 2*time.Millisecond {
		t.Errorf("%+v", n)
	}
	// 1,500 a second are 30 a tick, the reach of the mean.
	n = k.pass(tick, 1500, 3*time.Millisecond, 0)
	want := 2 + (1 - math.Exp(-1))
	if got := n.ServiceTime.Seconds() * 1e3; math.Abs(got-want) > 0.001 {
		t.Errorf("service time %v ms, not %v", got, want)
	}
	if n = k.pass(10*time.Second, 0, 0, 0); n.Throughput > 0.001 || n.ServiceTime == 0 {
		t.Errorf("idle: %+v", n)
	}
}

func TestTheFloorIsATenthOfLimitAndThroughput(t *testing.T) {
	k := newClocked(t, standard(Fixed))
	if n := k.limiter.Numbers(); n.FloorRate != 2 || n.FloorSlots != 3 {
		t.Errorf("at the start %+v", n)
	}
	k.limiter.Pin(200)
	if n := k.pass(5*time.Second, 1000, tick, 0); math.Abs(n.FloorRate-100) > 0.1 ||
		n.FloorSlots != 21 {
		t.Errorf("%+v", n)
	}
	k.limiter.Pin(1)
	if n := k.pass(30*time.Second, 0, 0, 0); n.FloorRate != 1 || n.FloorSlots != 2 {
		t.Errorf("%+v", n)
	}
}

func TestPacingSpreadsTheLimitOverAServiceTime(t *testing.T) {
	c := standard(Fixed)
	if n := newClocked(t, c).pass(time.Second, 1000, tick, 1); n.PaceInterval != 0 {
		t.Errorf("off, and %+v", n)
	}
	c.Pacing = true
	k := newClocked(t, c)
	if n := k.limiter.Numbers(); n.PaceInterval != 0 || n.PaceDepth != 0 {
		t.Errorf("paced by a service time that is not known: %+v", n)
	}
	n := k.pass(5*time.Second, 1000, 32*time.Millisecond, 1)
	if n.PaceInterval.Round(10*time.Microsecond) != 2*time.Millisecond ||
		n.PaceDepth.Round(10*time.Microsecond) != 32*time.Millisecond {
		t.Errorf("%+v", n)
	}
	if n = k.pass(5*time.Second, 1000, 16, 1); n.PaceInterval != 1 ||
		n.PaceDepth != 10*time.Millisecond {
		t.Errorf("%+v", n)
	}
}
