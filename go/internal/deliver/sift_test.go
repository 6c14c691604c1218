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
)

// filter is one made of a function.
type filter func(r *destination.Request) (bool, error)

func (f filter) Match(r *destination.Request) (bool, error) { return f(r) }

// transform is one made of a function.
type transform func(r *destination.Request) ([]byte, string, error)

func (f transform) Apply(r *destination.Request) ([]byte, string, error) { return f(r) }

// odd matches every other event.
var odd = filter(func(r *destination.Request) (bool, error) { return r.Body[0]%2 == 1, nil })

func TestWhatTheFilterDoesNotWantIsSkippedAndNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, r, gate := newQueue(t), accepting(), &countingGate{}
		q.add(10, 0)
		var told []string
		var concluded []event.OutcomeKind
		var mu sync.Mutex
		s := start(t, q, Options{
			Outcome: func(_, outcome string, _ int, _ time.Duration) {
				mu.Lock()
				told = append(told, outcome)
				mu.Unlock()
			},
			Concluded: func(c Conclusion) {
				mu.Lock()
				concluded = append(concluded, c.Kind)
				mu.Unlock()
			},
		}, Target{Destination: r, Gate: gate, Filter: odd})
		synctest.Wait()
		got := r.seen()
		slices.Sort(got)
		if !bytes.Equal(got, []byte{1, 3, 5, 7, 9}) || gate.reported != 5 {
			t.Errorf("delivered %v, reported %d", got, gate.reported)
		}
		for _, list := range [][]event.OutcomeKind{q.kinds(), concluded} {
			slices.Sort(list)
			want := slices.Repeat([]event.OutcomeKind{event.Done}, 5)
			if !slices.Equal(list, append(want, slices.Repeat([]event.OutcomeKind{event.Skip}, 5)...)) {
				t.Errorf("outcomes %v", list)
			}
		}
		if n := strings.Count(strings.Join(told, " "), "skipped"); n != 5 {
			t.Errorf("told %v", told)
		}
		stop(t, s)
		gate.balanced(t)
		q.check()
	})
}

func TestWhatIsNotWantedWaitsForNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, r := newQueue(t), hanging(time.Hour)
		q.add(40, 0)
		s := start(t, q, Options{}, Target{Destination: r, Concurrency: Fixed(1), Filter: odd})
		pass(time.Second)
		if got := len(q.kinds()); got != 20 {
			t.Errorf("%d of 20 are skipped while the first attempt hangs", got)
		}
		q.add(1, 0) // comes later, and is not wanted either
		synctest.Wait()
		if got := len(q.kinds()); got != 21 || len(r.seen()) != 1 {
			t.Errorf("%d of 21 are skipped, %d attempts", got, len(r.seen()))
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Stop(ctx)
		q.check()
	})
}

func TestAnEventOfManyWhichTheFilterWantsPassesARampAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, r := newQueue(t), accepting()
		gate := &countingGate{bounded: true, allowance: 1, wait: time.Hour}
		q.add(1000, 0)
		wanted := filter(func(r *destination.Request) (bool, error) {
			return r.EventID == event.NewID(event.LaneID{1}, 999, 0), nil
		})
		s := start(t, q, Options{}, Target{Destination: r, Gate: gate, Filter: wanted})
		pass(time.Second)
		if len(r.seen()) != 1 || len(q.kinds()) != 1000 {
			t.Errorf("%d attempts, %d outcomes", len(r.seen()), len(q.kinds()))
		}
		stop(t, s)
		gate.balanced(t)
		q.check()
	})
}

func TestAnExpressionWithoutAnAnswerMakesADeadLetterThatKeepsTheEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := func(*destination.Request) error { return errors.New("no such key: type") }
		panics := func(*destination.Request) error { panic("index out of range") }
		for _, c := range []struct {
			run  func(*destination.Request) error
			text string
		}{{fails, "no such key: type"}, {panics, "panic: index out of range"}} {
			for what, target := range map[string]Target{
				"filter": {Filter: filter(func(r *destination.Request) (bool, error) {
					return true, c.run(r)
				})},
				"transform": {Transform: transform(func(r *destination.Request) ([]byte, string, error) {
					return nil, "", c.run(r)
				})},
			} {
				q, r, gate := newQueue(t), accepting(), &countingGate{}
				q.add(200, 0)
				var logged bytes.Buffer
				target.Destination, target.Gate = r, gate
				s := start(t, q, Options{Log: log(&logged)}, target)
				pass(time.Second)
				if len(q.outcomes) != 200 || len(r.seen()) != 0 || gate.reported != 0 {
					t.Fatalf("%s: %d outcomes, %d attempts", what, len(q.outcomes), len(r.seen()))
				}
				o := q.outcomes[0]
				if o.Kind != event.Dead || o.Err != what+": "+c.text || o.Attempt != 1 {
					t.Errorf("%s: %+v", what, o)
				}
				if n := strings.Count(logged.String(), "dead letter"); n != 1 {
					t.Errorf("%s: %d lines of dead letters", what, n)
				}
				stop(t, s)
				gate.balanced(t)
				q.check()
			}
		}
	})
}

func TestATransformChangesTheRequestAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct{ kind, headers string }{
			{"", `[{"x-Odd" "caf\xe9"} {"content-TYPE" "text/plain"} {"X-Empty" ""}]`},
			{"application/json", `[{"x-Odd" "caf\xe9"} {"X-Empty" ""} {"Content-Type" "application/json"}]`},
		} {
			q := newQueue(t)
			q.headers = [][2]string{{"x-Odd", "caf\xe9"}, {"content-TYPE", "text/plain"}, {"X-Empty", ""}}
			q.add(3, 0)
			var mu sync.Mutex
			var got []string
			r := &receiver{deliver: func(_ context.Context, r *destination.Request) destination.Result {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, fmt.Sprintf("%q %q", r.Body, r.Headers))
				return destination.Delivery(200)
			}}
			by := transform(func(r *destination.Request) ([]byte, string, error) {
				return append([]byte("event "), '0'+r.Body[0]), c.kind, nil
			})
			s := start(t, q, Options{}, Target{Destination: r, Transform: by, Concurrency: Fixed(1)})
			synctest.Wait()
			for i, line := range got {
				if want := fmt.Sprintf("%q %s", fmt.Sprint("event ", i), c.headers); line != want {
					t.Errorf("got  %s\nwant %s", line, want)
				}
			}
			if len(got) != 3 {
				t.Errorf("%d attempts", len(got))
			}
			stop(t, s)
			q.check()
		}
	})
}

func TestAFilterSeesTheEventAsItCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, r := newQueue(t), accepting()
		q.add(1, 5)
		var got string
		s := start(t, q, Options{}, Target{Destination: r,
			Filter: filter(func(r *destination.Request) (bool, error) {
				got = fmt.Sprintf("%s %s %q %q %d", r.Method, r.Target, r.Headers, r.Body, r.OrderKey)
				return true, nil
			}),
			Transform: transform(func(*destination.Request) ([]byte, string, error) {
				return []byte("other"), "", nil
			})})
		synctest.Wait()
		if want := `PUT /in?x=1 [{"x-Odd" "caf\xe9"} {"X-Empty" ""}] "\x00\x00\xff" 5`; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		stop(t, s)
		q.check()
	})
}
