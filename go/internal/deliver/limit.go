package deliver

import (
	"time"

	"sluice/go/internal/admission"
	"sluice/go/internal/retry"
)

// Concurrency says how many attempts a destination may have in flight: Fixed or Auto.
type Concurrency interface {
	// config is what a controller is made of; both bounds are at least 1.
	config() admission.Config
}

// Fixed is a limit that follows nothing; below 1 it is 1.
type Fixed int

func (f Fixed) config() admission.Config {
	n := uint64(min(max(f, 1), admission.LimitMax))
	return admission.Config{Algorithm: admission.Fixed, InitialLimit: n, MinLimit: n, MaxLimit: n}
}

// Auto finds the limit that serves a destination best, and follows it when it becomes faster,
// slower or sick. Zero fields are defaults.
type Auto struct {
	Initial  int           // where it begins; AutoLimit
	Min, Max int           // bounds; AutoMin and AutoMax
	Patience time.Duration // what latency is worth against throughput; AutoPatience
}

// Defaults of Auto.
const (
	AutoLimit    = 16
	AutoMin      = 2 // below, the alternation by which it learns would cost half the throughput
	AutoMax      = 1024
	AutoPatience = 500 * time.Millisecond
)

func (a Auto) config() admission.Config {
	c := admission.Config{
		Algorithm: admission.Slope, InitialLimit: AutoLimit, MinLimit: AutoMin, MaxLimit: AutoMax,
		Patience: AutoPatience,
	}
	if a.Max > 0 {
		c.MaxLimit = min(uint64(a.Max), admission.LimitMax)
	}
	if a.Min > 0 {
		c.MinLimit = min(uint64(a.Min), c.MaxLimit)
	}
	if a.Initial > 0 {
		c.InitialLimit = uint64(a.Initial)
	}
	c.InitialLimit = min(max(c.InitialLimit, c.MinLimit), c.MaxLimit)
	if a.Patience > 0 {
		c.Patience = a.Patience
	}
	return c
}

// disorder is how much earlier than the last time the next one may be, when two goroutines read the
// clock and then came in the other order. What is earlier than that is a clock that was set back.
const disorder = time.Second

// The meter of a limit.
const (
	tickSpan = 20 * time.Millisecond
	// gapMax is the longest time between two looks of which something can be said, on the
	// controller's clock. Longer ones are left out: nothing was in flight, or all of it hung.
	gapMax = time.Second

	// The controller's windows fit service times of some tens of milliseconds. A slower destination
	// is shown to it through a slower clock, so that a window still holds several service times:
	// paceStep times slower each while the service time on that clock is above paceSlow, faster
	// again below paceFast. What latency is worth is stretched with it, which is as it should be:
	// nobody waits for an answer that takes seconds.
	paceStep = 4
	paceMax  = 64
	paceSlow = 200 * time.Millisecond
	paceFast = 25 * time.Millisecond

	serviceSamples = 30 // that the mean service time reaches back

	// forgiven is one failure for so many answers, saved up to forgivenMax of them. So many are the
	// events' own, and less concurrency would not mend them: a fifth of the attempts, a little more
	// than what a breaker bears by default.
	forgiven    = 4
	forgivenMax = 10
)

// limiter counts the attempts in flight at one destination and says how many there may be. It has
// no goroutine and no timer: what a tick would have seen is reckoned when an attempt begins or
// ends, which is the only time at which the limit matters. So an idle destination costs nothing.
// The runner's lock guards it.
type limiter struct {
	conf     admission.Config
	control  *admission.Limiter
	limit    int
	inFlight int

	pace   time.Duration    // how much slower than ours the controller's clock is
	at     time.Time        // up to when the counts are
	next   time.Time        // the next tick
	clock  time.Duration    // the controller's
	counts admission.Counts // on that clock
	peak   uint64           // most in flight since the last tick
	credit float64          // failures that are still forgiven

	service time.Duration // mean time of an answered attempt, on our clock; 0: not known
}

func newLimiter(c Concurrency) *limiter {
	l := &limiter{conf: c.config()}
	l.restart(1)
	return l
}

// configure takes another configuration in force and keeps what was learned, within its bounds.
func (l *limiter) configure(c Concurrency) {
	if conf := c.config(); conf != l.conf {
		if conf.Algorithm == l.conf.Algorithm && conf.Algorithm != admission.Fixed {
			conf.Start = l.control.Numbers().Base
		}
		l.conf = conf
		l.restart(l.pace)
		l.conf.Start = 0
	}
}

// restart makes a new controller without evidence, at the limit in conf.
func (l *limiter) restart(pace time.Duration) {
	control, err := admission.New(l.conf)
	if err != nil {
		panic("deliver: a limit that is none: " + err.Error()) // config makes no such
	}
	l.control, l.pace = control, pace
	l.clock, l.counts = 0, admission.Counts{}
	l.limit = int(control.Numbers().Limit)
}

// room is how many attempts more may begin now; it may be negative after the limit fell.
func (l *limiter) room(now time.Time) int {
	l.advance(now)
	return l.limit - l.inFlight
}

// begin counts one attempt more; there was room for it at this time.
func (l *limiter) begin() {
	l.inFlight++
	l.peak = max(l.peak, uint64(l.inFlight))
}

// end counts the end of one attempt. verdict 0 says nothing about the destination.
func (l *limiter) end(now time.Time, verdict retry.Verdict, took time.Duration) {
	l.advance(now)
	l.inFlight--
	switch verdict {
	case retry.Delivered, retry.Permanent: // it was answered, so the destination works
		took = max(took, 0)
		l.counts.Samples++
		l.counts.SampleSumNS += uint64(took / l.pace)
		if l.service == 0 {
			l.service = took
		}
		l.service += (took - l.service) / serviceSamples
		l.credit = min(l.credit+1.0/forgiven, forgivenMax)
	case retry.Retry:
		if l.credit >= 1 {
			l.credit--
		} else {
			l.counts.Drops++
		}
	}
}

// advance brings the counts up to now, tick by tick.
func (l *limiter) advance(now time.Time) {
	if l.conf.Algorithm == admission.Fixed {
		return
	}
	switch since := now.Sub(l.at); {
	case since < 0 && since > -disorder:
		return
	case since < 0 || since > gapMax*l.pace:
		l.at, l.next = now, now
	}
	for !l.next.After(now) {
		l.meter(l.next)
		l.tick()
		l.next = l.next.Add(tickSpan * l.pace)
	}
	l.meter(now)
}

// meter adds the time up to then, in which nothing began or ended.
func (l *limiter) meter(then time.Time) {
	span := then.Sub(l.at) / l.pace
	if span <= 0 {
		return
	}
	l.at = l.at.Add(span * l.pace)
	l.clock += span
	l.counts.MeteredNS += uint64(span)
	l.counts.AreaNS += uint64(span) * uint64(l.inFlight)
	if l.inFlight >= l.limit {
		l.counts.SaturatedNS += uint64(span)
	}
}

func (l *limiter) tick() {
	l.counts.Peak, l.peak = l.peak, uint64(l.inFlight)
	l.counts.Inflight = uint64(l.inFlight)
	n := l.control.Tick(l.clock, l.counts, nil)
	l.limit = int(n.Limit)
	pace := l.pace
	switch service := l.service / pace; {
	case service > paceSlow && pace < paceMax:
		pace *= paceStep
	case service < paceFast && pace > 1:
		pace /= paceStep
	default:
		return
	}
	l.conf.Start = n.Base
	l.restart(pace)
	l.conf.Start = 0
}
