package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"sluice/go/internal/event"
	"sluice/go/internal/store/index"
	"sluice/go/internal/store/journal"
)

// recalled is what a new index was told, before it followed the journal, of groups that are gone.
type recalled struct {
	// asOf is of the events that were copied forward: their outcomes of groups up to there count
	// already.
	asOf    map[event.Seq]uint64
	repeats map[event.Seq]event.ID
	horizon int64
	// orphans are outcomes of events that are damaged in their places. A copy that was on its way
	// when they became durable may come behind them. nil: the index is not new.
	orphans  map[event.Seq][]orphan
	orphaned int
	first    uint64 // group of the journal
}

// orphan is an outcome of a group.
type orphan struct {
	event.Outcome
	group uint64
}

// orphansMax bounds the outcomes that are kept for copies to come. Beyond it, deliveries of damaged
// events may be made again. Events that are whole have none.
const orphansMax = 16 << 10

// recall has a new index know of the groups that are gone what they decided, as far as they were
// carried forward. The groups that are left are read for that first, because what is carried
// forward lies behind what depends on it.
func (s *Store) recall(ctx context.Context) error {
	segments := s.journal.Segments()
	if len(segments) == 0 || segments[0].FirstGroup < 2 {
		return nil
	}
	first := segments[0].FirstGroup
	s.opt.Log.Info("index begins anew: what was carried forward of dropped segments is read first",
		"first_group", first)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recalled.asOf, s.recalled.repeats = map[event.Seq]uint64{}, map[event.Seq]event.ID{}
	err := s.journal.Replay(first, func(g *journal.Group) error {
		if err := s.recallGroup(g, first); err != nil {
			return err
		}
		if s.index.Pending() >= pendingMax {
			return s.commit()
		}
		return ctx.Err()
	})
	if err != nil {
		return fmt.Errorf("read what was carried forward: %w", err)
	}
	meta := s.index.Meta()
	meta.Horizon = max(meta.Horizon, s.recalled.horizon)
	return nil
}

// recallGroup takes what a group tells of groups before first.
func (s *Store) recallGroup(g *journal.Group, first uint64) error {
	clear(s.revived)
	for i := range g.Frames {
		f := &g.Frames[i]
		switch {
		case f.Damaged:
		case f.Rescued && f.Seq.Group() < first:
			if _, again := s.recalled.asOf[f.Seq]; again {
				continue
			}
			if err := s.applyEvent(f); err != nil {
				return fmt.Errorf("apply event %d: %w", f.Seq, err)
			}
			s.recalled.asOf[f.Seq] = f.AsOf
		case f.Kind == journal.KindCarried:
			if err := s.recallCarried(f, first); err != nil {
				return err
			}
		}
	}
	if len(s.revived) == 0 {
		return nil
	}
	outcomes, err := g.Outcomes()
	if err != nil {
		return nil // it is logged when the group is applied
	}
	return s.revive(outcomes)
}

// revive has what became of the events of this group that were known by nothing but their copies
// happen again: what came along with them first, then what became durable before they did.
func (s *Store) revive(outcomes []event.Outcome) error {
	if len(s.revived) == 0 {
		return nil
	}
	for i := range outcomes {
		o := &outcomes[i]
		if _, ok := s.revived[o.Seq]; !ok || !o.Copied {
			continue
		}
		if err := s.applyOutcome(o, 0); err != nil {
			return fmt.Errorf("apply outcome of %d: %w", o.Seq, err)
		}
	}
	var late []orphan
	for seq, asOf := range s.revived {
		for _, o := range s.recalled.orphans[seq] {
			if o.group > asOf { // it did not come along
				late = append(late, o)
			}
		}
		s.recalled.orphaned -= len(s.recalled.orphans[seq])
		delete(s.recalled.orphans, seq)
	}
	slices.SortStableFunc(late, func(a, b orphan) int { return cmp.Compare(a.group, b.group) })
	for i := range late {
		if err := s.applyOutcome(&late[i].Outcome, late[i].group); err != nil {
			return fmt.Errorf("apply outcome of %d: %w", late[i].Seq, err)
		}
	}
	return nil
}

// orphan keeps an outcome of an event that is not there.
func (s *Store) orphan(o *event.Outcome, group uint64) {
	r := &s.recalled
	if r.orphans == nil || o.Seq.Group() < r.first || r.orphaned >= orphansMax {
		return // retention took the event, most of all
	}
	r.orphaned++
	r.orphans[o.Seq] = append(r.orphans[o.Seq], orphan{*o, group})
}

func (s *Store) recallCarried(f *journal.Frame, first uint64) error {
	c, err := f.Carried()
	if err != nil {
		s.opt.Log.Error("what was carried forward is unreadable", "err", err)
		return nil
	}
	if c.Last < first { // or a crash came before the segment was dropped
		s.recalled.horizon = max(s.recalled.horizon, c.Horizon)
		for _, r := range c.Repeats {
			if r.Seq.Group() >= first {
				s.recalled.repeats[r.Seq] = r.First
			}
		}
	}
	meta := s.index.Meta()
	for i := range c.Keys {
		k := &c.Keys[i]
		if k.Seq.Group() >= first {
			continue // its event comes
		}
		meta.Window = max(meta.Window, k.Until-k.First.Time().UnixNano())
		err := s.index.RestoreDedup(index.Dedup{
			Source: k.Source, Key: k.Key, First: k.First, Seq: k.Seq, Until: k.Until,
		})
		if err != nil {
			return err
		}
	}
	return nil
}
