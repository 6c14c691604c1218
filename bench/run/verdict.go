package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/bench/referee"
)

// The gates of overload.
const (
	goodputLeast   = 0.90 // of what the store can take, or of what is offered
	quietLeast     = 0.95 // goodput that a loud source leaves to each of the others
	orderSlack     = 0.02 // by which the share shed of a lower tier may be under that of a higher one
	highFitsMost   = 0.95 // of the store's capacity: so much of the high tier fits
	highShedMost   = 0.01 // while the high tier alone fits the store
	serviceTimes   = 4.5  // p99 of the admitted, in service times …
	fullTimes      = 6.0  // … where the high tier alone fills the store: it may wait for three
	holdFloor      = 50 * time.Millisecond
	recoveryMost   = time.Second
	backMost       = 2 * time.Second // after the control plane was away
	probeWithin    = time.Second
	rssGrowth      = 32 << 20 // bytes in the second half of an overload
	spreadLeast    = 2.0      // the longest Retry-After beside the shortest
	spreadRefusals = 200      // from so many on the spread says something
)

// p99Most is the bound on the p99 of the admitted. Under a slow store it is 4.5 service times: up
// to three in a slot, the rest in the hold queue. Under a fast one it is what a waiter may be held
// for however fast the store is.
func (p phase) p99Most() time.Duration {
	return max(time.Duration(serviceTimes*float64(p.service)), holdFloor+3*p.service)
}

// span is a phase of a trial with what was measured in it.
type span struct {
	phase
	name     string
	from, to time.Duration
	requests []request
	tally
	streams map[string]tally
}

func (o outcome) spans() []span {
	var all []span
	for n, from := range o.trial.starts() {
		p := o.trial.phases[n]
		s := span{
			phase: p, name: fmt.Sprintf("phase %d", n+1), from: from, to: from + p.length,
			streams: map[string]tally{},
		}
		s.requests = o.record.between(s.from, s.to)
		s.tally = tallyOf(s.requests)
		for name, requests := range byStream(s.requests) {
			s.streams[name] = tallyOf(requests)
		}
		all = append(all, s)
	}
	return all
}

// possible is the most goodput that can be had in a span: what was asked for, repeats included, or
// what the store can take.
func (s span) possible() float64 {
	return min(float64(s.due), s.capacity()*s.length.Seconds())
}

func (s span) goodShare() float64 {
	if s.possible() == 0 {
		return 0
	}
	return float64(s.good) / s.possible()
}

// judge holds an outcome against the gates of its kind of trial.
func judge(o outcome) []referee.Gate {
	spans := o.spans()
	away := o.trial.kind == kindStop || o.trial.kind == kindKill
	var all []referee.Gate
	if away {
		all = append(all, judgeBack(o))
	} else {
		all = append(all, judgeGoodput(spans))
		if o.trial.kind != kindCrowd {
			all = append(all, judgeHigh(spans), judgeOrder(spans))
		} else {
			all = append(all, judgeCrowd(o, spans))
		}
		all = append(all, judgeLatency(spans))
		if v, ok := judgeRecovery(o, spans); ok {
			all = append(all, v)
		}
	}
	all = append(all, judgeLosses(o.record.requests), judgeRetryAfter(o.record.requests))
	if o.trial.kind == kindProbes {
		all = append(all, judgeProbes(o.probes.requests))
	}
	if v, ok := judgeMemory(o, spans); ok && o.trial.kind != kindKill {
		all = append(all, v)
	}
	if o.promises != nil {
		all = append(all, referee.Gate{
			Name:   "every 2xx is in the store exactly once",
			Missed: !o.promises.kept(), Shown: o.promises.String(),
		})
	}
	return all
}

func judgeGoodput(spans []span) referee.Gate {
	v := referee.Gate{Name: fmt.Sprintf("goodput at least %.0f %% of what was possible",
		100*goodputLeast)}
	var shown []string
	for _, s := range spans {
		v.Judge(s.goodShare() >= goodputLeast)
		shown = append(shown, fmt.Sprintf("%.1f %%", 100*s.goodShare()))
	}
	v.Shown = strings.Join(shown, ", ")
	return v
}

func judgeHigh(spans []span) referee.Gate {
	v := referee.Gate{Name: fmt.Sprintf(
		"high tier: at most %.0f %% shed while it fits the store alone", 100*highShedMost)}
	var shown []string
	for _, s := range spans {
		high := s.tier("high")
		if !s.highFits() {
			shown = append(shown, fmt.Sprintf("(%.1f %%, does not fit)", 100*high.shedShare()))
			continue
		}
		v.Judge(high.shedShare() <= highShedMost)
		shown = append(shown, fmt.Sprintf("%.2f %%", 100*high.shedShare()))
	}
	v.Shown = strings.Join(shown, ", ")
	return v
}

// highFits says that the store could take the high tier alone, with a little to spare: an exact
// fit is a queue that does not end.
func (s span) highFits() bool {
	return float64(s.tier("high").due) <= highFitsMost*s.capacity()*s.length.Seconds()
}

// tier sums what the sources of one tier got.
func (s span) tier(name string) tally {
	var requests []request
	for _, r := range s.requests {
		if tierOf(r.stream) == name {
			requests = append(requests, r)
		}
	}
	return tallyOf(requests)
}

// judgeOrder asks whether a lower tier was shed at least as much as the one above it.
func judgeOrder(spans []span) referee.Gate {
	v := referee.Gate{Name: "in an overload a lower tier is shed at least as much"}
	var shown []string
	for _, s := range spans {
		if !s.overloaded() {
			continue
		}
		above := 0.0
		for _, tier := range tiers {
			shed := s.tier(tier.name).shedShare()
			v.Judge(shed >= above-orderSlack)
			shown = append(shown, fmt.Sprintf("%s %.1f %%", tier.name, 100*shed))
			above = shed
		}
	}
	v.Shown = strings.Join(shown, ", ")
	return v
}

// judgeCrowd asks whether each equal source keeps its goodput beside a loud one.
func judgeCrowd(o outcome, spans []span) referee.Gate {
	v := referee.Gate{Name: fmt.Sprintf("each source but the loud one: goodput at least %.0f %% of "+
		"its offer", 100*quietLeast)}
	var shown []string
	for _, s := range spans {
		worst, worstName := 1.0, "none"
		for _, st := range o.trial.streams() {
			sum := s.streams[st.source]
			if got := share(sum.good, sum.due); st.source != "loud" && got < worst {
				worst, worstName = got, st.source
			}
		}
		v.Judge(worst >= quietLeast)
		shown = append(shown, fmt.Sprintf("worst %.1f %% (%s)", 100*worst, worstName))
	}
	v.Shown = strings.Join(shown, ", ")
	return v
}

func judgeLatency(spans []span) referee.Gate {
	v := referee.Gate{Name: fmt.Sprintf("p99 of the admitted within %.1f service times, or what a "+
		"hold may take", serviceTimes)}
	var shown []string
	for _, s := range spans {
		most := s.p99Most()
		if !s.highFits() {
			most = max(most, time.Duration(fullTimes*float64(s.service)))
		}
		v.Judge(s.p99 <= most)
		shown = append(shown, fmt.Sprintf("%s of %s", ms(s.p99), ms(most)))
	}
	v.Shown = strings.Join(shown, ", ")
	return v
}

// judgeRecovery looks at each phase that comes after an overload and is none.
func judgeRecovery(o outcome, spans []span) (referee.Gate, bool) {
	v := referee.Gate{}
	v.Name = fmt.Sprintf("recovered within %v of the overload's end", recoveryMost)
	var shown []string
	for n := 1; n < len(spans); n++ {
		if s := spans[n]; spans[n-1].overloaded() && !s.overloaded() {
			took, ok := o.record.recovery(s.from, s.to)
			v.Judge(ok && took <= recoveryMost)
			shown = append(shown, recoveryText(took, ok))
		}
	}
	v.Shown = strings.Join(shown, ", ")
	return v, len(shown) > 0
}

func recoveryText(took time.Duration, ok bool) string {
	if !ok {
		return "not at all"
	}
	return fmt.Sprintf("%.1f s", took.Seconds())
}

// judgeBack asks how long after its return the control plane has goodput again where it was
// possible: the first instant from which a second is good.
func judgeBack(o outcome) referee.Gate {
	v := referee.Gate{Missed: true}
	v.Name = fmt.Sprintf("goodput back within %v of the control plane's return", backMost)
	if o.back == 0 {
		v.Shown = "it did not return"
		return v
	}
	for at := o.back; at+time.Second <= o.trial.length(); at += window {
		sum := tallyOf(o.record.between(at, at+time.Second))
		possible := min(float64(sum.due), o.trial.phaseAt(at).capacity())
		if sum.due > 0 && float64(sum.good) >= goodputLeast*possible {
			v.Missed, v.Shown = at-o.back > backMost, recoveryText(at-o.back, true)
			return v
		}
	}
	v.Shown = recoveryText(0, false)
	return v
}

func judgeLosses(requests []request) referee.Gate {
	sum := tallyOf(requests)
	var shown []string
	for _, name := range faults {
		shown = append(shown, fmt.Sprintf("%d %s", sum.lost[name], name))
	}
	return referee.Gate{
		Name: "no request without an answer", Missed: sum.lostAll() > 0,
		Shown: fmt.Sprintf("of %d: %s", sum.due, strings.Join(shown, ", ")),
	}
}

// judgeRetryAfter asks whether every refusal says when to come again, and not all the same time.
func judgeRetryAfter(requests []request) referee.Gate {
	var waits []int
	without := 0
	for _, r := range requests {
		switch {
		case !r.shed():
		case r.retryAfter == 0:
			without++
		default:
			waits = append(waits, r.retryAfter)
		}
	}
	v := referee.Gate{Name: "every refusal has a Retry-After, and they differ", Missed: without > 0}
	if len(waits) == 0 {
		v.Shown = fmt.Sprintf("%d refusals", without)
		return v
	}
	slices.Sort(waits)
	least, most := waits[0], waits[len(waits)-1]
	if len(waits) >= spreadRefusals && float64(most) < spreadLeast*float64(least) {
		v.Missed = true
	}
	v.Shown = fmt.Sprintf("%d without, %d with %d to %d s, median %d s",
		without, len(waits), least, most, waits[len(waits)/2])
	return v
}

// judgeProbes asks whether handshakes and probes were judged, and in time: a challenge comes back,
// a wrong signature is refused as one.
func judgeProbes(requests []request) referee.Gate {
	v := referee.Gate{Name: fmt.Sprintf("each handshake and probe answered within %v", probeWithin)}
	wrong, late := 0, 0
	var slowest time.Duration
	var named strings.Builder
	for _, r := range requests {
		slowest = max(slowest, r.took)
		switch {
		case r.code != 200 && r.code != 401:
			wrong++
		case r.took > probeWithin:
			late++
		default:
			continue
		}
		if wrong+late <= 3 {
			fmt.Fprintf(&named, "; %s at %.1f s: %d%s after %s",
				r.stream, r.due.Seconds(), r.code, r.fault, ms(r.took))
		}
	}
	v.Missed = len(requests) == 0 || wrong+late > 0
	v.Shown = fmt.Sprintf("of %d: %d not judged, %d late, slowest %s%s",
		len(requests), wrong, late, ms(slowest), named.String())
	return v
}

// judgeMemory asks whether memory still grows in the second half of an overload. What the control
// plane keeps of each event (its index, its window of ids) is its own and grows with the journal.
func judgeMemory(o outcome, spans []span) (referee.Gate, bool) {
	v := referee.Gate{Name: "the data plane's memory is bounded"}
	var shown []string
	for _, s := range spans {
		half := lookAt(o.looks, (s.from+s.to)/2).rss["dataplane"].anon
		full := lookAt(o.looks, s.to).rss["dataplane"].anon
		if !s.overloaded() || half == 0 || full == 0 {
			continue
		}
		v.Judge(full-half <= rssGrowth)
		shown = append(shown, fmt.Sprintf("%d, then %d MiB", half>>20, full>>20))
	}
	v.Shown = strings.Join(shown, ", ")
	return v, len(shown) > 0
}

// ms shows a time in milliseconds.
func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1e3) }
