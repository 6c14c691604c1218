package daemon

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/go/internal/config"
	"sluice/go/internal/lane"
)

func admission() *config.Config {
	return &config.Config{Admission: config.Admission{
		Algorithm: "fixed", InitialLimit: 16, MinLimit: 2, MaxLimit: 4096, MaxHeld: 77,
		HoldBudget: 3 * time.Second,
	}}
}

func controlPage(t *testing.T) *lane.Control {
	t.Helper()
	control, err := lane.OpenControl(filepath.Join(t.TempDir(), "control"), [16]byte{1})
	must(t, err)
	t.Cleanup(control.Close)
	return control
}

func TestTheNumbersOfTheConfigArePublished(t *testing.T) {
	control := controlPage(t)
	l := newLimits(admission(), control)
	if control.Limit() != 16 || control.MaxHeld() != 77 ||
		control.HoldBudgetNS() != uint64(3*time.Second) {
		t.Errorf("limit %d, held %d, budget %d",
			control.Limit(), control.MaxHeld(), control.HoldBudgetNS())
	}
	next := admission()
	next.Admission.InitialLimit, next.Admission.MaxHeld = 32, 5
	l.configure(next)
	if control.Limit() != 32 || control.MaxHeld() != 5 {
		t.Errorf("limit %d, held %d after a reload", control.Limit(), control.MaxHeld())
	}
	adaptive := admission()
	adaptive.Admission.Algorithm, adaptive.Admission.MaxLimit = "slope", 100
	l.configure(adaptive)
	if control.Limit() != 100 {
		t.Errorf("limit %d over the bound of 100", control.Limit())
	}
	if got := l.Limits().Algorithm; !strings.Contains(got, "slope") {
		t.Errorf("algorithm %q hides what was asked for", got)
	}
}

func TestAPinHoldsForItsTimeAndThroughAReload(t *testing.T) {
	control := controlPage(t)
	synctest.Test(t, func(t *testing.T) {
		l := newLimits(admission(), control)
		must(t, l.set(100, time.Minute))
		if got := l.Limits(); got.Limit != 100 || !got.PinnedUntil.Equal(time.Now().Add(time.Minute)) {
			t.Errorf("limits %+v", got)
		}
		next := admission()
		next.Admission.InitialLimit = 32
		l.configure(next)
		time.Sleep(time.Minute - time.Nanosecond)
		synctest.Wait()
		if control.Limit() != 100 {
			t.Errorf("limit %d before the pin's end", control.Limit())
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if control.Limit() != 32 || !l.Limits().PinnedUntil.IsZero() {
			t.Errorf("limit %d after the pin's end", control.Limit())
		}
	})
}

func TestASecondPinTakesTheFirstOnesPlace(t *testing.T) {
	control := controlPage(t)
	synctest.Test(t, func(t *testing.T) {
		l := newLimits(admission(), control)
		must(t, l.set(100, time.Minute))
		// The first one's clock runs out just while the second is put in its place.
		l.mu.Lock()
		time.Sleep(time.Minute)
		l.mu.Unlock()
		must(t, l.set(200, time.Hour))
		synctest.Wait()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if control.Limit() != 200 {
			t.Errorf("limit %d: the first pin's end took the second one away", control.Limit())
		}
		l.reset()
		if control.Limit() != 16 {
			t.Errorf("limit %d after a reset", control.Limit())
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if control.Limit() != 16 {
			t.Errorf("limit %d long after a reset", control.Limit())
		}
	})
}

func TestAPinOutsideTheBoundsIsRefused(t *testing.T) {
	control := controlPage(t)
	l := newLimits(admission(), control)
	for _, test := range []struct {
		limit uint64
		span  time.Duration
	}{{1, time.Minute}, {4097, time.Minute}, {100, 0}, {100, -time.Second}} {
		if err := l.set(test.limit, test.span); err == nil {
			t.Errorf("%+v was taken", test)
		}
	}
	if control.Limit() != 16 {
		t.Errorf("limit %d", control.Limit())
	}
	for _, limit := range []uint64{2, 4096} {
		must(t, l.set(limit, time.Minute))
	}
	l.stop()
}

// The control page is unmapped at the end; a pin's clock must not write to it then.
func TestAfterStopNoClockWrites(t *testing.T) {
	control := controlPage(t)
	synctest.Test(t, func(t *testing.T) {
		l := newLimits(admission(), control)
		must(t, l.set(100, time.Minute))
		l.stop()
		time.Sleep(time.Hour)
		synctest.Wait()
		if control.Limit() != 100 {
			t.Errorf("limit %d was written after the end", control.Limit())
		}
	})
}
