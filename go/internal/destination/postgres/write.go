package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"sluice/go/internal/destination"
)

// columns are those that every table needs, in the order of the statement.
var columns = []string{
	"id", "source", "received_at", "method", "target", "headers", "body", "order_key", "attempt",
}

func insertInto(table string) string {
	return `INSERT INTO ` + table + ` (id, source, received_at, method, target, headers, body,
	order_key, attempt)
SELECT id, source, received_at, method, target, headers::jsonb, body, order_key, attempt
FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::text[], $5::text[], $6::text[],
	$7::bytea[], $8::bigint[], $9::integer[])
	AS e(id, source, received_at, method, target, headers, body, order_key, attempt)
ON CONFLICT (id) DO NOTHING`
}

func createTable(table string) string {
	return `CREATE TABLE IF NOT EXISTS ` + table + ` (
	id text PRIMARY KEY,
	source text NOT NULL,
	received_at timestamptz NOT NULL,
	method text NOT NULL,
	target text NOT NULL,
	headers jsonb NOT NULL,
	body bytea NOT NULL,
	order_key bigint,
	attempt integer NOT NULL,
	written_at timestamptz NOT NULL DEFAULT now()
)`
}

// worker writes until nothing waits.
type worker struct {
	*Destination
	connection *pgxpool.Conn // nil: none yet, or it was given up
	parameters *parameters
}

// work takes a connection first and the rows then, so that they can wait for another one as long as
// this one is not there.
func (d *Destination) work() {
	w := worker{Destination: d, parameters: statements.Get().(*parameters)}
	defer statements.Put(w.parameters)
	defer w.disconnect()
	batch := make([]*waiter, 0, d.options.Batch)
	for starts := true; ; starts = false {
		err := w.connect()
		batch = d.line.take(batch[:0], d.options.Batch, starts)
		if len(batch) == 0 {
			return
		}
		if err != nil {
			finish(batch, unconnected(err))
		} else {
			slices.SortFunc(batch, compareRows)
			w.write(batch)
		}
		clear(batch)
	}
}

// connect takes a connection out of the pool if there is none, and makes the table if it has to be.
func (w *worker) connect() (err error) {
	if w.connection != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(w.context, w.connectTimeout)
	defer cancel()
	if w.connection, err = w.pool.Acquire(ctx); err != nil {
		w.connection = nil
		return err
	}
	if !w.options.CreateTable || w.tableThere.Load() {
		return nil
	}
	// Two that make it at the same moment trip over each other in the catalogue; the second time
	// it is there.
	for range 2 {
		if err = w.makeTable(ctx); err == nil {
			w.tableThere.Store(true)
			return nil
		}
	}
	w.disconnect()
	return err
}

// disconnect gives the connection back, which the pool throws away if it is broken.
func (w *worker) disconnect() {
	if w.connection != nil {
		w.connection.Release()
		w.connection = nil
	}
}

// makeTable looks first: to make what is there needs rights that one who writes may not have.
func (w *worker) makeTable(ctx context.Context) error {
	var there bool
	err := w.connection.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", w.table).Scan(&there)
	if err != nil || there {
		return err
	}
	_, err = w.connection.Exec(ctx, createTable(w.table))
	return err
}

// write gives every row of a batch its result. There is a connection.
func (w *worker) write(batch []*waiter) {
	err := w.insertRows(batch)
	if broken(err) && w.context.Err() == nil {
		// The connection may have been dead for long, or the rows may be written: both are mended
		// by writing them once more. What broke this one broke the idle ones too.
		w.disconnect()
		w.pool.Reset()
		if err := w.connect(); err != nil {
			finish(batch, unconnected(err))
			return
		}
		err = w.insertRows(batch)
	}
	if len(batch) > 1 && ofOneRow(err) {
		half := len(batch) / 2
		w.write(batch[:half])
		if err := w.connect(); err != nil {
			finish(batch[half:], unconnected(err))
			return
		}
		w.write(batch[half:])
		return
	}
	if missingTable(err) {
		w.tableThere.Store(false)
		w.disconnect() // connect makes the table
	}
	if w.connection != nil && w.connection.Conn().IsClosed() {
		w.disconnect()
	}
	if err == nil {
		finish(batch, destination.Delivery(0))
	} else {
		finish(batch, Classify(err))
	}
}

// insertRows runs one statement, which is one transaction, and waits for the server a little longer
// than the server should let it.
func (w *worker) insertRows(batch []*waiter) error {
	ctx, cancel := context.WithTimeout(w.context, w.options.StatementTimeout+answerGrace)
	defer cancel()
	connection, values := w.connection.Conn(), w.parameters.encode(batch)
	if !w.prepares {
		_, err := connection.PgConn().ExecParams(ctx, w.insert, values, nil, formats, nil).Close()
		return err
	}
	statement, err := connection.Prepare(ctx, "sluice_insert", w.insert) // once for a connection
	if err != nil {
		return err
	}
	_, err = connection.PgConn().ExecStatement(ctx, statement, values, formats, nil).Close()
	return err
}

// finish ends the attempts of a batch.
func finish(batch []*waiter, result destination.Result) {
	for _, w := range batch {
		w.row.free()
		w.done <- result
	}
}
