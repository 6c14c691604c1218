package admission

import (
	"math"
	"time"
)

// The algorithms.
const (
	Slope       = "slope"        // climbs while more slots buy enough throughput
	Gradient2   = "gradient2"    // service time against its own long mean
	MinGradient = "min-gradient" // service time against its slow minimum
	AIMD        = "aimd"         // one more while it goes well, a tenth less when not
	Fixed       = "fixed"        // the initial limit
)

// Reason says why the base limit moved; empty: it did not.
type Reason string

// The reasons.
const (
	ReasonSlope    Reason = "slope"    // more, or fewer, slots are worth it
	ReasonDrops    Reason = "drops"    // events were not stored in time, or at all
	ReasonUnused   Reason = "unused"   // so many slots were not needed for some time
	ReasonGradient Reason = "gradient" // the service time rose, or fell
	ReasonAdditive Reason = "additive" // all slots were taken and nothing went wrong
	ReasonLatency  Reason = "latency"  // the service time is beyond the patience
	ReasonPinned   Reason = "pinned"   // an operator's word
	ReasonReleased Reason = "released" // the pin ended
	ReasonConfig   Reason = "config"   // another algorithm or other bounds
	ReasonRestart  Reason = "restart"  // taken up where an earlier process left it
)

// Window is what the data planes counted in one tick.
type Window struct {
	Span        time.Duration // metered time, > 0
	Samples     uint64        // slots given back by frames that became durable
	SampleSum   time.Duration // how long those were taken
	Drops       uint64        // no answer in time, or the journal refused
	Sheds       uint64
	Area        time.Duration // slots taken × time; below 0 when void time is taken off late
	Saturated   time.Duration // time with all slots of the limit taken
	Peak        uint64        // most slots taken at once
	ServiceTime time.Duration // the mean so far, this window included
}

// Controller moves a limit. All its times are those of the ticks and of the windows.
type Controller interface {
	// Tick looks at one more window and says why it moved the base, if it did.
	Tick(now time.Duration, w Window) Reason
	// Forget drops the evidence gathered so far, after a time in which nobody looked.
	Forget()
	// Base is the limit without its alternation, between the configured bounds.
	Base() float64
	// Limit is what to publish, between the configured bounds.
	Limit() uint64
	// Growing says that the limit is on its way up: who waits may wait longer.
	Growing() bool
}

// newController makes the controller of a valid config; it begins at that limit, if it can move.
func newController(c Config, limit float64) Controller {
	b := bounds{min: float64(c.MinLimit), max: float64(c.MaxLimit)}
	switch c.Algorithm {
	case Slope:
		return newSlope(b, c.Patience, limit)
	case Gradient2:
		return &gradient{bounds: b, limit: b.clamp(limit), smoothing: c.Smoothing,
			tolerance: c.Tolerance, baseline: &longMean{}}
	case MinGradient:
		return &gradient{bounds: b, limit: b.clamp(limit), smoothing: c.Smoothing,
			tolerance: c.Tolerance, baseline: &slowMinimum{}}
	case AIMD:
		return &aimd{bounds: b, limit: b.clamp(limit), patience: c.Patience.Seconds()}
	default:
		return fixed(c.InitialLimit)
	}
}

// bounds are the least and the greatest limit.
type bounds struct{ min, max float64 }

func (b bounds) clamp(limit float64) float64 { return min(max(limit, b.min), b.max) }

// round makes the limit that is published. No arm of an alternation leaves the bounds either: they
// are the operator's promise to whatever stands behind.
func (b bounds) round(limit float64) uint64 { return uint64(math.Round(b.clamp(limit))) }

// evidence adds windows up until there is enough to judge by. It sums in floating point, so that
// no counters, however wrong, overflow it.
type evidence struct {
	n    float64 // samples
	span float64 // seconds
	sum  float64 // of the samples, seconds
	area float64 // slot seconds
	sat  float64 // seconds
}

// What is enough: samplesEnough or windowMax, and in any case a window as long as two service times
// within reason. Below samplesLeast a full window says nothing.
const (
	samplesEnough = 40
	samplesLeast  = 5
	windowLeast   = 0.08 // seconds
	windowMax     = 1.0
	windowService = 0.5 // of two service times no more than this
)

// add takes one more window and says whether there is enough now.
func (e *evidence) add(w Window) bool {
	e.n += float64(w.Samples)
	e.span += w.Span.Seconds()
	e.sum += w.SampleSum.Seconds()
	e.area += w.Area.Seconds()
	e.sat += w.Saturated.Seconds()
	if e.n < samplesEnough && e.span < windowMax {
		return false
	}
	return e.span >= max(windowLeast, min(2*w.ServiceTime.Seconds(), windowService))
}

// means are what evidence says.
type means struct {
	n           float64 // samples behind it
	span        float64 // seconds
	throughput  float64 // events a second
	concurrency float64 // slots taken
	service     float64 // seconds
	saturation  float64 // part of the time with all slots taken, 0 to 1
}

// take reads the evidence and begins anew; false if it says nothing.
func (e *evidence) take() (means, bool) {
	was := *e
	*e = evidence{}
	if was.n < samplesLeast || was.area <= 0 {
		return means{}, false
	}
	return means{
		n:           was.n,
		span:        was.span,
		throughput:  was.n / was.span,
		concurrency: was.area / was.span,
		service:     was.sum / was.n,
		saturation:  min(was.sat/was.span, 1),
	}, true
}

// unsaturated is the saturation below which the limit is not the constraint: growing would be
// without evidence, for every algorithm.
const unsaturated = 0.3

// cutRest is how long at least after a cut the drops are still those that it was made for; a
// service time is another such bound.
const cutRest = 100 * time.Millisecond

// cuts keeps drops from cutting once per error instead of once per service time.
type cuts struct {
	at  time.Duration
	any bool
}

func (c *cuts) due(now, service time.Duration) bool {
	if c.any && now-c.at <= max(cutRest, service) {
		return false
	}
	c.at, c.any = now, true
	return true
}
