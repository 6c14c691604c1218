package deliver

import (
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"sluice/go/internal/retry"
)

// seeded gives the numbers of a random test and prints their seed; SLUICE_SEED is another.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(20260101)
	if text := os.Getenv("SLUICE_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// plant is a model of a destination in virtual time, with a limiter before it. It has a line before
// its servers or, with share, does all that is in flight at once.
type plant struct {
	*limiter
	t   *testing.T
	rng *rand.Rand

	each    time.Duration       // that a server takes for one
	jitter  float64             // by how much of it that may be off, each way
	free    []time.Time         // when each server is
	share   func(n int) float64 // answers a second with n in flight
	timeout time.Duration       // after which an attempt is a failure; 0: never
	broken  float64             // part of the answers that are failures
	demand  int                 // in flight at most, for want of more to do; 0: no bound

	now  time.Time
	work float64 // that each attempt has had in a share since the beginning
	jobs []job
}

type job struct {
	began, end time.Time // end: with a line
	work       float64   // with a share: at which it ends
}

func newPlant(t *testing.T, rng *rand.Rand, c Concurrency) *plant {
	return &plant{limiter: newLimiter(c), t: t, rng: rng, now: time.Unix(1767225600, 0)}
}

// serve makes it k servers that take so long for one.
func (p *plant) serve(k int, each time.Duration) *plant {
	p.each, p.free, p.share = each, make([]time.Time, k), nil
	return p
}

// capacity is what the servers can do, answers a second.
func (p *plant) capacity() float64 { return float64(len(p.free)) / p.each.Seconds() }

// seen is what a plant did in some time.
type seen struct {
	throughput float64 // answers a second
	inFlight   float64 // mean
	failures   int
}

func (p *plant) run(span time.Duration) (s seen) {
	answers, area, end := 0, 0.0, p.now.Add(span)
	for {
		for p.room(p.now) > 0 && (p.demand == 0 || len(p.jobs) < p.demand) {
			p.jobs = append(p.jobs, p.job())
			p.begin()
			if p.inFlight > p.limit || uint64(p.limit) > p.conf.MaxLimit {
				p.t.Fatalf("%d in flight at a limit of %d", p.inFlight, p.limit)
			}
		}
		speed := 0.0 // of each piece of work
		if p.share != nil && len(p.jobs) > 0 {
			speed = p.share(len(p.jobs)) / float64(len(p.jobs))
		}
		next, wait := -1, math.Inf(1)
		for i, j := range p.jobs {
			w := math.Inf(1)
			switch {
			case p.share == nil:
				w = j.end.Sub(p.now).Seconds()
			case speed > 0:
				w = (j.work - p.work) / speed
			}
			if p.timeout > 0 {
				w = min(w, j.began.Add(p.timeout).Sub(p.now).Seconds())
			}
			if w < wait {
				next, wait = i, max(w, 0)
			}
		}
		wait = min(wait, end.Sub(p.now).Seconds())
		area += wait * float64(len(p.jobs))
		p.work += wait * speed
		p.now = p.now.Add(time.Duration(math.Ceil(wait * 1e9)))
		if !p.now.Before(end) {
			s.throughput, s.inFlight = float64(answers)/span.Seconds(), area/span.Seconds()
			return s
		}
		j := p.jobs[next]
		p.jobs = append(p.jobs[:next], p.jobs[next+1:]...)
		took, verdict := p.now.Sub(j.began), retry.Delivered
		if p.timeout > 0 && took >= p.timeout || p.rng.Float64() < p.broken {
			verdict = retry.Retry
			s.failures++
		} else {
			answers++
		}
		p.end(p.now, verdict, took)
	}
}

func (p *plant) job() job {
	size := 1 + p.jitter*(2*p.rng.Float64()-1)
	j := job{began: p.now, work: p.work + size}
	if p.share != nil {
		return j
	}
	server := 0
	for i, free := range p.free {
		if free.Before(p.free[server]) {
			server = i
		}
	}
	if p.free[server].Before(p.now) {
		p.free[server] = p.now
	}
	j.end = p.free[server].Add(time.Duration(size * float64(p.each)))
	p.free[server] = j.end
	return j
}
