package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"sluice/bench/referee"
)

const journalLeast = 0.95 // of what the journal takes in a closed loop without a limit

// ownJournal asks what the default limiter leaves of the journal's own bandwidth: first a closed
// loop under a limit that never binds, then an open loop at more than that. A time for each event
// and one for each write make the store, and not the CPU, what is short.
func ownJournal(out io.Writer, o options, t trial) (int, error) {
	p := t.phases[0]
	fmt.Fprintf(out, "\n%s: %d bytes, %s an event and %s more a write, %g times what a closed loop "+
		"gets\n", t.name, t.body, p.service, p.delay, p.offered)
	unlimited := front{config: "admission:\n  algorithm: fixed\n  initial_limit: 4096\n"}
	var closed result
	var open tally
	var noisy [2]string
	err := onJournal(o, t, unlimited, func(s *stand, _ string) error {
		m := startMachine(s)
		var err error
		closed, err = generate(o, key{body: t.body, connections: 256}, s.base+"/hooks/default", 0,
			t.length())
		noisy[0] = outcome{other: m.others(closed.CPUS)}.noisy()
		return err
	})
	if err == nil {
		t.phases[0].offered *= closed.OKPerS
		err = onJournal(o, t, fronts[0], func(s *stand, dir string) error {
			m := startMachine(s)
			g, err := startGenerator(o, dir, "load",
				"--connections", connections, "--max-connections", connectionsMax,
				"--secret", secret, "--timeout", "5s", "--body-bytes", strconv.Itoa(t.body),
				"--stream", "x /hooks/default "+t.profile(1), s.base)
			if err != nil {
				return err
			}
			r, err := g.result()
			// The first second is the limit's way up.
			open = tallyOf(r.between(time.Second, t.length()))
			noisy[1] = outcome{
				other: m.others(cpuOf(g)), generator: cpuOf(g) / t.length().Seconds(),
			}.noisy()
			return err
		})
	}
	if errors.Is(err, errLeftOut) {
		fmt.Fprintf(out, "left out: %v\n", err)
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	good := float64(open.good) / (t.length() - time.Second).Seconds()
	gate := referee.Gate{
		Name: fmt.Sprintf("goodput at least %.0f %% of the closed loop without a limit",
			100*journalLeast),
		Shown: fmt.Sprintf("%.0f/s of %.0f/s, %.1f %%; p50 %s, p99 %s, %.1f %% shed", good,
			closed.OKPerS, 100*good/closed.OKPerS, ms(open.p50), ms(open.p99), 100*open.shedShare()),
		Missed: good < journalLeast*closed.OKPerS,
	}
	why := cmp.Or(noisy[0], noisy[1])
	return referee.PrintGates(out, referee.Unjudge([]referee.Gate{gate}, why)), nil
}

// onJournal runs something against a front whose journal is as slow as the trial says.
func onJournal(o options, t trial, f front, do func(s *stand, dir string) error) error {
	return inFolder(o, func(dir string) error {
		s, err := f.start(o, t, dir)
		if err != nil {
			return err
		}
		defer s.stop()
		err = errors.Join(s.set(t.phases[0].store()),
			s.gateway.setFault("delay", t.phases[0].delay.String()))
		if err != nil {
			return err
		}
		return do(s, dir)
	})
}
