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
	ReplayEvents(ctx context.Context, f store.Filter, r store.Replay) (int, error)
	ReplayDead(ctx context.Context, f store.Filter, r store.Replay) (int, error)
	DropDead(ctx context.Context, f store.Filter, reason, by string) (int, error)
	Import(ctx context.Context, list []store.Imported) (store.ImportResult, error)
}

// Payload is the request of one event as it came. All of it ends with Release.
type Payload interface {
	Frame() shmabi.Frame
	Method() []byte
	Target() []byte
	Peer() netip.AddrPort
	Client() []byte
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
	// Provider is its profile; empty for a scheme of the config. Without Enforce what is not proven
	// is taken all the same; Unverified counts what was, also where its source proves nothing.
	Provider   string
	Enforce    bool
	Unverified uint64
	LastEvent  time.Time // when the last event that is stored came; zero: none since the start
	Secrets    []Secret  // the config's in its order, then those that handshakes brought
	// Silent tells that nothing came for longer than is usual for it, or than the config allows.
	Silent     bool
	Reconciled *Reconciled // the run under way, or the last one; nil: there was none
}

// Destination is one configured destination.
type Destination struct {
	Name    string
	Breaker string // closed, open or half_open
	// Inflight attempts are under way, of Limit that may be.
	Inflight, Limit uint64
}

// DataPlane is the process that serves.
type DataPlane struct {
	Pid      uint32
	Driver   string // io_uring or epoll
	Restarts uint64
	// DriverReason is why it is not io_uring, Sandbox what the process took away from itself, and
	// SandboxReason what the host does not give of that.
	DriverReason  string
	Sandbox       []string
	SandboxReason string
	Retiring      uint32 // older ones that finish what they have
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

// Breakers are those of all destinations and groups.
type Breakers interface {
	// List gives them by name.
	List() []Breaker
	// Set holds one open ("open") or closed ("closed") for a span (0: without an end), or lets it go
	// ("auto"). by is who asks.
	Set(name, state string, span time.Duration, by string) error
	// Watch gives each transition from the time of the call on, until ctx ends. Who is too slow for
	// them misses some. It is gone through in any case, so that it can let go of what it holds.
	Watch(ctx context.Context) iter.Seq[BreakerChange]
}

// Workers are told of those that work behind destinations.
type Workers interface {
	// Report says that a worker lives and has been in a state (idle, busy or lock_wait) for a while.
	// It is forgotten when it says nothing for ttl. An error is the caller's to mend: nobody listens
	// for workers of that breaker, or there are too many.
	Report(breaker, worker, state string, forTime, ttl time.Duration) error
}

// Breaker is one breaker as it is now.
type Breaker struct {
	Name  string
	State string // closed, open or half_open
	Group bool   // of a group, not of a destination
	// Members are a group's destinations; of a destination its groups.
	Members []string
	Reason  string
	Since   time.Time
	// Probe is when an open one is tried; zero: not known.
	Probe time.Time
	// Phase, of a half open one, is probe, ramp or drain; Rate is the deliveries a second that pass
	// then, 0: no bound.
	Phase string
	Rate  float64
	// Held tells that an operator holds it, until HeldUntil (zero: without an end).
	Held      bool
	HeldUntil time.Time
	Signals   []BreakerSignal
	Opened    uint64 // times, since the start
	// Hosts is how many share it, this one too; 0: it is not shared. Alone: the others are not heard.
	Hosts int
	Alone bool
}

// BreakerSignal is the last that one signal said.
type BreakerSignal struct {
	Name                 string
	Value, Trip, Recover float64
	Verdict              string // well, sick or between; empty: never read
	Stale                bool   // its source is dead: the value is the last one known
	Error                string // why it is
	At                   time.Time
}

// BreakerChange is one transition.
type BreakerChange struct {
	From    string // the state before
	Breaker Breaker
}
