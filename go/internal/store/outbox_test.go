package store

import (
	"testing"
	"testing/synctest"
	"time"

	"sluice/go/internal/event"
)

// asked tells whether the outbox asks for a group now.
func (o *outbox) asked() bool {
	synctest.Wait()
	select {
	case <-o.work:
		return true
	default:
		return false
	}
}

func TestOutcomesGatherUnlessSomethingWaitsForThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &outbox{work: make(chan struct{}, 1)}
		one := make([]event.Outcome, 1)
		send := func(want int) {
			t.Helper()
			p := o.take(ownBytesMax, false)
			if len(p.outcomes) != want {
				t.Fatalf("a group of %d outcomes, want %d", len(p.outcomes), want)
			}
			o.sent(p)
		}
		o.addOutcomes(one, nil, false)
		time.Sleep(outcomePause - time.Nanosecond)
		o.addOutcomes(one, nil, false)
		if o.asked() {
			t.Error("a group before its time")
		}
		time.Sleep(time.Nanosecond)
		if !o.asked() {
			t.Fatal("outcomes that gathered ask for nothing")
		}
		send(2)

		o.addOutcomes(one, nil, true)
		if !o.asked() {
			t.Error("an outcome that its ordering key waits for gathers")
		}
		o.addOutcomes(one, nil, false) // while that group is being written
		if o.asked() {
			t.Error("one that nobody waits for hurries")
		}
		send(2)
		o.addOutcomes(one, &ticket{done: make(chan struct{})}, false)
		if !o.asked() {
			t.Error("an outcome that a caller waits for gathers")
		}
		send(1)
		for range outcomesMany - 1 {
			o.addOutcomes(one, nil, false)
		}
		if o.asked() {
			t.Error("a group before there are many")
		}
		o.addOutcomes(one, nil, false)
		if !o.asked() {
			t.Error("many outcomes wait for the pause")
		}
		send(outcomesMany)
		time.Sleep(outcomePause) // the timer of what has gone is spent
		if o.asked() {
			t.Error("nothing is left and a group is asked for")
		}
	})
}
