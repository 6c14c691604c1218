package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
)

// compared are the limits of a comparison: a name, and what `admission` says.
var compared = []struct {
	name string
	keys []string
}{
	{"slope", []string{"algorithm slope"}},
	{"fixed 16", []string{"algorithm fixed", "initial_limit 16"}},
	{"fixed 64", []string{"algorithm fixed", "initial_limit 64"}},
	{"aimd", []string{"algorithm aimd"}},
	{"gradient2", []string{"algorithm gradient2"}},
	{"min-gradient", []string{"algorithm min-gradient"}},
}

// compare plays scenarios under each algorithm and prints goodput and p99 of their hardest phase.
// Gates are left out; they are the default's.
func compare(out io.Writer, world string, files []string, seeds []uint64) error {
	dir, err := os.MkdirTemp("", "sluice-sim-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "goodput % / total p99 ms")
	for _, file := range files {
		fmt.Fprint(table, "\t", scenarioName(file))
	}
	for _, limit := range compared {
		fmt.Fprint(table, "\n", limit.name)
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			under := filepath.Join(dir, filepath.Base(file))
			if err := os.WriteFile(under, []byte(withLimit(string(text), limit.keys)), 0o600); err != nil {
				return err
			}
			reports, err := runAll(context.Background(), world, under, seeds, "")
			if err != nil {
				return fmt.Errorf("%s under %s: %w", scenarioName(file), limit.name, err)
			}
			goodput, p99, err := hardest(reports)
			if err != nil {
				return fmt.Errorf("%s under %s: %w", scenarioName(file), limit.name, err)
			}
			fmt.Fprintf(table, "\t%.0f / %.0f", 100*goodput, p99/1e6)
		}
	}
	fmt.Fprintln(table)
	return table.Flush()
}

// withLimit gives a scenario another limit and no gates.
func withLimit(text string, keys []string) string {
	var lines []string
	for line := range strings.Lines(text) {
		word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if word != "gate" && word != "admission" {
			lines = append(lines, line)
		}
	}
	for _, key := range keys {
		lines = append(lines, "admission "+key+"\n")
	}
	return strings.Join(lines, "")
}

// hardest is the goodput, and the p99 in ns of what became durable, of the phase with the longest
// p99; both are means over the runs.
func hardest(reports []*Report) (goodput, p99 float64, err error) {
	for i, phase := range reports[0].Phases {
		var sums [2]float64
		complete := phase.Name != "all"
		for _, report := range reports {
			for j, metric := range []string{"goodput", "total_p99"} {
				value := report.Phases[i].Metrics[metric]
				if complete = complete && value != nil; complete {
					sums[j] += *value / float64(len(reports))
				}
			}
		}
		if complete && sums[1] > p99 {
			goodput, p99 = sums[0], sums[1]
		}
	}
	if p99 == 0 {
		return 0, 0, errors.New("no phase has both a goodput and a p99")
	}
	return goodput, p99, nil
}
