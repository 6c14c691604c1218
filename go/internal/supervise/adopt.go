package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

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

// meetAll deals with the data planes that an earlier life left: the newest that is ready is the
// candidate for going on, older ones and those that drain are retired, silent ones and those that
// were never ready are killed. All their listening sockets are kept, whoever they come from: as
// long as somebody has them, no connection is refused.
func (s *Supervisor) meetAll(ctx context.Context, found []uint32) (candidate *generation) {
	var own, others [][]*os.File
	for _, number := range slices.Backward(found) {
		g, err := s.meet(ctx, number)
		if err != nil {
			s.end(number, err)
			continue
		}
		if !g.ready() {
			rows, err := s.takeFds(g)
			if err != nil {
				s.o.Log.Warn("a data plane that was never ready", "error", err)
			}
			others = append(others, rows...)
			g.close()
			s.end(number, errors.New("it was never ready"))
			continue
		}
		rows, err := s.take(g)
		if g.hello.GetDraining() || candidate != nil {
			others = append(others, rows...)
			s.retire(g)
			continue
		}
		candidate, own = g, rows
		candidate.misfit = err
	}
	s.use(outfit{s.outfit.program, s.outfit.settings, nil, append(own, others...)})
	return candidate
}

// adopt makes a data plane of an earlier life the current one, if it has what it would be started
// with now and takes the config.
func (s *Supervisor) adopt(ctx context.Context, g *generation) bool {
	spec, workers := s.spec(&s.outfit, g.process.Generation)
	spec.RequestBells = make([]*os.File, workers) // they count
	err := g.misfit
	switch {
	case err != nil:
	case !dataplane.RunsAs(g.process.Pid, spec):
		err = errors.New("it was started with other settings than the config has now")
	case !slices.EqualFunc(g.inodes, inodesOf(s.outfit.sockets.Rows), slices.Equal):
		err = errors.New("it has other listening sockets than the config wants now")
	default:
		g.sockets = s.outfit.sockets
		err = s.hand(ctx, g, s.o.Snapshot(g.sockets.Names))
	}
	if err != nil {
		s.o.Log.Warn("the data plane of an earlier life cannot be taken over as it is: another one is "+
			"started", "generation", g.process.Generation, "why", err)
		g.sockets = nil
		return false
	}
	s.set(g, "")
	s.o.Newest(g.process.Generation)
	s.o.Log.Info("took the living data plane over",
		"generation", g.process.Generation, "pid", g.process.Pid)
	return true
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

// take puts a generation into service: its doorbells, its lanes, its counters. It gives its
// listening sockets.
func (s *Supervisor) take(g *generation) (rows [][]*os.File, err error) {
	s.announce(g)
	if rows, err = s.takeFds(g); err == nil {
		err = s.o.Lanes.Serve(g.process.Generation, laneIDs(g.hello), g.bells)
	}
	return rows, err
}

// takeFds takes duplicates of its descriptors over, and gives the listening sockets.
func (s *Supervisor) takeFds(g *generation) (rows [][]*os.File, err error) {
	fds, err := dataplane.TakeFds(s.path(g.process.Generation, "fds"), fdsPatience)
	if err != nil {
		return nil, err
	}
	rows, fds.Listeners = fds.Listeners, nil
	g.bells, g.inodes = fds, inodesOf(rows)
	return rows, nil
}

// inodesOf names sockets; a duplicate has the same name.
func inodesOf(rows [][]*os.File) [][]uint64 {
	names := make([][]uint64, len(rows))
	for i, row := range rows {
		for _, file := range row {
			var st unix.Stat_t
			_ = unix.Fstat(int(file.Fd()), &st) // 0 is the name of none
			names[i] = append(names[i], st.Ino)
		}
	}
	return names
}

// end makes sure that a generation that does not answer is dead. Nothing but that data plane is
// ever killed, whatever its counters file says.
func (s *Supervisor) end(number uint32, why error) {
	pid := pidOf(s.path(number, "counters"))
	p, err := dataplane.Watch(pid, s.o.JournalID, number)
	if err == nil {
		s.o.Log.Error("a data plane is of no use any more and is killed",
			"generation", number, "pid", p.Pid, "why", why)
		p.Kill()
		<-p.Done()
	} else {
		dataplane.Reap(pid) // it died between two programs of our pid
	}
	s.forget(number)
}
