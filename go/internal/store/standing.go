package store

import (
	"encoding/binary"
	"sync"

	"sluice/go/internal/event"
)

// standingsMax is how many events' states are remembered; they take 1.5 MB. A younger event takes
// the place of an older one by the hash in its ID.
const standingsMax = 1 << 16

// standings remembers the states of events whose senders wait for the delivery, so that a sender
// who asks again is answered without a read. The applier writes, anybody reads.
type standings struct {
	mu   sync.Mutex
	list []standing // empty until the first such event
}

type standing struct {
	id    event.ID
	state event.State
}

func (s *standings) at(id event.ID) *standing {
	return &s.list[binary.LittleEndian.Uint64(id[8:])%standingsMax]
}

func (s *standings) put(id event.ID, state event.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.list == nil {
		s.list = make([]standing, standingsMax)
	}
	*s.at(id) = standing{id, state}
}

// move follows an event that is remembered.
func (s *standings) move(id event.ID, state event.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.list == nil {
		return
	}
	if at := s.at(id); at.id == id {
		at.state = state
	}
}

func (s *standings) get(id event.ID) (state event.State, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.list == nil {
		return 0, false
	}
	at := s.at(id)
	return at.state, at.id == id
}

// State tells where an event stands, without waiting for the applier: one that became durable a
// moment ago may be unknown still. false: unknown, never kept, or gone. What was acknowledged at
// `delivered` lately is answered from memory; for the rest the index is searched, where an event is
// found a second after it came.
func (s *Store) State(id event.ID) (event.State, bool) {
	if state, ok := s.standings.get(id); ok {
		return state, true
	}
	if s.closed.Load() {
		return 0, false
	}
	r, err := s.index.Find(id)
	if r == nil || s.readFault(err) != nil {
		return 0, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// Its row may be a second old.
	if r, err = s.index.Load(r.Seq); r == nil || s.readFault(err) != nil {
		return 0, false
	}
	return r.State(), true
}

// repeat is a stored event that turned out to repeat another, and whose sender waits.
type repeat struct{ id, first event.ID }

// tellRepeats says what the applier found out. s.mu is not held, so that whoever is told may ask.
func (s *Store) tellRepeats(list []repeat) {
	for _, r := range list {
		s.opt.Repeated(r.id, r.first)
	}
}
