package config

import (
	"net/netip"
	"time"
)

// HTTPTarget is a destination that takes requests.
type HTTPTarget struct {
	URL      string        `yaml:"url"`
	Timeout  time.Duration `yaml:"timeout"`
	Protocol string        `yaml:"protocol"` // auto | http1 | http2
	// Headers are added to each request and take the place of the sender's of the same name.
	Headers Headers    `yaml:"headers,omitempty"`
	Sign    *Sign      `yaml:"sign,omitempty"`  // nil: not signed by us
	TLS     *TargetTLS `yaml:"tls,omitempty"`   // nil: the system's authorities, and none of ours
	Proxy   Text       `yaml:"proxy,omitempty"` // http, https or socks5 URL; empty: none
	Egress  Egress     `yaml:"egress,omitempty"`
}

// Sign holds the Standard Webhooks secrets that a request is signed with, all of them.
type Sign struct {
	Secrets []Secret `yaml:"secrets,flow"`
}

// TargetTLS is what a destination's certificate is held to, and what is shown to it.
type TargetTLS struct {
	CA         string `yaml:"ca,omitempty"`          // absolute; empty: the system's
	Cert       string `yaml:"cert,omitempty"`        // absolute; with Key
	Key        string `yaml:"key,omitempty"`         // absolute
	ServerName string `yaml:"server_name,omitempty"` // empty: the URL's host
}

// Egress says which addresses may be connected to. Deny wins; no Allow is every address but those
// that are never meant: link-local ones and those of cloud metadata.
type Egress struct {
	Allow []netip.Prefix `yaml:"allow,flow,omitempty"`
	Deny  []netip.Prefix `yaml:"deny,flow,omitempty"`
}

// FileTarget is a destination that is a file of lines.
type FileTarget struct {
	Path string `yaml:"path"` // absolute
}

// StdoutTarget is the daemon's standard output.
type StdoutTarget struct{}

// PostgresTarget is a table of a database.
type PostgresTarget struct {
	URL              Secret        `yaml:"url"`
	Table            string        `yaml:"table"`        // NAME or SCHEMA.NAME
	CreateTable      bool          `yaml:"create_table"` // where it is not there yet
	Pool             int           `yaml:"pool"`         // connections
	AcquireTimeout   time.Duration `yaml:"acquire_timeout"`
	LockTimeout      time.Duration `yaml:"lock_timeout"`
	StatementTimeout time.Duration `yaml:"statement_timeout"`
	IdleTimeout      time.Duration `yaml:"idle_in_transaction_session_timeout"`
	Batch            int           `yaml:"batch"` // events in one transaction, at most
}

// Transform makes the body that a destination gets.
type Transform struct {
	Kind string // cel | jq
	Text string
}

// MarshalYAML writes the form that a config takes.
func (t *Transform) MarshalYAML() (any, error) { return map[string]string{t.Kind: t.Text}, nil }

// Retry says when a failed delivery is tried again, and how often in all.
type Retry struct {
	Base     time.Duration `yaml:"base,omitempty"`
	Max      time.Duration `yaml:"max,omitempty"`
	Attempts int           `yaml:"attempts,omitempty"`
	// Schedule takes the place of Base and Max where it is there: the wait before the second
	// attempt, the third, and so on. Attempts is then one more than it is long.
	Schedule []time.Duration `yaml:"schedule,flow,omitempty"`
}

// MarshalYAML writes a schedule alone, since the others follow from it.
func (r Retry) MarshalYAML() (any, error) {
	type bare Retry
	if len(r.Schedule) > 0 {
		return bare{Schedule: r.Schedule}, nil
	}
	return bare(r), nil
}

// Breaker says when a destination, or all of a group, is left alone, and how it comes back. A
// threshold of 0 never trips.
type Breaker struct {
	// Groups are those whose breakers hold the destination back too; a group's own has none.
	Groups      []string      `yaml:"group,flow,omitempty"`
	Failures    int           `yaml:"failures"` // in a row
	Ratio       float64       `yaml:"ratio"`    // of failures over Window, with at least Samples
	Window      time.Duration `yaml:"window"`
	Samples     int           `yaml:"samples"`
	Latency     time.Duration `yaml:"latency"` // p99 over Window
	Cooldown    time.Duration `yaml:"cooldown"`
	CooldownMax time.Duration `yaml:"cooldown_max"`
	Ramp        []int         `yaml:"ramp,flow"` // deliveries a second, step after step
	RampStep    time.Duration `yaml:"ramp_step"`
	Inflight    bool          `yaml:"inflight"` // whether full slots without throughput trip
	DeadLetters Rate          `yaml:"dead_letters"`
	Signals     []Signal      `yaml:"signals"`
}

// Group is what several destinations depend on: its breaker holds all of them back.
type Group struct {
	Name    string  `yaml:"-"`
	Breaker Breaker `yaml:"breaker"`
}

// Redis is where hosts share the states of their breakers.
type Redis struct {
	URL    Secret `yaml:"url"`
	Prefix string `yaml:"prefix"` // of every key and channel
}

// Alerts is where each transition of a breaker is posted.
type Alerts struct {
	URL    Text   `yaml:"url"`
	Secret Secret `yaml:"secret,omitempty"` // signs as Standard Webhooks; zero: not signed
}
