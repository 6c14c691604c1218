package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/store/index"
)

// operatePage is how many deliveries an operator's command moves at a time, those of its last event
// on top.
const operatePage = 2048

// RateMin is the least Replay.Rate, in deliveries a second.
const RateMin = 0.001

// Replay says how an operator wants deliveries made anew.
type Replay struct {
	// To is the one destination that gets them, whether the event ever went there or not; 0: where
	// they went.
	To uint32
	// Rate spreads them, in deliveries a second: the oldest is due now. 0: all are. At least
	// RateMin.
	Rate float64
	// By is who asks; it is recorded.
	By string
	// IDs picks these events out of those that the filter matches; nil: all.
	IDs []event.ID
}

// ReplayEvents makes new deliveries of all events that match, duplicates aside, oldest first: to
// the destinations they went to (Filter.Destination: to that one alone), or to Replay.To. What is
// pending is left as it is; what is being retried is due as if it were new. Filter.Limit counts
// events from the oldest; Filter.Before is not looked at. It tells how many deliveries there will
// be, when they are durable; they may be due much later.
func (s *Store) ReplayEvents(ctx context.Context, f Filter, r Replay) (int, error) {
	if f.State == event.Duplicate {
		return 0, errors.New("duplicates have no deliveries to replay")
	}
	pace, err := s.pace(&r)
	if err != nil {
		return 0, err
	}
	c := command{filter: f, ids: r.IDs}
	c.of = func(e *index.Record, _ *index.Delivery, give func(event.Outcome)) {
		if r.To != 0 {
			if d := e.Delivery(r.To); e.First.IsZero() && (d == nil || d.State != event.Pending) {
				give(pace.replay(e.Seq, r.To))
			}
			return
		}
		for i := range e.Deliveries {
			d := &e.Deliveries[i]
			if d.State != event.Pending && (f.Destination == 0 || f.Destination == d.Destination) {
				give(pace.replay(e.Seq, d.Destination))
			}
		}
	}
	return s.operate(ctx, &c)
}

// ReplayDead makes new deliveries of all dead letters that match, oldest event first. With
// Replay.To the dead letters stay what they are, and new deliveries go there, one for each event;
// one that is pending there is left as it is. Filter.Limit counts dead letters.
func (s *Store) ReplayDead(ctx context.Context, f Filter, r Replay) (int, error) {
	pace, err := s.pace(&r)
	if err != nil {
		return 0, err
	}
	c := command{filter: f, ids: r.IDs, dead: true}
	var last event.Seq
	c.of = func(e *index.Record, d *index.Delivery, give func(event.Outcome)) {
		if r.To == 0 {
			give(pace.replay(e.Seq, d.Destination))
			return
		}
		if to := e.Delivery(r.To); last != e.Seq && (to == nil || to.State != event.Pending) {
			give(pace.replay(e.Seq, r.To))
		}
		last = e.Seq
	}
	return s.operate(ctx, &c)
}

// DropDead gives up all dead letters that match. Their events stay dead, but are dead letters no
// more, and block nothing.
func (s *Store) DropDead(ctx context.Context, f Filter, reason, by string) (int, error) {
	c := command{filter: f, dead: true}
	c.of = func(e *index.Record, d *index.Delivery, give func(event.Outcome)) {
		give(s.command(event.Drop, e.Seq, d.Destination, reason, by))
	}
	return s.operate(ctx, &c)
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

// pace hands out the replays of one command, each due a step after the one before.
type pace struct {
	store *Store
	by    string
	due   time.Time
	step  time.Duration
}

func (s *Store) pace(r *Replay) (*pace, error) {
	p := &pace{store: s, by: r.By, due: s.opt.Now()}
	if r.Rate != 0 {
		if !(r.Rate >= RateMin) || math.IsInf(r.Rate, 1) {
			return nil, fmt.Errorf("replay at %g a second: want at least %g, or 0 for all at once",
				r.Rate, RateMin)
		}
		p.step = time.Duration(float64(time.Second) / r.Rate)
	}
	known := func(n event.Named) bool { return n.ID == r.To }
	if r.To != 0 && !slices.ContainsFunc(s.Catalogue().Destinations, known) {
		return nil, fmt.Errorf("replay to destination %d: there never was one", r.To)
	}
	return p, nil
}

func (p *pace) replay(seq event.Seq, dest uint32) event.Outcome {
	o := p.store.command(event.Replay, seq, dest, "", p.by)
	o.Next = p.due.UnixNano()
	p.due = p.due.Add(p.step)
	return o
}

// command is what an operator wants of all events or dead letters that match.
type command struct {
	filter Filter
	ids    []event.ID
	dead   bool
	// of gives what becomes of an event, or of a dead letter.
	of    func(e *index.Record, d *index.Delivery, give func(event.Outcome))
	taken int // of filter.Limit
}

// operate goes through what matches and was there when it began, a page at a time, oldest first, so
// that order under a key stays what it was. It waits for each page to be durable.
func (s *Store) operate(ctx context.Context, c *command) (done int, err error) {
	if c.ids == nil && !c.filter.ID.IsZero() {
		c.ids = []event.ID{c.filter.ID}
	}
	last := event.NewSeq(s.journal.Durable()+1, 0) - 1
	for after, more := event.Seq(0), true; more; {
		if err := s.seen(); err != nil {
			return done, err
		}
		var list []event.Outcome
		if list, after, more, err = s.operateOn(c, after, last); err != nil {
			return done, s.readFault(err)
		}
		if len(list) == 0 {
			continue
		}
		err := s.submit(ctx, func(t *ticket) { s.outbox.addOutcomes(list, t, true) })
		if err != nil {
			return done, fmt.Errorf("%d deliveries done, then: %w", done, err)
		}
		done += len(list)
	}
	return done, nil
}

// operateOn gives what becomes of a page of the events of (after, last], tells how far it came, and
// whether there is more.
func (s *Store) operateOn(c *command, after, last event.Seq) (list []event.Outcome, to event.Seq,
	more bool, err error) {
	f, to := &c.filter, after
	yield := func(r *index.Record, d *index.Delivery) bool {
		switch {
		case r.Seq != to && len(list) >= operatePage:
			more = true
			return false
		case f.Limit > 0 && c.taken == f.Limit:
			return false
		case d == nil && !f.matches(r), d != nil && !f.matchesDead(r, d), !s.toldBy(f, r):
			return true
		}
		to = r.Seq
		c.taken++
		c.of(r, d, func(o event.Outcome) { list = append(list, o) })
		return true
	}
	q := index.Query{After: after, Before: last + 1, Oldest: true}
	switch {
	case c.ids != nil:
		err = s.named(c, after, yield)
	case !s.narrow(f, &q):
	case c.dead:
		err = s.index.Dead(q, 0, yield)
	default:
		err = s.index.Events(q, func(r *index.Record) bool { return yield(r, nil) })
	}
	return list, to, more, err
}

// named calls yield with the events that a command names, or their dead letters.
func (s *Store) named(c *command, after event.Seq,
	yield func(*index.Record, *index.Delivery) bool) error {
	var found []*index.Record
	for _, id := range c.ids {
		r, err := s.index.Find(id)
		if err != nil {
			return err
		}
		if r != nil && r.Seq > after {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b *index.Record) int { return cmp.Compare(a.Seq, b.Seq) })
	found = slices.CompactFunc(found, func(a, b *index.Record) bool { return a.Seq == b.Seq })
	for _, r := range found {
		if !c.dead {
			if !yield(r, nil) {
				return nil
			}
			continue
		}
		for i := range r.Deliveries {
			if !yield(r, &r.Deliveries[i]) {
				return nil
			}
		}
	}
	return nil
}
