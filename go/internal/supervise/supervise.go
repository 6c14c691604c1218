package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"sluice/go/internal/dataplane"
	pb "sluice/proto/sluice/v1"
)

const (
	helloPatience = 2 * time.Second  // of one that should be there
	startPatience = 20 * time.Second // of one that was just started
	applyPatience = 12 * time.Second
	nonePatience  = 3 * time.Second // until the next one accepts
	nonePause     = 5 * time.Millisecond
	fdsPatience   = 500 * time.Millisecond
	exitPatience  = 100 * time.Millisecond // between a closed socket and the end of its process
	backoffMin    = 50 * time.Millisecond
	backoffMax    = 5 * time.Second
	steadyAfter   = 10 * time.Second // a generation that lived so long resets the backoff
	orphansMax    = 4
)

// Lanes is who serves lanes.
type Lanes interface {
	// Serve takes the lanes of a generation into service; ids by worker, bells likewise.
	Serve(generation uint32, ids [][]byte, fds dataplane.Fds) error
	// Orphaned says that the generation is dead.
	Orphaned(generation uint32)
	// Orphans counts dead generations whose lanes are not drained yet.
	Orphans() int
}

// Options of New; all are required.
type Options struct {
	Binary         string
	Dir            string // the journal's directory on tmpfs
	JournalID      [16]byte
	RingSize       uint64
	MaxConnections int
	LockMemory     bool
	Lanes          Lanes
	// Open opens listening sockets where none could be taken over: one per address and worker.
	Open func(context.Context) ([][]*os.File, error)
	// Bells makes so many doorbells. Each generation has its own: one that two shared could wake
	// the wrong one.
	Bells func(count int) ([]*os.File, error)
	// Snapshot is the config in force.
	Snapshot func() *pb.Snapshot
	// Born is called when a generation is taken into service, with its counters file; Died when it
	// is dead, before that file is removed. Each Born has its Died, unless the generation outlives
	// the supervision.
	Born func(generation uint32, counters string)
	Died func(generation uint32)
	Log  *slog.Logger
}

// Status is a look at the data plane.
type Status struct {
	Pid        int
	Generation uint32
	Driver     string
	Accepting  bool
	Restarts   uint64
	// Problem says why none accepts, or accepts under an older config; empty: all is well.
	Problem string
}

// ErrNone says that no data plane accepts at the moment; the next one gets the config in force.
var ErrNone = errors.New("no data plane accepts at the moment")

// Supervisor keeps one data plane accepting.
type Supervisor struct {
	o         Options
	listeners [][]*os.File // constant after Start
	stop      chan struct{}
	drain     chan struct{} // closed when the last one is to end
	done      chan struct{}
	leaving   sync.WaitGroup // generations that were told to end

	mu       sync.Mutex
	current  *generation
	restarts uint64
	last     uint32 // highest generation seen
	problem  string
	draining bool
}

// New makes a supervisor; Start does the work.
func New(o Options) *Supervisor {
	return &Supervisor{
		o: o, stop: make(chan struct{}), drain: make(chan struct{}), done: make(chan struct{}),
	}
}

// Listeners are the listening sockets; valid after Start and until Stop.
func (s *Supervisor) Listeners() [][]*os.File { return s.listeners }

// Start adopts the newest data plane that is ready and ends the others, or starts one. It returns
// when one accepts; after that its death is mended in the background until Stop. After an error
// nothing needs to be stopped.
func (s *Supervisor) Start(ctx context.Context) error {
	err := s.begin(ctx)
	if err != nil {
		close(s.stop)
		s.leaving.Wait()
		s.closeListeners()
		return err
	}
	go s.watch()
	return nil
}

func (s *Supervisor) begin(ctx context.Context) error {
	found, err := s.survey()
	if err != nil {
		return err
	}
	fallback := s.adopt(ctx, found)
	if s.generation() != nil {
		return nil
	}
	if s.listeners == nil {
		if s.listeners, err = s.o.Open(ctx); err != nil {
			s.release(fallback)
			return err
		}
	}
	err = s.launch(ctx)
	switch {
	case err == nil && fallback != nil: // only now: an old one serves until a new one does
		s.retire(fallback)
	case err != nil && fallback != nil && ctx.Err() == nil:
		s.o.Log.Error("the data plane of an earlier life goes on under its own config",
			"generation", fallback.process.Generation, "error", err)
		s.set(fallback, err.Error())
		err = nil
	case err != nil:
		s.release(fallback)
	}
	return err
}

// Apply hands the snapshot in force to the data plane; one that is just being started is waited
// for, since it may have begun under the config before. A refusal is dataplane.ErrRefused, and the
// last good one stays; ErrNone says that the next data plane gets it. One that does not answer is
// killed, and the next one asked: only when that fails as well is the config held to be the cause.
func (s *Supervisor) Apply(ctx context.Context) error {
	err := s.applyToNext(ctx, nil)
	if failed := (*applyError)(nil); errors.As(err, &failed) {
		err = s.applyToNext(ctx, failed.generation)
	}
	return err
}

// applyError is a data plane that did not answer.
type applyError struct {
	error
	generation *generation
}

func (e *applyError) Unwrap() error { return e.error }

// applyToNext hands the snapshot to the first generation that accepts and is not the one before.
func (s *Supervisor) applyToNext(ctx context.Context, before *generation) error {
	g := s.generation()
	for until := time.Now().Add(nonePatience); g == nil || g == before; g = s.generation() {
		if time.Now().After(until) || !s.pause(nonePause) || ctx.Err() != nil {
			return ErrNone
		}
	}
	if err := s.apply(ctx, g); err != nil {
		if errors.Is(err, dataplane.ErrRefused) {
			return err
		}
		// It might take the config later, when it is not in force any more.
		s.o.Log.Error("a data plane does not take a config and is killed",
			"generation", g.process.Generation, "error", err)
		g.process.Kill()
		return &applyError{err, g}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == g {
		s.problem = ""
	}
	return nil
}

// watch replaces generations that die.
func (s *Supervisor) watch() {
	defer close(s.done)
	backoff := time.Duration(0)
	for {
		if g := s.generation(); g != nil {
			select {
			case <-s.stop:
				return
			case <-g.process.Done():
			}
			if s.isDraining() {
				s.bury(g)
				return
			}
			s.o.Log.Error("the data plane died; a new one is started",
				"generation", g.process.Generation, "exit", g.process.Exit())
			s.mu.Lock()
			s.restarts++
			s.mu.Unlock()
			if time.Since(g.born) > steadyAfter {
				backoff = 0
			}
			s.bury(g)
		}
		if !s.pause(backoff) {
			return
		}
		for s.o.Lanes.Orphans() >= orphansMax {
			s.set(nil, fmt.Sprintf("%d dead data planes are not drained yet", orphansMax))
			if !s.pause(100 * time.Millisecond) {
				return
			}
		}
		if err := s.relaunch(); err != nil {
			s.set(nil, err.Error())
			s.o.Log.Error("no data plane", "error", err)
		}
		backoff = min(max(2*backoff, backoffMin), backoffMax)
	}
}

// relaunch is launch, ended by Stop and Drain.
func (s *Supervisor) relaunch() error {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-s.stop:
		case <-s.drain:
		case <-ctx.Done():
		}
		cancel()
	}()
	err := s.launch(ctx)
	cancel()
	<-ended
	return err
}

// pause is false when there is nothing to wait for any more.
func (s *Supervisor) pause(d time.Duration) bool {
	select {
	case <-s.stop:
		return false
	case <-s.drain:
		return false
	default:
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-s.stop:
		return false
	case <-s.drain:
		return false
	case <-timer.C:
		return true
	}
}

// Drain ends the data plane: it finishes what it took, for at most grace, and exits. Nothing is
// started any more.
func (s *Supervisor) Drain(ctx context.Context, grace time.Duration) error {
	s.mu.Lock()
	if !s.draining {
		s.draining = true
		close(s.drain)
	}
	g := s.current
	s.mu.Unlock()
	patience := time.NewTimer(grace + helloPatience)
	defer patience.Stop()
	if g == nil {
		<-s.done // a start under way ends with its process
		return s.awaitLeaving(ctx, patience.C)
	}
	asked := g.client.Drain(ctx, grace)
	var err error
	select {
	case <-g.process.Done():
		// It ended; its answer may have been cut off by that.
	case <-ctx.Done():
		err = errors.Join(asked, ctx.Err())
	case <-patience.C:
		err = errors.Join(asked, errors.New("it did not end in time"))
	}
	if err != nil {
		g.process.Kill()
		<-g.process.Done()
		return fmt.Errorf("drain data plane %d: %w", g.process.Generation, err)
	}
	<-s.done
	return s.awaitLeaving(ctx, patience.C)
}

// awaitLeaving gives those that were told to end before the rest of the grace.
func (s *Supervisor) awaitLeaving(ctx context.Context, patience <-chan time.Time) error {
	gone := make(chan struct{})
	go func() {
		s.leaving.Wait()
		close(gone)
	}()
	select {
	case <-gone:
	case <-ctx.Done():
	case <-patience: // the next life finds them
	}
	return nil
}

// Stop ends the supervision; data planes that run go on.
func (s *Supervisor) Stop() {
	close(s.stop)
	<-s.done
	s.leaving.Wait()
	s.release(s.generation())
	s.closeListeners()
}

// Status is a look at the data plane.
func (s *Supervisor) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Status{Restarts: s.restarts, Problem: s.problem, Generation: s.last}
	if g := s.current; g != nil {
		st.Pid, st.Generation = g.process.Pid, g.process.Generation
		st.Driver, st.Accepting = g.hello.GetDriver(), !s.draining
	}
	return st
}

// Process is the data plane that accepts; nil while there is none.
func (s *Supervisor) Process() *dataplane.Process {
	if g := s.generation(); g != nil {
		return g.process
	}
	return nil
}

func (s *Supervisor) generation() *generation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

func (s *Supervisor) set(g *generation, problem string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current, s.problem = g, problem
}

func (s *Supervisor) isDraining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

func (s *Supervisor) closeListeners() {
	dataplane.Fds{Listeners: s.listeners}.Close()
}

func (s *Supervisor) dp() string { return filepath.Join(s.o.Dir, "dp") }

func (s *Supervisor) path(number uint32, kind string) string {
	return filepath.Join(s.dp(), fmt.Sprintf("%d.%s", number, kind))
}
