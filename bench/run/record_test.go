package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestARecordIsReadInTheOrderOfItsTimes(t *testing.T) {
	r, err := readRecord(strings.NewReader("start 1000000000\n@ 200000 70\nlow 1 1 2000 900 503 17\n" +
		"high 0 1 1000 1500000 200 0\n@ 400000 80\nlow 2 1 3000 5000000 timeout 0\n" +
		"low 1 2 5000 10 200 0\nlow 3 1 7000 0 after-end 0\nlow 4 1 6000 2 401 0\n"))
	if err != nil {
		t.Fatal(err)
	}
	if !r.start.Equal(time.Unix(1, 0)) || r.after != 1 || len(r.requests) != 5 {
		t.Fatalf("start %v, %d after the end, %d requests", r.start, r.after, len(r.requests))
	}
	first := r.requests[0]
	if first.stream != "high" || !first.ok() || first.good() || first.took != 1500*time.Millisecond {
		t.Errorf("first %+v", first)
	}
	if second := r.requests[1]; !second.shed() || second.retryAfter != 17 || second.lost() {
		t.Errorf("second %+v", second)
	}
	if third := r.requests[2]; !third.lost() || third.fault != "timeout" {
		t.Errorf("third %+v", third)
	}
	if n := r.connections(0, 300*time.Millisecond); n != 70 {
		t.Errorf("%d connections", n)
	}
	sum := tallyOf(r.requests)
	if sum.due != 5 || sum.ok != 2 || sum.good != 1 || sum.shed != 1 || sum.other != 1 ||
		sum.lost["timeout"] != 1 || sum.p99 != 1500*time.Millisecond || sum.p50 != 10*time.Microsecond {
		t.Errorf("tally %+v", sum)
	}
	if between := r.between(2*time.Millisecond, 5*time.Millisecond); len(between) != 2 {
		t.Errorf("%d requests from 2 to 5 ms, the end left out", len(between))
	}
}

func TestWhatIsNoRecordIsNamed(t *testing.T) {
	for _, text := range []string{
		"", "@ 1 2\n", "start x\n", "start 1\nlow 1 1 2000 900\n", "start 1\nlow 1 1 x 900 503 17\n",
		"start 1\nlow 1 1 2000 900 vanished 0\n",
	} {
		if _, err := readRecord(strings.NewReader(text)); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

func TestQuantilesAreValuesThatWereMeasured(t *testing.T) {
	var hundred []time.Duration
	for n := range 100 {
		hundred = append(hundred, time.Duration(n+1))
	}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 50, 0.99: 99, 0.991: 100, 1: 100} {
		if got := quantile(hundred, q); got != want {
			t.Errorf("%v of 1..100 is %d, want %d", q, got, want)
		}
	}
	if quantile(nil, 0.99) != 0 || quantile(hundred[:1], 0.99) != 1 {
		t.Error("few values")
	}
}

// written makes a record in which each 200 ms window from the start on has ten requests, so many of
// them good.
func written(goods ...int) record {
	var r record
	for n, good := range goods {
		for i := range 10 {
			q := request{
				stream: "high", due: time.Duration(n)*window + time.Duration(i)*20*time.Millisecond,
				delivery: 10*n + i, try: 1, took: time.Millisecond, code: 200,
			}
			if i >= good {
				q.code, q.retryAfter = 503, 5+i
			}
			r.requests = append(r.requests, q)
		}
	}
	return r
}

func TestRecoveryIsTheFirstOfFiveGoodWindows(t *testing.T) {
	for _, c := range []struct {
		goods string
		from  int // windows
		want  time.Duration
		ok    bool
	}{
		{"aaaaa", 0, 0, true},
		{"aaaa", 0, 0, false},
		{"0aaaaa", 0, 200, true},
		{"000aaaaaaaa", 0, 600, true},
		{"aaaa9aaaaa", 0, 1000, true}, // nine of ten is under 95 %
		{"000aaaaaaaa", 3, 0, true},
		{"000aa0aaaaaaaa", 2, 800, true},
		{"aaaaaaaaa0", 6, 0, false},
		{"", 0, 0, false},
	} {
		var goods []int
		for _, digit := range c.goods {
			goods = append(goods, strings.IndexRune("0123456789a", digit))
		}
		r := written(goods...)
		from, to := time.Duration(c.from)*window, time.Duration(len(goods))*window
		got, ok := r.recovery(from, to)
		if ok != c.ok || got != c.want*time.Millisecond {
			t.Errorf("%s from window %d: %v, %v", c.goods, c.from, got, ok)
		}
	}
	// A late answer is none.
	r := written(10, 10, 10, 10, 10, 10)
	r.requests[3].took = goodWithin + 1
	if got, _ := r.recovery(0, 6*window); got != window {
		t.Errorf("with a late answer in the first window: %v", got)
	}
}

func TestAWindowWithoutRequestsIsNoRecovery(t *testing.T) {
	r := written(10, 10)
	if took, ok := r.recovery(0, 10*window); ok {
		t.Errorf("recovered after %v while nothing was asked for", took)
	}
}

func TestAStreamIsToldFromAnother(t *testing.T) {
	var requests []request
	for n := range 6 {
		requests = append(requests, request{stream: fmt.Sprint(n % 2), code: 200})
	}
	of := byStream(requests)
	if len(of) != 2 || len(of["0"]) != 3 {
		t.Errorf("streams %v", of)
	}
}
