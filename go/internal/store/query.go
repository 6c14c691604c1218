package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/store/index"
)

// seen waits until every group that Append returned for is in the index's rows, so that whoever was
// told 2xx finds his event.
func (s *Store) seen() error {
	if s.closed.Load() {
		return ErrClosed
	}
	if err := s.waitApplied(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.commit(); err != nil {
		return s.fail(err)
	}
	return nil
}

// waitApplied waits until every group that Append returned for is applied.
func (s *Store) waitApplied() error {
	want := s.handoff.last()
	for {
		s.mu.Lock()
		moved := s.nextMove()
		s.mu.Unlock()
		if s.applied.Load() >= want {
			return nil
		}
		notify(s.handoff.hurry)
		select {
		case <-moved:
		case <-s.failed:
			return s.failure
		}
	}
}

// nextMove is closed when applied moves on. s.mu is held.
func (s *Store) nextMove() <-chan struct{} {
	if s.moved == nil {
		s.moved = make(chan struct{})
	}
	return s.moved
}

// Events lists events, newest first unless the filter says otherwise.
func (s *Store) Events(f Filter) (Page[Event], error) {
	var page Page[Event]
	if err := s.seen(); err != nil {
		return page, err
	}
	q := index.Query{Before: f.Before.Seq}
	if f.Oldest {
		q = index.Query{After: f.Before.Seq, Oldest: true}
	}
	err := s.listed(&f, q, func(r *index.Record) bool {
		e := s.event(r)
		if !f.told(&e) {
			return true
		}
		if f.Limit > 0 && len(page.Items) == f.Limit {
			page.Next = Cursor{Seq: page.Items[f.Limit-1].Seq}
			return false
		}
		page.Items = append(page.Items, e)
		return true
	})
	return page, s.readFault(err)
}

// listed calls yield with the events that match, but for what told looks at. q says between which
// places and in which order.
func (s *Store) listed(f *Filter, q index.Query, yield func(*index.Record) bool) error {
	if !f.ID.IsZero() {
		r, err := s.index.Find(f.ID)
		if r != nil && f.matches(r) {
			yield(r)
		}
		return err
	}
	if !s.narrow(f, &q) {
		return nil
	}
	return s.index.Events(q, func(r *index.Record) bool { return !f.matches(r) || yield(r) })
}

// narrow puts into a query what the index can look for. false: nothing can match.
func (s *Store) narrow(f *Filter, q *index.Query) bool {
	q.Source, q.Destination, q.State = f.Source, f.Destination, f.State
	q.Since, q.Until = nsOf(f.Since), nsOf(f.Until)
	if f.ProviderID != "" {
		q.SenderID = index.HashSenderID([]byte(f.ProviderID))
	}
	known := true
	if f.Type != "" {
		q.Type, known = s.index.FindType(f.Type)
	}
	return known
}

// readFault stops the store when the index is damaged; other faults are the reader's alone.
func (s *Store) readFault(err error) error {
	if errors.Is(err, index.ErrDamaged) {
		return s.fail(err)
	}
	return err
}

// told checks what matches does not: what the sender said, which takes a read.
func (f *Filter) told(e *Event) bool {
	return (f.ProviderID == "" || f.ProviderID == e.ProviderID) &&
		(f.Type == "" || f.Type == e.Type)
}

// matches checks all of a filter but for what the sender said.
func (f *Filter) matches(r *index.Record) bool {
	state := r.State()
	return (f.Source == 0 || f.Source == r.Source) &&
		(f.Destination == 0 || r.Delivery(f.Destination) != nil) &&
		(f.State == state || f.State == 0 && (state != event.Duplicate || f.ID == r.ID)) &&
		(f.Since.IsZero() || r.Received >= f.Since.UnixNano()) &&
		(f.Until.IsZero() || r.Received < f.Until.UnixNano()) &&
		(f.ID.IsZero() || f.ID == r.ID)
}

func nsOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func timeOf(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

func (s *Store) event(r *index.Record) Event {
	e := Event{
		Seq: r.Seq, ID: r.ID, Source: r.Source, Received: time.Unix(0, r.Received), Size: r.Size,
		Route: r.Route, State: r.State(), First: r.First, Type: s.index.TypeName(r.Type),
	}
	s.describe(r, func(id, kind []byte) {
		e.ProviderID = string(id)
		if r.Type == index.TypeOther {
			e.Type = string(kind)
		}
	})
	for i := range r.Deliveries {
		d := &r.Deliveries[i]
		state := DeliveryState{
			Destination: d.Destination, State: d.State, Attempts: d.Attempts, Code: d.Code,
			LastError: d.Err, At: timeOf(d.At), Dropped: d.Dropped,
			Blocked: d.Blocked && d.Living(), Blocks: d.Blocks && d.Letter(),
		}
		if d.State == event.Retrying || d.State == event.Pending {
			state.Next = timeOf(d.Next)
		}
		e.Destinations = append(e.Destinations, state)
	}
	return e
}

// describe reads the frame for what its sender said; one that is damaged says nothing.
func (s *Store) describe(r *index.Record, use func(id, kind []byte)) {
	if s.opt.Describe == nil {
		return
	}
	lease, err := s.journal.Read(r.Loc)
	if err != nil {
		s.opt.Log.Warn("event cannot be read for a listing", "id", r.ID, "err", err)
		return
	}
	defer lease.Release()
	s.opt.Describe(s.Catalogue().SourceName(r.Source), lease.Bytes, use)
}

// Event tells all about one event. ErrNotFound: there is none, or retention took it.
func (s *Store) Event(id event.ID) (Detail, error) {
	if err := s.seen(); err != nil {
		return Detail{}, err
	}
	r, err := s.index.Find(id)
	if err != nil {
		return Detail{}, s.readFault(err)
	}
	if r == nil {
		return Detail{}, fmt.Errorf("%w: %s", ErrNotFound, id)
	}
	detail := Detail{Event: s.event(r)}
	if detail.Attempts, err = s.attempts(r); err != nil {
		return Detail{}, s.readFault(err)
	}
	slices.SortStableFunc(detail.Attempts, func(a, b event.Outcome) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Destination, b.Destination))
	})
	return detail, nil
}

// attempts gives all that became of an event's deliveries. Those of one destination are in order.
func (s *Store) attempts(r *index.Record) ([]event.Outcome, error) {
	list, err := s.index.Attempts(r.Seq)
	for i := range r.Deliveries {
		if d := &r.Deliveries[i]; d.Plain {
			list = append(list, plainAttempt(r.Seq, d))
		}
	}
	return list, err
}

// history is attempts of an event, and the group up to which they are all.
func (s *Store) history(seq event.Seq) (asOf uint64, list []event.Outcome, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.index.Get(seq)
	if r == nil || err != nil {
		return 0, nil, s.readFault(err)
	}
	list, err = s.attempts(r)
	return s.committed, list, s.readFault(err)
}

// DeadLetters lists dead letters, the newest event's first. State is not looked at.
func (s *Store) DeadLetters(f Filter) (Page[DeadLetter], error) {
	var page Page[DeadLetter]
	if err := s.seen(); err != nil {
		return page, err
	}
	q := index.Query{Before: f.Before.Seq}
	if !s.narrow(&f, &q) {
		return page, nil
	}
	err := s.index.Dead(q, f.Before.Destination, func(r *index.Record, d *index.Delivery) bool {
		if !f.matchesDead(r, d) || !s.toldBy(&f, r) {
			return true
		}
		if f.Limit > 0 && len(page.Items) == f.Limit {
			last := page.Items[f.Limit-1]
			page.Next = Cursor{Seq: last.Seq, Destination: last.Destination}
			return false
		}
		page.Items = append(page.Items, DeadLetter{
			Seq: r.Seq, ID: r.ID, Source: r.Source, Destination: d.Destination,
			Attempts: d.Attempts, Code: d.Code, LastError: d.Err, At: timeOf(d.At),
			Blocks: d.Blocks,
		})
		return true
	})
	return page, s.readFault(err)
}

func (f *Filter) matchesDead(r *index.Record, d *index.Delivery) bool {
	return d.Letter() && (f.Source == 0 || f.Source == r.Source) &&
		(f.Destination == 0 || f.Destination == d.Destination) &&
		(f.Since.IsZero() || d.At >= f.Since.UnixNano()) &&
		(f.Until.IsZero() || d.At < f.Until.UnixNano()) &&
		(f.ID.IsZero() || f.ID == r.ID)
}

// toldBy is told, of a record.
func (s *Store) toldBy(f *Filter, r *index.Record) bool {
	if f.ProviderID == "" && f.Type == "" {
		return true
	}
	e := s.event(r)
	return f.told(&e)
}

// tailPage is how many events Tail reads at a time.
const tailPage = 256

// Tail gives the events that become durable from now on and match, oldest first, until ctx ends or
// the caller stops. Limit and Before are not looked at. An error is the last thing it gives.
func (s *Store) Tail(ctx context.Context, f Filter) iter.Seq2[Event, error] {
	after := event.NewSeq(s.journal.Durable()+1, 0) - 1
	return func(yield func(Event, error) bool) {
		for {
			s.mu.Lock()
			moved, last := s.nextMove(), event.NewSeq(s.applied.Load()+1, 0)-1
			err := s.commit()
			s.mu.Unlock()
			for err == nil && after < last {
				var page []Event
				if page, after, err = s.tailPage(f, after, last); err != nil {
					break
				}
				for _, e := range page {
					if !yield(e, nil) {
						return
					}
				}
			}
			if err == nil {
				select {
				case <-moved:
					continue
				case <-s.failed:
					err = s.failure
				case <-ctx.Done():
					return
				}
			}
			yield(Event{}, err)
			return
		}
	}
}

// tailPage reads up to tailPage events of (after, last] and tells how far it came.
func (s *Store) tailPage(f Filter, after, last event.Seq) (page []Event, to event.Seq, err error) {
	to = last
	err = s.index.Forwards(after, last, func(r *index.Record) bool {
		if len(page) == tailPage {
			to = page[tailPage-1].Seq
			return false
		}
		if f.matches(r) {
			if e := s.event(r); f.told(&e) {
				page = append(page, e)
			}
		}
		return true
	})
	return page, to, s.readFault(err)
}

// Stats looks at the whole store.
func (s *Store) Stats() Stats {
	space := s.Space()
	s.mu.Lock()
	defer s.mu.Unlock()
	meta := s.index.Meta()
	out := Stats{
		JournalBytes: space.UsedBytes, Events: meta.Counts.Events, Durable: s.journal.Durable(),
		Applied: meta.Applied, Flushed: s.flushed, Writable: space.Writable, Oldest: space.Oldest,
		Undelivered: s.undelivered(), DeadDropped: s.deadGone,
		KeysLeft: s.keysLeft.Load(),
		CPU: CPU{
			Committer: s.committer.Total(), Applier: time.Duration(s.applier.Load()),
			Engine: s.index.Background(),
		},
	}
	out.DedupMemory, out.DedupMemoryShort = s.index.FilterBytes()
	for id, n := range meta.Counts.Sources {
		out.Sources = append(out.Sources,
			SourceStats{Source: id, Accepted: n.Accepted, Duplicates: n.Duplicates})
	}
	slices.SortFunc(out.Sources, func(a, b SourceStats) int { return cmp.Compare(a.Source, b.Source) })
	for id, n := range meta.Counts.Destinations {
		q := s.queue(id)
		out.Destinations = append(out.Destinations, DestinationStats{
			Destination: id, Backlog: n.Backlog, Dead: n.Dead, Oldest: s.oldestWaiting(id),
			Leased: uint64(q.leased), Rate: q.ended.perSecond(s.opt.elapsed()),
		})
	}
	slices.SortFunc(out.Destinations, func(a, b DestinationStats) int {
		return cmp.Compare(a.Destination, b.Destination)
	})
	return out
}

// undelivered looks for the oldest event that must be kept, from where the last look found it. s.mu
// is held.
func (s *Store) undelivered() time.Time {
	if s.commit() != nil {
		return time.Time{} // the applier meets it as well, and tells everyone
	}
	r, err := s.index.FirstNeeded(s.needFrom)
	switch {
	case err != nil: // damage is told to whoever needs the row
		return time.Time{}
	case r == nil:
		s.needFrom = event.NewSeq(s.committed+1, 0)
		return time.Time{}
	}
	s.needFrom = r.Seq
	return timeOf(r.Received)
}

// oldestWaiting looks at what is in memory and at the first that was never tried. Of retries that
// are in the index alone it knows nothing; they are due later than those in memory.
func (s *Store) oldestWaiting(dest uint32) (oldest time.Time) {
	q := s.queue(dest)
	for _, e := range q.held {
		if oldest.IsZero() || e.Received.Before(oldest) {
			oldest = e.Received
		}
	}
	if !q.moreFresh {
		return oldest
	}
	r, err := s.index.FirstFresh(dest, q.freshFrom)
	if err == nil && r != nil {
		if at := time.Unix(0, r.Received); oldest.IsZero() || at.Before(oldest) {
			oldest = at
		}
	}
	return oldest
}
