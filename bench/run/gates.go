package main

import (
	"fmt"
	"strings"

	"sluice/bench/referee"
)

// gate is one promise of the speed list.
type gate struct {
	name  string
	needs []key // rows that it is judged from
	judge func(rows []row) (met bool, shown string)
}

// The rows that the gates look at; a scenario without them leaves its gates unjudged.
var (
	baseline = key{"nethttp-hmac", 1024, 64}
	ring     = key{"ring", 1024, 64}
	ringWide = key{"ring", 1024, 256}
	durable  = key{"durable", 1024, 256}
	insert   = key{"nethttp-postgres", 1024, 64}
	copying  = key{"nethttp-copy", 1024, 256}
)

var gates = []gate{
	{"ring at 1 KB: at least 2.5x the requests per CPU second of net/http + HMAC",
		[]key{baseline, ring},
		func(r []row) (bool, string) {
			// The acknowledgement itself; journal and index are the next gate's.
			got := r[0].cpuUs() / r[1].cpuUs("dataplane", "control")
			return got >= 2.5, fmt.Sprintf("%.2fx", got)
		}},
	{"the same with journal and index counted: at least 1.5x",
		[]key{baseline, ring},
		func(r []row) (bool, string) {
			got := r[0].cpuUs() / r[1].cpuUs()
			return got >= 1.5, fmt.Sprintf("%.2fx", got)
		}},
	{"durable at 256 connections: within 25 % of ring, or 80 % of the bare disk",
		[]key{ringWide, durable},
		func(r []row) (bool, string) {
			ofRing := r[1].closed.OKPerS / r[0].closed.OKPerS
			ofDisk := 0.0
			if r[1].batch > 0 && r[1].disk.PerS > 0 {
				ofDisk = r[1].closed.OKPerS / (r[1].disk.PerS * r[1].batch)
			}
			return ofRing >= 0.75 || ofDisk >= 0.8,
				fmt.Sprintf("%.0f %% of ring, %.0f %% of the disk", ofRing*100, ofDisk*100)
		}},
	{"durable at half load: p99 under two p99 of a synced write + 2 ms",
		[]key{durable},
		func(r []row) (bool, string) {
			got, bound := r[0].half.Latency.P99/1e3, 2*r[0].disk.P99Us/1e3+2
			return got <= bound, fmt.Sprintf("%.2f ms, bound %.2f ms", got, bound)
		}},
	{"durable: at least 10x cheaper than net/http + one Postgres insert",
		[]key{insert, durable},
		func(r []row) (bool, string) {
			got := r[0].cpuUs() / r[1].cpuUs()
			return got >= 10, fmt.Sprintf("%.1fx", got)
		}},
	{"durable: at least 2.5x the requests of net/http + COPY",
		[]key{copying, durable},
		func(r []row) (bool, string) {
			got := r[1].closed.OKPerS / r[0].closed.OKPerS
			return got >= 2.5, fmt.Sprintf("%.1fx, at %.1fx less CPU a request", got,
				r[0].cpuUs()/r[1].cpuUs())
		}},
}

// judgeGates says of each gate whether it is met. One whose rows are missing is not judged.
func judgeGates(rows map[key]row) (list []referee.Gate) {
	for _, g := range gates {
		verdict := referee.Gate{Name: g.name}
		var have []row
		var others []referee.Cores
		var absent []string
		for _, k := range g.needs {
			r, ok := rows[k]
			if !ok {
				absent = append(absent, k.String())
			}
			have, others = append(have, r), append(others, r.other)
		}
		if len(absent) > 0 {
			verdict.Unjudged = "not measured: " + strings.Join(absent, "; ")
		} else {
			var met bool
			met, verdict.Shown = g.judge(have)
			verdict.Judge(met, others...)
		}
		list = append(list, verdict)
	}
	return list
}
