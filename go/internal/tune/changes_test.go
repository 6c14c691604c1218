package tune

import (
	"testing"
	"time"

	"sluice/go/internal/admission"
)

func TestMovesInOneDirectionAreOneChange(t *testing.T) {
	c := changes{shown: 16}
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	c.moved(at(0), 17, admission.ReasonSlope)
	c.moved(at(500), 18, admission.ReasonSlope)
	c.moved(at(1400), 20, admission.ReasonSlope)
	c.moved(at(1500), 19, admission.ReasonSlope)  // the other way
	c.moved(at(1600), 13, admission.ReasonDrops)  // for another reason
	c.moved(at(2600), 9, admission.ReasonDrops)   // a second later
	c.moved(at(2700), 9, admission.ReasonPinned)  // the same number, and told all the same
	c.moved(at(2710), 10, admission.ReasonPinned) // each of them
	want := []Change{
		{at(2710), 9, 10, admission.ReasonPinned},
		{at(2700), 9, 9, admission.ReasonPinned},
		{at(2600), 13, 9, admission.ReasonDrops},
		{at(1600), 19, 13, admission.ReasonDrops},
		{at(1500), 20, 19, admission.ReasonSlope},
		{at(1400), 16, 20, admission.ReasonSlope},
	}
	got := c.newestFirst()
	if len(got) != len(want) {
		t.Fatalf("changes %v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("change %d is %v, want %v", i, got[i], want[i])
		}
	}
	if n := c.byReason(); n[admission.ReasonSlope] != 4 || n[admission.ReasonDrops] != 2 ||
		n[admission.ReasonPinned] != 2 {
		t.Errorf("decisions %v", n)
	}
}

func TestSmallMovesAreListedOnceTheyAddUp(t *testing.T) {
	for _, test := range []struct{ from, step float64 }{{16, 0.02}, {1000, 0.1}, {2, 0.005}} {
		c := changes{shown: test.from}
		limit, decisions := test.from, 0
		for len(c.list) == 0 {
			limit += test.step
			decisions++
			c.moved(began.Add(time.Duration(decisions)*time.Minute), limit, admission.ReasonSlope)
			if decisions > 1000 {
				t.Fatalf("%v: never listed", test.from)
			}
		}
		moved := limit - test.from
		if decisions < 3 || moved < min(0.5, 0.01*test.from) || moved > 0.5+test.step {
			t.Errorf("%v is listed after %d moves, at %v", test.from, decisions, limit)
		}
		if got := c.list[0]; got.From != test.from || got.To != limit {
			t.Errorf("listed as %v", got)
		}
		if int(c.byReason()[admission.ReasonSlope]) != decisions {
			t.Errorf("decisions %v, want %d", c.byReason(), decisions)
		}
	}
}

func TestTheOldestChangesGo(t *testing.T) {
	var c changes
	for i := range 3 * changesMax {
		c.moved(began.Add(time.Duration(i)*time.Hour), float64(i+1), admission.ReasonDrops)
	}
	got := c.newestFirst()
	if len(got) != changesMax || got[0].To != 3*changesMax ||
		got[changesMax-1].To != 2*changesMax+1 {
		t.Errorf("%d changes, from %v to %v", len(got), got[len(got)-1], got[0])
	}
}
