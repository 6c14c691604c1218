package main

import (
	"strings"
	"testing"
	"time"

	"sluice/bench/referee"
	"sluice/go/storebench/meter"
)

// measured is a row of one second.
func measured(subject string, group, events int, took time.Duration) meter.Result {
	r := meter.Result{
		Case: meter.Case{Subject: subject, Size: 1024, Group: group}, Events: events, Wall: 1,
		Bytes: int64(events), Device: float64(events), CPU: float64(events) * 14e-6,
	}
	r.Times.Note(took)
	return r
}

// judge gives the gate whose name has a text in it.
func judge(t *testing.T, rows *table, text string) referee.Gate {
	t.Helper()
	for _, v := range gates(rows) {
		if strings.Contains(v.Name, text) {
			return v
		}
	}
	t.Fatalf("no gate has %q in its name", text)
	return referee.Gate{}
}

func TestTheJournalIsHeldAgainstTheBestRawDiskAtEachGroup(t *testing.T) {
	var rows table
	rows.add("append", measured("raw-grow", 1, 50, 1))
	rows.add("append", measured("raw-direct", 1, 100, 1))
	rows.add("append", measured("journal", 1, 81, 1))
	if v := judge(t, &rows, "best way"); !v.Met() || v.Shown != "1: 81 % of raw-direct" {
		t.Fatalf("%+v", v)
	}
	rows.add("append", measured("raw-direct", 64, 100, 1))
	rows.add("append", measured("journal", 64, 79, 1))
	if v := judge(t, &rows, "best way"); !v.Missed {
		t.Fatalf("%+v", v)
	}
}

func TestADisturbedRowIsNotJudged(t *testing.T) {
	var rows table
	rows.add("append", measured("raw-direct", 1, 100, 1))
	r := measured("journal", 1, 10, 1)
	r.Other = 0.5
	rows.add("append", r)
	v := judge(t, &rows, "best way")
	if v.Unjudged == "" || !strings.Contains(v.Shown, "~") {
		t.Fatalf("%+v", v)
	}
	if v.Missed {
		t.Fatalf("%+v counts as missed", v)
	}
}

func TestCopyIsComparedAtNoHigherLatency(t *testing.T) {
	var rows table
	rows.add("peers", measured("postgres-copy", 64, 90, time.Millisecond))
	rows.add("peers", measured("postgres-copy", 256, 100, 4*time.Millisecond))
	rows.add("append", measured("journal", 64, 299, 3*time.Millisecond))
	rows.add("append", measured("journal", 256, 900, 5*time.Millisecond))
	if v := judge(t, &rows, "COPY"); v.Met() || !strings.HasPrefix(v.Shown, "3.0x; groups of 64") {
		t.Fatalf("%+v", v)
	}
}

func TestInsertsAreComparedAtTheSameConcurrency(t *testing.T) {
	var rows table
	rows.add("append", measured("journal", 1, 5, 1))
	rows.add("peers", measured("postgres-insert", 1, 5, 1))
	if v := judge(t, &rows, "single rows"); v.Unjudged == "" {
		t.Fatalf("judged without its rows: %+v", v)
	}
	rows.add("append", measured("journal", 64, 100, 1))
	rows.add("peers", measured("postgres-insert", 64, 10, 1))
	if v := judge(t, &rows, "single rows"); !v.Met() || !strings.HasPrefix(v.Shown, "10.0x") {
		t.Fatalf("%+v", v)
	}
	rows.add("peers", measured("postgres-insert", 16, 11, 1))
	if v := judge(t, &rows, "single rows"); !v.Missed || !strings.HasSuffix(v.Shown, "by 16") {
		t.Fatalf("fewer connections that insert more do not count: %+v", v)
	}
}

func TestALifeIsHeldToItsCosts(t *testing.T) {
	var rows table
	cheap := measured("life", 256, 1000, 1)
	cheap.Bytes, cheap.Device = 1e9, 1.29e9
	rows.add("life", cheap)
	if v := judge(t, &rows, "CPU"); !v.Met() {
		t.Fatalf("%+v", v)
	}
	dear := measured("life", 64, 1000, 1)
	dear.CPU, dear.Bytes, dear.Device = 1000*16e-6, 1e9, 1.31e9
	rows = table{}
	rows.add("life", dear)
	for _, text := range []string{"CPU", "device"} {
		if v := judge(t, &rows, text); !v.Missed {
			t.Fatalf("%+v", v)
		}
	}
	short := measured("life", 64, 1000, 1)
	rows = table{}
	rows.add("life", short)
	if v := judge(t, &rows, "CPU"); v.Unjudged == "" {
		t.Fatalf("a life without a trim is judged: %+v", v)
	}
}

func TestAStallAndASagAreSeen(t *testing.T) {
	var rows table
	rows.add("steady", measured(bareDisk, 256, 100, time.Millisecond))
	r := measured("steady", 256, 100, 4*time.Millisecond)
	for range 100 {
		r.Probe.Note(time.Millisecond)
	}
	for n := range 10 {
		r.Seconds = append(r.Seconds, meter.Second{Finished: 100 - 3*n})
	}
	rows.add("steady", r)
	for _, text := range []string{"p99.9", "fifth"} {
		if v := judge(t, &rows, text); !v.Missed {
			t.Fatalf("%+v", v)
		}
	}
}

func TestTheStartIsHeldToItsTime(t *testing.T) {
	var rows table
	rows.add("open", measured("open", 1024, 100, 4900*time.Millisecond))
	if v := judge(t, &rows, "pending"); !v.Met() {
		t.Fatalf("%+v", v)
	}
	rows.add("open", measured("open", 1024, 100, 5100*time.Millisecond))
	if v := judge(t, &rows, "pending"); v.Met() {
		t.Fatalf("%+v", v)
	}
}
