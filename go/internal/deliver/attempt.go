package deliver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"sluice/go/internal/destination"
	"sluice/go/internal/event"
	"sluice/go/internal/faultpoint"
	"sluice/go/internal/retry"
	"sluice/go/internal/store"
)

// ended is what an attempt tells its runner.
type ended struct {
	at      time.Time
	verdict retry.Verdict // 0: it says nothing about the destination
	took    time.Duration
	pause   time.Duration // the destination wants nothing for so long
}

// attempt makes one attempt and records what became of it.
func (r *runner) attempt(s *scratch, t *target, d store.Delivery) ended {
	o := &r.service.options
	payload, err := o.Queue.Read(d.Seq)
	if err != nil {
		t.Gate.Withdraw(1) // says nothing about the destination
		r.unreadable(t, d, err)
		return ended{at: o.Now()}
	}
	s.take(o, d, payload)
	if t.Transform != nil {
		err := r.guard(t, d, "transform", func() error { return s.transform(t.Transform) })
		if err != nil {
			s.drop()
			payload.Release()
			t.Gate.Withdraw(1)
			now := o.Now()
			r.refuse(t, d, err, now)
			return ended{at: now}
		}
	}
	faultpoint.Pass(faultpoint.AttemptLeased)
	start := o.Now()
	ctx := r.service.terms.of(r.service.ctx, start, d.Expires)
	result, panicked := r.deliver(ctx, t, d, s.request)
	now := o.Now()
	took := now.Sub(start)
	if panicked {
		s.request = nil
	} else {
		s.drop()
		payload.Release()
	}
	if r.service.ctx.Err() != nil && result.Kind != destination.Delivered && result.Code == 0 {
		// We ended it. A failure that came at the same moment is not worth telling apart.
		t.Gate.Withdraw(1)
		o.Queue.Unlease(d)
		o.Outcome(t.Name, "cancelled", 0, took)
		return ended{at: now}
	}
	e := ended{at: now, verdict: result.Kind, took: took}
	if result.Kind == destination.Retry && (result.Code == 429 || result.Code == 503) {
		e.pause = min(result.RetryAfter, t.Retry.Max)
	}
	outcome := t.outcome(d, result, now, o.Jitter)
	t.Gate.Report(now, result, outcome.Kind, took)
	r.record(t, d, outcome, result.Answer, took)
	return e
}

// deliver hands the event to the adapter. A panic there is a bug of ours, told with its stack, and
// must not take the other destinations with it: the event is tried again and ends as a dead letter
// at worst. Request and payload are not used again then, because something of the adapter may hold
// them still.
func (r *runner) deliver(ctx context.Context, t *target, d store.Delivery,
	request *destination.Request) (result destination.Result, panicked bool) {
	defer func() {
		if v := recover(); v != nil {
			r.panicked(t, d, "destination", v)
			result, panicked = destination.Failure(fmt.Errorf("panic in the adapter: %v", v)), true
		}
	}()
	result = t.Destination.Deliver(ctx, request)
	if result.Kind != destination.Delivered && result.Err == nil {
		result.Err = fmt.Errorf("%v without a reason (code %d)", result.Kind, result.Code)
	}
	return result, false
}

// record tells what became of a delivery to whoever waits for it, and to the store.
func (r *runner) record(t *target, d store.Delivery, outcome event.Outcome,
	answer *destination.Answer, took time.Duration) {
	o := &r.service.options
	o.Concluded(Conclusion{ID: d.ID, Destination: t.ID, Kind: outcome.Kind, Answer: answer})
	faultpoint.Pass(faultpoint.OutcomeMade)
	o.Queue.Finish(outcome)
	o.Outcome(t.Name, outcomeName(outcome.Kind), int(outcome.Code), took)
	if outcome.Kind == event.Dead {
		r.deadLetter(t, outcome, d.ID)
	}
}

func outcomeName(k event.OutcomeKind) string {
	switch k {
	case event.Done:
		return "delivered"
	case event.Skip:
		return "skipped"
	}
	return k.String()
}

// unreadable records that an event could not be read: our fault or the disk's, never the
// destination's. It uses up an attempt all the same, so that damage ends as a dead letter that
// somebody sees and not as a delivery that is tried for ever.
func (r *runner) unreadable(t *target, d store.Delivery, err error) {
	o := &r.service.options
	if errors.Is(err, store.ErrClosed) {
		o.Queue.Unlease(d)
		return
	}
	result := destination.Failure(fmt.Errorf("event not readable: %w", err))
	if errors.Is(err, store.ErrNotFound) {
		result.Kind = destination.Permanent
	}
	r.record(t, d, t.outcome(d, result, o.Now(), o.Jitter), nil, 0)
	o.Log.Error("event not readable", "destination", t.Name, "event", d.ID.String(), "error", err)
}

// outcome decides what a result means for the delivery.
func (t *target) outcome(d store.Delivery, r destination.Result, now time.Time,
	jitter retry.Jitter) event.Outcome {
	outcome := event.Outcome{
		Seq: d.Seq, Destination: t.ID, Attempt: d.Attempt, Code: uint16(r.Code), At: now.UnixNano(),
	}
	switch {
	case r.Kind == destination.Delivered:
		outcome.Kind = event.Done
	case r.Kind == destination.Permanent:
		outcome.Kind = event.Dead
		outcome.Err = oneLine(r.Err.Error())
	case t.exhausted(d.Attempt):
		outcome.Kind = event.Dead
		outcome.Err = oneLine(fmt.Sprintf("gave up after %d attempts: %v", d.Attempt, r.Err))
	default:
		outcome.Kind = event.Retry
		outcome.Err = oneLine(r.Err.Error())
		outcome.Next = now.Add(t.delay(d.Attempt, r.RetryAfter, jitter)).UnixNano()
	}
	outcome.Blocks = outcome.Kind == event.Dead && t.Block && d.OrderKey != 0
	return outcome
}

// oneLine fits an error into an outcome.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) <= event.ErrMax {
		return text
	}
	cut := event.ErrMax
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut]
}
