package breaker

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/go/internal/retry"
)

// bed is one breaker with one member and a clock.
type bed struct {
	t   *testing.T
	b   *Breaker
	now time.Time
}

func newBed(t *testing.T, c Config) *bed {
	b := New("billing", "a", c, began)
	b.Members([]uint32{1})
	b.Limit(16)
	return &bed{t: t, b: b, now: began}
}

// pass lets time pass in steps of a tick.
func (d *bed) pass(span time.Duration) {
	for end := d.now.Add(span); d.now.Before(end); d.b.Advance(d.now) {
		d.now = d.now.Add(min(end.Sub(d.now), meterTick))
	}
}

func (d *bed) take(n int) {
	d.t.Helper()
	room, _ := d.b.Room(d.now, 1, n)
	if room < n {
		d.t.Fatalf("room for %d of %d, %v", room, n, d.b.State())
	}
	d.b.Take(1, n)
}

// flow lets n attempts a second end well.
func (d *bed) flow(n int, span time.Duration) {
	for end := d.now.Add(span); d.now.Before(end); d.pass(time.Second) {
		for range n {
			d.take(1)
			d.b.Report(d.now, attempt("ok", "", 0))
		}
	}
}

func (d *bed) want(s State) {
	d.t.Helper()
	if d.b.State() != s {
		d.t.Errorf("%v (%s), want %v", d.b.State(), d.b.Look(d.now).Reason, s)
	}
}

func TestWhatBeganBeforeItOpenedSaysNothing(t *testing.T) {
	d := newBed(t, Config{Failures: 2, Cooldown: 10 * time.Second, CooldownMax: time.Minute})
	d.take(10)
	d.pass(time.Millisecond)
	fail := func(took time.Duration) {
		d.b.Report(d.now, Attempt{Verdict: retry.Retry, Took: took, Err: errors.New("reset")})
	}
	fail(0)
	fail(0)
	d.want(Open)
	d.pass(10 * time.Second)
	d.b.Room(d.now, 1, 1)
	d.b.Grant(d.now, 1, d.now.Add(time.Minute))
	d.take(1)
	d.pass(time.Second)
	for range 4 { // they ran into their timeout while the probe is out
		fail(d.now.Sub(began))
	}
	if d.b.atProbe() == false || !d.b.probe.flying {
		t.Errorf("%v", d.b.Look(d.now).Reason)
	}
	d.b.Report(d.now, attempt("ok", "", time.Second))
	for range 4 {
		fail(d.now.Sub(began))
	}
	if d.b.Look(d.now).Phase != "ramp" {
		t.Errorf("%v", d.b.Look(d.now).Reason)
	}
	if d.b.inflight != 0 {
		t.Errorf("%d in flight", d.b.inflight)
	}
}

func TestAWithdrawalBesideStragglersIsNotTakenForTheProbe(t *testing.T) {
	d := newBed(t, Config{Failures: 1, Cooldown: 10 * time.Second})
	d.take(3)
	d.b.Report(d.now, attempt("fail", "", 0))
	d.pass(10 * time.Second)
	d.b.Room(d.now, 1, 1)
	d.b.Grant(d.now, 1, d.now.Add(time.Minute))
	d.take(1)
	d.b.Withdraw(1) // of the two from before, or the probe: nobody knows
	if room, _ := d.b.Room(d.now, 1, 1); room != 0 {
		t.Error("a second probe")
	}
	d.b.Withdraw(1)
	d.b.Withdraw(1) // the last one in flight
	if d.b.probe.flying {
		t.Error("a probe flies though nothing is in flight")
	}
}

func TestAJamTrips(t *testing.T) {
	d := newBed(t, Config{Inflight: true})
	d.flow(50, time.Minute)
	d.take(15)
	d.pass(2 * time.Second)
	d.want(Closed) // it may be a hiccup
	d.pass(15 * time.Second)
	d.want(Open)
	if reason := d.b.Look(d.now).Reason; !strings.Contains(reason, "15 of 16 attempts in flight") {
		t.Error(reason)
	}
}

func TestWhatIsNoJam(t *testing.T) {
	for name, play := range map[string]func(*bed){
		"a drained queue": func(d *bed) {
			d.flow(50, time.Minute)
			d.pass(time.Hour)
		},
		"a few that take long": func(d *bed) {
			d.flow(50, time.Minute)
			d.take(13)
			d.pass(time.Hour)
		},
		"a start without a baseline": func(d *bed) {
			d.take(16)
			d.pass(time.Hour)
		},
		"a few seconds of a baseline": func(d *bed) {
			d.flow(50, 5*time.Second)
			d.take(16)
			d.pass(20 * time.Second)
		},
		"a limit of two": func(d *bed) {
			d.b.Limit(2)
			d.flow(50, time.Minute)
			d.take(2)
			d.pass(time.Hour)
		},
		"no limit known": func(d *bed) {
			d.b.Limit(0)
			d.flow(50, time.Minute)
			d.take(100)
			d.pass(time.Hour)
		},
		"a destination that is always full and slow": func(d *bed) {
			d.b.Limit(3)
			d.take(3)
			for range 200 {
				d.pass(10 * time.Second)
				d.b.Report(d.now, attempt("ok", "", 30*time.Second))
				d.take(1)
			}
		},
		"full and half as fast": func(d *bed) {
			d.flow(50, time.Minute)
			d.take(16)
			d.flow(25, 5*time.Minute)
		},
		"switched off": func(d *bed) {
			d.b.Configure(d.now, Config{})
			d.flow(50, time.Minute)
			d.take(16)
			d.pass(time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newBed(t, Config{Inflight: true})
			play(d)
			d.want(Closed)
		})
	}
}

func TestALevelHasToBeSickForLongEnough(t *testing.T) {
	d := newBed(t, Config{})
	locks := func(value float64) {
		d.b.Level(d.now, Level{
			Signal: "locks", Value: value, Trip: 5, Recover: 1, For: 3 * time.Second,
		})
	}
	for range 10 { // never three seconds without a break
		locks(7)
		d.pass(2 * time.Second)
		locks(7)
		d.pass(500 * time.Millisecond)
		locks(4)
	}
	d.want(Closed)
	locks(7)
	d.pass(time.Minute)
	d.b.Stale(d.now, "locks", "gone")
	d.pass(time.Minute)
	d.want(Closed) // a dead source never trips
	locks(7)
	d.want(Open)
}

func TestTimeNeverGoesBack(t *testing.T) {
	d := newBed(t, Config{Failures: 1, Cooldown: 10 * time.Second})
	d.take(1)
	d.b.Report(d.now, attempt("fail", "", 0))
	d.pass(9 * time.Second)
	d.b.Advance(d.now.Add(-time.Hour))
	if room, wait := d.b.Room(d.now.Add(-time.Hour), 1, 1); room != 0 || wait != time.Second {
		t.Errorf("room %d, wait %v", room, wait)
	}
	d.pass(time.Second)
	d.want(HalfOpen)
}

func TestAReloadKeepsTheState(t *testing.T) {
	d := newBed(t, Config{Failures: 1, Cooldown: 10 * time.Second})
	d.take(1)
	d.b.Report(d.now, attempt("fail", "", 0))
	d.b.Configure(d.now, Config{Failures: 7, Cooldown: 20 * time.Second})
	d.want(Open)
	d.pass(10 * time.Second)
	d.want(HalfOpen)
	d.b.Members([]uint32{1, 2})
	if !d.b.waiting[2] {
		t.Error("who joins has not drained yet")
	}
	d.b.Room(d.now, 2, 1)
	d.b.Grant(d.now, 1, d.now.Add(time.Minute))
	d.b.Take(2, 1)
	d.b.Members([]uint32{1}) // the member with the probe goes
	d.b.Withdraw(1)
	d.pass(ProbePause)
	d.b.Room(d.now, 1, 1)
	if !d.b.WantsProbe() {
		t.Error("nobody can probe any more")
	}
}

func TestNotesAreOrdered(t *testing.T) {
	ordered := []Note{
		{Term: 1, Host: "z", State: Open, Forced: true},
		{Term: 2, Host: "z", State: Closed},
		{Term: 2, Host: "a", State: HalfOpen, Step: 3},
		{Term: 2, Host: "b", State: HalfOpen, Step: 3},
		{Term: 2, Host: "a", State: HalfOpen, Step: 0},
		{Term: 2, Host: "a", State: Open},
		{Term: 2, Host: "a", State: Closed, Forced: true},
	}
	for i, n := range ordered {
		for j, o := range ordered {
			if got := n.Compare(o); got != sign(i-j) {
				t.Errorf("%v against %v: %d", n, o, got)
			}
		}
	}
}

func sign(n int) int { return min(max(n, -1), 1) }

func TestTheMoreCautiousOfTwoIsToldAgain(t *testing.T) {
	d := newBed(t, Config{Failures: 1})
	d.take(1)
	d.b.Report(d.now, attempt("fail", "", 0))
	d.b.Collect()
	if d.b.Hear(d.now, Note{Breaker: "billing", Host: "b", Term: 1, State: HalfOpen, Step: 2}) {
		t.Error("less cautious, and taken")
	}
	d.want(Open)
	if out := d.b.Collect(); !out.Publish || d.b.Note().Term != 2 || d.b.Note().Host != "a" {
		t.Errorf("%v, %v", out, d.b.Note())
	}
}

func TestACooldownFromElsewhereEndsWithItsHosts(t *testing.T) {
	for _, test := range []struct{ passed, left time.Duration }{
		{0, 20 * time.Second},
		{15 * time.Second, 5 * time.Second},
		{time.Hour, 0},                 // an old note
		{-time.Hour, 20 * time.Second}, // its clock is ahead
	} {
		d := newBed(t, Config{Cooldown: 10 * time.Second})
		at := d.now.Add(-test.passed)
		d.b.Hear(d.now, Note{
			Breaker: "billing", Host: "b", Term: 3, State: Open, At: at, Until: at.Add(20 * time.Second),
			Cooldown: 20 * time.Second,
		})
		if _, wait := d.b.Room(d.now, 1, 1); wait != test.left {
			t.Errorf("%v passed: wait %v, want %v", test.passed, wait, test.left)
		}
		if test.left > 0 && d.b.cooldown != 20*time.Second {
			t.Errorf("cooldown %v", d.b.cooldown)
		}
	}
}

func TestAHostThatBeginsTakesPartInTheRamp(t *testing.T) {
	n := Note{Breaker: "billing", Host: "b", Term: 9, State: HalfOpen, Step: 2, At: began}
	fresh := newBed(t, Config{})
	fresh.b.Hear(fresh.now, n)
	if l := fresh.b.Look(fresh.now); l.Rate != 50 {
		t.Errorf("%v %v/s", l.State, l.Rate)
	}
	old := newBed(t, Config{})
	old.b.Hear(old.now, Note{Breaker: "billing", Host: "b", Term: 8, State: Closed, At: began})
	old.b.Hear(old.now, n) // the other one still drains its own
	old.want(Closed)
	n.Term, n.Step = 10, 0 // it opened, and nobody told
	old.b.Hear(old.now, n)
	old.want(HalfOpen)
}

func TestAReasonQuotesOneLineOfBoundedLength(t *testing.T) {
	d := newBed(t, Config{Failures: 1})
	d.take(1)
	d.b.Report(d.now, Attempt{
		Verdict: retry.Retry, Err: fmt.Errorf("first\r\n\tsecond %s", strings.Repeat("é", 500)),
	})
	reason := d.b.Look(d.now).Reason
	if !strings.HasPrefix(reason, "failed: first second é") || len(reason) > quoteMax+20 ||
		!strings.HasSuffix(reason, "é…") {
		t.Errorf("%q", reason)
	}
}

func TestADestinationWithPoisonedEventsComesBack(t *testing.T) {
	d := newBed(t, Config{Failures: 5, Ratio: 0.15, Samples: 20})
	for range 5 {
		d.take(1)
		d.b.Report(d.now, attempt("fail", "", 0))
	}
	d.pass(30 * time.Second)
	d.b.Room(d.now, 1, 1)
	d.b.Grant(d.now, 1, d.now.Add(time.Minute))
	for i := 0; d.now.Sub(began) < 10*time.Minute && d.b.State() != Closed; i++ {
		room, _ := d.b.Room(d.now, 1, 1)
		if room == 0 {
			d.now = d.now.Add(5 * time.Millisecond)
			continue
		}
		d.b.Take(1, 1)
		kind := "ok"
		if i%10 == 9 { // every tenth fails whatever the rate
			kind = "fail"
		}
		d.b.Report(d.now, attempt(kind, "", 0))
		d.now = d.now.Add(4 * time.Millisecond)
		if d.b.Look(d.now).Phase == "drain" {
			d.b.Drained(d.now, 1)
		}
	}
	d.want(Closed)
}

// recover brings a bed from OPEN into the ramp.
func (d *bed) recover() {
	d.t.Helper()
	d.pass(d.b.cooldown)
	d.b.Room(d.now, 1, 1)
	d.b.Grant(d.now, 1, d.now.Add(time.Minute))
	d.take(1)
	d.b.Report(d.now, attempt("ok", "", 0))
	if d.b.Look(d.now).Phase != "ramp" {
		d.t.Fatalf("%v", d.b.Look(d.now).Reason)
	}
}

func TestStragglersThatHangAreNoJamInTheRamp(t *testing.T) {
	d := newBed(t, Config{Failures: 1, Inflight: true, RampStep: time.Hour})
	d.flow(50, time.Minute)
	d.take(17)
	d.pass(time.Second)
	d.b.Report(d.now, attempt("fail", "", 0))
	d.recover()
	d.pass(time.Second)
	d.flow(1, 5*time.Minute)
	d.want(HalfOpen)
}

func TestASickLevelKeepsItFromClosing(t *testing.T) {
	d := newBed(t, Config{Failures: 1, Cooldown: 10 * time.Second})
	d.take(1)
	d.b.Report(d.now, attempt("fail", "", 0))
	d.recover()
	lag := Level{Signal: "lag", Value: 9, Trip: 5, Recover: 1, For: time.Hour}
	d.b.Level(d.now, lag)
	d.b.Drained(d.now, 1)
	d.pass(time.Minute)
	d.want(HalfOpen)
	lag.Value = 0
	d.b.Level(d.now, lag)
	d.pass(9 * time.Second)
	d.want(HalfOpen)
	d.pass(time.Second)
	d.want(Closed)
}
