package main

import (
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"sluice/bench/referee"
)

// head says how the numbers of a run come about.
func (o options) head() referee.Head {
	pinned := "servers on CPU 0, generator on the last"
	if _, err := exec.LookPath("taskset"); err != nil || !o.pin || runtime.NumCPU() < 2 {
		pinned = "nothing pinned"
	}
	h := referee.Head{
		Title: "bench", Make: "bench", Dir: o.dir, Notes: []string{pinned},
		Given: []string{"overload", "delivery", "tls", "gate"},
	}
	switch {
	case o.overload:
		h.Make = "bench-overload"
		return h // its trials have lengths of their own
	case o.delivery:
		h.Make = "bench-delivery"
	case o.tls:
		h.Make = "bench-tls"
	default:
		h.Given = nil
	}
	h.Notes = append(h.Notes, fmt.Sprintf("each measurement %s, %d round(s)", o.length, o.repeat))
	return h
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
			r.half.Latency.P999/1e3, failed, r.other, r.other.Mark())
	}
	_ = w.Flush()
	fmt.Fprintln(out, "\nvs net/http: requests per CPU second beside nethttp-hmac at the same body.")
	fmt.Fprintln(out, "other CPU: cores used by all else.")
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
