package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"

	"sluice/bench/referee"
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
		"of library\tof primitive\tallocs\tlibrary's\tother CPU\t  library")
	for _, r := range rows {
		ns, share, allocations, name := "-", "-", "-", "none"
		if c := r.contest; c.library != nil {
			ns = fmt.Sprintf("%.0f", r.library.ns)
			share = fmt.Sprintf("%.2f", r.proof.ns/r.library.ns)
			allocations = fmt.Sprint(r.library.allocations)
			name = strings.TrimSpace(c.module+" "+versions[c.module]) + ", " + c.owner
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%.0f\t%.0f\t%s\t%.0f\t%s\t%.2f\t%v\t%s\t%.2f%s\t  %s\n",
			r.contest.provider, r.contest.family, r.size, r.proof.ns, r.verdict.ns, ns,
			r.primitive.ns, share, r.proof.ns/r.primitive.ns, r.verdict.allocations, allocations,
			r.others, r.others.Mark(), name)
	}
	w.Flush()
}

// gates says of each family what its worst row means; rows of a busy machine do not judge it.
func gates(rows []row) (list []referee.Gate) {
	var families []string
	for _, r := range rows {
		if !slices.Contains(families, r.contest.family) {
			families = append(families, r.contest.family)
		}
	}
	for _, family := range families {
		if strings.HasPrefix(family, "hmac-") {
			name := fmt.Sprintf("proof, %s, %d bytes: at most %.1fx the bare primitive", family,
				gateBytes, primitiveMost)
			list = append(list, gateOf(name, rows, primitiveMost,
				func(r row) float64 { return r.proof.ns / r.primitive.ns },
				func(r row) bool { return r.contest.family == family && r.size == gateBytes }))
		}
	}
	for _, family := range families {
		name := fmt.Sprintf("proof, %s, any size: at most %.1fx the library", family, libraryMost)
		list = append(list, gateOf(name, rows, libraryMost,
			func(r row) float64 { return r.proof.ns / r.library.ns },
			func(r row) bool { return r.contest.family == family && r.contest.library != nil }))
	}
	return slices.DeleteFunc(list, func(g referee.Gate) bool { return g.Shown == "" })
}

// gateOf holds the ratio of each row that fits against the most that it may be, and shows the
// worst: of those in quiet, if any was. Without a row it shows nothing.
func gateOf(
	name string, rows []row, most float64, ratio func(row) float64, fits func(row) bool,
) referee.Gate {
	g := referee.Gate{Name: name}
	rows = slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return !fits(r) })
	if len(rows) == 0 {
		return g
	}
	worst := slices.MaxFunc(rows, func(a, b row) int {
		switch noisy := a.others.Noisy(); {
		case noisy == b.others.Noisy():
			return cmp.Compare(ratio(a), ratio(b))
		case noisy:
			return -1
		}
		return 1
	})
	g.Shown = fmt.Sprintf("%.2fx at worst (%s, %d bytes)", ratio(worst), worst.contest.provider,
		worst.size)
	for _, r := range rows {
		g.Judge(ratio(r) <= most, r.others)
	}
	return g
}
