package tune

import (
	"strings"
	"testing"
	"time"

	"sluice/go/internal/admission"
)

func TestAPinHoldsForItsTimeAndThroughAReload(t *testing.T) {
	page, s := newPage(), &store{servers: 8, service: 10 * time.Millisecond}
	b, p := newBed(t, standard(), page), newPages(1, 1)
	b.Attach(1, p)
	must(t, b.Pin(100, time.Minute))
	if got := b.State(); page.Limit() != 100 || got.Limit != 100 ||
		!got.PinnedUntil.Equal(began.Add(time.Minute)) {
		t.Errorf("limit %d, state %+v", page.Limit(), got)
	}
	b.pass(30*time.Second, b.busy(s, p))
	next := standard()
	next.MaxHeld, next.MaxLimit = 5, 64
	must(t, b.Configure(next))
	b.pass(30*time.Second-TickInterval, b.busy(s, p))
	if page.Limit() != 100 || page.MaxHeld() != 5 {
		t.Errorf("limit %d, held %d before the pin's end", page.Limit(), page.MaxHeld())
	}
	b.pass(TickInterval, b.busy(s, p))
	if page.Limit() > 64 || !b.State().PinnedUntil.IsZero() {
		t.Errorf("limit %d after the pin's end", page.Limit())
	}
	b.pass(20*time.Second, b.busy(s, p))
	if got := float64(page.BaseLimitMilli()) / 1000; got > 2.1*8 {
		t.Errorf("base %v: the controller does not go on", got)
	}
	var reasons []string
	for _, c := range b.State().Changes {
		reasons = append(reasons, string(c.Reason))
	}
	if text := strings.Join(reasons, " "); !strings.Contains(text, "released pinned") {
		t.Errorf("reasons, newest first: %s", text)
	}
}

func TestASecondPinTakesTheFirstOnesPlace(t *testing.T) {
	b := newBed(t, standard(), newPage())
	must(t, b.Pin(100, time.Minute))
	b.now += 59 * time.Second
	must(t, b.Pin(200, time.Hour))
	b.now += 2 * time.Minute
	b.Step()
	if b.page.Limit() != 200 {
		t.Errorf("limit %d: the first pin's end took the second one away", b.page.Limit())
	}
	b.Release()
	if b.page.Limit() != 16 || !b.State().PinnedUntil.IsZero() {
		t.Errorf("limit %d: the controller goes on from elsewhere", b.page.Limit())
	}
	b.Release() // there is none
	if n := b.State().Decisions[admission.ReasonReleased]; n != 1 {
		t.Errorf("released %d times", n)
	}
}

func TestAPinOfAFixedLimitEndsAtTheFixedLimit(t *testing.T) {
	c := standard()
	c.Algorithm = "fixed"
	b := newBed(t, c, newPage())
	must(t, b.Pin(100, time.Minute))
	b.Release()
	if b.page.Limit() != 16 {
		t.Errorf("limit %d", b.page.Limit())
	}
}

func TestAPinOutsideTheBoundsIsRefused(t *testing.T) {
	b := newBed(t, standard(), newPage())
	for _, test := range []struct {
		limit uint64
		span  time.Duration
	}{{1, time.Minute}, {4097, time.Minute}, {100, 0}, {100, -time.Second}} {
		if err := b.Pin(test.limit, test.span); err == nil {
			t.Errorf("%+v was taken", test)
		}
	}
	if b.page.Limit() != 16 || len(b.State().Changes) != 0 {
		t.Errorf("limit %d, changes %v", b.page.Limit(), b.State().Changes)
	}
	for _, limit := range []uint64{2, 4096} {
		must(t, b.Pin(limit, time.Minute))
	}
}
