package daemon

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/go/internal/gaps"
	"sluice/shm-abi/shmabi"
)

// refusals are the words of a data plane of one worker with all source slots.
type refusals struct {
	t    *testing.T
	file *os.File
}

func (s *site) counters(id [16]byte, generation uint32) refusals {
	s.t.Helper()
	path := filepath.Join(s.shm, fmt.Sprintf("%x", id), "dp", fmt.Sprintf("%d.counters", generation))
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	must(s.t, err)
	s.t.Cleanup(func() { _ = file.Close() })
	return refusals{s.t, file}
}

// lay makes the counters file of a data plane that is dead.
func (r refusals) lay(generation uint32) {
	page, le := make([]byte, refusedAt+shmabi.RefusedEntries*shmabi.RefusedSize), binary.LittleEndian
	le.PutUint64(page[shmabi.CountersHeaderMagicOffset:], shmabi.CountersMagic)
	le.PutUint64(page[shmabi.CountersHeaderLayoutHashOffset:], shmabi.LayoutHash)
	le.PutUint32(page[shmabi.CountersHeaderGenerationOffset:], generation)
	le.PutUint32(page[shmabi.CountersHeaderWorkersOffset:], 1)
	le.PutUint32(page[shmabi.CountersHeaderSourcesOffset:], shmabi.SourcesMax)
	_, err := r.file.WriteAt(page, 0)
	must(r.t, err)
}

const (
	sourcesAt = shmabi.CountersHeaderSize + shmabi.WorkerCountersSize
	refusedAt = sourcesAt + shmabi.SourcesMax*(shmabi.SourceCountersSize+shmabi.SourceStateSize)
)

func (r refusals) word(at int, v uint64) {
	r.t.Helper()
	_, err := r.file.WriteAt(binary.LittleEndian.AppendUint64(nil, v), int64(at))
	must(r.t, err)
}

// held says how many requests of a slot were shed for their hold bound, and the first one's id.
func (r refusals) held(slot int, count uint64, id string) {
	r.t.Helper()
	entry, le := make([]byte, shmabi.RefusedSize), binary.LittleEndian
	le.PutUint32(entry[shmabi.RefusedSourceIDOffset:], uint32(slot)+1)
	le.PutUint16(entry[shmabi.RefusedReasonOffset:], uint16(shmabi.ShedHold))
	le.PutUint16(entry[shmabi.RefusedLengthOffset:], uint16(len(id)))
	copy(entry[shmabi.RefusedIDOffset:], id)
	_, err := r.file.WriteAt(entry, refusedAt)
	must(r.t, err)
	r.word(shmabi.CountersHeaderSize+shmabi.WorkerCountersRefusedEntriesOffset, 1)
	r.word(shedHoldAt(slot), count)
}

func shedHoldAt(slot int) int {
	return sourcesAt + slot*shmabi.SourceCountersSize + shmabi.SourceCountersShedHoldOffset
}

// refused sums the gaps of a source.
func (r *run) refused(source string) (count uint64, ids []string) {
	for _, g := range r.gaps.List(gaps.Filter{Source: source}) {
		count += g.Count
		ids = append(ids, g.IDs...)
	}
	return count, ids
}

func TestRefusalsAreInTheLedgerOfThisAndTheNextLives(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.configure(sources("a>stdout", "b>stdout"))
	r := s.start()
	id, before := r.store.Recovery().JournalID, r.super.Status()
	first := s.counters(id, before.Generation)
	first.word(shedHoldAt(shmabi.SourcesMax-1), 9) // of no source
	first.held(1, 3, "evt_1")
	eventually(t, "the ledger saw it", func() bool {
		n, _ := r.refused("b")
		return n == 3
	})
	// What a data plane counted until it died is read when it did.
	first.word(shedHoldAt(1), 5)
	must(t, unix.Kill(before.Pid, unix.SIGKILL))
	eventually(t, "another data plane", func() bool {
		st := r.super.Status()
		return st.Accepting && st.Generation > before.Generation
	})
	s.counters(id, r.super.Status().Generation).held(1, 1, "evt_2")
	r.stop() // reads what the drained one counted
	check := func(r *run, source string, want uint64, ids ...string) {
		t.Helper()
		if n, named := r.refused(source); n != want || !slices.Equal(named, ids) {
			t.Errorf("%s: %d refused, ids %v, want %d with %v", source, n, named, want, ids)
		}
	}
	check(r, "b", 6, "evt_1", "evt_2")
	// A data plane that lived and died while nobody looked, and whose file nobody removed.
	dead := s.counters(id, 77)
	dead.lay(77)
	dead.held(0, 4, "evt_3")
	r = s.start()
	check(r, "b", 6, "evt_1", "evt_2")
	check(r, "a", 4, "evt_3")
	r.stop()
	r = s.start()
	check(r, "a", 4, "evt_3")
	for _, g := range r.gaps.List(gaps.Filter{}) {
		if g.Source != "a" && g.Source != "b" || g.Reason != "hold" {
			t.Errorf("a gap of %+v", g)
		}
	}
	r.stop()
}

func TestADamagedLedgerKeepsNoDaemonFromStarting(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	must(t, os.WriteFile(filepath.Join(s.data, gapsFile), []byte("{}"), 0o600))
	r := s.start()
	if list := r.gaps.List(gaps.Filter{}); len(list) != 0 {
		t.Errorf("gaps %v", list)
	}
	aside, err := filepath.Glob(filepath.Join(s.data, gapsFile+".damaged-*"))
	if err != nil || len(aside) != 1 {
		t.Errorf("set aside: %v, %v", aside, err)
	}
	r.stop()
}

func TestASlotIsTheSourceOfItsNumber(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.configure(sources("a>stdout", "b>stdout"))
	r := s.start()
	s.configure(sources("b>stdout", "c>stdout")) // a keeps its number
	if _, err := r.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	for slot, want := range map[int]string{-1: "", 0: "a", 1: "b", 2: "c", 3: "", 1023: ""} {
		if got, known := r.sourceOfSlot(slot); got != want || known != (want != "") {
			t.Errorf("slot %d is %q", slot, got)
		}
	}
	r.stop()
}
