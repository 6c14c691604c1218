package postgres

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/go/internal/destination"
	"sluice/go/internal/retry"
	"sluice/go/internal/testserver"
)

func TestARowHoldsTheRequest(t *testing.T) {
	server := testserver.Postgres(t)
	d, s := open(t, server.URL, nil), connect(t, server.URL)
	r := request(1, "\x00\xff{}")
	r.Attempt, r.OrderKey, r.Target = 3, math.MaxUint64-1, "/ü?a=\xff\x00"
	r.Headers = []destination.Header{
		{Name: []byte("X-B"), Value: []byte("\xff\x01")}, {Name: []byte("x-a"), Value: []byte(`"ü\`)},
		{Name: []byte("X-B"), Value: []byte("\x00")}, {Name: []byte("Empty")},
	}
	delivered(t, one(d, r), one(d, request(2, `{"a": {"b": 7}}`)), one(d, request(3, "")))

	var id, source, method, target, headers string
	var received time.Time
	var body []byte
	var key int64
	var attempt int
	if err := s.QueryRow(context.Background(), `SELECT id, source, received_at, method, target,
		headers::text, body, order_key, attempt FROM sluice_events WHERE id = $1`,
		numbered(1).String()).Scan(&id, &source, &received, &method, &target, &headers, &body, &key,
		&attempt); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(id == r.EventID.String(), source, method, target, headers, key, attempt)
	want := fmt.Sprint(true, "github", "POST", "/ü?a=%FF%00", `[["X-B", {"base64": "/wE="}], `+
		`["x-a", "\"ü\\"], ["X-B", {"base64": "AA=="}], ["Empty", ""]]`, -2, 3)
	if got != want || !bytes.Equal(body, r.Body) || received.UnixNano() != r.ReceivedNS {
		t.Errorf("got %s %q %v\nwant %s", got, body, received, want)
	}
	if n := value[int](s, `SELECT (convert_from(body, 'UTF8')::jsonb #>> '{a,b}')::int
		FROM sluice_events WHERE id = $1`, numbered(2).String()); n != 7 {
		t.Errorf("the body as JSON has %d", n)
	}
	if !value[bool](s, `SELECT body = '' AND order_key IS NULL FROM sluice_events WHERE id = $1`,
		numbered(3).String()) {
		t.Error("an empty body or no ordering key was something else")
	}
}

func TestAnEventDeliveredTwiceIsOneRowLeftAsItIs(t *testing.T) {
	server := testserver.Postgres(t)
	d, s := open(t, server.URL, nil), connect(t, server.URL)
	delivered(t, one(d, request(1, "first")))
	s.run("UPDATE sluice_events SET source = 'changed'")
	// Twice in one statement and in several.
	delivered(t, deliver(d, request(1, "x"), request(1, "y"), request(2, "x"), request(2, "y"))...)
	if s.count() != 2 || value[int](s, `SELECT count(*) FROM sluice_events
		WHERE source = 'changed' AND body = 'first'`) != 1 {
		t.Error("a repeated delivery changed rows")
	}
}

func TestSessionsHaveTheirLimits(t *testing.T) {
	server := testserver.Postgres(t)
	d := open(t, server.URL, func(o *Options) {
		o.LockTimeout, o.StatementTimeout = 1500*time.Millisecond, 3*time.Second
		o.IdleTransactionTimeout, o.ApplicationName = 4*time.Second, "sluice: billing"
	})
	for name, want := range map[string]string{
		"lock_timeout": "1500ms", "statement_timeout": "3s", "application_name": "sluice: billing",
		"idle_in_transaction_session_timeout": "4s", "client_encoding": "UTF8",
	} {
		var got string
		err := d.pool.QueryRow(context.Background(), "SHOW "+name).Scan(&got)
		if got != want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, want)
		}
	}
	if stats := d.Stats(); stats.Total != poolDefault || stats.Acquired != 0 {
		t.Errorf("got %+v", stats)
	}
}

func TestManyMakeTheTableAtOnce(t *testing.T) {
	server := testserver.Postgres(t)
	var group sync.WaitGroup
	for i := range 8 {
		d := open(t, server.URL, func(o *Options) { o.Table, o.Pool = "public.odd \"name", 2 })
		group.Go(func() {
			if r := one(d, request(i, "x")); r.Kind != destination.Delivered {
				t.Errorf("%v, %v", r.Kind, r.Err)
			}
		})
	}
	group.Wait()
	if n := value[int](connect(t, server.URL), `SELECT count(*) FROM "odd ""name"`); n != 8 {
		t.Errorf("got %d rows", n)
	}
}

func TestATableIsMadeAgainAfterItWasDropped(t *testing.T) {
	server := testserver.Postgres(t)
	d, s := open(t, server.URL, nil), connect(t, server.URL)
	delivered(t, one(d, request(1, "x")))
	s.run("DROP TABLE sluice_events")
	failed(t, one(d, request(2, "x")), `relation "sluice_events" does not exist`)
	delivered(t, one(d, request(2, "x")))
}

func TestATableOfTheOperatorsOwn(t *testing.T) {
	server := testserver.Postgres(t)
	d := open(t, server.URL, func(o *Options) { o.CreateTable = false })
	s := connect(t, server.URL)
	failed(t, one(d, request(1, "x")), "not exist (SQLSTATE 42P01): the table needs the columns id")

	s.run("CREATE TABLE sluice_events (id text)")
	failed(t, one(d, request(1, "x")), `column "source" of relation "sluice_events" does not exist`)
	s.run("DROP TABLE sluice_events")
	s.run(strings.Replace(createTable("sluice_events"), " PRIMARY KEY", "", 1))
	failed(t, one(d, request(1, "x")), "no unique or exclusion constraint")
	s.run("ALTER TABLE sluice_events ADD UNIQUE (id), ADD COLUMN region text NOT NULL")
	failed(t, one(d, request(1, "x")), `column "region" of the table needs a default`)
	s.run("ALTER TABLE sluice_events ALTER region SET DEFAULT 'eu', ALTER headers TYPE text")
	delivered(t, one(d, request(1, "x")))
}

// To ask for a table that is there takes rights on the schema that a writer need not have.
func TestAWriterNeedsNoRightToMakeTheTableThatIsThere(t *testing.T) {
	server := testserver.Postgres(t)
	s := connect(t, server.URL)
	s.run(createTable("sluice_events"))
	s.run(`DO $$ BEGIN CREATE ROLE writer LOGIN; EXCEPTION WHEN duplicate_object THEN END $$`)
	s.run("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
	d := open(t, server.As("writer"), nil)
	failed(t, one(d, request(1, "x")), "permission denied for table sluice_events (SQLSTATE 42501)")
	s.run("GRANT INSERT, SELECT ON sluice_events TO writer")
	delivered(t, one(d, request(1, "x")))
}

func TestALockedTableFailsWithinTheLockTimeout(t *testing.T) {
	server := testserver.Postgres(t)
	d := open(t, server.URL, func(o *Options) { o.LockTimeout = 100 * time.Millisecond })
	s := connect(t, server.URL)
	delivered(t, one(d, request(0, "x")))
	s.run("BEGIN")
	s.run("LOCK TABLE sluice_events")
	var requests []*destination.Request
	for i := range 50 {
		requests = append(requests, request(i, "x"))
	}
	for _, r := range deliver(d, requests...) {
		if r.Kind != destination.Retry || r.Cause() != retry.Lock {
			t.Fatalf("got %v, %v, %v", r.Kind, r.Cause(), r.Err)
		}
	}
	s.run("COMMIT")
	delivered(t, deliver(d, requests...)...)
	if s.count() != 50 {
		t.Errorf("got %d rows", s.count())
	}
}

// The other transaction has written the same event and not yet committed.
func TestARowThatIsBeingWrittenElsewhereIsWaitedFor(t *testing.T) {
	server := testserver.Postgres(t)
	d := open(t, server.URL, func(o *Options) { o.LockTimeout = 100 * time.Millisecond })
	s := connect(t, server.URL)
	delivered(t, one(d, request(0, "x")))
	s.run("BEGIN")
	s.run(`INSERT INTO sluice_events SELECT $1, source, received_at, method, target, headers, body
		, order_key, attempt FROM sluice_events`, numbered(1).String())
	if r := one(d, request(1, "x")); r.Cause() != retry.Lock {
		t.Fatalf("got %v, %v", r.Cause(), r.Err)
	}
	delivered(t, one(d, request(2, "x")))
	s.run("COMMIT")
	delivered(t, one(d, request(1, "x")))
}

func TestABusyPoolGivesUpAfterTheAcquireTimeout(t *testing.T) {
	server := testserver.Postgres(t)
	d := open(t, server.URL, func(o *Options) {
		o.Pool, o.AcquireTimeout = 2, 50*time.Millisecond
		o.LockTimeout, o.StatementTimeout = patience, patience
	})
	s := connect(t, server.URL)
	eventually(t, "the first row", func() bool {
		return one(d, request(0, "x")).Kind == destination.Delivered
	})
	s.run("BEGIN")
	s.run("LOCK TABLE sluice_events")
	var blocked sync.WaitGroup
	for i := range 2 {
		// One that had no connection in time, for the machine was slow to make it, comes again.
		blocked.Go(func() {
			for one(d, request(i, "x")).Cause() == retry.Pool {
			}
		})
		eventually(t, "a blocked statement", func() bool {
			return d.Stats().Acquired == i+1 && waiting(d) == 0
		})
	}
	start := time.Now()
	r := one(d, request(5, "x"))
	if r.Kind != destination.Retry || r.Cause() != retry.Pool {
		t.Errorf("got %v, %v, %v", r.Kind, r.Cause(), r.Err)
	}
	if took := time.Since(start); took < 50*time.Millisecond {
		t.Errorf("gave up after %v", took)
	}
	s.run("ROLLBACK")
	blocked.Wait()
	eventually(t, "a free connection", func() bool {
		return one(d, request(5, "x")).Kind == destination.Delivered
	})
}

// A pool that is only being filled is not exhausted.
func TestAServerThatDoesNotAnswerIsATimeoutOfTheConnection(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	url := "postgres://sluice@" + silent.Addr().String() + "/x?connect_timeout=1"
	d := open(t, url, func(o *Options) { o.AcquireTimeout = time.Millisecond })
	if r := one(d, request(1, "x")); r.Kind != destination.Retry || r.Cause() != retry.Timeout {
		t.Errorf("got %v, %v, %v", r.Kind, r.Cause(), r.Err)
	}
}

func TestAFullServerIsAPoolWithoutRoom(t *testing.T) {
	server := testserver.OwnPostgres(t, "max_connections=3", "superuser_reserved_connections=0",
		"max_wal_senders=0", "autovacuum=off")
	d := open(t, server.URL, nil)
	others := []session{
		connect(t, server.URL), connect(t, server.URL), connect(t, server.URL),
	}
	if r := one(d, request(1, "x")); r.Kind != destination.Retry || r.Cause() != retry.Pool {
		t.Errorf("got %v, %v, %v", r.Kind, r.Cause(), r.Err)
	}
	_ = others[0].Close(context.Background())
	eventually(t, "a free connection", func() bool {
		return one(d, request(1, "x")).Kind == destination.Delivered
	})
}

func TestAStatementThatTakesTooLongIsATimeout(t *testing.T) {
	server := testserver.Postgres(t)
	d := open(t, server.URL, func(o *Options) { o.StatementTimeout = 100 * time.Millisecond })
	s := connect(t, server.URL)
	s.run(createTable("sluice_events"))
	s.run(`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN PERFORM pg_sleep(3600); RETURN new; END'`)
	s.run("CREATE TRIGGER slow BEFORE INSERT ON sluice_events FOR EACH ROW EXECUTE FUNCTION slow()")
	if r := one(d, request(1, "x")); r.Kind != destination.Retry || r.Cause() != retry.Timeout {
		t.Errorf("got %v, %v, %v", r.Kind, r.Cause(), r.Err)
	}
	s.run("DROP TRIGGER slow ON sluice_events")
	delivered(t, one(d, request(1, "x")))
}

func TestAKilledConnectionIsReplacedWithinTheAttempt(t *testing.T) {
	server := testserver.Postgres(t)
	d, s := open(t, server.URL, nil), connect(t, server.URL)
	delivered(t, one(d, request(0, "x")))
	for i := range 10 {
		if killConnections(s) == 0 {
			t.Fatal("there was no connection")
		}
		delivered(t, one(d, request(i, "x")))
	}
	// And one that is killed at work.
	s.run("BEGIN")
	s.run("LOCK TABLE sluice_events")
	result := make(chan destination.Result, 1)
	go func() { result <- d.Deliver(context.Background(), request(100, "x")) }()
	eventually(t, "a blocked statement", func() bool { return lockWaiters(s) == 1 })
	killConnections(s)
	s.run("COMMIT")
	delivered(t, <-result)
	if s.count() != 11 {
		t.Errorf("got %d rows", s.count())
	}
}

// As behind a pooler between us and the server.
func TestPreparedStatementsThatAreForgottenOrUnwanted(t *testing.T) {
	server := testserver.Postgres(t)
	d := open(t, server.URL, func(o *Options) { o.Pool = 1 })
	for i := range 3 {
		delivered(t, one(d, request(i, "x")))
		if _, err := d.pool.Exec(context.Background(), "DEALLOCATE ALL"); err != nil {
			t.Fatal(err)
		}
	}
	d = open(t, server.URL+"&default_query_exec_mode=exec", func(o *Options) { o.Pool = 1 })
	delivered(t, deliver(d, request(0, "x"), request(1, "x"), request(5, "\x00"))...)
	var n int
	if err := d.pool.QueryRow(context.Background(), "SELECT count(*) FROM pg_prepared_statements").
		Scan(&n); n != 0 || err != nil {
		t.Errorf("%d prepared statements, %v", n, err)
	}
}

func TestAServerThatGoesAndComesBack(t *testing.T) {
	server := testserver.OwnPostgres(t)
	d := open(t, server.URL, nil)
	delivered(t, one(d, request(0, "x")))
	for i := range 2 {
		if i == 0 {
			server.Stop()
		} else {
			server.Kill()
		}
		for range 3 {
			if r := one(d, request(i+1, "x")); r.Kind != destination.Retry ||
				r.Cause() != retry.Refused {
				t.Fatalf("got %v, %v, %v", r.Kind, r.Cause(), r.Err)
			}
		}
		server.Start()
		eventually(t, "the server", func() bool {
			return one(d, request(i+1, "x")).Kind == destination.Delivered
		})
	}
	if n := connect(t, server.URL).count(); n != 3 {
		t.Errorf("got %d rows", n)
	}
}

func TestAReadOnlyDatabaseIsTriedAgain(t *testing.T) {
	server := testserver.Postgres(t)
	s := connect(t, server.URL)
	s.run(createTable("sluice_events"))
	s.run(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on',
		current_database()); END $$`)
	failed(t, one(open(t, server.URL, nil), request(1, "x")), "read-only transaction (SQLSTATE 25006)")
}

func TestOnlyTheRowThatIsRefusedFails(t *testing.T) {
	random := dice(t)
	server := testserver.Postgres(t)
	d := open(t, server.URL, func(o *Options) { o.Pool, o.Batch = 2, 64 })
	s := connect(t, server.URL)
	s.run(createTable("sluice_events"))
	s.run(`ALTER TABLE sluice_events ADD CONSTRAINT good CHECK (body NOT LIKE 'bad%')`)
	s.run(`CREATE FUNCTION choosy() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF new.body LIKE 'odd%' THEN RAISE EXCEPTION 'odd: %', convert_from(new.body, 'UTF8'); END IF;
		RETURN new; END $$`)
	s.run("CREATE TRIGGER c BEFORE INSERT ON sluice_events FOR EACH ROW EXECUTE FUNCTION choosy()")
	want := 0
	for round, share := range []int{0, 1, 10, 100} {
		var requests []*destination.Request
		for i := range 200 {
			body := "good"
			if random.IntN(100) < share {
				body = []string{"bad hunter2", "odd hunter2"}[random.IntN(2)]
			}
			requests = append(requests, request(round*200+i, body))
		}
		for i, r := range deliver(d, requests...) {
			switch string(requests[i].Body[:3]) {
			case "bad":
				if r.Kind != destination.Permanent || !strings.Contains(r.Err.Error(),
					`constraint "good" (SQLSTATE 23514)`) {
					t.Fatalf("got %v, %v", r.Kind, r.Err)
				}
			case "odd":
				failed(t, r, "a trigger refuses the row (SQLSTATE P0001)")
			default:
				delivered(t, r)
				want++
			}
			if r.Err != nil && strings.Contains(r.Err.Error(), "hunter2") {
				t.Fatalf("the error holds the body: %v", r.Err)
			}
		}
	}
	if s.count() != want {
		t.Errorf("got %d rows, want %d", s.count(), want)
	}
}

// What waits while a statement is blocked goes into few statements afterwards: each is one
// transaction, whose number its rows carry.
func TestWhatWaitsIsWrittenTogether(t *testing.T) {
	server := testserver.Postgres(t)
	d := open(t, server.URL, func(o *Options) { o.Pool, o.LockTimeout = 1, patience })
	s := connect(t, server.URL)
	delivered(t, one(d, request(0, "x")))
	s.run("BEGIN")
	s.run("LOCK TABLE sluice_events")
	var group sync.WaitGroup
	for i := range 201 {
		group.Go(func() {
			if r := d.Deliver(context.Background(), request(i+1, "x")); r.Err != nil {
				t.Error(r.Err)
			}
		})
		if i == 0 {
			eventually(t, "a blocked statement", func() bool { return lockWaiters(s) == 1 })
		}
	}
	eventually(t, "200 rows in the line", func() bool { return waiting(d) == 200 })
	s.run("COMMIT")
	group.Wait()
	if n := value[int](s, "SELECT count(DISTINCT xmin::text) FROM sluice_events"); n != 3 {
		t.Errorf("202 rows took %d statements, want one before, one blocked, one for the rest", n)
	}
}

func TestALargeBodyTravelsAlone(t *testing.T) {
	server := testserver.Postgres(t)
	d := open(t, server.URL, func(o *Options) { o.Pool = 1 })
	large := strings.Repeat("x", batchBytesMax+1)
	delivered(t, deliver(d, request(1, large), request(2, large), request(3, "small"))...)
	if n := value[int](connect(t, server.URL),
		"SELECT count(DISTINCT xmin::text) FROM sluice_events"); n < 2 {
		t.Errorf("all went in %d statement", n)
	}
}

// Two hosts write the same events, and a trigger locks a row of each ordering key. Without an order
// of the rows the database finds a deadlock within seconds.
func TestBatchesThatCrossTakeTheirLocksInOneOrder(t *testing.T) {
	random := dice(t)
	server := testserver.Postgres(t)
	s := connect(t, server.URL)
	s.run(createTable("sluice_events"))
	s.run("CREATE TABLE balances (key bigint PRIMARY KEY, n bigint)")
	s.run("INSERT INTO balances SELECT k, 0 FROM generate_series(1, 20) k")
	s.run(`CREATE FUNCTION count_it() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN UPDATE balances SET n = n + 1 WHERE key = new.order_key; RETURN new; END'`)
	s.run("CREATE TRIGGER c BEFORE INSERT ON sluice_events FOR EACH ROW EXECUTE FUNCTION count_it()")
	const rounds, size = 15, 60
	patient := func(o *Options) { o.Pool, o.LockTimeout, o.StatementTimeout = 3, patience, patience }
	hosts := []*Destination{open(t, server.URL, patient), open(t, server.URL, patient)}
	for round := range rounds {
		orders := [][]int{random.Perm(size), random.Perm(size)}
		var group sync.WaitGroup
		for h, d := range hosts {
			for _, i := range orders[h] {
				r := request(round*size+i, "x")
				r.OrderKey = uint64(1 + i%20)
				group.Go(func() {
					if r := d.Deliver(context.Background(), r); r.Err != nil {
						t.Error(r.Err)
					}
				})
			}
		}
		group.Wait()
	}
	if s.count() != rounds*size {
		t.Errorf("got %d rows", s.count())
	}
}

func TestAnAttemptThatEndsReturnsAndKeepsNothing(t *testing.T) {
	server := testserver.Postgres(t)
	d := open(t, server.URL, func(o *Options) { o.Pool, o.LockTimeout = 1, patience })
	s := connect(t, server.URL)
	delivered(t, one(d, request(0, "x")))
	s.run("BEGIN")
	s.run("LOCK TABLE sluice_events")
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	requests := []*destination.Request{request(1, "first"), request(2, "second")}
	for i, r := range requests {
		group.Go(func() {
			if r := d.Deliver(ctx, r); r.Cause() != retry.Cancelled {
				t.Errorf("got %v, %v", r.Kind, r.Err)
			}
			clear(r.Body) // the caller's again
			clear(r.Headers[0].Value)
		})
		eventually(t, "the attempt", func() bool {
			return lockWaiters(s) == 1 && waiting(d) == i
		})
	}
	cancel()
	group.Wait()
	killConnections(s) // so that the first row is written once more
	s.run("COMMIT")
	// The first was on its way and is written as it was; the second was taken out of the line.
	eventually(t, "the row", func() bool { return s.count() == 2 })
	if !value[bool](s, `SELECT body = 'first' AND headers->0->>1 = 'b' FROM sluice_events
		WHERE id = $1`, numbered(1).String()) {
		t.Error("the row was written out of memory that was the caller's again")
	}
	if r := d.Deliver(ctx, request(3, "x")); r.Cause() != retry.Cancelled {
		t.Errorf("got %v", r.Err)
	}
}

func TestCloseEndsWhatIsBeingWritten(t *testing.T) {
	server := testserver.Postgres(t)
	d, err := New(Options{URL: server.URL, AcquireTimeout: patience, LockTimeout: patience,
		StatementTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	s := connect(t, server.URL)
	s.run(createTable("sluice_events"))
	s.run("BEGIN")
	s.run("LOCK TABLE sluice_events")
	ctx, cancel := context.WithCancel(context.Background())
	cancelled := make(chan struct{})
	go func() {
		defer close(cancelled)
		d.Deliver(ctx, request(1, "x"))
	}()
	eventually(t, "a blocked statement", func() bool { return lockWaiters(s) == 1 })
	cancel()
	<-cancelled
	closed := make(chan error, 1)
	go func() { closed <- d.Close() }()
	select { // with the table still locked
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience / 2): // the statement itself would end after patience
		t.Error("close waits for the lock")
	}
	s.run("COMMIT")
}

func TestOptionsThatCannotBe(t *testing.T) {
	for _, o := range []Options{
		{}, {URL: "postgres://user:hunter2@host:port/db"}, {URL: "host=a password=hunter2 sslmode=odd"},
		{URL: "postgres://u:hunter2@h/d", Table: "a.b.c"}, {URL: "postgres://u:hunter2@h/d", Table: "a."},
		{URL: "postgres://u:hunter2@h/d", Table: strings.Repeat("a", nameMax+1)},
		{URL: "postgres://u:hunter2@h/d", Pool: poolMax + 1},
		{URL: "postgres://u:hunter2@h/d", Batch: -1}, {URL: "postgres://u:hunter2%zz@h/d"},
	} {
		_, err := New(o)
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestErrorsOfConnectionsHoldNoPassword(t *testing.T) {
	server := testserver.Postgres(t)
	s := connect(t, server.URL)
	s.run(`DO $$ BEGIN CREATE ROLE hermit NOLOGIN; EXCEPTION WHEN duplicate_object THEN END $$`)
	for text, url := range map[string]string{
		"SQLSTATE 28000":                            server.As("hermit"),
		`database "nothere" does not exist`:         "postgres://sluice@" + server.Addr + "/nothere",
		"connect: 127.0.0.1:1 (127.0.0.1): dial":    "postgres://sluice@127.0.0.1:1/x",
		"connect: hostname resolving error: lookup": "postgres://sluice@nothere.invalid/x",
	} {
		url = strings.Replace(url, "@", ":hunter2@", 1)
		r := one(open(t, url, nil), request(1, "x"))
		failed(t, r, text)
		if strings.Contains(r.Err.Error(), "hunter2") {
			t.Errorf("the error holds the password: %v", r.Err)
		}
	}
}
