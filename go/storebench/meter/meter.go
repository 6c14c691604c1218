// Package meter measures one row of the store's benchmark from inside the process that does the
// work, and carries the result to the one that prints it.
//
// It knows no store, judges nothing and prints nothing.
package meter

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	"sluice/bench/referee"
)

// Case is what one process measures. It is handed over as JSON, as the process's last argument.
type Case struct {
	Subject  string        `json:"subject"`
	Size     int           `json:"size"`     // bytes of a body
	Group    int           `json:"group"`    // events that become durable together
	Frame    int           `json:"frame"`    // bytes of one of ours with such a body
	Stored   int           `json:"stored"`   // bytes that the journal writes for such a group
	Segment  int64         `json:"segment"`  // bytes of a file, where they are of one size
	Duration time.Duration `json:"duration"` // of a row that is measured by time
	Events   int           `json:"events"`   // of a row that is measured by count
	Backlog  int           `json:"backlog"`  // events that may be on their way, of a life
	Dir      string        `json:"dir"`      // empty, on the disk to be measured
	Pool     string        `json:"pool"`     // files written before, kept from row to row
	Keys     bool          `json:"keys"`     // events carry the id that the sender gave them
	Profile  string        `json:"profile"`  // file for a CPU profile; empty: none
}

// String names a case in messages.
func (c Case) String() string {
	return fmt.Sprintf("%s, %d bytes, groups of %d", c.Subject, c.Size, c.Group)
}

// Result is what came out of one case. Results of the same case can be added up.
type Result struct {
	Case   Case    `json:"case"`
	Events int     `json:"events"`
	Bytes  int64   `json:"bytes"`  // of frames, or of bodies where there are none
	Wall   float64 `json:"wall"`   // seconds
	CPU    float64 `json:"cpu"`    // seconds of the process and of the servers it works with
	Other  float64 `json:"other"`  // CPU seconds of all else on the machine
	Device float64 `json:"device"` // bytes that the device wrote meanwhile; negative: unknown
	Times  Times   `json:"times"`  // of a group
	// Probe is the times of a bare write of a group's bytes beside the work, where there is one.
	Probe   Times    `json:"probe"`
	Seconds []Second `json:"seconds,omitempty"`
	Notes   []string `json:"notes,omitempty"`
	// Figures are what a subject tells beside all that, by name.
	Figures map[string]float64 `json:"figures,omitempty"`
}

// Second is one second of a long run.
type Second struct {
	Appended int     `json:"appended"`
	Finished int     `json:"finished"`
	Backlog  int     `json:"backlog"` // at its end
	WorstMS  float64 `json:"worst_ms"`
	ProbeMS  float64 `json:"probe_ms"` // the worst
}

// PerSecond is the rate of events.
func (r *Result) PerSecond() float64 { return share(float64(r.Events), r.Wall) }

// CPUMicros is the CPU time of an event in microseconds.
func (r *Result) CPUMicros() float64 { return share(r.CPU*1e6, float64(r.Events)) }

// Amplification is how many bytes the device wrote for one; negative where that is unknown.
func (r *Result) Amplification() float64 {
	if r.Device < 0 {
		return -1
	}
	return share(r.Device, float64(r.Bytes))
}

// Others is how many cores all else used.
func (r *Result) Others() referee.Cores { return referee.Cores(share(r.Other, r.Wall)) }

func share(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// Add takes another round of the same case into account.
func (r *Result) Add(other Result) {
	r.Events += other.Events
	r.Bytes += other.Bytes
	r.Wall += other.Wall
	r.CPU += other.CPU
	r.Other += other.Other
	if r.Device < 0 || other.Device < 0 {
		r.Device = -1
	} else {
		r.Device += other.Device
	}
	r.Times.Add(other.Times)
	r.Probe.Add(other.Probe)
	r.Seconds = append(r.Seconds, other.Seconds...)
	r.Notes = other.Notes
	r.Figures = other.Figures
}

// Serve is the main function of a process that measures: it reads the case from the last argument,
// has it measured and prints the result as JSON. It returns only when that went well.
func Serve(measure func(Case) (Result, error)) Case {
	var c Case
	text := flag.Arg(flag.NArg() - 1)
	err := json.Unmarshal([]byte(text), &c)
	if err != nil {
		err = fmt.Errorf("the last argument must be a case in JSON: %w", err)
	}
	var r Result
	if err == nil {
		r, err = measure(c)
	}
	if err == nil {
		r.Case = c
		err = json.NewEncoder(os.Stdout).Encode(r)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", c.Subject, err)
		os.Exit(1)
	}
	return c
}
