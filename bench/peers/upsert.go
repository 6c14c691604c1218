package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const upsertTable = `DROP TABLE IF EXISTS by_hand;
CREATE TABLE by_hand (
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

const upsertRows = `INSERT INTO by_hand
	(id, source, received_at, method, target, headers, body, order_key, attempt)
SELECT id, source, received_at, method, target, headers::jsonb, body, order_key, attempt
FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::text[], $5::text[], $6::text[],
	$7::bytea[], $8::bigint[], $9::integer[])
	AS e(id, source, received_at, method, target, headers, body, order_key, attempt)
ON CONFLICT (id) DO NOTHING`

// upsertHeaders are as many as a webhook of the generator has.
const upsertHeaders = `[["Host","127.0.0.1"],["Content-Type","application/json"],` +
	`["X-GitHub-Delivery","00000000-0000-0000-0000-000000000000"],["X-Hub-Signature-256",` +
	`"sha256=0000000000000000000000000000000000000000000000000000000000000000"],` +
	`["Content-Length","1024"]]`

// upsert writes count rows in full batches on --pool connections: the statement that a gateway's
// destination makes, by hand, with nothing before it.
func upsert(ctx context.Context, out io.Writer, o options) error {
	if o.postgres == "" || o.batch < 1 {
		return errors.New("upsert needs --postgres URL and --batch")
	}
	config, err := pgxpool.ParseConfig(o.postgres)
	if err != nil {
		return errors.New("--postgres: no connection URL")
	}
	config.MaxConns = int32(o.pool)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, upsertTable); err != nil {
		return fmt.Errorf("create the table: %w", err)
	}
	body := bytes.Repeat([]byte("x"), o.bytes)
	batches := (o.count + o.batch - 1) / o.batch
	t, err := measure(batches, o.pool, func(i int) error {
		n := min(o.batch, o.count-i*o.batch)
		ids, sources, methods := make([]string, n), make([]string, n), make([]string, n)
		times, targets, headers := make([]time.Time, n), make([]string, n), make([]string, n)
		bodies, keys, attempts := make([][]byte, n), make([]*int64, n), make([]int32, n)
		for row := range n {
			ids[row], sources[row] = fmt.Sprintf("%026d", i*o.batch+row), "github"
			times[row], methods[row], targets[row] = time.Now(), "POST", "/hooks/github"
			headers[row], bodies[row], attempts[row] = upsertHeaders, body, 1
		}
		_, err := pool.Exec(ctx, upsertRows, ids, sources, times, methods, targets, headers, bodies,
			keys, attempts)
		return err
	})
	if err != nil {
		return err
	}
	t.PerS *= float64(o.count) / float64(batches)
	t.Count = o.count
	return json.NewEncoder(out).Encode(t)
}
