package workers_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/go/internal/breaker"
	"sluice/go/internal/signal"
	"sluice/go/internal/signal/workers"
	"sluice/go/internal/testserver"
)

const patience = 30 * time.Second

var threshold = signal.Threshold{Trip: 0.3, Recover: 0.1, For: time.Second}

// rig is a registry with a clock of its own and one source, of the breaker "db".
type rig struct {
	*workers.Registry
	t   *testing.T
	now time.Time
	src *workers.Source
	log bytes.Buffer
}

func newRig(t *testing.T, client *redis.Client) *rig {
	t.Helper()
	r := &rig{t: t, now: time.Unix(1e9, 0)}
	r.Registry = workers.New(workers.Options{Redis: client, Prefix: "test",
		Now: func() time.Time { return r.now }, Log: slog.New(slog.NewTextHandler(&r.log, nil))})
	r.src = r.open(workers.SourceOptions{Breaker: "db", Threshold: threshold,
		After: 2 * time.Second, Redis: client != nil})
	return r
}

func (r *rig) open(o workers.SourceOptions) *workers.Source {
	r.t.Helper()
	s, err := r.Source(o)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = s.Close() })
	return s
}

func (r *rig) report(worker, state string, span, ttl time.Duration) {
	r.t.Helper()
	if err := r.Report("db", worker, state, span, ttl); err != nil {
		r.t.Fatal(err)
	}
}

// share is the level's value; -1: nothing to say.
func (r *rig) share() float64 {
	r.t.Helper()
	return r.level().Value
}

func (r *rig) level() breaker.Level {
	r.t.Helper()
	levels, err := r.src.Read(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	if len(levels) == 0 {
		return breaker.Level{Value: -1}
	}
	return levels[0]
}

func (r *rig) want(share float64) {
	r.t.Helper()
	if got := r.share(); got != share {
		r.t.Errorf("share %v, want %v", got, share)
	}
}

func TestTheShareIsOfLivingWorkersThatWaitForTooLong(t *testing.T) {
	r := newRig(t, nil)
	r.want(-1)
	r.report("a", "lock_wait", 2001*time.Millisecond, 0)
	r.report("b", "lock_wait", 2*time.Second, 0) // not longer
	r.report("c", "busy", time.Hour, 0)
	r.report("d", "idle", time.Hour, 0)
	r.want(0.25)
	r.report("b", "lock_wait", 3*time.Second, 0)
	r.want(0.5)
	r.report("a", "busy", 0, 0)
	r.want(0.25)
	l := r.level()
	if l.Signal != "workers" || l.Trip != 0.3 || l.Recover != 0.1 || l.For != time.Second || l.Pool {
		t.Errorf("level %+v", l)
	}
}

func TestAWorkerThatSaysNothingIsForgotten(t *testing.T) {
	r := newRig(t, nil)
	r.report("short", "lock_wait", time.Minute, 5*time.Second)
	r.report("usual", "busy", 0, 0)
	r.now = r.now.Add(5*time.Second - 1)
	r.want(0.5)
	r.now = r.now.Add(1)
	r.want(0)
	r.now = r.now.Add(10 * time.Second)
	r.want(-1)
}

func TestAReportThatMakesNoSenseIsRefused(t *testing.T) {
	r := newRig(t, nil)
	for name, err := range map[string]error{
		"no name":   r.Report("db", "", "busy", 0, 0),
		"long name": r.Report("db", strings.Repeat("x", 129), "busy", 0, 0),
		"state":     r.Report("db", "a", "asleep", 0, 0),
		"span":      r.Report("db", "a", "busy", -1, 0),
		"lifetime":  r.Report("db", "a", "busy", 0, -1),
		"long life": r.Report("db", "a", "busy", 0, 11*time.Minute),
		"endless":   r.Report("db", "a", "busy", 1<<63-1, 0),
	} {
		if !errors.Is(err, workers.ErrReport) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.want(-1)
}

func TestOnlyABreakerWithASourceTakesReports(t *testing.T) {
	r := newRig(t, nil)
	if err := r.Report("other", "a", "busy", 0, 0); !errors.Is(err, workers.ErrUnwatched) {
		t.Errorf("%v", err)
	}
	// The reports outlive one source of two, as when a config changes.
	r.report("a", "busy", 0, 0)
	second := r.open(workers.SourceOptions{Breaker: "db", Name: "second", Threshold: threshold})
	_ = r.src.Close()
	_ = r.src.Close()
	r.src = second
	if got := r.level(); got.Signal != "second" || got.Value != 0 {
		t.Errorf("level %+v", got)
	}
	_ = second.Close()
	if err := r.Report("db", "a", "busy", 0, 0); !errors.Is(err, workers.ErrUnwatched) {
		t.Errorf("%v", err)
	}
}

func TestWorkersOfABreakerAreBounded(t *testing.T) {
	r := newRig(t, nil)
	for i := range workers.PerBreakerMax {
		r.report(fmt.Sprint(i), "busy", 0, time.Second)
	}
	if err := r.Report("db", "more", "busy", 0, 0); !errors.Is(err, workers.ErrFull) {
		t.Errorf("%v", err)
	}
	r.report("7", "lock_wait", 0, time.Second) // one that is known
	r.now = r.now.Add(time.Second)
	r.report("more", "busy", 0, 0) // the others are forgotten
	r.want(0)
}

func TestASourceThatWantsRedisNeedsOne(t *testing.T) {
	if _, err := newRig(t, nil).Source(workers.SourceOptions{Breaker: "x", Redis: true}); err == nil {
		t.Error("a source without Redis was opened")
	}
}

func redisRig(t *testing.T) (*rig, *redis.Client, *testserver.RedisServer) {
	t.Helper()
	server := testserver.Redis(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { _ = client.Close() })
	return newRig(t, client), client, server
}

func set(t *testing.T, client *redis.Client, key, value string, ttl time.Duration) {
	t.Helper()
	if err := client.Set(t.Context(), key, value, ttl).Err(); err != nil {
		t.Fatal(err)
	}
}

const (
	waits = `{"state": "lock_wait", "state_ms": 2500, "at": "2030-01-02T03:04:05Z"}`
	works = `{"state": "busy"}`
)

func TestHeartbeatsInRedisCountBesideReports(t *testing.T) {
	r, client, _ := redisRig(t)
	set(t, client, "test:worker:db:a", waits, time.Minute)
	set(t, client, "test:worker:db:host:7", works, time.Minute)
	set(t, client, "test:worker:db2:a", waits, time.Minute)
	set(t, client, "other:worker:db:b", waits, time.Minute)
	set(t, client, "test:worker:db:", waits, time.Minute)
	r.want(0.5)
	r.report("c", "lock_wait", 3*time.Second, 0)
	r.want(2.0 / 3)
	r.report("a", "idle", 0, 0) // the report of a worker counts before its heartbeat
	r.want(1.0 / 3)
	// A source that was not told to look there does not.
	r.src = r.open(workers.SourceOptions{Breaker: "db", Threshold: threshold, After: 2 * time.Second})
	r.want(0.5)
}

func TestAHeartbeatEndsWithItsTTL(t *testing.T) {
	r, client, _ := redisRig(t)
	set(t, client, "test:worker:db:a", waits, 20*time.Millisecond)
	for deadline := time.Now().Add(patience); r.share() >= 0; {
		if time.Now().After(deadline) {
			t.Fatal("the heartbeat stays")
		}
	}
}

func TestAPatternInABreakersNameFindsNoOthers(t *testing.T) {
	r, client, _ := redisRig(t)
	set(t, client, "test:worker:d*:a", works, time.Minute)
	set(t, client, "test:worker:db:b", waits, time.Minute)
	r.src = r.open(workers.SourceOptions{Breaker: "d*", Threshold: threshold, Redis: true})
	r.want(0)
}

func TestHeartbeatsThatCannotBeReadAreCountedAndDoNotCount(t *testing.T) {
	r, client, _ := redisRig(t)
	for worker, text := range map[string]string{
		"json": "{", "state": `{"state": "asleep"}`, "span": `{"state": "busy", "state_ms": -1}`,
		"type": `{"state": "lock_wait", "state_ms": "long"}`,
		"long": `{"state": "busy"}` + strings.Repeat(" ", 1024),
	} {
		set(t, client, "test:worker:db:"+worker, text, time.Minute)
	}
	set(t, client, "test:worker:db:forever", waits, 0)
	set(t, client, "test:worker:db:for long", waits, time.Hour)
	if err := client.LPush(t.Context(), "test:worker:db:list", "x").Err(); err != nil {
		t.Fatal(err)
	}
	_, err := r.src.Read(t.Context())
	if err == nil || !strings.Contains(err.Error(), "8 heartbeats") {
		t.Errorf("nothing but garbage: %v", err)
	}
	// With one that can be read the others are left out, and that is logged once.
	set(t, client, "test:worker:db:good", waits, time.Minute)
	for range 2 {
		r.want(1)
	}
	if got := strings.Count(r.log.String(), "8 heartbeats"); got != 1 {
		t.Errorf("logged %d times, want once:\n%s", got, r.log.String())
	}
}

func TestManyHeartbeatsAreReadAndTooManyAreAnError(t *testing.T) {
	r, client, _ := redisRig(t)
	fill := func(from, to int) {
		pipeline := client.Pipeline()
		for i := from; i < to; i++ {
			text := works
			if i%4 == 0 {
				text = waits
			}
			pipeline.Set(t.Context(), fmt.Sprintf("test:worker:db:%d", i), text, time.Minute)
		}
		if _, err := pipeline.Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	fill(0, workers.PerBreakerMax)
	r.want(0.25)
	fill(workers.PerBreakerMax, workers.PerBreakerMax+1)
	if _, err := r.src.Read(t.Context()); !errors.Is(err, workers.ErrFull) {
		t.Errorf("%v", err)
	}
}

func TestWithoutItsRedisTheSourceIsDeadUntilItIsBack(t *testing.T) {
	r, client, server := redisRig(t)
	r.report("a", "busy", 0, 0)
	r.want(0)
	server.Kill()
	if levels, err := r.src.Read(t.Context()); err == nil {
		t.Errorf("without Redis: %+v", levels)
	}
	server.Start()
	set(t, client, "test:worker:db:b", waits, time.Minute)
	r.want(0.5)
}
