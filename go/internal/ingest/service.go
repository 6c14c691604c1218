package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/lane"
	"sluice/go/internal/provider"
	"sluice/go/internal/store"
)

// Journal is what the service needs of the store.
type Journal interface {
	Append(store.Batch) error
	Lay(*store.Batch) error
	Work() <-chan struct{}
	Idle() error
	Known(source uint32, key [16]byte, at int64) (event.ID, bool)
	// Foresee comes some time before Known, for several keys in a row: what Known looks at lies
	// anywhere in memory.
	Foresee(source uint32, key [16]byte)
	State(id event.ID) (event.State, bool)
	Space() store.Space
	EndLane(context.Context, event.LaneID) error
	Durable() uint64
}

// Observer is told what is worth a metric.
type Observer interface {
	// Committed: a group of so many frames took so long to become durable.
	Committed(took time.Duration, frames int)
}

// Options of New; all but Observe and Learn are required.
type Options struct {
	Store   Journal
	Control *lane.Control
	Log     *slog.Logger
	Observe Observer
	// Learn keeps a secret that a handshake of a source has brought, and returns when it is durable.
	// It is called for the same one again in another life. ErrUnasked refuses the request; with any
	// other error its sender is told to come again. nil: nobody keeps any.
	Learn func(source uint32, peer netip.Addr, learned provider.Learned) error
}

// Service takes frames from any number of lanes to the store.
type Service struct {
	store   Journal
	control *lane.Control
	log     *slog.Logger
	observe Observer
	learn   func(source uint32, peer netip.Addr, learned provider.Learned) error

	table   atomic.Pointer[Table]
	batches sync.Pool
	work    chan struct{}

	committer *committer

	mu      sync.Mutex
	feeds   []*feed // replaced whole, never changed in place
	tallies sync.Map

	// downNS is since when the journal takes no groups, boot clock; 0: it does.
	downNS atomic.Uint64

	heavy *heavy
	waits *waits
	boot  func() uint64 // ns, the clock of until_ns

	station atomic.Pointer[station] // nil: frames join a group as they come
	clock   func() time.Duration    // monotonic; read only where there is a station

	belt      time.Duration // sleepMax, but in tests that must not lean on it
	beltWakes atomic.Uint64

	stop    context.CancelFunc
	ctx     context.Context
	running sync.WaitGroup
}

type unobserved struct{}

func (unobserved) Committed(time.Duration, int) {}

// New makes a service that judges by a table; Start begins to commit.
func New(o Options, table *Table) *Service {
	ctx, stop := context.WithCancel(context.Background())
	began := time.Now()
	s := &Service{
		store: o.Store, control: o.Control, log: o.Log, observe: o.Observe, learn: o.Learn,
		work: make(chan struct{}, 1), ctx: ctx, stop: stop, belt: sleepMax,
		clock: func() time.Duration { return time.Since(began) },
		waits: newWaits(), boot: bootNS,
	}
	s.committer = newCommitter(s)
	s.batches.New = func() any { b := make([]entry, 0, batchFrames); return &b }
	if s.observe == nil {
		s.observe = unobserved{}
	}
	s.heavy = newHeavy(s)
	s.table.Store(table)
	return s
}

// Start begins to commit. The store must be settled.
func (s *Service) Start() {
	s.control.StoreWritable(1)
	s.publishSpace()
	s.running.Go(func() { s.committer.run(s.ctx) })
	s.running.Go(func() { s.endWaits(s.ctx) })
	s.running.Go(func() { s.lookUpRepeats(s.ctx) })
}

// Stop ends everything where it stands: what is verified and not durable stays in its lane for the
// next life. The lanes are unmapped.
func (s *Service) Stop() {
	s.mu.Lock()
	s.stop() // no lane is attached from here on
	s.mu.Unlock()
	s.running.Wait()
	for _, f := range s.feedList() {
		f.nudge() // wakes it to see that the service ended
		<-f.done
		f.unmap()
	}
	s.heavy.close()
}

// SetTable makes frames be judged by another config from the next batch on.
func (s *Service) SetTable(t *Table) { s.table.Store(t) }

// Bells are the doorbells of a lane: Wake is rung by the data plane, Peer wakes it. Without them,
// as for an orphan, the lane is looked at once a second.
type Bells struct{ Wake, Peer *lane.Bell }

// close gives both back; whoever waits on one is told.
func (b *Bells) close() {
	for _, bell := range []*lane.Bell{b.Wake, b.Peer} {
		if bell != nil {
			_ = bell.Close() // nothing is buffered in an eventfd
		}
	}
}

// ErrStopped says that the service serves no lanes any more.
var ErrStopped = errors.New("intake is stopped")

// Attach takes a lane into service. durable is how far the journal reaches in it; 0 for a new one.
// The service owns lane and bells from here on, and gives them back to the system on an error.
func (s *Service) Attach(l *lane.Lane, bells Bells, durable uint64) error {
	f := &feed{
		service: s, lane: l, generation: l.Generation(), done: make(chan struct{}),
		log: s.log.With("lane", fmt.Sprintf("%x", l.ID()), "generation", l.Generation()),
	}
	f.bells.Store(&bells)
	if err := s.attach(f, durable); err != nil {
		f.unmap()
		return fmt.Errorf("take up lane %x: %w", l.ID(), err)
	}
	return nil
}

func (s *Service) attach(f *feed, durable uint64) error {
	bells := f.bells.Load()
	if bells.Wake == nil {
		own, err := lane.NewBell()
		if err != nil {
			return err
		}
		bells.Wake = own
	}
	f.queue.waits = s.waits
	f.judge = judge{service: s, log: f.log, answerMax: f.lane.ReplyMax()}
	f.judge.use(s.table.Load())
	if err := f.lane.Guard(func() error { return f.restore(durable) }); err != nil {
		return err
	}
	if bells.Peer == nil && f.lane.ProducerGone() {
		f.orphan()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return ErrStopped
	}
	s.feeds = append(slices.Clone(s.feeds), f)
	go f.run(s.ctx)
	return nil
}

// Equip gives a lane that is in service already the doorbells of its data plane; false: there is no
// such lane, and the bells stay the caller's.
func (s *Service) Equip(id event.LaneID, bells Bells) bool {
	for _, f := range s.feedList() {
		if f.lane.ID() == id { // its name is not in the mapping
			f.equip(&bells)
			return true
		}
	}
	return false
}

// equip takes other doorbells up. Whoever sleeps by the old ones is woken by their end; what was
// published for a data plane that could not be told yet is told now.
func (f *feed) equip(bells *Bells) {
	f.mu.Lock()
	before := f.bells.Swap(bells)
	over := f.unmapped
	f.mu.Unlock()
	before.close()
	if over {
		bells.close()
		return
	}
	f.ringAlways()
}

// Orphaned tells the service that a data plane is dead: its lanes are drained without replies.
func (s *Service) Orphaned(generation uint32) {
	for _, f := range s.feedList() {
		if f.generation == generation {
			f.suspect.Store(true)
			f.nudge()
		}
	}
}

// Lanes is a look at all lanes.
func (s *Service) Lanes() []Lane {
	var out []Lane
	for _, f := range s.feedList() {
		if look, ok := f.look(); ok {
			out = append(out, look)
		}
	}
	return out
}

// BeltWakes counts sleeps of which only their bound found the work; it must stay 0.
func (s *Service) BeltWakes() uint64 { return s.beltWakes.Load() }

// Tally counts what became of a source's frames since the start.
func (s *Service) Tally(source uint32) *Tally {
	if t, ok := s.tallies.Load(source); ok {
		return t.(*Tally)
	}
	t, _ := s.tallies.LoadOrStore(source, new(Tally))
	return t.(*Tally)
}

func (s *Service) feedList() []*feed {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.feeds
}

// leave takes a feed out of service; the committer may still hold it, with nothing in it, for the
// group that it is gathering.
func (s *Service) leave(f *feed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.feeds = slices.DeleteFunc(slices.Clone(s.feeds), func(other *feed) bool { return other == f })
}

// aside keeps the file of a lane that cannot be believed, for whoever looks into it.
func (s *Service) aside(l *lane.Lane, why error) error {
	kept := l.Path() + ".retired"
	if err := os.Rename(l.Path(), kept); err != nil {
		return fmt.Errorf("set a retired lane aside: %w", err)
	}
	s.log.Error("a retired lane was set aside", "file", kept, "why", why)
	return nil
}

func (s *Service) nudge() {
	select {
	case s.work <- struct{}{}:
	default:
	}
}

// publishSpace tells the data plane whether the journal takes events.
func (s *Service) publishSpace() {
	full := uint64(0)
	if s.store.Space().Full {
		full = 1
	}
	if s.control.JournalFull() != full {
		s.control.StoreJournalFull(full)
		s.log.Warn("journal space", "full", full == 1)
	}
}
