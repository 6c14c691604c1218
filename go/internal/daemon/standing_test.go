package daemon

import (
	"encoding/binary"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/go/internal/lane"
	"sluice/go/internal/store/vfs"
	pb "sluice/proto/sluice/v1"
	"sluice/shm-abi/shmabi"
)

func controlPage(t *testing.T) *lane.Control {
	t.Helper()
	control, err := lane.OpenControl(filepath.Join(t.TempDir(), "control"), [16]byte{1})
	must(t, err)
	t.Cleanup(control.Close)
	return control
}

const testSlots = 4

// countersFile is what a data plane of one worker would have made, with its sources' standing.
func countersFile(t *testing.T, state ...[3]uint64) *lane.Counters {
	t.Helper()
	le := binary.LittleEndian
	states := shmabi.CountersHeaderSize + shmabi.WorkerCountersSize +
		testSlots*shmabi.SourceCountersSize
	page := make([]byte, states+testSlots*shmabi.SourceStateSize+
		shmabi.RefusedEntries*shmabi.RefusedSize)
	le.PutUint64(page, shmabi.CountersMagic)
	le.PutUint64(page[shmabi.CountersHeaderLayoutHashOffset:], shmabi.LayoutHash)
	le.PutUint32(page[shmabi.CountersHeaderWorkersOffset:], 1)
	le.PutUint32(page[shmabi.CountersHeaderSourcesOffset:], testSlots)
	for slot, words := range state {
		at := page[states+slot*shmabi.SourceStateSize:]
		le.PutUint64(at[shmabi.SourceStateRefusedInRowOffset:], words[0])
		le.PutUint64(at[shmabi.SourceStateLastSuccessNSOffset:], words[1])
		le.PutUint64(at[shmabi.SourceStateGuardedOffset:], words[2])
	}
	path := filepath.Join(t.TempDir(), "counters")
	// A mapping goes by whole pages.
	page = append(page, make([]byte, (4096-len(page)%4096)%4096)...)
	must(t, os.WriteFile(path, page, 0o600))
	c, err := lane.OpenCounters(path)
	must(t, err)
	t.Cleanup(c.Close)
	return c
}

func snapshotOf(slots ...uint32) *pb.Snapshot {
	s := &pb.Snapshot{ConfigVersion: 3}
	for _, slot := range slots {
		s.Sources = append(s.Sources, &pb.Source{Slot: slot})
	}
	return s
}

func routed(slots ...uint32) *plan { return &plan{snapshot: snapshotOf(slots...)} }

func inRow(s *pb.Snapshot) []uint32 {
	var list []uint32
	for _, source := range s.Sources {
		list = append(list, source.RefusedInRow)
	}
	return list
}

func TestRefusalsInARowOutliveTheirDataPlane(t *testing.T) {
	var s standing
	plain := routed(0, 2, 3)
	if s.fill(plain, nil) != plain.snapshot {
		t.Error("another snapshot though nothing is known")
	}
	s.born(1, nil)
	s.died(1, countersFile(t, [3]uint64{5, 1000, 1}, [3]uint64{9, 0, 0}, [3]uint64{0, 1000, 0}))
	filled := s.fill(plain, nil)
	if got := inRow(filled); !slices.Equal(got, []uint32{5, 0, 0}) || filled.ConfigVersion != 3 {
		t.Errorf("refused in a row %v", got)
	}
	if got := inRow(plain.snapshot); !slices.Equal(got, []uint32{0, 0, 0}) {
		t.Errorf("the plan's own snapshot was written to: %v", got)
	}
	if s.fill(plain, nil) != filled {
		t.Error("another snapshot though nothing changed: it would be handed over again")
	}
	next := routed(1)
	if got := inRow(s.fill(next, nil)); !slices.Equal(got, []uint32{9}) {
		t.Errorf("under the next config %v", got)
	}
}

func TestADataPlaneThatNeverServedForgetsNothing(t *testing.T) {
	var s standing
	s.born(1, nil)
	s.died(1, countersFile(t, [3]uint64{5, 0, 0}, [3]uint64{6, 0, 0}, [3]uint64{7, 0, 0}))
	s.born(2, nil)
	// It died early: source 0 was served, source 1 was not, source 2 was refused again.
	s.died(2, countersFile(t, [3]uint64{0, 2000, 0}, [3]uint64{0, 0, 0}, [3]uint64{8, 0, 0}))
	if got := inRow(s.fill(routed(0, 1, 2), nil)); !slices.Equal(got, []uint32{0, 6, 8}) {
		t.Errorf("refused in a row %v", got)
	}
}

func TestASuccessorIsToldWhatTheLivingOneCounted(t *testing.T) {
	var s standing
	old := countersFile(t, [3]uint64{3, 0, 0})
	s.born(1, nil)
	s.born(2, old)
	if got := inRow(s.fill(routed(0), nil)); !slices.Equal(got, []uint32{3}) {
		t.Errorf("refused in a row %v", got)
	}
	// The old one ends later, when the young one is the one that knows.
	s.died(1, countersFile(t, [3]uint64{30, 0, 0}))
	s.died(2, countersFile(t, [3]uint64{0, 5000, 0}))
	if got := inRow(s.fill(routed(0), nil)); !slices.Equal(got, []uint32{0}) {
		t.Errorf("after both died %v", got)
	}
}

func TestTheYoungestDataPlaneSaysHowASourceStands(t *testing.T) {
	d := &Daemon{counters: make(map[uint32]*lane.Counters)}
	if got := d.standsNow(1); got != (stands{}) {
		t.Errorf("%+v without a data plane", got)
	}
	d.counters[4] = countersFile(t, [3]uint64{7, 0, 1})
	d.counters[3] = countersFile(t, [3]uint64{2, 0, 0})
	if got := d.standsNow(1); got != (stands{7, true}) {
		t.Errorf("%+v", got)
	}
	if got := d.standsNow(testSlots + 1); got != (stands{}) {
		t.Errorf("%+v in a slot that it does not have", got)
	}
	d.standing.born(4, nil)
	d.standing.died(4, d.counters[4])
	clear(d.counters)
	if got := d.standsNow(1); got != (stands{7, false}) {
		t.Errorf("%+v after the last one died", got)
	}
}

func TestAClassIsOverloadedWhereSomeDataPlaneSaysSo(t *testing.T) {
	if names := classNames(1<<0 | 1<<3 | 1<<7 | 1<<9); !slices.Equal(names,
		[]string{"high", "low", "low_over_share"}) {
		t.Errorf("classes %v", names)
	}
	if names := classNames(0); len(names) != 0 {
		t.Errorf("classes %v", names)
	}
}

func TestRefusalsInARowOutliveTheDaemon(t *testing.T) {
	fs := vfs.NewMem()
	file := func() *vfs.Whole { return vfs.NewWhole(fs, standingFile) }
	if refused, err := readStanding(file()); refused != nil || err != nil {
		t.Fatalf("without a file: %v, %v", refused, err)
	}
	s := standing{file: file()}
	living := countersFile(t, [3]uint64{5, 1000, 1}, [3]uint64{0, 1000, 0}, [3]uint64{7, 0, 0})
	s.refused = map[int]uint32{1: 3, 3: 2} // one had a success meanwhile, one was not seen again
	want := map[int]uint32{0: 5, 2: 7, 3: 2}
	if got := s.now(living); !maps.Equal(got, want) || len(s.refused) != 2 {
		t.Fatalf("now %v, kept %v", got, s.refused)
	}
	must(t, s.save(s.now(living)))
	refused, err := readStanding(file())
	if err != nil || !maps.Equal(refused, want) {
		t.Errorf("read %v, %v", refused, err)
	}
	for _, text := range []string{
		"", "no JSON", `{"refused_in_row": {"0": 1}}`, `{"refused_in_row": {"1025": 1}}`,
		`{"refused_in_row": {"a": 1}}`, `{"refused_in_row": {"1": -1}}`,
		`{"refused_in_row": {"1": 1}` + strings.Repeat(" ", standingFileMax) + "}",
	} {
		must(t, file().Write([]byte(text)))
		if refused, err := readStanding(file()); err == nil || refused != nil {
			t.Errorf("%.40q was read as %v", text, refused)
		}
	}
}

func TestOneWhoseSuccessorFailedIsTheOneThatKnows(t *testing.T) {
	var s standing
	s.born(1, nil)
	s.born(2, countersFile(t, [3]uint64{3, 0, 0}))
	s.died(2, countersFile(t, [3]uint64{3, 0, 0})) // as it was told
	s.died(1, countersFile(t, [3]uint64{30, 0, 0}))
	if got := inRow(s.fill(routed(0), nil)); !slices.Equal(got, []uint32{30}) {
		t.Errorf("refused in a row %v", got)
	}
}
