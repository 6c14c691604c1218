package postgres_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/go/internal/breaker"
	"sluice/go/internal/signal"
	"sluice/go/internal/signal/postgres"
	"sluice/go/internal/testserver"
)

const patience = 30 * time.Second

var (
	pool    = signal.Threshold{Trip: 0.85, Recover: 0.5}
	locks   = signal.Threshold{Trip: 5, Recover: 1, For: time.Second}
	blocked = signal.Threshold{Trip: 0.3, Recover: 0.1}
)

func open(t *testing.T, o postgres.Options) *postgres.Source {
	t.Helper()
	s, err := postgres.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func read(t *testing.T, s signal.Source) map[string]breaker.Level {
	t.Helper()
	levels, err := s.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]breaker.Level{}
	for _, l := range levels {
		byName[l.Signal] = l
	}
	return byName
}

// until reads until the level holds, since a backend shows its state a moment after it has it.
func until(t *testing.T, s signal.Source, name string, want float64) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		got := read(t, s)[name].Value
		if math.Abs(got-want) < 1e-9 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s stays at %v, want %v", name, got, want)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func connect(t *testing.T, url string, statements ...string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	for _, statement := range statements {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	return conn
}

func TestTheServersPoolCountsEveryClientOfWhatIsNotReserved(t *testing.T) {
	// 20 less the 3 that are reserved for superusers by default.
	server := testserver.OwnPostgres(t, "max_connections=20")
	s := open(t, postgres.Options{URL: server.URL, Pool: pool})
	level := read(t, s)["pool"]
	if !level.Pool || level.Trip != pool.Trip || level.Recover != pool.Recover {
		t.Fatalf("level %+v", level)
	}
	for range 4 {
		connect(t, server.URL) // idle
	}
	until(t, s, "pool", 5.0/17) // with the signal's own
}

func TestAServerWithoutAFreeConnectionIsAFullPool(t *testing.T) {
	server := testserver.OwnPostgres(t, "max_connections=5", "superuser_reserved_connections=1")
	connect(t, server.URL, "CREATE ROLE app LOGIN").Close(t.Context())
	s := open(t, postgres.Options{URL: server.As("app"), Pool: pool, Locks: locks})
	var taken []*pgx.Conn
	for {
		conn, err := pgx.Connect(t.Context(), server.As("app"))
		if err != nil {
			break
		}
		taken = append(taken, conn)
	}
	levels, err := s.Read(t.Context())
	if err != nil || len(levels) != 1 || levels[0].Value != 1 || !levels[0].Pool {
		t.Fatalf("levels %+v, %v; want the pool alone, full", levels, err)
	}
	for _, conn := range taken {
		conn.Close(t.Context())
	}
	// The server frees what was closed a moment later.
	until(t, s, "pool", 1.0/4)
}

func TestAnApplicationsPoolCountsWhatIsNotIdleUnderItsName(t *testing.T) {
	server := testserver.OwnPostgres(t)
	name := `it's a \ "pool"`
	named := func(statements ...string) {
		set := "SET application_name = '" + strings.ReplaceAll(name, "'", "''") + "'"
		connect(t, server.URL, append([]string{set}, statements...)...)
	}
	s := open(t, postgres.Options{URL: server.URL, Pool: pool, Application: name, Size: 10})
	named()                         // idle
	named("BEGIN")                  // idle in transaction: in use
	connect(t, server.URL, "BEGIN") // another application
	named("BEGIN", "SELECT 1")      // in use
	until(t, s, "pool", 2.0/10)
}

func TestAPoolOfASizeCountsWhatIsNotIdleOfTheURLsUserAndDatabase(t *testing.T) {
	server := testserver.OwnPostgres(t)
	connect(t, server.URL, "CREATE ROLE app LOGIN", "CREATE DATABASE other")
	elsewhere := strings.Replace(server.As("app"), "/postgres?", "/other?", 1)
	connect(t, server.As("app"), "BEGIN")
	connect(t, server.As("app"))
	connect(t, elsewhere, "BEGIN")
	connect(t, server.URL, "BEGIN")
	s := open(t, postgres.Options{URL: server.As("app"), Pool: pool, Size: 4})
	until(t, s, "pool", 1.0/4)
}

// contend lets a transaction hold a row, idle, and n others wait for it. The holder is returned.
func contend(t *testing.T, url string, n int) *pgx.Conn {
	t.Helper()
	connect(t, url, "CREATE TABLE hot (id int PRIMARY KEY, n int)", "INSERT INTO hot VALUES (1, 0)",
		"GRANT ALL ON hot TO PUBLIC")
	holder := connect(t, url, "BEGIN", "UPDATE hot SET n = n + 1 WHERE id = 1")
	done := make(chan struct{}, n)
	ctx, cancel := context.WithCancel(context.Background())
	for range n {
		waiter := connect(t, url)
		go func() {
			_, _ = waiter.Exec(ctx, "UPDATE hot SET n = n + 1 WHERE id = 1")
			done <- struct{}{}
		}()
	}
	t.Cleanup(func() {
		cancel()
		for range n {
			<-done
		}
	})
	return holder
}

func TestWaitersForARowAreCountedUntilItIsFree(t *testing.T) {
	server := testserver.OwnPostgres(t)
	s := open(t, postgres.Options{URL: server.URL, Locks: locks, Blocked: blocked})
	if got := read(t, s); got["locks"].Value != 0 || got["blocked"].Value != 0 {
		t.Fatalf("an idle server: %+v", got)
	}
	holder := contend(t, server.URL, 6)
	until(t, s, "locks", 6)
	// 6 waiters, their holder, and the one that made the table.
	until(t, s, "blocked", 6.0/8)
	if got := read(t, s)["locks"]; got.For != locks.For || got.Trip != locks.Trip {
		t.Fatalf("level %+v", got)
	}
	if _, err := holder.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	until(t, s, "locks", 0)
	until(t, s, "blocked", 0)
}

func TestAWaitShorterThanAskedIsNoWaiterHoweverLongItsStatementRuns(t *testing.T) {
	server := testserver.OwnPostgres(t)
	connect(t, server.URL, "CREATE TABLE hot (id int PRIMARY KEY, n int)",
		"INSERT INTO hot VALUES (1, 0)")
	connect(t, server.URL, "BEGIN", "UPDATE hot SET n = n + 1 WHERE id = 1")
	// The statement is older than the bound before it begins to wait.
	after := 20 * time.Second
	worker := connect(t, server.URL)
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		_, _ = worker.Exec(ctx, `DO $$ BEGIN PERFORM pg_sleep(0.5); UPDATE hot SET n = 2; END $$`)
	}()
	defer func() { cancel(); <-ended }()
	all := open(t, postgres.Options{URL: server.URL, Locks: locks})
	until(t, all, "locks", 1)
	began := time.Now()
	short := open(t, postgres.Options{URL: server.URL, Locks: locks, After: after})
	if got := read(t, short)["locks"].Value; got != 0 && time.Since(began) < after/2 {
		t.Fatalf("%v waiters for longer than %v", got, after)
	}
	exact := open(t, postgres.Options{URL: server.URL, Locks: locks, After: 400 * time.Millisecond})
	if got := read(t, exact)["locks"].Value; got != 0 && time.Since(began) < 300*time.Millisecond {
		t.Fatalf("%v waiters for longer than 400ms: the start of the statement was taken", got)
	}
	until(t, exact, "locks", 1)
}

func TestWaitersInAnotherDatabaseAreNotOurs(t *testing.T) {
	server := testserver.OwnPostgres(t)
	connect(t, server.URL, "CREATE DATABASE other")
	other := strings.Replace(server.URL, "/postgres?", "/other?", 1)
	contend(t, other, 2)
	until(t, open(t, postgres.Options{URL: other, Locks: locks}), "locks", 2)
	s := open(t, postgres.Options{URL: server.URL, Locks: locks, Blocked: blocked})
	if got := read(t, s); got["locks"].Value != 0 || got["blocked"].Value != 0 {
		t.Fatalf("waiters of another database: %+v", got)
	}
}

func TestMoreWaitersThanAreAskedAreJudgedByThoseAsked(t *testing.T) {
	server := testserver.OwnPostgres(t)
	s := open(t, postgres.Options{URL: server.URL, Blocked: blocked})
	contend(t, server.URL, 40)
	until(t, s, "blocked", 40.0/42)
}

func TestARoleWithoutMonitorSeesWaitersAndSaysOnceWhatIsHidden(t *testing.T) {
	server := testserver.OwnPostgres(t, "max_connections=20")
	connect(t, server.URL, "CREATE ROLE plain LOGIN")
	var log bytes.Buffer
	s := open(t, postgres.Options{URL: server.As("plain"), Pool: pool, Locks: locks,
		Log: slog.New(slog.NewTextHandler(&log, nil))})
	contend(t, server.URL, 3) // of the superuser, whose state is hidden from plain
	until(t, s, "locks", 3)
	// The waiters, their holder, the two that made the role and the table, and the signal's own.
	until(t, s, "pool", 7.0/17)
	if got := strings.Count(log.String(), "pg_monitor"); got != 1 {
		t.Fatalf("said %d times what is hidden, want once:\n%s", got, log.String())
	}
	log.Reset()
	connect(t, server.URL, "GRANT pg_monitor TO plain")
	full := open(t, postgres.Options{URL: server.As("plain"), Pool: pool,
		Log: slog.New(slog.NewTextHandler(&log, nil))})
	read(t, full)
	if log.Len() != 0 {
		t.Fatalf("with pg_monitor: %s", log.String())
	}
}

func TestAReadingComesBackWithTheServer(t *testing.T) {
	server := testserver.OwnPostgres(t)
	s := open(t, postgres.Options{URL: server.URL, Pool: pool})
	read(t, s)
	server.Kill()
	for range 2 {
		if levels, err := s.Read(t.Context()); err == nil {
			t.Fatalf("a dead server gives %+v", levels)
		}
	}
	server.Start()
	read(t, s)
}

func TestAReadingThatHangsEndsWithTheStatementTimeout(t *testing.T) {
	server := testserver.OwnPostgres(t)
	s := open(t, postgres.Options{URL: server.URL, Pool: pool, Timeout: 50 * time.Millisecond})
	read(t, s)
	// Nobody may look up a database by name while its catalogue is locked.
	holder := connect(t, server.URL, "BEGIN", "LOCK TABLE pg_database IN ACCESS EXCLUSIVE MODE")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := s.Read(ctx)
	if err == nil || !strings.Contains(err.Error(), "statement timeout") {
		t.Fatalf("read: %v, want the statement timeout", err)
	}
	if _, err := holder.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	read(t, s)
}

func TestAReadingEndsWithItsContext(t *testing.T) {
	server := testserver.OwnPostgres(t)
	s := open(t, postgres.Options{URL: server.URL, Pool: pool, Timeout: time.Hour})
	read(t, s)
	connect(t, server.URL, "BEGIN", "LOCK TABLE pg_database IN ACCESS EXCLUSIVE MODE")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := s.Read(ctx)
		ended <- err
	}()
	select {
	case err := <-ended:
		if err == nil {
			t.Fatal("a reading of a locked catalogue succeeded")
		}
	case <-time.After(patience):
		t.Fatal("the reading outlives its context")
	}
}

func TestErrorsHoldNoPassword(t *testing.T) {
	const secret = "hunter2-very-secret"
	for _, url := range []string{
		"postgres://u:" + secret + "@127.0.0.1:notaport/x",
		"postgres://u:" + secret + "@127.0.0.1:1/x?sslmode=" + secret,
		"host=127.0.0.1 port=x password=" + secret,
	} {
		_, err := postgres.New(postgres.Options{URL: url, Pool: pool})
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("New: %v", err)
		}
	}
	s := open(t, postgres.Options{URL: fmt.Sprintf("postgres://u:%s@127.0.0.1:1/x", secret),
		Pool: pool})
	if _, err := s.Read(t.Context()); err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("Read: %v", err)
	}
}

func TestASignalThatMeasuresNothingIsRefused(t *testing.T) {
	if _, err := postgres.New(postgres.Options{URL: "postgres://u@h/d"}); err == nil {
		t.Fatal("no threshold was taken")
	}
}
