package e2e

import (
	"fmt"
	"testing"

	"sluice/go/internal/faultpoint"
)

// attemptPoints are the steps of an attempt, in the order in which a delivery passes them.
var attemptPoints = []faultpoint.Point{
	faultpoint.CommitDurable, faultpoint.AttemptLeased, faultpoint.OutcomeMade,
	faultpoint.OutcomeDurable,
}

func TestACrashAtAnyStepOfAnAttemptCostsOneDuplicateAtMost(t *testing.T) {
	for _, point := range attemptPoints {
		for _, nth := range []int{1, 5, count(40, 160)} {
			t.Run(fmt.Sprintf("%s:%d", point, nth), func(t *testing.T) {
				to := newSink(t)
				i := install(t, both(to))
				i.launch("--fault-point", fmt.Sprintf("%s:%d", point, nth))
				// The first groups come with the start.
				eventually(t, "it serves, or has reached the step", func() bool {
					return i.exited() || i.readyz() == 200
				})
				wanted := map[string]bool{}
				for n := 0; !i.exited(); n++ {
					a, err := i.send(github("/hooks/durable", fmt.Sprintf("d-%d", n), "{}"))
					if err != nil || a.code == 503 {
						break // the sender's budget ends while nobody judges
					}
					if a.code != 200 {
						t.Fatalf("event %d: %v", n, a)
					}
					wanted[a.get("X-Event-Id")] = true
				}
				eventually(t, "the process reaches the step", i.exited)
				i.start()
				i.awaitDelivered()
				times := map[string]int{}
				for _, d := range to.all() {
					times[d.key]++
				}
				for id := range wanted {
					if times[id] < 1 {
						t.Errorf("event %s was acknowledged and never came", id)
					}
				}
				for id, n := range times {
					if n > 2 {
						t.Errorf("event %s came %d times after one crash", id, n)
					}
				}
				i.stop()
			})
		}
	}
}
