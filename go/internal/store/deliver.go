package store

import (
	"errors"
	"fmt"
	"math"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/store/journal"
	"sluice/shm-abi/shmabi"
)

// Lease hands out up to max deliveries of a destination that are due, the oldest event first (of
// those in memory), at most one per ordering key. Each is the caller's until Finish, Unlease, or
// the end of its lease. Fewer than max: no other is due.
func (s *Store) Lease(destination uint32, max int, now time.Time) (list []Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed.Load() || s.Err() != nil {
		return nil
	}
	q, at, elapsed := s.queue(destination), now.UnixNano(), s.opt.elapsed()
	if n := q.expire(elapsed); n > 0 {
		s.opt.Log.Warn("leases ended without an outcome; their deliveries are made again",
			"destination", destination, "deliveries", n)
	}
	q.promote(at)
	expires, ends := now.Add(s.opt.LeaseTTL), elapsed+s.opt.LeaseTTL
	for {
		refill := q.wantsRefill(at)
		if refill {
			if err := s.refill(q, at); err != nil {
				_ = s.fail(err) // it is logged and told to everyone there
				return nil
			}
		}
		list = q.lease(list, max, expires, ends)
		if len(list) == max || !refill && !q.wantsRefill(at) {
			return list
		}
	}
}

// refill fetches deliveries from the index into a queue. To commit what is pending takes ten times
// as long, and everybody waits: in the middle of a backlog it is not needed.
func (s *Store) refill(q *queue, now int64) error {
	if !q.wantsTimed(now) {
		s.index.Hold()
		taken, err := q.refillFresh(s.index)
		s.index.Release()
		if taken || err != nil {
			return err
		}
	}
	if err := s.commit(); err != nil {
		return err
	}
	s.index.Hold()
	defer s.index.Release()
	return q.refill(s.index, now)
}

// Due is signalled when Lease may give more for a destination than it did.
func (s *Store) Due(destination uint32) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue(destination).due
}

// NextDue is when Lease may next give something without a signal of Due; a time that is over means
// now. false: nothing waits.
func (s *Store) NextDue(destination uint32) (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	due, ok := s.queue(destination).next(s.opt.Now(), s.opt.elapsed())
	if !ok {
		return time.Time{}, false
	}
	if due == math.MinInt64 {
		return s.opt.Now(), true
	}
	return time.Unix(0, due), true
}

// Finish reports what became of a lease: Done, Retry, Dead or Skip. It rides the next group;
// until it is durable and applied, the delivery stays leased.
func (s *Store) Finish(o event.Outcome) {
	s.mu.Lock()
	ordered := false
	if e := s.queue(o.Destination).held[o.Seq]; e != nil && e.state == entryLeased {
		e.state, ordered = entryFinished, e.OrderKey != 0
	}
	s.mu.Unlock()
	// The next one under its key waits until it is applied.
	s.outbox.addOutcomes([]event.Outcome{o}, nil, ordered)
}

// Unlease gives a delivery back that was not attempted.
func (s *Store) Unlease(d Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queue(d.Destination)
	if e := q.held[d.Seq]; e != nil && e.state == entryLeased && e.term == d.term {
		q.leased--
		q.enqueue(e, entryReady)
	}
}

// Read fetches the request of an event, from memory if it is fresh, and checks it. ErrNotFound: it
// never can be read again.
func (s *Store) Read(seq event.Seq) (*Payload, error) {
	lease, err := s.readFrame(seq)
	if err != nil {
		return nil, fmt.Errorf("read event %d: %w", seq, err)
	}
	frame, err := shmabi.ParseFrame(lease.Bytes)
	if err == nil {
		var e shmabi.Event
		if e, err = frame.Event(); err == nil {
			return &Payload{Event: e, lease: lease}, nil
		}
	}
	lease.Release()
	return nil, fmt.Errorf("read event %d: %w", seq, err)
}

// readFrame reads a frame whose place may change meanwhile: a rescue or Settle moves it.
func (s *Store) readFrame(seq event.Seq) (*journal.Lease, error) {
	loc, err := s.locate(seq)
	for err == nil {
		var lease *journal.Lease
		if lease, err = s.journal.Read(loc); err == nil {
			return lease, nil
		}
		if !errors.Is(err, journal.ErrGone) {
			break
		}
		moved, missing := s.locate(seq)
		if missing != nil || moved == loc {
			break
		}
		loc, err = moved, nil
	}
	switch {
	case errors.Is(err, journal.ErrClosed):
		err = ErrClosed
	case errors.Is(err, journal.ErrGone), errors.Is(err, journal.ErrDamaged):
		err = fmt.Errorf("%w: %w", ErrLost, err)
	}
	return nil, err
}

// locate tells where the frame of an event lies now.
func (s *Store) locate(seq event.Seq) (journal.Loc, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed.Load() {
		return journal.Loc{}, ErrClosed
	}
	r, err := s.index.Load(seq)
	if err != nil {
		return journal.Loc{}, s.readFault(err)
	}
	if r == nil {
		return journal.Loc{}, ErrNotFound
	}
	return r.Loc, nil
}

// deferredMax bounds the retries that are in memory alone.
const deferredMax = 1 << 16

// deferRetries keeps queued retries in memory while space is short: only what ends a delivery is
// written then, because that is what frees space.
func (s *Store) deferRetries() {
	retries := s.outbox.takeRetries()
	if len(retries) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range retries {
		q := s.queue(o.Destination)
		e := q.held[o.Seq]
		if e == nil || e.state != entryFinished {
			continue
		}
		if len(s.deferred) >= deferredMax {
			// The end of the lease brings it back, of a new one: the old one is void.
			q.grant(e, e.Expires, s.opt.elapsed()+s.opt.LeaseTTL)
			continue
		}
		s.deferred[deliveryID{o.Seq, o.Destination}] = o
		s.defers.Store(true)
		q.leased--
		e.due, e.Attempt, e.deferred = o.Next, o.Attempt+1, true
		q.enqueue(e, entryTimed)
	}
}

// sendDeferred queues them again once there is space. One that is leased anew is dropped: the
// outcome to come counts for it.
func (s *Store) sendDeferred() {
	if !s.defers.Load() {
		return // the committer waits for no lock of the applier's
	}
	s.mu.Lock()
	var list []event.Outcome
	for id, o := range s.deferred {
		e := s.queue(id.dest).held[id.seq]
		if e != nil && (e.state == entryTimed || e.state == entryReady) {
			list = append(list, o)
		}
	}
	clear(s.deferred)
	s.defers.Store(false)
	s.mu.Unlock()
	if len(list) > 0 {
		s.outbox.addOutcomes(list, nil, false)
	}
}
