package deliver

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
	"unicode/utf8"

	"sluice/go/internal/destination"
	"sluice/go/internal/event"
	"sluice/go/internal/faultpoint"
	"sluice/go/internal/retry"
	"sluice/go/internal/store"
)

// attempt makes one attempt and records what became of it.
func (r *runner) attempt(t *target, d store.Delivery) {
	o := &r.service.options
	pause := time.Duration(0)
	defer func() { r.leave(t, pause) }()

	payload, err := o.Queue.Read(d.Seq)
	if err != nil {
		t.Gate.Withdraw(1) // says nothing about the destination
		r.unreadable(t, d, err)
		return
	}
	start := o.Now()
	result, panicked := r.deliver(t, d, payload)
	took := o.Now().Sub(start)
	if !panicked {
		payload.Release()
	}
	if r.service.ctx.Err() != nil && result.Kind != destination.Delivered && result.Code == 0 {
		// We ended it. A failure that came at the same moment is not worth telling apart.
		t.Gate.Withdraw(1)
		o.Queue.Unlease(d)
		o.Outcome(t.Name, "cancelled", 0, took)
		return
	}
	t.Concurrency.Ended(result.Kind, took)
	if result.Kind == destination.Retry && (result.Code == 429 || result.Code == 503) {
		pause = min(result.RetryAfter, t.Retry.Max)
	}
	outcome := conclude(t, d, result, o.Now(), o.Jitter)
	t.Gate.Report(o.Now(), result, outcome.Kind, took)
	faultpoint.Pass(faultpoint.OutcomeMade)
	o.Queue.Finish(outcome)
	o.Outcome(t.Name, outcomeNames[outcome.Kind], result.Code, took)
	if outcome.Kind == event.Dead {
		r.deadLetter(t, outcome, d.ID)
	}
}

var outcomeNames = map[event.OutcomeKind]string{
	event.Done: "delivered", event.Retry: "retry", event.Dead: "dead",
}

// deliver hands the event to the adapter. A panic there is a bug of ours, told with its stack, and
// must not take the other destinations with it: the event is tried again and ends as a dead letter
// at worst. The payload is not released then, because something of the adapter may hold it still.
func (r *runner) deliver(t *target, d store.Delivery, p Payload) (result destination.Result,
	panicked bool) {
	defer func() {
		if v := recover(); v != nil {
			r.service.options.Log.Error("panic in a destination", "destination", t.Name,
				"event", d.ID.String(), "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			result, panicked = destination.Failure(fmt.Errorf("panic in the adapter: %v", v)), true
		}
	}()
	request := destination.Request{
		EventID: d.ID, Source: r.service.options.SourceName(d.Source), Attempt: int(d.Attempt),
		Method: string(p.Method()), Target: string(p.Target()),
		Headers: make([]destination.Header, p.HeaderCount()), Body: p.Body(),
		ReceivedNS: d.Received.UnixNano(),
	}
	for i := range request.Headers {
		request.Headers[i].Name, request.Headers[i].Value = p.Header(i)
	}
	result = t.Destination.Deliver(r.service.ctx, &request)
	if result.Kind != destination.Delivered && result.Err == nil {
		result.Err = fmt.Errorf("%v without a reason (code %d)", result.Kind, result.Code)
	}
	return result, false
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
	outcome := conclude(t, d, result, o.Now(), o.Jitter)
	o.Queue.Finish(outcome)
	o.Outcome(t.Name, outcomeNames[outcome.Kind], 0, 0)
	o.Log.Error("event not readable", "destination", t.Name, "event", d.ID.String(), "error", err)
}

// conclude decides what a result means for the delivery.
func conclude(t *target, d store.Delivery, r destination.Result, now time.Time,
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
	case t.Retry.Exhausted(int(d.Attempt)):
		outcome.Kind = event.Dead
		outcome.Err = oneLine(fmt.Sprintf("gave up after %d attempts: %v", d.Attempt, r.Err))
	default:
		outcome.Kind = event.Retry
		outcome.Err = oneLine(r.Err.Error())
		outcome.Next = now.Add(t.Retry.Delay(int(d.Attempt), r.RetryAfter, jitter)).UnixNano()
	}
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
