package main

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"sluice/go/internal/gameday"
	"sluice/go/internal/gaps"
)

// board is of faults that do nothing.
func (w *world) board() *gameday.Board {
	kind := func(name, argument string, read func(string) error) gameday.Kind {
		return gameday.Kind{
			Name: name, Argument: argument,
			Set:   func(text string) (string, error) { return text, read(text) },
			Clear: func() {},
			Met:   func() uint64 { return 42 },
		}
	}
	delay := kind("delay", "DURATION", func(text string) error {
		_, err := gameday.Delay(text)
		return err
	})
	slots := kind("slots", "COUNTxTIME", func(text string) error {
		_, _, err := gameday.Slots(text)
		return err
	})
	kill := kind("kill", "", func(string) error { return nil })
	kill.Once = true
	return gameday.NewBoard([]gameday.Point{
		{Name: "journal.write", Kinds: []gameday.Kind{delay, slots}},
		{Name: "journal.sync", Kinds: []gameday.Kind{delay}},
		{Name: "dataplane", Kinds: []gameday.Kind{kill}},
	})
}

// ledger is what a world has refused.
type ledger struct{}

func (ledger) List(f gaps.Filter) []gaps.Gap {
	all := []gaps.Gap{
		{
			Source: "github", Reason: "hold", From: noon, To: noon.Add(90 * time.Second), Count: 12,
			IDs: []string{"evt-1", "evt-\x1b2", "evt-3", "evt-4", "evt-5"}, Unnamed: 6,
		},
		{
			Source: "stripe", Reason: "journal", From: noon.Add(-time.Hour),
			To: noon.Add(-time.Hour + 1500*time.Millisecond), Count: 3, Unnamed: 3,
		},
	}
	var picked []gaps.Gap
	for _, g := range all {
		if (f.Source == "" || f.Source == g.Source) && (f.Limit == 0 || len(picked) < f.Limit) &&
			!g.To.Before(f.Since) {
			picked = append(picked, g)
		}
	}
	return picked
}

func TestAFaultWithAnEndShowsIt(t *testing.T) {
	t.Setenv(adminVariable, newWorld(t).serve(t))
	code, out, errs := run(t, "fault", "set", "journal.sync", "delay", "50ms", "--for", "20s",
		"--json")
	var f struct {
		Point, Kind, Argument string
		Until                 time.Time
		Met                   int
	}
	if err := json.Unmarshal([]byte(out), &f); err != nil || code != 0 || errs != "" {
		t.Fatalf("exit code %d, %v: %q %q", code, err, out, errs)
	}
	left := time.Until(f.Until)
	if f.Point != "journal.sync" || f.Kind != "delay" || f.Argument != "50ms" || f.Met != 42 ||
		left <= 0 || left > 20*time.Second {
		t.Errorf("the fault is %+v", f)
	}
	code, text, _ := run(t, "fault", "list")
	want := fmt.Sprintf("POINT         KIND   ARGUMENT  UNTIL                 MET\n"+
		"journal.sync  delay  50ms      %s  42\n", when(f.Until.UnixNano()))
	if code != 0 || text != want {
		t.Errorf("exit code %d, %q, want %q", code, text, want)
	}
}
