package breaker

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/go/internal/retry"
)

var rewrite = flag.Bool("rewrite", false, "write the scenarios in testdata anew")

// TestScenarios plays testdata/*.txt and compares all that comes out. A line with $ is an input,
// what follows it is the output:
//
//	$ config failures=3 cooldown=10s      before all else; what is not named is off or default
//	$ wait 10s
//	$ ask 16                              for room, taking nothing
//	$ ok 20 | fail 5 TEXT | refuse 1 | busy 1 30s      attempts, each admitted first
//	$ take 1 | end ok | withdraw 1 | drained           attempts step by step
//	$ level NAME VALUE | stale NAME TEXT | forget NAME (trip 0.85, recover 0.5)
//	$ grant 15s | refused | hosts 2 | force open 10m | release | hear closed TERM
//	$ look
func TestScenarios(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d scenarios, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(want))
			if got == string(want) {
				return
			}
			if *rewrite {
				if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			wants, gots := strings.Split(string(want), "\n"), strings.Split(got, "\n")
			for i := range gots {
				if i >= len(wants) || wants[i] != gots[i] {
					t.Fatalf("%s:%d is otherwise now (-rewrite takes it over): %s", path, i+1, gots[i])
				}
			}
			t.Fatalf("%s has more lines than came out", path)
		})
	}
}

// stage is one breaker with one member in a scenario.
type stage struct {
	t   *testing.T
	b   *Breaker
	now time.Time
	out strings.Builder
}

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func play(t *testing.T, script string) string {
	s := &stage{t: t, now: began}
	quiet := true
	for line := range strings.Lines(script) {
		line = strings.TrimSuffix(line, "\n")
		input, isInput := strings.CutPrefix(line, "$ ")
		switch {
		case isInput:
			fmt.Fprintln(&s.out, line)
			s.step(strings.Fields(input))
			quiet = false
		case strings.HasPrefix(line, "#"), line == "":
			if !quiet && line == "" || strings.HasPrefix(line, "#") {
				fmt.Fprintln(&s.out, line)
			}
			quiet = line == ""
		}
	}
	return s.out.String()
}

func (s *stage) step(words []string) {
	verb, args := words[0], words[1:]
	arg := func(i int) string {
		if i < len(args) {
			return args[i]
		}
		return ""
	}
	if s.b == nil && verb != "config" {
		s.t.Fatal("a scenario begins with config")
	}
	switch verb {
	case "config":
		s.b = New("billing", "a", s.config(args), s.now)
		s.b.Members([]uint32{1})
	case "wait":
		// In steps, as the service does.
		for end := s.now.Add(s.span(arg(0))); s.now.Before(end); s.b.Advance(s.now) {
			s.now = s.now.Add(min(end.Sub(s.now), 200*time.Millisecond))
			s.told()
		}
	case "ask":
		room, wait := s.b.Room(s.now, 1, s.count(arg(0)))
		s.say("room %d, wait %v", room, wait.Round(time.Millisecond))
		if s.b.WantsProbe() {
			s.say("wants a lease")
		}
	case "ok", "fail", "refuse", "busy":
		s.attempts(verb, s.count(arg(0)), strings.Join(args[1:], " "))
	case "take":
		s.b.Take(1, s.count(arg(0)))
	case "end":
		s.b.Report(s.now, attempt(arg(0), "", 0))
	case "withdraw":
		s.b.Withdraw(s.count(arg(0)))
	case "drained":
		s.b.Drained(s.now, 1)
	case "level":
		value, err := strconv.ParseFloat(arg(1), 64)
		if err != nil {
			s.t.Fatal(err)
		}
		s.b.Level(s.now, Level{
			Signal: arg(0), Value: value, Trip: 0.85, Recover: 0.5, Pool: arg(0) == "pool",
		})
	case "stale":
		s.b.Stale(s.now, arg(0), strings.Join(args[1:], " "))
	case "forget":
		s.b.Forget(s.now, arg(0))
	case "grant":
		s.say("taken: %v", s.b.Grant(s.now, 1, s.now.Add(s.span(arg(0)))))
	case "refused":
		s.b.Refuse(s.now)
	case "hosts":
		s.b.Hosts(s.now, s.count(arg(0)))
	case "force":
		state, err := ParseState(arg(0))
		until := time.Time{}
		if arg(1) != "" {
			until = s.now.Add(s.span(arg(1)))
		}
		if err = errors.Join(err, s.b.Force(s.now, state, until, "alice")); err != nil {
			s.t.Fatal(err)
		}
	case "release":
		s.b.Release(s.now, "bob")
	case "hear":
		s.hear(arg(0), s.count(arg(1)), arg(2))
	case "look":
		s.look()
	default:
		s.t.Fatalf("unknown input %q", verb)
	}
	s.told()
}

func (s *stage) config(args []string) Config {
	var c Config
	for _, word := range args {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "failures":
			c.Failures = s.count(value)
		case "ratio":
			c.Ratio, _ = strconv.ParseFloat(value, 64)
		case "samples":
			c.Samples = s.count(value)
		case "latency":
			c.Latency = s.span(value)
		case "dead":
			c.DeadLetters = float64(s.count(value))
		case "cooldown":
			c.Cooldown = s.span(value)
		case "cooldown_max":
			c.CooldownMax = s.span(value)
		case "rate":
			c.Rate = float64(s.count(value))
		default:
			s.t.Fatalf("unknown key %q", key)
		}
	}
	return c
}

func (s *stage) hear(state string, term int, step string) {
	at, err := ParseState(state)
	if err != nil {
		s.t.Fatal(err)
	}
	n := Note{
		Breaker: "billing", Host: "b", State: at, Term: uint64(term), Reason: "as host b saw", At: s.now,
	}
	if at == Open {
		n.Cooldown, n.Until = 20*time.Second, s.now.Add(20*time.Second)
	}
	if step != "" {
		n.Step = s.count(step)
	}
	s.say("taken: %v", s.b.Hear(s.now, n))
}

func attempt(kind, text string, took time.Duration) Attempt {
	switch kind {
	case "ok":
		return Attempt{Verdict: retry.Delivered, Code: 200, Took: took}
	case "refuse":
		return Attempt{Verdict: retry.Permanent, Code: 404, Took: took, Dead: true}
	case "busy":
		return Attempt{Verdict: retry.Retry, Code: 429, Took: took}
	}
	if text == "" {
		return Attempt{Verdict: retry.Retry, Code: 500, Took: took}
	}
	return Attempt{Verdict: retry.Retry, Took: took, Err: errors.New(text)}
}

// attempts makes n of them, one after the other, as fast as there is room, and tells how many of
// them were let in when one has to wait.
func (s *stage) attempts(kind string, n int, text string) {
	took := time.Duration(0)
	if d, err := time.ParseDuration(text); err == nil {
		took, text = d, ""
	}
	for i := range n {
		if room, _ := s.b.Room(s.now, 1, 1); room == 0 {
			s.say("%d of %d passed", i, n)
			return
		}
		s.b.Take(1, 1)
		a := attempt(kind, text, took)
		if kind == "busy" {
			a.Took, a.RetryAfter = 0, took
		}
		s.now = s.now.Add(a.Took)
		s.b.Report(s.now, a)
		s.told()
	}
}

func (s *stage) look() {
	l := s.b.Look(s.now)
	s.say("%v %s, rate %.4g, opened %d, held %v", l.State, l.Phase, l.Rate, l.Opened, l.Held)
	for _, g := range l.Signals {
		stale := ""
		if g.Stale {
			stale = ", stale: " + g.Err
		}
		s.say("  %s %.4g (%.4g/%.4g) %s%s", g.Name, g.Value, g.Trip, g.Recover, g.Verdict, stale)
	}
}

// told prints what came out.
func (s *stage) told() {
	out := s.b.Collect()
	for _, c := range out.Changes {
		step := ""
		if c.To == HalfOpen {
			step = fmt.Sprintf(" %d", c.Step)
		}
		until := ""
		if !c.Until.IsZero() {
			until = fmt.Sprintf(", until %v", c.Until.Sub(began))
		}
		s.say("%v %v → %v%s: %s (term %d of %s%s)", s.now.Sub(began), c.From, c.To, step, c.Reason,
			c.Term, c.Host, until)
	}
	for _, l := range out.Ended {
		s.say("lease ended, used %v", l.Used)
	}
}

func (s *stage) say(format string, args ...any) {
	fmt.Fprintf(&s.out, "  "+format+"\n", args...)
}

func (s *stage) count(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		s.t.Fatalf("%q is no number", text)
	}
	return n
}

func (s *stage) span(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}
