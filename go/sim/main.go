package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// scenarioFolder is where a scenario that is named without a path lies.
const scenarioFolder = "go/sim/scenarios"

func main() {
	if err := simulate(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sim:", err)
		os.Exit(1)
	}
}

var errGates = errors.New("a gate does not hold")

func simulate(args []string) error {
	flags := flag.NewFlagSet("sim", flag.ContinueOnError)
	world := flags.String("world", "bin/sluice-sim", "the world's binary")
	seed := flags.Uint64("seed", 1, "the first seed")
	count := flags.Int("seeds", 1, "how many seeds, one after the other")
	plot := flags.String("plot", "", "draw the first run into this PNG")
	trace := flags.String("trace", "", "write each answer to this source to standard error")
	side := flags.Bool("compare", false, "print what each algorithm makes of the scenarios, unjudged")
	seconds := flags.Bool("seconds", false, "print a line for each second of the first run")
	if err := flags.Parse(args); err != nil {
		return err
	}
	files, err := scenarioFiles(flags.Args())
	if err != nil {
		return err
	}
	seeds := seedsFrom(*seed, *count)
	if *side {
		return compare(os.Stdout, *world, files, seeds)
	}
	good := true
	for _, file := range files {
		reports, err := runAll(context.Background(), *world, file, seeds, *trace)
		if err != nil {
			return err
		}
		fmt.Println(scenarioName(file))
		if *seconds {
			reports[0].writeSeconds(os.Stdout)
		}
		reports[0].writePhases(os.Stdout)
		reports[0].writeClasses(os.Stdout)
		faults := faultsOf(seeds, reports, func(v Verdict) { fmt.Println(" ", v) })
		for _, fault := range faults {
			fmt.Println("  BROKEN", fault)
			good = false
		}
		fmt.Println()
		if *plot != "" {
			title := fmt.Sprintf("%s, seed %d", scenarioName(file), seeds[0])
			if err := drawRun(*plot, title, reports[0]); err != nil {
				return err
			}
		}
	}
	if !good {
		return errGates
	}
	return nil
}

// faultsOf are the gates that do not hold and the rules that were broken; each sees every verdict.
func faultsOf(seeds []uint64, reports []*Report, each func(Verdict)) []string {
	var faults []string
	for _, verdict := range judge(seeds, reports) {
		each(verdict)
		if !verdict.Holds {
			faults = append(faults, fmt.Sprintf("line %d: %v", verdict.Line, verdict))
		}
	}
	for i, report := range reports {
		for _, why := range report.Broken {
			faults = append(faults, fmt.Sprintf("seed %d: %s", seeds[i], why))
		}
	}
	return faults
}

func seedsFrom(first uint64, count int) []uint64 {
	seeds := make([]uint64, count)
	for i := range seeds {
		seeds[i] = first + uint64(i)
	}
	return seeds
}

// runAll plays a scenario once for each seed, on all cores.
func runAll(ctx context.Context, world, file string, seeds []uint64, trace string) (
	[]*Report, error,
) {
	reports, faults := make([]*Report, len(seeds)), make([]error, len(seeds))
	var group sync.WaitGroup
	places := make(chan struct{}, runtime.NumCPU())
	for i, seed := range seeds {
		group.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			if faults[i] = ctx.Err(); faults[i] != nil {
				return
			}
			if reports[i], faults[i] = run(world, file, seed, trace); faults[i] != nil {
				faults[i] = fmt.Errorf("seed %d: %w", seed, faults[i])
			}
		})
	}
	group.Wait()
	return reports, errors.Join(faults...)
}

// scenarioFiles finds the files of names or paths; none are all.
func scenarioFiles(names []string) ([]string, error) {
	if len(names) == 0 {
		files, err := filepath.Glob(filepath.Join(scenarioFolder, "*.sim"))
		slices.Sort(files)
		return files, err
	}
	var files []string
	for _, name := range names {
		if !strings.HasSuffix(name, ".sim") {
			name = filepath.Join(scenarioFolder, name+".sim")
		}
		files = append(files, name)
	}
	return files, nil
}

func scenarioName(file string) string { return strings.TrimSuffix(filepath.Base(file), ".sim") }
