package deliver

import (
	"math"
	"sync"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/retry"
)

// target is a Target in use. Attempts finish under the one they began with.
type target struct {
	Target
	adapter *adapter

	// Under runner.mu.
	held     time.Time // the destination asked for a pause until then
	deadTold time.Time // a dead letter was last logged
	deadMore int       // dead letters since
}

// adapter counts the attempts that use a Destination, under whatever targets it is handed on to.
type adapter struct {
	attempts sync.WaitGroup
}

func newTarget(t Target) *target {
	t.Retry = t.Retry.Normalized()
	if t.Concurrency == nil {
		t.Concurrency = Auto{}
	}
	if t.Gate == nil {
		t.Gate = Open{}
	}
	return &target{Target: t, adapter: &adapter{}}
}

// exhausted tells whether an attempt was the last.
func (t *target) exhausted(attempt uint16) bool {
	if len(t.Schedule) > 0 {
		return int(attempt) > len(t.Schedule) || attempt >= retry.AttemptsMax
	}
	return t.Retry.Exhausted(int(attempt))
}

// scheduleJitter is the part by which a wait of a schedule may be off, each way: enough that what
// failed together does not come back together, little enough that the operator's number holds.
const scheduleJitter = 10

// delay is the wait after an attempt that was not the last.
func (t *target) delay(attempt uint16, retryAfter time.Duration, jitter retry.Jitter,
) time.Duration {
	if len(t.Schedule) == 0 {
		return t.Retry.Delay(int(attempt), retryAfter, jitter)
	}
	wait := min(max(t.Schedule[attempt-1], 0), math.MaxInt64/2)
	off := wait / scheduleJitter
	wait += time.Duration(jitter(int64(2*off)+1)) - off
	return max(wait, min(retryAfter, t.Retry.Max))
}

// deadLetterLogEvery bounds what a destination that refuses everything can do to the log.
const deadLetterLogEvery = 10 * time.Second

// deadLetter logs one, or counts it towards the next line. All of them are in the store.
func (r *runner) deadLetter(t *target, o event.Outcome, id event.ID) {
	now := r.service.options.Now()
	r.mu.Lock()
	if since := now.Sub(t.deadTold); since >= 0 && since < deadLetterLogEvery {
		t.deadMore++
		r.mu.Unlock()
		return
	}
	more := t.deadMore
	t.deadTold, t.deadMore = now, 0
	r.mu.Unlock()
	r.service.options.Log.Warn("dead letter", "destination", t.Name, "event", id.String(),
		"attempts", o.Attempt, "error", o.Err, "others_before", more)
}
