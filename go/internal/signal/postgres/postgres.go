// Package postgres measures a Postgres server: how much of its connections is in use, how many
// backends wait for locks, and which share of them others block.
//
// It changes nothing there and needs no superuser. What a role without pg_monitor cannot see does
// not count; that is logged once. It decides nothing.
//
// One connection is kept, and each reading is one round trip: a read-only transaction with a
// statement timeout, sent as one simple query, so that a pooler in front (PgBouncer in transaction
// mode) may sit between. After any error the connection is given up and the next reading makes
// another.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"sluice/go/internal/breaker"
	"sluice/go/internal/signal"
)

const (
	timeoutDefault = 2 * time.Second
	closePatience  = time.Second
	// blockersAsked bounds the calls of pg_blocking_pids in one reading, each of which holds all of
	// the server's lock table for a moment.
	blockersAsked = 32
	// waitstartSince is the first major version whose pg_locks tells since when a backend waits.
	waitstartSince = 14
	// tooManyConnections is the SQLSTATE of a server, database or role without a free connection,
	// which says of the pool all there is to say.
	tooManyConnections = "53300"
)

// Options say what is measured. A threshold with a trip of 0 is off; one at least must be on.
type Options struct {
	// URL is a secret; a URL or the keyword form, as libpq takes them.
	URL string
	// Pool is about the share of the connections in use, 0 to 1. What counts depends on what is
	// configured:
	//   - neither Application nor Size: every client's connection to the server, idle ones too
	//     since nobody else can have them, of max_connections less the reserved ones;
	//   - Application: the connections with this application_name that are not idle, of Size, or of
	//     the server's when Size is 0;
	//   - Size alone: the connections of the URL's user to the URL's database that are not idle, of
	//     Size.
	Pool        signal.Threshold
	Application string
	Size        int
	// Locks is about the number of backends in the URL's database that have waited for a lock for
	// longer than After. Before Postgres 14 the start of the statement stands for that of the wait.
	Locks signal.Threshold
	After time.Duration
	// Blocked is about the share of the client backends in the URL's database that others block,
	// 0 to 1. Where more than 32 wait, 32 are asked and speak for the others.
	Blocked signal.Threshold
	// Timeout bounds one reading on the server's side; 0: 2 s.
	Timeout time.Duration
	// Log may be nil.
	Log *slog.Logger
}

// Source is a signal.Source of the levels "pool", "locks" and "blocked", as far as they are on.
type Source struct {
	o      Options
	config *pgconn.Config
	conn   *pgconn.PgConn // nil: to be made
	hidden bool           // whether it was said that not everything can be seen
}

// New checks the options; it does not connect.
func New(o Options) (*Source, error) {
	config, err := pgconn.ParseConfig(o.URL)
	if err != nil {
		// Its text repeats parts of the URL.
		return nil, errors.New("signal postgres: the URL cannot be read; " +
			"write it as postgres://user:password@host:5432/name")
	}
	if o.Pool.Trip == 0 && o.Locks.Trip == 0 && o.Blocked.Trip == 0 {
		return nil, errors.New("signal postgres: nothing is looked at; " +
			"give pool, locks or blocked a trip")
	}
	if strings.ContainsRune(o.Application, 0) {
		return nil, errors.New("signal postgres: a zero byte in the application's name")
	}
	if o.Timeout <= 0 {
		o.Timeout = timeoutDefault
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "sluice signal"
	}
	return &Source{o: o, config: config}, nil
}

// Read asks the server once. Errors are the server's, the network's or, on a wrong password or a
// missing database, the operator's; they never hold the password.
func (s *Source) Read(ctx context.Context) ([]breaker.Level, error) {
	if s.conn == nil {
		conn, err := pgconn.ConnectConfig(ctx, s.config)
		if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) &&
			refused.Code == tooManyConnections && s.o.Pool.Trip > 0 {
			return []breaker.Level{s.o.Pool.PoolLevel("pool", 1)}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("connect: %w", err)
		}
		s.conn = conn
	}
	look, err := s.look(ctx)
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	if look.hidden > 0 && !s.hidden {
		s.hidden = true
		s.o.Log.Warn("some connections to Postgres cannot be seen; GRANT pg_monitor TO the role",
			"role", s.config.User, "database", s.config.Database, "hidden", look.hidden)
	}
	var levels []breaker.Level
	if s.o.Pool.Trip > 0 {
		levels = append(levels, s.o.Pool.PoolLevel("pool", look.pool()))
	}
	if s.o.Locks.Trip > 0 {
		levels = append(levels, s.o.Locks.Level("locks", float64(look.waiters)))
	}
	if s.o.Blocked.Trip > 0 {
		levels = append(levels, s.o.Blocked.Level("blocked", look.blocked()))
	}
	return levels, nil
}

// Close gives the connection up.
func (s *Source) Close() error {
	if s.conn == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	conn := s.conn
	s.conn = nil
	return conn.Close(ctx)
}

// look is one reading, in numbers of backends.
type look struct {
	used, room    int // connections
	waiters       int // for a lock, for longer than asked
	backends      int // clients' in the database
	waiting       int // of backends, for a lock
	asked, locked int // of waiting: asked who blocks them, and blocked by somebody
	hidden        int // that the role may not see
}

func (l look) pool() float64 {
	if l.room <= 0 {
		return 1
	}
	return float64(l.used) / float64(l.room)
}

func (l look) blocked() float64 {
	if l.asked == 0 || l.backends == 0 {
		return 0
	}
	return float64(l.waiting) * float64(l.locked) / float64(l.asked) / float64(l.backends)
}

func (s *Source) look(ctx context.Context) (look, error) {
	results, err := s.conn.Exec(ctx, s.statement()).ReadAll()
	if err != nil {
		return look{}, fmt.Errorf("read pg_stat_activity: %w", err)
	}
	// BEGIN, SET LOCAL, SELECT, COMMIT.
	if len(results) != 4 || len(results[2].Rows) != 1 {
		return look{}, fmt.Errorf("read pg_stat_activity: %d results where 4 were due", len(results))
	}
	var l look
	fields := []*int{&l.used, &l.room, &l.waiters, &l.backends, &l.waiting, &l.asked, &l.locked,
		&l.hidden}
	row := results[2].Rows[0]
	if len(row) != len(fields) {
		return look{}, fmt.Errorf("read pg_stat_activity: %d columns where %d were due", len(row),
			len(fields))
	}
	for i, field := range fields {
		if *field, err = strconv.Atoi(string(row[i])); err != nil {
			return look{}, fmt.Errorf("read pg_stat_activity: column %d: %w", i, err)
		}
	}
	return l, nil
}
