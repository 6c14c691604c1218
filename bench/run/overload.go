package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sluice/bench/referee"
)

// outcome is everything that one trial of one front has shown.
type outcome struct {
	trial     trial
	front     front
	record    record
	probes    record // kind=probes: handshakes and probes
	looks     []look
	back      time.Duration // kind=stop, kill: when the control plane was there again
	promises  *promises     // nil: the front keeps nothing
	other     referee.Cores
	generator float64 // cores, the busiest second of the generator
}

// generatorMost is what the generator may use of its core: past it the generator is measured.
const generatorMost = 0.4

// noisy says why the trial cannot be judged, if it cannot.
func (o outcome) noisy() string {
	switch {
	case o.other.Noisy():
		return o.other.String()
	case o.generator > generatorMost:
		return fmt.Sprintf("the generator used %.2f of a core", o.generator)
	}
	return ""
}

// overload runs every trial in front of the same store, one front after the other, and counts the
// gates that the first front has missed.
func overload(out *referee.Result, o options) (int, error) {
	trials, err := readTrials(o.scenario)
	if err != nil {
		return 0, err
	}
	seconds, err := os.Create(out.Beside("seconds"))
	if err != nil {
		return 0, err
	}
	defer seconds.Close()
	fmt.Fprintf(out, "capacity C: the store is SLOTS servers that take exactly TIME, so C is "+
		"SLOTS/TIME; good: 2xx within %v of being due\n", goodWithin)
	missed, ran := 0, 0
	for _, t := range trials {
		if !o.wants(t.name) {
			continue
		}
		ran++
		n, err := runTrial(out, seconds, o, t)
		if err != nil {
			return missed, fmt.Errorf("%s: %w", t.name, err)
		}
		missed += n
	}
	if ran == 0 {
		return 0, fmt.Errorf("no trial has %q in its name", o.only)
	}
	fmt.Fprintf(out, "\n%d gates missed; each second of each trial is in %s\n",
		missed, filepath.Base(seconds.Name()))
	return missed, nil
}

// runTrial runs one trial with each of its fronts and prints what came of it.
func runTrial(out, seconds io.Writer, o options, t trial) (int, error) {
	switch t.kind {
	case kindRefusals:
		return refusals(out, o, t)
	case kindJournal:
		return ownJournal(out, o, t)
	}
	fmt.Fprintf(out, "\n%s\n", t)
	var all []outcome
	for _, name := range t.fronts {
		f, _ := frontOf(name)
		fmt.Fprintf(os.Stderr, "%s: %s\n", t.name, name)
		result, err := stage(o, t, f)
		if errors.Is(err, errLeftOut) {
			fmt.Fprintf(out, "left out: %s: %v\n", name, err)
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		printSeconds(seconds, result)
		all = append(all, result)
	}
	printPhases(out, all)
	missed := 0
	for _, result := range all {
		if result.front.name == fronts[0].name {
			missed += referee.PrintGates(out, referee.Unjudge(judge(result), result.noisy()))
		}
	}
	return missed, nil
}

// inFolder runs something in a folder of its own on the disk to be measured.
func inFolder(o options, do func(dir string) error) error {
	dir, err := os.MkdirTemp(o.dir, "trial-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	return do(dir)
}

// stage runs one front through a trial.
func stage(o options, t trial, f front) (outcome, error) {
	result := outcome{trial: t, front: f}
	err := inFolder(o, func(dir string) error {
		s, err := f.start(o, t, dir)
		if err != nil {
			return err
		}
		defer s.stop()
		return result.run(o, s, dir)
	})
	return result, err
}

// Connections at the start, and at most: an open loop opens one when none is free.
const connections, connectionsMax = "64", "16384"

func (r *outcome) run(o options, s *stand, dir string) error {
	t := r.trial
	if err := s.set(t.phases[0].store()); err != nil {
		return err
	}
	machine := startMachine(s)
	args := []string{
		"--connections", connections, "--max-connections", connectionsMax, "--secret", secret,
		"--timeout", "5s", "--grace", "6s", "--tries", strconv.Itoa(t.tries),
		"--body-bytes", strconv.Itoa(t.body),
	}
	for _, st := range t.streams() {
		args = append(args, "--stream", st.source+" /hooks/"+st.source+" "+t.profile(st.share))
	}
	g, err := startGenerator(o, dir, "load", append(args, s.base)...)
	if err != nil {
		return err
	}
	w := startWatch(s, g)
	beside, err := r.startProbes(o, s, dir)
	if err == nil {
		err = r.direct(s, g.start)
	}
	if err != nil {
		g.kill()
		w.end()
		for _, p := range beside {
			p.kill()
		}
		return err
	}
	r.record, err = g.result()
	for _, p := range beside {
		more, err2 := p.result()
		r.probes.requests = append(r.probes.requests, more.requests...)
		err = errors.Join(err, err2)
	}
	r.looks = w.end()
	r.generator = busiest(r.looks)
	r.other = machine.others(cpuOf(append(beside, g)...))
	if err == nil && s.gateway != nil {
		r.promises, err = checkPromises(s.gateway, g.ledger)
	}
	return err
}

// profile is the rate of a part of the trial in the generator's form.
func (t trial) profile(share float64) string {
	var steps []string
	for _, p := range t.phases {
		steps = append(steps, fmt.Sprintf("%g:%gs", p.offered*share, p.length.Seconds()))
	}
	return strings.Join(steps, ",")
}

func (p phase) store() string { return fmt.Sprintf("%dx%s", p.slots, p.service) }

func (p phase) storeIs(other phase) bool {
	return p.slots == other.slots && p.service == other.service
}

// act is something that is done at its time.
type act struct {
	at time.Duration
	do func() error
}

// acts are what a trial does to its stand, in the order of their times.
func (r *outcome) acts(s *stand, start time.Time) []act {
	t := r.trial
	var all []act
	starts := t.starts()
	for n := 1; n < len(t.phases); n++ {
		if p := t.phases[n]; !p.storeIs(t.phases[n-1]) {
			all = append(all, act{starts[n], func() error { return s.set(p.store()) }})
		}
	}
	backNow := func() { r.back = time.Since(start) }
	switch t.kind {
	case kindStop:
		all = append(all,
			act{t.at, func() error { return s.gateway.signal(syscall.SIGSTOP) }},
			act{t.at + t.lasts, func() error {
				backNow()
				return s.gateway.signal(syscall.SIGCONT)
			}})
	case kindKill:
		all = append(all, act{t.at, func() error {
			if err := s.gateway.restart(); err != nil {
				return err
			}
			backNow()
			// A fault does not survive the daemon.
			return s.set(t.phaseAt(time.Since(start)).store())
		}})
	}
	slices.SortStableFunc(all, func(a, b act) int { return int(a.at - b.at) })
	return all
}

func (t trial) phaseAt(at time.Duration) phase {
	found := t.phases[0]
	for n, start := range t.starts() {
		if start <= at {
			found = t.phases[n]
		}
	}
	return found
}

// direct does what a trial does to its stand, on the generator's clock.
func (r *outcome) direct(s *stand, start time.Time) error {
	for _, a := range r.acts(s, start) {
		time.Sleep(time.Until(start.Add(a.at)))
		if err := a.do(); err != nil {
			return err
		}
	}
	return nil
}

// startProbes starts the senders of handshakes and probes, one a second each.
func (r *outcome) startProbes(o options, s *stand, dir string) ([]*generator, error) {
	if r.trial.kind != kindProbes {
		return nil, nil
	}
	common := []string{"--connections", "4", "--max-connections", "64", "--unsigned"}
	rate := fmt.Sprintf(" 1:%s", r.trial.length())
	body := filepath.Join(dir, "probe.json")
	if err := os.WriteFile(body, []byte(`{"version":1,"type":0}`), 0o600); err != nil {
		return nil, err
	}
	var all []*generator
	for name, args := range map[string][]string{
		"probe": {
			"--header", "X-Signature-Ed25519: " + strings.Repeat("0", 128),
			"--header", fmt.Sprintf("X-Signature-Timestamp: %d", time.Now().Unix()),
			"--body-file", body, "--stream", "probe /hooks/probe" + rate,
		},
		"ask": {"--method", "GET", "--stream", "ask /hooks/ask?challenge=bench" + rate},
	} {
		g, err := startGenerator(o, dir, name, append(append(args, common...), s.base)...)
		if err != nil {
			return all, err
		}
		all = append(all, g)
	}
	return all, nil
}

// busiest is the most that the generator used of a core in a second.
func busiest(looks []look) float64 {
	most := 0.0
	for n := 1; n < len(looks); n++ {
		a, b := looks[n-1], looks[n]
		if b.at-a.at > lookEvery/2 {
			most = max(most, (b.generator-a.generator)/(b.at-a.at).Seconds())
		}
	}
	return most
}

// machine remembers what had been used when a trial began.
type machine struct {
	watch referee.Watch
	own   float64
	stand *stand
	parts map[string]referee.Process
}

func startMachine(s *stand) machine {
	return machine{referee.StartWatch(), referee.Own(), s, s.parts()}
}

// others is what was used by nobody who belongs to the trial; generators is the CPU seconds of
// those.
func (m machine) others(generators float64) referee.Cores {
	known := referee.Own() - m.own + generators
	for name, now := range m.stand.parts() {
		if before := m.parts[name]; before.PID == now.PID {
			known += now.Own - before.Own
		} else {
			known += now.Own
		}
	}
	return m.watch.Others(known)
}

// cpuOf is the CPU seconds of generators that have ended.
func cpuOf(generators ...*generator) (seconds float64) {
	for _, g := range generators {
		seconds += g.cpu().Seconds()
	}
	return seconds
}
