package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"sluice/go/internal/event"
	"sluice/go/internal/store/index"
	"sluice/go/internal/store/journal"
	"sluice/go/internal/store/thread"
	"sluice/go/internal/store/vfs"
)

// Store is an open data directory. Its methods may be called from any goroutine, Append and Idle
// from one.
type Store struct {
	opt       Options
	lock      io.Closer
	journal   *journal.Journal
	recovery  Recovery
	doubt     uint64 // the group that Settle makes durable; 0: none
	recent    recent
	outbox    outbox
	handoff   handoff
	standings standings

	settled   atomic.Bool
	catalogue atomic.Pointer[event.Catalogue]

	importMu sync.Mutex
	appendMu sync.Mutex  // the committer's, and ours for records that do not wait for it
	failing  atomic.Bool // the last write failed
	owed     atomic.Bool // and it was the committer's batch
	// committer and applier are the CPU times of the two.
	committer thread.Meter
	applier   atomic.Int64
	segment   uint64        // of the last group appended; under appendMu
	fresh     []freshKey    // of the group under way; under appendMu
	own       layout        // of batches that were not laid out before; under appendMu
	rolled    chan struct{} // a segment began, or space is short
	flushDue  chan struct{} // the index is to go to the disk before its time
	trimDue   chan struct{} // segments are to go, if any may

	// mu guards all that follows, the index's writer side included.
	mu        sync.Mutex
	index     *index.Index
	queues    map[uint32]*queue
	routes    map[uint32][]uint32
	deferred  map[deliveryID]event.Outcome
	committed uint64        // last group in the index
	flushed   uint64        // last group that the index has on disk
	moved     chan struct{} // closed when applied moves; nil: nobody waits for that
	scratch   index.Record  // of the event that is being applied
	delivers  bool          // the group that is being applied brings deliveries
	repeats   []repeat      // of that group
	// revived are events of that group that were known by nothing but their copies, with the group
	// up to which what became of them came along.
	revived  map[event.Seq]uint64
	recalled recalled
	needFrom event.Seq // no event before it must be kept for a delivery
	carried  int       // events whose groups are trimmed
	deadGone uint64    // dead letters that retention took

	applied atomic.Uint64
	living  atomic.Int64 // deliveries
	defers  atomic.Bool  // deferred may hold something
	// keysLeft tells that dedup keys are not carried forward.
	keysLeft atomic.Bool
	// filtersShort tells that it was said that dedup has not enough memory. House's.
	filtersShort bool
	oldest       atomic.Int64 // received time of the oldest event kept; 0: none
	space        spaceGauge
	houseMu      sync.Mutex
	keys         keyDump // under houseMu

	failOnce sync.Once
	failed   chan struct{}
	failure  error // set before failed is closed

	stop        context.CancelFunc
	stopped     sync.WaitGroup
	stopLoading context.CancelFunc
	loading     sync.WaitGroup
	running     atomic.Bool
	closed      atomic.Bool
}

// deliveryID names a delivery.
type deliveryID struct {
	seq  event.Seq
	dest uint32
}

// Open takes the data directory, recovers the journal and brings the index up to it. With a lost
// index that takes long; progress is logged. Deliveries may be leased at once; nothing may be
// appended before Settle returned.
func Open(ctx context.Context, o Options) (*Store, error) {
	o.setDefaults()
	if err := o.FS.MkdirAll(o.Dir); err != nil {
		return nil, explained(fmt.Errorf("make data directory: %w", err))
	}
	lock, err := takeLock(ctx, o)
	if err != nil {
		return nil, explained(err)
	}
	s := &Store{
		opt: o, lock: lock, failed: make(chan struct{}),
		queues: map[uint32]*queue{}, routes: map[uint32][]uint32{},
		revived:  map[event.Seq]uint64{},
		deferred: map[deliveryID]event.Outcome{}, rolled: make(chan struct{}, 1),
		flushDue: make(chan struct{}, 1), trimDue: make(chan struct{}, 1),
	}
	s.outbox.work = make(chan struct{}, 1)
	s.handoff.init()
	if err := s.recover(ctx); err != nil {
		return nil, errors.Join(explained(err), s.abandon())
	}
	s.running.Store(true)
	s.start()
	return s, nil
}

func (o *Options) setDefaults() {
	if o.FS == nil {
		o.FS = vfs.OS()
	}
	if o.IndexDir == "" {
		o.IndexDir = filepath.Join(o.Dir, "index")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Retention.MaxAge == 0 {
		o.Retention.MaxAge = DefaultMaxAge
	}
	if o.Retention.DeadAge == 0 {
		o.Retention.DeadAge = DefaultDeadAge
	}
	if o.LeaseTTL == 0 {
		o.LeaseTTL = DefaultLeaseTTL
	}
	if o.LockWait == 0 {
		o.LockWait = DefaultLockWait
	}
	if o.elapsed == nil {
		opened := time.Now()
		o.elapsed = func() time.Duration { return time.Since(opened) }
	}
	if o.carryShare == 0 {
		o.carryShare = carryShare
	}
	if o.keyPart == 0 {
		o.keyPart = journal.CarriedMax
	}
	if o.progress == 0 {
		o.progress = progressEvery
	}
	if o.window == 0 {
		o.window = windowMax
	}
}

// explained adds what the operator can do where the operating system refused something.
func explained(err error) error {
	if mend := index.Mend(err); mend != "" && !errors.Is(err, index.ErrRefused) {
		return fmt.Errorf("%w; %s, and start again", err, mend)
	}
	return err
}

// takeLock waits a moment for an owner that is leaving. Nothing is stolen: a stopped owner is for
// the init system to kill.
func takeLock(ctx context.Context, o Options) (io.Closer, error) {
	deadline := time.Now().Add(o.LockWait)
	for {
		lock, err := o.FS.Lock(filepath.Join(o.Dir, "lock"))
		if err == nil {
			return lock, nil
		}
		if !errors.Is(err, vfs.ErrLocked) {
			return nil, fmt.Errorf("lock data directory: %w", err)
		}
		if !time.Now().Before(deadline) {
			return nil, fmt.Errorf("%w: %s", ErrLocked, o.Dir)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// recover opens both halves and makes the index follow.
func (s *Store) recover(ctx context.Context) error {
	io := index.Options{FS: s.opt.indexFS, Log: s.opt.Log, Stop: ctx.Done(),
		FilterBytes: s.opt.DedupMemory,
		Damaged: func(err error) {
			if s.running.Load() {
				go s.fail(err) // from under the engine's locks
			}
		},
	}
	x, err := index.Open(s.opt.IndexDir, io)
	var watermark uint64
	switch {
	case errors.Is(err, index.ErrDamaged):
		s.opt.Log.Error("index is damaged and will be built again", "err", err)
	case err != nil:
		return err
	default:
		s.index, watermark = x, x.Meta().Applied
	}
	j, found, err := journal.Open(journal.Options{
		FS: s.opt.FS, Dir: filepath.Join(s.opt.Dir, "journal"), SegmentSize: s.opt.SegmentBytes,
		MaxBytes: s.opt.Retention.MaxBytes, Clock: s.opt.Now, Log: s.opt.Log,
		Witness: journal.Witness{
			IndexGroup: watermark, ShmDurableGroup: s.opt.Witness, SameBoot: s.opt.Witness != 0,
		},
	})
	if err != nil {
		return fmt.Errorf("open journal: %w", err)
	}
	s.journal = j
	s.own.draft = j.NewDraft()
	s.noteRecovery(found)
	again := s.index == nil
	if s.index != nil {
		fresh, err := s.index.Claim(found.JournalID)
		s.recovery.IndexRebuilt = fresh && found.LastGroup > 0
		if watermark > found.LastGroup && err == nil {
			err = fmt.Errorf("%w: it knows group %d, the journal ends at %d", index.ErrDamaged,
				watermark, found.LastGroup)
		}
		if first := firstGroup(found); err == nil && watermark > 0 && watermark+1 < first {
			err = fmt.Errorf("%w: it ends at group %d, the journal begins at %d", index.ErrDamaged,
				watermark, first)
		}
		if err != nil {
			s.opt.Log.Error("index does not fit the journal and will be built again", "err", err)
			if err := s.index.Abandon(); err != nil {
				return fmt.Errorf("close index: %w", err)
			}
			s.index, again = nil, true
		}
	}
	if err := s.follow(ctx, io, found); err != nil {
		if !errors.Is(err, index.ErrDamaged) || again {
			return err
		}
		s.opt.Log.Error("index is damaged and will be built again", "err", err)
		s.endLoading()
		if err := s.index.Abandon(); err != nil {
			return fmt.Errorf("close index: %w", err)
		}
		s.index = nil
		return s.follow(ctx, io, found)
	}
	return nil
}

// firstGroup is the first one that an undamaged journal has; 0: not known. An index that ends
// before it is a copy of long ago, or its disk took back what it had synced.
func firstGroup(found *journal.Recovery) uint64 {
	if len(found.Damage) > 0 || len(found.Segments) == 0 {
		return 0
	}
	return found.Segments[0].FirstGroup
}

func (s *Store) noteRecovery(found *journal.Recovery) {
	s.recovery = Recovery{
		JournalID: found.JournalID, Durable: found.LastGroup, Doubt: found.Doubt,
		Lanes: found.Lanes, Ended: found.Ended,
	}
	if found.Doubt {
		s.doubt = found.LastGroup
	}
	for _, d := range found.Damage {
		s.recovery.Damage = append(s.recovery.Damage, d.String())
	}
	for _, name := range found.Foreign {
		s.opt.Log.Warn("a file that is not of this journal is left alone", "file", name)
	}
	for _, name := range found.Kept {
		s.opt.Log.Warn("a damaged file of an earlier life is kept for good", "file", name)
	}
	if t := found.Torn; t != nil {
		s.opt.Log.Info("a group that was being written when the power went is cut off: nobody was "+
			"told that it is stored", "group", t.Group, "file", t.File, "offset", t.Offset)
	}
}

// follow brings the index, a new one if there is none, up to the journal.
func (s *Store) follow(ctx context.Context, io index.Options, found *journal.Recovery) error {
	if s.index == nil {
		if err := index.Remove(io.FS, s.opt.IndexDir); err != nil {
			return fmt.Errorf("remove index: %w", err)
		}
		x, err := index.Open(s.opt.IndexDir, io)
		if err != nil {
			return err
		}
		s.index = x
		s.recovery.IndexRebuilt = true
	}
	if _, err := s.index.Claim(found.JournalID); err != nil {
		return err
	}
	s.queues = map[uint32]*queue{}
	s.committed = s.index.Meta().Applied
	s.flushed = s.committed
	s.applied.Store(s.committed)
	s.living.Store(0)
	for _, sums := range s.index.Meta().Counts.Destinations {
		s.living.Add(int64(sums.Backlog))
	}
	if err := s.loadCatalogue(found); err != nil {
		return err
	}
	loaded := s.loadFilters()
	s.awaitFilters(ctx, loaded, found.LastGroup-min(found.LastGroup, s.index.Meta().Applied))
	if s.index.Meta().Applied == 0 {
		s.recalled = recalled{orphans: map[event.Seq][]orphan{}}
		if list := s.journal.Segments(); len(list) > 0 {
			s.recalled.first = list[0].FirstGroup
		}
		if err := s.recall(ctx); err != nil {
			return err
		}
	}
	// From the last group that the index has: it may have moved since (see Settle), in a run whose
	// later words the index has lost.
	if err := s.replay(ctx, s.index.Meta().Applied); err != nil {
		return err
	}
	s.recalled = recalled{}
	if err := s.trimBehind(); err != nil {
		return err
	}
	return s.findOldest()
}

// findOldest is called when events went, and at the start; the first one of all is noted when it
// comes. What is pending must be committed.
func (s *Store) findOldest() error {
	r, err := s.index.Oldest()
	switch {
	case err != nil:
		return err
	case r == nil:
		s.oldest.Store(0)
	default:
		s.oldest.Store(r.Received)
	}
	return nil
}

// loadCatalogue takes the catalogue that the index was at. An index that begins anew behind the
// first CONFIG record starts with the last one: a catalogue keeps all routes that ever were.
func (s *Store) loadCatalogue(found *journal.Recovery) error {
	text := s.index.Catalogue()
	if text == nil {
		text = found.Catalogue
	}
	if text == nil {
		s.useCatalogue(new(event.Catalogue))
		return nil
	}
	c := new(event.Catalogue)
	if err := json.Unmarshal(text, c); err != nil {
		return fmt.Errorf("%w: catalogue: %w", index.ErrDamaged, err)
	}
	s.useCatalogue(c)
	return nil
}

func (s *Store) useCatalogue(c *event.Catalogue) {
	s.catalogue.Store(c)
	clear(s.routes)
	for _, r := range c.Routes {
		s.routes[r.Version] = r.Destinations
	}
}

// progressEvery is the time between two lines in the log about a long replay.
const progressEvery = 2 * time.Second

// replay applies the journal's groups from a number on.
func (s *Store) replay(ctx context.Context, from uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.recovery.Durable
	first, began := uint64(0), time.Now()
	told := began
	err := s.journal.Replay(from, func(g *journal.Group) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if first == 0 {
			first = g.Number
		}
		if err := s.apply(g); err != nil {
			return err
		}
		s.recovery.Replayed++
		if now := time.Now(); now.Sub(told) >= s.opt.progress {
			told = now
			s.tellProgress(now.Sub(began), g.Number, first, last)
		}
		if s.index.Pending() < pendingMax {
			return nil
		}
		return s.commit()
	})
	if err != nil {
		return fmt.Errorf("replay journal: %w", err)
	}
	return s.commit()
}

// tellProgress logs how far a replay has come, and what that says of the rest.
func (s *Store) tellProgress(took time.Duration, group, first, last uint64) {
	done, all := float64(group+1-first), float64(max(last, group)+1-first)
	left := time.Duration(float64(took) * (all - done) / done)
	s.opt.Log.Info("index follows the journal", "group", group, "of", last,
		"percent", int(100*done/all), "left", left.Round(time.Second))
}

// Recovery tells what Open found.
func (s *Store) Recovery() Recovery { return s.recovery }

// Damage names everything acknowledged that is known to be lost: what Open found and what reads met
// since, one line each.
func (s *Store) Damage() (lines []string) {
	for _, d := range s.journal.Damage() {
		lines = append(lines, d.String())
	}
	return lines
}

// settleBackoff bounds the wait between two tries to write the group in doubt.
const settleBackoff = 5 * time.Second

// Settle makes the group in doubt durable and applies it. It tries again, with backoff, until it
// succeeds or ctx ends; meanwhile what came before is delivered, and outcomes wait in memory.
func (s *Store) Settle(ctx context.Context) error {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, settleBackoff) {
		s.appendMu.Lock()
		err := s.journal.Settle()
		s.appendMu.Unlock()
		if err == nil {
			break
		}
		s.failing.Store(true)
		s.opt.Log.Warn("last group is still in doubt", "err", err, "again_in", wait)
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-s.failed:
			return s.failure
		case <-time.After(wait):
		}
	}
	s.failing.Store(false)
	if s.doubt != 0 && !s.settled.Load() {
		// The group moved: one that the index knows already has new places.
		if err := s.replay(ctx, min(s.doubt, s.applied.Load()+1)); err != nil {
			return s.fail(err)
		}
	}
	s.settled.Store(true)
	notify(s.outbox.work)
	return nil
}

// Failed is closed when the store cannot go on, which Err explains: the index engine is broken. The
// journal is whole; a new start continues from it.
func (s *Store) Failed() <-chan struct{} { return s.failed }

// Err is why Failed is closed; nil while it is not.
func (s *Store) Err() error {
	select {
	case <-s.failed:
		return s.failure
	default:
		return nil
	}
}

func (s *Store) fail(err error) error {
	s.failOnce.Do(func() {
		if errors.Is(err, index.ErrDamaged) {
			err = errors.Join(err, index.Suspect(s.opt.indexFS, s.opt.IndexDir))
		}
		s.failure = err
		s.opt.Log.Error("store cannot go on", "err", err)
		close(s.failed)
		s.handoff.end()
	})
	return err
}

// Catalogue is the last durable one. It must not be changed.
func (s *Store) Catalogue() *event.Catalogue { return s.catalogue.Load() }

// Durable is the number of the last durable group, for the control page.
func (s *Store) Durable() uint64 { return s.journal.Durable() }

// Close makes what is queued durable if it can, moves the index to the disk and lets the data
// directory go. Whoever uses the store must have stopped before.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return ErrClosed
	}
	s.index.Leave()
	var errs []error
	s.appendMu.Lock()
	for s.settled.Load() && s.Err() == nil && len(errs) == 0 && s.outbox.waiting() {
		if err := s.append(Batch{}); err != nil {
			errs = append(errs, fmt.Errorf("queued outcomes are lost: %w", err))
		}
	}
	s.appendMu.Unlock()
	s.handoff.end()
	s.stop()
	s.stopped.Wait()
	s.endLoading()
	if s.Err() == nil {
		s.mu.Lock()
		errs = append(errs, s.commit())
		s.mu.Unlock()
		errs = append(errs, s.journal.Close(), s.index.Close())
	} else {
		errs = append(errs, s.journal.Close(), s.index.Abandon())
	}
	return errors.Join(append(errs, s.lock.Close())...)
}

// abandon lets everything go as a crash would.
func (s *Store) abandon() error {
	s.closed.Store(true)
	if s.index != nil {
		s.index.Leave()
	}
	s.handoff.end()
	if s.stop != nil {
		s.stop()
	}
	s.stopped.Wait()
	s.endLoading()
	var errs []error
	if s.index != nil {
		errs = append(errs, s.index.Abandon())
	}
	return errors.Join(append(errs, s.lock.Close())...)
}

// seams are for tests.
type seams struct {
	indexFS pebblevfs.FS // instead of the operating system's
	window  int          // instead of windowMax
	// carryShare is instead of the constant.
	carryShare int64
	// keyPart is how many dedup keys go into one record, instead of journal.CarriedMax.
	keyPart int
	// progress is instead of progressEvery.
	progress time.Duration
	// elapsed is a clock that is never set, for leases; instead of the system's.
	elapsed func() time.Duration
}
