package observe

import (
	"time"

	"sluice/shm-abi/shmabi"
)

// Facts is a look at the daemon, taken once a scrape.
type Facts struct {
	ConfigVersion, Generation uint32
	// Restarts counts data planes that had to be replaced because they died.
	Restarts  uint64
	DataPlane DataPlane
	// Certificates are those that listeners show.
	Certificates []Certificate
	Secrets      []Secret
	Admission    Admission
	Lanes        []Lane
	Journal      Journal
	Sources      []Source
	// Destinations are all that have a queue, configured or not.
	Destinations []Destination
	// Breakers are those of destinations and of groups.
	Breakers []BreakerLook
	// DeliveredWaits are the senders whose answer waits for a destination.
	DeliveredWaits uint64
	// BeltWakes counts frames that the control plane found without its doorbell; 0 is right.
	BeltWakes uint64
	// Gaps are the entries in the ledger of refusals.
	Gaps int
}

// DataPlane is the one that accepts.
type DataPlane struct {
	Driver  string
	Sandbox []string // what it gave up
	// Retiring are older ones that finish what they have.
	Retiring int
}

// Certificate is one that a listener shows.
type Certificate struct {
	Listener, File string
	NotAfter       time.Time
}

// Admission is the policy in force.
type Admission struct {
	Limit, MaxHeld uint64
	HoldBudget     time.Duration
	// Overloaded has a bit for each class, in the order of Classes.
	Overloaded uint64
	// HoldBound, ServiceTime, ShareRate (events a second; 0: no bound) and Saturation (0 to 1) are
	// what the controller goes by; Changes counts its decisions by reason.
	HoldBound, ServiceTime time.Duration
	ShareRate, Saturation  float64
	Changes                map[string]uint64
}

// Classes are the names of the classes of requests, the first served first.
var Classes = [shmabi.Classes]string{
	"high", "never_retries", "default", "low", "never_retries_over_share", "default_over_share",
	"repeat", "low_over_share",
}

// Lane is one ring of requests. Name tells it from the others that exist at the same time.
type Lane struct {
	Name           string
	Used, Capacity uint64
}

// Journal is the state of the log.
type Journal struct {
	UsedBytes, TotalBytes uint64
	Events                uint64
	OldestAge             time.Duration
	Writable, Full        bool
	Headroom              uint64 // bytes until it is full
	// UndeliveredAge is of the oldest event that is not delivered; 0: there is none. RetentionAge is
	// how long delivered ones are kept.
	UndeliveredAge, RetentionAge time.Duration
	DeadDropped                  uint64 // dead letters that retention took
	KeysLeft                     bool   // more dedup keys are open than go with the journal
	DedupMemory                  uint64 // bytes of the filters of dedup keys
	DedupMemoryShort             bool   // they would need more
	Durable, Applied             uint64 // groups
	// Committer, Applier and Engine are the CPU time behind the verdict, by stage.
	Committer, Applier, Engine time.Duration
}

// Source counts what became of a source's frames.
type Source struct {
	Name                                         string
	Stored, Duplicates, Unauthorized, Handshakes uint64
	// RefusedInRow counts since the last success; Guarded: its provider is near to stop sending.
	RefusedInRow uint64
	Guarded      bool
	// Unavailable counts requests whose key was not known yet, Unverified by reason the events that
	// were taken without a proof.
	Unavailable uint64
	Unverified  map[string]uint64
	// Silent: nothing came for longer than is usual or allowed; Heard is when its sender was heard
	// last, zero: never.
	Silent bool
	Heard  time.Time
}

// Destination is one queue.
type Destination struct {
	Name      string
	Backlog   uint64
	OldestAge time.Duration
	Dead      uint64
	// Rate is deliveries that end a second, Drain the seconds that the backlog takes at it; infinite
	// where nothing ends.
	Rate, Drain float64
	Inflight    uint64
	Limit       uint64 // attempts that may be in flight
	Breaker     Breaker
}

// BreakerLook is one breaker with the signals that it follows.
type BreakerLook struct {
	Name  string
	Group bool // of a group; that of a destination is shown by Destination.Breaker
	State Breaker
	// Alone tells that it is shared and that the other hosts are not heard.
	Alone   bool
	Signals []BreakerSignal
}

// BreakerSignal is the last value that a signal gave, in its own unit.
type BreakerSignal struct {
	Name  string
	Value float64
	Stale bool // its source is dead: the value is the last one known
}

// Breaker is where a destination's breaker stands, as the number that the metric shows.
type Breaker uint8

// The states of a breaker.
const (
	Closed Breaker = iota
	HalfOpen
	Open
)
