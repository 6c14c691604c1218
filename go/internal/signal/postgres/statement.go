package postgres

import (
	"fmt"
	"strconv"
	"strings"
)

// seen are the backends. Of another role's, one without pg_monitor sees the user, the database and
// the application_name only; such a row has no backend_type, and one with a user and a database is
// taken for a client's.
const seen = `WITH seen AS (
	SELECT pid, usesysid, application_name, query_start,
		datid = (SELECT oid FROM pg_database WHERE datname = current_database()) AS here,
		COALESCE(backend_type = 'client backend',
			datid IS NOT NULL AND usesysid IS NOT NULL) AS client,
		backend_type IS NULL AND datid IS NOT NULL AND usesysid IS NOT NULL AS hidden,
		COALESCE(state NOT IN ('idle', 'disabled'), false) AS busy,
		COALESCE(wait_event_type = 'Lock', false) AS waiting
	FROM pg_stat_activity
)`

// The connections that count, and how many there may be. reserved_connections is of Postgres 16.
const (
	usedServer      = `(SELECT count(*) FROM seen WHERE client)`
	usedApplication = `(SELECT count(*) FROM seen WHERE client AND busy
		AND pid <> pg_backend_pid() AND application_name = %s)`
	usedRole = `(SELECT count(*) FROM seen WHERE client AND busy AND here
		AND pid <> pg_backend_pid()
		AND usesysid = (SELECT oid FROM pg_roles WHERE rolname = current_user))`
	roomServer = `current_setting('max_connections')::int
		- current_setting('superuser_reserved_connections')::int
		- COALESCE(current_setting('reserved_connections', true)::int, 0)`
)

// The backends that have waited for a lock for too long. pg_locks is read, which stops the server's
// lock table for a moment, only where somebody waits, or may do so unseen: a comparison with a
// subquery's result that needs no row of the table is checked before the table is read. waitstart
// is null in the first moment of a wait.
const (
	waitersExact = `(SELECT count(DISTINCT l.pid) FROM pg_locks l JOIN seen USING (pid)
		WHERE (SELECT count(*) FROM seen WHERE waiting OR hidden) > 0
		AND client AND here AND NOT l.granted
		AND l.waitstart <= clock_timestamp() - interval '%d milliseconds')`
	waitersByStatement = `(SELECT count(*) FROM seen WHERE client AND here AND waiting
		AND query_start <= clock_timestamp() - interval '%d milliseconds')`
)

const (
	backends = `(SELECT count(*) FROM seen WHERE client AND here AND pid <> pg_backend_pid())`
	waiting  = `(SELECT count(*) FROM seen WHERE client AND here AND waiting)`
	asked    = `(SELECT count(*) FROM asked)`
	locked   = `(SELECT count(*) FROM asked WHERE by_somebody)`
	hidden   = `(SELECT count(*) FROM seen WHERE hidden)`

	// OFFSET 0 keeps the call of the function behind the limit.
	askedTable = `, asked AS (
	SELECT cardinality(pg_blocking_pids(pid)) > 0 AS by_somebody
	FROM (SELECT pid FROM seen WHERE client AND here AND waiting LIMIT %d OFFSET 0) AS few
)`
)

// statement is the whole reading. What is off costs nothing and reads as 0.
func (s *Source) statement() string {
	var tables strings.Builder
	tables.WriteString(seen)
	columns := []string{"0", "1", "0", "0", "0", "0", "0", hidden}
	if s.o.Pool.Trip > 0 {
		columns[0], columns[1] = usedServer, roomServer
		if s.o.Application != "" {
			columns[0] = fmt.Sprintf(usedApplication, quote(s.o.Application))
		} else if s.o.Size > 0 {
			columns[0] = usedRole
		}
		if s.o.Size > 0 {
			columns[1] = strconv.Itoa(s.o.Size)
		}
	}
	if s.o.Locks.Trip > 0 {
		waiters := waitersExact
		if s.major() < waitstartSince {
			waiters = waitersByStatement
		}
		columns[2] = fmt.Sprintf(waiters, s.o.After.Milliseconds())
	}
	if s.o.Blocked.Trip > 0 {
		fmt.Fprintf(&tables, askedTable, blockersAsked)
		columns[3], columns[4], columns[5], columns[6] = backends, waiting, asked, locked
	}
	return fmt.Sprintf("BEGIN READ ONLY; SET LOCAL statement_timeout = %d; %s SELECT %s; COMMIT",
		max(s.o.Timeout.Milliseconds(), 1), tables.String(), strings.Join(columns, ", "))
}

// major is the server's version, 0 where it does not say it.
func (s *Source) major() int {
	text := s.conn.ParameterStatus("server_version")
	end := strings.IndexFunc(text, func(c rune) bool { return c < '0' || c > '9' })
	if end >= 0 {
		text = text[:end]
	}
	major, _ := strconv.Atoi(text)
	return major
}

// quote makes a literal that means the same under every setting of standard_conforming_strings.
func quote(text string) string {
	text = strings.ReplaceAll(text, `\`, `\\`)
	return `E'` + strings.ReplaceAll(text, `'`, `''`) + `'`
}
