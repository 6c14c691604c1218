package faultpoint

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestTheNthPassActsAndNoOther(t *testing.T) {
	t.Cleanup(func() { current.Store(nil) })
	for text, n := range map[string]int{"commit.durable": 1, "commit.durable:3": 3} {
		acts := 0
		if err := Arm(text, func() { acts++ }); err != nil {
			t.Fatal(err)
		}
		for pass := 1; pass <= 6; pass++ {
			Pass(CommitGathered)
			Pass(CommitDurable)
			want := 0
			if pass >= n {
				want = 1
			}
			if acts != want {
				t.Errorf("%s: acted %d times by pass %d, want %d", text, acts, pass, want)
			}
		}
	}
}

func TestOnePassActsHoweverManyGoroutinesPass(t *testing.T) {
	t.Cleanup(func() { current.Store(nil) })
	var acts atomic.Int32
	if err := Arm("reply.written:50", func() { acts.Add(1) }); err != nil {
		t.Fatal(err)
	}
	var passing sync.WaitGroup
	for range 8 {
		passing.Go(func() {
			for range 100 {
				Pass(ReplyWritten)
			}
		})
	}
	passing.Wait()
	if got := acts.Load(); got != 1 {
		t.Errorf("acted %d times", got)
	}
}

func TestNothingActsUnarmed(t *testing.T) {
	current.Store(nil)
	for _, p := range All {
		Pass(p)
	}
}

func TestAWrongNameOrCountIsToldWithTheRightOnes(t *testing.T) {
	t.Cleanup(func() { current.Store(nil) })
	for text, reason := range map[string]string{
		"":                 "there is none of that name",
		"commit":           "commit.durable",
		"commit.durable:":  "N at least 1",
		"commit.durable:0": "N at least 1",
		"commit.durable:x": "N at least 1",
		"none.such:2":      "there is none of that name",
	} {
		if err := Arm(text, func() {}); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%q: %v, want %q", text, err, reason)
		}
		if current.Load() != nil {
			t.Errorf("%q armed something", text)
		}
	}
}

func TestEveryPointHasANameOfItsOwn(t *testing.T) {
	t.Cleanup(func() { current.Store(nil) })
	seen := make(map[Point]bool)
	for _, p := range All {
		if seen[p] {
			t.Errorf("%s twice", p)
		}
		seen[p] = true
		if err := Arm(string(p), func() {}); err != nil {
			t.Error(err)
		}
	}
}
