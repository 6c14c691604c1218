package admission

import (
	"math"
	"time"
)

// gradient is a latency-ratio rule: while the service time is within tolerance of a baseline the
// limit grows, beyond it shrinks in proportion. Formula, clamp, queue and smoothing are those of
// Gradient2Limit in github.com/Netflix/concurrency-limits at 78a74b9. Otherwise than there it is
// updated once per window and not per sample, and not at all while the limit is not the
// constraint. Like the original it does not look at drops.
type gradient struct {
	bounds
	limit     float64
	smoothing float64
	tolerance float64
	baseline  baseline
	gained    evidence
}

// baseline is the service time, in seconds, that counts as that without a queue.
type baseline interface {
	// add takes a window's mean, and how long that window was, and gives the baseline.
	add(service, span float64) float64
}

// The queue that may stand, and the least gradient: the original's.
const (
	gradientQueue = 4
	gradientLeast = 0.5
)

func (g *gradient) Base() float64 { return g.limit }
func (g *gradient) Limit() uint64 { return g.round(g.limit) }
func (g *gradient) Growing() bool { return false }
func (g *gradient) Forget()       { g.gained = evidence{} }

func (g *gradient) Tick(_ time.Duration, w Window) Reason {
	if !g.gained.add(w) {
		return ""
	}
	m, ok := g.gained.take()
	if !ok || m.service <= 0 {
		return ""
	}
	base := g.baseline.add(m.service, m.span)
	if m.saturation < unsaturated {
		return ""
	}
	ratio := min(max(g.tolerance*base/m.service, gradientLeast), 1)
	to := g.limit*ratio + gradientQueue
	to = g.clamp(g.limit*(1-g.smoothing) + to*g.smoothing)
	if to == g.limit {
		return ""
	}
	g.limit = to
	return ReasonGradient
}

// longMean is gradient2's baseline: an exponential mean over 600 windows, begun with the plain mean
// of ten, and hurried down when the service time is back to less than half of it.
type longMean struct {
	value float64
	count float64
}

const (
	longWindow = 600
	longWarmUp = 10
)

func (l *longMean) add(service, _ float64) float64 {
	if l.count < longWarmUp {
		l.count++
		l.value += (service - l.value) / l.count
	} else {
		l.value += (service - l.value) * 2 / (longWindow + 1)
	}
	was := l.value
	if was > 2*service {
		l.value *= 0.95
	}
	return was
}

// slowMinimum is min-gradient's baseline: the least service time, which doubles in a minute while
// no window comes near it.
type slowMinimum struct{ value float64 }

const minimumDoubles = 60.0 // seconds

func (s *slowMinimum) add(service, span float64) float64 {
	if s.value > 0 {
		service = min(service, s.value*math.Exp2(span/minimumDoubles))
	}
	s.value = service
	return service
}

// aimd adds one slot per window while all are taken, and gives up a tenth when events were dropped
// or the service time is beyond the patience: AIMDLimit in github.com/Netflix/concurrency-limits at
// 78a74b9, once per window instead of once per sample.
type aimd struct {
	bounds
	patience float64 // seconds
	limit    float64
	gained   evidence
	cuts     cuts
}

const aimdBackoff = 0.9

func (a *aimd) Base() float64 { return a.limit }
func (a *aimd) Limit() uint64 { return a.round(a.limit) }
func (a *aimd) Growing() bool { return false }
func (a *aimd) Forget()       { a.gained = evidence{} }

func (a *aimd) Tick(now time.Duration, w Window) Reason {
	if w.Drops > 0 && a.cuts.due(now, w.ServiceTime) {
		a.gained = evidence{}
		return a.move(a.limit*aimdBackoff, ReasonDrops)
	}
	if !a.gained.add(w) {
		return ""
	}
	m, ok := a.gained.take()
	switch {
	case !ok:
		return ""
	case m.service > a.patience:
		return a.move(a.limit*aimdBackoff, ReasonLatency)
	case m.saturation >= saturated:
		return a.move(a.limit+1, ReasonAdditive)
	}
	return ""
}

func (a *aimd) move(to float64, reason Reason) Reason {
	to = a.clamp(to)
	if to == a.limit {
		return ""
	}
	a.limit = to
	return reason
}

// fixed never moves.
type fixed uint64

func (f fixed) Tick(time.Duration, Window) Reason { return "" }
func (f fixed) Forget()                           {}
func (f fixed) Base() float64                     { return float64(f) }
func (f fixed) Limit() uint64                     { return uint64(f) }
func (f fixed) Growing() bool                     { return false }
