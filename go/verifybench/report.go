package main

import (
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
)

// printTable has a row for each contest at each size.
func printTable(out io.Writer, rows []row) {
	versions := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			versions[m.Path] = m.Version
		}
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "provider\tfamily\tbody\tproof ns\tverdict ns\tlibrary ns\tprimitive ns\t"+
		"of library\tof primitive\tallocs\tlibrary's\t  library")
	for _, r := range rows {
		mark := ""
		if r.noisy() {
			mark = "~"
		}
		ns, share, allocations, name := "-", "-", "-", "none"
		if c := r.contest; c.library != nil {
			ns = fmt.Sprintf("%.0f", r.library.ns)
			share = fmt.Sprintf("%.2f", r.proof.ns/r.library.ns)
			allocations = fmt.Sprint(r.library.allocations)
			name = strings.TrimSpace(c.module+" "+versions[c.module]) + ", " + c.owner
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s%.0f\t%.0f\t%s\t%.0f\t%s\t%.2f\t%v\t%s\t  %s\n",
			r.contest.provider, r.contest.family, r.size, mark, r.proof.ns, r.verdict.ns, ns,
			r.primitive.ns, share, r.proof.ns/r.primitive.ns, r.verdict.allocations, allocations, name)
	}
	w.Flush()
}

// printGates prints the verdicts and counts the gates that were judged and missed.
func printGates(out io.Writer, rows []row) (missed int) {
	fmt.Fprintln(out, "\ngates")
	var families []string
	for _, r := range rows {
		if !slices.Contains(families, r.contest.family) {
			families = append(families, r.contest.family)
		}
	}
	print := func(name string, most float64, ratio func(row) float64, fits func(row) bool) {
		rows := slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return !fits(r) })
		if len(rows) == 0 {
			return
		}
		word, shown := judgeRows(rows, most, ratio)
		if word == "MISSED" {
			missed++
		}
		fmt.Fprintf(out, "  %-9s %s: %s\n", word, name, shown)
	}
	for _, family := range families {
		if strings.HasPrefix(family, "hmac-") {
			print(fmt.Sprintf("proof, %s, %d bytes: at most %.1fx the bare primitive", family, gateBytes,
				primitiveMost), primitiveMost,
				func(r row) float64 { return r.proof.ns / r.primitive.ns },
				func(r row) bool { return r.contest.family == family && r.size == gateBytes })
		}
	}
	for _, family := range families {
		name := fmt.Sprintf("proof, %s, any size: at most %.1fx the library", family, libraryMost)
		print(name, libraryMost,
			func(r row) float64 { return r.proof.ns / r.library.ns },
			func(r row) bool { return r.contest.family == family && r.contest.library != nil })
	}
	return missed
}

// judgeRows holds the worst row against the most that is allowed. Rows of a busy machine are not
// judged, and a gate that has no others is not either.
func judgeRows(rows []row, most float64, ratio func(row) float64) (word, shown string) {
	quiet := slices.DeleteFunc(slices.Clone(rows), row.noisy)
	seen := quiet
	if len(quiet) == 0 {
		seen = rows
	}
	worst := slices.MaxFunc(seen, func(a, b row) int {
		if ratio(a) < ratio(b) {
			return -1
		}
		return 1
	})
	shown = fmt.Sprintf("%.2fx at worst (%s, %d bytes)", ratio(worst), worst.contest.provider,
		worst.size)
	switch {
	case len(quiet) == 0:
		return "unjudged", shown + ", on a busy machine"
	case ratio(worst) > most:
		return "MISSED", shown
	case len(quiet) < len(rows):
		return "unjudged", fmt.Sprintf("%s; %d of %d on a busy machine", shown,
			len(rows)-len(quiet), len(rows))
	}
	return "met", shown
}
