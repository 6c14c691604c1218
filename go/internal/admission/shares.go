package admission

import (
	"math"
	"time"
)

// smoothTime is the time constant of the means over time: throughput and arrivals. Both must have
// the same, or their ratio is wrong whenever the load changes.
const smoothTime = 300 * time.Millisecond

// smooth is the weight of the newest rate in a mean that is updated after so long.
func smooth(since time.Duration) float64 {
	return -math.Expm1(-since.Seconds() / smoothTime.Seconds())
}

// shares knows how much each source asks for.
type shares struct {
	sources []asker
	rates   []float64 // room to reckon in
}

// asker is one source slot. Its rate is 0 from sourceForgotten after its last request.
type asker struct {
	offered uint64
	rate    float64 // requests a second
	quiet   time.Duration
}

const sourceForgotten = 10 * time.Second

// see takes the sources' counts, so long after the last ones. A count that fell is another
// source's, or another data plane's, and says nothing.
func (s *shares) see(offered []uint64, since time.Duration) {
	s.fit(offered)
	weight, seconds := smooth(since), since.Seconds()
	for i := range s.sources {
		a := &s.sources[i]
		more, ok := difference(offered[i], a.offered)
		a.offered = offered[i]
		switch {
		case !ok:
			continue
		case more > 0:
			a.quiet = 0
		case a.rate == 0:
			continue
		default:
			a.quiet += since
		}
		if a.quiet >= sourceForgotten {
			a.rate = 0
			continue
		}
		a.rate += weight * (float64(more)/seconds - a.rate)
	}
}

// rebase takes the counts as they are, without a rate from them.
func (s *shares) rebase(offered []uint64) {
	s.fit(offered)
	for i := range s.sources {
		s.sources[i].offered = offered[i]
	}
}

// fit makes the table as long as the slots. A new slot begins with the count it has: what came
// before is nobody's rate.
func (s *shares) fit(offered []uint64) {
	for i := len(s.sources); i < len(offered); i++ {
		s.sources = append(s.sources, asker{offered: offered[i]})
	}
	s.sources = s.sources[:len(offered)]
}

// level is the rate up to which each source can be served out of the throughput, events a second;
// what one does not ask for is the others'. +Inf: all of it can be served.
func (s *shares) level(throughput float64) float64 {
	s.rates = s.rates[:0]
	for _, a := range s.sources {
		if a.rate > 0 {
			s.rates = append(s.rates, a.rate)
		}
	}
	return waterLevel(s.rates, throughput)
}

// waterLevel gives the level at which Σ min(rate, level) is the supply, or +Inf if the rates do
// not reach it. It uses the rates' memory up. A pass takes out all that the level serves in full,
// which raises it for the rest; a few passes are usual, as many as rates the most.
func waterLevel(rates []float64, supply float64) float64 {
	for len(rates) > 0 {
		level := max(supply, 0) / float64(len(rates))
		above := rates[:0]
		for _, rate := range rates {
			if rate > level {
				above = append(above, rate)
			} else {
				supply -= rate
			}
		}
		if len(above) == len(rates) {
			return level
		}
		rates = above
	}
	return math.Inf(1)
}
