package store

import "time"

// rateSeconds is the window of a rate.
const rateSeconds = 60

// rate counts what happens in the last minute, second by second.
type rate struct {
	counts [rateSeconds]uint32
	second int64 // of the clock that is never set: the last one that counts holds
}

// add counts one more at a time of that clock.
func (r *rate) add(elapsed time.Duration) {
	r.advance(elapsed)
	r.counts[r.second%rateSeconds]++
}

func (r *rate) advance(elapsed time.Duration) {
	now := int64(elapsed / time.Second)
	for n := max(r.second+1, now-rateSeconds+1); n <= now; n++ {
		r.counts[n%rateSeconds] = 0
	}
	r.second = max(r.second, now)
}

// perSecond is the mean over the window, or over the life so far.
func (r *rate) perSecond(elapsed time.Duration) float64 {
	r.advance(elapsed)
	sum := uint64(0)
	for _, n := range r.counts {
		sum += uint64(n)
	}
	return float64(sum) / float64(min(rateSeconds, r.second+1))
}
