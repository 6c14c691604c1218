package breaker

import (
	"fmt"
	"math"
	"time"
)

const (
	// rampBurst is how much of the rate may pass at once: what a timer may be late.
	rampBurst = 20 * time.Millisecond
	// headroomMax ends the doubling of a pool's bound: nothing is bound by it any more.
	headroomMax = 1 << 20
	// tokenSlack absorbs what rounding takes from a token.
	tokenSlack = 1e-6
)

// ramp is the place in HALF_OPEN: step 0 is the probe, 1 to n are the config's, n+1 is the drain.
type ramp struct {
	step      int
	at        time.Time // the step began
	answered  int       // attempts of the step that the destination answered
	failed    int
	lenient   int // steps up to it have failed once and are judged by the ratio
	tokens    float64
	filled    time.Time
	bound     bool    // something was held back in this step
	headroom  float64 // doublings of a pool's bound; 0 is 1
	wellSince time.Time
}

// drain is the number of the last step, whose rate has no bound of its own.
func (b *Breaker) drain() int { return len(b.config.Ramp) + 1 }

// toStep makes it HALF_OPEN at a step, from its beginning.
func (b *Breaker) toStep(now time.Time, step int, reason string) {
	b.fill(now)
	r := &b.ramp
	if step > 0 && (b.state != HalfOpen || r.step == 0) {
		b.dropProbe()
		r.tokens, r.filled, r.wellSince = 0, now, now
	}
	b.enter(now, HalfOpen, reason)
	r.step = step
	b.restart(now)
	r.tokens = min(r.tokens, depth(b.rate()))
}

// restart begins the present step anew.
func (b *Breaker) restart(now time.Time) {
	b.ramp.at, b.ramp.answered, b.ramp.failed, b.ramp.bound = now, 0, 0, false
}

// judge takes in an attempt that belongs to the present step.
func (b *Breaker) judge(now time.Time, a Attempt) {
	r := &b.ramp
	if a.answered() {
		r.answered++
	}
	if !a.failed() {
		return
	}
	r.failed++
	ratio := b.config.Ratio
	if ratio <= 0 {
		ratio = RatioDefault
	}
	n := max(r.answered+r.failed, b.config.Samples)
	if r.step <= r.lenient && float64(r.failed) <= ratio*float64(n) {
		return
	}
	r.lenient = max(r.lenient, r.step)
	r.wellSince = now
	if r.step == 1 {
		b.restart(now)
		return
	}
	b.toStep(now, r.step-1, fmt.Sprintf("a failure in the ramp: back to %s, last: %s",
		b.stepText(r.step-1), a.text()))
	b.announce(HalfOpen)
}

// climb goes on when a step has lasted and told something: that the destination answers, or that
// there is nothing more to send.
func (b *Breaker) climb(now time.Time) {
	r := &b.ramp
	if now.Sub(r.at) < b.config.RampStep || r.answered == 0 && len(b.waiting) > 0 {
		return
	}
	if r.step < b.drain() {
		b.toStep(now, r.step+1, b.stepText(r.step+1))
		b.announce(HalfOpen)
		return
	}
	if _, low, known := b.pool(now); r.bound && known && low && b.config.Rate <= 0 {
		b.fill(now)
		r.headroom = min(2*max(r.headroom, 1), headroomMax)
		b.wake()
	}
	b.restart(now)
}

func (b *Breaker) stepText(step int) string {
	if step == b.drain() {
		return "ramp over, draining"
	}
	return fmt.Sprintf("%.4g/s", b.config.Ramp[step-1])
}

// rate is what may pass here in a second; +Inf: no bound.
func (b *Breaker) rate() float64 {
	if b.state != HalfOpen || b.ramp.step == 0 {
		return math.Inf(1)
	}
	last := len(b.config.Ramp)
	rate := math.Inf(1)
	if b.ramp.step <= last {
		rate = b.config.Ramp[b.ramp.step-1] / float64(b.hosts)
	}
	use, _, known := b.pool(b.now)
	if !known {
		return rate
	}
	most := b.config.Rate
	if most <= 0 {
		// What was seen may only show how little there was to do; the ramp has been passed.
		most = max(b.meter.best, b.config.Ramp[last-1]/float64(b.hosts)) * max(b.ramp.headroom, 1)
	}
	return min(rate, most*max(1-use, 0))
}

// depth is how many tokens may gather.
func depth(rate float64) float64 { return max(rate*rampBurst.Seconds(), 1) }

// fill adds the tokens of the time that passed, under the rate in force.
func (b *Breaker) fill(now time.Time) {
	r := &b.ramp
	if b.state != HalfOpen || r.step == 0 {
		return
	}
	took := now.Sub(r.filled).Seconds()
	r.filled = now
	if rate := b.rate(); !math.IsInf(rate, 1) {
		r.tokens = min(r.tokens+rate*took, depth(rate))
	}
}

func (b *Breaker) rampRoom(now time.Time, n int) (room int, wait time.Duration) {
	b.fill(now)
	r, rate := &b.ramp, b.rate()
	if math.IsInf(rate, 1) {
		return n, 0
	}
	whole := math.Floor(r.tokens + tokenSlack)
	if whole >= float64(n) {
		return n, 0
	}
	r.bound = true
	if rate > 0 {
		next := (whole + 1 - r.tokens) / rate
		wait = time.Duration(min(next, time.Minute.Seconds())*float64(time.Second)) + 1
	}
	return int(whole), wait
}
