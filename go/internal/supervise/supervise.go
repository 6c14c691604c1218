package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"sluice/go/internal/dataplane"
	pb "sluice/proto/sluice/v1"
)

const (
	helloPatience = 2 * time.Second  // of one that should be there
	startPatience = 20 * time.Second // of one that was just started
	applyPatience = 12 * time.Second
	applyPause    = 10 * time.Millisecond
	fdsPatience   = 500 * time.Millisecond
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
	// Open opens listening sockets and doorbells where none could be taken over.
	Open func(context.Context) (dataplane.Fds, error)
	// Snapshot is the config in force.
	Snapshot func() *pb.Snapshot
	// Born is called when a generation serves, with its counters file; Died when it is dead, before
	// that file is removed.
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
	// Problem says why none accepts; empty: one does.
	Problem string
}

// Supervisor keeps one data plane accepting.
type Supervisor struct {
	o    Options
	fds  dataplane.Fds
	stop chan struct{}
	done chan struct{}

	mu       sync.Mutex
	current  *generation
	restarts uint64
	last     uint32 // highest generation seen
	problem  string
	draining bool
}

type generation struct {
	process *dataplane.Process
	client  *dataplane.Client
	hello   *pb.HelloReply
	born    time.Time
}

// New makes a supervisor; Run does the work.
func New(o Options) *Supervisor {
	return &Supervisor{o: o, stop: make(chan struct{}), done: make(chan struct{})}
}

// Fds are the descriptors in use; valid after Start.
func (s *Supervisor) Fds() dataplane.Fds { return s.fds }

// Start adopts the newest data plane that answers and ends the others, or starts one. It returns when
// one accepts; after that its death is mended in the background until Stop.
func (s *Supervisor) Start(ctx context.Context) error {
	found, err := s.survey()
	if err != nil {
		return err
	}
	for i := len(found) - 1; i >= 0; i-- {
		if s.adopt(ctx, found[i]) {
			break
		}
	}
	if s.fds.Workers() == 0 {
		if s.fds, err = s.o.Open(ctx); err != nil {
			return err
		}
	}
	if s.generation() == nil {
		if err := s.launch(ctx); err != nil {
			s.fds.Close()
			return err
		}
	}
	go s.watch()
	return nil
}

// survey lists the generations that left files, oldest first.
func (s *Supervisor) survey() ([]uint32, error) {
	entries, err := os.ReadDir(s.dp())
	if err != nil {
		return nil, fmt.Errorf("look for data planes: %w", err)
	}
	var found []uint32
	for _, entry := range entries { // sorted by name, so numbers are sorted below
		number, kind, ok := strings.Cut(entry.Name(), ".")
		n, err := strconv.ParseUint(number, 10, 32)
		if !ok || err != nil {
			s.o.Log.Warn("a file that is none of ours was left alone", "file", entry.Name())
			continue
		}
		s.last = max(s.last, uint32(n))
		if kind == "counters" {
			found = insert(found, uint32(n))
		}
	}
	return found, nil
}

func insert(sorted []uint32, n uint32) []uint32 {
	at := len(sorted)
	for at > 0 && sorted[at-1] > n {
		at--
	}
	sorted = append(sorted, 0)
	copy(sorted[at+1:], sorted[at:])
	sorted[at] = n
	return sorted
}

// adopt takes a living generation over: true when it accepts and is ours now. One that is silent or
// was never ready is killed, one that is drained or older is told to end; their lanes are orphans or
// end by themselves.
func (s *Supervisor) adopt(ctx context.Context, number uint32) bool {
	log := s.o.Log.With("generation", number)
	pid := pidOf(s.path(number, "counters"))
	if pid > 0 && !dataplane.IsDataPlane(pid, s.o.JournalID, number) {
		s.forget(number) // dead: nobody is left to say hello, and senders wait for the next one
		return false
	}
	client, err := dataplane.Dial(s.path(number, "sock"))
	if err != nil {
		log.Warn("data plane of an earlier life", "error", err)
		return false
	}
	hello, err := s.hello(ctx, client, helloPatience)
	if err != nil {
		client.Close()
		s.end(number, err)
		return false
	}
	process, err := dataplane.Watch(int(hello.GetPid()), number)
	if err != nil {
		client.Close()
		s.end(number, err)
		return false
	}
	g := &generation{process: process, client: client, hello: hello, born: time.Now()}
	fds, err := dataplane.TakeFds(s.path(number, "fds"), fdsPatience)
	if err == nil {
		err = s.o.Lanes.Serve(number, laneIDs(hello), fds)
	}
	if err == nil && !hello.GetDraining() {
		err = s.apply(ctx, g)
	}
	if err != nil || hello.GetDraining() {
		log.Warn("data plane of an earlier life is not taken over", "error", err,
			"draining", hello.GetDraining())
		s.retire(g)
		return false
	}
	s.fds = fds
	s.set(g, "")
	s.o.Born(number, s.path(number, "counters"))
	log.Info("took the living data plane over", "pid", process.Pid)
	return true
}

// end makes sure that a generation that does not answer is dead.
func (s *Supervisor) end(number uint32, why error) {
	pid := pidOf(s.path(number, "counters"))
	if pid > 0 && dataplane.IsDataPlane(pid, s.o.JournalID, number) {
		s.o.Log.Error("a data plane does not answer and is killed",
			"generation", number, "pid", pid, "error", why)
		if p, err := dataplane.Watch(pid, number); err == nil {
			p.Kill()
			<-p.Done()
		}
	}
	s.forget(number)
}

// forget removes the files of a dead generation and has its lanes drained.
func (s *Supervisor) forget(number uint32) {
	s.o.Lanes.Orphaned(number)
	s.o.Died(number)
	for _, kind := range []string{"sock", "fds", "counters"} {
		if err := os.Remove(s.path(number, kind)); err != nil && !errors.Is(err, os.ErrNotExist) {
			s.o.Log.Warn("file of a dead data plane", "error", err)
		}
	}
}

// retire drains a generation in the background and buries it.
func (s *Supervisor) retire(g *generation) {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), helloPatience)
		err := g.client.Drain(ctx, startPatience)
		cancel()
		g.client.Close()
		select {
		case <-g.process.Done():
		case <-time.After(startPatience + helloPatience):
			s.o.Log.Error("a data plane did not end in time and is killed",
				"generation", g.process.Generation, "error", err)
			g.process.Kill()
			<-g.process.Done()
		}
		s.forget(g.process.Generation)
	}()
}

// launch starts a generation and waits until it accepts.
func (s *Supervisor) launch(ctx context.Context) error {
	s.last++
	number := s.last
	process, err := dataplane.Start(dataplane.Spec{
		Binary: s.o.Binary, Dir: s.o.Dir, JournalID: s.o.JournalID, Generation: number,
		RingSize: s.o.RingSize, MaxConnections: s.o.MaxConnections, LockMemory: s.o.LockMemory,
		Fds: s.fds,
	})
	if err != nil {
		return err
	}
	g := &generation{process: process, born: time.Now()}
	if g.client, err = dataplane.Dial(s.path(number, "sock")); err == nil {
		err = s.greet(ctx, g)
	}
	if err != nil {
		process.Kill()
		<-process.Done()
		if g.client != nil {
			g.client.Close()
		}
		s.forget(number)
		return fmt.Errorf("data plane %d: %w", number, err)
	}
	s.set(g, "")
	s.o.Born(number, s.path(number, "counters"))
	s.o.Log.Info("data plane accepts", "generation", number, "pid", process.Pid,
		"driver", g.hello.GetDriver())
	return nil
}

// greet says hello, serves the lanes and hands the snapshot over: in this order, so that no frame
// waits for a server.
func (s *Supervisor) greet(ctx context.Context, g *generation) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // a process that dies at its start ends the wait
		select {
		case <-g.process.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	var err error
	if g.hello, err = s.hello(ctx, g.client, startPatience); err == nil {
		err = s.o.Lanes.Serve(g.process.Generation, laneIDs(g.hello), s.fds)
	}
	if err == nil {
		err = s.apply(ctx, g)
	}
	if err != nil && g.process.Exit() != "" {
		return fmt.Errorf("it ended before it was ready (%s); its own words are above", g.process.Exit())
	}
	return err
}

func (s *Supervisor) hello(ctx context.Context, c *dataplane.Client, patience time.Duration) (*pb.HelloReply, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	hello, err := c.Hello(ctx, s.o.JournalID)
	if err != nil {
		return nil, fmt.Errorf("hello: %w", err)
	}
	return hello, nil
}

func (s *Supervisor) apply(ctx context.Context, g *generation) error {
	ctx, cancel := context.WithTimeout(ctx, applyPatience)
	defer cancel()
	return g.client.Apply(ctx, s.o.Snapshot())
}

// Apply hands the snapshot in force to the data plane: to the next one, if this one dies of it or does
// not answer in time. Once it returns, no other snapshot is in force anywhere. A refusal is
// dataplane.ErrRefused, and the last good one stays.
func (s *Supervisor) Apply(ctx context.Context) error {
	// Half an apply would leave two configs in force, so the caller's haste does not end it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), applyPatience+startPatience)
	defer cancel()
	for {
		if s.isDraining() {
			return errors.New("it is being stopped")
		}
		if g := s.generation(); g != nil {
			err := s.apply(ctx, g)
			if err == nil || errors.Is(err, dataplane.ErrRefused) || s.isDraining() {
				return err
			}
			if g.process.Exit() == "" {
				s.o.Log.Error("a data plane does not take a config and is killed",
					"generation", g.process.Generation, "error", err)
			}
			g.process.Kill() // its lanes are drained; the next one asks for the snapshot of then
			<-g.process.Done()
		}
		select {
		case <-ctx.Done():
			return errors.New("no data plane takes the new config; none accepts")
		case <-time.After(applyPause):
		}
	}
}

// watch replaces generations that die.
func (s *Supervisor) watch() {
	defer close(s.done)
	backoff := time.Duration(0)
	for {
		g := s.generation()
		if g != nil {
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
		ctx, cancel := context.WithCancel(context.Background())
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			select {
			case <-s.stop:
				cancel()
			case <-ctx.Done():
			}
		}()
		err := s.launch(ctx)
		cancel()
		<-stopped
		if err != nil {
			s.set(nil, err.Error())
			s.o.Log.Error("no data plane", "error", err)
		}
		backoff = min(max(2*backoff, 50*time.Millisecond), backoffMax)
	}
}

// bury forgets a dead generation.
func (s *Supervisor) bury(g *generation) {
	g.client.Close()
	s.set(nil, "the data plane ended: "+g.process.Exit())
	s.forget(g.process.Generation)
}

func (s *Supervisor) pause(d time.Duration) bool {
	select {
	case <-s.stop:
		return false
	case <-time.After(d):
		return true
	}
}

// Drain ends the data plane: it finishes what it took, for at most grace, and exits.
func (s *Supervisor) Drain(ctx context.Context, grace time.Duration) error {
	s.mu.Lock()
	s.draining = true
	g := s.current
	s.mu.Unlock()
	if g == nil {
		return nil
	}
	asked := g.client.Drain(ctx, grace)
	patience := time.NewTimer(grace + helloPatience)
	defer patience.Stop()
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
	return nil
}

// Stop ends the supervision; a data plane that runs goes on.
func (s *Supervisor) Stop() {
	close(s.stop)
	<-s.done
	s.fds.Close()
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

func (s *Supervisor) dp() string { return filepath.Join(s.o.Dir, "dp") }

func (s *Supervisor) path(number uint32, kind string) string {
	return filepath.Join(s.dp(), fmt.Sprintf("%d.%s", number, kind))
}

func laneIDs(hello *pb.HelloReply) [][]byte {
	ids := make([][]byte, len(hello.GetLanes()))
	for _, lane := range hello.GetLanes() {
		if int(lane.GetWorker()) < len(ids) {
			ids[lane.GetWorker()] = lane.GetId()
		}
	}
	return ids
}
