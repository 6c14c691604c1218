package e2e

import (
	"fmt"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"sluice/go/internal/testserver"
)

// rows counts what a query finds.
func rows(t testing.TB, conn *pgx.Conn, query string) (n int) {
	t.Helper()
	must(t, conn.QueryRow(t.Context(), query).Scan(&n))
	return n
}

func execute(t testing.TB, conn *pgx.Conn, statement string) {
	t.Helper()
	_, err := conn.Exec(t.Context(), statement)
	must(t, err)
}

const quickBreaker = "cooldown: 500ms, cooldown_max: 1s, ramp: [100, 400], ramp_step: 200ms"

func TestATableUnderALockStormGetsEveryEventOnce(t *testing.T) {
	server := testserver.Postgres(t)
	i := install(t, "sources:\n"+githubSource("github", "durable", "orders")+"destinations:\n"+
		"  orders:\n    postgres: {url: \"env:SLUICE_TEST_POSTGRES\", table: orders, pool: 4, "+
		"lock_timeout: 100ms, acquire_timeout: 100ms}\n"+
		"    retry: {base: 50ms, max: 200ms, attempts: 1000}\n"+
		"    breaker: {failures: 5, "+quickBreaker+"}\n")
	i.env = append(os.Environ(), "SLUICE_TEST_POSTGRES="+server.URL)
	i.start()
	sent := 0
	next := func() *answer {
		sent++
		return i.post("/hooks/github", fmt.Sprintf("d-%d", sent), fmt.Sprintf(`{"n":%d}`, sent))
	}
	for range 5 {
		next()
	}
	i.awaitDelivered()
	holder, look := server.Connect(), server.Connect()
	execute(t, holder, "BEGIN; LOCK TABLE orders IN ACCESS EXCLUSIVE MODE")
	next()
	eventually(t, "the breaker opens", func() bool {
		return i.breaker("orders").GetState() != "closed"
	})
	for range count(100, 1000) {
		if a := next(); !queued(a) {
			t.Fatalf("while the table is locked: %v", a)
		}
	}
	execute(t, holder, "ROLLBACK")
	i.awaitDelivered()
	if n := rows(t, look, "SELECT count(*) FROM orders"); n != sent {
		t.Errorf("%d rows of %d events", n, sent)
	}
	eventually(t, "the breaker closes", func() bool {
		return i.breaker("orders").GetState() == "closed"
	})

	// A server that dies and comes back.
	execute(t, look, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "+
		"WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'")
	for range 50 {
		next()
	}
	i.awaitDelivered()
	if n := rows(t, look, "SELECT count(*) FROM orders"); n != sent {
		t.Errorf("%d rows of %d events after all connections were ended", n, sent)
	}
	i.stop()
}

func TestADestinationIsSparedWhileItsDatabaseIsStuck(t *testing.T) {
	server := testserver.Postgres(t)
	to := newMoody(t)
	i := install(t, "sources:\n"+githubSource("github", "durable", "billing")+"groups:\n"+
		"  orders-db:\n    breaker:\n      "+"cooldown: 500ms\n      cooldown_max: 1s\n"+
		"      ramp: [100, 400]\n      ramp_step: 200ms\n      signals:\n"+
		"        - interval: 250ms\n          postgres: {url: \"env:SLUICE_TEST_POSTGRES\", "+
		"locks: {trip: 3, recover: 1, after: 300ms}}\n"+
		"destinations:\n"+to.impatient("billing"))
	i.env = append(os.Environ(), "SLUICE_TEST_POSTGRES="+server.URL)
	text, err := os.ReadFile(i.config)
	must(t, err)
	must(t, os.WriteFile(i.config, []byte(replaced(t, string(text),
		"breaker: {failures", "breaker: {group: orders-db, failures")), 0o600))
	i.start()
	if a := i.post("/hooks/github", "d-1", "{}"); a.code != 200 {
		t.Fatalf("a well database: %v", a)
	}
	holder := server.Connect()
	execute(t, holder, "CREATE TABLE accounts (id int PRIMARY KEY, n int)")
	execute(t, holder, "INSERT INTO accounts VALUES (1, 0)")
	execute(t, holder, "BEGIN")
	execute(t, holder, "UPDATE accounts SET n = n + 1 WHERE id = 1") // and is idle in transaction
	done := make(chan error, 5)
	for range cap(done) {
		conn := server.Connect()
		go func() {
			_, err := conn.Exec(t.Context(), "UPDATE accounts SET n = n + 1 WHERE id = 1")
			done <- err
		}()
	}
	eventually(t, "the group's breaker opens though every delivery passes", func() bool {
		return i.breaker("orders-db").GetState() == "open"
	})
	if a := i.post("/hooks/github", "d-2", "{}"); !queued(a) {
		t.Errorf("while its database is stuck: %v", a)
	}
	if n := len(to.all()); n > 1 {
		t.Errorf("%d events reached a destination whose database is stuck", n)
	}
	execute(t, holder, "COMMIT")
	for range cap(done) {
		must(t, <-done)
	}
	eventually(t, "it closes and delivers", func() bool {
		return i.breaker("orders-db").GetState() == "closed" && len(to.all()) == 2
	})
	i.stop()
}
