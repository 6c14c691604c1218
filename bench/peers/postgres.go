package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

// postgres inserts one row for each request and acknowledges after the commit.
type postgres struct {
	pool *pgxpool.Pool
}

func openPostgres(ctx context.Context, url string, pool int) (store, error) {
	p, err := openPool(ctx, "nethttp-postgres", url, pool, `DROP TABLE IF EXISTS bench_events;
		CREATE TABLE bench_events (
			id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
			delivery text NOT NULL UNIQUE,
			received_at timestamptz NOT NULL DEFAULT now(),
			body bytea NOT NULL)`)
	if err != nil {
		return nil, err
	}
	return &postgres{pool: p}, nil
}

// openPool connects a mode to its database and makes its table there.
func openPool(
	ctx context.Context, mode, url string, conns int, table string,
) (*pgxpool.Pool, error) {
	if url == "" {
		return nil, fmt.Errorf("%s needs --postgres URL", mode)
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("--postgres: %w", err)
	}
	config.MaxConns = int32(conns)
	p, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if _, err = p.Exec(ctx, table); err != nil {
		p.Close()
		return nil, fmt.Errorf("create the table: %w", err)
	}
	return p, nil
}

func (p *postgres) keep(ctx context.Context, delivery string, body []byte) error {
	_, err := p.pool.Exec(ctx, `INSERT INTO bench_events (delivery, body) VALUES ($1, $2)
		ON CONFLICT (delivery) DO NOTHING`, delivery, body)
	return err
}

func (p *postgres) close() { p.pool.Close() }
