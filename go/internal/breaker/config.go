package breaker

import (
	"slices"
	"time"
)

// The defaults of a breaker whose config says nothing.
const (
	FailuresDefault    = 5
	RatioDefault       = 0.15
	WindowDefault      = time.Minute
	SamplesDefault     = 20
	CooldownDefault    = 30 * time.Second
	CooldownMaxDefault = 5 * time.Minute
	RampStepDefault    = 5 * time.Second
	ProbeTimeDefault   = 15 * time.Second
)

// Config is when a breaker trips and how it comes back. Zero switches a single cause off.
type Config struct {
	Failures int           // in a row
	Ratio    float64       // more than this share of failures over Window trips
	Window   time.Duration // of Ratio, Latency and DeadLetters
	Samples  int           // with fewer in Window, Ratio and Latency say nothing; 0: the default
	Latency  time.Duration // the p99 that trips
	// DeadLetters is how many a minute trip.
	DeadLetters float64
	// Inflight trips when the attempts in flight are near their limit and throughput has collapsed.
	Inflight bool

	Cooldown    time.Duration // of the first trip; doubles with each that follows out of HALF_OPEN
	CooldownMax time.Duration
	Ramp        []float64 // attempts a second in each step, of all hosts together
	RampStep    time.Duration

	// Rate is the most that this host may send in a second, where configured; 0: not known.
	Rate float64
	// ProbeTime is how long a probe may take; one that has not ended by then has failed.
	ProbeTime time.Duration
}

// Default is the config of a breaker of which the operator said nothing.
func Default() Config {
	return Config{
		Failures: FailuresDefault, Ratio: RatioDefault, Inflight: true,
	}.Normalized()
}

// Normalized fills in what has no meaning when zero and mends what contradicts itself.
func (c Config) Normalized() Config {
	fill := func(d *time.Duration, value time.Duration) {
		if *d <= 0 {
			*d = value
		}
	}
	fill(&c.Window, WindowDefault)
	fill(&c.Cooldown, CooldownDefault)
	fill(&c.CooldownMax, max(CooldownMaxDefault, c.Cooldown))
	fill(&c.RampStep, RampStepDefault)
	fill(&c.ProbeTime, ProbeTimeDefault)
	c.CooldownMax = max(c.CooldownMax, c.Cooldown)
	c.Window = max(c.Window, windowBuckets)
	if c.Samples <= 0 {
		c.Samples = SamplesDefault
	}
	c.Ramp = slices.DeleteFunc(slices.Clone(c.Ramp), func(r float64) bool { return !(r > 0) })
	if len(c.Ramp) == 0 {
		c.Ramp = []float64{10, 50, 200}
	}
	return c
}
