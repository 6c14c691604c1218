package tune

import (
	"testing"
	"time"

	"sluice/shm-abi/shmabi"
)

func TestWhoWaitsAtAStartIsNotTurnedAwayForIt(t *testing.T) {
	page := newPage()
	page.StoreHoldBoundNS(10_000_000) // of a life that was killed
	b, p := newBed(t, standard(), page), newPages(1, 1)
	held := func(n uint64) { p.set(shmabi.CountersHeaderHeldOffset, n) }
	bound := func(want bool, when string) {
		t.Helper()
		if got := page.HoldBoundNS(); (got > 0) != want {
			t.Errorf("%s the hold bound is %v", when, time.Duration(got))
		}
	}
	bound(false, "at once")
	b.pass(5*TickInterval, nil)
	bound(false, "before there is a data plane")
	held(3)
	b.Attach(1, p)
	b.pass(5*TickInterval, nil)
	bound(false, "while some wait")
	held(0)
	b.pass(TickInterval, nil)
	bound(true, "when none waits")
	held(3)
	b.pass(TickInterval, nil)
	bound(true, "from then on")
	b.Leave()
	bound(false, "when another life follows")
	b.pass(5*TickInterval, nil)
	bound(false, "until it does")
}

func TestAStartThatIsOverloadedIsLenientForAWhileOnly(t *testing.T) {
	page := newPage()
	b, p := newBed(t, standard(), page), newPages(1, 1)
	p.set(shmabi.CountersHeaderHeldOffset, 100)
	b.Attach(1, p)
	b.pass(1900*time.Millisecond, nil)
	if page.HoldBoundNS() != 0 {
		t.Error("there is a hold bound too early")
	}
	b.pass(200*time.Millisecond, nil)
	if page.HoldBoundNS() == 0 {
		t.Error("there is no hold bound")
	}
}
