package share

import (
	"sync"

	"sluice/go/internal/breaker"
)

// mailbox hands notes to a reader that may be slow. It holds one of each breaker: a newer one takes
// the place of one that was not read yet.
type mailbox struct {
	out  chan breaker.Note
	wake chan struct{} // of one

	mu      sync.Mutex
	waiting map[string]breaker.Note
	order   []string // of waiting, the longest first
}

func newMailbox() *mailbox {
	return &mailbox{out: make(chan breaker.Note), wake: make(chan struct{}, 1),
		waiting: map[string]breaker.Note{}}
}

// put never waits. Notes of one breaker come in their order.
func (m *mailbox) put(n breaker.Note) {
	m.mu.Lock()
	if _, ok := m.waiting[n.Breaker]; !ok {
		m.order = append(m.order, n.Breaker)
	}
	m.waiting[n.Breaker] = n
	m.mu.Unlock()
	signal(m.wake)
}

// holds tells that a note of the breaker was not read yet.
func (m *mailbox) holds(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.waiting[name]
	return ok
}

// run delivers until done, then closes the channel.
func (m *mailbox) run(done <-chan struct{}) {
	defer close(m.out)
	for {
		n, ok := m.first()
		var out chan breaker.Note
		if ok {
			out = m.out
		}
		select {
		case out <- n:
			m.remove(n)
		case <-m.wake: // n may have been replaced
		case <-done:
			return
		}
	}
}

func (m *mailbox) first() (breaker.Note, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.order) == 0 {
		return breaker.Note{}, false
	}
	return m.waiting[m.order[0]], true
}

// remove takes out what was delivered, unless it was replaced in that moment.
func (m *mailbox) remove(n breaker.Note) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiting[n.Breaker] == n {
		delete(m.waiting, n.Breaker)
		m.order = m.order[1:]
	}
}

// signal sets a flag that a goroutine waits for.
func signal(flag chan struct{}) {
	select {
	case flag <- struct{}{}:
	default:
	}
}
