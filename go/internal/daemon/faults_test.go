package daemon

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"sluice/go/internal/config"
	"sluice/go/internal/gameday"
)

func (r *run) set(point, kind, argument string) {
	r.t.Helper()
	must(r.t, r.faults.Set(point, kind, argument, 0))
}

func TestFaultsAreForDevelopment(t *testing.T) {
	d := &Daemon{o: Options{Config: &config.Config{}}}
	if disk := d.openFaults(); disk != nil || d.faults != nil {
		t.Errorf("without --dev there is the disk %v and the board %v", disk, d.faults)
	}
	if list := d.withFaults([]string{"one"}); len(list) != 1 {
		t.Errorf("problems %v", list)
	}
	d.closeFaults()
}

func TestFaultsInForceAreShownAndNoReasonNotToBeReady(t *testing.T) {
	t.Parallel()
	r := newSite(t).start()
	r.set("journal.write", "slots", "8x4ms")
	r.set("journal.sync", "delay", "1ms")
	f := r.adminFacts()
	want := "[fault journal.write slots 8x4ms is set fault journal.sync delay 1ms is set]"
	if !f.Ready || fmt.Sprint(f.Problems) != want {
		t.Errorf("ready %v, problems %v", f.Ready, f.Problems)
	}
	must(t, r.faults.Clear(""))
	if f := r.adminFacts(); len(f.Problems) != 0 {
		t.Errorf("problems %v", f.Problems)
	}
	r.stop()
	if err := r.faults.Set("journal.sync", "delay", "1ms", 0); !errors.Is(err, gameday.ErrNotNow) {
		t.Errorf("a daemon that ended: %v", err)
	}
}

func TestADiskFaultMeetsTheJournal(t *testing.T) {
	t.Parallel()
	r := newSite(t).start()
	for _, point := range []string{"journal.write", "journal.sync"} {
		r.set(point, "error", "enospc")
		put := make(chan error, 1)
		go func() { put <- r.store.PutCatalogue(t.Context(), r.plan.Load().catalogue) }()
		eventually(t, "the journal is not writable", func() bool { return !r.store.Space().Writable })
		if f := r.faults.Faults(); len(f) != 1 || f[0].Met == 0 || f[0].Argument != "ENOSPC" {
			t.Errorf("%s: in force %v", point, f)
		}
		must(t, r.faults.Clear(point))
		must(t, <-put)
	}
	for _, wrong := range [][3]string{
		{"journal.write", "error", "EBADF"}, {"journal.sync", "delay", "soon"},
		{"journal.write", "slots", "8"}, {"journal.sync", "slots", "8x4ms"},
	} {
		if err := r.faults.Set(wrong[0], wrong[1], wrong[2], 0); err == nil {
			t.Errorf("%v is taken", wrong)
		}
	}
	r.stop()
}

func TestAKilledDataPlaneIsReplaced(t *testing.T) {
	t.Parallel()
	r := newSite(t).start()
	before := r.super.Status()
	r.set("dataplane", "kill", "")
	eventually(t, "another data plane", func() bool {
		s := r.super.Status()
		return s.Restarts == 1 && s.Accepting && s.Pid != 0 && s.Pid != before.Pid
	})
	if f := r.faults.Faults(); len(f) != 0 {
		t.Errorf("in force: %v", f)
	}
	r.stop()
}

func TestAStoppedDataPlaneGoesOn(t *testing.T) {
	t.Parallel()
	r := newSite(t).start()
	pid := r.super.Status().Pid
	stopped := func() bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		must(t, err)
		_, state, _ := strings.Cut(string(text), ") ")
		return strings.HasPrefix(state, "T")
	}
	r.set("dataplane", "stop", "")
	eventually(t, "it stopped", stopped)
	f := r.faults.Faults()
	if len(f) != 1 || f[0].Until.IsZero() || time.Until(f[0].Until) > stopDefault {
		t.Errorf("in force: %v", f)
	}
	must(t, r.faults.Clear("dataplane"))
	eventually(t, "it goes on", func() bool { return !stopped() })
	// One that is stopped does not keep the daemon from stopping, in order.
	r.set("dataplane", "stop", "")
	eventually(t, "it stopped again", stopped)
	r.stop()
}

func TestWithoutADataPlaneThereIsNoneToKill(t *testing.T) {
	t.Parallel()
	d := &Daemon{o: Options{Config: &config.Config{Dev: true}}}
	d.openFaults()
	for _, kind := range []string{"kill", "stop"} {
		if err := d.faults.Set("dataplane", kind, "", 0); !errors.Is(err, gameday.ErrNotNow) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if err := d.faults.Set("journal.write", "slots", "1x1s", 0); !errors.Is(err, gameday.ErrNotNow) {
		t.Errorf("slots: %v", err)
	}
}
