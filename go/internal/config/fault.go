package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing that is wrong with a config: the operator's to mend.
type Fault struct {
	File    string // as the operator named it
	Line    int    // 0: the file as a whole
	Path    string // the key, such as sources.github.secrets[0]; empty: no single key
	Problem string
	Mend    string // what to do about it; may be empty
}

// String is `file:line: path.to.key: what is wrong; how to mend it`.
func (f Fault) String() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		fmt.Fprintf(&b, ":%d", f.Line)
	}
	b.WriteString(": ")
	if f.Path != "" {
		b.WriteString(f.Path + ": ")
	}
	b.WriteString(f.Problem)
	if f.Mend != "" {
		b.WriteString("; " + f.Mend)
	}
	return b.String()
}

// Faults is the error of a refused config. It is never empty when returned as an error.
type Faults []Fault

// Error prints all faults, one a line.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i := range f {
		lines[i] = f[i].String()
	}
	return strings.Join(lines, "\n")
}

// sorted puts faults in the order of the file and drops repetitions.
func (f Faults) sorted() Faults {
	slices.SortStableFunc(f, func(a, b Fault) int { return cmp.Compare(a.Line, b.Line) })
	return slices.Compact(f)
}

// problem is the error of the pure parsers: what is wrong with one value, and the mend.
type problem struct{ what, mend string }

func (p problem) Error() string { return p.what + "; " + p.mend }

func wrong(mend, format string, args ...any) error {
	return problem{what: fmt.Sprintf(format, args...), mend: mend}
}
