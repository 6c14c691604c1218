package postgres

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"sluice/go/internal/destination"
	"sluice/go/internal/testserver"
)

const (
	benchmarkConnections = 4
	benchmarkBatch       = 128
	benchmarkTurn        = 16 << 10 // rows that one side writes before it is the other's turn
)

var benchmarkBody = bytes.Repeat([]byte("x"), 1024)

// BenchmarkWrite writes the same rows with the same statement over as many connections to the same
// server in turns, so that both meet the same machine: by hand, where the arguments of full batches
// are there already, without a queue, a copy or a goroutine for each row; and by the destination.
// The number of attempts at once decides how large its batches are.
//
//	go test -run - -bench Write -benchtime 64000x ./go/internal/destination/postgres
func BenchmarkWrite(b *testing.B) {
	for _, attempts := range []int{16, 64, 256, 512} {
		b.Run(fmt.Sprintf("attempts=%d", attempts), func(b *testing.B) {
			server := testserver.Postgres(b)
			s := connect(b, server.URL)
			s.run(createTable("sluice_events"))
			s.run(createTable("by_hand"))
			pool, err := pgxpool.New(context.Background(),
				fmt.Sprintf("%s&pool_max_conns=%d", server.URL, benchmarkConnections))
			if err != nil {
				b.Fatal(err)
			}
			defer pool.Close()
			d := open(b, server.URL, func(o *Options) {
				o.Pool, o.Batch = benchmarkConnections, benchmarkBatch
			})
			var hand, ours time.Duration
			b.ResetTimer()
			for from := 0; from < b.N; from += benchmarkTurn {
				to := min(from+benchmarkTurn, b.N)
				hand += writeByHand(b, pool, from, to)
				ours += writeByDestination(b, d, attempts, from, to)
			}
			b.StopTimer()
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(b.N)/hand.Seconds(), "by-hand/s")
			b.ReportMetric(float64(b.N)/ours.Seconds(), "events/s")
			b.ReportMetric(hand.Seconds()/ours.Seconds(), "of-by-hand")
			b.ReportMetric(float64(b.N)/float64(value[int](s,
				"SELECT count(DISTINCT xmin::text) FROM sluice_events")), "events/statement")
		})
	}
}

// benchmarkRequest shares its body with the others, as the daemon's lies in the journal.
func benchmarkRequest(n int) *destination.Request {
	r := request(n, "")
	r.Body = benchmarkBody
	return r
}

func writeByHand(b *testing.B, pool *pgxpool.Pool, from, to int) time.Duration {
	statement := insertInto("by_hand")
	var waiters []*waiter
	for i := from; i < to; i++ {
		waiters = append(waiters, &waiter{row: newRow(benchmarkRequest(i))})
	}
	var statements [][]any
	for batch := range slices.Chunk(waiters, benchmarkBatch) {
		statements = append(statements, arguments(batch))
	}
	return together(benchmarkConnections, len(statements), func(i int) {
		if _, err := pool.Exec(context.Background(), statement, statements[i]...); err != nil {
			b.Error(err)
		}
	})
}

func writeByDestination(b *testing.B, d *Destination, attempts, from, to int) time.Duration {
	return together(attempts, to-from, func(i int) {
		r := d.Deliver(context.Background(), benchmarkRequest(from+i))
		if r.Err != nil {
			b.Error(r.Err)
		}
	})
}

// together does n pieces of work, some at once, and tells how long all of it took.
func together(workers, n int, work func(i int)) time.Duration {
	start := time.Now()
	var next atomic.Int64
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				work(i)
			}
		})
	}
	group.Wait()
	return time.Since(start)
}

// arguments are the columns of a batch for pgx.
func arguments(batch []*waiter) []any {
	n := len(batch)
	ids, sources, methods := make([]string, n), make([]string, n), make([]string, n)
	targets, headers, bodies := make([]string, n), make([]string, n), make([][]byte, n)
	received, orderKeys, attempts := make([]time.Time, n), make([]*int64, n), make([]int32, n)
	for i, w := range batch {
		r := &w.row
		ids[i], sources[i], received[i] = r.id.String(), r.source, time.Unix(0, r.received)
		methods[i], targets[i], headers[i] = r.method, r.target, string(r.headers)
		bodies[i], attempts[i] = r.body, r.attempt
	}
	return []any{ids, sources, received, methods, targets, headers, bodies, orderKeys, attempts}
}
