package store

import (
	"sync"

	"sluice/go/internal/store/journal"
)

// lagMax bounds the bytes of groups that are durable and not applied. Beyond it the committer
// waits.
const lagMax = 64 << 20

// item is a durable group on its way to the applier.
type item struct {
	group   *journal.Group
	tickets []*ticket
}

// handoff is the way from the committer to the applier.
type handoff struct {
	mu     sync.Mutex
	cond   sync.Cond
	items  []item
	spare  []item // the list that take gave before the last one
	bytes  int
	number uint64 // of the last group put in
	ended  bool
	arrive chan struct{} // something to apply, or the end
	hurry  chan struct{} // somebody waits for what is to be applied
}

func (h *handoff) init() {
	h.cond.L = &h.mu
	h.arrive = make(chan struct{}, 1)
	h.hurry = make(chan struct{}, 1)
}

// put adds an item. urgent tells that somebody waits for what comes of it.
func (h *handoff) put(i item, urgent bool) {
	h.mu.Lock()
	for h.bytes > lagMax && !h.ended {
		notify(h.hurry)
		h.cond.Wait()
	}
	h.items = append(h.items, i)
	h.number = i.group.Number
	h.bytes += i.group.Bytes()
	h.mu.Unlock()
	notify(h.arrive)
	if urgent {
		notify(h.hurry)
	}
}

// last is the number of the last group that was handed over.
func (h *handoff) last() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.number
}

// take gives everything that is there; the list is valid until the next call.
func (h *handoff) take() []item {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := h.items
	clear(h.spare)
	h.items, h.spare, h.bytes = h.spare[:0], list, 0
	h.cond.Broadcast()
	return list
}

// end lets a waiting committer go.
func (h *handoff) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	h.cond.Broadcast()
}

func notify(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
