package deliver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/go/internal/destination"
	"sluice/go/internal/event"
	"sluice/go/internal/retry"
	"sluice/go/internal/store"
)

// longest makes every delay as long as jitter allows, so that schedules are exact.
func longest(n int64) int64 { return n - 1 }

func start(t *testing.T, q *queue, o Options, target Target) *Service {
	t.Helper()
	o.Queue = q
	if o.Jitter == nil {
		o.Jitter = longest
	}
	if o.Log == nil {
		o.Log = log(nil)
	}
	s := New(o)
	target.ID, target.Name = destinationID, "billing"
	if err := s.Apply([]Target{target}); err != nil {
		t.Fatal(err)
	}
	return s
}

func stop(t *testing.T, s *Service) {
	t.Helper()
	if err := s.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestEventsGoOutInOrderAndAreDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, r := newQueue(t), accepting()
		q.add(5, 0)
		var told []string
		var mu sync.Mutex
		s := start(t, q, Options{Outcome: func(name, outcome string, code int, _ time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprint(name, " ", outcome, " ", code))
		}}, Target{Destination: r, Concurrency: Fixed(1)})
		synctest.Wait()
		q.add(1, 0)
		synctest.Wait()
		if got := r.seen(); !bytes.Equal(got, []byte{0, 1, 2, 3, 4, 5}) {
			t.Errorf("order %v", got)
		}
		if got := q.kinds(); len(got) != 6 || slices.Contains(got, event.Dead) {
			t.Errorf("outcomes %v", got)
		}
		stop(t, s)
		if len(told) != 6 || told[0] != "billing delivered 200" {
			t.Errorf("told %q", told)
		}
		if r.closed != 1 {
			t.Errorf("closed %d times", r.closed)
		}
		q.check()
	})
}

func TestTheRequestIsTheSendersOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(1, 0)
		var got string
		r := &receiver{deliver: func(_ context.Context, r *destination.Request) destination.Result {
			got = fmt.Sprintf("%v %s %d %s %s %q %q %d", r.EventID, r.Source, r.Attempt, r.Method,
				r.Target, r.Headers, r.Body, r.ReceivedNS)
			return destination.Delivery(200)
		}}
		s := start(t, q, Options{SourceName: func(id uint32) string {
			return fmt.Sprint("source ", id)
		}}, Target{Destination: r})
		synctest.Wait()
		want := event.NewID(event.LaneID{1}, 0, 0).String() + ` source 3 1 PUT /in?x=1 ` +
			`[{"x-Odd" "caf\xe9"} {"X-Empty" ""}] "\x00\x00\xff" 1767225600000000005`
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		stop(t, s)
		q.check()
	})
}

func TestAFailingEventFollowsTheScheduleAndEndsAsADeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, r := newQueue(t), refusing(500, 0)
		q.add(1, 0)
		begin := time.Now()
		s := start(t, q, Options{}, Target{Destination: r})
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if len(r.times) != 16 {
			t.Fatalf("%d attempts", len(r.times))
		}
		want := []time.Duration{0, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600, 3600, 3600, 3600}
		at := begin
		for i, seconds := range want {
			at = at.Add(seconds * time.Second)
			if r.times[i].Before(at) || r.times[i].Sub(at) > time.Duration(i+1)*waitMin {
				t.Errorf("attempt %d after %v, want %v", i+1, r.times[i].Sub(begin), at.Sub(begin))
			}
		}
		kinds := q.kinds()
		if len(kinds) != 16 || kinds[14] != event.Retry || kinds[15] != event.Dead {
			t.Errorf("outcomes %v", kinds)
		}
		if last := q.outcomes[15]; last.Err != "gave up after 16 attempts: busy" || last.Code != 500 {
			t.Errorf("last outcome %+v", last)
		}
		stop(t, s)
		q.check()
	})
}

func TestAPermanentFailureIsADeadLetterAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(1, 0)
		r := &receiver{deliver: func(context.Context, *destination.Request) destination.Result {
			r := destination.Refusal(errors.New("answered 410 Gone\nX-Evil: " + strings.Repeat("é", 300)))
			r.Code = 410
			return r
		}}
		s := start(t, q, Options{}, Target{Destination: r})
		synctest.Wait()
		if kinds := q.kinds(); len(kinds) != 1 || kinds[0] != event.Dead {
			t.Fatalf("outcomes %v", kinds)
		}
		o := q.outcomes[0]
		if o.Code != 410 || !strings.HasPrefix(o.Err, "answered 410 Gone X-Evil: éé") ||
			len(o.Err) > event.ErrMax || strings.ContainsRune(o.Err, '\uFFFD') {
			t.Errorf("%d %q", o.Code, o.Err)
		}
		stop(t, s)
		q.check()
	})
}

func TestAFloodOfDeadLettersDoesNotFloodTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(500, 0)
		r := &receiver{deliver: func(context.Context, *destination.Request) destination.Result {
			return destination.Refusal(errors.New("answered 401"))
		}}
		var logged bytes.Buffer
		s := start(t, q, Options{Log: log(&logged)}, Target{Destination: r})
		time.Sleep(time.Minute)
		q.add(1, 0)
		synctest.Wait()
		if n := strings.Count(logged.String(), "dead letter"); n != 2 {
			t.Errorf("%d lines:\n%s", n, logged.String())
		}
		if !strings.Contains(logged.String(), "others_before=499") {
			t.Errorf("log: %s", logged.String())
		}
		stop(t, s)
		q.check()
	})
}

func TestRetryAfterPausesTheWholeDestination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			code   int
			after  time.Duration
			paused time.Duration
		}{
			{503, 10 * time.Minute, 10 * time.Minute},
			{429, 10 * time.Minute, 10 * time.Minute},
			{503, 9 * time.Hour, time.Hour}, // the policy's cap
			{500, 10 * time.Minute, 0},      // its own event waits, others do not
			{503, 0, 0},
		} {
			q := newQueue(t)
			q.add(3, 0)
			first := true
			r := &receiver{deliver: func(context.Context, *destination.Request) destination.Result {
				if !first {
					return destination.Delivery(200)
				}
				first = false
				result := destination.Failure(errors.New("later"))
				result.Code, result.RetryAfter = c.code, c.after
				return result
			}}
			begin := time.Now()
			s := start(t, q, Options{}, Target{Destination: r, Concurrency: Fixed(1)})
			synctest.Wait()
			held := s.Statuses()[0].Held
			if c.paused == 0 != held.IsZero() || c.paused > 0 && held.Sub(begin) != c.paused {
				t.Errorf("%d after %v: held until %v", c.code, c.after, held)
			}
			time.Sleep(2 * time.Hour)
			synctest.Wait()
			if len(r.times) != 4 {
				t.Fatalf("%d attempts", len(r.times))
			}
			if got := r.times[1].Sub(begin); got != c.paused {
				t.Errorf("%d after %v: the next event went out after %v", c.code, c.after, got)
			}
			own := r.times[3]
			if c.paused > 0 { // then the first event is the oldest that is due
				own = r.times[1]
			}
			if own.Sub(begin) < min(c.after, time.Hour) {
				t.Errorf("%d after %v: tried again after %v", c.code, c.after, own.Sub(begin))
			}
			stop(t, s)
			q.check()
		}
	})
}

func TestConcurrencyIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			given Concurrency
			want  int
		}{{Fixed(3), 3}, {Auto{Max: 16}, 16}, {Fixed(0), 1}} {
			q := newQueue(t)
			q.add(40, 0)
			r := &receiver{deliver: func(context.Context, *destination.Request) destination.Result {
				time.Sleep(time.Second)
				return destination.Delivery(200)
			}}
			s := start(t, q, Options{}, Target{Destination: r, Concurrency: c.given})
			time.Sleep(time.Minute)
			synctest.Wait()
			if len(r.bodies) != 40 || r.peak != c.want {
				t.Errorf("%v: %d events, %d at once", c.given, len(r.bodies), r.peak)
			}
			stop(t, s)
			q.check()
		}
	})
}

func TestABlockedKeyBlocksOnlyItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(3, 1)
		q.add(3, 2)
		failures := 4
		r := &receiver{}
		r.deliver = func(_ context.Context, request *destination.Request) destination.Result {
			if request.Body[0] == 0 && failures > 0 {
				failures--
				return destination.Failure(errors.New("not yet"))
			}
			return destination.Delivery(200)
		}
		s := start(t, q, Options{}, Target{Destination: r})
		synctest.Wait()
		before := r.seen()
		slices.Sort(before)
		if !bytes.Equal(before, []byte{0, 3, 4, 5}) {
			t.Errorf("before the retry: %v", before)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if after := r.seen()[len(before):]; !bytes.Equal(after, []byte{0, 0, 0, 0, 1, 2}) {
			t.Errorf("after it: %v", after)
		}
		stop(t, s)
		q.check()
	})
}

func TestStopLetsAttemptsInFlightFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(5, 0)
		r := &receiver{deliver: func(ctx context.Context, _ *destination.Request) destination.Result {
			select {
			case <-time.After(3 * time.Second):
				return destination.Delivery(200)
			case <-ctx.Done():
				return destination.Failure(ctx.Err())
			}
		}}
		s := start(t, q, Options{}, Target{Destination: r, Concurrency: Fixed(2)})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
		if kinds := q.kinds(); !slices.Equal(kinds, []event.OutcomeKind{event.Done, event.Done}) {
			t.Errorf("outcomes %v", kinds)
		}
		if err := s.Apply(nil); !errors.Is(err, ErrStopped) {
			t.Errorf("Apply after Stop: %v", err)
		}
		stop(t, s) // a second time is harmless
		if r.closed != 1 {
			t.Errorf("closed %d times", r.closed)
		}
		q.check()
	})
}

func TestAnAttemptCutShortByStopIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(5, 0)
		r := &receiver{deliver: func(ctx context.Context, request *destination.Request,
		) destination.Result {
			<-ctx.Done()
			if request.Body[0] == 1 { // its answer came at the last moment
				return destination.Delivery(200)
			}
			return destination.Failure(fmt.Errorf("request: %w", ctx.Err()))
		}}
		gate := &countingGate{}
		s := start(t, q, Options{}, Target{Destination: r, Concurrency: Fixed(3), Gate: gate})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := s.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Stop: %v", err)
		}
		if kinds := q.kinds(); !slices.Equal(kinds, []event.OutcomeKind{event.Done}) {
			t.Errorf("outcomes %v", kinds)
		}
		if q.unleased != 2 || r.closed != 1 {
			t.Errorf("%d given back, closed %d times", q.unleased, r.closed)
		}
		gate.balanced(t)
		q.check()
	})
}

func TestStopNamesWhatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(1, 0)
		hang := make(chan struct{})
		r := &receiver{deliver: func(context.Context, *destination.Request) destination.Result {
			<-hang
			return destination.Delivery(200)
		}}
		s := start(t, q, Options{}, Target{Destination: r})
		synctest.Wait()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		err := s.Stop(ctx)
		if err == nil || !strings.Contains(err.Error(), "1 at billing") {
			t.Errorf("Stop: %v", err)
		}
		close(hang)
		synctest.Wait()
	})
}

func TestAPanicInADestinationIsLoudAndCostsOneAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(2, 0)
		panics := 1
		r := &receiver{}
		r.deliver = func(context.Context, *destination.Request) destination.Result {
			if panics > 0 {
				panics--
				panic("index out of range")
			}
			return destination.Delivery(200)
		}
		var logged bytes.Buffer
		s := start(t, q, Options{Log: log(&logged)}, Target{Destination: r, Concurrency: Fixed(1)})
		time.Sleep(time.Minute)
		synctest.Wait()
		want := []event.OutcomeKind{event.Retry, event.Done, event.Done}
		if kinds := q.kinds(); !slices.Equal(kinds, want) {
			t.Errorf("outcomes %v", kinds)
		}
		if !strings.Contains(logged.String(), "index out of range") ||
			!strings.Contains(logged.String(), "deliver_test.go") {
			t.Errorf("log: %s", logged.String())
		}
		stop(t, s)
		if q.read != 1 {
			t.Errorf("%d payloads kept: the one of the panic may still be in use", q.read)
		}
	})
}

func TestAnEventThatCannotBeReadIsNeverForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			err   error
			kinds []event.OutcomeKind
		}{
			{errors.New("checksum does not hold"), []event.OutcomeKind{event.Retry, event.Dead}},
			{fmt.Errorf("%w: seq 1", store.ErrNotFound), []event.OutcomeKind{event.Dead}},
		} {
			q, r, gate := newQueue(t), accepting(), &countingGate{}
			q.readErr = c.err
			q.add(1, 0)
			s := start(t, q, Options{}, Target{Destination: r, Gate: gate,
				Retry: retry.Policy{Attempts: 2}})
			time.Sleep(time.Minute)
			synctest.Wait()
			if kinds := q.kinds(); !slices.Equal(kinds, c.kinds) {
				t.Errorf("%v: outcomes %v", c.err, kinds)
			}
			if len(r.seen()) != 0 || gate.reported != 0 {
				t.Errorf("%v: blamed on the destination", c.err)
			}
			stop(t, s)
			gate.balanced(t)
			q.check()
		}
	})
}

func TestAReloadGoesOnWithTheNewDestination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(4, 0)
		release := make(chan struct{})
		old := &receiver{deliver: func(context.Context, *destination.Request) destination.Result {
			<-release
			return destination.Delivery(200)
		}}
		s := start(t, q, Options{}, Target{Destination: old, Concurrency: Fixed(2)})
		synctest.Wait()
		target := Target{ID: destinationID, Name: "billing", Destination: old, Concurrency: Fixed(3)}
		if err := s.Apply([]Target{target}); err != nil { // same adapter, more room
			t.Fatal(err)
		}
		synctest.Wait()
		if len(old.seen()) != 3 {
			t.Errorf("%d attempts after the limit rose", len(old.seen()))
		}
		next := accepting()
		target.Destination, target.Concurrency = next, Fixed(4)
		if err := s.Apply([]Target{target}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !bytes.Equal(next.seen(), []byte{3}) || old.closed != 0 {
			t.Errorf("new one got %v, old one closed %d times", next.seen(), old.closed)
		}
		close(release)
		synctest.Wait()
		if old.closed != 1 || next.closed != 0 {
			t.Errorf("closed: old %d, new %d", old.closed, next.closed)
		}
		if err := s.Apply(nil); err != nil {
			t.Fatal(err)
		}
		q.add(1, 0)
		synctest.Wait()
		if next.closed != 1 || len(next.seen()) != 1 || len(s.Statuses()) != 0 {
			t.Errorf("a removed destination goes on: closed %d, got %v", next.closed, next.seen())
		}
		if len(q.kinds()) != 4 {
			t.Errorf("outcomes %v", q.kinds())
		}
		target.Destination = accepting()
		if err := s.Apply([]Target{target}); err != nil { // and is given again
			t.Fatal(err)
		}
		synctest.Wait()
		if len(q.kinds()) != 5 {
			t.Errorf("outcomes %v", q.kinds())
		}
		stop(t, s)
		q.check()
	})
}

func TestApplyRefusesWhatCannotBe(t *testing.T) {
	s := New(Options{Queue: newQueue(t)})
	if s.Apply([]Target{{ID: 1, Name: "a"}}) == nil {
		t.Error("a target without an adapter is taken")
	}
	if s.Apply([]Target{{ID: 1, Destination: accepting()}, {ID: 1, Destination: accepting()}}) == nil {
		t.Error("an id is taken twice")
	}
	stop(t, s)
}

func TestASignalIsNotNeededForWhatBecomesDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, r := newQueue(t), accepting()
		q.add(1, 0)
		q.entries[0].due = time.Now().Add(90 * time.Second)
		begin := time.Now()
		s := start(t, q, Options{}, Target{Destination: r})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if len(r.times) != 1 || r.times[0].Sub(begin) < 90*time.Second ||
			r.times[0].Sub(begin) > 90*time.Second+waitMin {
			t.Errorf("attempts at %v", r.times)
		}
		stop(t, s)
		q.check()
	})
}
