package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestPhases(t *testing.T) {
	p, err := parsePhase("1000:5s@8x4ms")
	want := phase{offered: 1000, length: 5 * time.Second, slots: 8, service: 4 * time.Millisecond}
	if err != nil || p != want {
		t.Fatalf("got %+v, %v", p, err)
	}
	if p.capacity() != 2000 || p.overloaded() || p.store() != "8x4ms" {
		t.Fatalf("capacity %v, overloaded %v, store %s", p.capacity(), p.overloaded(), p.store())
	}
	for _, word := range []string{
		"", "1000", "1000:5s", "1000:5s@8", "0:5s@8x4ms", "9:1500ms@8x4ms", "9:5s@0x4ms", "9:5@8x4ms",
		"9:5s@8x0s", "9:5s@8x4ms+5", "9:5s@8x4ms+0s", "9:5s@8x4ms@8x4ms",
	} {
		if _, err := parsePhase(word); err == nil {
			t.Errorf("%q was read", word)
		}
	}
}

// trialsOf reads a scenario of this text.
func trialsOf(t *testing.T, text string) ([]trial, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "overload.txt")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return readTrials(file)
}

func TestATrialIsReadWithItsSettings(t *testing.T) {
	trials, err := trialsOf(t, "# none\na 1:2s@8x4ms\n"+
		"b tries=3 body=16384 fronts=slope,nethttp 1:2s@8x4ms 9:3s@1x4ms # a note\n"+
		"c crowd=20x50 69:4s@8x4ms\nd stop=1s+500ms 1:2s@8x4ms\ne kill=1s 1:2s@8x4ms\n"+
		"f kind=journal 1.2:5s@1x200us+5ms\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := trials[0]; got.kind != kindTiers || got.body != 1024 || got.tries != 1 ||
		!reflect.DeepEqual(got.fronts, frontNames()) {
		t.Errorf("defaults %+v", got)
	}
	if got := trials[1]; got.tries != 3 || got.body != 16384 || got.length() != 5*time.Second ||
		!reflect.DeepEqual(got.fronts, []string{"slope", "nethttp"}) ||
		!reflect.DeepEqual(got.starts(), []time.Duration{0, 2 * time.Second}) {
		t.Errorf("settings %+v", got)
	}
	crowd := trials[2].streams()
	if len(crowd) != 20 || crowd[0].share != 1.0/69 || crowd[19] != (stream{"loud", 50.0 / 69}) {
		t.Errorf("crowd %v", crowd)
	}
	sum := 0.0
	for _, s := range crowd {
		sum += s.share
	}
	if sum < 0.999 || sum > 1.001 {
		t.Errorf("the crowd offers %v of the rate", sum)
	}
	if got := trials[3]; got.kind != kindStop || got.at != time.Second ||
		got.lasts != 500*time.Millisecond || !reflect.DeepEqual(got.fronts, []string{"slope"}) {
		t.Errorf("stop %+v", got)
	}
	if got := trials[4]; got.kind != kindKill || got.at != time.Second {
		t.Errorf("kill %+v", got)
	}
	if p := trials[5].phases[0]; p.slots != 1 || p.delay != 5*time.Millisecond || p.offered != 1.2 {
		t.Errorf("journal %+v", p)
	}
	if p := trials[1].phaseAt(2 * time.Second); p.offered != 9 {
		t.Errorf("phase at its start: %+v", p)
	}
	if text := trials[1].profile(0.5); text != "0.5:2s,4.5:3s" {
		t.Errorf("profile %s", text)
	}
}

func TestFaultsOfAnOverloadScenarioAreNamedWithTheirLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "nothing to measure",
		"a":                                    ":1: a has no phase",
		"\na 1:1s@8":                           ":2: 1:1s@8",
		"a 1:1s@8x4ms\na 1:1s@8x4ms":           ":2: a is there already",
		"a body=0 1:1s@8x4ms":                  "body=0",
		"a tries=x 1:1s@8x4ms":                 "tries=x",
		"a kind=odd 1:1s@8x4ms":                "known are tiers",
		"a fronts=odd 1:1s@8x4ms":              "known are slope",
		"a crowd=1x50 1:1s@8x4ms":              "SOURCESxLOUD",
		"a kind=crowd 1:1s@8x4ms":              "go together",
		"a stop=1s 1:2s@8x4ms":                 "stop=AT+LENGTH",
		"a kill=1s+1s 1:2s@8x4ms":              "kill=1s+1s",
		"a stop=1s+1s 1:2s@8x4ms":              "over before",
		"a kind=stop 1:2s@8x4ms":               "needs to know when",
		"a colour=red 1:1s@8x4ms":              "unknown setting colour",
		"a kind=refusals 1:1s@8x4ms 1:1s@1x1s": "one phase",
		"a kind=journal 1:1s@8x4ms":            "go together",
		"a 1:1s@8x4ms+2ms":                     "go together",
		"a kill=1s fronts=nethttp 1:2s@8x4ms":  "says nothing about nethttp",
	} {
		if _, err := trialsOf(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

func TestTheScenariosAskForWhatTheGatesJudge(t *testing.T) {
	full, err := readTrials("../scenarios/overload.txt")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, trial := range full {
		seen[trial.kind] = true
		if trial.fronts[0] != fronts[0].name {
			t.Errorf("%s: %s comes first and would be judged", trial.name, trial.fronts[0])
		}
	}
	for _, kind := range kinds {
		if !seen[kind] {
			t.Errorf("no trial is of kind %s", kind)
		}
	}
	quick, err := readTrials("../scenarios/overload-quick.txt")
	if err != nil {
		t.Fatal(err)
	}
	whole := time.Duration(0)
	for _, trial := range quick {
		rounds := len(trial.fronts)
		if trial.kind == kindRefusals {
			rounds = 2 * refusalRounds
		}
		whole += time.Duration(rounds) * trial.length()
	}
	if whole > 2*time.Minute {
		t.Errorf("the quick form takes %v", whole)
	}
}

func TestTheConfigurationNamesEverySource(t *testing.T) {
	text := configuration("d", "s", "  - address: a\n", "h", "f", fronts[1].config, []source{
		{name: "high", acknowledge: "durable", priority: "high", proof: ownProof},
		{name: "plain", acknowledge: "ring"},
	})
	for _, want := range []string{
		"data_dir: d\n", "  algorithm: fixed\n", "    path: /hooks/high\n", "    priority: high\n",
		"    acknowledge: ring\n    deliver: []\n", "secrets: [\"file:f/high.secret\"]",
		"  plain:\n    path: /hooks/plain\n    provider: github\n", "    deadline: 5s\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	probes := sourcesOf(trial{kind: kindProbes})
	if len(probes) != 12 || probes[10].secret != probeKey || probes[0].priority != "high" {
		t.Errorf("sources %+v", probes)
	}
}

func TestAProfileIsInSecondsHoweverLong(t *testing.T) {
	p := trial{phases: []phase{
		{offered: 800, length: time.Minute}, {offered: 10, length: 90 * time.Second},
	}}
	if got := p.profile(0.5); got != "400:60s,5:90s" {
		t.Errorf("profile %s", got)
	}
}

func TestOnlyTakesNamesOrParts(t *testing.T) {
	for only, want := range map[string]bool{
		"": true, "O1": true, "slow": true, "O2,slow": true, "O2": false, "O2,O3": false,
	} {
		if got := (options{only: only}).wants("O1-slow-store"); got != want {
			t.Errorf("-only %q: %v", only, got)
		}
	}
}
