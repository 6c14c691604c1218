package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"sluice/go/internal/dataplane"
)

// survey lists the generations that left files, oldest first.
func (s *Supervisor) survey() ([]uint32, error) {
	entries, err := os.ReadDir(s.dp())
	if err != nil {
		return nil, fmt.Errorf("look for data planes: %w", err)
	}
	var found []uint32
	for _, entry := range entries {
		number, _, ok := strings.Cut(entry.Name(), ".")
		n, err := strconv.ParseUint(number, 10, 32)
		if !ok || err != nil {
			s.o.Log.Warn("a file that is none of ours was left alone", "file", entry.Name())
			continue
		}
		found = append(found, uint32(n))
	}
	slices.Sort(found)
	found = slices.Compact(found)
	if len(found) > 0 {
		s.last = found[len(found)-1]
	}
	return found, nil
}

// adopt deals with the data planes that an earlier life left: the newest that is ready and takes
// our config becomes the current one, older ones are drained, silent ones and those that were never
// ready are killed. The one it gives, if any, is ready and did not become current: it must be
// retired when another one serves.
func (s *Supervisor) adopt(ctx context.Context, found []uint32) (fallback *generation) {
	for _, number := range slices.Backward(found) {
		g, err := s.meet(ctx, number)
		switch {
		case err != nil:
			s.end(number, err)
			continue
		case !g.ready():
			if err := s.takeFds(g); err != nil {
				s.o.Log.Warn("a data plane that was never ready", "error", err)
			}
			g.close()
			s.end(number, errors.New("it was never ready"))
			continue
		}
		served := s.take(g)
		switch {
		case g.hello.GetDraining() || s.generation() != nil || fallback != nil:
			s.retire(g)
			continue
		case served == nil:
			served = s.apply(ctx, g)
		}
		if served != nil {
			s.o.Log.Error("the data plane of an earlier life cannot be taken over as it is",
				"generation", number, "error", served)
			fallback = g
			continue
		}
		s.set(g, "")
		s.o.Log.Info("took the living data plane over",
			"generation", number, "pid", g.process.Pid)
	}
	return fallback
}

// meet says hello to a generation; an error means that it is dead, or as good as that.
func (s *Supervisor) meet(ctx context.Context, number uint32) (*generation, error) {
	pid := pidOf(s.path(number, "counters"))
	if pid > 0 && !dataplane.IsDataPlane(pid, s.o.JournalID, number) {
		return nil, errors.New("it is dead") // and senders wait for the next one
	}
	client, err := dataplane.Dial(s.path(number, "sock"))
	if err != nil {
		return nil, err
	}
	hello, err := s.hello(ctx, client, helloPatience)
	if err != nil {
		client.Close()
		return nil, err
	}
	process, err := dataplane.Watch(int(hello.GetPid()), s.o.JournalID, number)
	if err != nil {
		client.Close()
		return nil, err
	}
	return newGeneration(process, client, hello), nil
}

// take puts a generation into service: its doorbells, its lanes, its counters.
func (s *Supervisor) take(g *generation) error {
	s.announce(g)
	if err := s.takeFds(g); err != nil {
		return err
	}
	return s.o.Lanes.Serve(g.process.Generation, laneIDs(g.hello), g.bells)
}

// takeFds takes duplicates of its descriptors over. The first listening sockets are kept, whoever
// they come from: as long as somebody has them, no connection is refused.
func (s *Supervisor) takeFds(g *generation) error {
	fds, err := dataplane.TakeFds(s.path(g.process.Generation, "fds"), fdsPatience)
	if err != nil {
		return err
	}
	listeners := fds.Listeners
	fds.Listeners = nil
	g.bells = fds
	if s.listeners == nil {
		s.listeners = listeners
	} else {
		dataplane.Fds{Listeners: listeners}.Close()
	}
	return nil
}

// end makes sure that a generation that does not answer is dead. Nothing but that data plane is
// ever killed, whatever its counters file says.
func (s *Supervisor) end(number uint32, why error) {
	p, err := dataplane.Watch(pidOf(s.path(number, "counters")), s.o.JournalID, number)
	if err == nil {
		s.o.Log.Error("a data plane is of no use any more and is killed",
			"generation", number, "pid", p.Pid, "why", why)
		p.Kill()
		<-p.Done()
	}
	s.forget(number)
}
