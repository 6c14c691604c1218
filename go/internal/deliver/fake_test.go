package deliver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/go/internal/destination"
	"sluice/go/internal/event"
	"sluice/go/internal/store"
	"sluice/shm-abi/shmabi"
)

// queue is the store as this service sees it: in memory, one destination, order per key.
type queue struct {
	t        *testing.T
	due      chan struct{}
	mu       sync.Mutex
	entries  []*entry
	outcomes []event.Outcome
	unleased int
	read     int // payloads handed out and not released
	readErr  error
	headers  [][2]string   // of every event
	term     time.Duration // of a lease; 0: for ever
}

type entry struct {
	store.Delivery
	due    time.Time
	leased bool
	over   bool
}

const destinationID = 7

func newQueue(t *testing.T) *queue {
	return &queue{t: t, due: make(chan struct{}, 1),
		headers: [][2]string{{"x-Odd", "caf\xe9"}, {"X-Empty", ""}}}
}

// add makes n more deliveries due now. key 0 is without order.
func (q *queue) add(n int, key uint64) {
	q.mu.Lock()
	for range n {
		i := len(q.entries)
		q.entries = append(q.entries, &entry{Delivery: store.Delivery{
			Seq: event.NewSeq(1, i), ID: event.NewID(event.LaneID{1}, uint64(i), 0), Source: 3,
			Destination: destinationID, Attempt: 1, Received: time.Unix(1767225600, 5), OrderKey: key,
		}})
	}
	q.mu.Unlock()
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.due <- struct{}{}:
	default:
	}
}

func (q *queue) Lease(id uint32, max int, now time.Time) []store.Delivery {
	q.mu.Lock()
	defer q.mu.Unlock()
	if id != destinationID || max <= 0 {
		q.t.Errorf("Lease(%d, %d)", id, max)
	}
	var list []store.Delivery
	blocked := map[uint64]bool{}
	for _, e := range q.entries {
		if e.over || len(list) == max || blocked[e.OrderKey] {
			continue
		}
		if e.OrderKey != 0 {
			blocked[e.OrderKey] = true
		}
		if !e.leased && !e.due.After(now) {
			e.leased = true
			if q.term > 0 {
				e.Expires = now.Add(q.term)
			}
			list = append(list, e.Delivery)
		}
	}
	return list
}

func (q *queue) Due(uint32) <-chan struct{} { return q.due }

func (q *queue) NextDue(uint32) (next time.Time, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range q.entries {
		if !e.over && !e.leased && (!ok || e.due.Before(next)) {
			next, ok = e.due, true
		}
	}
	return next, ok
}

func (q *queue) find(seq event.Seq) *entry {
	e := q.entries[seq.Index()]
	if !e.leased || e.over {
		q.t.Errorf("delivery %d is not leased", seq.Index())
	}
	return e
}

func (q *queue) Finish(o event.Outcome) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.find(o.Seq)
	e.leased = false
	if o.Attempt != e.Attempt || o.Destination != destinationID || o.At == 0 {
		q.t.Errorf("outcome %+v of attempt %d", o, e.Attempt)
	}
	well := o.Kind == event.Done || o.Kind == event.Skip
	if (o.Kind == event.Retry) != (o.Next != 0) || well != (o.Err == "") {
		q.t.Errorf("outcome contradicts itself: %+v", o)
	}
	q.outcomes = append(q.outcomes, o)
	if o.Kind == event.Retry {
		e.Attempt++
		e.due = time.Unix(0, o.Next)
	} else {
		e.over = true
	}
	if !e.over || e.OrderKey != 0 { // else nothing can be leased that could not before
		q.signal()
	}
}

func (q *queue) Unlease(d store.Delivery) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.find(d.Seq).leased = false
	q.unleased++
	q.signal()
}

func (q *queue) Read(seq event.Seq) (Payload, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.readErr != nil {
		return nil, q.readErr
	}
	method, target := line(seq.Index())
	frame, err := shmabi.BuildEvent(shmabi.EventParts{
		Method: method, Target: target, Headers: q.headers,
		Body: []byte{byte(seq.Index()), 0, 255}, ReceivedNS: 5,
	})
	if err != nil {
		q.t.Error(err)
	}
	e, err := frame.Event()
	if err != nil {
		q.t.Error(err)
	}
	q.read++
	return &payload{e, q}, nil
}

// line is the request line of an event.
func line(i int) (method, target string) {
	return []string{"PUT", "POST"}[i%2], fmt.Sprint("/in?x=", 1+i%3)
}

type payload struct {
	shmabi.Event
	q *queue
}

func (p *payload) Release() {
	p.q.mu.Lock()
	defer p.q.mu.Unlock()
	p.q.read--
	for i := range p.Body() {
		p.Body()[i] = 0xdd // whoever reads it still reads this
	}
}

// kinds lists the outcomes in the order in which they were recorded.
func (q *queue) kinds() (list []event.OutcomeKind) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, o := range q.outcomes {
		list = append(list, o.Kind)
	}
	return list
}

// leased is how many deliveries somebody has.
func (q *queue) leased() (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range q.entries {
		if e.leased {
			n++
		}
	}
	return n
}

func (q *queue) givenBack() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.unleased
}

// check is for the end of a test: nothing is leased, all payloads are released.
func (q *queue) check() {
	q.t.Helper()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.read != 0 {
		q.t.Errorf("%d payloads not released", q.read)
	}
	for i, e := range q.entries {
		if e.leased {
			q.t.Errorf("delivery %d is still leased", i)
		}
	}
}

// receiver is a destination made of a function.
type receiver struct {
	deliver func(ctx context.Context, r *destination.Request) destination.Result
	mu      sync.Mutex
	running int
	peak    int
	bodies  []byte // first byte of each request's body, in order of arrival
	times   []time.Time
	closed  int
}

func (r *receiver) Deliver(ctx context.Context, request *destination.Request) destination.Result {
	r.mu.Lock()
	if r.closed > 0 {
		panic("delivered to a closed destination")
	}
	r.running++
	r.peak = max(r.peak, r.running)
	r.bodies = append(r.bodies, request.Body[0])
	r.times = append(r.times, time.Now())
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.running--
		r.mu.Unlock()
	}()
	return r.deliver(ctx, request)
}

func (r *receiver) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running > 0 {
		panic("closed under an attempt")
	}
	r.closed++
	return nil
}

func (r *receiver) seen() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.bodies)
}

func accepting() *receiver {
	return &receiver{deliver: func(context.Context, *destination.Request) destination.Result {
		return destination.Delivery(200)
	}}
}

func refusing(code int, after time.Duration) *receiver {
	return &receiver{deliver: func(context.Context, *destination.Request) destination.Result {
		r := destination.Failure(errors.New("busy"))
		r.Code, r.RetryAfter = code, after
		return r
	}}
}

// log is the service's log with the wall clock left out.
func log(to *bytes.Buffer) *slog.Logger {
	if to == nil {
		return slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	return slog.New(slog.NewTextHandler(to, nil))
}

// hanging answers 200 after some time, or when the attempt is ended.
func hanging(span time.Duration) *receiver {
	return &receiver{deliver: func(ctx context.Context, _ *destination.Request) destination.Result {
		select {
		case <-time.After(span):
			return destination.Delivery(200)
		case <-ctx.Done():
			return destination.Failure(ctx.Err())
		}
	}}
}

// pass lets so much of a bubble's time pass, and all that is to happen by then.
func pass(span time.Duration) {
	time.Sleep(span)
	synctest.Wait()
}
