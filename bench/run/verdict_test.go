package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/bench/referee"
)

// steady adds a phase to a record in which each second of each tier has so many requests, of which
// `ok` are answered 2xx after `took`, and the others refused.
type steady struct {
	offered, ok map[string]int
	took        time.Duration
}

func surge() trial {
	return trial{name: "surge", kind: kindTiers, tries: 1, phases: []phase{
		{offered: 1000, length: 2 * time.Second, slots: 8, service: 4 * time.Millisecond},
		{offered: 4000, length: 2 * time.Second, slots: 8, service: 4 * time.Millisecond},
		{offered: 1000, length: 3 * time.Second, slots: 8, service: 4 * time.Millisecond},
	}}
}

// play makes the outcome of a trial from what each of its phases was like.
func play(t trial, phases ...steady) outcome {
	o := outcome{trial: t, front: fronts[0], promises: &promises{acknowledged: 1}}
	delivery := 0
	for n, from := range t.starts() {
		p := phases[n]
		for second := from; second < from+t.phases[n].length; second += time.Second {
			for name, due := range p.offered {
				for i := range due {
					q := request{
						stream: name, delivery: delivery, try: 1, code: 200, took: p.took,
						due: second + time.Second*time.Duration(i)/time.Duration(due),
					}
					// Spread over the second, so that every window is like it.
					if ok := p.ok[name]; (i+1)*ok/due == i*ok/due {
						q.code, q.retryAfter = 503, 5+delivery%15
					}
					delivery++
					o.record.requests = append(o.record.requests, q)
				}
			}
		}
	}
	slices.SortFunc(o.record.requests, func(a, b request) int { return int(a.due - b.due) })
	return o
}

func calm() steady {
	tiers := map[string]int{"high": 200, "default": 500, "low": 300}
	return steady{offered: tiers, ok: tiers, took: 5 * time.Millisecond}
}

func loaded() steady {
	return steady{
		offered: map[string]int{"high": 800, "default": 2000, "low": 1200},
		ok:      map[string]int{"high": 800, "default": 1100, "low": 0},
		took:    30 * time.Millisecond,
	}
}

// missed gives the names of the gates that an outcome misses.
func missed(o outcome) []string {
	var names []string
	for _, v := range judge(o) {
		if v.Missed {
			names = append(names, v.Name)
		}
	}
	return names
}

func TestASurgeThatIsShedWellMeetsEveryGate(t *testing.T) {
	o := play(surge(), calm(), loaded(), calm())
	all := judge(o)
	if names := missed(o); len(names) > 0 {
		t.Fatalf("missed %q", names)
	}
	for _, word := range []string{
		"goodput", "high tier", "lower tier", "p99",
		"recovered", "without an answer", "Retry-After", "exactly once",
	} {
		named := func(v referee.Gate) bool { return strings.Contains(v.Name, word) }
		if !slices.ContainsFunc(all, named) {
			t.Errorf("no gate on %q", word)
		}
	}
}

func TestEachGateIsMissedByWhatItIsAbout(t *testing.T) {
	for want, spoil := range map[string]func(*outcome){
		"goodput at least": func(o *outcome) {
			bad := loaded()
			bad.ok["default"] = 900 // 1700 of 2000
			*o = play(o.trial, calm(), bad, calm())
		},
		"high tier": func(o *outcome) {
			bad := loaded()
			bad.ok["high"] = 790 // 10 of 800
			*o = play(o.trial, calm(), bad, calm())
		},
		"in an overload a lower tier": func(o *outcome) {
			bad := loaded()
			bad.ok = map[string]int{"high": 800, "default": 700, "low": 480} // 65 and 60 % shed
			*o = play(o.trial, calm(), bad, calm())
		},
		"p99 of the admitted": func(o *outcome) {
			bad := loaded()
			bad.took = 63 * time.Millisecond
			*o = play(o.trial, calm(), bad, calm())
		},
		"recovered within": func(o *outcome) {
			// Five windows in a row are good from 1.2 s on.
			for i, r := range o.record.requests {
				early := r.due >= 4*time.Second && r.due < 5200*time.Millisecond
				if early && r.stream == "low" && r.delivery%4 == 0 {
					o.record.requests[i].code, o.record.requests[i].retryAfter = 503, 9
				}
			}
		},
		"no request without": func(o *outcome) {
			o.record.requests[7].code, o.record.requests[7].fault = 0, "closed"
		},
		"every refusal has": func(o *outcome) {
			for i, r := range o.record.requests {
				if r.shed() {
					o.record.requests[i].retryAfter = 0
					return
				}
			}
		},
		"the data plane's memory": func(o *outcome) {
			for second := range 8 {
				o.looks = append(o.looks, look{at: time.Duration(second) * time.Second,
					rss: map[string]memoryUse{"dataplane": {anon: int64(10+40*second) << 20}}})
			}
		},
		"every 2xx is in": func(o *outcome) { o.promises.missing = 1 },
	} {
		o := play(surge(), calm(), loaded(), calm())
		spoil(&o)
		if names := missed(o); len(names) != 1 || !strings.HasPrefix(names[0], want) {
			t.Errorf("%s: missed %q", want, names)
		}
	}
}

func TestTheHighTierIsNotJudgedWhereItDoesNotFit(t *testing.T) {
	slow := surge()
	slow.phases[1].service = 40 * time.Millisecond
	bad := loaded()
	bad.ok = map[string]int{"high": 200}
	bad.took = 170 * time.Millisecond
	if names := missed(play(slow, calm(), bad, calm())); len(names) > 0 {
		t.Errorf("missed %q", names)
	}
	bad.took = 241 * time.Millisecond // over six times 40 ms
	if names := missed(play(slow, calm(), bad, calm())); len(names) != 1 {
		t.Errorf("missed %q", names)
	}
}

func TestRetryAfterHasToDiffer(t *testing.T) {
	var requests []request
	for n := range 1000 {
		requests = append(requests, request{code: 503, retryAfter: 10 + n%5})
	}
	if v := judgeRetryAfter(requests); v.Met() {
		t.Errorf("10 to 14 s passed for a jitter: %s", v.Shown)
	}
	requests[0].retryAfter = 20
	if v := judgeRetryAfter(requests); v.Missed {
		t.Errorf("10 to 20 s: %s", v.Shown)
	}
	if v := judgeRetryAfter(nil); v.Missed {
		t.Error("nothing was refused, and that was missed")
	}
	if v := judgeRetryAfter([]request{{code: 429, retryAfter: 3}, {code: 200}}); v.Missed {
		t.Errorf("one refusal has nothing to differ from: %s", v.Shown)
	}
}

func TestACrowdIsJudgedByTheWorstOfItsSources(t *testing.T) {
	crowd := trial{kind: kindCrowd, senders: 3, loud: 50, phases: []phase{
		{offered: 4000, length: time.Second, slots: 8, service: 4 * time.Millisecond},
	}}
	one := steady{
		offered: map[string]int{"quiet-01": 100, "quiet-02": 100, "loud": 3800},
		ok:      map[string]int{"quiet-01": 100, "quiet-02": 95, "loud": 1800},
		took:    time.Millisecond,
	}
	if names := missed(play(crowd, one)); len(names) > 0 {
		t.Errorf("missed %q", names)
	}
	one.ok["quiet-02"] = 94
	names := missed(play(crowd, one))
	if len(names) != 1 || !strings.HasPrefix(names[0], "each source but") {
		t.Errorf("missed %q", names)
	}
}

func TestReturnIsCountedFromTheControlPlanesReturn(t *testing.T) {
	stop := trial{kind: kindStop, at: time.Second, lasts: 2 * time.Second, phases: []phase{
		{offered: 4000, length: 10 * time.Second, slots: 8, service: 4 * time.Millisecond},
	}}
	for _, c := range []struct {
		badUntil time.Duration
		met      bool
	}{{3 * time.Second, true}, {4900 * time.Millisecond, true}, {5200 * time.Millisecond, false},
		{10 * time.Second, false}} {
		o := play(stop, loaded())
		o.back = 3 * time.Second
		for i, r := range o.record.requests {
			if r.due > time.Second && r.due < c.badUntil {
				o.record.requests[i].code, o.record.requests[i].retryAfter = 503, 5+i%15
			}
		}
		if v := judgeBack(o); v.Met() != c.met {
			t.Errorf("bad until %v: %+v", c.badUntil, v)
		}
	}
	if v := judgeBack(play(stop, loaded())); v.Met() {
		t.Error("it never returned, and that was met")
	}
}

func TestProbesAreJudgedByCodeAndTime(t *testing.T) {
	good := []request{{code: 200, took: time.Millisecond}, {code: 401, took: probeWithin}}
	if v := judgeProbes(good); v.Missed {
		t.Errorf("%+v", v)
	}
	for name, bad := range map[string]request{
		"refused": {code: 503}, "lost": {}, "late": {code: 401, took: probeWithin + 1},
	} {
		if v := judgeProbes(append(slices.Clone(good), bad)); v.Met() {
			t.Errorf("%s: %+v", name, v)
		}
	}
	if judgeProbes(nil).Met() {
		t.Error("no probe at all was met")
	}
}

func TestADisturbedTrialIsNotJudged(t *testing.T) {
	for _, o := range []outcome{{other: 0.5}, {generator: 0.45}} {
		if o.noisy() == "" {
			t.Errorf("%+v is judged", o)
		}
	}
	if why := (outcome{other: 0.4, generator: 0.4}).noisy(); why != "" {
		t.Error(why)
	}
}

func TestPromises(t *testing.T) {
	ledger, err := readLedger(strings.NewReader("d1 e1\nd2 -\nd3 e3\nd3 e9\nd4 e4\nd5 e5\n"))
	if err != nil || len(ledger) != 5 || ledger["d3"] != "e3" {
		t.Fatalf("ledger %v, %v", ledger, err)
	}
	stored, err := readStored([]byte(`{"id":"e1","provider_id":"d1"}
{"id":"e2","provider_id":"d2"}
{"id":"e3","provider_id":"d3"}
{"id":"x4","provider_id":"d4"}
{"id":"e5","provider_id":"d5"}
{"id":"e6","provider_id":"d5"}
{"id":"e7","provider_id":"d7"}
`))
	if err != nil {
		t.Fatal(err)
	}
	p := comparePromises(ledger, stored)
	if p != (promises{acknowledged: 5, strange: 1, twice: 1, more: 1}) || p.kept() {
		t.Errorf("%+v", p)
	}
	if p := comparePromises(ledger, stored[1:2]); p.missing != 4 || p.kept() {
		t.Errorf("%+v", p)
	}
	delete(ledger, "d4")
	delete(ledger, "d5")
	if p := comparePromises(ledger, stored[:3]); !p.kept() || p.acknowledged != 3 {
		t.Errorf("%+v", p)
	}
	if _, err := readLedger(strings.NewReader("only-one-word\n")); err == nil {
		t.Error("a line without an event was read")
	}
	if _, err := readStored([]byte("{")); err == nil {
		t.Error("half an object was read")
	}
}

func TestMemoryOfAProcess(t *testing.T) {
	m, err := parseMemory("Name:\tx\nVmRSS:\t    2048 kB\nRssAnon:\t    1024 kB\nThreads:\t3\n")
	if err != nil || m != (memoryUse{all: 2 << 20, anon: 1 << 20}) {
		t.Fatalf("%+v, %v", m, err)
	}
	if _, err := parseMemory("Name:\tx\n"); err == nil {
		t.Error("a process without memory was read")
	}
}

func TestCPUOfAPartIsThatOfOneProcess(t *testing.T) {
	at := func(pid int, own, user float64) look {
		return look{parts: map[string]referee.Process{"app": {PID: pid, Own: own, User: user}}}
	}
	if all, user := spent(at(1, 2, 1), at(1, 5, 1.5), "app"); all != 3 || user != 0.5 {
		t.Errorf("%v, %v", all, user)
	}
	if all, _ := spent(at(1, 2, 1), at(2, 5, 1.5), "app"); all != 0 {
		t.Errorf("another process was charged %v", all)
	}
	if all, _ := spent(look{}, at(2, 5, 1.5), "app"); all != 0 {
		t.Errorf("a process that was not there was charged %v", all)
	}
}

func TestALookIsFoundByItsTime(t *testing.T) {
	var looks []look
	for n := range 5 {
		looks = append(looks, look{at: time.Duration(n)*time.Second + 30*time.Millisecond,
			generator: float64(n) * 0.2})
	}
	for at, want := range map[time.Duration]float64{
		0: 0, 2 * time.Second: 0.4, 2400 * time.Millisecond: 0.4, 99 * time.Second: 0.8,
	} {
		if got := lookAt(looks, at).generator; got != want {
			t.Errorf("at %v: %v, want %v", at, got, want)
		}
	}
	if got := busiest(looks); got < 0.199 || got > 0.201 {
		t.Errorf("the busiest second used %v", got)
	}
}

func TestWhatARefusalCosts(t *testing.T) {
	canned := cost{requests: 1000000, all: 8, user: 1.5}
	for want, shed := range map[string]cost{
		"":       {requests: 500000, all: 4.2, user: 0.8},
		"times":  {requests: 500000, all: 4.5, user: 0.8},
		"under":  {requests: 500000, all: 4.2, user: 1.0},
		"nearly": {requests: 500000, all: 4.2, user: 0.8},
		"lost":   {requests: 500000, all: 4.2, user: 0.8},
	} {
		part, lost := 0.99, 0
		switch want {
		case "nearly":
			part = 0.9
		case "lost":
			lost = 1
		}
		var names []string
		for _, v := range judgeRefusals(shed, canned, part, lost) {
			if v.Missed {
				names = append(names, v.Name)
			}
		}
		found := slices.ContainsFunc(names, func(n string) bool { return strings.Contains(n, want) })
		if (want == "") != (len(names) == 0) || (want != "" && !found) {
			t.Errorf("%q: missed %q", want, names)
		}
	}
	if d := (cost{user: 4}).doubt(); d < 0.031 || d > 0.032 {
		t.Errorf("1000 looks have an error of %v", d)
	}
}

func TestTablesShowEveryPhaseAndSecond(t *testing.T) {
	o := play(surge(), calm(), loaded(), calm())
	for second := range 8 {
		at := time.Duration(second) * time.Second
		o.looks = append(o.looks, look{
			at:      at,
			parts:   map[string]referee.Process{"dataplane": {PID: 1, Own: float64(second) * 0.05}},
			rss:     map[string]memoryUse{"dataplane": {all: 30 << 20, anon: 9 << 20}},
			metrics: map[string]float64{metricLimit: 10 + float64(second), metricService: 0.004},
		})
	}
	var out strings.Builder
	printPhases(&out, []outcome{o})
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 4 {
		t.Fatalf("want a head and three phases:\n%s", out.String())
	}
	for n, wants := range [][]string{
		{"offered/s", "recovery"},
		{"slope", "1000", "2000", "100.0 %", "11-12", "30"},
		{"4000", "1900", "95.0 %", "30.0", "45.0 %", "100.0 %", "4.0"},
		{"1000", "0.0 s"},
	} {
		for _, want := range wants {
			if !strings.Contains(lines[n], want) {
				t.Errorf("line %d has no %q:\n%s", n, want, out.String())
			}
		}
	}
	out.Reset()
	printSeconds(&out, o)
	if got := strings.Count(out.String(), "\n"); got != 2+1+7 {
		t.Errorf("%d lines:\n%s", got, out.String())
	}
}

func TestDeliveriesOfARetryStorm(t *testing.T) {
	storm := trial{tries: 3, phases: surge().phases}
	o := outcome{trial: storm, record: record{after: 1}}
	for n := range 4 {
		o.record.requests = append(o.record.requests,
			request{delivery: n, try: 1, due: 3 * time.Second, code: 503})
		if n < 3 {
			o.record.requests = append(o.record.requests,
				request{delivery: n, try: 2, due: 5 * time.Second, code: 200})
		}
	}
	text := o.deliveries()
	for _, want := range []string{
		"75.0 % of 4 deliveries", "1.75 tries", "at most 3 tries", "1 repeats",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in %q", want, text)
		}
	}
}
