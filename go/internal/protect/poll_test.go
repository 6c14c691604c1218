package protect

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/go/internal/breaker"
)

// source is one whose answers a test sets.
type source struct {
	mu     sync.Mutex
	levels []breaker.Level
	err    error
	hangs  bool
	reads  int
	closed int
}

func (s *source) Read(ctx context.Context) ([]breaker.Level, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if s.hangs {
		s.mu.Unlock()
		<-ctx.Done()
		s.mu.Lock()
		return nil, ctx.Err()
	}
	return s.levels, s.err
}

func (s *source) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed++
	return nil
}

func (s *source) set(err error, levels ...breaker.Level) {
	s.mu.Lock()
	s.levels, s.err = levels, err
	s.mu.Unlock()
}

func (s *source) count() (reads, closed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads, s.closed
}

func pool(value float64) breaker.Level {
	return breaker.Level{Signal: "pool", Value: value, Trip: 0.85, Recover: 0.5, Pool: true}
}

// level finds a signal of the first breaker.
func level(s *Service, name string) *breaker.Signal {
	for _, g := range s.List()[0].Signals {
		if g.Name == name {
			return &g
		}
	}
	return nil
}

func watched(src *source) Config {
	target := billing()
	target.Signals = []Signal{{Name: "db", Interval: time.Second, Source: src}}
	return Config{Targets: []Target{target}}
}

func TestALevelThatIsSickOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{}
		src.set(nil, pool(0.6), breaker.Level{Signal: "db", Value: 1, Trip: 5, Recover: 2})
		s := serve(t, Options{}, watched(src))
		pass(10 * time.Second)
		if reads, _ := src.count(); s.NotClosed(1) || reads < 9 || reads > 12 {
			t.Errorf("%v after %d reads", at(s), reads)
		}
		if level(s, "db") == nil || level(s, "db.pool") == nil {
			t.Errorf("%+v", s.List()[0].Signals)
		}
		src.set(nil, pool(0.9))
		pass(1100 * time.Millisecond)
		if l := s.List()[0]; l.State != breaker.Open || l.Reason != "db.pool is 0.9, 0.85 trips" {
			t.Errorf("%+v", l)
		}
		if level(s, "db") != nil {
			t.Error("a level that is given no more is still there")
		}
	})
}

func TestADeadSourceIsFlaggedAndTripsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log journal
		src := &source{}
		src.set(errors.New("connect: refused"))
		s := serve(t, Options{Log: log.logger()}, watched(src))
		pass(10 * time.Second)
		if g := level(s, "db"); g == nil || !g.Stale || g.Err != "connect: refused" || g.Verdict != "" {
			t.Errorf("%+v", g)
		}
		src.set(nil, pool(0.6))
		pass(2 * time.Second)
		if g := level(s, "db.pool"); g == nil || g.Stale || g.Verdict != "between" ||
			level(s, "db") != nil {
			t.Errorf("%+v", s.List()[0].Signals)
		}
		src.mu.Lock()
		src.hangs = true
		src.mu.Unlock()
		pass(time.Minute)
		if g := level(s, "db.pool"); g == nil || !g.Stale || g.Value != 0.6 {
			t.Errorf("%+v", g)
		}
		if s.NotClosed(1) {
			t.Error("opened")
		}
		if n := strings.Count(log.String(), "signal is dead"); n != 2 {
			t.Errorf("logged %d times:\n%s", n, log.String())
		}
	})
}

func TestASourceIsClosedWhenItIsGivenNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := &source{}, &source{}
		t.Cleanup(func() { // after the service has stopped
			if _, closed := second.count(); closed != 1 {
				t.Errorf("closed %d times", closed)
			}
		})
		first.set(nil, pool(0.9))
		s := serve(t, Options{}, watched(first))
		synctest.Wait()
		if err := s.Apply(watched(first)); err != nil { // the same again
			t.Fatal(err)
		}
		pass(3 * time.Second)
		if _, closed := first.count(); closed != 0 {
			t.Error("closed though it is given")
		}
		other := watched(second)
		other.Targets[0].Signals[0].Name = "other"
		if err := s.Apply(other); err != nil {
			t.Fatal(err)
		}
		pass(3 * time.Second)
		_, closed := first.count()
		if reads, _ := second.count(); closed != 1 || reads == 0 {
			t.Errorf("closed %d times, %d reads of the second", closed, reads)
		}
		if level(s, "db.pool") != nil {
			t.Error("the level of a source that is gone holds the probe back")
		}
	})
}

func TestTheSpanOfTheConfigReplacesTheSourcesOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{}
		src.set(nil, pool(0.9))
		config := watched(src)
		config.Targets[0].Signals[0].For = 10 * time.Second
		s := serve(t, Options{}, config)
		pass(9500 * time.Millisecond)
		if s.NotClosed(1) {
			t.Error("too early")
		}
		pass(time.Second)
		if !s.NotClosed(1) {
			t.Error("not opened")
		}
	})
}

func TestAReloadIsNoRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{}
		src.set(nil, pool(0.9))
		s := serve(t, Options{}, watched(src))
		await(t, time.Second, "open", func() bool { return s.NotClosed(1) })
		src = &source{} // the same signal, opened anew
		src.set(nil, pool(0.6))
		if err := s.Apply(watched(src)); err != nil {
			t.Fatal(err)
		}
		pass(time.Hour)
		if at(s)["billing"] != breaker.Open {
			t.Error("a pool that was sick is well without having been below recover")
		}
		src.set(nil)
		await(t, 5*time.Second, "half open", func() bool { return at(s)["billing"] != breaker.Open })
	})
}
