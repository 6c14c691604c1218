package protect

import (
	"context"
	"sync"
	"sync/atomic"

	"sluice/go/internal/breaker"
)

const (
	// newsMax bounds the transitions that wait to be told; the oldest go first.
	newsMax = 1024
	// subscriptionMax bounds those that wait for one listener; it misses what comes then.
	subscriptionMax = 256
)

// Change is one transition with the breaker as it was then.
type Change struct {
	breaker.Change
	Look Look
}

// news takes transitions under a circuit's lock and tells them without one, in order.
type news struct {
	wake chan struct{}

	mu        sync.Mutex
	waiting   []Change
	missed    uint64
	listeners map[*Subscription]struct{}
}

func (n *news) init() {
	n.wake = make(chan struct{}, 1)
	n.listeners = map[*Subscription]struct{}{}
}

func (n *news) add(c Change) {
	n.mu.Lock()
	if len(n.waiting) == newsMax {
		n.waiting = n.waiting[1:]
		n.missed++
	}
	n.waiting = append(n.waiting, c)
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// tell hands transitions to all who want to know.
func (s *Service) tell(ctx context.Context) {
	n := &s.news
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.wake:
		}
		n.mu.Lock()
		waiting, missed := n.waiting, n.missed
		n.waiting, n.missed = nil, 0
		n.mu.Unlock()
		if missed > 0 {
			s.options.Log.Warn("transitions of breakers were not told", "count", missed)
		}
		for _, c := range waiting {
			n.mu.Lock()
			for l := range n.listeners {
				l.offer(c)
			}
			n.mu.Unlock()
			s.alerts.offer(c)
			s.options.Changed(c)
		}
	}
}

// Subscription is a listener's own queue of transitions.
type Subscription struct {
	changes chan Change
	missed  atomic.Uint64
	news    *news
}

// Transitions begins to listen. List what there is after that, and nothing is missed.
func (s *Service) Transitions() *Subscription {
	l := &Subscription{changes: make(chan Change, subscriptionMax), news: &s.news}
	s.news.mu.Lock()
	s.news.listeners[l] = struct{}{}
	s.news.mu.Unlock()
	return l
}

// Changes are the transitions from Transitions on, ramp steps included, in order.
func (l *Subscription) Changes() <-chan Change { return l.changes }

// Missed is how many were left out because the listener was slow.
func (l *Subscription) Missed() uint64 { return l.missed.Load() }

// Close ends the listening. Nothing comes out of Changes that is not in it already.
func (l *Subscription) Close() {
	l.news.mu.Lock()
	delete(l.news.listeners, l)
	l.news.mu.Unlock()
}

func (l *Subscription) offer(c Change) {
	select {
	case l.changes <- c:
	default:
		l.missed.Add(1)
	}
}
