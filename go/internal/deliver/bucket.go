package deliver

import (
	"math"
	"time"
)

// bucket is the token bucket of a destination's rate. The runner's lock guards it.
type bucket struct {
	rate   float64 // a second; 0: no bound
	tokens float64
	at     time.Time
}

// bucketSpan is how long a destination that was idle may have saved up for.
const bucketSpan = 50 * time.Millisecond

// waitRate bounds how long the least rate makes one delivery wait.
const waitRate = time.Hour

// depth is the most that may begin at once.
func (b *bucket) depth() float64 { return max(1, b.rate*bucketSpan.Seconds()) }

// set takes another rate in force and keeps what was saved up.
func (b *bucket) set(rate float64) {
	if b.rate == 0 {
		b.tokens = 1
	}
	b.rate = max(rate, 0)
}

// room is how many of n may begin now and, if that is none, how long until one may.
func (b *bucket) room(now time.Time, n int) (int, time.Duration) {
	if b.rate == 0 || n <= 0 {
		return n, 0
	}
	since := now.Sub(b.at)
	if since > 0 && !b.at.IsZero() {
		b.tokens = min(b.tokens+b.rate*since.Seconds(), b.depth())
	}
	if since > 0 || since < -disorder {
		b.at = now
	}
	if b.tokens >= 1 {
		return min(n, int(b.tokens)), 0
	}
	wait := (1 - b.tokens) / b.rate
	if wait > waitRate.Seconds() {
		return 0, waitRate
	}
	return 0, time.Duration(math.Ceil(wait*float64(time.Second))) + 1 // one for the rounding
}

// take uses n up.
func (b *bucket) take(n int) {
	if b.rate > 0 {
		b.tokens -= float64(n)
	}
}
