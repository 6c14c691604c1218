package deliver

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/go/internal/destination"
	"sluice/go/internal/event"
	"sluice/go/internal/retry"
)

// fickleGate admits as many as it likes, at random, and keeps the books.
type fickleGate struct {
	countingGate
	life *life
	open bool
}

func (g *fickleGate) Admit(now time.Time, n int) (int, time.Duration) {
	if g.life.draw(3) == 0 && !g.open {
		n = g.life.draw(n + 1)
	}
	n, _ = g.countingGate.Admit(now, n)
	return n, time.Duration(1+g.life.draw(1000)) * time.Millisecond
}

// life is a random run of the service against a destination that does anything.
type life struct {
	t    *testing.T
	mu   sync.Mutex
	rng  *rand.Rand
	calm bool // from now on everything passes
	at   int  // attempts in flight

	number map[event.ID]int // of each event, in order
	keys   []uint64         // by number
	busy   map[int]int      // attempts
	done   map[int]bool
}

func (l *life) draw(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rng.IntN(n)
}

const lifeLimit = 6

func (l *life) Deliver(ctx context.Context, r *destination.Request) destination.Result {
	i := l.begin(r)
	defer l.end(i)
	took := time.Duration(l.draw(1<<l.draw(30))) + 1
	l.mu.Lock()
	if l.calm {
		took = time.Microsecond
	}
	l.mu.Unlock()
	select {
	case <-time.After(took):
	case <-ctx.Done():
		return destination.Failure(ctx.Err())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	result := destination.Failure(errors.New("no"))
	switch draw := l.rng.IntN(40); {
	case l.calm || draw > 15:
		result = destination.Delivery(200)
	case draw == 0:
		panic("of the adapter")
	case draw == 1:
		result.Code, result.RetryAfter = 503, time.Duration(l.rng.IntN(5))*time.Second
	case draw == 2:
		result = destination.Refusal(errors.New("never"))
	}
	return result
}

func (l *life) begin(r *destination.Request) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := l.number[r.EventID]
	if method, target := line(i); r.Method != method || r.Target != target || r.Body[0] != byte(i) {
		l.t.Errorf("event %d comes as %s %s, body %v", i, r.Method, r.Target, r.Body)
	}
	l.busy[i]++
	l.at++
	if l.busy[i] > 1 || l.done[i] {
		l.t.Errorf("event %d: %d attempts at once, done %v", i, l.busy[i], l.done[i])
	}
	if l.at > lifeLimit {
		l.t.Errorf("%d attempts in flight", l.at)
	}
	for before := range i {
		if l.keys[i] != 0 && l.keys[before] == l.keys[i] && !l.done[before] {
			l.t.Errorf("event %d goes before %d of its key", i, before)
		}
	}
	return i
}

func (l *life) end(i int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy[i]--
	l.at--
}

func (l *life) Close() error { return nil }

// target is a configuration at random; all of them have the same bound.
func (l *life) target(q *queue, gates *[]*fickleGate) Target {
	t := Target{
		ID: destinationID, Name: "billing", Destination: l,
		Retry: retry.Policy{Base: time.Second, Max: 2 * time.Second, Attempts: 1 << 10},
	}
	if l.draw(2) == 0 {
		t.Concurrency = Fixed(1 + l.draw(lifeLimit))
	} else {
		t.Concurrency = Auto{Initial: 1 + l.draw(lifeLimit), Min: 1, Max: lifeLimit}
	}
	if l.draw(3) == 0 {
		t.Rate = float64(1 + l.draw(2000))
	}
	if l.draw(2) == 0 {
		t.Filter = filter(func(r *destination.Request) (bool, error) { return r.Body[0]%3 > 0, nil })
	}
	if l.draw(2) == 0 {
		g := &fickleGate{life: l}
		g.changed = make(chan struct{}, 1)
		*gates = append(*gates, g)
		t.Gate = g
	}
	return t
}

func TestWhateverHappensEveryEventIsConcludedOnceAndInOrder(t *testing.T) {
	rng := seeded(t)
	for round := range 40 {
		synctest.Test(t, func(t *testing.T) {
			l := &life{t: t, rng: rand.New(rand.NewPCG(rng.Uint64(), 1)), busy: map[int]int{},
				done: map[int]bool{}, number: map[event.ID]int{}}
			q := newQueue(t)
			q.term = 15 * time.Minute
			var gates []*fickleGate
			service := New(Options{Queue: q, Log: log(nil), Concluded: func(c Conclusion) {
				if c.Kind == event.Retry {
					return
				}
				l.mu.Lock()
				defer l.mu.Unlock()
				i := l.number[c.ID]
				if l.done[i] {
					t.Errorf("event %d is concluded twice", i)
				}
				l.done[i] = true
			}})
			add := func(n int) {
				for range n {
					key := uint64(l.draw(12))
					l.mu.Lock()
					l.number[event.NewID(event.LaneID{1}, uint64(len(l.keys)), 0)] = len(l.keys)
					l.keys = append(l.keys, key)
					l.mu.Unlock()
					q.add(1, key)
				}
			}
			for range 12 {
				if err := service.Apply([]Target{l.target(q, &gates)}); err != nil {
					t.Fatal(err)
				}
				add(l.draw(40))
				time.Sleep(time.Duration(l.draw(1 << l.draw(34))))
				if l.draw(5) == 0 {
					if err := service.Apply(nil); err != nil {
						t.Fatal(err)
					}
					pass(2 * time.Second) // what comes back has a limit of its own
				}
			}
			l.mu.Lock()
			l.calm = true
			l.mu.Unlock()
			last := l.target(q, &gates)
			last.Rate = 0
			if g, ok := last.Gate.(*fickleGate); ok {
				g.open = true
			}
			if err := service.Apply([]Target{last}); err != nil {
				t.Fatal(err)
			}
			// Sooner than any belt: nothing may wait for a signal that never comes.
			pass(waitMax / 2)
			l.mu.Lock()
			if len(l.done) != len(l.keys) {
				t.Errorf("round %d: %d of %d concluded; %+v", round, len(l.done), len(l.keys),
					service.Statuses())
			}
			l.mu.Unlock()
			if err := service.Stop(t.Context()); err != nil {
				t.Error(err)
			}
			for _, g := range gates {
				g.balanced(t)
			}
			for i, e := range q.entries {
				if e.leased {
					t.Errorf("event %d is leased", i)
				}
			}
		})
	}
}
