package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// describeMachine says what the numbers were measured on and how to measure them again.
func describeMachine(out io.Writer, o options) {
	fmt.Fprintf(out, "sluice bench, %s\n", time.Now().UTC().Format(time.RFC3339))
	args := append([]string{}, os.Args[1:]...)
	for i, arg := range args {
		// A URL may carry a password.
		if strings.Contains(arg, "://") || (i > 0 && strings.HasSuffix(args[i-1], "postgres")) {
			args[i] = "…"
		}
	}
	fmt.Fprintf(out, "command: go run ./bench/run %s\n", strings.Join(args, " "))
	fmt.Fprintf(out, "machine: %d CPUs, %s, %s\n", runtime.NumCPU(), cpuModel(), memory())
	fmt.Fprintf(out, "kernel: %s, go: %s\n",
		firstLine("/proc/sys/kernel/osrelease"), runtime.Version())
	fmt.Fprintf(out, "disk: %s\n", diskOf(o.dir))
	pinned := "servers on CPU 0, generator on the last"
	if _, err := exec.LookPath("taskset"); err != nil || !o.pin || runtime.NumCPU() < 2 {
		pinned = "nothing pinned"
	}
	fmt.Fprintf(out, "%s, load average %s\n", pinned, firstLine("/proc/loadavg"))
	if !o.overload {
		fmt.Fprintf(out, "each measurement %s, %d round(s)\n", o.length, o.repeat)
	}
	fmt.Fprintln(out)
}

func cpuModel() string {
	data, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func memory() string {
	var kb int
	if _, err := fmt.Sscanf(firstLine("/proc/meminfo"), "MemTotal: %d kB", &kb); err != nil {
		return "memory unknown"
	}
	return fmt.Sprintf("%d GiB", (kb+(1<<19))>>20)
}

func firstLine(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(string(data), "\n")
	return line
}

// diskOf names the file system and device under a folder, not the folder.
func diskOf(dir string) string {
	out, err := exec.Command("df", "--output=fstype,source", dir).Output()
	if err != nil {
		return "unknown"
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.Join(strings.Fields(lines[len(lines)-1]), " on ")
}

var stageOrder = []string{"app", "dataplane", "control", "journal", "index", "store"}

func printTable(out io.Writer, order []key, rows map[key]row) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "subject\tbody\tconns\treq/s\tCPU µs/req\tof these\tvs net/http"+
		"\thalf load p50\tp99\tp99.9 ms\tnot 2xx\tother CPU")
	for _, k := range order {
		r := rows[k]
		if k.subject == "rawdisk" {
			fmt.Fprintf(w, "rawdisk\t%d\t1\t%.0f\t\t\t\t%.2f\t%.2f\t\t\t\n",
				k.body, r.disk.PerS, r.disk.P50Us/1e3, r.disk.P99Us/1e3)
			continue
		}
		mark := ""
		if r.noisy() {
			mark = " ~"
		}
		var stages []string
		for _, stage := range stageOrder {
			if r.cpu[stage] > 0 {
				stages = append(stages, fmt.Sprintf("%s %.1f", stage, r.cpuUs(stage)))
			}
		}
		versus := ""
		if base, ok := find(rows, "nethttp-hmac", k.body); ok {
			versus = fmt.Sprintf("%.2fx", base.cpuUs()/r.cpuUs())
		}
		failed := r.closed.Sent - r.closed.OK + r.half.Sent - r.half.OK + r.half.Unsent
		fmt.Fprintf(w, "%s\t%d\t%d\t%.0f\t%.1f\t%s\t%s\t%.2f\t%.2f\t%.2f\t%d\t%.2f%s\n",
			k.subject, k.body, k.connections, r.closed.OKPerS, r.cpuUs(),
			strings.Join(stages, ", "), versus, r.half.Latency.P50/1e3, r.half.Latency.P99/1e3,
			r.half.Latency.P999/1e3, failed, r.other, mark)
	}
	_ = w.Flush()
	fmt.Fprintln(out, "\nvs net/http: requests per CPU second beside nethttp-hmac at the same body.")
	fmt.Fprintln(out, "other CPU: cores used by all else; ~ marks a row too disturbed to judge.")
	for _, k := range order {
		if r := rows[k]; r.batch > 0 {
			fmt.Fprintf(out, "%s: %.1f events a journal write\n", k, r.batch)
		}
		if r := rows[k]; r.disk.Bytes > 0 && k.subject == "durable" {
			fmt.Fprintf(out, "%s: bare disk at %d bytes %.0f writes/s, p99 %.2f ms\n",
				k, r.disk.Bytes, r.disk.PerS, r.disk.P99Us/1e3)
		}
		if r := rows[k]; r.check != "" {
			fmt.Fprintf(out, "%s: %s\n", k, r.check)
		}
	}
}

// find gives the row of a subject at a body size with the most connections.
func find(rows map[key]row, subject string, body int) (row, bool) {
	var found []row
	for k, r := range rows {
		if k.subject == subject && k.body == body {
			found = append(found, r)
		}
	}
	if len(found) == 0 {
		return row{}, false
	}
	return slices.MaxFunc(found, func(a, b row) int { return a.connections - b.connections }), true
}
