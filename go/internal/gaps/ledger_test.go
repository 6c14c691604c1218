package gaps

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"sluice/go/internal/store/vfs"
	"sluice/shm-abi/shmabi"
)

func (d *desk) one() Gap {
	d.t.Helper()
	list := d.List(Filter{})
	if len(list) != 1 {
		d.t.Fatalf("gaps are %+v, want one", list)
	}
	return list[0]
}

func at(span time.Duration) time.Time { return noon.Add(span) }

func TestRefusalsOfOneKindAreOneGapUntilTheyPause(t *testing.T) {
	d := newDesk(t, bounds{})
	p := newFake(t, 1, 2, d.now)
	d.Attach(p.plane())
	d.look(time.Second)
	if list := d.List(Filter{}); len(list) != 0 {
		t.Fatalf("without a refusal: %+v", list)
	}
	p.refuse(0, 1, shmabi.ShedHold, "a")
	p.refuse(1, 1, shmabi.ShedHold, "b")
	p.count(1, 1, shmabi.ShedHold, 3)
	d.look(100 * time.Millisecond) // 1.1 s
	d.look(9800 * time.Millisecond)
	p.refuse(0, 1, shmabi.ShedHold, "a")   // again
	p.refuse(0, 1, shmabi.ShedBudget, "a") // is another reason
	p.refuse(0, 2, shmabi.ShedHold, "a")   // and that another source
	d.look(100 * time.Millisecond)         // 11 s, not yet 10 s later
	d.look(9900 * time.Millisecond)
	p.count(0, 1, shmabi.ShedHold, 1)
	d.look(100 * time.Millisecond) // 21 s, 10 s later
	got := d.List(Filter{Source: "source-1"})
	if len(got) != 3 {
		t.Fatalf("gaps are %+v, want 3", got)
	}
	slices.SortFunc(got, func(a, b Gap) int { return strings.Compare(a.Reason, b.Reason) })
	budget, last, first := got[0], got[1], got[2]
	if last.From.Before(first.From) {
		t.Error("the newest does not come first")
	}
	wantGap(t, first, Gap{Source: "source-1", Reason: "hold", From: at(time.Second),
		To: at(11 * time.Second), Count: 6, IDs: []string{"a", "b"}, Unnamed: 3})
	wantGap(t, last, Gap{Source: "source-1", Reason: "hold", From: at(20900 * time.Millisecond),
		To: at(21 * time.Second), Count: 1, Unnamed: 1})
	wantGap(t, budget, Gap{Source: "source-1", Reason: "budget", From: at(10900 * time.Millisecond),
		To: at(11 * time.Second), Count: 1, IDs: []string{"a"}})
}

func wantGap(t *testing.T, got, want Gap) {
	t.Helper()
	if got.Source != want.Source || got.Reason != want.Reason || got.Count != want.Count ||
		got.Unnamed != want.Unnamed || !got.From.Equal(want.From) || !got.To.Equal(want.To) ||
		!slices.Equal(got.IDs, want.IDs) {
		t.Errorf("the gap is\n%+v, want\n%+v", got, want)
	}
}

func TestEachReasonHasItsNameAndNothingElseIsTaken(t *testing.T) {
	d := newDesk(t, bounds{})
	p := newFake(t, 1, 1, d.now)
	d.Attach(p.plane())
	for reason := range words {
		p.refuse(0, 0, reason, "x")
	}
	p.count(0, testSources-1, shmabi.ShedHold, 1)         // of no source
	p.note(0, testSources-1, shmabi.ShedHold, "x")        // likewise
	p.noteAs(0, 0, uint16(shmabi.ShedHold), 1, "x")       // no source number
	p.noteAs(0, 1, 0, 1, "x")                             // no reason
	p.noteAs(0, 1, 99, 1, "x")                            //
	p.noteAs(0, 1, uint16(shmabi.ShedHold), 0, "")        // no id
	p.noteAs(0, 1, uint16(shmabi.ShedHold), 0xffff, "xx") // no length
	d.look(time.Second)
	var found []string
	for _, g := range d.List(Filter{}) {
		found = append(found, g.Reason)
		if g.Source != "source-0" || g.Count != 1 || g.Unnamed != 0 ||
			!slices.Equal(g.IDs, []string{"x"}) {
			t.Errorf("gap %+v", g)
		}
	}
	slices.Sort(found)
	if got := strings.Join(found, " "); got !=
		"budget class held_full hold journal lane rate stopping" {
		t.Errorf("reasons are %s", got)
	}
}

func TestAnIDMayComeBeforeOrAfterItsCount(t *testing.T) {
	d := newDesk(t, bounds{})
	p := newFake(t, 1, 1, d.now)
	d.Attach(p.plane())
	p.note(0, 0, shmabi.ShedLane, "early")
	d.look(time.Second)
	if g := d.one(); g.Count != 1 || g.Unnamed != 0 {
		t.Errorf("before its count: %+v", g)
	}
	p.count(0, 0, shmabi.ShedLane, 2)
	d.look(time.Second)
	if g := d.one(); g.Count != 2 || g.Unnamed != 1 {
		t.Errorf("between: %+v", g)
	}
	p.note(0, 0, shmabi.ShedLane, "late")
	d.look(time.Second)
	if g := d.one(); g.Count != 2 || g.Unnamed != 0 ||
		!slices.Equal(g.IDs, []string{"early", "late"}) {
		t.Errorf("after its count: %+v", g)
	}
}

func TestAnIDThatIsNoTextKeepsItsBytes(t *testing.T) {
	d := newDesk(t, bounds{})
	p := newFake(t, 1, 1, d.now)
	d.Attach(p.plane())
	p.refuse(0, 0, shmabi.ShedLane, "caf\xe9\x00")
	p.refuse(0, 0, shmabi.ShedLane, "日本")
	p.refuse(0, 0, shmabi.ShedLane, strings.Repeat("i", shmabi.RefusedIDBytes))
	d.look(time.Second)
	want := []string{"café\x00", "日本", strings.Repeat("i", shmabi.RefusedIDBytes)}
	if g := d.one(); !slices.Equal(g.IDs, want) {
		t.Errorf("ids are %q", g.IDs)
	}
	d.save(false)
	d.kill()
	if g := d.one(); !slices.Equal(g.IDs, want) {
		t.Errorf("saved ids are %q", g.IDs)
	}
}

func TestIDsThatWereWrittenOverAreUnnamed(t *testing.T) {
	d := newDesk(t, bounds{})
	p := newFake(t, 1, 1, d.now)
	d.Attach(p.plane())
	const n = shmabi.RefusedEntries + 500
	for i := range n {
		p.refuse(0, 0, shmabi.ShedHold, fmt.Sprint(i))
	}
	d.look(time.Second)
	g := d.one()
	if g.Count != n || g.Unnamed != n-uint64(len(g.IDs)) || len(g.IDs) != shmabi.RefusedEntries-1 ||
		g.IDs[0] != fmt.Sprint(501) {
		t.Errorf("%d refused, %d unnamed, %d ids from %s on", g.Count, g.Unnamed, len(g.IDs), g.IDs[0])
	}
}

func TestBoundsLetIDsGoAndPutOldGapsTogether(t *testing.T) {
	d := newDesk(t, bounds{gaps: 4, ids: 6, idsPerGap: 3})
	p := newFake(t, 1, 1, d.now)
	d.Attach(p.plane())
	for i := range 5 { // one ID more than a gap may have
		p.refuse(0, 0, shmabi.ShedHold, fmt.Sprint("a", i%4))
	}
	d.look(time.Second)
	wantGap(t, d.one(), Gap{Source: "source-0", Reason: "hold", From: noon, To: at(time.Second),
		Count: 5, IDs: []string{"a0", "a1", "a2"}, Unnamed: 1})
	// The next gaps take ids from the oldest, whole gaps of them.
	for _, id := range []string{"b", "c"} {
		for i := range 2 {
			p.refuse(0, 0, shmabi.ShedHold, fmt.Sprint(id, i))
		}
		d.look(time.Minute)
	}
	if list := d.List(Filter{}); len(list) != 3 || len(list[0].IDs)+len(list[1].IDs) != 4 ||
		len(list[2].IDs) != 0 || list[2].Unnamed != 5 {
		t.Errorf("gaps are %+v", list)
	}
	// And then the oldest gaps become one, for each source and reason.
	for range 3 {
		p.refuse(0, 1, shmabi.ShedHold, "x")
		d.look(time.Minute)
	}
	list := d.List(Filter{})
	if len(list) != 5 {
		t.Fatalf("gaps are %+v", list)
	}
	old := list[4]
	wantGap(t, old, Gap{Source: "source-0", Reason: "hold", From: noon,
		To: at(time.Second + time.Minute), Count: 7, Unnamed: 7})
	for range 9 {
		p.refuse(0, 1, shmabi.ShedHold, "x")
		d.look(time.Minute)
	}
	list = d.List(Filter{})
	if len(list) != 6 || list[4].Count != 8 || list[4].Source != "source-1" || list[5].Count != 9 ||
		list[5].Source != "source-0" {
		t.Errorf("gaps are %+v", list)
	}
	d.save(false)
	d.kill()
	if again := d.List(Filter{}); fmt.Sprint(again) != fmt.Sprint(list) {
		t.Errorf("after a restart they are\n%+v, were\n%+v", again, list)
	}
}

func TestAListIsFiltered(t *testing.T) {
	d := newDesk(t, bounds{})
	p := newFake(t, 1, 1, d.now)
	d.Attach(p.plane())
	for i := range 4 { // gaps at [19 s, 20 s], [39, 40], …
		d.look(19 * time.Second)
		p.count(0, i%2, shmabi.ShedHold, 1)
		d.look(time.Second)
	}
	for _, c := range []struct {
		name   string
		filter Filter
		want   string
	}{
		{"all", Filter{}, "80 60 40 20"},
		{"limit", Filter{Limit: 2}, "80 60"},
		{"source", Filter{Source: "source-0"}, "60 20"},
		{"no such source", Filter{Source: "source-9"}, ""},
		{"since its end", Filter{Since: at(60 * time.Second)}, "80 60"},
		{"since after its end", Filter{Since: at(60*time.Second + 1)}, "80"},
		{"until its begin", Filter{Until: at(39 * time.Second)}, "20"},
		{"until after its begin", Filter{Until: at(39*time.Second + 1)}, "40 20"},
		{"a moment", Filter{Since: at(39500 * time.Millisecond), Until: at(39600 * time.Millisecond)},
			"40"},
		{"together", Filter{Source: "source-1", Since: at(25 * time.Second), Limit: 1}, "80"},
	} {
		var got []string
		for _, g := range d.List(c.filter) {
			got = append(got, fmt.Sprint(g.To.Sub(noon).Seconds()))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
	}
}

func TestANewLifeTakesExactlyTheDifference(t *testing.T) {
	d := newDesk(t, bounds{})
	living, dies := newFake(t, 3, 2, d.now), newFake(t, 4, 1, d.now)
	d.Attach(living.plane())
	d.Attach(dies.plane())
	for worker := range 2 {
		living.refuse(worker, 0, shmabi.ShedHold, fmt.Sprint("seen", worker))
	}
	dies.refuse(0, 1, shmabi.ShedHold, "seen")
	d.look(time.Second)
	d.save(false)
	living.refuse(0, 0, shmabi.ShedHold, "seen and not saved")
	d.look(time.Second)
	living.refuse(1, 0, shmabi.ShedHold, "alone")
	dies.refuse(0, 1, shmabi.ShedHold, "alone")
	d.now = d.now.Add(time.Minute)
	d.kill()
	late := newFake(t, 5, 1, d.now) // of which the file knows nothing
	late.refuse(0, 2, shmabi.ShedHold, "born")
	d.now = d.now.Add(time.Second)
	for _, p := range []*fake{living, dies, late} {
		d.Attach(p.plane())
		d.Detach(p.generation, false)
	}
	d.Forget(func(generation uint32) bool { return generation != dies.generation })
	d.Attach(living.plane())
	d.Attach(late.plane())
	d.look(time.Second)
	list := d.List(Filter{})
	if len(list) != 5 {
		t.Fatalf("gaps are %+v, want 5", list)
	}
	away := span{at(time.Second).UnixNano(), at(63 * time.Second).UnixNano()}
	for _, g := range list[:3] {
		switch g.Source {
		case "source-0":
			wantGap(t, g, Gap{Source: "source-0", Reason: "hold", From: time.Unix(0, away.from),
				To: time.Unix(0, away.to), Count: 2, IDs: []string{"seen and not saved", "alone"}})
		case "source-1":
			wantGap(t, g, Gap{Source: "source-1", Reason: "hold", From: time.Unix(0, away.from),
				To: time.Unix(0, away.to), Count: 1, IDs: []string{"alone"}})
		case "source-2":
			wantGap(t, g, Gap{Source: "source-2", Reason: "hold", From: at(62 * time.Second),
				To: time.Unix(0, away.to), Count: 1, IDs: []string{"born"}})
		}
	}
	if _, known := d.planes[dies.generation]; known || len(d.planes) != 2 {
		t.Errorf("data planes are %v", d.planes)
	}
}

func TestAnotherProcessOfTheSameNumberIsAnotherOne(t *testing.T) {
	for _, reboot := range []bool{false, true} {
		d := newDesk(t, bounds{})
		p := newFake(t, 1, 1, d.now)
		d.Attach(p.plane())
		p.count(0, 0, shmabi.ShedHold, 5)
		d.look(time.Second)
		d.save(false)
		d.now = d.now.Add(time.Hour)
		if reboot {
			d.boot++
		}
		d.kill()
		next := newFake(t, 1, 1, d.now)
		if reboot {
			next.pid = p.pid
		}
		next.count(0, 0, shmabi.ShedHold, 3)
		d.Attach(next.plane())
		d.look(time.Second)
		list := d.List(Filter{})
		if len(list) != 2 || list[0].Count != 3 || !list[0].From.Equal(at(time.Hour+time.Second)) {
			t.Errorf("reboot %v: gaps are %+v", reboot, list)
		}
	}
}

func TestADataPlaneIsReadALastTimeWhenItDied(t *testing.T) {
	d := newDesk(t, bounds{})
	p := newFake(t, 1, 1, d.now)
	d.Attach(p.plane())
	d.look(time.Second)
	p.refuse(0, 0, shmabi.ShedStopping, "last words")
	d.now = d.now.Add(time.Second)
	d.Detach(1, true)
	if g := d.one(); g.Count != 1 || len(g.IDs) != 1 {
		t.Errorf("gap %+v", g)
	}
	p.count(0, 0, shmabi.ShedStopping, 1) // nobody looks there any more
	d.look(time.Second)
	d.Detach(1, true)
	d.Detach(2, true)
	if g := d.one(); g.Count != 1 {
		t.Errorf("gap %+v", g)
	}
}

func TestAClockThatIsSetBreaksNoSpanAndNoOrder(t *testing.T) {
	d := newDesk(t, bounds{})
	p := newFake(t, 1, 1, d.now)
	d.Attach(p.plane())
	p.refuse(0, 0, shmabi.ShedHold, "a")
	d.look(time.Second)
	p.refuse(0, 0, shmabi.ShedHold, "b")
	d.look(-time.Hour)
	p.refuse(0, 0, shmabi.ShedHold, "c")
	d.look(time.Second)
	list := d.List(Filter{})
	if len(list) != 2 || !slices.Equal(list[0].IDs, []string{"b", "c"}) {
		t.Fatalf("gaps are %+v", list)
	}
	wantGap(t, list[0], Gap{Source: "source-0", Reason: "hold", From: at(time.Second - time.Hour),
		To: at(time.Second), Count: 2, IDs: []string{"b", "c"}})
}

func TestCountersThatGoBackAreNoRefusals(t *testing.T) {
	d := newDesk(t, bounds{})
	p := newFake(t, 1, 1, d.now)
	d.Attach(p.plane())
	p.count(0, 0, shmabi.ShedHold, 5)
	d.look(time.Second)
	p.count(0, 0, shmabi.ShedHold, ^uint64(0)-1) // 3
	d.look(time.Second)
	p.count(0, 0, shmabi.ShedHold, 1)
	d.look(time.Second)
	if g := d.one(); g.Count != 6 {
		t.Errorf("gap %+v", g)
	}
}

func TestADiskThatTakesNothingIsToleratedAndTriedAgain(t *testing.T) {
	d := newDesk(t, bounds{})
	var told strings.Builder
	d.o.Log = newLog(&told)
	p := newFake(t, 1, 1, d.now)
	d.Attach(p.plane())
	p.refuse(0, 0, shmabi.ShedJournal, "a")
	d.look(time.Second)
	must(t, d.faulty.Set("all", vfs.Fault{Op: vfs.OpWrite, Err: syscall.ENOSPC}))
	for range 3 {
		d.save(false)
	}
	if n := strings.Count(told.String(), "level=WARN"); n != 1 {
		t.Errorf("it is told %d times:\n%s", n, told.String())
	}
	if names := d.mem.Names("data"); len(names) != 0 {
		t.Errorf("a full disk holds %v", names)
	}
	d.faulty.Clear("")
	d.save(false)
	if n := strings.Count(told.String(), "saved again"); n != 1 {
		t.Errorf("it is told:\n%s", told.String())
	}
	d.kill()
	if g := d.one(); g.Count != 1 {
		t.Errorf("gap %+v", g)
	}
}

func TestItSavesWhatChangedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, bounds{})
		d.o.Now = time.Now
		var writes atomic.Int64
		d.o.Disk = counted{vfs.NewWhole(d.mem, ledgerFile), &writes}
		p := newFake(t, 1, 1, time.Now())
		d.Attach(p.plane())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			d.Run(ctx)
		}()
		pass := func(what string, span time.Duration, low, high int64) {
			t.Helper()
			time.Sleep(span)
			synctest.Wait()
			if n := writes.Swap(0); n < low || n > high {
				t.Errorf("%s: %d writes, want %d to %d", what, n, low, high)
			}
		}
		pass("the first one", 1500*time.Millisecond, 1, 1)
		pass("without a change", 30*time.Second, 0, 0)
		for range 50 {
			p.count(0, 0, shmabi.ShedHold, 1)
			time.Sleep(100 * time.Millisecond)
		}
		pass("once a second", 2*time.Second, 5, 7)
		pass("without a change", 50*time.Second, 0, 0)
		pass("to keep it young", 12*time.Second, 1, 1)
		p.count(0, 0, shmabi.ShedHold, 1)
		cancel()
		<-ended
		pass("at the end", 0, 1, 1)
		d.mem = d.mem.Kill(nil)
		d.open()
		var sum uint64
		for _, g := range d.List(Filter{}) {
			sum += g.Count
		}
		if sum != 51 {
			t.Errorf("%d refusals in the file", sum)
		}
	})
	if interval(0) != time.Second || interval(10<<20) != 40*time.Second {
		t.Errorf("intervals %v and %v", interval(0), interval(10<<20))
	}
}

// counted counts writes.
type counted struct {
	Disk
	writes *atomic.Int64
}

func (c counted) Write(b []byte) error {
	c.writes.Add(1)
	return c.Disk.Write(b)
}

func newLog(to io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(to, nil)) }
