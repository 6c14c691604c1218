package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
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
	bells   dataplane.Fds // without listeners
	// announced tells that Born was called.
	announced bool
}

func newGeneration(p *dataplane.Process, c *dataplane.Client, h *pb.HelloReply) *generation {
	return &generation{process: p, client: c, hello: h, born: time.Now()}
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

// launch starts a generation and waits until it accepts.
func (s *Supervisor) launch(ctx context.Context) error {
	s.mu.Lock()
	s.last++
	number := s.last
	s.mu.Unlock()
	fds, err := s.equip()
	if err != nil {
		return err
	}
	process, err := dataplane.Start(dataplane.Spec{
		Binary: s.o.Binary, Dir: s.o.Dir, JournalID: s.o.JournalID, Generation: number,
		RingSize: s.o.RingSize, MaxConnections: s.o.MaxConnections, LockMemory: s.o.LockMemory,
		Fds: fds,
	})
	fds.Listeners = nil
	if err != nil {
		fds.Close()
		return err
	}
	g := newGeneration(process, nil, nil)
	g.bells = fds
	if g.client, err = dataplane.Dial(s.path(number, "sock")); err == nil {
		err = s.greet(ctx, g)
	}
	if err == nil {
		err = s.install(ctx, g)
	}
	if err != nil {
		g.process.Kill()
		<-g.process.Done()
		s.lay(g)
		return fmt.Errorf("data plane %d: %w", number, err)
	}
	s.o.Log.Info("data plane accepts", "generation", number, "pid", process.Pid,
		"driver", g.hello.GetDriver())
	return nil
}

// equip is what a new generation gets: the listening sockets, and doorbells of its own.
func (s *Supervisor) equip() (dataplane.Fds, error) {
	workers := 0
	if len(s.listeners) > 0 {
		workers = len(s.listeners[0])
	}
	fds := dataplane.Fds{Listeners: s.listeners}
	bells, err := s.o.Bells(2 * workers)
	if err != nil {
		return dataplane.Fds{}, err
	}
	fds.RequestBells, fds.ReplyBells = bells[:workers:workers], bells[workers:]
	return fds, nil
}

// greet says hello and serves the lanes, so that no frame waits for a server once it accepts.
func (s *Supervisor) greet(ctx context.Context, g *generation) error {
	ctx, cancel := g.whileAlive(ctx)
	defer cancel()
	var err error
	if g.hello, err = s.hello(ctx, g.client, startPatience); err == nil {
		err = s.o.Lanes.Serve(g.process.Generation, laneIDs(g.hello), g.bells)
	}
	return g.explain(err)
}

// install hands the snapshot over and makes the generation the current one. A config that came into
// force meanwhile found no data plane, so it is handed over here.
func (s *Supervisor) install(ctx context.Context, g *generation) error {
	ctx, cancel := g.whileAlive(ctx)
	defer cancel()
	s.announce(g)
	for {
		snapshot := s.o.Snapshot()
		if err := g.explain(s.hand(ctx, g, snapshot)); err != nil {
			return err
		}
		s.mu.Lock()
		switch {
		case s.draining:
			s.mu.Unlock()
			return errors.New("it came too late: the last one was to end")
		case s.o.Snapshot() == snapshot:
			s.current, s.problem = g, ""
			s.mu.Unlock()
			return nil
		}
		s.mu.Unlock()
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

// explain puts the end of the process in the place of what it caused: its socket closes first.
func (g *generation) explain(err error) error {
	if err == nil || errors.Is(err, dataplane.ErrRefused) {
		return err
	}
	select {
	case <-g.process.Done():
		return fmt.Errorf("it ended before it was ready (%s); its own words are above",
			g.process.Exit())
	case <-time.After(exitPatience):
		return err
	}
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

func (s *Supervisor) apply(ctx context.Context, g *generation) error {
	return s.hand(ctx, g, s.o.Snapshot())
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
	s.leaving.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), helloPatience)
		err := g.client.Drain(ctx, startPatience)
		cancel()
		late := time.NewTimer(startPatience + helloPatience)
		defer late.Stop()
		select {
		case <-g.process.Done():
		case <-s.stop: // the next life meets it again
			g.close()
			return
		case <-late.C:
			s.o.Log.Error("a data plane did not end in time and is killed",
				"generation", g.process.Generation, "error", err)
			g.process.Kill()
			<-g.process.Done()
		}
		s.lay(g)
	})
}

// bury lays the current generation to rest.
func (s *Supervisor) bury(g *generation) {
	s.set(nil, "the data plane ended: "+g.process.Exit())
	s.lay(g)
}

// lay gives up all that there is of a dead generation.
func (s *Supervisor) lay(g *generation) {
	g.close()
	if g.announced {
		s.o.Died(g.process.Generation)
	}
	s.forget(g.process.Generation)
}

// forget removes the files of a dead generation and has its lanes drained.
func (s *Supervisor) forget(number uint32) {
	s.o.Lanes.Orphaned(number)
	for _, kind := range []string{"sock", "fds", "counters"} {
		if err := os.Remove(s.path(number, kind)); err != nil && !errors.Is(err, os.ErrNotExist) {
			s.o.Log.Warn("file of a dead data plane", "error", err)
		}
	}
}

// release lets go of a generation that lives on.
func (s *Supervisor) release(g *generation) {
	if g != nil {
		g.close()
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
