package store

import (
	"context"
	"errors"
	"fmt"

	"sluice/go/internal/event"
	"sluice/go/internal/store/index"
)

// operatePage is how many deliveries an operator's command moves at a time.
const operatePage = 2048

func isDamage(err error) bool { return errors.Is(err, index.ErrDamaged) }

// ReplayEvents makes new deliveries of all events that match, duplicates aside, to the destinations
// they went to (Filter.Destination: to that one alone). What is pending is left as it is; what is
// being retried is due at once. It tells how many deliveries there will be, when they are durable.
func (s *Store) ReplayEvents(ctx context.Context, f Filter, by string) (int, error) {
	if f.State == event.Duplicate {
		return 0, errors.New("duplicates have no deliveries to replay")
	}
	return s.operate(ctx, f.Limit, func(limit int, before Cursor) (list []event.Outcome,
		next Cursor, err error) {
		g := f
		g.Limit, g.Before = limit, before
		page, err := s.Events(g)
		for _, e := range page.Items {
			for _, d := range e.Destinations {
				if d.State == event.Pending || f.Destination != 0 && f.Destination != d.Destination {
					continue
				}
				list = append(list, s.command(event.Replay, e.Seq, d.Destination, "", by))
			}
		}
		return list, page.Next, err
	})
}

// ReplayDead makes new deliveries of all dead letters that match.
func (s *Store) ReplayDead(ctx context.Context, f Filter, by string) (int, error) {
	return s.operateDead(ctx, f, event.Replay, "", by)
}

// DropDead gives up all dead letters that match. Their events stay dead, but are dead letters no
// more.
func (s *Store) DropDead(ctx context.Context, f Filter, reason, by string) (int, error) {
	return s.operateDead(ctx, f, event.Drop, reason, by)
}

func (s *Store) operateDead(ctx context.Context, f Filter, kind event.OutcomeKind, reason,
	by string) (int, error) {
	return s.operate(ctx, f.Limit, func(limit int, before Cursor) (list []event.Outcome,
		next Cursor, err error) {
		g := f
		g.Limit, g.Before = limit, before
		page, err := s.DeadLetters(g)
		for _, d := range page.Items {
			list = append(list, s.command(kind, d.Seq, d.Destination, reason, by))
		}
		return list, page.Next, err
	})
}

func (s *Store) command(kind event.OutcomeKind, seq event.Seq, dest uint32, reason,
	by string) event.Outcome {
	now := s.opt.Now().UnixNano()
	o := event.Outcome{
		Seq: seq, Destination: dest, Kind: kind, At: now,
		Err: reason[:min(len(reason), event.ErrMax)], By: by[:min(len(by), event.ErrMax)],
	}
	if kind == event.Replay {
		o.Next = now
	}
	return o
}

// operate walks through what matches, a page at a time, and waits for each to be durable.
func (s *Store) operate(ctx context.Context, limit int,
	read func(limit int, before Cursor) ([]event.Outcome, Cursor, error)) (done int, err error) {
	var at Cursor
	for taken := 0; ; {
		size := operatePage
		if limit > 0 {
			size = min(size, limit-taken)
		}
		list, next, err := read(size, at)
		if err != nil {
			return done, err
		}
		if len(list) > 0 {
			err := s.submit(ctx, func(t *ticket) { s.outbox.addOutcomes(list, t) })
			if err != nil {
				return done, fmt.Errorf("%d deliveries done, then: %w", done, err)
			}
			done += len(list)
		}
		taken += size
		if at = next; at == (Cursor{}) || limit > 0 && taken >= limit {
			return done, nil
		}
	}
}
