package postgres

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/go/internal/destination"
	"sluice/go/internal/event"
)

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

func open(t testing.TB, url string, change func(*Options)) *Destination {
	t.Helper()
	o := Options{URL: url, CreateTable: true, AcquireTimeout: patience}
	if change != nil {
		change(&o)
	}
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// session is a connection of the test's own.
type session struct {
	*pgx.Conn
	t testing.TB
}

func connect(t testing.TB, url string) session {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return session{c, t}
}

func (s session) run(statement string, args ...any) {
	s.t.Helper()
	if _, err := s.Exec(context.Background(), statement, args...); err != nil {
		s.t.Fatalf("%s: %v", statement, err)
	}
}

func value[T any](s session, query string, args ...any) (v T) {
	s.t.Helper()
	if err := s.QueryRow(context.Background(), query, args...).Scan(&v); err != nil {
		s.t.Fatalf("%s: %v", query, err)
	}
	return v
}

func (s session) count() int { return value[int](s, "SELECT count(*) FROM sluice_events") }

// lockWaiters counts the statements of destinations that wait for a lock.
func lockWaiters(s session) int {
	s.t.Helper()
	s.run("SELECT pg_stat_clear_snapshot()") // it lasts for a transaction otherwise
	return value[int](s, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'
		AND application_name = 'sluice' AND datname = current_database()`)
}

// killConnections ends those of destinations.
func killConnections(s session) int {
	s.t.Helper()
	return value[int](s, `SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity
		WHERE application_name = 'sluice' AND datname = current_database()`)
}

// waiting counts the rows that no connection has taken.
func waiting(d *Destination) int {
	d.line.mu.Lock()
	defer d.line.mu.Unlock()
	return d.line.waiting
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come in %v", what, patience)
		}
	}
}

func numbered(n int) event.ID {
	var lane event.LaneID
	binary.BigEndian.PutUint64(lane[:], uint64(n))
	return event.NewID(lane, uint64(n), uint64(1_700_000_000_000_000_000+n*1_000_000))
}

func request(n int, body string) *destination.Request {
	return &destination.Request{
		EventID: numbered(n), Source: "github", Attempt: 1, Method: "POST", Target: "/hooks",
		Headers:    []destination.Header{{Name: []byte("X-A"), Value: []byte("b")}},
		ReceivedNS: 1_700_000_000_123_456_000, Body: []byte(body),
	}
}

// deliver hands all requests over at once and gives their results in the same order.
func deliver(d *Destination, requests ...*destination.Request) []destination.Result {
	results := make([]destination.Result, len(requests))
	var group sync.WaitGroup
	for i, r := range requests {
		group.Go(func() { results[i] = d.Deliver(context.Background(), r) })
	}
	group.Wait()
	return results
}

func one(d *Destination, r *destination.Request) destination.Result { return deliver(d, r)[0] }

func delivered(t testing.TB, results ...destination.Result) {
	t.Helper()
	for i, r := range results {
		if r.Kind != destination.Delivered {
			t.Fatalf("result %d of %d: %v, %v", i, len(results), r.Kind, r.Err)
		}
	}
}

func failed(t testing.TB, r destination.Result, text string) {
	t.Helper()
	if r.Kind != destination.Retry || r.Err == nil || !strings.Contains(r.Err.Error(), text) {
		t.Fatalf("got %v, %v, want a retry with %q", r.Kind, r.Err, text)
	}
}

// dice are seeded by SLUICE_SEED where it is set.
func dice(t testing.TB) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("SLUICE_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("SLUICE_SEED: %v", err)
		}
	}
	t.Logf("SLUICE_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
