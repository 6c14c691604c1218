package store

import (
	"sync"

	"sluice/go/internal/event"
)

// recentMax bounds one generation of the set; the set holds two.
const recentMax = 1 << 18

type recentKey struct {
	source uint32
	key    [16]byte
}

type recentEvent struct {
	id    event.ID
	until int64
}

// recent is the memory set of dedup keys whose first copy is durable. It answers storms of repeats
// before they cost a write; what it does not know, the applier finds.
type recent struct {
	mu         sync.RWMutex
	now, older map[recentKey]recentEvent
}

// Known tells whether an event with the key is durable and its window is open for a request
// received at at (ns since 1970). id is the first one's. Safe from any goroutine; it
// allocates nothing.
func (s *Store) Known(source uint32, key [16]byte, at int64) (id event.ID, ok bool) {
	return s.recent.known(recentKey{source, key}, at)
}

func (r *recent) known(k recentKey, at int64) (event.ID, bool) {
	r.mu.RLock()
	e, ok := r.now[k]
	if !ok {
		e, ok = r.older[k]
	}
	r.mu.RUnlock()
	if !ok || e.until <= at {
		return event.ID{}, false
	}
	return e.id, true
}

// add puts a durable event in, unless an earlier one's window is open for it.
func (r *recent) add(k recentKey, id event.ID, until, received int64) {
	if _, ok := r.known(k, received); ok || until <= received {
		return
	}
	r.put(k, recentEvent{id: id, until: until})
}

func (r *recent) put(k recentKey, e recentEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now == nil || len(r.now) >= recentMax {
		r.now, r.older = map[recentKey]recentEvent{}, r.now
	}
	r.now[k] = e
}
