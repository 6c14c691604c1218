package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"sluice/go/internal/dataplane"
	pb "sluice/proto/sluice/v1"
)

// generation is one data plane, from hello to its death.
type generation struct {
	process *dataplane.Process
	client  *dataplane.Client
	hello   *pb.HelloReply
	born    time.Time
	sockets *Sockets      // that it has; nil: others than the config in force wants
	inodes  [][]uint64    // of its sockets, where it was handed over
	misfit  error         // why one that was handed over cannot go on
	bells   dataplane.Fds // without listeners
	// announced tells that Born was called.
	announced bool
	// replaced is closed when another one accepts in its place, buried when it is dead and laid to
	// rest.
	replaced, buried chan struct{}
}

func newGeneration(p *dataplane.Process, c *dataplane.Client, h *pb.HelloReply) *generation {
	return &generation{
		process: p, client: c, hello: h, born: time.Now(),
		replaced: make(chan struct{}), buried: make(chan struct{}),
	}
}

// ready tells whether it ever took a config.
func (g *generation) ready() bool { return g.hello.GetConfigVersion() > 0 }

// close gives up what this process has of it; it may live on.
func (g *generation) close() {
	if g.client != nil {
		g.client.Close()
	}
	g.bells.Close()
}

// number is that of the next generation.
func (s *Supervisor) number() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	return s.last
}

// launch starts a generation, waits until it accepts and makes it the current one. The caller may
// start one, and retires the one before, which it gives.
func (s *Supervisor) launch(ctx context.Context, o *outfit, number uint32, say func(string)) (
	before *generation, err error,
) {
	spec, workers := s.spec(o, number)
	bells, err := s.o.Bells(2 * workers)
	if err != nil {
		return nil, err
	}
	spec.RequestBells, spec.ReplyBells = bells[:workers:workers], bells[workers:]
	process, err := dataplane.Start(spec)
	spec.Fds.Listeners = nil
	if err != nil {
		spec.Fds.Close()
		return nil, err
	}
	g := newGeneration(process, nil, nil)
	g.bells, g.sockets = spec.Fds, o.sockets
	if g.client, err = dataplane.Dial(s.path(number, "sock")); err == nil {
		err = s.greet(ctx, g)
	}
	if err == nil {
		say(fmt.Sprintf("data plane %d takes the config", number))
		before, err = s.install(ctx, g)
	}
	if err != nil {
		g.process.Kill()
		<-g.process.Done()
		s.lay(g)
		return nil, fmt.Errorf("data plane %d: %w", number, err)
	}
	s.o.Log.Info("data plane accepts", "generation", number, "pid", process.Pid,
		"driver", g.hello.GetDriver())
	return before, nil
}

// spec is how a generation is started, but for its doorbells, which are its own.
func (s *Supervisor) spec(o *outfit, number uint32) (spec dataplane.Spec, workers int) {
	spec = dataplane.Spec{
		Program: o.program, Dir: s.o.Dir, JournalID: s.o.JournalID, Generation: number,
		Settings: o.settings, Fds: dataplane.Fds{Listeners: o.sockets.Rows},
	}
	if len(o.sockets.Rows) > 0 {
		workers = len(o.sockets.Rows[0])
	}
	return spec, workers
}

// greet says hello and serves the lanes, so that no frame waits for a server once it accepts.
func (s *Supervisor) greet(ctx context.Context, g *generation) error {
	ctx, cancel := g.whileAlive(ctx)
	defer cancel()
	var err error
	if g.hello, err = s.hello(ctx, g.client, startPatience); err == nil {
		err = s.o.Lanes.Serve(g.process.Generation, laneIDs(g.hello), g.bells)
	}
	return s.explain(g, err)
}

var errDied = errors.New("it died")

// install hands the snapshot over and makes the generation the current one, in the place of the one
// that it gives. A config that came into force meanwhile found the one before, so it is handed over
// here as well.
func (s *Supervisor) install(ctx context.Context, g *generation) (before *generation, err error) {
	ctx, cancel := g.whileAlive(ctx)
	defer cancel()
	s.announce(g)
	for {
		snapshot := s.o.Snapshot(g.sockets.Names)
		if err := s.explain(g, s.hand(ctx, g, snapshot)); err != nil {
			return nil, err
		}
		s.mu.Lock()
		switch {
		case s.draining:
			s.mu.Unlock()
			return nil, errors.New("it came too late: the last one was to end")
		case g.process.Exit() != "": // right after it accepted
			s.mu.Unlock()
			return nil, s.explain(g, errDied)
		case s.o.Snapshot(g.sockets.Names) != snapshot:
			s.mu.Unlock()
			continue
		}
		before = s.current
		s.current, s.problem = g, ""
		s.mu.Unlock()
		s.o.Newest(g.process.Generation)
		return before, nil
	}
}

// whileAlive ends a context with the process, so that nothing waits for the dead.
func (g *generation) whileAlive(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-g.process.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// explain puts the end of the process in the place of what it caused, since its socket closes
// first, with what it said about that.
func (s *Supervisor) explain(g *generation, err error) error {
	if err == nil || errors.Is(err, dataplane.ErrRefused) {
		return err
	}
	select {
	case <-g.process.Done():
		said := s.words(g.process.Generation)
		if said == "" {
			said = "what it said is in the log"
		}
		return fmt.Errorf("it ended before it was ready (%s): %s", g.process.Exit(), said)
	case <-time.After(exitPatience):
		return err
	}
}

// words are what a generation left that could not start.
func (s *Supervisor) words(number uint32) string {
	file, err := os.Open(s.path(number, "words"))
	if err != nil {
		return ""
	}
	defer file.Close()
	text, _ := io.ReadAll(io.LimitReader(file, wordsBytesMax)) // a part will do
	return strings.TrimSpace(strings.ToValidUTF8(string(text), ""))
}

func (s *Supervisor) hello(
	ctx context.Context, c *dataplane.Client, patience time.Duration,
) (*pb.HelloReply, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	hello, err := c.Hello(ctx, s.o.JournalID)
	if err != nil {
		return nil, fmt.Errorf("hello: %w", err)
	}
	return hello, nil
}

func (s *Supervisor) hand(ctx context.Context, g *generation, snapshot *pb.Snapshot) error {
	ctx, cancel := context.WithTimeout(ctx, applyPatience)
	defer cancel()
	return g.client.Apply(ctx, snapshot)
}

func (s *Supervisor) announce(g *generation) {
	g.announced = true
	s.o.Born(g.process.Generation, s.path(g.process.Generation, "counters"))
}

// retire tells a generation to end and buries it, in the background. It is killed where it takes
// too long.
func (s *Supervisor) retire(g *generation) {
	s.mu.Lock()
	s.elders = append(s.elders, g)
	s.mu.Unlock()
	close(g.replaced)
	s.leaving.Go(func() {
		if s.see(g) {
			s.lay(g)
		} else {
			g.close()
		}
	})
}

// see waits for the end of a generation; false: the next life meets it again.
func (s *Supervisor) see(g *generation) bool {
	drain := s.drain
	err := g.end(retireGrace)
	late := time.NewTimer(retireGrace + helloPatience)
	defer late.Stop()
	for {
		select {
		case <-g.process.Done():
			return true
		case <-s.stop:
			return false
		case <-drain: // a second call can only shorten the time left
			drain = nil
			s.mu.Lock()
			grace := min(s.grace, retireGrace)
			s.mu.Unlock()
			late.Reset(grace + helloPatience)
			err = g.end(grace)
		case <-late.C:
			s.o.Log.Error("a data plane did not end in time and is killed",
				"generation", g.process.Generation, "error", err)
			g.process.Kill()
			<-g.process.Done()
			return true
		}
	}
}

// end tells a generation to end.
func (g *generation) end(grace time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), helloPatience)
	defer cancel()
	return g.client.Drain(ctx, grace)
}

// lay gives up all that there is of a dead generation.
func (s *Supervisor) lay(g *generation) {
	g.close()
	if g.announced {
		s.o.Died(g.process.Generation)
	}
	s.forget(g.process.Generation)
	s.mu.Lock()
	s.elders = slices.DeleteFunc(s.elders, func(other *generation) bool { return other == g })
	s.mu.Unlock()
	close(g.buried)
}

// forget removes the files of a dead generation and has its lanes drained.
func (s *Supervisor) forget(number uint32) {
	s.o.Lanes.Orphaned(number)
	for _, kind := range []string{"sock", "fds", "counters", "words"} {
		if err := os.Remove(s.path(number, kind)); err != nil && !errors.Is(err, os.ErrNotExist) {
			s.o.Log.Warn("file of a dead data plane", "error", err)
		}
	}
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
