package admin

import (
	"context"
	"iter"
	"net/netip"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/store"
	"sluice/shm-abi/shmabi"
)

// Store is what this service asks of the store.
type Store interface {
	Catalogue() *event.Catalogue
	Stats() store.Stats
	Events(store.Filter) (store.Page[store.Event], error)
	Event(event.ID) (store.Detail, error)
	Read(event.Seq) (Payload, error)
	Tail(context.Context, store.Filter) iter.Seq2[store.Event, error]
	DeadLetters(store.Filter) (store.Page[store.DeadLetter], error)
	ReplayEvents(ctx context.Context, f store.Filter, by string) (int, error)
	ReplayDead(ctx context.Context, f store.Filter, by string) (int, error)
	DropDead(ctx context.Context, f store.Filter, reason, by string) (int, error)
}

// Payload is the request of one event as it came. All of it ends with Release.
type Payload interface {
	Frame() shmabi.Frame
	Method() []byte
	Target() []byte
	Peer() netip.AddrPort
	HeaderCount() int
	Header(i int) (name, value []byte)
	Body() []byte
	Release()
}

// FromStore makes a store's own methods fit.
func FromStore(s *store.Store) Store { return ownStore{s} }

type ownStore struct{ *store.Store }

func (s ownStore) Read(seq event.Seq) (Payload, error) {
	p, err := s.Store.Read(seq)
	if err != nil {
		return nil, err // not p: a nil *store.Payload would not be a nil Payload
	}
	return p, nil
}

// Facts is what the daemon knows of itself beside the store.
type Facts struct {
	Ready         bool
	Generation    uint32 // counts data planes
	ConfigVersion uint32 // counts accepted configs
	Uptime        time.Duration
	Listeners     []string
	Admission     Admission
	// Sources and Destinations are the config's, in its order. What only the store still knows
	// follows them in the answer.
	Sources      []Source
	Destinations []Destination
	DataPlane    DataPlane
	// Problems say why the daemon is not ready, and whatever an operator should look at.
	Problems  []string
	JournalID [16]byte
	// Damage is what recovery named as lost.
	Damage []string
}

// Admission is the limiter at work.
type Admission struct {
	Limit, Inflight, Held uint64
	Overloaded            bool
	OverloadedClasses     []string // names, the one served first first
}

// Source is one configured source.
type Source struct {
	Name string
	// Duplicates are those answered from memory; the store adds the ones that it found itself.
	Duplicates            uint64
	Unauthorized, Refused uint64
	// RefusedInRow is the refusals since its last success, and Guarded tells that there are nearly as
	// many as its provider bears: it is served first.
	RefusedInRow uint64
	Guarded      bool
}

// Destination is one configured destination.
type Destination struct {
	Name    string
	Breaker string // closed, open or half_open
}

// DataPlane is the process that serves.
type DataPlane struct {
	Pid      uint32
	Driver   string
	Restarts uint64
}

// Limits is the admission limit with its bounds, and what the controller goes by.
type Limits struct {
	// Algorithm is the one in force.
	Algorithm       string
	Limit, Min, Max uint64
	// Base is the limit without its alternation.
	Base           float64
	PinnedUntil    time.Time // zero: not pinned
	MaxHeld        uint64
	HoldBudget     time.Duration
	Inflight, Held uint64
	// ServiceTime is how long a slot is taken in the mean, Throughput the events a second that become
	// durable; 0: not known yet.
	ServiceTime time.Duration
	Throughput  float64
	// HoldBound bounds what waits while its class is overloaded.
	HoldBound time.Duration
	// ShareRate is what each source may have in events a second; 0: no bound is in force.
	ShareRate float64
	Changes   []LimitChange // newest first
}

// LimitChange is a move of the limit.
type LimitChange struct {
	At       time.Time
	From, To float64
	Reason   string
}

// Limiter is the admission limit.
type Limiter interface {
	Limits() Limits
	// Pin holds the limit at a number for a while. One out of bounds is an error of the caller.
	Pin(limit uint64, span time.Duration) error
	// Release ends a pin.
	Release()
}
