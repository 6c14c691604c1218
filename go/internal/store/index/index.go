package index

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"sluice/go/internal/store/filter"
	"sluice/go/internal/store/thread"
)

// batchBytesKept bounds the memory that stays with the batch after a large commit.
const batchBytesKept = 8 << 20

// ErrDamaged says that the index cannot be believed: throw it away and build it from the journal.
var ErrDamaged = errors.New("index is damaged")

// formatVersion counts changes of the rows that another version would misread or miss. An index of
// another format is built again.
const formatVersion = 7

// Options says how to open an index. FS nil is the operating system's; Log nil is slog.Default.
type Options struct {
	FS  vfs.FS
	Log *slog.Logger
	// Damaged is told of bad bytes that the engine meets on its own or for a reader, who gets
	// ErrDamaged too. It must not wait for the index.
	Damaged func(error)
	// FilterBytes bounds the memory of the filters before the dedup rows; 0 is FilterBytes.
	FilterBytes int64
	// Stop ends an Open that waits until it can write; nil: nothing does. What waits does so until
	// the process ends, then.
	Stop <-chan struct{}
}

// Counts are an index's sums. They are kept with the rows, under the same watermark.
type Counts struct {
	Events       uint64                        `json:"events"` // kept, duplicates left out
	Sources      map[uint32]*SourceCounts      `json:"sources"`
	Destinations map[uint32]*DestinationCounts `json:"destinations"`
}

// SourceCounts are of all events ever taken.
type SourceCounts struct {
	Accepted   uint64 `json:"accepted"`
	Duplicates uint64 `json:"duplicates"`
}

// DestinationCounts are of deliveries as they stand.
type DestinationCounts struct {
	Backlog uint64 `json:"backlog"`
	Dead    uint64 `json:"dead"`
}

// Meta is what the index knows about itself.
type Meta struct {
	Format    int      `json:"format"`
	JournalID [16]byte `json:"journal_id"`
	Applied   uint64   `json:"applied"` // last group whose effects are in the rows
	Horizon   int64    `json:"horizon"` // latest received time up to there
	Trimmed   uint64   `json:"trimmed"` // groups up to here are gone
	Counts    Counts   `json:"counts"`
	// Window is the longest dedup window so far, in ns.
	Window int64 `json:"window"`
	// Carried is the group up to which dedup keys are carried forward.
	Carried uint64 `json:"carried"`
	// Dedup holds the days that dedup rows may be of.
	Dedup map[uint32]*DedupDay `json:"dedup"`
	// SenderIDs are the parts that p rows may be of, the oldest first.
	SenderIDs []SenderIDPart `json:"sender_ids"`
}

// DedupDay is where the next dedup row of a day goes: to the last part, which holds so many keys.
type DedupDay struct {
	Part uint16       `json:"part"`
	Keys int          `json:"keys"`
	Kept []KeptFilter `json:"kept,omitempty"` // in no order
}

// Index is an open index. Changes are gathered in memory (Add, Change, …) until Commit. Load,
// LookupDedup and FirstInOrder see them; the listings see what is committed. Listings may run
// beside the one writer.
type Index struct {
	db   *pebble.DB
	log  *slog.Logger
	meta Meta
	// catalogue is the JSON of the last CONFIG record.
	catalogue []byte
	pending
	// buckets are the days that dedup rows may be of, in order; unread ones have rows of before
	// Open that their filters do not know yet.
	buckets, unread []*bucket
	budget          *filter.Budget
	filterBytes     int64 // of the budget
	keeper          *keeper
	partKeys        int
	keepBytes       int64 // the least of a filter that is kept
	ways
	types
	read atomic.Uint64 // see RowsRead

	engine *engineTime
	room   *room

	batch *pebble.Batch // used again and again
	order []uint64      // scratch
	value []byte        // scratch
}

// Open opens or makes the index in dir; it waits while its disk takes no writes. ErrDamaged: Remove
// it and open again. ErrRefused: it may be as good as ever, and is to stay.
func Open(dir string, o Options) (*Index, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	o.FilterBytes = cmp.Or(o.FilterBytes, FilterBytes)
	if _, err := o.FS.Stat(filepath.Join(dir, suspectFile)); err == nil {
		return nil, fmt.Errorf("%w: the last run met a bad row", ErrDamaged)
	}
	engine, room := new(engineTime), newRoom(o, dir)
	room.writes = true
	po := engineOptions(o)
	po.FS = patient{o.FS, room}
	po.EventListener.BackgroundError = paced(o, dir, po.Logger)
	engine.watch(po.EventListener, room)
	db, err := openEngine(dir, po, room, o.Stop)
	if err != nil {
		return nil, err
	}
	if err := room.reserve(); err != nil {
		o.Log.Warn("index has no ballast", "err", err)
	}
	x := &Index{
		db: db, log: o.Log, engine: engine, room: room, pending: newPending(), ways: newWays(),
		budget: filter.NewBudget(o.FilterBytes), filterBytes: o.FilterBytes, partKeys: partKeysMax,
		keepBytes: keepBytesMin,
		keeper:    newKeeper(o, dir),
		batch:     db.NewBatch(pebble.WithMaxRetainedSizeBytes(batchBytesKept)),
	}
	if err := x.load(); err != nil {
		x.keeper.end()
		return nil, errors.Join(err, db.Close())
	}
	if err := x.keeper.sweep(x.meta.Dedup); err != nil {
		o.Log.Warn("filters of dedup keys that nobody needs stay", "err", err)
	}
	return x, nil
}

// openEngine opens the engine, unless stop is closed while that waits.
func openEngine(dir string, po *pebble.Options, r *room, stop <-chan struct{}) (*pebble.DB, error) {
	type result struct {
		db    *pebble.DB
		err   error
		ready bool // err is the engine's
	}
	opened := make(chan result, 1)
	go func() {
		var o result
		defer func() { opened <- o }()
		if o.err = prepare(po.FS, dir); o.err != nil {
			return
		}
		if po.Lock, o.err = pebble.LockDirectory(dir, po.FS); o.err != nil {
			o.err = fmt.Errorf("lock index %s: %w", dir, o.err)
			return
		}
		defer func() { _ = po.Lock.Close() }() // the engine holds it too, until its own Close
		o.ready = true
		o.db, o.err = pebble.Open(dir, po)
	}()
	select {
	case o := <-opened:
		if !o.ready {
			return nil, o.err
		}
		err := openFault(dir, o.err, r.refused.Load())
		if err != nil && o.db != nil {
			err = errors.Join(err, o.db.Close())
		}
		r.running.Store(true)
		return o.db, err
	case <-stop:
		return nil, ErrFull
	}
}

// prepare makes the directory, and its name durable.
func prepare(fs vfs.FS, dir string) error {
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make index directory: %w", err)
	}
	return syncDir(fs, filepath.Dir(dir))
}

func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return fmt.Errorf("sync directory of index: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync directory of index: %w", err)
	}
	return nil
}

// Claim ties a new index to its journal, on disk, and refuses one of another journal with
// ErrDamaged. It tells whether the index is new.
func (x *Index) Claim(journalID [16]byte) (fresh bool, err error) {
	if x.meta.JournalID == [16]byte{} {
		x.meta.JournalID = journalID
		if err := x.Commit(); err != nil {
			return true, err
		}
		if err := x.db.Flush(); err != nil {
			return true, fmt.Errorf("flush index: %w", err)
		}
		return true, nil
	}
	if x.meta.JournalID != journalID {
		return false, fmt.Errorf("%w: it belongs to another journal", ErrDamaged)
	}
	return false, nil
}

// readMeta reads what is committed.
func (x *Index) readMeta() (m Meta, err error) {
	row, err := x.get([]byte{rowMeta})
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return Meta{Format: formatVersion}, nil
	case err == nil:
		err = json.Unmarshal(row, &m)
	}
	if err != nil {
		return m, readFault("meta row", err)
	}
	return m, nil
}

func (x *Index) load() (err error) {
	if x.meta, err = x.readMeta(); err != nil {
		return err
	}
	if x.meta.Format != formatVersion {
		return fmt.Errorf("%w: it has format %d, this sluice writes %d", ErrDamaged,
			x.meta.Format, formatVersion)
	}
	if x.meta.Counts.Sources == nil {
		x.meta.Counts.Sources = map[uint32]*SourceCounts{}
	}
	if x.meta.Counts.Destinations == nil {
		x.meta.Counts.Destinations = map[uint32]*DestinationCounts{}
	}
	if x.catalogue, err = x.get([]byte{rowMeta, 'c'}); err != nil &&
		!errors.Is(err, pebble.ErrNotFound) {
		return readFault("catalogue row", err)
	}
	if x.meta.Dedup == nil {
		x.meta.Dedup = map[uint32]*DedupDay{}
	}
	x.openBuckets()
	return x.loadTypes()
}

// Remove deletes the index in dir, so that Open makes an empty one. fs nil is the operating
// system's.
func Remove(fs vfs.FS, dir string) error {
	if fs == nil {
		fs = vfs.Default
	}
	return fs.RemoveAll(dir)
}

// suspectFile asks the next Open to refuse the index.
const suspectFile = "SUSPECT"

// Suspect notes in dir that a read met damage, so that the next Open refuses the index.
func Suspect(fs vfs.FS, dir string) error {
	if fs == nil {
		fs = vfs.Default
	}
	f, err := fs.Create(filepath.Join(dir, suspectFile), vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("mark index as damaged: %w", err)
	}
	return errors.Join(f.Sync(), f.Close())
}

// Meta is the state that the next Commit writes. It belongs to the writer.
func (x *Index) Meta() *Meta { return &x.meta }

// Catalogue is the JSON of the last catalogue; nil: none.
func (x *Index) Catalogue() []byte { return x.catalogue }

// Flush begins to move everything written so far to the disk, where a crash leaves it; done is
// closed when it is there. It may run beside the writer.
func (x *Index) Flush() (done <-chan struct{}, err error) { return x.db.AsyncFlush() }

// Bytes is the index's size on disk.
func (x *Index) Bytes() uint64 { return x.db.Metrics().DiskSpaceUsage() }

// FilterBytes is the memory that the filters before the dedup rows take; short tells that they
// would need more than they may have.
func (x *Index) FilterBytes() (bytes int64, short bool) {
	return x.filterBytes - x.budget.Left(), x.budget.Short()
}

// Background is the CPU time that the engine has taken beside the writer, for flushes and merges.
func (x *Index) Background() time.Duration { return time.Duration(x.engine.total.Load()) }

// ErrFull says that an index was not closed, or not opened, because its disk is full or takes no
// writes. It writes no more.
var ErrFull = errors.New("index waits until its disk takes writes")

// Close flushes and closes. Where the engine cannot write it stays as it is, with ErrFull: a crash
// leaves no less.
func (x *Index) Close() error {
	x.keepOpen()
	x.keeper.finish()
	if err := x.commitKept(); err != nil {
		return errors.Join(err, x.Abandon())
	}
	flushed, err := x.db.AsyncFlush()
	if err == nil && !x.ends(flushed) {
		err = ErrFull
	}
	return errors.Join(err, x.Abandon())
}

// Abandon closes without flushing: what a crash would leave is left.
func (x *Index) Abandon() (err error) {
	x.keeper.end()
	close(x.room.closing)
	closed := make(chan struct{})
	go func() {
		err = errors.Join(x.batch.Close(), x.db.Close())
		close(closed)
	}()
	for _, b := range x.buckets {
		b.release() // nobody else is left
	}
	if !x.ends(closed) {
		return ErrFull
	}
	return err
}

// ends waits for the engine to end something; false: it waits until it can write.
func (x *Index) ends(done <-chan struct{}) bool {
	for {
		select {
		case <-done:
			return true
		case <-time.After(roomEvery):
			if x.Full() {
				return false
			}
		}
	}
}

// The engine is set for rows that come once, mostly in the order of their keys or into a part of
// bounded size, and are seldom read: tables gather in L0 and are merged many at a time.
const (
	// memtableBytes is small enough to stay in the processor's cache while it is sorted into.
	memtableBytes = 16 << 20
	// tablesInL0 is how many tables over each other begin a merge; the engine counts each twice.
	tablesInL0 = 2 * 12
	// tablesInL0Max makes writers wait for the merges.
	tablesInL0Max = 64
	// tableBytes bounds a table in L0; deeper ones are larger.
	tableBytes = 8 << 20
	// memtablesMax makes writers wait for the flushes.
	memtablesMax = 4
	// cacheBytes is for the tables' own indexes, most of all. The engine takes the memory of its
	// memtables out of it, and keeps nothing where they leave nothing.
	cacheBytes      = memtablesMax*memtableBytes + 16<<20
	indexBlockBytes = 64 << 10
	// blockBytes makes a row that is asked for dearer by some microseconds and the tables' indexes
	// small enough for the cache.
	blockBytes = 16 << 10
)

func engineOptions(o Options) *pebble.Options {
	po := &pebble.Options{
		FS:                          o.FS,
		CacheSize:                   cacheBytes,
		DisableWAL:                  true,
		FormatMajorVersion:          pebble.FormatNewest,
		MemTableSize:                memtableBytes,
		MemTableStopWritesThreshold: memtablesMax,
		L0CompactionThreshold:       tablesInL0,
		L0StopWritesThreshold:       tablesInL0Max,
		LBaseMaxBytes:               64 << 20,
		TargetFileSizes:             [7]int64{tableBytes},
		MaxOpenFiles:                512,
		Logger:                      newEngineLog(o.Log),
		EventListener: &pebble.EventListener{DataCorruption: func(i pebble.DataCorruptionInfo) {
			o.Log.Error("index engine met bad bytes", "file", i.Path, "err", i.Details.Error())
			if o.Damaged != nil && Mend(i.Details) == "" {
				o.Damaged(fmt.Errorf("%w: %s: %w", ErrDamaged, i.Path, i.Details))
			}
		}},
	}
	// Ids and hashes do not get shorter, and the rest is a tenth of what the journal takes.
	po.ApplyCompressionSettings(func() pebble.DBCompressionSettings {
		return pebble.DBCompressionNone
	})
	po.Experimental.SpanPolicyFunc = regionOf
	// The tables have no filters of their own: ours are before the dedup rows, and the tables of
	// other rows do not overlap. A filter block is as large as thirty data blocks that a read
	// without it looks at.
	// What L0 has, all levels below have.
	po.Levels[0].BlockSize, po.Levels[0].IndexBlockSize = blockBytes, indexBlockBytes
	return po
}

// engineTime adds up what the engine's own work costs, and lets it wait for the rest. The engine
// tells of its begin and its end from a goroutine that does just that job, and whose thread ends
// with it.
type engineTime struct {
	total atomic.Int64
	began sync.Map // of jobs under way: the thread's time when they began
}

func (e *engineTime) begin(job int) {
	runtime.LockOSThread()
	thread.Yield()
	e.began.Store(job, thread.Used())
}

func (e *engineTime) end(job int) {
	if began, ok := e.began.LoadAndDelete(job); ok {
		e.total.Add(int64(thread.Used() - began.(time.Duration)))
	}
}

func (e *engineTime) watch(l *pebble.EventListener, r *room) {
	l.FlushBegin = func(i pebble.FlushInfo) { e.begin(i.JobID) }
	l.FlushEnd = func(i pebble.FlushInfo) {
		e.end(i.JobID)
		count(&r.flushes, i.Err)
	}
	l.CompactionBegin = func(i pebble.CompactionInfo) { e.begin(i.JobID) }
	l.CompactionEnd = func(i pebble.CompactionInfo) {
		e.end(i.JobID)
		count(&r.merges, i.Err)
	}
}

// regionOf keeps rows of different kinds, and parts of k and p rows, in tables of their own. Rows
// come in the order of their keys within a kind, most of them, so that a new table lies behind all
// older ones and is never merged with them; one table over several kinds would span all that lies
// between.
func regionOf(first []byte) (policy pebble.SpanPolicy, end []byte, err error) {
	part := 0
	switch first[0] {
	case rowDedup:
		part = dedupPartBytes
	case rowSenderID:
		part = senderIDPartBytes
	}
	if part == 0 || len(first) < part {
		return policy, []byte{first[0] + 1}, nil
	}
	end = bytes.Clone(first[:part])
	for i := len(end) - 1; ; i-- { // ends at the letter at the latest
		if end[i]++; end[i] != 0 {
			return policy, end[:i+1], nil
		}
	}
}

// RowsRead counts the rows that readers of events have looked at since Open.
func (x *Index) RowsRead() uint64 { return x.read.Load() }

// get reads a copy of a row.
func (x *Index) get(key []byte) ([]byte, error) {
	value, closer, err := x.db.Get(key)
	if err != nil {
		return nil, err
	}
	value = append([]byte(nil), value...)
	return value, closer.Close()
}

func (x *Index) iter(lower, upper []byte) (*pebble.Iterator, error) {
	it, err := x.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, fmt.Errorf("read index: %w", damage(err))
	}
	return it, nil
}

func closeIter(it *pebble.Iterator) error {
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return fmt.Errorf("read index: %w", damage(err))
	}
	return nil
}

// damage marks the engine's reports of bad bytes as ErrDamaged.
func damage(err error) error {
	if pebble.IsCorruptionError(err) && Mend(err) == "" {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}
