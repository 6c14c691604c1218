package main

import (
	"errors"
	"math"
	"testing"
	"time"

	"sluice/bench/referee"
)

// cost is what one verdict takes.
type cost struct{ ns, allocations float64 }

// row is one contest at one size.
type row struct {
	contest *contest
	size    int
	// proof and verdict are ours.
	proof, verdict, library, primitive cost

	others referee.Cores
}

// measure lets the judges of a contest take windows by turns and keeps each one's best: that of the
// window which others disturbed least. All of them judge the same request, and one that does not
// accept it ends the measurement.
func measure(c *contest, size, rounds int, window time.Duration) (row, error) {
	r := row{contest: c, size: size}
	now := time.Now()
	d, err := c.deliver(size, now)
	if err != nil {
		return r, err
	}
	j, err := c.judges(d, now)
	if err != nil {
		return r, err
	}
	entrants := []struct {
		judge   judge
		cost    *cost
		refused string
		calls   int
	}{
		{j.proof, &r.proof, "our proof refuses the request", 0},
		{j.verdict, &r.verdict, "our verdict refuses the request", 0},
		{j.primitive, &r.primitive, "the bare primitive refuses the request", 0},
		{j.library, &r.library, "the library refuses the request that our verifier accepts", 0},
	}
	if j.library == nil {
		entrants = entrants[:3]
	}
	for i := range entrants {
		e := &entrants[i]
		if !e.judge() {
			return r, errors.New(e.refused)
		}
		e.cost.ns = math.Inf(1)
		e.cost.allocations = testing.AllocsPerRun(100, func() { e.judge() })
		e.calls = callsOf(e.judge, window)
	}
	watch, own := referee.StartWatch(), referee.Own()
	for range rounds {
		for i := range entrants {
			e := &entrants[i]
			took, ok := run(e.judge, e.calls)
			if !ok {
				return r, errors.New(e.refused)
			}
			e.cost.ns = min(e.cost.ns, float64(took.Nanoseconds())/float64(e.calls))
		}
	}
	r.others = watch.Others(referee.Own() - own)
	return r, nil
}

// callsOf is how many calls fill a window.
func callsOf(j judge, window time.Duration) int {
	for calls := 1; calls < callsMax; calls *= 2 {
		if took, _ := run(j, calls); took >= window/2 {
			return max(1, int(float64(calls)*float64(window)/float64(took)))
		}
	}
	return callsMax
}

func run(j judge, calls int) (took time.Duration, ok bool) {
	began := time.Now()
	ok = true
	for range calls {
		ok = j() && ok
	}
	return time.Since(began), ok
}
