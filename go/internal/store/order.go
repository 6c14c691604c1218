package store

import (
	"fmt"

	"sluice/go/internal/event"
	"sluice/go/internal/store/index"
)

// Under one ordering key, and at one destination, deliveries go one behind the other. Those that
// have a place there (index.Delivery.Holds) are Blocked, all but one: the head. It stays the head
// while it lives. Then the first in journal order follows; if that is a dead letter which blocks,
// all wait until an operator replays it, which has it go first, or drops it.

// orderKey keeps equal keys of two sources apart.
func orderKey(r *index.Record) uint64 { return r.OrderKey ^ uint64(r.Source)*0x9e3779b97f4a7c15 }

// enterOrder gives a delivery that begins to live its place under its key. It goes before a dead
// letter of a later event, and, if overtake is set, before a living one as well: nothing may be
// leased then.
func (s *Store) enterOrder(r *index.Record, d *index.Delivery, overtake bool) error {
	first, some, err := s.index.FirstInOrder(d.Destination, orderKey(r))
	if err != nil {
		return err
	}
	d.Blocked = some
	s.index.AddOrder(d.Destination, orderKey(r), r.Seq)
	if !some || first <= r.Seq {
		return nil
	}
	later, other, err := s.inOrder(first, d.Destination)
	if err != nil || other.Blocked || other.Living() && !overtake {
		return err
	}
	d.Blocked, other.Blocked = false, true
	s.index.Change(later)
	s.queue(d.Destination).update(later, other, false)
	return nil
}

// reorder follows a delivery under an ordering key that began or ceased to live, or to hold its
// place. held tells whether it had one.
func (s *Store) reorder(r *index.Record, d *index.Delivery, held bool) error {
	holds := d.Holds()
	switch {
	case !held:
		return s.enterOrder(r, d, false)
	case !holds:
		s.index.RemoveOrder(d.Destination, orderKey(r), r.Seq)
	case d.Living():
		return nil // a dead letter that is replayed takes its own place
	}
	if d.Blocked {
		d.Blocked = holds
		return nil
	}
	first, some, err := s.index.FirstInOrder(d.Destination, orderKey(r))
	if !some || first == r.Seq || err != nil {
		return err
	}
	next, other, err := s.inOrder(first, d.Destination)
	if err != nil {
		return err
	}
	d.Blocked, other.Blocked = holds, false
	s.index.Change(next)
	s.queue(d.Destination).update(next, other, false)
	return nil
}

// inOrder loads a delivery that has a place under an ordering key.
func (s *Store) inOrder(seq event.Seq, dest uint32) (*index.Record, *index.Delivery, error) {
	r, err := s.index.Load(seq)
	if err != nil {
		return nil, nil, err
	}
	if r == nil || r.Delivery(dest) == nil {
		return nil, nil, fmt.Errorf("%w: event %d waits in order and is unknown", index.ErrDamaged,
			seq)
	}
	return r, r.Delivery(dest), nil
}
