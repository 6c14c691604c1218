package referee

import (
	"fmt"
	"io"
	"slices"
)

// Gate is one promise, held against what was measured. The zero verdict is that it is met.
type Gate struct {
	Name     string
	Shown    string // the numbers
	Missed   bool   // by something that may be judged
	Unjudged string // why not all of it may be judged; empty: all may
}

// Judge adds what was found in one row, or in rows that are compared, with what others used
// meanwhile. What a busy machine measured neither meets nor misses a gate; a row in quiet that
// misses it is enough.
func (g *Gate) Judge(met bool, others ...Cores) {
	switch busiest := slices.Max(append([]Cores{0}, others...)); {
	case busiest.Noisy():
		g.Unjudged = busiest.String()
	case !met:
		g.Missed = true
	}
}

// Met tells that all of it was judged and nothing missed.
func (g Gate) Met() bool { return !g.Missed && g.Unjudged == "" }

// Unjudge takes all verdicts back, where there is a reason to.
func Unjudge(list []Gate, why string) []Gate {
	for i := range list {
		if why != "" {
			list[i].Missed, list[i].Unjudged = false, why
		}
	}
	return list
}

// PrintGates prints the verdicts and counts the gates that are missed.
func PrintGates(out io.Writer, list []Gate) (missed int) {
	if len(list) == 0 {
		return 0
	}
	fmt.Fprintln(out, "\ngates")
	for _, g := range list {
		word, shown := "met", g.Shown
		if g.Unjudged != "" {
			word = "unjudged"
			if shown != "" {
				shown += "; "
			}
			shown += g.Unjudged
		}
		if g.Missed {
			word = "MISSED"
			missed++
		}
		fmt.Fprintf(out, "  %-9s %s: %s\n", word, g.Name, shown)
	}
	return missed
}
