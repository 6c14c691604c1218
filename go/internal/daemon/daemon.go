package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"

	"sluice/go/internal/config"
	"sluice/go/internal/deliver"
	"sluice/go/internal/event"
	"sluice/go/internal/faultpoint"
	"sluice/go/internal/gameday"
	"sluice/go/internal/gaps"
	"sluice/go/internal/ingest"
	"sluice/go/internal/keyfetch"
	"sluice/go/internal/keyring"
	"sluice/go/internal/lane"
	"sluice/go/internal/listen"
	"sluice/go/internal/observe"
	"sluice/go/internal/protect"
	"sluice/go/internal/reconcile"
	"sluice/go/internal/share"
	"sluice/go/internal/signal/workers"
	"sluice/go/internal/store"
	"sluice/go/internal/supervise"
	"sluice/go/internal/tlsfiles"
	"sluice/go/internal/tune"
	pb "sluice/proto/sluice/v1"
)

const (
	drainGrace    = 10 * time.Second // of requests under way
	lanesPatience = 5 * time.Second  // until drained lanes are empty and ended
	deliverGrace  = 5 * time.Second  // of attempts in flight
	settlePause   = 500 * time.Millisecond
	beatInterval  = 100 * time.Millisecond
	applyPatience = 40 * time.Second // of a reload, until some data plane took it
	applyPause    = 10 * time.Millisecond
	spareFiles    = 1024 // descriptors beside connections: journal, index, deliveries
)

// Options of Run.
type Options struct {
	Config *config.Config
	// Load reads the config again, for a reload.
	Load func() (*config.Config, error)
	// Binary is the data plane's program.
	Binary string
	// Inherited are the sockets that systemd passed; nil: none.
	Inherited *listen.Inherited
	// Stdout takes what `stdout: {}` destinations print.
	Stdout io.Writer
	Log    *slog.Logger
	// Ready is called when senders are served: once, and again for each time that the next program
	// could not be executed. The Daemon of the last call is the one that serves.
	Ready func(*Daemon)
	// Version is this program's.
	Version string
}

// Daemon is a running sluice.
type Daemon struct {
	o       Options
	log     *slog.Logger
	program string // the path by which this one was started
	began   time.Time
	store   *store.Store
	shm     *shm
	ingest  *ingest.Service
	lanes   *lanes
	super   *supervise.Supervisor
	deliver *deliver.Service
	tune    *tune.Service
	protect *protect.Service
	workers *workers.Registry
	redis   *redis.Client // nil: nothing is shared
	board   *share.Board  // nil: nothing is shared
	metrics *observe.Metrics
	ids     identifiers
	tickets *tlsfiles.Tickets
	keys    *keyring.Ring
	public  *keyfetch.Fetcher

	standing standing
	faults   *gameday.Board // nil without --dev
	gaps     *gaps.Ledger
	endGaps  context.CancelFunc
	looking  sync.WaitGroup // the ledger, at counters

	reconcile *reconcile.Service
	silence   *reconcile.Silence

	// What the operator's side looks at while the rest is still being put together.
	seenIngest  atomic.Pointer[ingest.Service]
	seenSuper   atomic.Pointer[supervise.Supervisor]
	seenDeliver atomic.Pointer[deliver.Service]

	beating sync.WaitGroup
	endBeat context.CancelFunc

	plan      atomic.Pointer[plan]
	reload    sync.Mutex // held while something is changed
	upgrading sync.Mutex
	ready     atomic.Bool
	stopping  atomic.Bool
	drain     chan struct{}
	leaving   chan *successor
	once      sync.Once

	mu       sync.Mutex
	problems map[string]string
	listen   []string
	counters map[uint32]*lane.Counters // of living data planes
}

// Run serves until ctx ends or Drain is called, then stops in order. It returns nil after an
// orderly stop. An upgrade of this program ends in the next one's execution under our pid, and Run
// does not return; where that fails, this program takes the data plane up again.
func Run(ctx context.Context, o Options) error {
	// A file that may not grow is refused with EFBIG. Go takes the signal that comes with it for
	// nothing (os/signal); the data plane, which it would kill, inherits that it is ignored.
	signal.Ignore(unix.SIGXFSZ)
	program, began, stops := ownProgram(), time.Now(), false
	for {
		d := newDaemon(o, program, began)
		if stops {
			d.Drain()
		}
		next, err := d.live(ctx)
		if next == nil {
			if err == nil {
				o.Log.Info("stopped; what was acknowledged is in the data directory",
					"data_dir", o.Config.DataDir)
			}
			return err
		}
		if err != nil {
			o.Log.Error("not all could be let go for the next program", "error", err)
		}
		if stops = ctx.Err() != nil || d.told(); stops {
			ctx = context.WithoutCancel(ctx) // what was left to the next program is drained all the same
		} else {
			err = next.exec(o.Inherited.Environ())
			o.Log.Error("the next program cannot be executed, and this one goes on", "error", err)
		}
		next.close()
		o.Config = d.o.Config
	}
}

func newDaemon(o Options, program string, began time.Time) *Daemon {
	return &Daemon{
		o: o, log: o.Log, program: program, began: began, drain: make(chan struct{}),
		leaving: make(chan *successor, 1), problems: make(map[string]string),
		counters: make(map[uint32]*lane.Counters),
	}
}

// live serves until that is to end. It gives the program that is to go on with the data plane, if
// there is one.
func (d *Daemon) live(ctx context.Context) (*successor, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := d.open(ctx); err != nil {
		return nil, errors.Join(err, d.close())
	}
	stopServing, err := d.serve(ctx)
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	next, err := d.run(ctx)
	if next != nil {
		next, err = d.leave(ctx, next)
	} else {
		err = errors.Join(err, d.stop())
	}
	stopServing() // only now: it shows how the rest stops, and looks at what close takes away
	return next, errors.Join(err, d.close())
}

// run starts what serves senders and waits until that is to end.
func (d *Daemon) run(ctx context.Context) (*successor, error) {
	if err := d.start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, nil // told to stop while it started
		}
		return nil, err
	}
	d.ready.Store(true)
	if d.o.Ready != nil {
		d.o.Ready(d)
	}
	select {
	case <-ctx.Done():
	case <-d.drain:
	case next := <-d.leaving:
		return next, nil
	case <-d.store.Failed():
		return nil, fmt.Errorf("the store gave up: %w", d.store.Err())
	}
	return nil, nil
}

// open takes the data directory and the directory on tmpfs, each under its lock.
func (d *Daemon) open(ctx context.Context) error {
	c := d.o.Config
	id, err := store.JournalID(c.DataDir)
	if err != nil {
		return err
	}
	var witness uint64
	if id != ([16]byte{}) {
		witness = durableGroup(c, id)
	}
	// An index that is built again is searched by what senders call their events.
	if p, err := newPlan(c, nil); err == nil {
		d.ids.use(p)
	}
	d.store, err = store.Open(ctx, store.Options{
		Dir: c.DataDir, Log: d.log, Witness: witness, Describe: d.ids.describe, FS: d.openFaults(),
		Retention: retentionOf(c), DedupMemory: DedupMemory(),
		Repeated: d.repeated,
	})
	if err != nil {
		return err
	}
	for _, damage := range d.store.Recovery().Damage {
		d.log.Error("the journal is damaged", "what", damage)
	}
	if d.shm, err = openShm(c, d.store.Recovery().JournalID); err != nil {
		return err
	}
	d.shm.control.StoreStopping(0)
	d.tune, err = tune.New(tune.Options{
		Control: d.shm.control.ControlPage, Config: c.Admission,
		Now: func() time.Duration { return time.Since(d.began) },
	})
	if err != nil {
		return err
	}
	if err := d.openSecrets(); err != nil {
		return err
	}
	if err := d.openProtection(); err != nil {
		return err
	}
	d.openStanding()
	return d.openGaps()
}

// repeated tells intake of an event that will not be delivered itself.
func (d *Daemon) repeated(repeat, first event.ID) {
	if waiting := d.seenIngest.Load(); waiting != nil {
		waiting.Repeated(repeat, first)
	}
}

func (d *Daemon) start(ctx context.Context) error {
	if err := d.settle(ctx); err != nil {
		return err
	}
	d.openTickets()
	p, err := d.prepare(ctx, d.o.Config)
	if err != nil {
		return err
	}
	d.guard(p)
	d.ids.use(p)
	d.keys.Use(p.secrets)
	recovery := d.store.Recovery()
	boot, err := lane.BootID()
	if err != nil {
		return err
	}
	d.ingest = ingest.New(ingest.Options{
		Store: d.store, Control: d.shm.control, Log: d.log, Observe: d.metrics,
		Learn: d.learn,
	}, p.table)
	d.seenIngest.Store(d.ingest)
	d.ingest.Start()
	// Names before the first verdict under them: frames outlive the config.
	if err := d.store.PutCatalogue(ctx, p.catalogue); err != nil {
		return fmt.Errorf("record the config: %w", err)
	}
	d.plan.Store(p)
	d.tellUnenforced(p.config)
	d.tune.UseSlots(p.slots())
	d.lanes = &lanes{
		dir: filepath.Join(d.shm.dir, "lanes"), ingest: d.ingest, durable: recovery.Lanes, log: d.log,
		owner: lane.Owner{JournalID: recovery.JournalID, BootID: boot},
	}
	if err := d.lanes.takeUp(recovery.Ended); err != nil {
		return err
	}
	ctxBeat, endBeat := context.WithCancel(context.WithoutCancel(ctx)) // it beats while the rest stops
	d.endBeat = endBeat
	d.beating.Go(func() { d.beat(ctxBeat) })
	d.beating.Go(func() { d.keepStanding(ctxBeat) })
	d.beating.Go(func() { d.tune.Run(ctxBeat) })
	d.beating.Go(func() { d.watchFiles(ctxBeat) })
	d.beating.Go(func() { d.keys.Run(ctxBeat) })
	d.resumeWaits(p)
	if err := d.startDelivery(ctxBeat, p); err != nil {
		return err
	}
	d.startReconcile(ctxBeat)
	d.super = supervise.New(supervise.Options{
		Binary: d.o.Binary, Version: d.o.Version, Dir: d.shm.dir, JournalID: recovery.JournalID,
		Settings: d.settings, Open: d.openListeners, Lanes: d.lanes, Bells: newBells, Log: d.log,
		Snapshot: func(rows []string) *pb.Snapshot { return d.standing.fill(d.plan.Load(), rows) },
		Born:     d.planeBorn, Died: d.planeDied, Newest: d.tune.Newest,
	})
	d.seenSuper.Store(d.super)
	if err := d.super.Start(ctx); err != nil {
		d.super = nil
		return err
	}
	d.noteListeners()
	return nil
}

// settle makes the group in doubt durable; nothing is acknowledged or appended before.
func (d *Daemon) settle(ctx context.Context) error {
	const problem = "settle"
	for {
		err := d.store.Settle(ctx)
		if err == nil {
			d.solved(problem)
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		d.shm.control.StoreWritable(0) // until then, what waits for an answer fills the lanes
		d.problem(problem, fmt.Sprintf("the journal's last group cannot be written again: %v", err))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(settlePause):
		}
	}
}

func (d *Daemon) startDelivery(ctx context.Context, p *plan) error {
	list, err := d.targets(p)
	if err != nil {
		return err
	}
	protection, err := d.protection(p)
	if err != nil {
		closeTargets(list)
		return err
	}
	d.deliver = deliver.New(deliver.Options{
		Queue:      deliver.FromStore(d.store),
		SourceName: func(id uint32) string { return d.store.Catalogue().SourceName(id) },
		Outcome:    d.metrics.Attempted,
		WantAnswer: d.ingest.Waits,
		Concluded:  d.concluded,
		Log:        d.log,
	})
	d.seenDeliver.Store(d.deliver)
	if err := d.protect.Apply(protection); err != nil {
		closeTargets(list)
		closeSignals(protection)
		return err
	}
	d.beating.Go(func() { d.protect.Run(ctx) })
	return d.deliver.Apply(d.gated(list))
}

// gated puts the gates before destinations.
func (d *Daemon) gated(list []deliver.Target) []deliver.Target {
	for i := range list {
		list[i].Gate = d.protect.Gate(list[i].ID)
	}
	return list
}

// concluded passes what became of a delivery on to who waits for it.
func (d *Daemon) concluded(c deliver.Conclusion) {
	if c.Kind == event.Done {
		d.metrics.Delivered(d.store.Catalogue().DestinationName(c.Destination), time.Since(c.ID.Time()))
	}
	d.ingest.Concluded(ingest.Conclusion{
		ID: c.ID, Destination: c.Destination, Kind: c.Kind, Answer: c.Answer,
	})
}

// resumeWaits takes up what an earlier life did not answer. Where it fails, those senders hear
// nothing until their budget ends: their events are kept all the same.
func (d *Daemon) resumeWaits(p *plan) {
	list, err := d.ingest.Unanswered(d.store, p.longestBudget())
	if err != nil {
		d.log.Warn("some senders that wait for a delivery are not answered", "error", err)
	}
	d.ingest.Resume(list)
}

// beat shows the data plane and status that the control plane runs. It decides nothing.
func (d *Daemon) beat(ctx context.Context) {
	tick := time.NewTicker(beatInterval)
	defer tick.Stop()
	for {
		d.shm.control.StoreCPBeat(bootNow())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// bootNow is the boot clock in ns, as the data plane reads it.
func bootNow() uint64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0 // no kernel that we run on lacks it
	}
	return uint64(t.Nano())
}

// Drain begins an orderly stop.
func (d *Daemon) Drain() { d.once.Do(func() { close(d.drain) }) }

// stop takes everything apart in the order in which events pass it.
func (d *Daemon) stop() error {
	d.stopping.Store(true)
	d.ready.Store(false)
	d.closeFaults()
	var err error
	if d.super != nil {
		// Only this makes a data plane refuse what comes: one that drains otherwise has a successor, and
		// where this program did not come so far, there will be a next one.
		d.shm.control.StoreStopping(1)
		ctx, cancel := context.WithTimeout(context.Background(), drainGrace+5*time.Second)
		err = d.super.Drain(ctx, drainGrace)
		cancel()
		d.super.Stop()
		d.unlink(specs(d.plan.Load().config))
	}
	if d.ingest != nil {
		d.awaitLanes()
	}
	err = errors.Join(err, d.stopDelivery())
	if d.ingest != nil {
		d.ingest.Stop()
	}
	d.endBeating()
	return err
}

// stopDelivery may be called again.
func (d *Daemon) stopDelivery() error {
	if d.deliver == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), deliverGrace)
	defer cancel()
	return d.deliver.Stop(ctx)
}

// endBeating ends what goes on while the rest stops; the control page keeps its numbers.
func (d *Daemon) endBeating() {
	if d.endBeat != nil {
		d.endBeat()
		d.beating.Wait()
	}
	d.tune.Stop()
}

// awaitLanes waits until the drained data plane's lanes are empty and recorded as ended. What is
// left after that is found by the next start.
func (d *Daemon) awaitLanes() {
	until := time.Now().Add(lanesPatience)
	for len(d.ingest.Lanes()) > 0 && time.Now().Before(until) {
		time.Sleep(5 * time.Millisecond)
	}
}

// close gives up what open took, and unmaps what others looked at.
func (d *Daemon) close() error {
	d.closeGaps()
	d.closeSecrets()
	err := d.closeProtection()
	if d.store != nil {
		err = errors.Join(err, d.store.Close())
	}
	d.mu.Lock()
	for _, c := range d.counters { // of data planes that go on
		c.Close()
	}
	clear(d.counters)
	d.mu.Unlock()
	if d.shm != nil {
		d.shm.close()
	}
	return err
}

func (d *Daemon) problem(key, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.problems[key] != text {
		d.log.Error(text)
	}
	d.problems[key] = text
}

func (d *Daemon) solved(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.problems, key)
}

// Arm makes this process kill itself at a fault point; for tests and game days only.
func Arm(text string) error {
	return faultpoint.Arm(text, func() {
		p, err := os.FindProcess(os.Getpid())
		if err == nil {
			_ = p.Kill() // there is no later
		}
		select {}
	})
}
