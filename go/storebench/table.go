package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"sluice/go/storebench/meter"
)

// key names a row.
type key struct {
	part, subject string
	size, group   int
}

// table is what was measured, all rounds of a row added up.
type table struct {
	rows  map[key]*meter.Result
	order []key
	left  []string // what was left out, and why
}

func (t *table) add(part string, r meter.Result) {
	k := key{part, r.Case.Subject, r.Case.Size, r.Case.Group}
	if old := t.rows[k]; old != nil {
		old.Add(r)
		return
	}
	if t.rows == nil {
		t.rows = map[key]*meter.Result{}
	}
	t.rows[k] = &r
	t.order = append(t.order, k)
}

// leaveOut notes what is not measured, once.
func (t *table) leaveOut(text string) {
	if !slices.Contains(t.left, text) {
		t.left = append(t.left, text)
	}
}

// of gives the rows of some parts, in the order in which they were measured.
func (t *table) of(names ...string) (list []key) {
	for _, k := range t.order {
		if slices.Contains(names, k.part) {
			list = append(list, k)
		}
	}
	return list
}

func (t *table) print(out io.Writer) {
	var sizes []int
	for _, k := range t.of("append", "peers") {
		if !slices.Contains(sizes, k.size) {
			sizes = append(sizes, k.size)
		}
	}
	for _, size := range sizes {
		t.printAppends(out, size)
	}
	if list := t.of("life", "steady"); len(list) > 0 {
		fmt.Fprintln(out, "life: append, lease, read, finish, trim")
		t.printLives(out, list)
	}
	for _, k := range t.of("open") {
		t.printOpen(out, k)
	}
	for _, text := range t.left {
		fmt.Fprintln(out, text)
	}
}

// view is one number of a row as text.
type view struct {
	title string
	show  func(r *meter.Result) string
}

var views = []view{
	{"events/s (p99 of a group, ms)", func(r *meter.Result) string {
		return fmt.Sprintf("%s (%s)%s", rate(r.PerSecond()), short(r.Times.Milliseconds(0.99)),
			r.Others().Mark())
	}},
	{"CPU µs an event", func(r *meter.Result) string { return short(r.CPUMicros()) }},
	{"device bytes per byte", func(r *meter.Result) string {
		if r.Amplification() < 0 {
			return "?"
		}
		return fmt.Sprintf("%.2f", r.Amplification())
	}},
}

// printAppends prints what one size of body gave: a line for each subject, a column for each group.
func (t *table) printAppends(out io.Writer, size int) {
	var subjects []string
	var groups []int
	frame := 0
	for _, k := range t.of("append", "peers") {
		if k.size != size {
			continue
		}
		frame = t.rows[k].Case.Frame
		if !slices.Contains(subjects, k.subject) {
			subjects = append(subjects, k.subject)
		}
		if !slices.Contains(groups, k.group) {
			groups = append(groups, k.group)
		}
	}
	for _, v := range views {
		fmt.Fprintf(out, "bodies of %d bytes, frames of %d: %s\n", size, frame, v.title)
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprint(w, "  events a group")
		for _, group := range groups {
			fmt.Fprintf(w, "\t%d", group)
		}
		fmt.Fprintln(w)
		for _, subject := range subjects {
			fmt.Fprintf(w, "  %s", subject)
			for _, group := range groups {
				r := t.find(subject, size, group)
				if r == nil {
					fmt.Fprint(w, "\t")
					continue
				}
				fmt.Fprintf(w, "\t%s", v.show(r))
			}
			fmt.Fprintln(w)
		}
		_ = w.Flush()
		fmt.Fprintln(out)
	}
	for _, k := range t.of("append", "peers") {
		for _, note := range t.rows[k].Notes {
			if k.size == size {
				fmt.Fprintf(out, "%s, groups of %d: %s\n", k.subject, k.group, note)
			}
		}
	}
}

// find gives the row of a short subject, nil if there is none.
func (t *table) find(subject string, size, group int) *meter.Result {
	for _, part := range []string{"append", "peers"} {
		if r := t.rows[key{part, subject, size, group}]; r != nil {
			return r
		}
	}
	return nil
}

func (t *table) printLives(out io.Writer, list []key) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  subject\tbody\tgroup\tevents\tevents/s\tCPU µs an event\tof these"+
		"\tdevice per byte\tgroup p50\tp99\tp99.9\tmax ms\tother CPU")
	for _, k := range list {
		r := t.rows[k]
		ms := r.Times.Milliseconds
		fmt.Fprintf(w, "  %s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.2f%s\n", k.subject, k.size,
			k.group, r.Events, rate(r.PerSecond()), short(r.CPUMicros()), figures(r),
			views[2].show(r), short(ms(0.5)), short(ms(0.99)), short(ms(0.999)), short(ms(1)),
			r.Others(), r.Others().Mark())
	}
	_ = w.Flush()
	for _, k := range list {
		for _, note := range t.rows[k].Notes {
			fmt.Fprintf(out, "  %s, groups of %d: %s\n", k.subject, k.group, note)
		}
		if r := t.rows[k]; r.Probe.Count() > 0 {
			ms := r.Probe.Milliseconds
			fmt.Fprintf(out, "  bare writes of as many bytes beside %s: p50 %s, p99 %s, p99.9 %s ms\n",
				k.subject, short(ms(0.5)), short(ms(0.99)), short(ms(0.999)))
		}
	}
	fmt.Fprintln(out)
}

// figures is what a subject tells beside the table.
func figures(r *meter.Result) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(r.Figures)) {
		list = append(list, name+" "+short(r.Figures[name]))
	}
	return strings.Join(list, ", ")
}

func (t *table) printOpen(out io.Writer, k key) {
	r := t.rows[k]
	if k.subject == "open-fill" {
		fmt.Fprintf(out, "open: %d events of %d bytes appended at %s/s, %s µs each, then killed\n",
			r.Events, r.Case.Size, rate(r.PerSecond()), short(r.CPUMicros()))
		return
	}
	fmt.Fprintf(out, "open: %d deliveries wait; %s\n", r.Events, figures(r))
	for _, note := range r.Notes {
		fmt.Fprintf(out, "open: %s\n", note)
	}
	fmt.Fprintln(out)
}

// fileSeconds writes what a long life did in each second, where there was one.
func (t *table) fileSeconds(out io.Writer, name string) error {
	for _, k := range t.of("steady") {
		r := t.rows[k]
		if len(r.Seconds) == 0 {
			continue
		}
		var b strings.Builder
		w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "second\tappended\tfinished\tbacklog\tworst group ms\tworst bare write ms")
		for i, s := range r.Seconds {
			fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%.2f\t%.2f\n", i+1, s.Appended, s.Finished, s.Backlog,
				s.WorstMS, s.ProbeMS)
		}
		_ = w.Flush()
		if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
			return err
		}
		fmt.Fprintf(out, "the seconds of %s: %s\n", k.subject, name)
	}
	return nil
}

func rate(perSecond float64) string {
	if perSecond >= 9950 {
		return fmt.Sprintf("%.0fk", perSecond/1e3)
	}
	if perSecond >= 995 {
		return fmt.Sprintf("%.1fk", perSecond/1e3)
	}
	return fmt.Sprintf("%.0f", perSecond)
}

// short prints three digits.
func short(x float64) string {
	switch {
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}
