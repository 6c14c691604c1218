package main

import (
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
	if p.capacity() != 2000 || p.due() != 1000 {
		t.Fatalf("capacity %v, due %v", p.capacity(), p.due())
	}
	for _, word := range []string{
		"", "1000", "1000:5s", "1000:5s@8", "0:5s@8x4ms", "9:1500ms@8x4ms", "9:5s@0x4ms", "9:5@8x4ms",
	} {
		if _, err := parsePhase(word); err == nil {
			t.Errorf("%q was read", word)
		}
	}
}

// steady makes the seconds of a tier that was offered `due` a second.
func steady(due, ok, refused int, p99 float64, seconds int) []second {
	var rows []second
	for range seconds {
		rows = append(rows, second{
			Due: due, OK: ok, Good: ok, Refused: refused, P50Us: p99 / 2, P99Us: p99,
		})
	}
	return rows
}

func TestTrialGates(t *testing.T) {
	surge := trial{name: "surge", phases: []phase{
		{offered: 1000, length: 2 * time.Second, slots: 8, service: 4 * time.Millisecond},
		{offered: 4000, length: 2 * time.Second, slots: 8, service: 4 * time.Millisecond},
		{offered: 1000, length: 3 * time.Second, slots: 8, service: 4 * time.Millisecond},
	}}
	three := func(calm, loaded, after []second) []second {
		return append(append(append([]second{}, calm...), loaded...), after...)
	}
	good := [][]second{
		three(steady(200, 200, 0, 5000, 2), steady(800, 800, 0, 9000, 2), steady(200, 200, 0, 5000, 3)),
		three(steady(500, 500, 0, 5000, 2), steady(2000, 1100, 900, 9000, 2),
			steady(500, 500, 0, 5000, 3)),
		three(steady(300, 300, 0, 5000, 2), steady(1200, 0, 1200, 9000, 2),
			steady(300, 300, 0, 5000, 3)),
	}
	judge := func() (string, int) {
		var out strings.Builder
		missed := printTrial(&out, surge, "x", good)
		return out.String(), missed
	}
	if text, missed := judge(); missed != 0 {
		t.Fatalf("missed %d:\n%s", missed, text)
	}

	good[0][2].Refused = 100
	if text, missed := judge(); missed != 1 || !strings.Contains(text, "high tier shed") {
		t.Fatalf("missed %d:\n%s", missed, text)
	}
	good[0][2].Refused = 0

	good[1][5].Good, good[1][5].Failed = 100, 400
	text, missed := judge()
	for _, want := range []string{"requests without", "not recovered", "goodput"} {
		if !strings.Contains(text, "phase 3: "+want) {
			t.Errorf("%q is missing", want)
		}
	}
	if missed != 3 {
		t.Fatalf("missed %d:\n%s", missed, text)
	}
}

func TestTheConfigurationNamesEverySource(t *testing.T) {
	text := configuration("d", "s", "a", "h", "f", limiters[1].config, []source{
		{"high", "durable", "high"}, {"plain", "ring", ""},
	})
	for _, want := range []string{
		"data_dir: d\n", "  algorithm: fixed\n", "    path: /hooks/high\n", "    priority: high\n",
		"    acknowledge: ring\n    deliver: []\n", "secrets: [\"file:f\"]",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}
