package main

import (
	"fmt"
	"strings"
	"time"

	"sluice/bench/referee"
)

// usage is CPU seconds by stage. The stages of one subject add up to all of its processes.
type usage map[string]float64

func (u usage) total() float64 {
	sum := 0.0
	for _, seconds := range u {
		sum += seconds
	}
	return sum
}

func (u usage) minus(earlier usage) usage {
	delta := usage{}
	for stage, seconds := range u {
		delta[stage] = seconds - earlier[stage]
	}
	return delta
}

// The control plane measures the stages behind its verdict itself, so that verification can be told
// from journal and index; a build that does not leaves all of it in `control`.
var controlStages = map[string][]string{
	"journal": {"webhook_store_committer_cpu_seconds_total"},
	"index": {
		"webhook_store_applier_cpu_seconds_total", "webhook_store_engine_cpu_seconds_total",
	},
}

// sluiceUsage splits both processes of sluice into stages; metrics is where the daemon shows its.
func sluiceUsage(pid int, metrics string) (usage, error) {
	daemon, err := referee.ReadProcess(pid)
	if err != nil {
		return nil, err
	}
	u := usage{"control": daemon.Own}
	for stage, names := range controlStages {
		for _, seconds := range scrape(metrics, names...) {
			u[stage] += seconds
			u["control"] -= seconds
		}
	}
	for _, p := range referee.Processes() {
		if p.Parent == pid && strings.HasPrefix(p.Name, "sluice-data") {
			u["dataplane"] += p.Own
		}
	}
	if u["dataplane"] == 0 {
		return nil, fmt.Errorf("no data plane under process %d", pid)
	}
	return u, nil
}

func peerUsage(pid int) (usage, error) {
	p, err := referee.ReadProcess(pid)
	if err != nil {
		return nil, err
	}
	return usage{"app": p.Own}, nil
}

// settle waits until a subject has nothing more to do, so that work put off (an index that
// lags) is charged to the requests that caused it.
func settle(read func() (usage, error)) (usage, error) {
	const (
		look     = 250 * time.Millisecond
		idle     = 0.02 // CPU seconds in one look
		patience = 15 * time.Second
	)
	before, err := read()
	for deadline := time.Now().Add(patience); err == nil && time.Now().Before(deadline); {
		time.Sleep(look)
		var now usage
		if now, err = read(); err == nil {
			if now.total()-before.total() <= idle {
				return now, nil
			}
			before = now
		}
	}
	return before, err
}
