package deliver

import (
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"sluice/go/internal/destination"
	"sluice/go/internal/event"
	"sluice/go/internal/store"
)

// scratch is the memory in which one goroutine puts its requests together, one at a time.
type scratch struct {
	request *destination.Request // nil: none yet, or an adapter that panicked may hold it
}

var scratches = sync.Pool{New: func() any { return &scratch{} }}

// take makes the request of a delivery. It is good until drop, or until the payload's release.
func (s *scratch) take(o *Options, d store.Delivery, p Payload) *destination.Request {
	if s.request == nil {
		s.request = &destination.Request{}
	}
	r := s.request
	*r = destination.Request{
		EventID: d.ID, Seq: d.Seq, Source: o.SourceName(d.Source), Attempt: int(d.Attempt),
		Method: text(r.Method, p.Method()), Target: text(r.Target, p.Target()),
		Headers: r.Headers[:0], Body: p.Body(), ReceivedNS: d.Received.UnixNano(),
		OrderKey: d.OrderKey, WantAnswer: o.WantAnswer(d.ID),
	}
	for i := range p.HeaderCount() {
		name, value := p.Header(i)
		r.Headers = append(r.Headers, destination.Header{Name: name, Value: value})
	}
	return r
}

// text spares the copy of what was in the last request already.
func text(last string, b []byte) string {
	if last == string(b) {
		return last
	}
	return string(b)
}

// drop lets go of what belongs to the payload.
func (s *scratch) drop() {
	clear(s.request.Headers)
	s.request.Body = nil
}

var contentType = [][]byte{[]byte("Content-Type")}

// transform puts the body of the request's own destination in the place of the sender's.
func (s *scratch) transform(by destination.Transform) error {
	body, kind, err := by.Apply(s.request)
	if err != nil {
		return err
	}
	s.request.Body = body
	if kind == "" {
		return nil
	}
	kept := s.request.Headers[:0]
	for _, h := range s.request.Headers {
		if !destination.Named(h.Name, contentType) {
			kept = append(kept, h)
		}
	}
	s.request.Headers = append(kept, destination.Header{Name: contentType[0], Value: []byte(kind)})
	return nil
}

// sift leaves out of a lease what the destination's filter does not want, and ends it. That takes
// no attempt, so that neither the concurrency nor the rate nor the gate have a say in it.
func (r *runner) sift(t *target, list []store.Delivery) []store.Delivery {
	if t.Filter == nil {
		return list
	}
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	kept := list[:0]
	for _, d := range list {
		if r.matches(s, t, d) {
			kept = append(kept, d)
		}
	}
	return kept
}

func (r *runner) matches(s *scratch, t *target, d store.Delivery) bool {
	o := &r.service.options
	payload, err := o.Queue.Read(d.Seq)
	if err != nil {
		return true // the attempt finds it too, and tells
	}
	start, match := o.Now(), false
	request := s.take(o, d, payload)
	err = r.guard(t, d, "filter", func() error {
		match, err = t.Filter.Match(request)
		return err
	})
	s.drop()
	payload.Release()
	now := o.Now()
	switch {
	case err != nil:
		r.refuse(t, d, err, now)
	case !match:
		r.record(t, d, event.Outcome{
			Seq: d.Seq, Destination: t.ID, Kind: event.Skip, Attempt: d.Attempt, At: now.UnixNano(),
		}, nil, now.Sub(start))
	}
	return err == nil && match
}

// refuse gives up a delivery that the operator's own expression has no answer for: the event is
// kept, and can be replayed when the expression is mended.
func (r *runner) refuse(t *target, d store.Delivery, err error, now time.Time) {
	outcome := t.outcome(d, destination.Refusal(err), now, r.service.options.Jitter)
	r.record(t, d, outcome, nil, 0)
}

// guard runs an expression. A panic in it is our bug, told with its stack, and an error like any
// other to the event.
func (r *runner) guard(t *target, d store.Delivery, what string, run func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			r.panicked(t, d, what, v)
			err = fmt.Errorf("%s: panic: %v", what, v)
		}
	}()
	if err := run(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func (r *runner) panicked(t *target, d store.Delivery, what string, v any) {
	r.service.options.Log.Error("panic in a "+what, "destination", t.Name,
		"event", d.ID.String(), "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
}
