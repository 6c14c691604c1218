package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// phase is a stretch of a trial with one offered rate and one store.
type phase struct {
	offered float64       // requests per second, over all tiers
	length  time.Duration // whole seconds
	slots   int           // the store: so many at once …
	service time.Duration // … and so long each
}

func (p phase) capacity() float64 { return float64(p.slots) / p.service.Seconds() }

// due is the most goodput that can be had in the phase.
func (p phase) due() float64 { return min(p.offered, p.capacity()) }

// trial is a line of an overload scenario.
type trial struct {
	name   string
	phases []phase
}

// The tiers of a trial and their share of the offered rate.
var tiers = []struct {
	name  string
	share float64
}{{"high", 0.2}, {"default", 0.5}, {"low", 0.3}}

// What stands beside the default in each trial: the same gateway, its limit chosen by hand.
var limiters = []struct{ name, config string }{
	{"default", ""},
	{"fixed 64", "admission:\n  algorithm: fixed\n  initial_limit: 64\n"},
}

// A 2xx that took longer than this is not good: the sender may have given up.
const goodWithin = time.Second

// readTrials reads lines of `NAME PHASE PHASE…`, each phase `RATE:LENGTH@SLOTSxTIME`.
func readTrials(path string) ([]trial, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var trials []trial
	lines := bufio.NewScanner(f)
	for at := 1; lines.Scan(); at++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		t := trial{name: words[0]}
		for _, word := range words[1:] {
			p, err := parsePhase(word)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", path, at, err)
			}
			t.phases = append(t.phases, p)
		}
		if len(t.phases) == 0 {
			return nil, fmt.Errorf("%s:%d: %s has no phase", path, at, t.name)
		}
		trials = append(trials, t)
	}
	return trials, lines.Err()
}

func parsePhase(word string) (phase, error) {
	fault := fmt.Errorf("%s: a phase is RATE:LENGTH@SLOTSxTIME, as 1000:5s@8x4ms", word)
	load, store, ok1 := strings.Cut(word, "@")
	rate, length, ok2 := strings.Cut(load, ":")
	slots, service, ok3 := strings.Cut(store, "x")
	if !ok1 || !ok2 || !ok3 {
		return phase{}, fault
	}
	var p phase
	var errs [4]error
	p.offered, errs[0] = strconv.ParseFloat(rate, 64)
	p.length, errs[1] = time.ParseDuration(length)
	p.slots, errs[2] = strconv.Atoi(slots)
	p.service, errs[3] = time.ParseDuration(service)
	if errors.Join(errs[:]...) != nil || p.offered <= 0 || p.slots < 1 || p.service <= 0 ||
		p.length < time.Second || p.length%time.Second != 0 {
		return phase{}, fault
	}
	return p, nil
}

// second is one second of one tier, as the generator reports it.
type second struct {
	Due     int     `json:"due"`
	OK      int     `json:"ok"`
	Good    int     `json:"good"`
	Refused int     `json:"refused"`
	Failed  int     `json:"failed"`
	P50Us   float64 `json:"p50_us"`
	P99Us   float64 `json:"p99_us"`
}

// overload runs every trial under every limiter and counts the gates missed by the default.
func overload(out io.Writer, o options) (int, error) {
	trials, err := readTrials(o.scenario)
	if err != nil {
		return 0, err
	}
	missed := 0
	for _, t := range trials {
		if o.only != "" && !strings.Contains(t.name, o.only) {
			continue
		}
		for i, l := range limiters {
			fmt.Fprintf(os.Stderr, "%s, limiter %s\n", t.name, l.name)
			seconds, err := runTrial(o, t, l.config)
			if err != nil {
				return missed, fmt.Errorf("%s, limiter %s: %w", t.name, l.name, err)
			}
			faults := printTrial(out, t, l.name, seconds)
			if i == 0 {
				missed += faults
			}
		}
	}
	return missed, nil
}

func runTrial(o options, t trial, limiter string) ([][]second, error) {
	dir, err := os.MkdirTemp(o.dir, "trial-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	var sources []source
	for _, tier := range tiers {
		sources = append(sources, source{tier.name, "durable", tier.name})
	}
	s, err := startSluice(o, dir, limiter, sources, "--dev")
	if err != nil {
		return nil, err
	}
	defer s.stop()
	store := func(p phase) error {
		slots := fmt.Sprintf("%dx%s", p.slots, p.service)
		out, err := exec.Command(filepath.Join(o.bin, "sluice"), "fault", "set", "journal.write",
			"slots", slots, "--config", s.config).CombinedOutput()
		if err != nil {
			return fmt.Errorf("sluice fault set journal.write slots %s: %w: %s", slots, err, out)
		}
		return nil
	}
	if err := store(t.phases[0]); err != nil {
		return nil, err
	}

	results := make([][]second, len(tiers))
	errs := make([]error, len(tiers)+1)
	var wg sync.WaitGroup
	base := strings.TrimSuffix(s.url, tiers[0].name)
	for i, tier := range tiers {
		wg.Go(func() { results[i], errs[i] = offer(o, t, base+tier.name, tier.share) })
	}
	for i, p := range t.phases[:len(t.phases)-1] {
		// The phases follow the generators' clock.
		time.Sleep(p.length)
		if next := t.phases[i+1]; next.slots != p.slots || next.service != p.service {
			errs[len(tiers)] = errors.Join(errs[len(tiers)], store(next))
		}
	}
	wg.Wait()
	return results, errors.Join(errs...)
}

// offer sends one tier's share of a trial, with as many connections as senders would open.
func offer(o options, t trial, url string, share float64) ([]second, error) {
	var steps []string
	for _, p := range t.phases {
		steps = append(steps, fmt.Sprintf("%g:%s", p.offered*share, p.length))
	}
	cmd := command(o, runtime.NumCPU()-1, o.load, "--json", "--timeline", "--reconnect",
		"--connections", "2048", "--body-bytes", "1024", "--secret", secret,
		"--good-within", goodWithin.String(), "--rate", strings.Join(steps, ","), url)
	cmd.Stderr = os.Stderr
	data, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("load generator for %s: %w", url, err)
	}
	var r struct {
		Seconds []second `json:"seconds"`
	}
	err = json.Unmarshal(data, &r)
	return r.Seconds, err
}

// tally is what one phase came to.
type tally struct {
	due, ok, good, failed int
	shed                  []float64 // share of each tier
	p50, p99              float64   // ms: medians of the seconds, over all tiers
}

func tallyPhase(seconds [][]second, from, to int) tally {
	var sum tally
	var p50, p99 []float64
	for _, rows := range seconds {
		due, refused := 0, 0
		for _, row := range rows[min(from, len(rows)):min(to, len(rows))] {
			due += row.Due
			refused += row.Refused
			sum.ok += row.OK
			sum.good += row.Good
			sum.failed += row.Failed
			if row.OK > 0 {
				p50 = append(p50, row.P50Us/1e3)
				p99 = append(p99, row.P99Us/1e3)
			}
		}
		sum.due += due
		sum.shed = append(sum.shed, float64(refused)/float64(max(due, 1)))
	}
	sum.p50, sum.p99 = median(p50), median(p99)
	return sum
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// printTrial prints each phase and the gates, and counts the gates missed.
func printTrial(out io.Writer, t trial, limiter string, seconds [][]second) int {
	fmt.Fprintf(out, "\n%s, limiter %s\n", t.name, limiter)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "offered/s\tcapacity/s\tgood/s\tof what was possible\tp50\tp99 ms"+
		"\tshed high\tdefault\tlow\tlost")
	var faults []string
	at := 0
	for i, p := range t.phases {
		n := int(p.length / time.Second)
		sum := tallyPhase(seconds, at, at+n)
		at += n
		good := float64(sum.good) / p.length.Seconds()
		fmt.Fprintf(w, "%.0f\t%.0f\t%.0f\t%.0f %%\t%.1f\t%.1f\t%.1f %%\t%.1f %%\t%.1f %%\t%d\n",
			p.offered, p.capacity(), good, 100*good/p.due(), sum.p50, sum.p99,
			100*sum.shed[0], 100*sum.shed[1], 100*sum.shed[2], sum.failed)
		name := fmt.Sprintf("phase %d", i+1)
		if good < 0.9*p.due() {
			faults = append(faults, name+": goodput under 90 % of what was possible")
		}
		if p.offered*tiers[0].share < p.capacity() && sum.shed[0] > 0.01 {
			faults = append(faults, name+": over 1 % of the high tier shed")
		}
		if bound := max(3*p.service.Seconds()*1e3, 10); sum.p99 > bound {
			faults = append(faults, fmt.Sprintf("%s: p99 over %.0f ms", name, bound))
		}
		if sum.failed > 0 {
			faults = append(faults, name+": requests without an answer")
		}
		if i > 0 && p.offered < p.capacity() && t.phases[i-1].offered > t.phases[i-1].capacity() {
			// The first second may hold what was in flight.
			start := at - n
			first := tallyPhase(seconds, start+1, start+2)
			if float64(first.good) < 0.95*float64(first.due) {
				faults = append(faults, name+": not recovered after 1 s")
			}
		}
	}
	_ = w.Flush()
	for _, fault := range faults {
		fmt.Fprintf(out, "  MISSED    %s\n", fault)
	}
	if len(faults) == 0 {
		fmt.Fprintln(out, "  met       goodput, high tier, p99, no losses, recovery")
	}
	return len(faults)
}
