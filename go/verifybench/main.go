// Command verifybench measures what a verdict over a signed webhook costs, beside the library that
// the provider itself (or, where it has none, its community) gives to Go programs, and beside the
// bare primitive over the same bytes.
//
// It opens no socket, parses no event and measures neither HTTP nor storage. It is a module of its
// own, so that none of those libraries is a dependency of the project.
package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/bench/referee"
)

// sizes are the bytes of the bodies.
var sizes = []int{gateBytes, 16 << 10}

func main() {
	rounds := flag.Int("rounds", 15, "windows of each judge, by turns; the best one counts")
	window := flag.Duration("duration", 10*time.Millisecond, "length of a window")
	only := flag.String("only", "", "only these providers, a list with commas")
	gate := flag.Bool("gate", false, "exit 1 when a judged gate is not met")
	path := flag.String("out", "", "result file (default bench/results/local/verify-TIME.txt)")
	flag.Parse()
	missed, err := bench(*rounds, *window, *only, *path)
	referee.Exit("verifybench", *gate, missed, err)
}

// bench measures everything asked for, prints and files the result, and counts the gates missed.
func bench(rounds int, window time.Duration, only, path string) (missed int, err error) {
	if rounds < 1 || rounds > roundsMax {
		return 0, fmt.Errorf("-rounds %d is not from 1 to %d", rounds, roundsMax)
	}
	if window < time.Millisecond || window > windowMax {
		return 0, fmt.Errorf("-duration %v is not from 1ms to %v", window, windowMax)
	}
	list, err := choose(contests(), only)
	if err != nil {
		return 0, err
	}
	var rows []row
	for _, size := range sizes {
		for i := range list {
			r, err := measure(&list[i], size, rounds, window)
			if err != nil {
				return 0, fmt.Errorf("%s, %d bytes: %w", list[i].provider, size, err)
			}
			rows = append(rows, r)
		}
	}
	out, err := referee.Create(path, "verify-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	referee.Head{
		Title: "verification bench", Make: "bench-verify", Given: []string{"gate"},
		Notes: []string{
			fmt.Sprintf("ns are the best of %d windows of %v, taken by turns; allocations are of one "+
				"verdict", rounds, window),
			"proof and verdict are ours: the signature alone, and with the event's id and type; the " +
				"ratios are the proof's",
		},
	}.Print(out)
	printTable(out, rows)
	return referee.PrintGates(out, gates(rows)), nil
}

func choose(list []contest, only string) ([]contest, error) {
	if only == "" {
		return list, nil
	}
	var chosen []contest
	for name := range strings.SplitSeq(only, ",") {
		at := slices.IndexFunc(list, func(c contest) bool { return c.provider == name })
		if at < 0 {
			return nil, fmt.Errorf("-only: there is no contest %q", name)
		}
		chosen = append(chosen, list[at])
	}
	return chosen, nil
}
