package gaps

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"sluice/shm-abi/shmabi"
)

const (
	lookInterval = 100 * time.Millisecond
	gapPause     = 10 * time.Second // without a refusal: the next one begins another gap
	closeAfter   = time.Second      // a look after the last refusal; then the gap has all its ids
	gapsMax      = 4096
	idsMax       = 65_536
	idsPerGap    = 1024
)

// bounds are those of doc.go; tests have smaller ones.
type bounds struct{ gaps, ids, idsPerGap int }

// Disk keeps the ledger's file.
type Disk interface {
	// Read gives the file; nil: there is none.
	Read(limit int64) ([]byte, error)
	// Write replaces it, whole or not at all.
	Write([]byte) error
	// SetAside renames it by a suffix and gives its name then.
	SetAside(suffix string) (string, error)
}

// Counters are the words of one data plane, for reading.
type Counters interface {
	WorkerCount() int
	SourceCount() int
	Source(worker, slot int) shmabi.SourceCounters
	Refused(worker int, from uint64, each func(shmabi.Refused)) (next, lost uint64)
}

// Options of Open; Disk is required.
type Options struct {
	Disk Disk
	// Boot names this boot of the host; generations of another boot are others.
	Boot [16]byte
	Now  func() time.Time // nil: time.Now
	Log  *slog.Logger     // nil: slog.Default

	bounds bounds
}

// Ledger is the gaps of one daemon. Its methods may be called from any goroutine.
type Ledger struct {
	o Options

	mu     sync.Mutex
	gaps   []*gap // in the order in which they began
	coarse map[pair]*gap
	open   map[pair]*gap // the newest of each pair, which may grow
	ids    int           // in gaps
	planes map[uint32]*plane
	// changes counts what the file does not have until saved has caught up.
	changes, saved uint64

	// What follows is the saver's.
	failing bool      // the last save failed
	next    time.Time // it saves again not before that
	refresh time.Time // and then even without a change
}

// plane is how far the ledger has read one data plane.
type plane struct {
	Pid    uint32
	Looked time.Time
	Counts map[int]counts // by slot
	Next   []uint64       // of the ring of refusals, by worker

	counters Counters // nil: it is not read now
	name     func(slot int) (string, bool)
}

// counts are refusals by reason, in the order of reasons.
type counts [len(reasons)]uint64

// Plane is a data plane to read.
type Plane struct {
	Generation, Pid uint32
	Born            time.Time
	Counters        Counters
	// Name is the source of a slot; slots are source numbers less one.
	Name func(slot int) (string, bool)
}

// Attach begins to read a data plane: from where an earlier life had read it, else from its birth.
func (l *Ledger) Attach(p Plane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.planes[p.Generation]
	if known == nil || known.Pid != p.Pid {
		known = &plane{Pid: p.Pid, Looked: p.Born, Counts: map[int]counts{}}
		l.planes[p.Generation] = known
	}
	for len(known.Next) < p.Counters.WorkerCount() {
		known.Next = append(known.Next, 0)
	}
	known.counters, known.name = p.Counters, p.Name
}

// Detach reads a data plane a last time: its counters may be unmapped when this returns. One that
// is dead is forgotten; another one may be attached again.
func (l *Ledger) Detach(generation uint32, dead bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.planes[generation]
	if p == nil {
		return
	}
	if p.counters != nil {
		l.read(p, l.o.Now())
		l.bound()
	}
	p.counters = nil
	if dead {
		delete(l.planes, generation)
	}
}

// Forget forgets data planes of earlier lives that are not there any more.
func (l *Ledger) Forget(there func(generation uint32) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for generation, p := range l.planes {
		if p.counters == nil && !there(generation) {
			delete(l.planes, generation)
		}
	}
}

// Look takes in what the data planes refused since the last look.
func (l *Ledger) Look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.o.Now()
	for _, p := range l.planes {
		if p.counters != nil {
			l.read(p, now)
		}
	}
	l.bound()
}

// read takes in what one data plane refused. Ids are read before counts: a refusal that is counted
// and not named yet is named at the next look, while its gap is still open.
func (l *Ledger) read(p *plane, now time.Time) {
	around := spanOf(p.Looked, now)
	type named struct {
		pair
		id string
	}
	var names []named
	for worker := range p.counters.WorkerCount() {
		p.Next[worker], _ = p.counters.Refused(worker, p.Next[worker], func(r shmabi.Refused) {
			source, known := p.name(int(r.SourceID()) - 1)
			reason, is := reasonOf(r.Reason())
			id := r.ID()
			if length := int(r.Length()); known && is && 0 < length && length <= len(id) {
				names = append(names, named{pair{source, reason}, textOf(id[:length])})
			}
		})
	}
	for slot := range p.counters.SourceCount() {
		source, known := p.name(slot)
		if !known {
			continue
		}
		var sums counts
		for worker := range p.counters.WorkerCount() {
			words := p.counters.Source(worker, slot)
			for i := range reasons {
				sums[i] += reasons[i].read(words)
			}
		}
		before := p.Counts[slot]
		if sums == before {
			continue
		}
		p.Counts[slot] = sums
		for i := range reasons {
			if sums[i] > before[i] { // less is no count of ours
				l.grow(pair{source, reasons[i].name}, around, now, sums[i]-before[i])
			}
		}
	}
	for _, n := range names {
		l.ids += l.grow(n.pair, around, now, 0).name(n.id, l.o.bounds.idsPerGap)
	}
	p.Looked = now
}

// Run looks and saves until ctx ends, then does both a last time.
func (l *Ledger) Run(ctx context.Context) {
	var saving sync.WaitGroup
	saving.Go(func() { l.saveNowAndThen(ctx) })
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			l.Look()
		}
	}
	saving.Wait()
	l.Look()
	l.save(false)
}
