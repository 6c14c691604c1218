package gaps

import (
	"encoding/binary"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"sluice/go/internal/lane"
	"sluice/go/internal/store/vfs"
	"sluice/shm-abi/shmabi"
)

const testSources = 4

// fake is a data plane: a counters file that only counts refusals, read by the real reader.
type fake struct {
	t          testing.TB
	generation uint32
	pid        uint32
	born       time.Time
	file       *os.File
	counters   *lane.Counters
	workers    int
}

var pids uint32 = 1000

func newFake(t testing.TB, generation uint32, workers int, born time.Time) *fake {
	t.Helper()
	pids++
	f := &fake{t: t, generation: generation, pid: pids, born: born, workers: workers}
	path := filepath.Join(t.TempDir(), "counters")
	size := f.refusedAt(workers)
	page, le := make([]byte, size), binary.LittleEndian
	le.PutUint64(page[shmabi.CountersHeaderMagicOffset:], shmabi.CountersMagic)
	le.PutUint64(page[shmabi.CountersHeaderLayoutHashOffset:], shmabi.LayoutHash)
	le.PutUint32(page[shmabi.CountersHeaderWorkersOffset:], uint32(workers))
	le.PutUint32(page[shmabi.CountersHeaderSourcesOffset:], testSources)
	must(t, os.WriteFile(path, page, 0o600))
	var err error
	f.file, err = os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	f.counters, err = lane.OpenCounters(path)
	must(t, err)
	t.Cleanup(func() {
		f.counters.Close()
		_ = f.file.Close()
	})
	return f
}

func (f *fake) refusedAt(worker int) int {
	return shmabi.CountersHeaderSize +
		f.workers*(shmabi.WorkerCountersSize+testSources*shmabi.SourceCountersSize) +
		testSources*shmabi.SourceStateSize + worker*shmabi.RefusedEntries*shmabi.RefusedSize
}

// add adds to a word.
func (f *fake) add(at int, n uint64) uint64 {
	f.t.Helper()
	var word [8]byte
	_, err := f.file.ReadAt(word[:], int64(at))
	must(f.t, err)
	before := binary.LittleEndian.Uint64(word[:])
	binary.LittleEndian.PutUint64(word[:], before+n)
	_, err = f.file.WriteAt(word[:], int64(at))
	must(f.t, err)
	return before
}

// words are where the counters of refusals are, by reason.
var words = map[shmabi.Shed]int{
	shmabi.ShedHold:     shmabi.SourceCountersShedHoldOffset,
	shmabi.ShedHeldFull: shmabi.SourceCountersShedHeldFullOffset,
	shmabi.ShedLane:     shmabi.SourceCountersShedLaneOffset,
	shmabi.ShedRate:     shmabi.SourceCountersShedRateOffset,
	shmabi.ShedJournal:  shmabi.SourceCountersShedJournalOffset,
	shmabi.ShedStopping: shmabi.SourceCountersShedStoppingOffset,
	shmabi.ShedBudget:   shmabi.SourceCountersShedBudgetOffset,
	shmabi.ShedClass:    shmabi.SourceCountersShedClassOffset,
}

// count counts refusals without a known id.
func (f *fake) count(worker, slot int, reason shmabi.Shed, n uint64) {
	f.t.Helper()
	f.add(shmabi.CountersHeaderSize+f.workers*shmabi.WorkerCountersSize+
		(worker*testSources+slot)*shmabi.SourceCountersSize+words[reason], n)
}

// note puts an id into the ring, without counting.
func (f *fake) note(worker, slot int, reason shmabi.Shed, id string) {
	f.t.Helper()
	f.noteAs(worker, uint32(slot)+1, uint16(reason), len(id), id)
}

func (f *fake) noteAs(worker int, source uint32, reason uint16, length int, id string) {
	f.t.Helper()
	next := shmabi.CountersHeaderSize + worker*shmabi.WorkerCountersSize +
		shmabi.WorkerCountersRefusedEntriesOffset
	n := f.add(next, 0)
	entry, le := make([]byte, shmabi.RefusedSize), binary.LittleEndian
	le.PutUint32(entry[shmabi.RefusedSourceIDOffset:], source)
	le.PutUint16(entry[shmabi.RefusedReasonOffset:], reason)
	le.PutUint16(entry[shmabi.RefusedLengthOffset:], uint16(length))
	copy(entry[shmabi.RefusedIDOffset:], id)
	at := f.refusedAt(worker) + int(n%shmabi.RefusedEntries)*shmabi.RefusedSize
	_, err := f.file.WriteAt(entry, int64(at))
	must(f.t, err)
	f.add(next, 1)
}

// refuse refuses one request with a known id.
func (f *fake) refuse(worker, slot int, reason shmabi.Shed, id string) {
	f.t.Helper()
	f.note(worker, slot, reason, id)
	f.count(worker, slot, reason, 1)
}

// names has a source for each slot but the last.
func names(slot int) (string, bool) {
	if slot < 0 || slot >= testSources-1 {
		return "", false
	}
	return "source-" + strconv.Itoa(slot), true
}

func (f *fake) plane() Plane {
	return Plane{
		Generation: f.generation, Pid: f.pid, Born: f.born, Counters: f.counters, Name: names,
	}
}

// desk is a ledger with its disk and its clock.
type desk struct {
	*Ledger
	t      testing.TB
	mem    *vfs.Mem
	faulty *vfs.Faulty
	now    time.Time
	boot   byte
	bounds bounds
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newDesk(t testing.TB, b bounds) *desk {
	d := &desk{t: t, mem: vfs.NewMem(), now: noon, bounds: b}
	d.open()
	return d
}

const ledgerFile = "data/gaps.json"

// open begins a life on what is on the disk.
func (d *desk) open() {
	d.t.Helper()
	must(d.t, d.mem.MkdirAll("data"))
	d.faulty = vfs.NewFaulty(d.mem, nil, nil)
	d.Ledger = Open(Options{
		Disk: vfs.NewWhole(d.faulty, ledgerFile), Boot: [16]byte{d.boot},
		Now: func() time.Time { return d.now }, Log: slog.New(slog.DiscardHandler), bounds: d.bounds,
	})
}

// kill ends a life without a last look, and begins the next one.
func (d *desk) kill() {
	d.t.Helper()
	d.mem = d.mem.Kill(nil)
	d.open()
}

// look lets time pass and looks.
func (d *desk) look(pass time.Duration) {
	d.now = d.now.Add(pass)
	d.Look()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
