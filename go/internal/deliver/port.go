package deliver

import (
	"time"

	"sluice/go/internal/destination"
	"sluice/go/internal/event"
	"sluice/go/internal/store"
)

// Queue is what this service asks of the store. Order per ordering key, and that a delivery is with
// one worker at a time, are the queue's business.
type Queue interface {
	// Lease hands out up to max due deliveries, in order.
	Lease(destination uint32, max int, now time.Time) []store.Delivery
	// Due is signalled when Lease may give more than it did.
	Due(destination uint32) <-chan struct{}
	// NextDue is when Lease may give something without a signal; false: nothing waits.
	NextDue(destination uint32) (time.Time, bool)
	// Read fetches the request.
	Read(seq event.Seq) (Payload, error)
	// Finish records what became of a leased delivery and ends the lease.
	Finish(event.Outcome)
	// Unlease gives back what was not attempted.
	Unlease(store.Delivery)
}

// Payload is the request of one event as it came. All of it ends with Release.
type Payload interface {
	Method() []byte
	Target() []byte
	HeaderCount() int
	Header(i int) (name, value []byte)
	Body() []byte
	Release()
}

// FromStore is the queue of a store.
func FromStore(s *store.Store) Queue { return storeQueue{s} }

type storeQueue struct{ *store.Store }

func (q storeQueue) Read(seq event.Seq) (Payload, error) {
	p, err := q.Store.Read(seq)
	if err != nil {
		return nil, err // not p: a nil *store.Payload would not be a nil Payload
	}
	return p, nil
}

// Gate stands before a destination and may hold attempts back, as a breaker does. Methods are
// called from several goroutines.
type Gate interface {
	// Admit asks to begin n attempts and gives how many may. Each of them is followed by one Report,
	// or counted in one Withdraw. After fewer than n, it is asked again when Changed is signalled,
	// and at the latest after wait (0: only then).
	Admit(now time.Time, n int) (admitted int, wait time.Duration)
	// Report tells what became of an admitted attempt, and of its delivery.
	Report(now time.Time, r destination.Result, o event.OutcomeKind, took time.Duration)
	// Withdraw gives n admissions back unused: there was less to do, or we ended the attempt.
	Withdraw(n int)
	// Drained tells that nothing waits that is due: a lease gave less than it was asked for, and
	// all that it gave has begun.
	Drained(now time.Time)
	// Changed is signalled when Admit may give more than it did.
	Changed() <-chan struct{}
}

// Open lets everything pass.
type Open struct{}

// Admit gives all n.
func (Open) Admit(_ time.Time, n int) (int, time.Duration) { return n, 0 }

// Report ignores the result.
func (Open) Report(time.Time, destination.Result, event.OutcomeKind, time.Duration) {}

// Withdraw has nothing to give back.
func (Open) Withdraw(int) {}

// Drained is nothing to wait for.
func (Open) Drained(time.Time) {}

// Changed never is.
func (Open) Changed() <-chan struct{} { return nil }
