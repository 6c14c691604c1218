package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"sluice/bench/referee"
)

// row is one measured subject.
type row struct {
	key
	closed result // as fast as the subject answers
	half   result // at half of that rate
	cpu    usage  // of the closed run, settled, CPU seconds
	other  referee.Cores
	batch  float64 // events in one journal write; 0 where unknown
	disk   disk    // bare writes right after
	check  string  // what wrk2 says
}

// disk is the bare disk at one size of write.
type disk struct {
	Bytes int     `json:"bytes"`
	PerS  float64 `json:"per_s"`
	P50Us float64 `json:"p50_us"`
	P99Us float64 `json:"p99_us"`
}

// cpuUs is CPU microseconds for each acknowledged request, over the stages that are named or,
// without names, over all.
func (r row) cpuUs(stages ...string) float64 {
	seconds := r.cpu.total()
	if len(stages) > 0 {
		seconds = 0
		for _, stage := range stages {
			seconds += r.cpu[stage]
		}
	}
	return seconds * 1e6 / float64(max(r.closed.OK, 1))
}

// Bytes that a frame adds to its body: two lines, headers and index, rounded up.
const frameOverhead = 1024

func measure(o options, k key) (row, error) {
	dir, err := os.MkdirTemp(o.dir, "row-")
	if err != nil {
		return row{}, err
	}
	defer os.RemoveAll(dir)
	if dir, err = filepath.Abs(dir); err != nil {
		return row{}, err
	}
	if k.subject == "rawdisk" {
		d, err := bareDisk(o, dir, k.body)
		return row{key: k, disk: d}, err
	}
	s, err := start(o, k, dir)
	if err != nil {
		return row{}, err
	}
	r, err := observe(o, k, s)
	s.stop()
	if err != nil || k.subject != "durable" {
		return r, err
	}
	// The disk of this minute, at the size that the journal really wrote.
	r.disk, err = bareDisk(o, dir, journalWrite(r))
	return r, err
}

func observe(o options, k key, s *subject) (row, error) {
	if _, err := generate(o, k, s.url, 0, min(o.length, time.Second)); err != nil {
		return row{}, fmt.Errorf("warm-up: %w", err)
	}
	r := row{key: k}
	before, err := settle(s.usage)
	if err != nil {
		return row{}, err
	}
	const sum, count = "webhook_journal_batch_events_sum", "webhook_journal_batch_events_count"
	batchesBefore := scrape(s.metrics, sum, count)
	w, own := referee.StartWatch(), referee.Own()
	if r.closed, err = generate(o, k, s.url, 0, o.length); err != nil {
		return row{}, err
	}
	after, err := settle(s.usage)
	if err != nil {
		return row{}, err
	}
	r.cpu = after.minus(before)
	r.other = w.Others(r.cpu.total() + r.closed.CPUS + referee.Own() - own)
	batches := scrape(s.metrics, sum, count)
	if writes := batches[count] - batchesBefore[count]; writes > 0 {
		r.batch = (batches[sum] - batchesBefore[sum]) / writes
	}
	rate := r.closed.OKPerS / 2
	if r.half, err = generate(o, k, s.url, rate, o.length); err != nil {
		return row{}, fmt.Errorf("half load: %w", err)
	}
	if k.subject == "ring" || k.subject == "durable" {
		r.check = crossCheck(o, k, s.url, rate)
	}
	return r, nil
}

// journalWrite is the size of the journal's average write in whole blocks, 64 KiB where the
// subject does not say.
func journalWrite(r row) int {
	const block = 4096
	if r.batch == 0 {
		return 64 << 10
	}
	size := int(r.batch * float64(r.body+frameOverhead))
	return min(max(block, (size+block-1)/block*block), 16<<20)
}

func bareDisk(o options, dir string, size int) (disk, error) {
	cmd := command(o, 0, o.peers, "rawdisk", "--file", filepath.Join(dir, "raw"),
		"--sizes", strconv.Itoa(size), "--duration", min(o.length, 3*time.Second).String())
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return disk{}, fmt.Errorf("bare disk: %w", err)
	}
	var d disk
	err = json.NewDecoder(bytes.NewReader(out)).Decode(&d)
	return d, err
}
