package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/store/journal"
	"sluice/shm-abi/shmabi"
)

// BatchBytesMax is how much Batch.Frames may hold, unless it is one frame: what is left of a group
// is for outcomes and the like.
const BatchBytesMax = journal.GroupBytesMax - ownBytesMax

// Work is signalled when something queued wants an Append although no lane has frames.
func (s *Store) Work() <-chan struct{} { return s.outbox.work }

// Append makes a batch durable as one group, and what is queued (outcomes, a catalogue, ends of
// lanes) along with it. An empty batch with nothing queued does nothing. When it returns nil, the
// group survives power loss. After an error that wraps ErrUnwritable nothing of the batch is
// durable: append the same batch again later, with backoff; the group goes to a fresh segment.
// Frames that Lay has not copied yet are copied first.
func (s *Store) Append(b Batch) error {
	if err := s.usable(); err != nil {
		return err
	}
	s.appendMu.Lock()
	defer s.appendMu.Unlock()
	began := s.committer.Begin()
	defer s.committer.End(began)
	return s.append(b)
}

// usable tells why nothing may be appended; nil: it may.
func (s *Store) usable() error {
	switch {
	case s.closed.Load():
		return ErrClosed
	case s.Err() != nil:
		return s.Err()
	case !s.settled.Load():
		return ErrNotSettled
	}
	return nil
}

// ErrUnwritable is wrapped when a group reached no segment: the disk's fault.
var ErrUnwritable = journal.ErrUnwritable

func (s *Store) append(b Batch) error {
	l := b.laid
	if l == nil {
		l = &s.own
		defer l.drop()
	}
	if err := l.lay(b.Frames); err != nil {
		return fmt.Errorf("append group: %w", err)
	}
	low := s.underFloor()
	p := s.pack(l, low)
	if len(b.Spans) == 0 && len(b.Frames) == 0 && p.empty() {
		return nil
	}
	g, err := s.journal.Append(&journal.Batch{
		Spans: b.Spans, Draft: l.draft, Outcomes: append(p.outcomes, p.history...),
		Config: p.config(), LaneEnds: p.ends, Rescues: p.rescues, Carried: p.carried, LowSpace: low,
	})
	if err != nil {
		s.failing.Store(errors.Is(err, ErrUnwritable))
		s.owed.Store(len(b.Spans) > 0 || len(b.Frames) > 0)
		return fmt.Errorf("append group: %w", err)
	}
	s.owed.Store(false)
	tickets := s.outbox.sent(p)
	urgent := l.waiting || len(tickets) > 0
	s.fresh = l.handOver(s.fresh)
	s.appended(g, tickets, urgent)
	return nil
}

// appended hands a durable group on. urgent tells that somebody waits for what comes of it.
func (s *Store) appended(g *journal.Group, tickets []*ticket, urgent bool) {
	s.failing.Store(false)
	s.recent.addAll(s.fresh)
	s.handoff.put(item{group: g, tickets: tickets}, urgent)
	if g.Segment != s.segment {
		s.segment = g.Segment
		s.space.forget()
		notify(s.rolled)
	}
}

// pack takes from the outbox what has room beside the frames.
func (s *Store) pack(l *layout, low bool) parcel {
	room := journal.GroupBytesMax - 4*shmabi.FrameHeader - int(l.draft.Bytes())
	if low {
		s.deferRetries()
	} else {
		s.sendDeferred()
	}
	return s.outbox.take(min(room, ownBytesMax), l.frames > 0)
}

// gather takes from frames that are appended without a batch what the memory set wants.
func (s *Store) gather(frames [][]byte) { s.fresh, _ = keysOf(s.fresh[:0], frames) }

// Idle writes an idle mark if the last group is a second old; the committer calls it once a second
// while nothing comes. A mark proves the group before it.
func (s *Store) Idle() error {
	if s.closed.Load() {
		return ErrClosed
	}
	if !s.settled.Load() {
		return ErrNotSettled
	}
	s.appendMu.Lock()
	defer s.appendMu.Unlock()
	if _, err := s.journal.Idle(); err != nil {
		s.failing.Store(errors.Is(err, journal.ErrUnwritable))
		return fmt.Errorf("write idle mark: %w", err)
	}
	return nil
}

// appendOwn writes what is queued without waiting for the committer. While a batch of the
// committer's waits to be written again, nothing may come before it: then it does nothing.
func (s *Store) appendOwn() error {
	if s.owed.Load() {
		return nil
	}
	return s.Append(Batch{})
}

// catalogueMax bounds the JSON of a catalogue.
const catalogueMax = 2 << 20

// PutCatalogue makes a catalogue durable and in force for the frames of later groups. It needs no
// committer to be running, but it needs Settle.
func (s *Store) PutCatalogue(ctx context.Context, c event.Catalogue) error {
	text, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode catalogue: %w", err)
	}
	if len(text) > catalogueMax {
		return fmt.Errorf("catalogue of %d bytes is over %d", len(text), catalogueMax)
	}
	return s.submit(ctx, func(t *ticket) { s.outbox.setCatalogue(text, t) })
}

// EndLane makes the end of a lane durable: its file may be unlinked then.
func (s *Store) EndLane(ctx context.Context, lane event.LaneID) error {
	return s.submit(ctx, func(t *ticket) { s.outbox.addEnd(lane, t) })
}

// submitAgain is how long submit waits before it tries to write by itself once more.
const submitAgain = 200 * time.Millisecond

// submit queues things and waits until they are durable and applied.
func (s *Store) submit(ctx context.Context, queue func(*ticket)) error {
	if s.closed.Load() {
		return ErrClosed
	}
	if !s.settled.Load() {
		return ErrNotSettled
	}
	t := &ticket{done: make(chan struct{})}
	queue(t)
	for {
		if err := s.appendOwn(); err != nil && !errors.Is(err, ErrUnwritable) {
			return err
		}
		select {
		case <-t.done:
			return nil
		case <-s.failed:
			return s.failure
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(submitAgain):
		}
	}
}
