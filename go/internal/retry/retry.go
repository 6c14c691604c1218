// Package retry decides whether and when a failed delivery is tried again.
//
// It sends nothing, keeps no state and reads no clock: the time, the failure and the source of
// randomness are handed in, the delay or the verdict comes back.
package retry

import (
	"math"
	"math/rand/v2"
	"time"
)

// The defaults of a destination whose config says nothing.
const (
	BaseDefault     = 2 * time.Second
	MaxDefault      = time.Hour
	AttemptsDefault = 16
)

// AttemptsMax bounds Policy.Attempts; the journal counts attempts in 16 bits.
const AttemptsMax = math.MaxUint16

// Policy is a destination's schedule: exponential, capped, full jitter.
type Policy struct {
	Base     time.Duration // bound of the first delay; doubles with each attempt
	Max      time.Duration // bound of any delay, Retry-After included
	Attempts int           // attempts in all, the first included
}

// Default is the policy of a destination whose config says nothing.
func Default() Policy {
	return Policy{Base: BaseDefault, Max: MaxDefault, Attempts: AttemptsDefault}
}

// Normalized fills what is missing with defaults and mends what contradicts itself.
func (p Policy) Normalized() Policy {
	if p.Base <= 0 {
		p.Base = BaseDefault
	}
	if p.Max <= 0 {
		p.Max = MaxDefault
	}
	if p.Attempts <= 0 {
		p.Attempts = AttemptsDefault
	}
	p.Base = min(p.Base, p.Max)
	p.Attempts = min(p.Attempts, AttemptsMax)
	return p
}

// Jitter draws a number in [0, n), n > 0. The default is safe for concurrent use.
type Jitter func(n int64) int64

// RandomJitter draws from the runtime's generator.
func RandomJitter(n int64) int64 { return rand.Int64N(n) }

// Bound is the longest that the wait after attempt (1 is the first) may be without a Retry-After.
// It saturates at Max: no attempt number makes it overflow.
func (p Policy) Bound(attempt int) time.Duration {
	bound := p.Base
	for i := 1; i < attempt && bound < p.Max; i++ {
		if bound > p.Max/2 {
			return p.Max
		}
		bound *= 2
	}
	return min(bound, p.Max)
}

// Delay is the wait after attempt failed: uniform in [0, Bound], which spreads the retries of
// events that failed together, but never shorter than retryAfter, cut to Max.
func (p Policy) Delay(attempt int, retryAfter time.Duration, jitter Jitter) time.Duration {
	own := time.Duration(0)
	if bound := p.Bound(attempt); bound > 0 {
		n := int64(bound)
		if n < math.MaxInt64 {
			n++
		}
		own = time.Duration(jitter(n))
	}
	return max(own, min(retryAfter, p.Max))
}

// Exhausted tells whether attempt was the last.
func (p Policy) Exhausted(attempt int) bool { return attempt >= p.Attempts }
