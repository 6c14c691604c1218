// Command storebench measures the store beside the bare disk and beside what people use today, in
// the same minutes on the same disk, and holds the results against the gates of the store.
//
// Each row is a process of its own, and those of a round run one after the other, so that a busy
// machine hits all alike. It sends nothing over a network, builds nothing (`make bench-store` does)
// and leaves nothing but its result behind.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sluice/bench/referee"
	"sluice/go/internal/store/thread"
	"sluice/go/storebench/meter"
)

type options struct {
	dir      string
	out      string
	peers    string
	postgres string
	only     []string
	sizes    []int // nil: each part's own
	groups   []int
	rounds   int
	duration time.Duration
	most     time.Duration
	events   int
	backlog  int
	steady   time.Duration
	pending  int
	keys     bool
	gate     bool
	profile  string
}

func main() {
	thread.Spread() // as the daemon does
	var o options
	var only, sizes, groups string
	row := flag.Bool("row", false, "measure the one case that the last argument has as JSON")
	flag.StringVar(&only, "only", "", "only these parts or subjects: "+
		strings.Join(partNames(), ", ")+", or a part of a subject's name; a list with commas")
	flag.StringVar(&sizes, "sizes", "", "bytes of a body, a list (default 1024,16384)")
	flag.StringVar(&groups, "groups", "",
		"events of a group, a list (default 1,16,64,256,1024; of life 64,256; of steady 256)")
	flag.IntVar(&o.rounds, "rounds", 3, "rounds of the short rows, which are added up")
	flag.DurationVar(&o.duration, "duration", time.Second, "length of a short row")
	flag.DurationVar(&o.most, "most", 25*time.Minute,
		"begin no further round that would make the whole run longer than this")
	flag.IntVar(&o.events, "events", 1_000_000, "events of a life")
	flag.IntVar(&o.backlog, "backlog", 2048, "events that are on their way at once in a life")
	flag.DurationVar(&o.steady, "steady", time.Minute, "length of the steady life")
	flag.IntVar(&o.pending, "pending", 5_000_000, "events that wait when the store is opened")
	flag.BoolVar(&o.keys, "keys", true, "events have sender's ids, so duplicates are looked for")
	flag.BoolVar(&o.gate, "gate", false, "exit 1 when a judged gate is not met")
	flag.StringVar(&o.profile, "cpuprofile", "", "folder for a CPU profile of each row of ours")
	flag.StringVar(&o.dir, "dir", ".cache/storebench", "folder on the disk to be measured; emptied")
	flag.StringVar(&o.out, "out", "", "result file (default bench/results/local/store-TIME.txt)")
	flag.StringVar(&o.peers, "peers", ".cache/bin/storepeers", "the peers' binary")
	flag.StringVar(&o.postgres, "postgres", os.Getenv(postgresVariable),
		"connection URL; without one the Postgres rows are left out")
	flag.Parse()
	if *row {
		if c := meter.Serve(measure); c.Subject == "open-fill" {
			// No cleaner end: what a crash leaves is what the next row opens.
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		return
	}
	o.only = words(only)
	err := errors.Join(parseNumbers(sizes, &o.sizes), parseNumbers(groups, &o.groups))
	missed := 0
	if err == nil {
		missed, err = bench(o)
	}
	referee.Exit("storebench", o.gate, missed, err)
}

func words(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
}

func parseNumbers(text string, list *[]int) error {
	for _, word := range words(text) {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > numberMax {
			return fmt.Errorf("%q is no number from 1 to %d", word, numberMax)
		}
		*list = append(*list, n)
	}
	return nil
}

// measure is what a process of ours does for one case.
func measure(c meter.Case) (meter.Result, error) {
	if raws[c.Subject] != nil {
		return measureRaw(c)
	}
	for _, s := range ours {
		if s.name == c.Subject {
			return s.measure(c)
		}
	}
	return meter.Result{}, fmt.Errorf("there is no subject %q", c.Subject)
}

// bench measures everything asked for, prints and files the result, and counts the gates missed.
func bench(o options) (missed int, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run, err := newRunner(o)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	plan, err := newPlan(o)
	if err != nil {
		return 0, err
	}
	out, err := referee.Create(o.out, "store-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	o.head().Print(out)
	t := table{}
	fault := t.fill(ctx, run, plan, o)
	if len(t.rows) == 0 {
		return 0, errors.Join(fault,
			errors.New("nothing was measured; look at -only, -sizes and -groups"))
	}
	t.print(out)
	if fault != nil {
		return 0, fault
	}
	if err := t.fileSeconds(out, out.Beside("seconds")); err != nil {
		return 0, err
	}
	return referee.PrintGates(out, gates(&t)), nil
}

// fill measures every case, round by round, as many as there is time for, but at least one. A peer
// that fails is left out, with its reason; one of ours that fails ends it.
func (t *table) fill(ctx context.Context, run *runner, plan []planned, o options) error {
	began := time.Now()
	var last time.Duration // of the short rows
	for round := range o.rounds {
		if round > 0 && time.Since(began)+last > o.most {
			t.leaveOut(fmt.Sprintf("%d of %d rounds: another one would end after -most %v", round,
				o.rounds, o.most))
			break
		}
		last = 0
		for n, c := range plan {
			if round > 0 && c.once {
				continue
			}
			fmt.Fprintf(os.Stderr, "%v: round %d of %d, row %d of %d: %v\n",
				time.Since(began).Round(time.Second), round+1, o.rounds, n+1, len(plan), c.Case)
			from := time.Now()
			r, err := run.measure(ctx, c)
			if !c.once {
				last += time.Since(from)
			}
			switch {
			case err == nil:
				t.add(c.part, r)
			case ctx.Err() != nil || c.part != "peers":
				return fmt.Errorf("%v: %w", c.Case, err)
			default:
				t.leaveOut(fmt.Sprintf("left out: %v: %v", c.Case, err))
			}
		}
	}
	return nil
}

func partNames() (names []string) {
	for _, p := range parts {
		if !slices.Contains(names, p.name) {
			names = append(names, p.name)
		}
	}
	return names
}
