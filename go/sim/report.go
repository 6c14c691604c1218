package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is what the world says of a run at its end. A metric without anything to be computed of
// is nil.
type Report struct {
	// Broken are the rules of admission that the run broke; there must be none.
	Broken       []string  `json:"broken"`
	Phases       []Phase   `json:"phases"` // and the whole, named all
	Gates        []Gate    `json:"gates"`
	Classes      []string  `json:"classes"`
	ClassOffered []float64 `json:"class_offered"`
	ClassShed    []float64 `json:"class_shed"`
	Windows      []Window  `json:"windows"`
}

// Phase is a stretch of the scenario.
type Phase struct {
	Name      string                         `json:"name"`
	From      float64                        `json:"from_s"`
	To        float64                        `json:"to_s"`
	ServiceNS float64                        `json:"service_ns"` // of the store alone
	Metrics   map[string]*float64            `json:"metrics"`
	Groups    map[string]map[string]*float64 `json:"groups"`
}

// Gate is what a scenario asks for, with what was measured.
type Gate struct {
	Line    int      `json:"line"`
	Text    string   `json:"text"`
	Unit    string   `json:"unit"` // ns | share | count
	Value   *float64 `json:"value"`
	Bound   float64  `json:"bound"`
	AtLeast bool     `json:"at_least"`
	Mean    bool     `json:"mean"` // over the seeds
}

// Window is a fifth of a second.
type Window struct {
	Offered     float64   `json:"offered"`
	Good        float64   `json:"good"`
	Capacity    float64   `json:"capacity"`
	Limit       float64   `json:"limit"`
	Base        float64   `json:"base"`
	Inflight    float64   `json:"inflight"`
	Held        float64   `json:"held"`
	Overloaded  float64   `json:"overloaded"`
	HoldBoundNS float64   `json:"hold_bound_ns"`
	ShareRate   float64   `json:"share_rate"`
	SlotP50NS   *float64  `json:"slot_p50_ns"`
	SlotP99NS   *float64  `json:"slot_p99_ns"`
	TotalP99NS  *float64  `json:"total_p99_ns"`
	Shed        []float64 `json:"shed"` // by class
}

// windowsPerSecond is how many windows a second has.
const windowsPerSecond = 5

// holds says whether a value meets the gate; none does not.
func (g Gate) holds(value *float64) bool {
	switch {
	case value == nil:
		return false
	case g.AtLeast:
		return *value >= g.Bound
	}
	return *value <= g.Bound
}

// Verdict is a gate judged over all seeds.
type Verdict struct {
	Gate
	Worst *float64 // of the seeds
	Seed  uint64   // that has the worst
	Holds bool
}

// judge judges the gates of the runs of one scenario, one run for each seed.
func judge(seeds []uint64, reports []*Report) []Verdict {
	var verdicts []Verdict
	for i, gate := range reports[0].Gates {
		v := Verdict{Gate: gate, Worst: gate.Value, Seed: seeds[0]}
		var sum float64
		for j, report := range reports {
			value := report.Gates[i].Value
			if v.Worst != nil && worse(gate, value, *v.Worst) {
				v.Worst, v.Seed = value, seeds[j]
			}
			if value == nil {
				sum = math.NaN()
			} else {
				sum += *value
			}
		}
		v.Holds = gate.holds(v.Worst)
		if mean := sum / float64(len(reports)); gate.Mean {
			v.Value = &mean
			v.Holds = !math.IsNaN(mean) && gate.holds(&mean)
		}
		verdicts = append(verdicts, v)
	}
	return verdicts
}

func worse(g Gate, value *float64, than float64) bool {
	return value == nil || g.AtLeast == (*value < than) && *value != than
}

func (v Verdict) String() string {
	word := "holds"
	if !v.Holds {
		word = "FAILS"
	}
	text := fmt.Sprintf("%s  %s  worst %s (seed %d)", word, v.Text, form(v.Unit, v.Worst), v.Seed)
	if v.Mean {
		text += ", mean " + form(v.Unit, v.Value)
	}
	return text
}

// form writes a metric with its unit.
func form(unit string, value *float64) string {
	switch {
	case value == nil:
		return "none"
	case unit == "ns":
		return time.Duration(*value).Round(100 * time.Microsecond).String()
	case unit == "share":
		return fmt.Sprintf("%.1f %%", 100**value)
	}
	return fmt.Sprintf("%.4g", *value)
}

// columns are the metrics of the table of phases.
var columns = []struct{ title, metric, unit string }{
	{"offered", "offered", "count"}, {"goodput", "goodput", "share"},
	{"shed", "shed", "share"}, {"high", "shed_high", "share"},
	{"never", "shed_never_retries", "share"}, {"default", "shed_default", "share"},
	{"repeat", "shed_repeat", "share"}, {"low", "shed_low", "share"},
	{"hold p50", "hold_p50", "ns"}, {"hold p99", "hold_p99", "ns"},
	{"slot p50", "slot_p50", "ns"}, {"slot p99", "slot_p99", "ns"},
	{"total p99", "total_p99", "ns"}, {"limit", "limit_mean", "count"},
	{"base min", "base_min", "count"}, {"max", "base_max", "count"},
	{"late", "late", "count"}, {"missed", "missed", "count"}, {"recovery", "recovery", "ns"},
}

// writePhases prints a line for each phase; its shed columns are shares of a kind of request.
func (r *Report) writePhases(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "phase\t")
	for _, column := range columns {
		fmt.Fprint(table, column.title, "\t")
	}
	fmt.Fprintln(table)
	for _, phase := range r.Phases {
		fmt.Fprint(table, phase.Name, "\t")
		for _, column := range columns {
			text := "-"
			if value := phase.Metrics[column.metric]; value != nil {
				text = form(column.unit, value)
			}
			fmt.Fprint(table, strings.ReplaceAll(text, " %", "%"), "\t")
		}
		fmt.Fprintln(table)
	}
	_ = table.Flush()
}

// writeSeconds prints a line for each second.
func (r *Report) writeSeconds(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "s\toffered\tcapacity\tgood\tlimit\tbase\tinflight\theld\tbound\tshare\t"+
		"slot p50\tp99\ttotal p99\tshed by class\toverloaded\t\n")
	second := 0
	for windows := range slices.Chunk(r.Windows, windowsPerSecond) {
		second++
		last := windows[len(windows)-1]
		var sum Window
		var slot50, slot99, total99 float64
		sum.Shed = make([]float64, len(last.Shed))
		for _, window := range windows {
			sum.Offered += window.Offered
			sum.Capacity += window.Capacity
			sum.Good += window.Good
			for class, count := range window.Shed {
				sum.Shed[class] += count
			}
			slot50 = max(slot50, orZero(window.SlotP50NS))
			slot99 = max(slot99, orZero(window.SlotP99NS))
			total99 = max(total99, orZero(window.TotalP99NS))
		}
		fmt.Fprintf(table, "%d\t%.0f\t%.0f\t%.0f\t", second, sum.Offered, sum.Capacity, sum.Good)
		fmt.Fprintf(table, "%.0f\t%.1f\t%.0f\t%.0f\t", last.Limit, last.Base, last.Inflight, last.Held)
		fmt.Fprintf(table, "%s\t%.0f\t", millis(last.HoldBoundNS), last.ShareRate)
		fmt.Fprintf(table, "%s\t%s\t%s\t", millis(slot50), millis(slot99), millis(total99))
		fmt.Fprintf(table, "%s\t%08b\t\n", strings.Trim(fmt.Sprint(sum.Shed), "[]"),
			int(last.Overloaded))
	}
	_ = table.Flush()
}

// writeClasses prints what was offered and shed by class, in the whole run.
func (r *Report) writeClasses(w io.Writer) {
	for i, class := range r.Classes {
		if r.ClassOffered[i] > 0 {
			fmt.Fprintf(w, "  %s: %.0f offered, %.1f %% shed\n", class, r.ClassOffered[i],
				100*r.ClassShed[i]/r.ClassOffered[i])
		}
	}
}

func millis(ns float64) string { return fmt.Sprintf("%.0fms", ns/1e6) }

func orZero(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}
