package gaps

import (
	"fmt"
	"testing"
	"time"

	"sluice/shm-abi/shmabi"
)

// refused is a desk whose ledger has a gap of named refusals, which ended a while ago.
func refused(t *testing.T, b bounds, ids ...string) (*desk, *fake) {
	d := newDesk(t, b)
	p := newFake(t, 1, 1, d.now)
	d.Attach(p.plane())
	for _, id := range ids {
		p.refuse(0, 0, shmabi.ShedJournal, id)
	}
	d.look(time.Second)
	d.now = d.now.Add(2 * closeAfter)
	return d, p
}

func TestAClosedGapIsShownToThoseWhoAskForItAlone(t *testing.T) {
	d, _ := refused(t, bounds{}, "a", "b")
	open := d.List(Filter{})
	if n := d.Close(open); n != 1 || d.Len() != 0 {
		t.Fatalf("%d closed, %d are open", n, d.Len())
	}
	if list := d.List(Filter{}); len(list) != 0 {
		t.Errorf("listed as open: %+v", list)
	}
	all := d.List(Filter{Closed: true})
	if len(all) != 1 || !all[0].Closed.Equal(d.now) || len(all[0].IDs) != 2 {
		t.Errorf("listed with those that are closed: %+v", all)
	}
	if n := d.Close(open); n != 0 {
		t.Errorf("closed again: %d", n)
	}
	d.save(true)
	d.kill()
	if all := d.List(Filter{Closed: true}); len(all) != 1 || all[0].Closed.IsZero() || d.Len() != 0 {
		t.Errorf("in the next life: %+v", all)
	}
}

func TestAGapThatGrewSinceItWasListedStaysOpen(t *testing.T) {
	d, p := refused(t, bounds{}, "a")
	listed := d.List(Filter{})
	p.refuse(0, 0, shmabi.ShedJournal, "b")
	d.look(time.Second)
	d.now = d.now.Add(2 * closeAfter)
	if n := d.Close(listed); n != 0 || d.Len() != 1 {
		t.Errorf("%d closed, %d open", n, d.Len())
	}
}

func TestAGapThatMayStillBeNamedStaysOpen(t *testing.T) {
	d, p := refused(t, bounds{})
	p.count(0, 0, shmabi.ShedJournal, 1)
	d.look(time.Second)
	if n := d.Close(d.List(Filter{})); n != 0 {
		t.Errorf("%d closed at once", n)
	}
}

func TestWhatIsRefusedAfterAGapWasClosedIsAnotherGap(t *testing.T) {
	for _, again := range []bool{false, true} {
		d, p := refused(t, bounds{}, "a")
		d.Close(d.List(Filter{}))
		if again {
			d.save(true)
			d.kill()
			d.Attach(p.plane())
		}
		p.refuse(0, 0, shmabi.ShedJournal, "b")
		d.look(time.Second)
		list := d.List(Filter{})
		if len(list) != 1 || list[0].Count != 1 || fmt.Sprint(list[0].IDs) != "[b]" {
			t.Errorf("after a restart %v: %+v", again, list)
		}
	}
}

func TestClosedGapsGiveWayBeforeOpenOnes(t *testing.T) {
	d, p := refused(t, bounds{gaps: 2, ids: 8, idsPerGap: 4}, "first")
	pause := func() { d.now = d.now.Add(2 * gapPause) }
	pause()
	p.refuse(0, 0, shmabi.ShedJournal, "second")
	d.look(time.Second)
	pause()
	d.Close(d.List(Filter{Limit: 1}))
	p.refuse(0, 0, shmabi.ShedJournal, "third")
	d.look(time.Second)
	list := d.List(Filter{Closed: true})
	if len(list) != 2 || list[0].IDs[0] != "third" || list[1].IDs[0] != "first" {
		t.Errorf("kept: %+v", list)
	}
}

func TestGapsPutTogetherAfterTheOlderOnesWereClosedAreOpen(t *testing.T) {
	d, p := refused(t, bounds{gaps: 1, ids: 8, idsPerGap: 4}, "a")
	more := func() {
		d.now = d.now.Add(2 * gapPause)
		p.count(0, 0, shmabi.ShedJournal, 1)
		d.look(time.Second)
	}
	more() // the first is coarse now
	d.now = d.now.Add(2 * gapPause)
	if n := d.Close(d.List(Filter{})); n != 2 {
		t.Fatalf("%d closed, want both", n)
	}
	more()
	more()
	if n := d.Len(); n != 2 || d.List(Filter{})[1].Count != 1 {
		t.Errorf("%+v", d.List(Filter{Closed: true}))
	}
}
