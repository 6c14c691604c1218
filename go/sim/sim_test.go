package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	testWorld = "../../bin/sluice-sim"
	testSeeds = 3
	soakSeeds = 50
)

// world finds the world's binary.
func world(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat(testWorld); err != nil {
		t.Skip("bin/sluice-sim is not built: run `make sim-world`")
	}
	return testWorld
}

// seeds are the same in every run, so that a gate that holds keeps holding until something changes.
func seeds(t *testing.T) []uint64 {
	t.Helper()
	first, count := uint64(1), testSeeds
	if os.Getenv("SLUICE_SOAK") != "" {
		count = soakSeeds
	}
	if text := os.Getenv("SLUICE_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first, count = seed, 1
	}
	t.Logf("seeds %d to %d (SLUICE_SEED=N runs one)", first, first+uint64(count)-1)
	return seedsFrom(first, count)
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "test.sim")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestTheGatesOfEveryScenarioHold(t *testing.T) {
	world, seeds := world(t), seeds(t)
	files, err := filepath.Glob("scenarios/*.sim")
	if err != nil || len(files) == 0 {
		t.Fatal("no scenarios", err)
	}
	for _, file := range files {
		t.Run(scenarioName(file), func(t *testing.T) {
			scenario, err := describe(world, file)
			if err != nil {
				t.Fatal(err)
			}
			if scenario.Soak && len(seeds) != soakSeeds && os.Getenv("SLUICE_SEED") == "" {
				t.Skip("long; runs with SLUICE_SOAK=1")
			}
			reports, err := runAll(context.Background(), world, file, seeds, "")
			if err != nil {
				t.Fatal(err)
			}
			for _, fault := range faultsOf(seeds, reports, func(Verdict) {}) {
				t.Errorf("%s: %s", file, fault)
			}
			if t.Failed() {
				t.Logf("make sim SCENARIO=%s SEED=N PLOT=out.png shows it", scenarioName(file))
			}
		})
	}
}

const small = `
store slots 4 x 10ms sigma 0.3
source a*2 priority high weight 30%
source b*3 weight 70% retries after 2 tries
workers 2
phase calm 2s load 0.5C
phase surge 2s load 3C
`

func TestARunIsItsScenarioAndItsSeed(t *testing.T) {
	world, file := world(t), write(t, small)
	text := func(seed uint64) string {
		report, err := run(world, file, seed, "")
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(report)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	first, again, other := text(7), text(7), text(8)
	if again != first {
		t.Error("the same seed gave two runs")
	}
	if other == first {
		t.Error("two seeds gave the same run")
	}
}

func TestAGateThatCannotHoldFails(t *testing.T) {
	world := world(t)
	file := write(t, small+"gate shed <= 0% in surge\ngate goodput >= 50% in surge\n")
	reports, err := runAll(context.Background(), world, file, []uint64{1, 2}, "")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	faults := faultsOf([]uint64{1, 2}, reports, func(Verdict) { count++ })
	if count != 2 || len(faults) != 1 || !strings.Contains(faults[0], "line 8") {
		t.Errorf("%d verdicts, faults %v", count, faults)
	}
}

func TestAWrongScenarioIsNamedWithItsLine(t *testing.T) {
	world := world(t)
	for _, c := range []struct{ line, want string }{
		{"nonsense 3", `test.sim:8: "nonsense" is no statement`},
		{"gate beauty >= 3", `test.sim:8: "beauty" is no metric`},
	} {
		_, err := describe(world, write(t, small+c.line+"\n"))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.line, err)
		}
	}
	for _, c := range []struct{ line, want string }{
		{"admission algorithm guess", "algorithm"},
		{"admission speed 3", "speed"},
	} {
		_, err := run(world, write(t, small+c.line+"\n"), 1, "")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.line, err)
		}
	}
}

func TestAWorldThatEndsEarlyIsAnError(t *testing.T) {
	for _, script := range []string{"exit 3", "echo 'ready 1 {}'; exit 0", "echo nonsense 1"} {
		file := filepath.Join(t.TempDir(), "world")
		if err := os.WriteFile(file, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := run(file, "none", 1, ""); err == nil {
			t.Errorf("%s: no error", script)
		}
	}
}

// reportsOf makes a report for each value; NaN stands for none.
func reportsOf(atLeast, mean bool, bound float64, values ...float64) []*Report {
	var reports []*Report
	for _, value := range values {
		gate := Gate{Unit: "share", Bound: bound, AtLeast: atLeast, Mean: mean}
		if !math.IsNaN(value) {
			gate.Value = &value
		}
		reports = append(reports, &Report{Gates: []Gate{gate}})
	}
	return reports
}

func TestGatesAreJudgedByTheWorstSeedOrByTheMean(t *testing.T) {
	none := math.NaN()
	for _, c := range []struct {
		reports []*Report
		seed    uint64
		holds   bool
	}{
		{reportsOf(true, false, 0.9, 0.95, 0.91, 0.99), 2, true},
		{reportsOf(true, false, 0.9, 0.95, 0.99, 0.89), 3, false},
		{reportsOf(true, true, 0.9, 0.95, 0.99, 0.89), 3, true},
		{reportsOf(true, true, 0.9, 0.9, 0.85), 2, false},
		{reportsOf(false, false, 3, 1, 3, 2), 2, true},
		{reportsOf(false, false, 3, 1, 3.1, 2), 2, false},
		{reportsOf(false, true, 3, 1, 5, 2), 2, true},
		{reportsOf(false, false, 3, none, 1), 1, false},
		{reportsOf(true, false, 3, 5, none), 2, false},
		{reportsOf(true, true, 3, 5, none, 7), 2, false},
	} {
		verdicts := judge([]uint64{1, 2, 3}[:len(c.reports)], c.reports)
		if v := verdicts[0]; v.Holds != c.holds || v.Seed != c.seed {
			t.Errorf("%v: holds %v, seed %d; want %v, %d", v, v.Holds, v.Seed, c.holds, c.seed)
		}
	}
}

func TestABrokenRuleIsAFault(t *testing.T) {
	report := &Report{Broken: []string{"1.000 s: a rule"}}
	faults := faultsOf([]uint64{5}, []*Report{report}, func(Verdict) {})
	if !slices.Equal(faults, []string{"seed 5: 1.000 s: a rule"}) {
		t.Error(faults)
	}
}

func TestARunCanBeDrawnAndPrinted(t *testing.T) {
	report, err := run(world(t), write(t, small), 1, "")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "run.png")
	if err := drawRun(file, "small", report); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := png.Decode(bytes.NewReader(text)); err != nil {
		t.Error(err)
	}
	var out strings.Builder
	report.writeSeconds(&out)
	report.writePhases(&out)
	report.writeClasses(&out)
	lines := strings.Count(out.String(), "\n")
	if want := 1 + 4 + 1 + 3; lines <= want {
		t.Errorf("%d lines, want more than %d:\n%s", lines, want, &out)
	}
	for _, phase := range []string{"calm", "surge", "all"} {
		if !strings.Contains(out.String(), phase) {
			t.Errorf("no line for %s", phase)
		}
	}
}

func TestNumbersAreWrittenWithTheirUnits(t *testing.T) {
	for _, c := range []struct {
		unit  string
		value float64
		want  string
	}{
		{"ns", 1.5e6, "1.5ms"}, {"share", 0.987, "98.7 %"}, {"count", 12345, "1.234e+04"},
	} {
		if got := form(c.unit, &c.value); got != c.want {
			t.Errorf("%v: %s, want %s", c, got, c.want)
		}
	}
	if got := form("ns", nil); got != "none" {
		t.Error(got)
	}
}

func TestScenariosAreFoundByNameAndByPath(t *testing.T) {
	got, err := scenarioFiles([]string{"O1h", "bat0.9", "x/y.sim"})
	want := []string{scenarioFolder + "/O1h.sim", scenarioFolder + "/bat0.9.sim", "x/y.sim"}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Error(got, err)
	}
}

func TestAComparisonShowsTheHardestPhaseOfEachAlgorithm(t *testing.T) {
	world, file := world(t), write(t, small+"admission patience 400ms\ngate missed <= 0\n")
	var out strings.Builder
	if err := compare(&out, world, []string{file}, []uint64{1, 2}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != len(compared)+1 {
		t.Fatalf("got %q", lines)
	}
	for i, limit := range compared {
		if !strings.HasPrefix(lines[i+1], limit.name+"  ") || !strings.Contains(lines[i+1], " / ") {
			t.Errorf("no numbers of %s in %q", limit.name, lines[i+1])
		}
	}
	report, err := run(world, file, 1, "")
	if err != nil {
		t.Fatal(err)
	}
	_, p99, err := hardest([]*Report{report})
	if want := *report.Phases[1].Metrics["total_p99"]; err != nil || p99 != want {
		t.Errorf("the hardest phase has %v, %v; the surge %v", p99, err, want)
	}
}
