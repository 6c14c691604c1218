package deliver

import (
	"testing"
	"time"

	"sluice/go/internal/admission"
	"sluice/go/internal/retry"
)

func TestAutoFindsWhatServersCanDoAndKeepsNoQueue(t *testing.T) {
	rng := seeded(t)
	for _, servers := range []int{1, 2, 4, 10, 40} {
		for _, each := range []time.Duration{
			time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, 2 * time.Second,
		} {
			for _, jitter := range []float64{0, 0.5} {
				p := newPlant(t, rng, Auto{}).serve(servers, each)
				p.jitter = jitter
				if p.capacity() > 5_000 {
					continue // no more than the others, and takes long
				}
				// What it learns from is answers, and no less than so many service times.
				span := max(30*time.Second, 600*each, time.Duration(4000/p.capacity()*1e9))
				p.run(min(span, time.Duration(4e4/p.capacity()*1e9)))
				s := p.run(min(span/2, time.Duration(2e4/p.capacity()*1e9)))
				// It begins at 16, and a queue of a few milliseconds is nothing to it.
				most := max(4*float64(servers), 20, 0.02*p.capacity())
				if s.throughput < 0.9*p.capacity() || s.inFlight > most {
					t.Errorf("%d servers of %v, jitter %v: %.1f of %.1f answers a second, %.1f in flight",
						servers, each, jitter, s.throughput, p.capacity(), s.inFlight)
				}
			}
		}
	}
}

func TestAutoKeepsACollapsingDestinationNearItsPeak(t *testing.T) {
	rng := seeded(t)
	for _, peak := range []int{5, 20, 100} {
		p := newPlant(t, rng, Auto{})
		p.jitter = 0.3
		best := float64(peak) / 0.05
		p.share = func(n int) float64 { // beyond the peak more in flight makes it slower as a whole
			if n > peak {
				return best * float64(peak) / float64(n)
			}
			return float64(n) / 0.05
		}
		p.run(40 * time.Second)
		s := p.run(40 * time.Second)
		if s.throughput < 0.75*best || s.inFlight > 1.25*float64(peak)+1 {
			t.Errorf("peak %.0f/s at %d: %.0f/s at %.1f", best, peak, s.throughput, s.inFlight)
		}
	}
}

func TestAutoFollowsWhatBecomesFasterOrSlower(t *testing.T) {
	p := newPlant(t, seeded(t), Auto{}).serve(10, 20*time.Millisecond)
	for _, c := range []struct {
		servers int
		each    time.Duration
	}{{10, 20 * time.Millisecond}, {100, 20 * time.Millisecond}, {10, 200 * time.Millisecond},
		{20, 5 * time.Millisecond}} {
		p.serve(c.servers, c.each)
		p.run(min(90*time.Second, time.Duration(6e4/p.capacity()*1e9)))
		s := p.run(min(30*time.Second, time.Duration(2e4/p.capacity()*1e9)))
		if s.throughput < 0.9*p.capacity() || s.inFlight > 4*float64(c.servers) {
			t.Errorf("%d servers of %v: %.1f of %.1f answers a second, %.1f in flight",
				c.servers, c.each, s.throughput, p.capacity(), s.inFlight)
		}
		if slow := c.each >= 200*time.Millisecond; slow != (p.pace > 1) {
			t.Errorf("servers of %v at pace %d", c.each, p.pace)
		}
	}
}

func TestAutoGoesDownToItsLeastInAHangAndComesBack(t *testing.T) {
	p := newPlant(t, seeded(t), Auto{}).serve(10, 20*time.Millisecond)
	p.timeout = time.Second
	p.run(10 * time.Second)
	p.serve(1, 1000*time.Hour)
	p.run(20 * time.Second)
	// The last step of its alternation may stand: one attempt more than the least.
	if s := p.run(10 * time.Second); s.inFlight > AutoMin+1 || p.control.Numbers().Base > AutoMin {
		t.Errorf("in the hang: %+v at a base of %v", s, p.control.Numbers().Base)
	}
	p.serve(10, 20*time.Millisecond)
	p.run(10 * time.Second)
	if s := p.run(10 * time.Second); s.throughput < 0.9*p.capacity() || s.failures > 0 {
		t.Errorf("after it: %+v", s)
	}
}

func TestAFewFailuresCostNoConcurrencyAndManyDo(t *testing.T) {
	rng := seeded(t)
	for _, broken := range []float64{0.01, 0.05, 0.15, 0.5} {
		p := newPlant(t, rng, Auto{}).serve(10, 20*time.Millisecond)
		p.jitter, p.broken = 0.5, broken
		p.run(20 * time.Second)
		s := p.run(30 * time.Second)
		few := broken < 0.2
		if few != (s.throughput > 0.9*(1-broken)*p.capacity()) || few != (s.inFlight > 5) {
			t.Errorf("%.0f %% failures: %+v of %.0f a second", 100*broken, s, p.capacity())
		}
	}
}

func TestALimitThatNobodyNeedsDoesNotGrow(t *testing.T) {
	rng := seeded(t)
	for _, demand := range []int{1, 3, 7} {
		p := newPlant(t, rng, Auto{}).serve(100, 20*time.Millisecond)
		p.demand = demand
		if p.run(time.Minute); p.control.Numbers().Base > 16 {
			t.Errorf("demand %d: base %v", demand, p.control.Numbers().Base)
		}
	}
}

// The bounds are the operator's promise to the destination, so they hold whatever is fed in.
func TestNoLimitLeavesItsBounds(t *testing.T) {
	rng := seeded(t)
	now := time.Unix(1767225600, 0)
	for range 200 {
		c := Auto{Min: 1 + rng.IntN(20), Initial: rng.IntN(100), Patience: time.Duration(rng.IntN(1e9))}
		c.Max = c.Min + rng.IntN(200)
		l := newLimiter(c)
		for range 2000 {
			switch now = now.Add(time.Duration(rng.Int64N(1 << rng.IntN(38)))); rng.IntN(40) {
			case 0:
				now = now.Add(-time.Duration(rng.Int64N(int64(time.Hour)))) // the clock is set back
			case 1:
				now = now.Add(time.Duration(rng.Int64N(int64(time.Hour))))
			}
			if l.limit < c.Min || l.limit > c.Max {
				t.Fatalf("%+v: limit %d", c, l.limit)
			}
			if room := l.room(now); room > 0 && (l.inFlight == 0 || rng.IntN(3) > 0) {
				for range 1 + rng.IntN(room) {
					l.begin()
				}
				if l.inFlight > l.limit {
					t.Fatalf("%+v: %d in flight at %d", c, l.inFlight, l.limit)
				}
			} else if l.inFlight > 0 {
				l.end(now, retry.Verdict(rng.IntN(4)), time.Duration(rng.Int64N(1<<40)-1000))
			}
		}
	}
}

func TestAnOrderThatTheSchedulerMixedUpIsNoClockSetBack(t *testing.T) {
	p := newPlant(t, seeded(t), Auto{}).serve(40, 10*time.Millisecond)
	answers := 0.0
	for range 10 * 100 {
		answers += p.run(10*time.Millisecond).throughput / 100
		p.room(p.now)
		at := p.at
		if p.room(p.now.Add(-10 * time.Microsecond)); p.at.Before(at) {
			t.Fatalf("the meter went back by %v", at.Sub(p.at))
		}
	}
	if answers < 0.8*10*p.capacity() {
		t.Errorf("%.0f of %.0f", answers, 10*p.capacity())
	}
}

func TestABurstKeepsTheLimitThatItNeeds(t *testing.T) {
	l, now := newLimiter(Auto{Initial: 150}), time.Unix(1767225600, 0)
	for range 300 {
		for range min(l.room(now), 100) {
			l.begin()
		}
		for now = now.Add(2 * time.Millisecond); l.inFlight > 0; {
			l.end(now, retry.Delivered, 2*time.Millisecond)
		}
		now = now.Add(298 * time.Millisecond) // so that no tick falls into a burst
	}
	if base := l.control.Numbers().Base; base < 100 || base > 140 {
		t.Errorf("base %v after bursts of 100", base)
	}
}

func TestALongSilenceIsNotWorkedThrough(t *testing.T) {
	for _, inFlight := range []int{0, 3} {
		l, now := newLimiter(Auto{}), time.Unix(1767225600, 0)
		l.room(now)
		for range inFlight {
			l.begin()
		}
		if l.room(now.Add(1000 * time.Hour)); l.clock > 2*gapMax {
			t.Errorf("%d in flight: %v were metered", inFlight, l.clock)
		}
	}
}

func TestWhatComesInBurstsIsLearnedFromAllTheSame(t *testing.T) {
	p := newPlant(t, seeded(t), Auto{Initial: 2}).serve(100, 10*time.Millisecond)
	for range 60 {
		p.run(200 * time.Millisecond)
		for p.demand = 1; len(p.jobs) > 1; { // and then it is quiet
			p.run(time.Millisecond)
		}
		p.now = p.now.Add(2 * time.Second)
		p.demand = 0
	}
	if s := p.run(time.Second); s.throughput < 0.9*p.capacity() {
		t.Errorf("%+v of %.0f", s, p.capacity())
	}
}

func TestAReloadKeepsWhatTheLimitHasLearned(t *testing.T) {
	p := newPlant(t, seeded(t), Auto{}).serve(100, 20*time.Millisecond)
	p.run(20 * time.Second)
	learned := p.control.Numbers().Base
	p.configure(Auto{})
	p.configure(Auto{Patience: 400 * time.Millisecond})
	if got := p.control.Numbers().Base; learned < 80 || got != learned {
		t.Errorf("learned %v, after the reload %v", learned, got)
	}
	p.configure(Auto{Max: 30})
	if p.limit > 30 {
		t.Errorf("limit %d over its new bound", p.limit)
	}
	p.configure(Fixed(7))
	if p.limit != 7 {
		t.Errorf("limit %d, fixed at 7", p.limit)
	}
	p.configure(Auto{})
	if p.limit != AutoLimit {
		t.Errorf("limit %d, it begins at %d", p.limit, AutoLimit)
	}
}

func TestEveryConcurrencyIsALimit(t *testing.T) {
	for _, c := range []Concurrency{
		Fixed(-1), Fixed(0), Fixed(1), Fixed(1 << 40), Auto{}, Auto{Initial: 1 << 40},
		Auto{Min: 1 << 40}, Auto{Max: 1 << 40}, Auto{Min: 9, Max: 3}, Auto{Max: 3}, Auto{Min: 99},
		Auto{Initial: -1, Min: -1, Max: -1, Patience: -1},
	} {
		if _, err := admission.New(c.config()); err != nil {
			t.Errorf("%#v: %v", c, err)
		}
		if l := newLimiter(c); l.limit < 1 || l.limit > admission.LimitMax {
			t.Errorf("%#v: limit %d", c, l.limit)
		}
	}
}
