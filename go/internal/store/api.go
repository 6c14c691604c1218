package store

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/store/vfs"
	"sluice/shm-abi/shmabi"
)

// Options is what Open needs to know. Only Dir is required.
type Options struct {
	// Dir is the data directory. It is made, and its `lock` is held until Close.
	Dir string
	// FS is where the journal lives; nil is the operating system's. The index, which may be lost,
	// always lives in Dir/index of the operating system, or in IndexDir.
	FS vfs.FS
	// IndexDir overrides Dir/index.
	IndexDir string
	// Now is the wall clock; nil is time.Now.
	Now func() time.Time
	// Log receives damage, rebuilds and what retention drops; nil is slog.Default.
	Log *slog.Logger
	// Retention says what may be dropped; see there.
	Retention Retention
	// SegmentBytes overrides the size of a journal segment; 0 lets the file system decide.
	SegmentBytes int64
	// Witness is the `durable group` word of the control page, when that is of this boot, or 0. A
	// journal that ends before it has lost something, and Recovery says so.
	Witness uint64
	// LeaseTTL ends the lease of a worker that never reports; 0 is DefaultLeaseTTL. It must be longer
	// than any attempt: a worker that is late makes the delivery a second time.
	LeaseTTL time.Duration
	// Repeated is told when a stored event turns out to repeat another and its sender waits for the
	// delivery (ack level delivered). The applier calls it, so it may ask State, and must not wait
	// for the store otherwise. What Open and Settle read is not told. nil: nobody wants to know.
	Repeated func(repeat, first event.ID)
	// Describe calls use with the ID and the type that the sender gave the event of a frame, nil for
	// none; both end with use. source is the name of its source. Listings show them and find events
	// by them: what was appended when Describe knew another place for them is found by that. It is
	// called from several goroutines. nil: events have neither.
	Describe func(source string, f shmabi.Frame, use func(id, kind []byte))
	// DedupMemory bounds, in bytes, the filters that spare lookups of dedup keys their reads: three
	// bytes a key. With more keys, more lookups read the disk. 0 is index.FilterBytes.
	DedupMemory int64
	// LockWait is how long Open waits for another owner of Dir to leave; 0 is DefaultLockWait,
	// negative does not wait.
	LockWait time.Duration

	seams
}

// Retention bounds what the journal keeps. Whole segments go, oldest first. What is undelivered,
// blocks others, or is a dead letter that nobody has decided about is copied forward before, where
// it is little; where it is much its segment stays. When that fills the space, intake stops.
type Retention struct {
	// MaxAge is how long a segment is kept after its last event; 0 is DefaultMaxAge, negative is
	// for ever. It must not be shorter than the longest dedup window.
	MaxAge time.Duration
	// MaxBytes is the most the journal may take; 0 leaves it to the file system. From
	// TrimShare of it on segments go before MaxAge; over FullShare Space says Full.
	MaxBytes int64
	// DeadAge is how long a dead letter that blocks nothing is kept, from when it died; 0 is
	// DefaultDeadAge, negative is for ever. When space is short, those that are too many to be
	// copied forward go before their time: Stats.DeadDropped counts them.
	DeadAge time.Duration
}

// Defaults of Options.
const (
	DefaultMaxAge   = 7 * 24 * time.Hour
	DefaultDeadAge  = 30 * 24 * time.Hour
	DefaultLeaseTTL = 15 * time.Minute
	DefaultLockWait = 5 * time.Second
)

// TrimShare and FullShare are shares of the journal's space, in percent.
const (
	TrimShare = 75
	FullShare = 90
)

var (
	// ErrClosed is the answer after Close.
	ErrClosed = errors.New("store is closed")
	// ErrLocked says that another sluice owns the data directory: the operator's to mend.
	ErrLocked = errors.New("data directory is in use by another sluice")
	// ErrNotFound says that no such event is kept (any more).
	ErrNotFound = errors.New("no such event")
	// ErrLost says that an event is known, and that its request can never be read again: the disk
	// lost it. It wraps ErrNotFound.
	ErrLost = fmt.Errorf("%w any more: its bytes are lost", ErrNotFound)
	// ErrNotSettled says that the group in doubt is not durable yet: nothing may be appended.
	ErrNotSettled = errors.New("the journal's last group is still in doubt")
)

// Recovery is what Open found.
type Recovery struct {
	JournalID [16]byte
	// Durable is the last group that is in the journal, the one in doubt included.
	Durable uint64
	// Doubt tells that the last group must be written again by Settle.
	Doubt bool
	// Lanes holds the end of the last span of every living lane: bytes below it are durable.
	Lanes map[event.LaneID]uint64
	// Ended holds the lanes whose LANE-END record is durable: their files may be unlinked.
	Ended map[event.LaneID]bool
	// Damage names what is lost or unreadable, one line each. Empty: nothing.
	Damage []string
	// IndexRebuilt tells that the index was missing or damaged and was built from the journal.
	IndexRebuilt bool
	// Replayed counts the groups read to bring the index up to date.
	Replayed uint64
}

// Batch is one group before it is written. Frames are whole frames, C line final, still where the
// data plane wrote them; nothing of them is kept after Append returns. Spans cover everything they
// came from, frames left out included. A batch may be used again once it is durable or dropped.
type Batch struct {
	Spans  []event.Span
	Frames [][]byte
	laid   *layout // what Lay has copied, nil: nothing
}

// Space is how much room is left.
type Space struct {
	// Writable is false while groups cannot be made durable: senders get 503.
	Writable bool
	// Full asks for 503 before writing fails: over FullShare, or under the floor that the
	// outcomes of the living deliveries need.
	Full bool
	// UsedBytes is the journal's; TotalBytes is what it may grow to.
	UsedBytes, TotalBytes int64
	// Oldest is the received time of the oldest event kept; zero: none.
	Oldest time.Time
	// Headroom is how many bytes the journal may grow by before it is Full; 0: it is.
	Headroom int64
	// Living counts deliveries that are neither delivered nor dead.
	Living uint64
}

// Delivery is one leased delivery.
type Delivery struct {
	Seq         event.Seq
	ID          event.ID
	Destination uint32
	Source      uint32
	Attempt     uint16 // of the attempt to make now: 1 is the first
	Received    time.Time
	OrderKey    uint64 // 0: none
	Route       uint32
	Size        uint32 // of the body
	// Expires is when the lease ends, by the wall clock as it was when the lease began. The lease
	// itself is measured by a clock that nobody sets.
	Expires time.Time

	term uint64 // of the lease; no two of a destination share it
}

// DeliveryState is where one delivery of an event stands.
type DeliveryState struct {
	Destination uint32
	State       event.State
	Attempts    uint16
	Code        uint16    // of the last attempt
	Next        time.Time // zero: none is due
	LastError   string
	At          time.Time // of the last attempt or operator's command; zero: none yet
	Dropped     bool      // an operator gave this dead letter up
	Blocked     bool      // it has to be made, and waits for another under its ordering key
	Blocks      bool      // it is a dead letter that those behind it under its key wait for
}

// Event is one line of a listing.
type Event struct {
	Seq        event.Seq
	ID         event.ID
	Source     uint32
	ProviderID string // what Options.Describe reads; empty: none
	Type       string // what it read when the event came; empty: none
	Received   time.Time
	Size       uint32 // of the body
	Route      uint32
	State      event.State
	// First is the event that this one repeats; zero unless State is Duplicate.
	First        event.ID
	Destinations []DeliveryState
}

// Detail is all there is to know about an event, its payload apart (see Read).
type Detail struct {
	Event
	// Attempts is what happened to its deliveries, oldest first.
	Attempts []event.Outcome
}

// DeadLetter is a delivery that was given up.
type DeadLetter struct {
	Seq         event.Seq
	ID          event.ID
	Source      uint32
	Destination uint32
	Attempts    uint16
	Code        uint16
	LastError   string
	At          time.Time
	Blocks      bool // see DeliveryState
}

// Filter picks events or dead letters. Zero fields do not filter; all others must hold.
type Filter struct {
	Source, Destination uint32 // ids begin at 1
	// State without Duplicate never lists duplicates.
	State event.State
	// Since is inclusive, Until exclusive; both are received times (of a dead letter: when it
	// died).
	Since, Until time.Time
	ID           event.ID
	ProviderID   string
	Type         string
	// Limit ends the page; 0 is all.
	Limit int
	// Before is Page.Next of the page before; the zero Cursor begins at the newest.
	Before Cursor
	// Oldest lists events the other way round; dead letters never are.
	Oldest bool
}

// Cursor is a place in a listing.
type Cursor struct {
	Seq         event.Seq
	Destination uint32 // of a dead letter
}

// Page is part of a listing, newest first. Next is the zero Cursor when nothing follows.
type Page[T any] struct {
	Items []T
	Next  Cursor
}

// SourceStats counts one source's stored events.
type SourceStats struct {
	Source               uint32
	Accepted, Duplicates uint64
}

// DestinationStats is one destination's queue.
type DestinationStats struct {
	Destination uint32
	Backlog     uint64    // pending and retrying
	Oldest      time.Time // received time of the oldest that is waiting; zero: none
	Dead        uint64
	Leased      uint64
	// Rate is deliveries that ended a second, delivered or given up, in the last minute.
	Rate float64
}

// Drain is how long the backlog takes at the rate of the last minute, should nothing come; false:
// nothing ends.
func (d DestinationStats) Drain() (time.Duration, bool) {
	switch {
	case d.Backlog == 0:
		return 0, true
	case d.Rate == 0:
		return 0, false
	}
	seconds := min(float64(d.Backlog)/d.Rate, (1000 * 24 * time.Hour).Seconds())
	return time.Duration(seconds * float64(time.Second)), true
}

// CPU is the processor time that the work behind the verdict has taken since Open.
type CPU struct {
	Committer time.Duration // Append, estimated from some of its calls
	Applier   time.Duration
	Engine    time.Duration // of the index, beside the applier
}

// Stats is a look at the whole store.
type Stats struct {
	JournalBytes int64
	Events       uint64 // kept, duplicates left out
	Oldest       time.Time
	// Undelivered is the received time of the oldest event that a delivery is still to be made of,
	// or that blocks others; zero: none.
	Undelivered time.Time
	// DeadDropped counts the dead letters that retention took since Open.
	DeadDropped uint64
	// KeysLeft tells that the open dedup windows hold more keys than are carried forward when
	// segments are dropped: without the index, what repeats a dropped event would be delivered.
	KeysLeft bool
	// DedupMemory is what the filters of dedup keys take, in bytes; DedupMemoryShort tells that they
	// would need more than Options.DedupMemory.
	DedupMemory      int64
	DedupMemoryShort bool
	Durable          uint64 // last durable group
	Applied          uint64 // last group in the index
	Flushed          uint64 // last group in the index that a power loss leaves there
	Writable         bool
	CPU              CPU
	Sources          []SourceStats
	Destinations     []DestinationStats
}
