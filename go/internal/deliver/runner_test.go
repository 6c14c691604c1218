package deliver

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/go/internal/destination"
	"sluice/go/internal/event"
	"sluice/go/internal/retry"
)

func TestAScheduleSaysTheWaitsAndTheAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		schedule := []time.Duration{5 * time.Second, time.Minute, 10 * time.Minute}
		for _, c := range []struct {
			jitter retry.Jitter
			after  time.Duration
			want   []time.Duration
		}{
			{func(n int64) int64 { return n / 2 }, 0, schedule},
			{longest, 0, []time.Duration{5500 * time.Millisecond, 66 * time.Second, 11 * time.Minute}},
			{func(int64) int64 { return 0 }, 0,
				[]time.Duration{4500 * time.Millisecond, 54 * time.Second, 9 * time.Minute}},
			{func(n int64) int64 { return n / 2 }, 30 * time.Second,
				[]time.Duration{30 * time.Second, time.Minute, 10 * time.Minute}},
			{func(n int64) int64 { return n / 2 }, 48 * time.Hour,
				[]time.Duration{time.Hour, time.Hour, time.Hour}}, // the policy's cap
		} {
			q, r := newQueue(t), refusing(500, c.after)
			q.add(1, 0)
			s := start(t, q, Options{Jitter: c.jitter}, Target{Destination: r, Schedule: schedule})
			pass(24 * time.Hour)
			if kinds := q.kinds(); len(kinds) != 4 || kinds[2] != event.Retry || kinds[3] != event.Dead {
				t.Fatalf("outcomes %v", kinds)
			}
			for i, want := range c.want {
				got := r.times[i+1].Sub(r.times[i])
				if got < want || got > want+2*waitMin {
					t.Errorf("wait %d: %v, want %v", i+1, got, want)
				}
			}
			if q.outcomes[3].Err != "gave up after 4 attempts: busy" {
				t.Errorf("%q", q.outcomes[3].Err)
			}
			stop(t, s)
			q.check()
		}
	})
}

func TestADeadLetterBlocksItsKeyOnlyWhereThatIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			block bool
			key   uint64
			want  bool
		}{{true, 9, true}, {true, 0, false}, {false, 9, false}} {
			q := newQueue(t)
			q.add(1, c.key)
			r := &receiver{deliver: func(context.Context, *destination.Request) destination.Result {
				return destination.Refusal(errors.New("answered 410"))
			}}
			s := start(t, q, Options{}, Target{Destination: r, Block: c.block})
			synctest.Wait()
			if len(q.outcomes) != 1 || q.outcomes[0].Blocks != c.want {
				t.Errorf("%+v: %+v", c, q.outcomes)
			}
			stop(t, s)
		}
	})
}

func TestWhoWaitsIsToldBeforeTheOutcomeIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(3, 0)
		waits := event.NewID(event.LaneID{1}, 1, 0)
		r := &receiver{deliver: func(_ context.Context, r *destination.Request) destination.Result {
			result := destination.Delivery(200)
			if r.WantAnswer {
				result.Answer = &destination.Answer{Status: 200, Body: []byte("hello")}
			}
			if r.Body[0] == 2 && r.Attempt == 1 {
				return destination.Failure(errors.New("not yet"))
			}
			return result
		}}
		var got []Conclusion
		s := start(t, q, Options{
			WantAnswer: func(id event.ID) bool { return id == waits },
			Concluded: func(c Conclusion) {
				q.mu.Lock()
				defer q.mu.Unlock()
				if len(q.outcomes) != len(got) {
					t.Errorf("%d are recorded when the %dth is told", len(q.outcomes), len(got)+1)
				}
				got = append(got, c)
			},
		}, Target{Destination: r, Concurrency: Fixed(1)})
		pass(time.Minute)
		if len(got) != 4 || got[2].Kind != event.Retry || got[3].Kind != event.Done {
			t.Fatalf("told %+v", got)
		}
		for i, c := range got {
			if c.ID != q.entries[min(i, 2)].ID || c.Destination != destinationID ||
				(c.Answer != nil) != (c.ID == waits) {
				t.Errorf("conclusion %d: %+v", i, c)
			}
		}
		stop(t, s)
		q.check()
	})
}

func TestAFallenLimitEndsNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, r := newQueue(t), hanging(10*time.Second)
		q.add(30, 0)
		target := Target{ID: destinationID, Name: "billing", Destination: r, Concurrency: Fixed(10)}
		s := start(t, q, Options{}, target)
		synctest.Wait()
		target.Concurrency = Fixed(3)
		if err := s.Apply([]Target{target}); err != nil {
			t.Fatal(err)
		}
		pass(9 * time.Second)
		if st := s.Statuses()[0]; st.InFlight != 10 || st.Limit != 3 || len(q.kinds()) != 0 {
			t.Errorf("%+v, outcomes %v", st, q.kinds())
		}
		pass(2 * time.Second)
		if st := s.Statuses()[0]; st.InFlight != 3 || len(q.kinds()) != 10 || len(r.seen()) != 13 {
			t.Errorf("%+v, outcomes %v, attempts %d", st, q.kinds(), len(r.seen()))
		}
		stop(t, s)
		q.check()
	})
}

// What was leased ahead must be in nobody's way: not the gate's, not another host's.
func TestWhatDoesNotBeginIsGivenBack(t *testing.T) {
	// fast is a destination at a pace at which deliveries are leased ahead, until it hangs.
	fast := func(hang *atomic.Bool) *receiver {
		return &receiver{deliver: func(ctx context.Context, r *destination.Request) destination.Result {
			if hang.Load() {
				<-ctx.Done()
				return destination.Failure(ctx.Err())
			}
			time.Sleep(time.Millisecond)
			return destination.Delivery(200)
		}}
	}
	for name, end := range map[string]func(s *Service, q *queue, gate *countingGate, r *receiver){
		"after a while": func(*Service, *queue, *countingGate, *receiver) {
			time.Sleep(aheadTime + time.Second)
		},
		"soon under a short lease": func(_ *Service, q *queue, _ *countingGate, _ *receiver) {
			pass(6 * time.Second)
		},
		"by a reload": func(s *Service, q *queue, gate *countingGate, r *receiver) {
			gate.close()
			_ = s.Apply([]Target{{ID: destinationID, Name: "billing", Destination: r, Gate: gate,
				Concurrency: Fixed(2)}})
			synctest.Wait()
			if n := q.leased(); n > 2 {
				t.Errorf("%d are leased again before the new gate was asked", n)
			}
		},
		"by an end": func(s *Service, _ *queue, _ *countingGate, _ *receiver) {
			go func() { _ = s.Stop(context.Background()) }()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var hang atomic.Bool
				q, gate := newQueue(t), &countingGate{changed: make(chan struct{}, 1)}
				if name == "soon under a short lease" {
					q.term = 10 * time.Second
				}
				r := fast(&hang)
				q.add(5000, 0)
				s := start(t, q, Options{}, Target{Destination: r, Gate: gate, Concurrency: Fixed(2)})
				time.Sleep(time.Second)
				hang.Store(true)
				pass(10 * time.Millisecond)
				ahead := q.leased() - 2
				if ahead <= 0 || q.givenBack() > 0 {
					t.Fatalf("%d leased ahead, %d given back before", ahead, q.givenBack())
				}
				end(s, q, gate, r)
				synctest.Wait()
				if n := q.givenBack(); n < ahead {
					t.Errorf("%d of %d are given back", n, ahead)
				}
				ctx, cancel := context.WithCancel(context.Background())
				cancel()
				_ = s.Stop(ctx)
				synctest.Wait()
				gate.balanced(t)
				q.check()
			})
		})
	}
}

func TestAClosingGateStopsWhatIsLeasedAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, gate := newQueue(t), &countingGate{changed: make(chan struct{}, 1)}
		r := hanging(time.Millisecond)
		q.add(5000, 0)
		s := start(t, q, Options{}, Target{Destination: r, Gate: gate, Concurrency: Fixed(4)})
		time.Sleep(500 * time.Millisecond)
		before := len(r.seen())
		gate.close()
		time.Sleep(time.Minute)
		if n := len(r.seen()); n > before+4 {
			t.Errorf("%d attempts after the gate closed", n-before)
		}
		if n := q.leased(); n > 0 {
			t.Errorf("%d are leased behind a closed gate", n)
		}
		stop(t, s)
		gate.balanced(t)
		q.check()
	})
}

func TestAPauseStopsWhatIsLeasedAheadAndNoHerdFollowsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, limit := range []int{1, 4} {
			q, r := newQueue(t), &receiver{}
			var paused atomic.Bool
			r.deliver = func(context.Context, *destination.Request) destination.Result {
				time.Sleep(time.Millisecond)
				if len(r.seen()) > 2000 && paused.CompareAndSwap(false, true) {
					result := destination.Failure(errors.New("answered 503"))
					result.Code, result.RetryAfter = 503, time.Minute
					return result
				}
				return destination.Delivery(200)
			}
			q.add(3000, 0)
			s := start(t, q, Options{}, Target{Destination: r, Concurrency: Fixed(limit)})
			pass(30 * time.Second)
			if n := len(r.seen()); n < 2000 || n > 2000+2*limit-1 {
				t.Errorf("%d attempts before and in the pause", n)
			}
			if n := q.leased(); n > 0 {
				t.Errorf("%d are leased in the pause", n)
			}
			pass(time.Minute)
			if len(r.seen()) != 3001 || r.peak != limit {
				t.Errorf("%d attempts, %d at once", len(r.seen()), r.peak)
			}
			stop(t, s)
			q.check()
		}
	})
}

func TestAGateHearsThatItIsDrainedOnlyWhenNothingDueWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, r, gate := newQueue(t), hanging(time.Second), &countingGate{}
		q.add(10, 0)
		gate.drained = func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			waiting := 0
			for _, e := range q.entries {
				if !e.over && !e.leased && !e.due.After(time.Now()) {
					waiting++
				}
			}
			if waiting > 0 {
				t.Errorf("drained while %d wait", waiting)
			}
		}
		s := start(t, q, Options{}, Target{Destination: r, Gate: gate, Concurrency: Fixed(4), Rate: 3})
		pass(2500 * time.Millisecond)
		if n := gate.drainCount(); n != 0 {
			t.Errorf("drained %d times while the rate limits", n)
		}
		pass(10 * time.Second)
		if n := gate.drainCount(); n == 0 || len(q.kinds()) != 10 {
			t.Errorf("%d outcomes, drained %d times", len(q.kinds()), n)
		}
		stop(t, s)
		q.check()
	})
}

func TestAnAttemptEndsBeforeItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.term = 15 * time.Minute
		q.add(3, 0)
		r := &receiver{deliver: func(ctx context.Context, _ *destination.Request) destination.Result {
			<-ctx.Done()
			return destination.Failure(ctx.Err())
		}}
		begin := time.Now()
		var mu sync.Mutex
		var took []time.Duration
		s := start(t, q, Options{Outcome: func(_, outcome string, _ int, span time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			if outcome == "retry" {
				took = append(took, span)
			}
		}}, Target{Destination: r, Concurrency: Fixed(1)})
		pass(3 * q.term)
		if len(took) < 3 || slices.Max(took) > q.term*7/8 || slices.Min(took) < q.term*6/8 {
			t.Errorf("attempts took %v", took)
		}
		for i, o := range q.outcomes {
			if o.Err != "context deadline exceeded" || o.Kind != event.Retry {
				t.Errorf("after %v, outcome %d: %+v", time.Since(begin), i, o)
			}
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Stop(ctx)
		q.check()
	})
}

func TestAutoServesADestinationThroughTheService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(20_000, 0)
		free := make([]time.Time, 40) // of 40 servers of 50 ms: 800 a second
		var mu sync.Mutex
		r := &receiver{deliver: func(context.Context, *destination.Request) destination.Result {
			mu.Lock()
			first := 0
			for i := range free {
				if free[i].Before(free[first]) {
					first = i
				}
			}
			free[first] = later(free[first], time.Now()).Add(50 * time.Millisecond)
			until := free[first]
			mu.Unlock()
			time.Sleep(time.Until(until))
			return destination.Delivery(200)
		}}
		s := start(t, q, Options{}, Target{Destination: r})
		pass(10 * time.Second)
		before := len(r.seen())
		pass(5 * time.Second)
		st := s.Statuses()[0]
		if n := len(r.seen()) - before; n < 9*5*800/10 || st.Limit > 120 {
			t.Errorf("%d of %d in 5 s, %+v", n, 5*800, st)
		}
		pass(30 * time.Second)
		if len(q.kinds()) != 20_000 {
			t.Errorf("%d outcomes", len(q.kinds()))
		}
		stop(t, s)
		q.check()
	})
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func TestOrderIsThatOfTheLeaseAlsoFarAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, r := newQueue(t), hanging(100*time.Microsecond)
		q.add(250, 0)
		s := start(t, q, Options{}, Target{Destination: r, Concurrency: Fixed(1)})
		pass(time.Second)
		got := r.seen()
		want := make([]byte, 250)
		for i := range want {
			want[i] = byte(i)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("order %v", got)
		}
		stop(t, s)
		q.check()
	})
}

func TestAfterAReloadTheOldDestinationGetsNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, old, next := newQueue(t), hanging(time.Millisecond), hanging(time.Millisecond)
		q.add(3000, 0)
		target := Target{ID: destinationID, Name: "billing", Destination: old, Concurrency: Fixed(4)}
		s := start(t, q, Options{}, target)
		pass(100*time.Millisecond + 500*time.Microsecond)
		before := len(old.seen())
		target.Destination = next
		if err := s.Apply([]Target{target}); err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Second)
		if n := len(old.seen()); n != before || old.closed != 1 {
			t.Errorf("%d attempts after the reload, closed %d times", n-before, old.closed)
		}
		if n := len(next.seen()); n != 3000-before {
			t.Errorf("the new one got %d of %d", n, 3000-before)
		}
		stop(t, s)
		q.check()
	})
}

// lookingGate runs something once, when it is armed, between a look at the limit and what follows
// from it.
type lookingGate struct {
	Open
	armed   atomic.Bool
	between func()
}

func (g *lookingGate) Changed() <-chan struct{} {
	if g.armed.CompareAndSwap(true, false) {
		g.between()
	}
	return nil
}

// Nothing is due, so that the end of an attempt calls nobody; then more is than there is room for;
// and just when that was seen, the attempt ends.
func TestAnAttemptThatEndsWhileARunnerLooksIsNotMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, first, others := newQueue(t), make(chan struct{}), make(chan struct{})
		r := &receiver{deliver: func(_ context.Context, r *destination.Request) destination.Result {
			if r.Body[0] == 0 {
				<-first
			} else {
				<-others
			}
			return destination.Delivery(200)
		}}
		q.add(1, 0)
		gate := &lookingGate{}
		s := start(t, q, Options{}, Target{Destination: r, Gate: gate, Concurrency: Fixed(2)})
		gate.between = func() {
			close(first)
			for s.Statuses()[0].InFlight > 0 {
				time.Sleep(time.Millisecond)
			}
		}
		pass(time.Second)
		gate.armed.Store(true)
		q.add(2, 0)
		pass(time.Second)
		if len(r.seen()) != 3 || gate.armed.Load() {
			t.Errorf("%d attempts", len(r.seen()))
		}
		close(others)
		stop(t, s)
		q.check()
	})
}

func TestAPauseThatBeginsWhileARunnerLooksIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, first := newQueue(t), make(chan struct{})
		r := &receiver{deliver: func(_ context.Context, r *destination.Request) destination.Result {
			if r.Body[0] > 0 || r.Attempt > 1 {
				return destination.Delivery(200)
			}
			<-first
			result := destination.Failure(errors.New("answered 503"))
			result.Code, result.RetryAfter = 503, time.Hour
			return result
		}}
		q.add(1, 0)
		gate := &lookingGate{}
		s := start(t, q, Options{}, Target{Destination: r, Gate: gate, Concurrency: Fixed(2)})
		gate.between = func() {
			close(first)
			for s.Statuses()[0].InFlight > 0 {
				time.Sleep(time.Millisecond)
			}
		}
		synctest.Wait()
		gate.armed.Store(true)
		q.add(5, 0)
		pass(time.Second)
		if len(r.seen()) != 1 || q.leased() != 0 {
			t.Errorf("%d attempts, %d leased in the pause", len(r.seen()), q.leased())
		}
		pass(time.Hour)
		if len(r.seen()) != 7 {
			t.Errorf("%d attempts", len(r.seen()))
		}
		stop(t, s)
		q.check()
	})
}

func TestWhatIsLeasedWhileItsDestinationEndsIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, r := newQueue(t), accepting()
		gate := &lookingGate{}
		s := start(t, q, Options{}, Target{Destination: r, Gate: gate})
		gate.between = func() {
			go func() {
				if err := s.Apply(nil); err != nil {
					t.Error(err)
				}
			}()
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		gate.armed.Store(true)
		q.add(5, 0)
		pass(time.Second)
		if len(r.seen()) != 0 || q.unleased != 5 {
			t.Errorf("%d attempts, %d given back", len(r.seen()), q.unleased)
		}
		stop(t, s)
		q.check()
	})
}

func TestARequestThatAPanicLeftBehindIsNotUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(50, 0)
		var held *destination.Request
		r := &receiver{deliver: func(_ context.Context, r *destination.Request) destination.Result {
			time.Sleep(100 * time.Microsecond)
			if held == nil {
				held = r
				panic("with the request in its hands")
			}
			if r == held || held.Body[0] != 0 || len(held.Headers) != 2 {
				t.Errorf("event %d has the memory of one that an adapter may still hold", r.Body[0])
			}
			return destination.Delivery(200)
		}}
		s := start(t, q, Options{}, Target{Destination: r, Concurrency: Fixed(1)})
		pass(time.Minute)
		if len(r.seen()) != 51 {
			t.Errorf("%d attempts", len(r.seen()))
		}
		stop(t, s)
	})
}
