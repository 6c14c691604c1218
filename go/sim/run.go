package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"sluice/go/internal/config"
	"sluice/go/internal/lane"
	"sluice/go/internal/tune"
)

// Scenario is what the world says of one before it begins.
type Scenario struct {
	About     string            `json:"about"`
	Soak      bool              `json:"soak"`
	Slots     int               `json:"slots"`
	Admission map[string]string `json:"admission"`
}

// describe reads a scenario without running it.
func describe(world, file string) (Scenario, error) {
	var scenario Scenario
	out, err := exec.Command(world, "--check", file).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return scenario, errors.New(strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return scenario, err
	}
	return scenario, json.Unmarshal(out, &scenario)
}

// run plays a scenario with a seed to its end. trace is a source whose answers are written out;
// empty: none.
func run(world, file string, seed uint64, trace string) (*Report, error) {
	dir, err := os.MkdirTemp("", "sluice-sim-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	control, err := lane.OpenControl(filepath.Join(dir, "control"), [16]byte{})
	if err != nil {
		return nil, err
	}
	defer control.Close()
	cmd := exec.Command(world, "--scenario", file, "--seed", strconv.FormatUint(seed, 10),
		"--dir", dir)
	var faults strings.Builder
	cmd.Stderr = &faults
	if trace != "" {
		cmd.Args = append(cmd.Args, "--trace", trace)
		cmd.Stderr = os.Stderr
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the world: %w; `make sim` builds it", err)
	}
	d := driver{dir: dir, control: control, back: in}
	report, err := d.drive(out)
	_ = in.Close() // the world ends when there is nobody
	exit := cmd.Wait()
	if text := strings.TrimSpace(faults.String()); exit != nil && text != "" {
		exit = errors.New(text)
	}
	if err = errors.Join(err, exit); err != nil {
		return nil, err
	}
	return report, nil
}

// driver is the control plane of one run.
type driver struct {
	dir      string
	control  *lane.Control
	back     io.Writer
	now      time.Duration
	scenario Scenario
	counters *lane.Counters
	service  *tune.Service
}

// drive answers the world line by line until it reports.
func (d *driver) drive(out io.Reader) (*Report, error) {
	lines := bufio.NewReaderSize(out, 1<<20)
	defer func() {
		if d.service != nil {
			d.service.Stop()
		}
		if d.counters != nil {
			d.counters.Close()
		}
	}()
	for {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the world ended without a report")
		}
		if err != nil {
			return nil, err
		}
		word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if word == "report" {
			report := &Report{}
			return report, json.Unmarshal([]byte(rest), report)
		}
		if err := d.answer(word, rest); err != nil {
			return nil, fmt.Errorf("%s: %w", word, err)
		}
		if _, err := io.WriteString(d.back, "\n"); err != nil {
			return nil, err
		}
	}
}

func (d *driver) answer(word, rest string) error {
	instant, rest, _ := strings.Cut(rest, " ")
	ns, err := strconv.ParseInt(instant, 10, 64)
	if err != nil {
		return err
	}
	d.now = time.Duration(ns)
	switch word {
	case "ready":
		if err := json.Unmarshal([]byte(rest), &d.scenario); err != nil {
			return err
		}
		if d.counters, err = lane.OpenCounters(filepath.Join(d.dir, "counters")); err != nil {
			return err
		}
		return d.begin()
	case "restart": // the process is another one, all that it knows is on the control page
		d.service.Stop()
		return d.begin()
	case "tick":
		d.service.Step()
		return nil
	}
	return errors.New("no word of the world's")
}

// begin makes a control plane.
func (d *driver) begin() error {
	admission, err := admissionOf(d.scenario)
	if err != nil {
		return err
	}
	d.service, err = tune.New(tune.Options{
		Control: d.control.ControlPage, Config: admission,
		Now: func() time.Duration { return d.now },
	})
	if err != nil {
		return err
	}
	slots := make([]int, d.scenario.Slots)
	for i := range slots {
		slots[i] = i
	}
	d.service.UseSlots(slots)
	d.service.Attach(1, d.counters)
	return nil
}

// admissionOf reads the scenario's keys as the daemon reads those of its file.
func admissionOf(s Scenario) (config.Admission, error) {
	var nodes []*yaml.Node
	for _, key := range slices.Sorted(maps.Keys(s.Admission)) {
		nodes = append(nodes, &yaml.Node{Kind: yaml.ScalarNode, Value: key},
			&yaml.Node{Kind: yaml.ScalarNode, Value: s.Admission[key]})
	}
	text, err := yaml.Marshal(map[string]*yaml.Node{
		"admission": {Kind: yaml.MappingNode, Content: nodes},
	})
	if err != nil {
		return config.Admission{}, err
	}
	c, err := config.Parse("scenario", text, config.Options{})
	if err != nil {
		return config.Admission{}, err
	}
	return c.Admission, nil
}
