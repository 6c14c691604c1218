package daemon

import (
	"math"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	"sluice/go/internal/lane"
	"sluice/go/internal/store/vfs"
	pb "sluice/proto/sluice/v1"
	"sluice/shm-abi/shmabi"
)

// standing is how sources stand with their senders: refusals in a row, which a data plane counts
// and which must outlive it, since the sender goes on counting.
//
// The youngest data plane is the one that knows: each was told by its snapshot what the one before
// it had counted.
type standing struct {
	mu      sync.Mutex
	living  []uint32       // generations
	refused map[int]uint32 // by slot, of the youngest that died or has a successor; 0 is not kept
	changes uint64

	// The snapshots that were handed out, by the rows of sockets of who got it. Each stays the same
	// one while nothing changes: a data plane that has it is not given it again.
	of        *plan
	at        uint64
	snapshots map[string]*pb.Snapshot

	file  *vfs.Whole
	saved map[int]uint32 // what the file says
}

// born takes a new data plane up; before is the youngest that lives beside it, or nil.
func (s *standing) born(generation uint32, before *lane.Counters) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before != nil && s.isYoungest(generation) {
		s.keep(before)
	}
	s.living = append(s.living, generation)
}

// died keeps what a data plane had counted, if nobody knows better.
func (s *standing) died(generation uint32, last *lane.Counters) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.living = slices.DeleteFunc(s.living, func(g uint32) bool { return g == generation })
	if s.isYoungest(generation) {
		s.keep(last)
	}
}

// isYoungest tells that none of the living is younger.
func (s *standing) isYoungest(generation uint32) bool {
	return len(s.living) == 0 || generation > slices.Max(s.living)
}

// keep takes a data plane's counts over.
func (s *standing) keep(from *lane.Counters) {
	s.changes++
	if s.refused == nil {
		s.refused = make(map[int]uint32)
	}
	takeOver(s.refused, from)
}

// takeOver puts a data plane's counts over others. Where it has neither a success nor a refusal it
// never was in service, and the others stay.
func takeOver(refused map[int]uint32, from *lane.Counters) {
	for slot := range from.SourceCount() {
		state := from.State(slot)
		switch n := state.RefusedInRow(); {
		case n > 0:
			refused[slot] = uint32(min(n, math.MaxUint32))
		case state.LastSuccessNS() > 0:
			delete(refused, slot)
		}
	}
}

// left takes over what a data plane had counted that died while nobody looked.
func (s *standing) left(last *lane.Counters) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep(last)
}

// fill is a plan's snapshot for a data plane with these rows of sockets, with what was counted
// before.
func (s *standing) fill(of *plan, rows []string) *pb.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of != of || s.at != s.changes {
		s.of, s.at, s.snapshots = of, s.changes, map[string]*pb.Snapshot{}
	}
	key := strings.Join(rows, "\n")
	if known := s.snapshots[key]; known != nil {
		return known
	}
	snapshot := spread(of.snapshot, of.config, rows)
	if len(s.refused) > 0 {
		if snapshot == of.snapshot {
			snapshot = proto.CloneOf(snapshot)
		}
		for _, source := range snapshot.Sources {
			source.RefusedInRow = s.refused[int(source.Slot)]
		}
	}
	s.snapshots[key] = snapshot
	return snapshot
}

// stands is how a source stands now.
type stands struct {
	refusedInRow uint64
	guarded      bool
}

// standsNow asks the youngest data plane, and without one what the last had counted.
func (d *Daemon) standsNow(id uint32) stands {
	slot := int(id) - 1
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.youngest(); c != nil && slot >= 0 && slot < c.SourceCount() {
		state := c.State(slot)
		return stands{state.RefusedInRow(), state.Guarded() != 0}
	}
	d.standing.mu.Lock()
	defer d.standing.mu.Unlock()
	return stands{refusedInRow: uint64(d.standing.refused[slot])}
}

// youngest is the counters of the youngest living data plane, or nil; the caller holds the lock.
func (d *Daemon) youngest() *lane.Counters {
	var found *lane.Counters
	highest := uint32(0)
	for generation, c := range d.counters {
		if found == nil || generation > highest {
			found, highest = c, generation
		}
	}
	return found
}

// overloaded has a bit for each class that some living data plane calls overloaded.
func (d *Daemon) overloaded() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	bits := uint64(0)
	for _, c := range d.counters {
		bits |= c.Overloaded()
	}
	return bits & (1<<shmabi.Classes - 1)
}
