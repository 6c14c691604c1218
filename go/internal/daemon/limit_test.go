package daemon

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/shm-abi/shmabi"
)

// poke writes a word of a data plane's counters, as that data plane would.
func (r *run) poke(s *site, generation uint32, at int, v uint64) {
	r.t.Helper()
	path := filepath.Join(s.shm, fmt.Sprintf("%x", r.store.Recovery().JournalID), "dp",
		fmt.Sprintf("%d.counters", generation))
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	must(r.t, err)
	defer file.Close()
	_, err = file.WriteAt(binary.LittleEndian.AppendUint64(nil, v), int64(at))
	must(r.t, err)
}

// stateAt is where a source's standing is, behind one worker's counters.
func stateAt(slot int) int {
	return shmabi.CountersHeaderSize + shmabi.WorkerCountersSize +
		shmabi.SourcesMax*shmabi.SourceCountersSize + slot*shmabi.SourceStateSize
}

func TestWhatADataPlaneSaysOfAdmissionIsShownAndOutlivesIt(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.start()
	if f := r.adminFacts(); f.Admission.Overloaded || f.Sources[0].Guarded {
		t.Errorf("facts %+v before anything happened", f)
	}
	r.poke(s, 1, shmabi.CountersHeaderOverloadedOffset, 1<<6|1<<7)
	r.poke(s, 1, stateAt(0)+shmabi.SourceStateRefusedInRowOffset, 3)
	r.poke(s, 1, stateAt(0)+shmabi.SourceStateGuardedOffset, 1)
	f := r.adminFacts()
	if !f.Admission.Overloaded ||
		!slices.Equal(f.Admission.OverloadedClasses, []string{"repeat", "low_over_share"}) ||
		f.Sources[0].RefusedInRow != 3 || !f.Sources[0].Guarded {
		t.Errorf("facts %+v", f)
	}
	m := r.observeFacts()
	if m.Admission.Overloaded != 1<<6|1<<7 || m.Sources[0].RefusedInRow != 3 || !m.Sources[0].Guarded {
		t.Errorf("metrics %+v", m)
	}
	must(t, unix.Kill(r.super.Status().Pid, unix.SIGKILL))
	eventually(t, "another one accepts", func() bool {
		st := r.super.Status()
		return st.Accepting && st.Generation == 2
	})
	if f := r.adminFacts(); f.Admission.Overloaded {
		t.Errorf("the dead one's overload is shown: %+v", f.Admission)
	}
	given := r.standing.fill(r.plan.Load(), nil)
	if got := inRow(given); !slices.Equal(got, []uint32{3}) {
		t.Errorf("the next one is told %v", got)
	}
	r.stop()
}

func TestTheLimitIsTunedWhileItRuns(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.configure("admission: {initial_limit: 20, max_held: 7}\n" + sources("a>stdout"))
	r := s.start()
	if got := r.shm.control.Limit(); got != 20 || r.shm.control.MaxHeld() != 7 {
		t.Errorf("limit %d, held %d", got, r.shm.control.MaxHeld())
	}
	l := limiter{r.Daemon}
	if got := l.Limits(); got.Algorithm != "slope" || got.Limit != 20 || got.Base != 20 ||
		got.Max != 4096 || got.HoldBudget != 2500*time.Millisecond {
		t.Errorf("limits %+v", got)
	}
	// Drops cut the limit, by what the data plane counts alone.
	worker := shmabi.CountersHeaderSize
	drops := uint64(0)
	eventually(t, "a cut", func() bool {
		drops++
		r.poke(s, 1, shmabi.CountersHeaderMeteredNSOffset, bootNow())
		r.poke(s, 1, worker+shmabi.WorkerCountersDropsOffset, drops)
		return r.shm.control.BaseLimitMilli() != 20_000
	})
	if got := l.Limits().Changes; len(got) == 0 || got[0].Reason != "drops" || got[0].To >= 20 {
		t.Errorf("changes %+v", got)
	}
	if r.observeFacts().Admission.Changes["drops"] == 0 {
		t.Error("no decision is counted")
	}
	must(t, l.Pin(100, time.Hour))
	s.configure("admission: {initial_limit: 20, max_held: 8}\n" + sources("a>stdout"))
	_, err := r.Reload(t.Context())
	must(t, err)
	if r.shm.control.Limit() != 100 || r.shm.control.MaxHeld() != 8 {
		t.Errorf("limit %d, held %d after a reload", r.shm.control.Limit(), r.shm.control.MaxHeld())
	}
	if err := l.Pin(5000, time.Hour); err == nil || !strings.Contains(err.Error(), "2..4096") {
		t.Errorf("a pin out of bounds: %v", err)
	}
	l.Release()
	if !l.Limits().PinnedUntil.IsZero() {
		t.Error("still pinned")
	}
	stood := l.Limits().Base
	r.stop()
	if err := l.Pin(100, time.Hour); err == nil {
		t.Error("a daemon that ended took a pin")
	}
	// The next life goes on where this one was.
	again := s.start()
	got := (limiter{again.Daemon}).Limits()
	if stood >= 20 || math.Abs(got.Base-stood) > 0.001 {
		t.Errorf("base %v after a restart, it was %v", got.Base, stood)
	}
	again.stop()
}
