package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The kernel reports process times in ticks of 1/100 s on every architecture.
const ticksPerSecond = 100

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

// process is what /proc/PID/stat says.
type process struct {
	pid, parent int
	name        string
	own         float64 // CPU seconds, exited threads included
	user        float64 // of these: outside the kernel
	children    float64 // of children that were waited for
}

func readProcess(pid int) (process, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, err
	}
	return parseStat(string(data))
}

// parseStat reads a line of proc_pid_stat(5). The name stands in parentheses and may hold any
// character, so the fields are counted from its last parenthesis.
func parseStat(line string) (process, error) {
	open, shut := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
	if open < 1 || shut < open {
		return process{}, fmt.Errorf("no process line: %q", line)
	}
	fields := strings.Fields(line[shut+1:])
	if len(fields) < 15 {
		return process{}, fmt.Errorf("process line has %d fields", len(fields))
	}
	number := func(at int) float64 {
		n, _ := strconv.ParseFloat(fields[at], 64)
		return n
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line[:open]))
	if err != nil {
		return process{}, err
	}
	return process{
		pid:      pid,
		parent:   int(number(1)),
		name:     line[open+1 : shut],
		own:      (number(11) + number(12)) / ticksPerSecond,
		user:     number(11) / ticksPerSecond,
		children: (number(13) + number(14)) / ticksPerSecond,
	}, nil
}

// processes lists all that can be read; one that ends meanwhile is left out.
func processes() []process {
	paths, _ := filepath.Glob("/proc/[0-9]*")
	var all []process
	for _, path := range paths {
		pid, err := strconv.Atoi(filepath.Base(path))
		if err != nil {
			continue
		}
		if p, err := readProcess(pid); err == nil {
			all = append(all, p)
		}
	}
	return all
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
	daemon, err := readProcess(pid)
	if err != nil {
		return nil, err
	}
	u := usage{"control": daemon.own}
	for stage, names := range controlStages {
		for _, seconds := range scrape(metrics, names...) {
			u[stage] += seconds
			u["control"] -= seconds
		}
	}
	for _, p := range processes() {
		if p.parent == pid && strings.HasPrefix(p.name, "sluice-data") {
			u["dataplane"] += p.own
		}
	}
	if u["dataplane"] == 0 {
		return nil, fmt.Errorf("no data plane under process %d", pid)
	}
	return u, nil
}

func peerUsage(pid int) (usage, error) {
	p, err := readProcess(pid)
	if err != nil {
		return nil, err
	}
	return usage{"app": p.own}, nil
}

// postgresUsage adds every process of the database server; the postmaster also answers for
// the workers that have ended.
func postgresUsage() float64 {
	servers := map[int]process{}
	for _, p := range processes() {
		if p.name == "postgres" {
			servers[p.pid] = p
		}
	}
	sum := 0.0
	for _, p := range servers {
		sum += p.own
		if _, worker := servers[p.parent]; !worker {
			sum += p.children
		}
	}
	return sum
}

// machineUsage is the busy CPU seconds of the whole machine, and those the host took away.
func machineUsage() (busy, stolen float64) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	line, _, _ := strings.Cut(string(data), "\n")
	fields := strings.Fields(line)
	for at, text := range fields {
		ticks, _ := strconv.ParseFloat(text, 64)
		switch at {
		case 1, 2, 3, 6, 7: // user, nice, system, irq, softirq
			busy += ticks / ticksPerSecond
		case 8:
			stolen = ticks / ticksPerSecond
		}
	}
	return busy, stolen
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
