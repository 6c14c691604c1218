package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"sluice/go/internal/dataplane"
	"sluice/go/internal/listen"
	pb "sluice/proto/sluice/v1"
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

// Sockets are the listening sockets that a config wants.
type Sockets struct {
	*listen.Set
	// Names has the address of each row, as the config names it.
	Names []string
}

// Options of New; all but Version are required.
type Options struct {
	// Binary is the path of the data plane's program. It is opened at Start and anew by each Upgrade.
	Binary    string
	Version   string // of this program
	Dir       string // the journal's directory on tmpfs
	JournalID [16]byte
	Lanes     Lanes
	// Settings are what the config in force says on a data plane's command line, and Open opens the
	// sockets that it wants: of those that there are it takes what it can. Both are asked at Start and
	// by Upgrade; a crash is mended with what was in use.
	Settings func() dataplane.Settings
	Open     func(ctx context.Context, have [][]*os.File) (*Sockets, error)
	// Bells makes so many doorbells. Each generation has its own: one that two shared could wake
	// the wrong one.
	Bells func(count int) ([]*os.File, error)
	// Snapshot is the config in force, for a data plane with these rows of sockets. While nothing
	// changes it is the same one each time.
	Snapshot func(rows []string) *pb.Snapshot
	// Born is called when a generation is taken into service, with its counters file; Died when it
	// is dead, before that file is removed. Each Born has its Died, unless the generation outlives
	// the supervision. Newest is called when it becomes the one that accepts.
	Born   func(generation uint32, counters string)
	Died   func(generation uint32)
	Newest func(generation uint32)
	Log    *slog.Logger
}

// Status is a look at the data planes.
type Status struct {
	Pid        int
	Generation uint32
	Version    string // of its program
	Driver     string
	// DriverReason is why it is not io_uring; Sandbox what the process took away from itself, and
	// SandboxReason what the host does not give of that.
	DriverReason  string
	Sandbox       []string
	SandboxReason string
	Accepting     bool
	Restarts      uint64
	// Retiring counts older generations that finish what they have.
	Retiring int
	// Problem says why none accepts, or accepts under an older config; empty: all is well.
	Problem string
}

// ErrNone says that no data plane accepts at the moment; the next one gets the config in force.
var ErrNone = errors.New("no data plane accepts at the moment")

// Supervisor keeps one data plane accepting.
type Supervisor struct {
	o       Options
	stop    chan struct{}
	drain   chan struct{} // closed when the last one is to end
	done    chan struct{}
	leaving sync.WaitGroup // generations that were told to end

	// starting is held by who starts a generation, so that there is one at a time; outfit is its
	// holder's.
	starting chan struct{}
	outfit   outfit

	mu       sync.Mutex
	current  *generation
	elders   []*generation // told to end, and not dead yet
	restarts uint64
	last     uint32 // highest generation seen
	problem  string
	draining bool
	grace    time.Duration // with draining
	rows     [][]*os.File  // of outfit, for whoever looks
}

// outfit is what the next generation gets. The zero one has nothing.
type outfit struct {
	program  *dataplane.Program
	settings dataplane.Settings
	sockets  *Sockets     // nil: to be opened yet, with what was handed over
	handed   [][]*os.File // by a data plane that has other sockets than the config wants
}

func (o *outfit) rows() [][]*os.File {
	if o.sockets != nil {
		return o.sockets.Rows
	}
	return o.handed
}

// New makes a supervisor; Start does the work.
func New(o Options) *Supervisor {
	return &Supervisor{
		o: o, stop: make(chan struct{}), drain: make(chan struct{}), done: make(chan struct{}),
		starting: make(chan struct{}, 1),
	}
}

// Listeners are the listening sockets, in rows of one per worker; they are lent until Stop, or
// until an Upgrade.
func (s *Supervisor) Listeners() [][]*os.File {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows
}

// Start adopts the newest data plane that is ready and was started as it would be now, and ends the
// others, or starts one. It returns when one accepts; after that its death is mended in the
// background until Stop. After an error nothing needs to be stopped.
func (s *Supervisor) Start(ctx context.Context) error {
	if err := s.begin(ctx); err != nil {
		close(s.stop)
		s.leaving.Wait()
		s.letGo()
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
	if s.outfit.program, err = dataplane.OpenProgram(s.o.Binary); err != nil {
		return err
	}
	s.outfit.settings = s.o.Settings()
	candidate := s.meetAll(ctx, found)
	err = s.openSockets(ctx)
	if err == nil && candidate != nil && s.adopt(ctx, candidate) {
		return nil
	}
	if err == nil {
		_, err = s.launch(ctx, &s.outfit, s.number(), func(string) {})
	}
	switch {
	case candidate == nil:
	case err == nil: // only now: an old one serves until a new one does
		s.retire(candidate)
	case ctx.Err() == nil:
		s.o.Log.Error("the data plane of an earlier life goes on under its own config",
			"generation", candidate.process.Generation, "error", err)
		s.set(candidate, err.Error())
		s.o.Newest(candidate.process.Generation)
		err = nil
	default:
		candidate.close()
	}
	return err
}

// openSockets opens what the config wants beside what was handed over; the caller may start a
// generation.
func (s *Supervisor) openSockets(ctx context.Context) error {
	sockets, err := s.o.Open(ctx, s.outfit.handed)
	if err != nil {
		return err
	}
	s.use(outfit{s.outfit.program, s.outfit.settings, sockets, nil})
	sockets.Settle()
	return nil
}

// use makes an outfit the one for the next generation; the caller may start one.
func (s *Supervisor) use(o outfit) {
	s.outfit = o
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows = o.rows()
}

// Drain ends the data plane: it finishes what it took, for at most grace, and exits. Nothing is
// started any more.
func (s *Supervisor) Drain(ctx context.Context, grace time.Duration) error {
	s.mu.Lock()
	if !s.draining {
		s.draining, s.grace = true, grace
		close(s.drain)
	}
	g := s.current
	s.mu.Unlock()
	patience, leaving := time.NewTimer(grace+helloPatience), time.NewTimer(grace+2*helloPatience)
	defer patience.Stop()
	defer leaving.Stop()
	if g == nil {
		<-s.done // a start under way ends with its process
		return s.awaitLeaving(ctx, leaving.C)
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
	return s.awaitLeaving(ctx, leaving.C)
}

// awaitLeaving gives those that were told to end before the rest of the grace.
func (s *Supervisor) awaitLeaving(ctx context.Context, patience <-chan time.Time) error {
	gone := make(chan struct{})
	go func() {
		s.starting <- struct{}{} // an upgrade under way ends with its process
		<-s.starting
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
	s.starting <- struct{}{} // who starts one gives up
	<-s.starting
	s.leaving.Wait()
	if g := s.generation(); g != nil {
		g.close()
	}
	s.letGo()
}

// Status is a look at the data planes.
func (s *Supervisor) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Status{
		Restarts: s.restarts, Problem: s.problem, Generation: s.last, Retiring: len(s.elders),
	}
	if g := s.current; g != nil {
		st.Pid, st.Generation = g.process.Pid, g.process.Generation
		st.Version, st.Accepting = g.hello.GetVersion(), !s.draining
		st.Driver, st.DriverReason = g.hello.GetDriver(), g.hello.GetDriverReason()
		st.Sandbox = slices.Clone(g.hello.GetSandbox())
		st.SandboxReason = g.hello.GetSandboxReason()
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

// complain tells why there is none, while there is none.
func (s *Supervisor) complain(problem string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		s.problem = problem
	}
}

func (s *Supervisor) isDraining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

// letGo gives up what generations were started with.
func (s *Supervisor) letGo() {
	dataplane.Fds{Listeners: s.outfit.rows()}.Close()
	if s.outfit.program != nil {
		s.outfit.program.Close()
	}
}

func (s *Supervisor) dp() string { return filepath.Join(s.o.Dir, "dp") }

func (s *Supervisor) path(number uint32, kind string) string {
	return filepath.Join(s.dp(), fmt.Sprintf("%d.%s", number, kind))
}
