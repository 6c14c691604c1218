package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/bench/referee"
)

func TestScenarioFilesAreReadable(t *testing.T) {
	for _, name := range []string{"speed", "quick"} {
		if _, err := readScenario("../scenarios/" + name + ".txt"); err != nil {
			t.Error(err)
		}
	}
}

func TestTheSpeedScenarioFeedsEveryGate(t *testing.T) {
	plan, err := readScenario("../scenarios/speed.txt")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[key]row{}
	for _, k := range plan {
		rows[k] = row{key: k}
	}
	for _, g := range gates {
		for _, k := range g.needs {
			if _, ok := rows[k]; !ok {
				t.Errorf("gate %q needs %s", g.name, k)
			}
		}
	}
}

func TestScenarioFaultsAreNamedWithTheirLine(t *testing.T) {
	for text, want := range map[string]string{
		"ring 1024":                     ":1: SUBJECT BODY CONNECTIONS",
		"# none\n\nwarp 1024 1":         ":3: no subject",
		"ring 0 1":                      "start at 1",
		"ring 1 1\nring 1 1":            ":2: ring, 1 bytes, 1 connections is there already",
		"# nothing":                     "nothing to measure",
		"ring 1024 64 # a note\nx 1 1 ": ":2: no subject",
	} {
		file := filepath.Join(t.TempDir(), "scenario.txt")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readScenario(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

func TestOwnUsageIsFound(t *testing.T) {
	if _, err := peerUsage(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	if _, err := sluiceUsage(os.Getpid(), ""); err == nil {
		t.Error("a process without a data plane passed for sluice")
	}
}

func TestMetricsAreSummedOverTheirLabels(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "# HELP a_sum x\na_sum 1.5\nb{lane=\"x\"} 2\nb{lane=\"y\"} 3\na_sum_more 9\n")
	}))
	defer server.Close()
	got := scrape(server.URL, "a_sum", "b", "absent")
	if len(got) != 2 || got["a_sum"] != 1.5 || got["b"] != 5 {
		t.Fatalf("got %v", got)
	}
}

// measured makes a row that cost so many CPU seconds for 1000 requests.
func measured(k key, perS float64, cpu usage) row {
	r := row{key: k, cpu: cpu, closed: result{OK: 1000, OKPerS: perS}}
	r.half.Latency.P99 = 5000
	r.disk = disk{Bytes: 65536, PerS: 1000, P99Us: 2000}
	return r
}

func TestGates(t *testing.T) {
	rows := map[key]row{
		baseline: measured(baseline, 20000, usage{"app": 0.050}),
		ring: measured(ring, 60000,
			usage{"dataplane": 0.010, "control": 0.005, "journal": 0.005, "index": 0.005}),
		ringWide: measured(ringWide, 60000, usage{"dataplane": 0.010}),
		durable:  measured(durable, 50000, usage{"dataplane": 0.020}),
		insert:   measured(insert, 4000, usage{"app": 0.1, "store": 0.15}),
		copying:  measured(copying, 10000, usage{"app": 0.05, "store": 0.01}),
	}
	verdicts := func() (string, int) {
		var out strings.Builder
		missed := referee.PrintGates(&out, judgeGates(rows))
		return out.String(), missed
	}
	text, missed := verdicts()
	if missed != 0 || strings.Count(text, "  met ") != len(gates) {
		t.Fatalf("missed %d:\n%s", missed, text)
	}

	slow := rows[ring]
	slow.cpu = usage{"dataplane": 0.030, "control": 0.010}
	rows[ring] = slow
	if text, missed = verdicts(); missed != 2 {
		t.Fatalf("missed %d, want both ring gates:\n%s", missed, text)
	}

	slow.other = 0.9
	rows[ring] = slow
	if text, missed = verdicts(); missed != 0 || strings.Count(text, "used by others") != 2 {
		t.Fatalf("a disturbed row was judged:\n%s", text)
	}

	delete(rows, insert)
	if text, missed = verdicts(); missed != 0 || !strings.Contains(text, "not measured") {
		t.Fatalf("an absent row was judged:\n%s", text)
	}

	far := rows[durable]
	far.closed.OKPerS, far.half.Latency.P99 = 30000, 9000
	rows[durable] = far
	if text, missed = verdicts(); missed != 2 {
		t.Fatalf("missed %d, want throughput and tail:\n%s", missed, text)
	}
}

func TestTheBareDiskWritesWhatTheJournalWrote(t *testing.T) {
	r := row{key: key{body: 1024}}
	if got := journalWrite(r); got != 64<<10 {
		t.Errorf("without a batch size: %d", got)
	}
	r.batch = 10
	if got := journalWrite(r); got != 20480 {
		t.Errorf("10 events of 2 KiB: %d", got)
	}
	r.batch = 1e6
	if got := journalWrite(r); got != 16<<20 {
		t.Errorf("a huge batch: %d", got)
	}
}
