package admission

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// LimitMax bounds any limit, a pinned one too.
const LimitMax = 1 << 20

// Config is what an operator chooses.
type Config struct {
	Algorithm    string        // Slope, Gradient2, MinGradient, AIMD or Fixed
	InitialLimit uint64        // where it begins; Fixed stays there
	MinLimit     uint64        // at least 1
	MaxLimit     uint64        // at most LimitMax
	Patience     time.Duration // Slope: what latency is worth. AIMD: a service time beyond is a fault
	Smoothing    float64       // Gradient2, MinGradient: weight of a new limit, above 0, at most 1
	Tolerance    float64       // Gradient2, MinGradient: of the baseline, at least 1
	Start        float64       // the base an earlier process left; 0: InitialLimit
	Pacing       bool          // spread admissions over the service time
}

// Counts are what the data planes have counted: monotonic from Samples to Sheds, summed over
// workers. Peak, Inflight and Held are as they are now.
type Counts struct {
	Samples     uint64 // slots given back by frames that became durable
	SampleSumNS uint64 // how long those were taken
	Drops       uint64 // no answer in time, or the journal refused
	AreaNS      uint64 // slots taken × time, without those that became no sample; it may step back
	SaturatedNS uint64 // time with all slots of the limit taken
	MeteredNS   uint64 // the clock that the last two were counted by; it may stand still while idle
	Sheds       uint64
	Peak        uint64 // most slots taken at once, of late
	Inflight    uint64
	Held        uint64
}

// Numbers are what the data planes are to decide by, and what an operator wants to see.
type Numbers struct {
	Limit       uint64  // requests in flight, at least 1
	Base        float64 // the limit without its alternation
	Growing     bool    // the limit is on its way up
	HoldBound   time.Duration
	ServiceTime time.Duration // from a slot taken to its frame durable, mean; 0: not known

	ShareRate  float64 // each source's share, events a second; 0: no bound
	FloorSlots uint64  // beyond the limit
	FloorRate  float64 // events a second, all sources together, above 0

	PaceInterval time.Duration // one slot each so long; 0: no pacing
	PaceDepth    time.Duration // how far ahead slots may be given

	Throughput float64 // events that became durable a second
	Saturation float64 // part of the last tenth of a second with all slots taken, 0 to 1

	// Reason says why Base moved in this tick; empty: it did not. A pin and its end are told even
	// if the number is the same.
	Reason Reason
}

const (
	gapMax = 500 * time.Millisecond // between ticks; after more nobody knows what was in between

	serviceSamples = 30.0 // samples that the mean service time reaches back

	shareBusy  = 0.5   // saturation from which shares are in force though nobody waits
	sharePart  = 0.9   // of the level: what is over it waits behind, so a little under is no loss
	shareLeast = 0.001 // events a second, the least that can be published

	floorPart      = 0.1 // of the limit and of the throughput
	floorRateLeast = 1.0 // events a second
	floorRateStart = 2.0 // before the throughput is known: one source's worth

	paceDepthLeast = 10 * time.Millisecond
)

// Limiter turns counters into numbers, tick by tick. It is not safe for concurrent use.
type Limiter struct {
	config     Config
	controller Controller
	pinned     uint64 // 0: not
	reason     Reason // why the base moved since the last tick, but for the controller's

	ticked     bool
	now        time.Duration // of the last tick
	counts     Counts        // the last that were metered
	service    float64       // W, seconds
	throughput float64       // events a second
	known      bool          // there was a sample, so the last two mean something
	shares     shares
	hold       hold
	numbers    Numbers
}

// New begins at Start, or at InitialLimit, with no evidence. The error names the field.
func New(c Config) (*Limiter, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	l := &Limiter{config: c, hold: hold{bound: holdLeast}}
	l.controller = newController(c, float64(c.InitialLimit))
	if c.Start > 0 {
		initial := l.controller.Base()
		l.controller = newController(c, c.Start)
		if l.controller.Base() != initial {
			l.reason = ReasonRestart
		}
	}
	l.numbers.HoldBound = l.hold.bound
	l.numbers.FloorRate = floorRateStart
	l.setLimit()
	return l, nil
}

func (c Config) check() error {
	ratios := false
	switch c.Algorithm {
	case Slope, AIMD:
		if c.Patience <= 0 {
			return fmt.Errorf("patience: %v is not above 0", c.Patience)
		}
	case Gradient2, MinGradient:
		ratios = true
	case Fixed:
	default:
		return fmt.Errorf("algorithm: %q is none", c.Algorithm)
	}
	switch {
	case c.MinLimit < 1:
		return errors.New("min limit: below 1")
	case c.MaxLimit > LimitMax:
		return fmt.Errorf("max limit: %d is above %d", c.MaxLimit, LimitMax)
	case c.InitialLimit < c.MinLimit || c.InitialLimit > c.MaxLimit:
		return fmt.Errorf("initial limit: %d is not between %d and %d",
			c.InitialLimit, c.MinLimit, c.MaxLimit)
	case ratios && !(c.Smoothing > 0 && c.Smoothing <= 1):
		return fmt.Errorf("smoothing: %v is not above 0 and at most 1", c.Smoothing)
	case ratios && !(c.Tolerance >= 1 && c.Tolerance <= math.MaxFloat32):
		return fmt.Errorf("tolerance: %v is not at least 1", c.Tolerance)
	case !(c.Start >= 0 && c.Start <= math.MaxFloat32):
		return fmt.Errorf("start: %v is no limit", c.Start)
	}
	return nil
}

// Reconfigure takes another config in force and keeps the limit, within the new bounds; Start is
// not looked at. Evidence is dropped unless nothing changed. On an error all stays as it was.
func (l *Limiter) Reconfigure(c Config) error {
	if err := c.check(); err != nil {
		return err
	}
	c.Start = l.config.Start
	if c == l.config {
		return nil
	}
	l.config = c
	was := l.controller.Base()
	l.controller = newController(c, was)
	if l.controller.Base() != was {
		l.reason = ReasonConfig
	}
	return nil
}

// Pin holds the limit until Unpin, within 1 and LimitMax, whatever the bounds and the counters. The
// base stays where the controller had it.
func (l *Limiter) Pin(limit uint64) {
	l.pinned = min(max(limit, 1), LimitMax)
	l.reason = ReasonPinned
}

// Unpin lets the limit move again, from where it stood before the pin and without evidence.
func (l *Limiter) Unpin() {
	if l.pinned == 0 {
		return
	}
	l.controller.Forget()
	l.pinned = 0
	l.reason = ReasonReleased
}

// Pinned is the pinned limit; 0: it moves.
func (l *Limiter) Pinned() uint64 { return l.pinned }

// Numbers are those of the last tick, or what to begin with.
func (l *Limiter) Numbers() Numbers { return l.numbers }

// Tick takes the counts at one instant, which is since any origin but never goes back, and gives
// the numbers to decide by from here on. offered is what each source slot has asked for, monotonic;
// there may be more or fewer slots than before. Counts that fell are taken as a new beginning, and
// after a gap in the ticks nothing is learned from what was in it.
func (l *Limiter) Tick(now time.Duration, c Counts, offered []uint64) Numbers {
	since := now - l.now
	l.numbers.Reason = ""
	switch {
	case !l.ticked || since < 0 || since > gapMax:
		l.ticked, l.now, l.counts = true, now, c
		l.shares.rebase(offered)
		l.hold.drop()
		l.controller.Forget()
	case since > 0:
		l.now = now
		l.shares.see(offered, since)
		l.see(since, c)
	}
	l.setLimit()
	if l.reason != "" {
		l.numbers.Reason, l.reason = l.reason, ""
	}
	return l.numbers
}

// see learns from the counts of one tick. While the meter stands still nothing is taken from them:
// it comes with the next that is metered.
func (l *Limiter) see(since time.Duration, c Counts) {
	w, ok := window(c, l.counts)
	if !ok || w.Span > 0 {
		l.counts = c
	}
	if !ok {
		return
	}
	if w.Samples > 0 {
		mean := w.SampleSum.Seconds() / float64(w.Samples)
		l.service -= math.Expm1(-float64(w.Samples)/serviceSamples) * (mean - l.service)
		l.known = true
	}
	if w.Span > 0 && l.pinned == 0 {
		w.ServiceTime = seconds(l.service)
		l.numbers.Reason = l.controller.Tick(l.now, w)
	}
	l.throughput += smooth(since) * (float64(w.Samples)/since.Seconds() - l.throughput)
	l.hold.see(since, w, c.Inflight >= l.numbers.Limit)
	l.setRates(c.Held > 0)
}

// setLimit sets what follows from the limit.
func (l *Limiter) setLimit() {
	n := &l.numbers
	n.Limit, n.Base = l.controller.Limit(), l.controller.Base()
	n.Growing = l.controller.Growing()
	if l.pinned > 0 {
		n.Limit, n.Growing = l.pinned, false
	}
	n.FloorSlots = uint64(math.Ceil(floorPart*float64(n.Limit))) + 1
	n.PaceInterval, n.PaceDepth = 0, 0
	if l.config.Pacing && n.ServiceTime > 0 {
		n.PaceInterval = max(n.ServiceTime/time.Duration(n.Limit), 1)
		n.PaceDepth = max(n.ServiceTime, paceDepthLeast)
	}
}

// setRates sets what follows from the measured times and rates.
func (l *Limiter) setRates(waiting bool) {
	n := &l.numbers
	n.HoldBound = l.hold.bound
	n.Saturation = l.hold.saturation
	n.ShareRate = 0
	if !l.known {
		return
	}
	n.ServiceTime = seconds(l.service)
	n.Throughput = l.throughput
	n.FloorRate = max(floorRateLeast, floorPart*l.throughput)
	if waiting || n.Saturation > shareBusy {
		if level := l.shares.level(l.throughput); !math.IsInf(level, 1) {
			n.ShareRate = max(shareLeast, sharePart*level)
		}
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// window is what was counted since; false: something fell, or rose beyond belief, as when another
// data plane took over. Of all of it only the area may step back, for void time is taken off when
// its slot is given back and so after it was added.
func window(c, before Counts) (Window, bool) {
	var w Window
	ok := true
	take := func(now, then uint64) uint64 {
		more, sane := difference(now, then)
		ok = ok && sane
		return more
	}
	w.Span = time.Duration(take(c.MeteredNS, before.MeteredNS))
	samples, drops := take(c.Samples, before.Samples), take(c.Drops, before.Drops)
	sum := take(c.SampleSumNS, before.SampleSumNS)
	saturated := take(c.SaturatedNS, before.SaturatedNS)
	sheds := take(c.Sheds, before.Sheds)
	area := int64(c.AreaNS - before.AreaNS)
	ok = ok && area > -differenceMax && area < differenceMax
	if !ok || w.Span == 0 {
		return Window{}, ok
	}
	w.Samples, w.SampleSum = samples, time.Duration(sum)
	w.Drops, w.Sheds = drops, sheds
	w.Area, w.Saturated = time.Duration(area), time.Duration(saturated)
	w.Peak = c.Peak
	return w, true
}

// differenceMax is what no count gains between two ticks: 104 days of nanoseconds.
const differenceMax = 1 << 53

// difference is what a count gained, modulo 2^64; false if that is more than can be.
func difference(now, before uint64) (uint64, bool) {
	more := now - before
	if more >= differenceMax {
		return 0, false
	}
	return more, true
}
