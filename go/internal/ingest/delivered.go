package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"sluice/go/internal/destination"
	"sluice/go/internal/event"
	"sluice/go/internal/store"
	"sluice/shm-abi/shmabi"
)

// Conclusion is what one attempt made of a delivery.
type Conclusion struct {
	ID          event.ID
	Destination uint32
	Kind        event.OutcomeKind
	// Answer is what the destination said, where Waits asked for it; nil: nothing to pass on. It is
	// the service's from here on.
	Answer *destination.Answer
}

// Concluded takes note of an attempt at an event that a sender may wait for (`delivered`). All
// destinations done or dead end the wait with 200, or with the answer of the first listed where
// the source passes that on; a failure that may pass ends it with 202. An answer that cannot be
// passed on, being too large for the reply ring say, leaves 200: the delivery is what was promised.
func (s *Service) Concluded(c Conclusion) {
	if w := s.waits.conclude(c); w != nil {
		w.feed.answer(w)
	}
}

// Opened takes note that the breaker of a destination is not closed any more: who waits for it is
// told 202. Its sources' Degraded must say so already.
func (s *Service) Opened(destination uint32) { s.answer(s.waits.opened(destination)) }

// Waits tells whether a sender waits for what the destinations answer to an event. It costs one
// load where nobody waits.
func (s *Service) Waits(id event.ID) bool {
	_, passes := s.waits.has(id)
	return passes
}

// Waiting is how many senders wait for a delivery.
func (s *Service) Waiting() int { return int(s.waits.few.Load()) }

// Repeated takes note that a durable event repeats another and will not be delivered itself. It
// waits for nothing: the store may call it from wherever it finds out.
func (s *Service) Repeated(repeat, first event.ID) { s.waits.repeated(repeat, first) }

// await begins the waits of frames whose verdict is final, before the committer can have them. A
// frame without one is answered with 202 when it is durable.
func (s *Service) await(batch []entry) {
	for i := range batch {
		if w := batch[i].wait; w != nil && !s.begin(w) {
			batch[i].wait = nil
		}
	}
}

// begin is false where nothing can be waited for.
func (s *Service) begin(w *wait) bool {
	if !s.waits.add(w, s.boot()) {
		return false
	}
	// Whoever opened a breaker before the wait was there to be seen has published that first.
	if w.degraded != nil && w.degraded() {
		if ready := s.waits.give(w.id); ready != nil {
			ready.feed.answer(ready)
		}
	}
	return true
}

// answer hands answers to their lanes.
func (s *Service) answer(ready []*wait) {
	for len(ready) > 0 {
		f := ready[0].feed
		var mine, others []*wait
		for _, w := range ready {
			if w.feed == f {
				mine = append(mine, w)
			} else {
				others = append(others, w)
			}
		}
		f.answer(mine...)
		ready = others
	}
}

// endWaits answers who has waited as long as the sender's budget lets it.
func (s *Service) endWaits(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-s.waits.changed:
		}
		ready, left, any := s.waits.due(s.boot())
		s.answer(ready)
		if any {
			timer.Reset(left)
		}
	}
}

// lookUpRepeats answers senders whose event turned out to repeat another one.
func (s *Service) lookUpRepeats(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.waits.repeat:
		}
		for {
			id, first, ok := s.waits.nextRepeat()
			if !ok {
				break
			}
			end := s.waits.give
			if s.delivered(first) {
				end = s.waits.same
			}
			if w := end(id); w != nil {
				w.feed.answer(w)
			}
		}
	}
}

// delivered tells whether an event reached all its destinations, as far as is known for sure.
func (s *Service) delivered(id event.ID) bool {
	if waits, _ := s.waits.has(id); waits {
		return false
	}
	state, ok := s.store.State(id)
	return ok && state == event.Delivered
}

// Pending is an event that a sender may have waited for when an earlier life of the service ended.
type Pending struct {
	ID         event.ID
	First      event.ID // the event that it repeats; zero: none
	Source     uint32
	Token      uint64
	Seq        uint32
	Position   uint64
	ReceivedNS uint64
	UntilNS    uint64 // boot clock
	// Destinations are those of its route, in order, as the journal knows them.
	Destinations []store.DeliveryState
}

// Past is what the journal remembers; *store.Store is one.
type Past interface {
	Events(store.Filter) (store.Page[store.Event], error)
	Read(event.Seq) (*store.Payload, error)
}

// Unanswered reads from the journal what may be waited for still: events of the last budget
// (longest: the largest of all sources') of sources that are acknowledged at `delivered`. An error
// names what could not be read; the list holds the rest.
func (s *Service) Unanswered(past Past, longest time.Duration) (list []Pending, err error) {
	since, now := time.Now().Add(-longest), s.boot()
	for id, source := range s.table.Load().Sources {
		if source.Ack != shmabi.AckDelivered {
			continue
		}
		for _, state := range []event.State{0, event.Duplicate} {
			page, fault := past.Events(store.Filter{
				Source: id, State: state, Since: since, Limit: waitsMax - len(list),
			})
			err = errors.Join(err, fault)
			for _, e := range page.Items {
				p, fault := pendingOf(past, e)
				if fault != nil {
					err = errors.Join(err, fmt.Errorf("event %s: %w", e.ID, fault))
				} else if p.UntilNS > now {
					list = append(list, p)
				}
			}
			if len(list) == waitsMax {
				return list, err
			}
		}
	}
	return list, err
}

// pendingOf reads one event's frame. Without UntilNS: nobody waits for it.
func pendingOf(past Past, e store.Event) (Pending, error) {
	payload, err := past.Read(e.Seq)
	if err != nil {
		return Pending{}, err
	}
	defer payload.Release()
	frame := payload.Frame()
	d, v := frame.D(), readVerdict(frame.C())
	if !v.waitsForDelivery() {
		return Pending{}, nil
	}
	return Pending{
		ID: e.ID, First: e.First, Source: e.Source, Token: d.Token(), Seq: d.Seq(),
		Position: d.Position(), ReceivedNS: d.ReceivedNS(), UntilNS: d.UntilNS(),
		Destinations: e.Destinations,
	}, nil
}

// Resume takes up what an earlier life did not answer: what was concluded since is answered at
// once, the rest waits again. It belongs between the attachment of the lanes that were found and
// the first delivery. What is of no living lane is left out; the data plane drops what it does not
// wait for. The bodies of answers that came before are gone: such a sender is told 200.
func (s *Service) Resume(list []Pending) {
	sources := s.table.Load().Sources
	for i := range list {
		p := &list[i]
		f := s.feedOf(p)
		if f == nil {
			continue
		}
		if waits, _ := s.waits.has(p.ID); !waits && !s.begin(p.wait(f, sources[p.Source])) {
			continue
		}
		if !p.First.IsZero() {
			s.Repeated(p.ID, p.First)
			continue
		}
		for _, d := range p.Destinations {
			if kind := concludedBy(d.State); kind != 0 {
				s.Concluded(Conclusion{ID: p.ID, Destination: d.Destination, Kind: kind})
			}
		}
	}
}

// feedOf is the lane in which an event's frame was, or nil.
func (s *Service) feedOf(p *Pending) *feed {
	for _, f := range s.feedList() {
		if event.NewID(f.lane.ID(), p.Position, p.ReceivedNS) == p.ID {
			return f
		}
	}
	return nil
}

// wait is for a frame that is durable already. source may be nil.
func (p *Pending) wait(f *feed, source *Source) *wait {
	w := &wait{
		feed: f, id: p.ID, token: p.Token, seq: p.Seq, position: p.Position, until: p.UntilNS,
		stored: true,
	}
	for _, d := range p.Destinations {
		w.open = append(w.open, d.Destination)
	}
	if source != nil {
		w.degraded = source.Degraded
		if source.Respond && len(w.open) > 0 {
			w.passes = w.open[0]
		}
	}
	return w
}

// concludedBy is what must have happened to a delivery in this state; 0: nothing yet.
func concludedBy(s event.State) event.OutcomeKind {
	switch s {
	case event.Retrying:
		return event.Retry
	case event.DeadLetter:
		return event.Dead
	case event.Delivered:
		return event.Done
	}
	return 0
}

// bootNS is the clock of the D line's until_ns: it goes on while the host sleeps.
func bootNS() uint64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(fmt.Sprint("boot clock: ", err)) // Linux has had it since 2.6.39
	}
	return uint64(t.Nano())
}
