package admission

import (
	"math"
	"time"
)

// The constants of slope. None depends on what stands behind; each may be off by a third to a half
// without anything to notice.
const (
	delta      = 0.12 // of the limit: the alternation, each way
	deltaLeast = 0.75 // slots
	kernel     = 0.4  // how far from the limit, in ln, a point still counts
	forget     = 0.95 // weight of a point one window older
	prior      = 0.5  // the elasticity that is believed without evidence
	priorVar   = 0.25 // and how firmly
	stepUp     = 0.5  // in ln of the limit
	stepDown   = -0.25

	pointsMax   = 40
	weightMax   = 400.0 // samples beyond these make a point no surer
	noiseStart  = 0.3
	noiseLeast  = 0.02
	noiseWindow = 0.12 // ln of the concurrency: two points of one side of the alternation

	saturated    = 0.7  // from here on the limit moved the throughput, and not the demand
	idle         = 0.2  // below, slots that nobody needed are forgotten
	quietUnbound = 3    // windows without saturation until the limit does not bind
	quietUnclear = 20   // windows in between until it does not
	unusedLeast  = 8.0  // a limit up to here is never forgotten
	unusedGrowth = 1.25 // of the peak: what is left beyond it
	unusedKeep   = 0.98 // of the limit, each window
	cutFactor    = 0.7
	cutRatio     = 20 // one drop in so many samples is none
	settleMax    = 0.5
)

// slope measures what more concurrency buys. While all slots are taken it alternates the limit a
// little, fits the elasticity of throughput (1: each slot pays in full, 0: a queue, below: a
// collapse) near the limit, and moves the limit to where a gain in throughput is worth its
// latency. There is no latency baseline in it: nothing that could drift, ratchet or need probing.
type slope struct {
	bounds
	patience float64 // seconds

	base   float64
	sign   float64 // of the alternation: 1 or −1
	bound  bool    // all slots are taken, so the alternation moves the throughput
	quiet  int     // windows in a row without enough saturation
	grow   int     // windows for which a steep climb is still told
	settle float64 // seconds whose answers belong to the other side of the alternation
	noise  float64 // variance of ln of the throughput, of one sample
	points []point // oldest first
	gained evidence
	cuts   cuts
	peak   recentPeak
}

// point is one window: ln of the concurrency, ln of the throughput, samples.
type point struct{ q, x, n float64 }

func newSlope(b bounds, patience time.Duration, limit float64) *slope {
	return &slope{bounds: b, patience: patience.Seconds(), base: b.clamp(limit), sign: 1,
		noise: noiseStart, points: make([]point, 0, pointsMax)}
}

func (s *slope) Base() float64 { return s.base }
func (s *slope) Growing() bool { return s.bound && s.grow > 0 }

func (s *slope) Limit() uint64 {
	if !s.bound {
		return s.round(s.base)
	}
	return s.round(s.base + s.sign*max(delta*s.base, deltaLeast))
}

func (s *slope) Forget() {
	s.gained = evidence{}
	s.points = s.points[:0]
	s.settle = 0
}

func (s *slope) Tick(now time.Duration, w Window) Reason {
	s.peak.see(now, w.Peak)
	if w.Drops > 0 && float64(w.Drops)*cutRatio > float64(w.Samples) &&
		s.cuts.due(now, w.ServiceTime) {
		s.Forget()
		return s.move(s.base*cutFactor, ReasonDrops)
	}
	if s.settle > 0 {
		s.settle -= w.Span.Seconds()
		return ""
	}
	if !s.gained.add(w) {
		return ""
	}
	m, ok := s.gained.take()
	switch {
	case !ok:
		return ""
	case m.saturation < unsaturated:
		return s.unused(now, m.saturation)
	case m.saturation < saturated:
		// Demand moves concurrency and throughput together; read as elasticity it runs away.
		if s.quiet++; s.quiet > quietUnclear {
			s.unbind()
		}
		return ""
	}
	return s.climb(m)
}

// unused sees a window in which the limit was not the constraint: it never grows by it, and lets
// go, slowly, of what a surge once needed.
func (s *slope) unused(now time.Duration, saturation float64) Reason {
	if s.quiet++; s.quiet < quietUnbound && s.bound {
		return ""
	}
	s.unbind()
	enough := max(unusedLeast, unusedGrowth*s.peak.of(now)+2)
	if s.base <= enough || saturation >= idle {
		return ""
	}
	return s.move(max(enough, unusedKeep*s.base), ReasonUnused)
}

func (s *slope) unbind() {
	s.bound = false
	s.points = s.points[:0]
}

// climb learns from a saturated window and moves the base one step.
func (s *slope) climb(m means) Reason {
	s.quiet = 0
	if !s.bound {
		s.bound = true
		s.points = s.points[:0]
	}
	s.learn(point{q: math.Log(m.concurrency), x: math.Log(m.throughput), n: m.n})
	var reason Reason
	s.grow = max(s.grow-1, 0)
	if len(s.points) >= 2 {
		elasticity, variance := s.fit()
		// Where d(ln X)/d(ln L) is this, ln X − W/patience is at its best.
		worth := m.service / (m.service + s.patience)
		gain := 0.6 * max(worth, math.Abs(elasticity-worth)) / max(0.01, variance)
		step := min(max(gain, 0.1), 1) * (elasticity - worth)
		step = min(max(step, stepDown), stepUp)
		if step > 0.2 && elasticity > 0.5 {
			s.grow = 1
		}
		reason = s.move(s.base*math.Exp(step), ReasonSlope)
	}
	s.sign = -s.sign
	s.settle = min(settleMax, m.service)
	return reason
}

// learn takes a point. One that is off the line by more than noise is of another regime: the old
// curve is not mixed in.
func (s *slope) learn(p point) {
	if n := len(s.points); n > 0 {
		last := s.points[n-1]
		dq, dx := p.q-last.q, p.x-last.x
		tolerance := max(0.35, 4*math.Sqrt(s.noise*(1/p.n+1/last.n)))
		if dx < min(0, dq)-tolerance || dx > max(0, dq)+tolerance {
			s.points = s.points[:0]
		} else if n > 1 && math.Abs(s.points[n-2].q-p.q) < noiseWindow {
			// The same side of the alternation: what differs is noise.
			before := s.points[n-2]
			seen := (p.x - before.x) * (p.x - before.x) / (1/p.n + 1/before.n)
			s.noise += 0.1 * (min(seen, 9*s.noise) - s.noise)
			s.noise = max(s.noise, noiseLeast)
		}
	}
	if len(s.points) == pointsMax {
		s.points = append(s.points[:0], s.points[1:]...)
	}
	s.points = append(s.points, p)
}

// fit gives the elasticity at the limit and its variance: weighted least squares with a ridge
// toward the prior.
func (s *slope) fit() (elasticity, variance float64) {
	var weights [pointsMax]float64
	var sum, meanQ, meanX float64
	at, age := math.Log(s.base), 1.0
	for i := len(s.points) - 1; i >= 0; i-- {
		p := s.points[i]
		far := (p.q - at) / kernel
		weights[i] = age * min(p.n, weightMax) * math.Exp(-far*far/2)
		age *= forget
		sum += weights[i]
		meanQ += weights[i] * p.q
		meanX += weights[i] * p.x
	}
	var sxx, sxy float64
	if sum > 0 { // else all are too far away to say anything
		meanQ /= sum
		meanX /= sum
		for i, p := range s.points {
			sxx += weights[i] * (p.q - meanQ) * (p.q - meanQ)
			sxy += weights[i] * (p.q - meanQ) * (p.x - meanX)
		}
	}
	ridge := s.noise / priorVar
	return (sxy + ridge*prior) / (sxx + ridge), s.noise / (sxx + ridge)
}

func (s *slope) move(to float64, reason Reason) Reason {
	to = s.clamp(to)
	if to == s.base {
		return ""
	}
	s.base = to
	return reason
}

// recentPeak is the highest number of the last 5 to 10 s.
type recentPeak struct {
	now, before uint64
	until       time.Duration // end of now's part
}

const peakPart = 5 * time.Second

func (p *recentPeak) see(now time.Duration, peak uint64) {
	p.turn(now)
	p.now = max(p.now, peak)
}

func (p *recentPeak) of(now time.Duration) float64 {
	p.turn(now)
	return float64(max(p.now, p.before))
}

func (p *recentPeak) turn(now time.Duration) {
	if now < p.until {
		return
	}
	p.before, p.now = p.now, 0
	if now-p.until >= peakPart {
		p.before = 0
	}
	p.until = now + peakPart
}
