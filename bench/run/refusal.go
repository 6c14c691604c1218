package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"sluice/bench/referee"
)

const (
	refusalRatio  = 1.1 // beside a canned answer of the same server
	refusalUserUs = 2.0
	refusalRounds = 3
	// As many connections for both kinds, and enough for all who are held at once (max_held): how many
	// requests a turn finds is part of what one costs.
	refusalConnections = "4096"
	// The kernel tells user from system time by looking 250 times a second (CONFIG_HZ of the usual
	// kernels), which is the error of the result.
	looksPerSecond = 250
)

// cost is CPU time of the data plane over requests of one kind.
type cost struct {
	requests  int
	all, user float64 // CPU seconds
}

func (c cost) userUs() float64 { return c.user / float64(max(c.requests, 1)) * 1e6 }
func (c cost) allUs() float64  { return c.all / float64(max(c.requests, 1)) * 1e6 }

func (c *cost) add(other cost) {
	c.requests += other.requests
	c.all += other.all
	c.user += other.user
}

// doubt is the standard error of a user time, as a share of it.
func (c cost) doubt() float64 { return 1 / math.Sqrt(max(c.user*looksPerSecond, 1)) }

// refusals measures what a refusal costs the data plane beside an answer that it has ready (404),
// by turns, with the same requests on the same server.
func refusals(out io.Writer, o options, t trial) (int, error) {
	fmt.Fprintf(out, "\n%s\n", t)
	var shed, canned cost
	var other referee.Cores
	var shedShare float64
	lost := 0
	err := inFolder(o, func(dir string) error {
		s, err := fronts[0].start(o, t, dir)
		if errors.Is(err, errLeftOut) {
			return err
		}
		if err != nil {
			return err
		}
		defer s.stop()
		if err := s.set(t.phases[0].store()); err != nil {
			return err
		}
		m := startMachine(s)
		var all []*generator
		for round := range refusalRounds {
			for _, path := range []string{"/hooks/low", "/nobody/is/here"} {
				name := fmt.Sprintf("round-%d", round)
				c, sum, g, err := s.costOf(o, t, dir, name, path)
				if err != nil {
					return err
				}
				all, lost = append(all, g), lost+sum.lostAll()
				if path == "/hooks/low" {
					shed.add(c)
					shedShare += sum.shedShare() / refusalRounds
				} else {
					canned.add(c)
				}
			}
		}
		other = m.others(cpuOf(all...))
		return nil
	})
	if errors.Is(err, errLeftOut) {
		fmt.Fprintf(out, "left out: %v\n", err)
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(out, "  refused: %d requests, %.1f %% of them shed, user %.2f µs, all %.2f µs\n"+
		"  canned 404: %d requests, user %.2f µs, all %.2f µs\n",
		shed.requests, 100*shedShare, shed.userUs(), shed.allUs(),
		canned.requests, canned.userUs(), canned.allUs())
	list := referee.Unjudge(judgeRefusals(shed, canned, shedShare, lost),
		outcome{other: other}.noisy())
	return referee.PrintGates(out, list), nil
}

func judgeRefusals(shed, canned cost, shedShare float64, lost int) []referee.Gate {
	ratio := shed.allUs() / canned.allUs()
	user := shed.userUs() / canned.userUs()
	return []referee.Gate{
		{
			Name:   "nearly all was shed, and nothing lost",
			Shown:  fmt.Sprintf("%.1f %%, %d lost", 100*shedShare, lost),
			Missed: shedShare < 0.95 || lost > 0,
		},
		{
			Name: fmt.Sprintf("a refusal costs at most %.1f times a canned answer, in all",
				refusalRatio),
			Shown: fmt.Sprintf("%.2f times; user CPU alone %.2f ± %.2f times", ratio, user,
				user*math.Hypot(shed.doubt(), canned.doubt())),
			Missed: ratio > refusalRatio,
		},
		{
			Name: fmt.Sprintf("a refusal costs under %.0f µs of user CPU", refusalUserUs),
			Shown: fmt.Sprintf("%.2f ± %.2f µs", shed.userUs(),
				shed.userUs()*shed.doubt()),
			Missed: shed.userUs() >= refusalUserUs,
		},
	}
}

// costOf offers the trial's phase to one path and reads what the data plane used for it.
func (s *stand) costOf(
	o options, t trial, dir, name, path string,
) (cost, tally, *generator, error) {
	args := []string{
		"--connections", refusalConnections, "--secret", secret, "--body-bytes", strconv.Itoa(t.body),
		"--timeout", "5s", "--stream", "x " + path + " " + t.profile(1), s.base,
	}
	before := look{parts: s.parts()}
	g, err := startGenerator(o, dir, name, args...)
	if err != nil {
		return cost{}, tally{}, nil, err
	}
	r, err := g.result()
	if err != nil {
		return cost{}, tally{}, nil, err
	}
	after := look{parts: s.parts()}
	all, user := spent(before, after, "dataplane")
	sum := tallyOf(r.requests)
	if all == 0 {
		return cost{}, tally{}, nil, fmt.Errorf("%s: the data plane was replaced meanwhile", path)
	}
	return cost{requests: sum.due - sum.lostAll(), all: all, user: user}, sum, g, nil
}
