// Package postgres writes events into a table of a Postgres database, one row each.
//
// It reads nothing back, changes no row that is there, and decides nothing about when to try again.
//
// # The table
//
//	id           text PRIMARY KEY   name of the event, a ULID
//	source       text
//	received_at  timestamptz        when the request was whole
//	method       text
//	target       text               request target; bytes that no text holds are percent-encoded
//	headers      jsonb              [["Name","value"],…] in wire order; a name or value that no text
//	                                holds is {"base64":"…"}
//	body         bytea              as it came; JSON is convert_from(body, 'UTF8')::jsonb
//	order_key    bigint             equal for events of one ordering key; null without one
//	attempt      integer            that wrote the row
//	written_at   timestamptz        when the database wrote it
//
// With CreateTable it is made when it is not there. A table of the operator's own may have more
// columns, needs all but the last of these, and a unique constraint on id. Triggers run as on any
// insert. A row whose id is there already is left as it is, so an event that is delivered twice,
// because the first answer was lost or a replay was asked for, is one row.
//
// # Batches
//
// What arrives while others are being written goes into one statement, at most Batch rows, which
// is one transaction. The rows of a statement are ordered by ordering key and id, so that
// statements of several hosts that meet take their locks in the same order and never in a circle.
// When a statement fails for what one row may have caused, its halves are tried apart, so that
// only that row fails.
//
// An idle destination writes at once; the more connections are busy, the more rows have to wait for
// another one to be taken, up to gatherTime. A row that waits longer than AcquireTimeout
// while all are busy fails with retry.ErrPool.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"sluice/go/internal/destination"
	"sluice/go/internal/retry"
)

// Defaults and bounds.
const (
	tableDefault            = "sluice_events"
	poolDefault             = 8
	poolMax                 = 1024
	batchDefault            = 256
	batchMax                = 1 << 14
	acquireTimeoutDefault   = 250 * time.Millisecond
	lockTimeoutDefault      = 2 * time.Second
	statementTimeoutDefault = 5 * time.Second
	idleTimeoutDefault      = 10 * time.Second

	batchBytesMax = 8 << 20               // bodies in one statement, where it has more than one
	waitingMax    = 1 << 14               // rows that wait for a connection
	gatherTime    = 10 * time.Millisecond // a row waits for company while connections are free
	connectMax    = 5 * time.Second       // to open a connection, unless the URL says otherwise
	answerGrace   = 2 * time.Second       // beyond the statement's own timeout: then the server hangs
	nameMax       = 63                    // bytes of an identifier of Postgres
)

// Options describe one table. Zero values are defaults.
type Options struct {
	URL         string // postgres://…, or the key=value form
	Table       string // name or schema.name
	CreateTable bool   // make the table when it is not there
	Pool        int    // connections at most
	Batch       int    // rows in one statement at most

	AcquireTimeout         time.Duration // that a row waits for a connection
	LockTimeout            time.Duration // lock_timeout of a session
	StatementTimeout       time.Duration // statement_timeout
	IdleTransactionTimeout time.Duration // idle_in_transaction_session_timeout
	ApplicationName        string        // what the database calls us; default "sluice"
}

// Destination is one table with its connections.
type Destination struct {
	options Options
	table   string // quoted
	insert  string
	pool    *pgxpool.Pool

	prepares       bool // statements stay prepared, unless the URL says otherwise
	connectTimeout time.Duration
	tableThere     atomic.Bool // it was, or we made it

	context context.Context // of all statements; ends with Close
	cancel  context.CancelFunc
	workers sync.WaitGroup
	line    line
}

var _ destination.Destination = (*Destination)(nil)

// New reads the options and connects to nothing yet. Errors are the operator's and repeat nothing
// of the URL.
func New(o Options) (*Destination, error) {
	o = withDefaults(o)
	if o.Pool < 1 || o.Pool > poolMax {
		return nil, fmt.Errorf("destination postgres: pool %d: want 1 to %d", o.Pool, poolMax)
	}
	if o.Batch < 1 || o.Batch > batchMax {
		return nil, fmt.Errorf("destination postgres: batch %d: want 1 to %d", o.Batch, batchMax)
	}
	table, err := quoteTable(o.Table)
	if err != nil {
		return nil, err
	}
	config, err := poolConfig(o)
	if err != nil {
		return nil, err
	}
	d := &Destination{options: o, table: table, insert: insertInto(table)}
	d.context, d.cancel = context.WithCancel(context.Background())
	if d.pool, err = pgxpool.NewWithConfig(d.context, config); err != nil {
		d.cancel()
		return nil, errors.New("destination postgres: the settings in the url do not fit together")
	}
	d.connectTimeout = config.ConnConfig.ConnectTimeout
	d.prepares = config.ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement
	d.line.workersMax, d.line.perWorker = o.Pool, max(o.Batch/o.Pool, 1)
	d.line.hire = func() { d.workers.Go(d.work) }
	return d, nil
}

func withDefaults(o Options) Options {
	set := func(d *time.Duration, otherwise time.Duration) {
		if *d <= 0 {
			*d = otherwise
		}
	}
	set(&o.AcquireTimeout, acquireTimeoutDefault)
	set(&o.LockTimeout, lockTimeoutDefault)
	set(&o.StatementTimeout, statementTimeoutDefault)
	set(&o.IdleTransactionTimeout, idleTimeoutDefault)
	if o.Table == "" {
		o.Table = tableDefault
	}
	if o.Pool == 0 {
		o.Pool = poolDefault
	}
	if o.Batch == 0 {
		o.Batch = batchDefault
	}
	if o.ApplicationName == "" {
		o.ApplicationName = "sluice"
	}
	return o
}

// poolConfig never shows the parser's error: it may hold the password.
func poolConfig(o Options) (*pgxpool.Config, error) {
	if strings.TrimSpace(o.URL) == "" {
		return nil, errors.New("destination postgres: no url")
	}
	config, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		return nil, errors.New("destination postgres: the url cannot be read; " +
			"want postgres://user:password@host:port/database")
	}
	config.MaxConns = int32(o.Pool)
	config.MinConns, config.MinIdleConns = 0, 0
	connection := config.ConnConfig
	if connection.ConnectTimeout <= 0 || connection.ConnectTimeout > time.Minute {
		connection.ConnectTimeout = connectMax // the library's own default is two minutes
	}
	milliseconds := func(d time.Duration) string {
		return strconv.FormatInt(max(d.Milliseconds(), 1), 10) // 0 would be no limit
	}
	parameters := connection.RuntimeParams
	parameters["application_name"] = o.ApplicationName
	parameters["client_encoding"] = "UTF8"
	parameters["lock_timeout"] = milliseconds(o.LockTimeout)
	parameters["statement_timeout"] = milliseconds(o.StatementTimeout)
	parameters["idle_in_transaction_session_timeout"] = milliseconds(o.IdleTransactionTimeout)
	return config, nil
}

func quoteTable(name string) (string, error) {
	parts := strings.Split(name, ".")
	for _, part := range parts {
		if part == "" || len(part) > nameMax || len(parts) > 2 || strings.ContainsRune(part, 0) {
			return "", fmt.Errorf("destination postgres: table %q: want name or schema.name", name)
		}
	}
	return pgx.Identifier(parts).Sanitize(), nil
}

// Deliver writes one row. When ctx ends first, the row may be written all the same.
func (d *Destination) Deliver(ctx context.Context, r *destination.Request) destination.Result {
	if err := ctx.Err(); err != nil {
		return destination.Failure(fmt.Errorf("insert: %w", err))
	}
	w := waiters.Get().(*waiter)
	w.row = newRow(r)
	if !d.line.enter(w) {
		w.row.free()
		return destination.Failure(fmt.Errorf("%w: %d rows wait already", retry.ErrPool, waitingMax))
	}
	w.timeout.Reset(d.options.AcquireTimeout)
	for {
		select {
		case result := <-w.done:
			w.timeout.Stop()
			w.taken = false
			waiters.Put(w) // here alone: nobody else has it any more
			return result
		case <-ctx.Done():
			w.timeout.Stop()
			d.line.leave(w)
			return destination.Failure(fmt.Errorf("insert: %w", ctx.Err()))
		case <-w.timeout.C:
			if !d.busy() {
				w.timeout.Reset(d.options.AcquireTimeout)
			} else if d.line.leave(w) {
				return destination.Failure(fmt.Errorf("%w: %d connections, %v", retry.ErrPool,
					d.options.Pool, d.options.AcquireTimeout))
			}
		}
	}
}

// busy tells whether all connections are taken. While some are only being opened, which has a
// timeout of its own, what becomes of them is what becomes of the rows: a server far away would
// seem exhausted at its first events.
func (d *Destination) busy() bool { return int(d.pool.Stat().AcquiredConns()) == d.options.Pool }

// Stats tells how much of the pool is in use.
type Stats struct {
	Acquired int // connections that write now
	Total    int // connections at most
}

// Stats may be called at any time before Close.
func (d *Destination) Stats() Stats {
	return Stats{Acquired: int(d.pool.Stat().AcquiredConns()), Total: d.options.Pool}
}

// Close ends what is being written still and all connections.
func (d *Destination) Close() error {
	d.cancel()
	d.line.close()
	d.workers.Wait()
	d.pool.Close()
	return nil
}
