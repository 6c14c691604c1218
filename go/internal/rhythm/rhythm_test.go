package rhythm

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

func seeded(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("SLUICE_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("SLUICE_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// monday is the beginning of a week of work.
var monday = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

const step = 20 * time.Second

// sender sends with a probability in each step.
type sender func(at time.Time) float64

// steady sends all the time, so many a minute in the mean.
func steady(perMinute float64) sender {
	return func(time.Time) float64 { return perMinute * step.Minutes() }
}

// working sends in the hours of work alone.
func working(perMinute float64) sender {
	return func(at time.Time) float64 {
		if d := at.Weekday(); d == time.Saturday || d == time.Sunday || at.Hour() < 8 || at.Hour() > 17 {
			return 0
		}
		return perMinute * step.Minutes()
	}
}

// bursts sends for a minute every few hours, and not always.
func bursts(random *rand.Rand) sender {
	skip := false
	return func(at time.Time) float64 {
		if at.Hour()%4 != 0 || at.Minute() > 1 {
			skip = random.IntN(4) == 0
			return 0
		}
		if skip {
			return 0
		}
		return 1
	}
}

// observe lets time pass and gives when the silence was first unusual; zero: never.
func (r *Rhythm) observe(from time.Time, span time.Duration, s sender,
	random *rand.Rand) (alarm time.Time) {
	for at := from; at.Before(from.Add(span)); at = at.Add(step) {
		r.Observe(at, random.Float64() < s(at))
		if alarm.IsZero() && r.Silence(at).Unusual {
			alarm = at
		}
	}
	return alarm
}

const day = 24 * time.Hour

var silent = steady(0)

func TestASenderInItsRhythmIsNeverUnusual(t *testing.T) {
	random := seeded(t)
	for name, s := range map[string]sender{
		"many": steady(50), "one a minute": steady(1), "few": steady(0.02), "at work": working(2),
		"bursts": bursts(random), "nothing": silent,
	} {
		var r Rhythm
		if at := r.observe(monday, 6*week, s, random); !at.IsZero() {
			t.Errorf("%s: an alarm after %v: %+v", name, at.Sub(monday), r.Silence(at))
		}
	}
}

func TestASenderThatStopsIsUnusualSoonByItsOwnMeasure(t *testing.T) {
	random := seeded(t)
	noon := 3*week + 12*time.Hour // a Monday's
	for name, c := range map[string]struct {
		sender
		within time.Duration
	}{
		"many": {steady(50), 45 * time.Minute}, "one a minute": {steady(1), 2 * time.Hour},
		"at work": {working(2), 3 * time.Hour}, "bursts": {bursts(random), 4 * day},
	} {
		var r Rhythm
		r.observe(monday, noon, c.sender, random)
		at := r.observe(monday.Add(noon), 2*week, silent, random)
		if since := at.Sub(monday.Add(noon)); at.IsZero() || since > c.within {
			t.Errorf("%s: an alarm after %v, want one within %v", name, since, c.within)
		}
	}
}

func TestANightAndAWeekendWeighNothingWhereNobodySendsThen(t *testing.T) {
	random := seeded(t)
	var r Rhythm
	friday := 3*week + 4*day + 18*time.Hour
	r.observe(monday, friday, working(5), random)
	at := r.observe(monday.Add(friday), 2*day+13*time.Hour, silent, random)
	if !at.IsZero() {
		t.Errorf("an alarm on %v", at.Weekday())
	}
	if at := r.observe(monday.Add(4*week+8*time.Hour), 2*time.Hour, silent, random); at.IsZero() {
		t.Error("no alarm on Monday, though nothing comes")
	}
}

func TestNothingIsUnusualInTheFirstDay(t *testing.T) {
	random := seeded(t)
	var r Rhythm
	r.observe(monday, 12*time.Hour, steady(50), random)
	if at := r.observe(monday.Add(12*time.Hour), 12*time.Hour-step, silent, random); !at.IsZero() {
		t.Errorf("an alarm after %v", at.Sub(monday))
	}
}

func TestNobodyIsSilentWhileNobodyListens(t *testing.T) {
	random := seeded(t)
	var r Rhythm
	r.observe(monday, 3*week, steady(5), random)
	later := monday.Add(3*week + 5*day)
	if s := r.Silence(later); s.Unusual {
		t.Errorf("before the first look: %+v", s)
	}
	r.Observe(later, false)
	if s := r.Silence(later); s.Unusual || s.For != 0 {
		t.Errorf("at the first look: %+v", s)
	}
	before := r.Hours
	r.Observe(later.Add(2*time.Hour), false)
	if r.Hours != before {
		t.Error("an hour that nobody observed taught something")
	}
	if at := r.observe(later.Add(2*time.Hour), day, silent, random); at.IsZero() {
		t.Error("no alarm after it listened for a day")
	}
}

func TestAClockThatIsSetAlarmsNobody(t *testing.T) {
	random := seeded(t)
	var r Rhythm
	r.observe(monday, 3*week, steady(5), random)
	for _, by := range []time.Duration{-3 * day, 40 * day, -time.Minute} {
		at := time.Unix(r.Looked, 0).Add(by)
		r.Observe(at, false)
		if s := r.Silence(at); s.Unusual || s.For != 0 {
			t.Errorf("set by %v: %+v", by, s)
		}
	}
}

func TestARhythmIsTheSameAfterItWasKept(t *testing.T) {
	random := seeded(t)
	var r, again Rhythm
	r.observe(monday, 9*day, bursts(random), random)
	text, err := json.Marshal(&r)
	if err == nil {
		err = json.Unmarshal(text, &again)
	}
	if err != nil || r != again || len(text) > 8<<10 {
		t.Errorf("%v, %d bytes, the same %v", err, len(text), r == again)
	}
}
