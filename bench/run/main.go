// Command run measures sluice beside what people use today, in the same minute on the same
// machine, and holds the results against the speed gates.
//
// It starts and stops every subject itself and loads only the loopback address. It does not
// build anything (`make bench` does), and it refuses to judge a row that shared the machine
// with much else.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"sluice/bench/referee"
)

type options struct {
	scenario string
	bin      string
	peers    string
	load     string
	dir      string
	out      string
	postgres string
	length   time.Duration
	repeat   int
	only     string
	pin      bool
	overload bool
	delivery bool
	tls      bool
	quick    bool
	gate     bool
}

const (
	speedScenario    = "bench/scenarios/speed.txt"
	overloadScenario = "bench/scenarios/overload.txt"
	quickOverload    = "bench/scenarios/overload-quick.txt"
)

func main() {
	var o options
	flag.StringVar(&o.scenario, "scenario", speedScenario, "what to measure")
	flag.StringVar(&o.bin, "bin", "bin", "folder of sluice and sluice-dataplane")
	flag.StringVar(&o.peers, "peers", ".cache/bin/peers", "the peers' binary")
	flag.StringVar(&o.load, "load", "target/release/sluice-load", "the load generator")
	flag.StringVar(&o.dir, "dir", ".cache/bench", "folder on the disk to be measured; emptied")
	flag.StringVar(&o.out, "out", "", "result file (default: bench/results/local/TIME.txt)")
	flag.StringVar(&o.postgres, "postgres", os.Getenv("SLUICE_BENCH_POSTGRES"),
		"connection URL; without one the Postgres rows are left out")
	flag.DurationVar(&o.length, "duration", 5*time.Second, "length of each measurement")
	flag.IntVar(&o.repeat, "repeat", 1, "rounds; of each row the least disturbed is kept")
	flag.StringVar(&o.only, "only", "", "measure only what has one of these in its name, as O1,O2")
	flag.BoolVar(&o.pin, "pin", true, "servers on CPU 0, generator on the last one (taskset)")
	flag.BoolVar(&o.gate, "gate", false, "exit 1 when a judged gate is not met")
	flag.BoolVar(&o.overload, "overload", false,
		"shed and recover instead: "+overloadScenario)
	flag.BoolVar(&o.delivery, "delivery", false, "deliver instead: http, postgres, delivered")
	flag.BoolVar(&o.tls, "tls", false, "TLS instead: handshakes, keep-alive, bulk, beside plain")
	flag.BoolVar(&o.quick, "quick", false, "with -overload, two minutes of it: "+quickOverload)
	flag.Parse()
	if o.overload && o.scenario == speedScenario {
		o.scenario = overloadScenario
		if o.quick {
			o.scenario = quickOverload
		}
	}
	missed, err := bench(o)
	referee.Exit("bench", o.gate, missed, err)
}

// bench measures the scenario, prints and files the result, and counts the gates missed.
func bench(o options) (missed int, err error) {
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return 0, err
	}
	out, err := referee.Create(o.out, "")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	o.head().Print(out)
	run := speed
	if o.overload {
		run = overload
	}
	if o.delivery {
		run = delivery
	}
	if o.tls {
		run = secured
	}
	return run(out, o)
}

// wants says whether a name is among those asked for.
func (o options) wants(name string) bool {
	return slices.ContainsFunc(strings.Split(o.only, ","), func(text string) bool {
		return strings.Contains(name, text)
	})
}

// speed measures every row of a scenario, in rounds, and judges the speed gates.
func speed(out *referee.Result, o options) (int, error) {
	plan, err := readScenario(o.scenario)
	if err != nil {
		return 0, err
	}
	best := map[key]row{}
	var order []key
	for round := range o.repeat {
		for _, k := range plan {
			if !o.wants(k.subject) {
				continue
			}
			fmt.Fprintf(os.Stderr, "round %d: %s\n", round+1, k)
			r, err := measure(o, k)
			if errors.Is(err, errLeftOut) {
				fmt.Fprintf(out, "left out: %s: %v\n", k, err)
				continue
			}
			if err != nil {
				return 0, fmt.Errorf("%s: %w", k, err)
			}
			old, seen := best[k]
			if !seen {
				order = append(order, k)
			}
			if !seen || r.other < old.other {
				best[k] = r
			}
		}
	}
	if len(order) == 0 {
		return 0, errors.New("nothing was measured")
	}
	printTable(out, order, best)
	return referee.PrintGates(out, judgeGates(best)), nil
}
