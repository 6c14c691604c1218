package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"sluice/go/internal/dataplane"
	"sluice/go/internal/event"
	"sluice/go/internal/ingest"
	"sluice/go/internal/lane"
)

// lanes ties the supervisor to intake: whose lane is served, and by which doorbells.
type lanes struct {
	dir    string
	owner  lane.Owner
	ingest *ingest.Service
	// durable is how far the journal reaches in each lane that it knew at the start.
	durable map[event.LaneID]uint64
	log     *slog.Logger
}

// errForeignLane keeps the daemon from starting: an acknowledged event may lie in such a file.
var errForeignLane = errors.New(
	"a lane of another version; start that version once to drain it, or move the file away")

// takeUp serves what a crash left, before any data plane is asked anything. ended are lanes that
// are known to be empty.
func (l *lanes) takeUp(ended map[event.LaneID]bool) error {
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return fmt.Errorf("look for lanes: %w", err)
	}
	for _, entry := range entries {
		path := filepath.Join(l.dir, entry.Name())
		if !isLaneName(entry.Name()) || !entry.Type().IsRegular() {
			if !isAside(entry.Name()) {
				l.log.Warn("a file among the lanes is none of ours and was left alone", "file", path)
			}
			continue
		}
		if err := l.takeUpOne(path, ended); err != nil {
			return err
		}
	}
	return nil
}

const asideSuffix = ".aside"

// isAside tells whether a file was set aside, by us or by intake.
func isAside(name string) bool {
	return strings.HasSuffix(name, asideSuffix) || strings.HasSuffix(name, ".retired")
}

func isLaneName(name string) bool {
	return len(name) == 32 && strings.Trim(name, "0123456789abcdef") == ""
}

func (l *lanes) takeUpOne(path string, ended map[event.LaneID]bool) error {
	found, err := lane.Attach(path, l.owner)
	switch {
	case errors.Is(err, lane.ErrUnfinished):
		return l.removeUnfinished(path)
	case errors.Is(err, lane.ErrOtherBoot):
		l.log.Warn("a lane of another boot was set aside: what was in it and not in the journal was "+
			"acknowledged at ring at most", "file", path)
		return os.Rename(path, path+asideSuffix)
	case errors.Is(err, lane.ErrForeign):
		return fmt.Errorf("%s: %w (%w)", path, errForeignLane, err)
	case errors.Is(err, lane.ErrCorrupt):
		return l.setAside(path, err)
	case err != nil:
		return err
	}
	if ended[found.ID()] {
		defer found.Close()
		return found.Unlink()
	}
	l.log.Info("took a lane up", "lane", fmt.Sprintf("%x", found.ID()),
		"generation", found.Generation(), "bytes", found.Used())
	err = l.ingest.Attach(found, ingest.Bells{}, l.durable[found.ID()])
	if errors.Is(err, lane.ErrCorrupt) {
		return l.setAside(path, err)
	}
	return err
}

// setAside keeps a lane that cannot be believed, for whoever looks into it. One such lane must not
// keep all senders out.
func (l *lanes) setAside(path string, why error) error {
	l.log.Error("a lane that cannot be believed was set aside: what was in it and not in the journal "+
		"was acknowledged at ring at most", "file", path+asideSuffix, "why", why)
	return os.Rename(path, path+asideSuffix)
}

// removeUnfinished removes a lane whose producer died before the magic: nobody was acknowledged by
// it, and its memory would be lost until the next boot. One that is just being born has its lock.
func (l *lanes) removeUnfinished(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("unfinished lane: %w", err)
	}
	defer file.Close()
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil // its producer lives
	}
	l.log.Info("a lane that was never finished was removed", "file", path)
	return os.Remove(path)
}

// Serve takes the lanes of a generation into service, or gives those that are served already their
// doorbells.
func (l *lanes) Serve(_ uint32, ids [][]byte, fds dataplane.Fds) error {
	if len(ids) != fds.Workers() {
		return fmt.Errorf("%d lanes where %d workers have doorbells", len(ids), fds.Workers())
	}
	for worker, raw := range ids {
		if len(raw) != len(event.LaneID{}) {
			return fmt.Errorf("worker %d has the lane %x, which is no name of one", worker, raw)
		}
		if err := l.serveOne(event.LaneID(raw), fds, worker); err != nil {
			return err
		}
	}
	return nil
}

func (l *lanes) serveOne(id event.LaneID, fds dataplane.Fds, worker int) error {
	bells, err := bellsOf(fds, worker)
	if err != nil {
		return err
	}
	if l.ingest.Equip(id, bells) {
		return nil
	}
	found, err := lane.Attach(filepath.Join(l.dir, fmt.Sprintf("%x", id)), l.owner)
	if err != nil {
		_, _ = bells.Wake.Close(), bells.Peer.Close() // nobody heard them yet
		return err
	}
	return l.ingest.Attach(found, bells, l.durable[id])
}

// bellsOf duplicates a worker's doorbells: the originals go on to the next generation.
func bellsOf(fds dataplane.Fds, worker int) (ingest.Bells, error) {
	wake, err := lane.DuplicateBell(fds.RequestBells[worker])
	if err != nil {
		return ingest.Bells{}, err
	}
	peer, err := lane.DuplicateBell(fds.ReplyBells[worker])
	if err != nil {
		_ = wake.Close() // nobody heard it yet
		return ingest.Bells{}, err
	}
	return ingest.Bells{Wake: wake, Peer: peer}, nil
}

// Orphaned has the lanes of a dead generation drained.
func (l *lanes) Orphaned(generation uint32) { l.ingest.Orphaned(generation) }

// Orphans counts dead generations with lanes that are not drained yet.
func (l *lanes) Orphans() int {
	dead := map[uint32]bool{}
	for _, lane := range l.ingest.Lanes() {
		if lane.Orphan {
			dead[lane.Generation] = true
		}
	}
	return len(dead)
}
