package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// phase is a stretch of a trial with one offered rate and one store.
type phase struct {
	offered float64       // first tries per second, over all streams
	length  time.Duration // whole seconds
	slots   int           // the store: so many at once …
	service time.Duration // … and so long each
	delay   time.Duration // and each write of the journal takes so much longer than the disk needs
}

// capacity is what the store takes a second. It is not searched for: the store is made of
// servers that take exactly their time.
func (p phase) capacity() float64 { return float64(p.slots) / p.service.Seconds() }

// overloaded says that more is offered than the store can take.
func (p phase) overloaded() bool { return p.offered > p.capacity() }

// trial is a line of an overload scenario.
type trial struct {
	name   string
	kind   string
	fronts []string // by name; the first is the one that is judged
	body   int      // bytes
	tries  int      // of one delivery, in all

	senders int     // crowd: equal sources …
	loud    float64 // … and how many times the others' rate the last one offers

	at, lasts time.Duration // stop, kill: when, and for how long

	phases []phase
}

// The kinds of trials.
const (
	kindTiers    = "tiers"    // ten equal sources of three tiers: high, default and low
	kindCrowd    = "crowd"    // equal sources, one of them loud
	kindProbes   = "probes"   // tiers, and handshakes and probes beside them
	kindStop     = "stop"     // tiers; the control plane is stopped (SIGSTOP) for a while
	kindKill     = "kill"     // tiers; the daemon is killed (SIGKILL) and started again
	kindRefusals = "refusals" // what a refusal costs, beside a canned answer
	kindJournal  = "journal"  // sluice's own journal instead of the synthetic store
)

var kinds = []string{
	kindTiers, kindCrowd, kindProbes, kindStop, kindKill, kindRefusals, kindJournal,
}

// The tiers of a trial and how many equal sources each has. Fairness between sources goes before
// the priority of those over their share, so sources of one size show what priority does.
var tiers = []struct {
	name    string
	sources int
}{{"high", 2}, {"default", 5}, {"low", 3}}

// tierOf is the tier of a source of that name.
func tierOf(source string) string {
	tier, _, _ := strings.Cut(source, "-")
	return tier
}

// stream is one sender of a trial: its source, and its share of the offered rate.
type stream struct {
	source string
	share  float64
}

func (t trial) streams() []stream {
	var all []stream
	switch t.kind {
	case kindCrowd:
		whole := float64(t.senders-1) + t.loud
		for n := range t.senders - 1 {
			all = append(all, stream{fmt.Sprintf("quiet-%02d", n+1), 1 / whole})
		}
		return append(all, stream{"loud", t.loud / whole})
	case kindRefusals:
		return []stream{{"low", 1}}
	case kindJournal:
		return []stream{{"default", 1}}
	default:
		for _, tier := range tiers {
			for n := range tier.sources {
				all = append(all, stream{source: fmt.Sprintf("%s-%d", tier.name, n+1)})
			}
		}
		for n := range all {
			all[n].share = 1 / float64(len(all))
		}
		return all
	}
}

func (t trial) length() time.Duration {
	sum := time.Duration(0)
	for _, p := range t.phases {
		sum += p.length
	}
	return sum
}

// starts gives when each phase begins.
func (t trial) starts() []time.Duration {
	var at []time.Duration
	sum := time.Duration(0)
	for _, p := range t.phases {
		at = append(at, sum)
		sum += p.length
	}
	return at
}

// readTrials reads lines of `NAME [SETTING=VALUE…] PHASE…`; `#` begins a comment.
func readTrials(path string) ([]trial, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var trials []trial
	lines := bufio.NewScanner(f)
	for at := 1; lines.Scan(); at++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		t, err := parseTrial(words)
		if err == nil && slices.ContainsFunc(trials, func(o trial) bool { return o.name == t.name }) {
			err = fmt.Errorf("%s is there already", t.name)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, at, err)
		}
		trials = append(trials, t)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(trials) == 0 {
		return nil, fmt.Errorf("%s: nothing to measure in it", path)
	}
	return trials, nil
}

func parseTrial(words []string) (trial, error) {
	t := trial{name: words[0], kind: kindTiers, body: 1024, tries: 1}
	for _, word := range words[1:] {
		var err error
		if key, value, setting := strings.Cut(word, "="); setting {
			err = t.set(key, value)
		} else {
			var p phase
			p, err = parsePhase(word)
			t.phases = append(t.phases, p)
		}
		if err != nil {
			return trial{}, err
		}
	}
	if t.fronts == nil {
		for _, f := range fronts {
			if f.takes(t.kind) {
				t.fronts = append(t.fronts, f.name)
			}
		}
	}
	return t, t.check()
}

func (t *trial) set(key, value string) error {
	fault := func(want string) error { return fmt.Errorf("%s=%s: %s", key, value, want) }
	var err error
	switch key {
	case "kind":
		t.kind = value
		if !slices.Contains(kinds, value) {
			return fault("known are " + strings.Join(kinds, ", "))
		}
	case "fronts":
		t.fronts = strings.Split(value, ",")
		for _, name := range t.fronts {
			if _, ok := frontOf(name); !ok {
				return fault("known are " + strings.Join(frontNames(), ", "))
			}
		}
	case "body":
		t.body, err = strconv.Atoi(value)
		if err != nil || t.body < 1 {
			return fault("bytes, at least 1")
		}
	case "tries":
		t.tries, err = strconv.Atoi(value)
		if err != nil || t.tries < 1 {
			return fault("a number from 1")
		}
	case "crowd":
		count, loud, ok := strings.Cut(value, "x")
		var errs [2]error
		t.senders, errs[0] = strconv.Atoi(count)
		t.loud, errs[1] = strconv.ParseFloat(loud, 64)
		if !ok || errors.Join(errs[:]...) != nil || t.senders < 2 || t.loud < 1 {
			return fault("SOURCESxLOUD is wanted, as 20x50")
		}
		t.kind = kindCrowd
	case "stop", "kill":
		at, lasts, ok := strings.Cut(value, "+")
		if !ok {
			lasts = "0s"
		}
		var errs [2]error
		t.at, errs[0] = time.ParseDuration(at)
		t.lasts, errs[1] = time.ParseDuration(lasts)
		if errors.Join(errs[:]...) != nil || t.at <= 0 || t.lasts < 0 || (key == "stop") != ok {
			return fault("stop=AT+LENGTH or kill=AT is wanted, as 10s+5s")
		}
		t.kind = key
	default:
		return fmt.Errorf("unknown setting %s; known are kind, fronts, body, tries, crowd, stop, kill",
			key)
	}
	return nil
}

// check holds the parts of a trial against each other.
func (t trial) check() error {
	switch {
	case len(t.phases) == 0:
		return fmt.Errorf("%s has no phase", t.name)
	case (t.kind == kindCrowd) != (t.senders > 0):
		return fmt.Errorf("%s: kind=crowd and crowd=SOURCESxLOUD go together", t.name)
	case (t.kind == kindStop || t.kind == kindKill) != (t.at > 0):
		return fmt.Errorf("%s: kind=%s needs to know when", t.name, t.kind)
	case t.at > 0 && t.at+t.lasts >= t.length():
		return fmt.Errorf("%s: the trial is over before the control plane is back", t.name)
	case (t.kind == kindRefusals || t.kind == kindJournal) && len(t.phases) != 1:
		return fmt.Errorf("%s: kind=%s has one phase", t.name, t.kind)
	}
	for _, name := range t.fronts {
		if f, _ := frontOf(name); !f.takes(t.kind) {
			return fmt.Errorf("%s: kind=%s says nothing about %s", t.name, t.kind, name)
		}
	}
	for _, p := range t.phases {
		if (p.delay > 0) != (t.kind == kindJournal) {
			return fmt.Errorf("%s: a store with +DELAY and kind=%s go together", t.name, kindJournal)
		}
	}
	return nil
}

// parsePhase reads RATE:LENGTH@SLOTSxTIME, or …+DELAY for a journal; RATE is then a multiple of
// what it takes in a closed loop.
func parsePhase(word string) (phase, error) {
	fault := fmt.Errorf("%s: a phase is RATE:LENGTH@SLOTSxTIME, as 1000:5s@8x4ms", word)
	load, store, ok1 := strings.Cut(word, "@")
	rate, length, ok2 := strings.Cut(load, ":")
	var p phase
	var errs [4]error
	p.offered, errs[0] = strconv.ParseFloat(rate, 64)
	p.length, errs[1] = time.ParseDuration(length)
	store, delay, slow := strings.Cut(store, "+")
	p.slots, p.service, errs[2] = parseSlots(store)
	if slow {
		p.delay, errs[3] = time.ParseDuration(delay)
	}
	if !ok1 || !ok2 || errors.Join(errs[:]...) != nil || p.offered <= 0 || slow && p.delay <= 0 ||
		p.length < time.Second || p.length%time.Second != 0 {
		return phase{}, fault
	}
	return p, nil
}

// parseSlots reads SLOTSxTIME, as 8x4ms.
func parseSlots(text string) (slots int, service time.Duration, err error) {
	count, each, _ := strings.Cut(text, "x")
	slots, err1 := strconv.Atoi(count)
	service, err2 := time.ParseDuration(each)
	if err1 != nil || err2 != nil || slots < 1 || service <= 0 {
		return 0, 0, fmt.Errorf("%s: SLOTSxTIME is wanted, as 8x4ms", text)
	}
	return slots, service, nil
}
