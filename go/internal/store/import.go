package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/store/journal"
	"sluice/shm-abi/shmabi"
)

// ImportMax bounds the events of one Import, and ImportBytesMax their frames and outcomes, unless
// it is one. Whether an event is known takes a look through those of its chunk, which more would
// make large.
const (
	ImportMax      = 256
	ImportBytesMax = 4 << 20
)

// RouteImported is the route version of events that another host has routed: they go where their
// outcomes say, and nowhere without. No config has a route of that version.
const RouteImported = 0

var (
	// ErrFull says that the journal has no room: the operator's to mend, or time's.
	ErrFull = errors.New("the journal is full: nothing is taken in until events are delivered or " +
		"the disk is grown")
	// ErrImport is wrapped where an event to import is none: the caller's to mend.
	ErrImport = errors.New("no event to import")
)

// Imported is an event that another host took, and what became of it there.
type Imported struct {
	// Frame is whole, its C line final, with route RouteImported.
	Frame shmabi.Frame
	// Outcomes are applied in their order; a destination's first is a Replay, which makes its
	// delivery. Seq is not looked at.
	Outcomes []event.Outcome
}

// Bytes is what the event takes of ImportBytesMax.
func (i *Imported) Bytes() int {
	return len(i.Frame) + len(i.Outcomes)*(outcomeBytes+2*event.ErrMax)
}

// ImportResult counts events.
type ImportResult struct {
	Taken      int // durable now, Duplicates among them
	Known      int // of an ID that was here
	Duplicates int // they repeat an event that was here; what became of them elsewhere is dropped
}

// Import makes events durable as one group, in order, but for those whose ID is known: to import
// twice changes nothing. When it returns without an error they are applied as well. It waits for a
// committer whose own group must be written first.
func (s *Store) Import(ctx context.Context, list []Imported) (result ImportResult, err error) {
	s.importMu.Lock()
	defer s.importMu.Unlock()
	for i := range list {
		if c := list[i].Frame.C(); c.RouteVersion() != RouteImported || c.EventID() == (event.ID{}) {
			return result, fmt.Errorf("%w: event %d has route %d and id %x", ErrImport, i,
				c.RouteVersion(), c.EventID())
		}
	}
	return s.takeIn(ctx, list)
}

// takeIn makes those events durable whose ID is not known. importMu is held.
func (s *Store) takeIn(ctx context.Context, list []Imported) (result ImportResult, err error) {
	size := 0
	for i := range list {
		size += list[i].Bytes()
	}
	if len(list) > ImportMax || size > ImportBytesMax && len(list) > 1 {
		return result, fmt.Errorf("%w: %d events of %d bytes at once", ErrImport, len(list), size)
	}
	if s.Space().Full {
		return result, ErrFull
	}
	if err := s.seen(); err != nil {
		return result, err
	}
	fresh, err := s.unknown(list)
	result.Known = len(list) - len(fresh)
	if len(fresh) == 0 || err != nil {
		return result, s.readFault(err)
	}
	first, done, err := s.appendImported(ctx, fresh)
	if err != nil {
		return result, err
	}
	select {
	case <-done:
	case <-s.failed:
		return result, s.failure
	case <-ctx.Done():
		return result, ctx.Err()
	}
	result.Taken = len(fresh)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range fresh {
		r, err := s.index.Load(first + event.Seq(i))
		if err != nil {
			return result, s.readFault(err)
		}
		if r != nil && !r.First.IsZero() {
			result.Duplicates++
		}
	}
	return result, nil
}

// unknown gives the events whose ID no event has, each once.
func (s *Store) unknown(list []Imported) (fresh []Imported, err error) {
	ids := map[event.ID]bool{}
	for _, e := range list {
		id := event.ID(e.Frame.C().EventID())
		r, err := s.index.Find(id)
		if err != nil {
			return nil, err
		}
		if r == nil && !ids[id] {
			ids[id] = true
			fresh = append(fresh, e)
		}
	}
	return fresh, nil
}

// appendImported makes events durable, gives the place of the first, and what is closed when they
// are applied.
func (s *Store) appendImported(ctx context.Context, list []Imported) (first event.Seq,
	done <-chan struct{}, err error) {
	b := journal.Batch{}
	for i := range list {
		b.Frames = append(b.Frames, list[i].Frame)
	}
	for {
		if err := s.usable(); err != nil {
			return 0, nil, err
		}
		s.appendMu.Lock()
		if !s.owed.Load() {
			break
		}
		s.appendMu.Unlock()
		select {
		case <-ctx.Done():
			return 0, nil, ctx.Err()
		case <-time.After(submitAgain):
		}
	}
	defer s.appendMu.Unlock()
	first = event.NewSeq(s.journal.NextGroup(), 0)
	for i := range list {
		outcomes := slices.Clone(list[i].Outcomes)
		for n := range outcomes {
			outcomes[n].Seq = first + event.Seq(i)
		}
		b.Outcomes = append(b.Outcomes, outcomes...)
	}
	s.gather(b.Frames)
	g, err := s.journal.Append(&b)
	if err != nil {
		if errors.Is(err, ErrUnwritable) {
			s.failing.Store(true)
			s.tryOn()
		}
		return 0, nil, fmt.Errorf("append imported events: %w", err)
	}
	t := &ticket{done: make(chan struct{})}
	s.appended(g, []*ticket{t}, true)
	return first, t.done, nil
}

// tryOn has the names that are in force written again, by the committer until that succeeds. What
// failed is not kept, and nothing else might come that shows that the disk takes groups again.
func (s *Store) tryOn() {
	if text, err := json.Marshal(s.Catalogue()); err == nil {
		s.outbox.setCatalogue(text, &ticket{done: make(chan struct{})})
	}
}
