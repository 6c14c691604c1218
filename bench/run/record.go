package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// request is how one try of one delivery ended, as the generator's record tells.
type request struct {
	stream     string
	delivery   int           // the same for every try of it
	try        int           // from 1
	due, took  time.Duration // since the start; since it was due
	code       int           // 0: no answer, then fault says why
	fault      string
	retryAfter int // seconds; 0: the answer named none
}

func (r request) ok() bool { return r.code >= 200 && r.code < 300 }

// good says that the sender was still there for the answer and pleased with it.
func (r request) good() bool { return r.ok() && r.took <= goodWithin }

// shed says that it was turned away for the time being.
func (r request) shed() bool { return r.code == 429 || r.code == 503 }

// lost says that a request that was due got no answer at all.
func (r request) lost() bool { return r.code == 0 }

// A 2xx that took longer than this is not good: the sender may have given up.
const goodWithin = time.Second

// record is what a run of the generator has written.
type record struct {
	start    time.Time
	requests []request
	after    int // repeats that were due after the end of the schedule: sent by nobody
	pulses   []pulse
}

// pulse is the number of connections at one time.
type pulse struct {
	at          time.Duration
	connections int
}

// faults are the names that the generator has for a request without an answer.
var faults = []string{"timeout", "closed", "protocol", "unsent"}

const afterEnd = "after-end"

// readRecord reads what `sluice-load --record` writes; its help has the form.
func readRecord(in io.Reader) (record, error) {
	var r record
	lines := bufio.NewScanner(in)
	for at := 1; lines.Scan(); at++ {
		if err := r.line(lines.Text()); err != nil {
			return record{}, fmt.Errorf("line %d of the record: %w", at, err)
		}
	}
	if err := lines.Err(); err != nil {
		return record{}, err
	}
	if r.start.IsZero() {
		return record{}, fmt.Errorf("the record does not say when it began")
	}
	slices.SortFunc(r.requests, func(a, b request) int { return int(a.due - b.due) })
	return r, nil
}

func (r *record) line(text string) error {
	words := strings.Split(text, " ")
	numbers := make([]int, len(words))
	for at, word := range words {
		n, err := strconv.Atoi(word)
		if named := at == 0 || (len(words) == 7 && at == 5); err != nil && !named {
			return fmt.Errorf("%q: %w", text, err)
		}
		numbers[at] = n
	}
	micro := func(at int) time.Duration { return time.Duration(numbers[at]) * time.Microsecond }
	switch {
	case words[0] == "start" && len(words) == 2:
		r.start = time.Unix(0, int64(numbers[1]))
	case words[0] == "@" && len(words) == 3:
		r.pulses = append(r.pulses, pulse{micro(1), numbers[2]})
	case len(words) == 7 && words[5] == afterEnd:
		r.after++
	case len(words) == 7:
		q := request{
			stream: words[0], delivery: numbers[1], try: numbers[2], due: micro(3), took: micro(4),
			code: numbers[5], retryAfter: numbers[6],
		}
		if q.code == 0 {
			q.fault = words[5]
			if !slices.Contains(faults, q.fault) {
				return fmt.Errorf("%q: no way to end a request", words[5])
			}
		}
		r.requests = append(r.requests, q)
	default:
		return fmt.Errorf("%q: no line of a record", text)
	}
	return nil
}

// between gives the requests that were due in [from, to), in order.
func (r record) between(from, to time.Duration) []request {
	first := func(at time.Duration) int {
		n, _ := slices.BinarySearchFunc(r.requests, at, func(q request, at time.Duration) int {
			return int(q.due - at)
		})
		return n
	}
	return r.requests[first(from):first(to)]
}

// connections gives the most that were open in [from, to).
func (r record) connections(from, to time.Duration) int {
	most := 0
	for _, p := range r.pulses {
		if p.at >= from && p.at < to {
			most = max(most, p.connections)
		}
	}
	return most
}

// tally is what some requests came to.
type tally struct {
	due, ok, good, shed int
	other               int            // answers that are neither
	lost                map[string]int // by fault
	p50, p99            time.Duration  // of the 2xx
}

func tallyOf(requests []request) tally {
	sum := tally{due: len(requests), lost: map[string]int{}}
	var took []time.Duration
	for _, r := range requests {
		switch {
		case r.ok():
			sum.ok++
			took = append(took, r.took)
		case r.lost():
			sum.lost[r.fault]++
		case r.shed():
			sum.shed++
		default:
			sum.other++
		}
		if r.good() {
			sum.good++
		}
	}
	slices.Sort(took)
	sum.p50, sum.p99 = quantile(took, 0.5), quantile(took, 0.99)
	return sum
}

func (t tally) shedShare() float64 { return share(t.shed, t.due) }

func (t tally) lostAll() int {
	sum := 0
	for _, n := range t.lost {
		sum += n
	}
	return sum
}

// share is part of whole, and 0 of nothing.
func share(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// quantile of sorted values, by nearest rank; 0 where there are none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// byStream sorts requests into their streams.
func byStream(requests []request) map[string][]request {
	of := map[string][]request{}
	for _, r := range requests {
		of[r.stream] = append(of[r.stream], r)
	}
	return of
}

const (
	window        = 200 * time.Millisecond
	windowsInARow = 5
	windowGood    = 0.95
)

// recovery is the time from `from` on until goodput is back: the first instant from which five
// windows of 200 ms in a row have 95 % of their requests good. Not before `to`: no answer.
func (r record) recovery(from, to time.Duration) (time.Duration, bool) {
	inARow := 0
	for at := from; at+window <= to; at += window {
		sum := tallyOf(r.between(at, at+window))
		if sum.due > 0 && float64(sum.good) >= windowGood*float64(sum.due) {
			inARow++
		} else {
			inARow = 0
		}
		if inARow == windowsInARow {
			return at + window - windowsInARow*window - from, true
		}
	}
	return 0, false
}
