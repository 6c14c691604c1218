// Command verifybench measures what a verdict over a signed webhook costs, beside the library that
// the provider itself (or, where it has none, its community) gives to Go programs, and beside the
// bare primitive over the same bytes.
//
// It opens no socket, parses no event and measures neither HTTP nor storage. It is a module of its
// own, so that none of those libraries is a dependency of the project.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
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
	if err != nil {
		fmt.Fprintln(os.Stderr, "verifybench:", err)
		os.Exit(1)
	}
	if *gate && missed > 0 {
		os.Exit(1)
	}
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
	if path == "" {
		stamp := time.Now().UTC().Format("2006-01-02T150405Z")
		path = filepath.Join("bench", "results", "local", "verify-"+stamp+".txt")
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
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return 0, err
	}
	file, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	out := io.MultiWriter(os.Stdout, file)
	describe(out, rounds, window)
	printTable(out, rows)
	missed = printGates(out, rows)
	fmt.Fprintf(out, "\nwritten to %s\n", path)
	return missed, nil
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
