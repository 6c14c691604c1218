package journal

import (
	"errors"
	"log/slog"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/store/vfs"
)

// Limits of the format.
const (
	// BlockSize is the unit that groups are padded to; no block is shared by two groups.
	BlockSize = 4096
	// GroupBytesMax bounds the frames of one group, unless the group is a single frame.
	GroupBytesMax = 4 << 20
	// SegmentBytesMax and SegmentBytesMin bound the segment size that Open chooses.
	SegmentBytesMax = 64 << 20
	SegmentBytesMin = 4 << 20
	// IdleAfter is how long after the last group an idle mark is due.
	IdleAfter = time.Second
	// OutcomeBytes is what one outcome without text takes; the space floor counts with it.
	OutcomeBytes = 64
)

// Errors of this package; test with errors.Is.
var (
	// ErrUnwritable: the group reached no segment. The disk's fault; Append the same batch again
	// later, it goes to a fresh segment.
	ErrUnwritable = errors.New("journal takes no groups")
	// ErrUnsettled: the group in doubt is not durable yet; call Settle. The caller's fault.
	ErrUnsettled = errors.New("the group in doubt is not settled")
	// ErrTooLarge: more than GroupBytesMax or event.GroupFrames in one batch. The caller's fault.
	ErrTooLarge = errors.New("batch is over the bounds of a group")
	// ErrBatch: a frame or span of the batch is malformed. The caller's fault.
	ErrBatch = errors.New("malformed batch")
	// ErrGone: the segment of a Loc was dropped.
	ErrGone = errors.New("segment is gone")
	// ErrDamaged: the bytes on disk are not those that were written.
	ErrDamaged = errors.New("damaged on disk")
	// ErrNewer: the journal was written by a newer sluice.
	ErrNewer = errors.New("written by a newer sluice; start that one, or a later one")
	// ErrForeign: the directory holds segments of another journal alone. The operator's fault.
	ErrForeign = errors.New("segments of another journal")
	// ErrClosed: the journal was closed.
	ErrClosed = errors.New("journal is closed")
)

// Options says where a journal lives and what its caller knows about it. FS and Dir are required.
type Options struct {
	FS  vfs.FS
	Dir string // made if missing
	// SegmentSize 0: 64 MiB, or 1/16 of the file system rounded down to a power of two, at least
	// 4 MiB. Set: a multiple of BlockSize.
	SegmentSize int64
	// MaxBytes is the space that the journal may use; 0: the file system.
	MaxBytes int64
	// CacheBytes bounds the memory of recent groups kept for delivery; 0: 64 MiB.
	CacheBytes int64
	// Clock is the wall clock; nil: time.Now. Used for idle marks and the times of groups alone.
	Clock func() time.Time
	// Random fills epochs and the journal id; nil: crypto/rand.
	Random func([]byte)
	Log    *slog.Logger // nil: silent
	Witness
}

// Witness is what others remember of the last durable group; a journal that ends before it lost
// acknowledged groups.
type Witness struct {
	IndexGroup      uint64 // watermark of the index as it is on disk
	ShmDurableGroup uint64 // `durable group` of the control page; believed if SameBoot
	SameBoot        bool
}

// Recovery is what Open found.
type Recovery struct {
	JournalID [16]byte
	Created   bool // the directory held no journal
	// Lanes has the last `to` of every living lane, those of the group in doubt included.
	Lanes map[event.LaneID]uint64
	// Ended are the lanes whose end the newest segment records.
	Ended map[event.LaneID]bool
	// Doubt: LastGroup must be written again by Settle before it counts as durable.
	Doubt     bool
	LastGroup uint64
	// Catalogue is the JSON of the last CONFIG frame, nil if there was never one. It may be the
	// one of the group in doubt.
	Catalogue []byte
	Damage    []Damage // acknowledged bytes that are not there any more
	Torn      *Torn    // a group that was being written when the power went; no alarm
	Foreign   []string // names in the directory that are none of ours, left alone
	Kept      []string // damaged files of earlier lives, kept for good
	Segments  []SegmentInfo
}

// SegmentInfo describes a living segment.
type SegmentInfo struct {
	Number                uint64
	File                  string // name in the directory
	Size, End             int64  // bytes of the file, bytes in use
	FirstGroup, LastGroup uint64 // LastGroup 0: no group counts yet
	FirstTime, LastTime   time.Time
	Events                int // EVENT frames, rescued ones included
	Current, Damaged      bool
}
