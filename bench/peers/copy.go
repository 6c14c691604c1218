package main

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// copiersMax is how many COPYs run at once: one more is gathered while the others wait for the
	// disk.
	copiersMax = 2
	// copyRowsMax bounds a COPY; the best size in store benchmarks lies below.
	copyRowsMax = 1024
)

// copied acknowledges a request after the commit of the COPY that has its row: each takes all
// that came while the last ones ran. Its table has no unique key, which COPY could not heed.
type copied struct {
	pool *pgxpool.Pool
	wake chan struct{}
	ctx  context.Context
	stop context.CancelFunc
	runs sync.WaitGroup

	mu      sync.Mutex
	waiting []*copyRow
}

type copyRow struct {
	delivery string
	at       time.Time
	body     []byte
	ended    chan error
}

func openCopied(ctx context.Context, url string, pool int) (store, error) {
	const table = `DROP TABLE IF EXISTS bench_copied;
		CREATE TABLE bench_copied (delivery text NOT NULL, received_at timestamptz NOT NULL,
			body bytea NOT NULL)`
	p, err := openPool(ctx, "nethttp-copy", url, max(pool, copiersMax), table)
	if err != nil {
		return nil, err
	}
	c := &copied{pool: p, wake: make(chan struct{}, copiersMax)}
	c.ctx, c.stop = context.WithCancel(context.Background())
	for range copiersMax {
		c.runs.Go(c.run)
	}
	return c, nil
}

func (c *copied) keep(_ context.Context, delivery string, body []byte) error {
	row := &copyRow{delivery: delivery, at: time.Now(), body: body, ended: make(chan error, 1)}
	c.mu.Lock()
	c.waiting = append(c.waiting, row)
	c.mu.Unlock()
	c.notify()
	return <-row.ended
}

func (c *copied) notify() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// take gives what waits, and has another copier look for the rest.
func (c *copied) take() []*copyRow {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.waiting), copyRowsMax)
	rows := c.waiting[:n:n]
	if c.waiting = c.waiting[n:]; len(c.waiting) > 0 {
		c.notify()
	}
	return rows
}

func (c *copied) run() {
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-c.wake:
		}
		rows := c.take()
		if len(rows) == 0 {
			continue
		}
		_, err := c.pool.CopyFrom(c.ctx, pgx.Identifier{"bench_copied"},
			[]string{"delivery", "received_at", "body"},
			pgx.CopyFromSlice(len(rows), func(i int) ([]any, error) {
				return []any{rows[i].delivery, rows[i].at, rows[i].body}, nil
			}))
		for _, row := range rows {
			row.ended <- err
		}
	}
}

func (c *copied) close() {
	c.stop()
	c.runs.Wait()
	c.pool.Close()
}
