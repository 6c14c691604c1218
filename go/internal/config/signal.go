package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Signal is one measure of a destination's health, or of what it depends on. Exactly one of its
// kinds is set.
type Signal struct {
	Name       string            `yaml:"name"`
	Interval   time.Duration     `yaml:"interval"`
	For        time.Duration     `yaml:"for"` // sick for so long without a break before it trips
	Postgres   *PostgresSignal   `yaml:"postgres,omitempty"`
	Workers    *WorkersSignal    `yaml:"workers,omitempty"`
	HTTP       *HTTPSignal       `yaml:"http,omitempty"`
	Prometheus *PrometheusSignal `yaml:"prometheus,omitempty"`
}

// Threshold is where a number is sick, and below what it is well again.
type Threshold struct {
	Trip    float64 `yaml:"trip"` // at or above it; 0 in a PostgresSignal: not looked at
	Recover float64 `yaml:"recover"`
}

// PostgresSignal looks at a database server.
type PostgresSignal struct {
	URL     Secret        `yaml:"url"`
	Pool    PoolThreshold `yaml:"pool"`
	Locks   WaitThreshold `yaml:"locks"`
	Blocked Threshold     `yaml:"blocked"` // share of backends that others block, 0 to 1
}

// PoolThreshold is about the used share of the connections, 0 to 1.
type PoolThreshold struct {
	Threshold   `yaml:",inline"`
	Application string `yaml:"application,omitempty"` // only those of this application_name
	Size        int    `yaml:"size,omitempty"`        // connections that there may be; 0: the server's
}

// WaitThreshold is about those that wait for a lock.
type WaitThreshold struct {
	Threshold `yaml:",inline"`
	After     time.Duration `yaml:"after"` // a shorter wait counts for nothing
}

// WorkersSignal is about the share of workers that wait for a lock, 0 to 1.
type WorkersSignal struct {
	WaitThreshold `yaml:",inline"`
	Redis         bool `yaml:"redis"` // whether heartbeats in Redis count beside reported ones
}

// HTTPSignal is a number in a JSON document.
type HTTPSignal struct {
	URL       Text   `yaml:"url"`
	Pointer   string `yaml:"pointer"` // RFC 6901; empty: the document itself
	Threshold `yaml:",inline"`
	Pool      bool          `yaml:"pool"` // the number is the used share of a pool, 0 to 1
	Timeout   time.Duration `yaml:"timeout"`
}

// PrometheusSignal is the result of a query; of several values the largest.
type PrometheusSignal struct {
	URL       Text   `yaml:"url"`
	Query     string `yaml:"query"`
	Threshold `yaml:",inline"`
	Pool      bool          `yaml:"pool"` // the number is the used share of a pool, 0 to 1
	Timeout   time.Duration `yaml:"timeout"`
}

const (
	signalInterval    = 5 * time.Second
	signalIntervalMin = 250 * time.Millisecond
	signalTimeout     = 2 * time.Second
)

// The thresholds of what a database and its workers are asked for.
var (
	poolShare    = Threshold{Trip: 0.85, Recover: 0.5}
	lockWaiters  = Threshold{Trip: 5, Recover: 1}
	blockedShare = Threshold{Trip: 0.3, Recover: 0.1}
	lockWait     = 2 * time.Second
)

// ownDatabase is what a postgres destination is watched by unless its config says otherwise.
func (r *reader) ownDatabase(target *PostgresTarget) Signal {
	return Signal{
		Name: "postgres", Interval: signalInterval,
		Postgres: &PostgresSignal{
			URL: target.URL, Pool: PoolThreshold{Threshold: poolShare},
			Locks: WaitThreshold{Threshold: lockWaiters, After: lockWait},
		},
	}
}

func (r *reader) signals(t *table, shared bool) []Signal {
	it := t.get("signals")
	entries := r.list(it)
	if len(entries) > signalsMax {
		r.fault(it.path, "keep those that matter", "%d signals are more than %d", len(entries),
			signalsMax)
	}
	signals := []Signal{}
	names := map[string]bool{}
	for _, entry := range entries {
		s := r.signal(r.table(entry), shared)
		if s.Name != "" && names[s.Name] {
			r.fault(entry.path, "give each a name of its own", "two signals are called %s", s.Name)
		}
		names[s.Name] = true
		signals = append(signals, s)
	}
	return signals
}

// ownSignals are shown beside the configured ones and have their names already.
var ownSignals = []string{"dead_letters", "failures", "inflight", "latency", "ratio"}

var signalKinds = []string{"postgres", "workers", "http", "prometheus"}

func (r *reader) signal(t *table, shared bool) Signal {
	var s Signal
	var found []string
	for _, kind := range signalKinds {
		it := t.get(kind)
		if it.node == nil {
			continue
		}
		found = append(found, kind)
		block := r.table(it)
		switch kind {
		case "postgres":
			s.Postgres = r.postgresSignal(block)
		case "workers":
			s.Workers = r.workersSignal(block, shared)
		case "http":
			s.HTTP = r.httpSignal(block)
		case "prometheus":
			s.Prometheus = r.prometheusSignal(block)
		}
		block.end()
	}
	kind := ""
	switch len(found) {
	case 0:
		r.fault(t.path, "write one of "+strings.Join(signalKinds, ", ")+" in it",
			"the signal does not say what is measured")
	case 1:
		kind = found[0]
	default:
		r.fault(t.path, "make a signal of each", "the signal is %s at once",
			strings.Join(found, " and "))
	}
	s.Name = value(t, "name", kind, parseText)
	if t.has("name") {
		r.name(t.join("name"), s.Name, "signal")
	}
	if slices.Contains(ownSignals, s.Name) {
		r.fault(t.join("name"), "choose another name", "%s is what the breaker measures itself", s.Name)
	}
	s.Interval = value(t, "interval", signalInterval, parseDuration,
		between(signalIntervalMin, time.Hour))
	s.For = value(t, "for", 0, parseDuration, between(0, time.Hour))
	t.end()
	return s
}

func (r *reader) postgresSignal(t *table) *PostgresSignal {
	s := &PostgresSignal{URL: r.database(t)}
	pool := r.table(t.get("pool"))
	s.Pool.Threshold = r.threshold(pool, poolShare, orOff(share))
	s.Pool.Application = value(pool, "application", "", parseText)
	s.Pool.Size = value(pool, "size", 0, parseCount, between(0, 1<<20))
	pool.end()
	locks := r.table(t.get("locks"))
	s.Locks.Threshold = r.threshold(locks, lockWaiters, atLeast(0.0))
	s.Locks.After = value(locks, "after", lockWait, parseDuration, between(0, time.Hour))
	locks.end()
	// It costs a look at every lock of the server, so it has to be asked for.
	if blocked := r.table(t.get("blocked")); blocked.present {
		s.Blocked = r.threshold(blocked, blockedShare, orOff(share))
		blocked.end()
	}
	if s.Pool.Trip == 0 && s.Locks.Trip == 0 && s.Blocked.Trip == 0 {
		r.fault(t.path, "turn one on, or take the signal out", "nothing of the database is looked at")
	}
	return s
}

// database reads the url of a database, which is a secret.
func (r *reader) database(t *table) Secret {
	it := t.get("url")
	if it.node == nil {
		r.fault(t.path, `write url: "env:NAME"`, "there is no url")
		return Secret{}
	}
	secret, ok := r.secret(it)
	if ok {
		r.holds(it.path, secret, checkDatabaseURL)
	}
	return secret
}

// checkDatabaseURL takes a URL, or the `key=value` words that libpq takes too.
func checkDatabaseURL(text string) error {
	const mend = "write it as postgres://user:password@127.0.0.1:5432/name"
	if !strings.Contains(text, "://") && strings.Contains(text, "=") {
		return nil
	}
	if !strings.HasPrefix(text, "postgres://") && !strings.HasPrefix(text, "postgresql://") {
		return wrong(mend, "the URL is no postgres:// one")
	}
	return nil
}

func (r *reader) workersSignal(t *table, shared bool) *WorkersSignal {
	s := &WorkersSignal{}
	s.Threshold = r.threshold(t, blockedShare, share)
	s.After = value(t, "after", lockWait, parseDuration, between(0, time.Hour))
	s.Redis = value(t, "redis", shared, parseBool)
	if s.Redis && !shared {
		r.fault(t.join("redis"), "set redis.url, or write false", "there is no redis to look in")
	}
	return s
}

func (r *reader) httpSignal(t *table) *HTTPSignal {
	s := &HTTPSignal{}
	s.URL = r.asked(t, "http://127.0.0.1:9000/health")
	s.Pointer = value(t, "pointer", "", orNothing(parsePointer))
	s.Threshold, s.Pool = r.number(t)
	s.Timeout = value(t, "timeout", signalTimeout, parseDuration, positive)
	return s
}

func (r *reader) prometheusSignal(t *table) *PrometheusSignal {
	s := &PrometheusSignal{}
	s.URL = r.asked(t, "http://prometheus:9090")
	if !t.has("query") {
		r.fault(t.path, "write query: 'max(pool_used / pool_size)'", "there is no query")
	}
	s.Query = value(t, "query", "", parseText, named("query"))
	s.Threshold, s.Pool = r.number(t)
	s.Timeout = value(t, "timeout", signalTimeout, parseDuration, positive)
	return s
}

// asked reads the url of what answers with a number.
func (r *reader) asked(t *table, example string) Text {
	it := t.get("url")
	if it.node == nil {
		r.fault(t.path, fmt.Sprintf("write url: %q", example), "there is no url")
		return Text{}
	}
	text, _ := r.place(it, example, "http", "https")
	return text
}

// number reads the threshold of a number that only its operator knows, so there is a default only
// where it is the used share of a pool.
func (r *reader) number(t *table) (Threshold, bool) {
	if value(t, "pool", false, parseBool) {
		return r.threshold(t, poolShare, share), true
	}
	var s Threshold
	s.Trip = value(t, "trip", 0, parseNumber)
	s.Recover = value(t, "recover", 0, parseNumber)
	if !t.has("trip") || !t.has("recover") {
		r.fault(t.path, "write trip: 100 and recover: 50 in the number's own unit",
			"nothing says where the number is sick and where it is well")
		return s, false
	}
	r.apart(t, s)
	return s, false
}

// threshold reads one that has a default. Where the checks let a trip of 0 through, it is off.
func (r *reader) threshold(t *table, otherwise Threshold, checks ...func(float64) error) Threshold {
	s := Threshold{
		Trip:    value(t, "trip", otherwise.Trip, parseNumber, checks...),
		Recover: value(t, "recover", otherwise.Recover, parseNumber, atLeast(0.0)),
	}
	if s.Trip == 0 {
		return Threshold{}
	}
	r.apart(t, s)
	return s
}

// apart keeps what is well from being sick at the same time.
func (r *reader) apart(t *table, s Threshold) {
	if s.Recover >= s.Trip {
		r.fault(t.join("recover"), "lower it, or raise trip",
			"%v is not below trip %v", s.Recover, s.Trip)
	}
}

func share(v float64) error {
	if v <= 0 || v > 1 {
		return wrong("write a share over 0 and up to 1", "%v is out of bounds", v)
	}
	return nil
}

// orOff lets 0 through.
func orOff(check func(float64) error) func(float64) error {
	return func(v float64) error {
		if v == 0 {
			return nil
		}
		return check(v)
	}
}
