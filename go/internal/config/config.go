package config

import (
	"net/netip"
	"time"
)

// Config is a whole, checked configuration: no field is left to a later default.
type Config struct {
	File string `yaml:"-"` // where it was read from; empty: built in
	Dev  bool   `yaml:"-"`

	DataDir  string `yaml:"data_dir"` // absolute
	ShmDir   string `yaml:"shm_dir"`  // absolute
	Workers  int    `yaml:"workers"`
	RingSize Size   `yaml:"ring_size"` // per worker
	Driver   string `yaml:"driver"`    // auto | io_uring | epoll
	Sandbox  string `yaml:"sandbox"`   // auto | off | require
	User     string `yaml:"user"`      // whom the data plane becomes where the daemon is root

	Journal   Journal    `yaml:"journal"`
	Listeners []Listener `yaml:"listeners"`
	HTTP      HTTP       `yaml:"http"`
	Admission Admission  `yaml:"admission"`
	Admin     Admin      `yaml:"admin"`
	// SecretsKey seal the secrets that handshakes bring, 32 bytes each: the first one seals, all open.
	SecretsKey []Secret `yaml:"secrets_key,flow,omitempty"`
	Redis      *Redis   `yaml:"redis,omitempty"`  // nil: nothing is shared with other hosts
	Alerts     *Alerts  `yaml:"alerts,omitempty"` // nil: nobody is told

	Sources      []Source      `yaml:"-"` // in the file's order
	Destinations []Destination `yaml:"-"` // in the file's order
	Groups       []Group       `yaml:"-"` // in the file's order

	// Warnings are what holds and yet is hardly meant.
	Warnings Faults `yaml:"-"`
}

// Listener is one address that senders connect to.
type Listener struct {
	Address       Address        `yaml:"address"`
	TLS           *ListenerTLS   `yaml:"tls,omitempty"` // nil: plain
	ProxyProtocol []netip.Prefix `yaml:"-"`             // peers that must send it
	ForwardedFor  []netip.Prefix `yaml:"-"`             // peers whose X-Forwarded-For is believed

	Backlog int `yaml:"backlog"` // connections that wait to be accepted, per socket
	// DeferAccept keeps connections that send nothing from the workers for so long; 0: off, since
	// with SYN cookies it does nothing, and header_timeout ends such connections as well. Not on a
	// Unix socket; nor is KeepAlive, the silence after which the kernel asks for the peer; 0: off.
	DeferAccept time.Duration `yaml:"defer_accept"`
	KeepAlive   time.Duration `yaml:"keepalive"`
	Mode        Mode          `yaml:"mode,omitempty"` // of a Unix socket's path; else 0
}

// ListenerTLS is what a listener shows and asks for in a TLS handshake.
type ListenerTLS struct {
	Certificates []Certificate `yaml:"certificates"`
	ClientCA     string        `yaml:"client_ca,omitempty"`   // absolute; empty: none is asked for
	ClientAuth   string        `yaml:"client_auth,omitempty"` // required | optional; with ClientCA
}

// Certificate is a pair of PEM files.
type Certificate struct {
	Cert string `yaml:"cert"` // absolute
	Key  string `yaml:"key"`  // absolute
}

// HTTP holds the protocol bounds.
type HTTP struct {
	MaxHeader           Size          `yaml:"max_header"`
	MaxBody             Size          `yaml:"max_body"` // of sources that name none of their own
	HeaderTimeout       time.Duration `yaml:"header_timeout"`
	BodyTimeout         time.Duration `yaml:"body_timeout"`
	IdleTimeout         time.Duration `yaml:"idle_timeout"`
	MaxConnections      int           `yaml:"max_connections"`
	MaxConnectionsPerIP int           `yaml:"max_connections_per_ip"` // 0: unbounded
	MinBodyRate         Size          `yaml:"min_body_rate"`          // a second; 0: BodyTimeout only
	ReceiveMemory       Size          `yaml:"receive_memory"`         // of all workers together
	HandshakeTimeout    time.Duration `yaml:"handshake_timeout"`
	HandshakeRate       int           `yaml:"handshake_rate"` // a second, of all workers; 0: unbounded
}

// Admission tunes who is let in under load. Limits are requests in flight, the host's.
type Admission struct {
	Algorithm    string        `yaml:"algorithm"` // slope | gradient2 | min-gradient | aimd | fixed
	InitialLimit int           `yaml:"initial_limit"`
	MinLimit     int           `yaml:"min_limit"`
	MaxLimit     int           `yaml:"max_limit"`
	Patience     time.Duration `yaml:"patience"`     // of slope
	Smoothing    float64       `yaml:"smoothing"`    // of gradient2 and min-gradient
	Tolerance    float64       `yaml:"tolerance"`    // of gradient2 and min-gradient
	Overload     string        `yaml:"overload"`     // queue | codel
	TargetDelay  time.Duration `yaml:"target_delay"` // of codel, below Interval
	Interval     time.Duration `yaml:"interval"`     // of codel
	Pacing       string        `yaml:"pacing"`       // off | little
	HoldBudget   time.Duration `yaml:"hold_budget"`  // 0: nobody waits
	MaxHeld      int           `yaml:"max_held"`
	ShedStatus   int           `yaml:"shed_status"` // 503 | 429
}

// Source is one stream of webhooks with a path, a proof and a promise.
type Source struct {
	Name        string         `yaml:"-"`
	Path        string         `yaml:"path"`
	Provider    string         `yaml:"provider,omitempty"`          // empty: Verify or MutualTLS
	Verify      *Scheme        `yaml:"-"`                           // a scheme of the operator's own
	MutualTLS   bool           `yaml:"-"`                           // `verify: mtls`
	ClientNames []string       `yaml:"client_names,flow,omitempty"` // one of them; empty: any
	Methods     []string       `yaml:"methods,flow"`                // and those of handshakes
	Enforce     bool           `yaml:"enforce"`
	AllowLegacy bool           `yaml:"allow_legacy,omitempty"` // proofs that are broken in a known way
	URL         string         `yaml:"url,omitempty"`          // as its sender was given it
	Secrets     []Secret       `yaml:"secrets,flow,omitempty"`
	Learn       string         `yaml:"learn,omitempty"` // ask | first; empty: no handshake brings one
	Priority    string         `yaml:"priority"`        // high | default | low
	Acknowledge string         `yaml:"acknowledge"`     // ring | durable | delivered
	MaxBody     Size           `yaml:"max_body"`
	Deadline    time.Duration  `yaml:"deadline"`
	Rate        *Rate          `yaml:"rate,omitempty"`            // nil: unbounded
	AllowFrom   []netip.Prefix `yaml:"allow_from,flow,omitempty"` // empty: from anywhere
	Dedup       time.Duration  `yaml:"dedup"`                     // 0: off
	IDFrom      Selector       `yaml:"id_from"`
	Respond     string         `yaml:"respond"` // own | destination
	OrderBy     Selector       `yaml:"order_by"`
	ShedStatus  int            `yaml:"shed_status"`
	Split       bool           `yaml:"split,omitempty"`     // each item of a body is an event
	Deliver     []string       `yaml:"deliver,flow"`        // names of destinations; empty: store only
	Reconcile   *Reconcile     `yaml:"reconcile,omitempty"` // nil: its provider is asked for nothing
	Silence     Silence        `yaml:"silence"`
}

// Destination is one place that events are delivered to. Exactly one of HTTP, File, Stdout and
// Postgres is set.
type Destination struct {
	Name        string          `yaml:"-"`
	HTTP        *HTTPTarget     `yaml:"http,omitempty"`
	File        *FileTarget     `yaml:"file,omitempty"`
	Stdout      *StdoutTarget   `yaml:"stdout,omitempty"`
	Postgres    *PostgresTarget `yaml:"postgres,omitempty"`
	Filter      string          `yaml:"filter,omitempty"`    // CEL; empty: every event
	Transform   *Transform      `yaml:"transform,omitempty"` // nil: as it came
	Concurrency Concurrency     `yaml:"concurrency"`
	Rate        *Rate           `yaml:"rate,omitempty"` // of deliveries; nil: unbounded
	DropHeaders []string        `yaml:"drop_headers,flow,omitempty"`
	OnDead      string          `yaml:"on_dead"` // skip | block
	Retry       Retry           `yaml:"retry"`
	Breaker     Breaker         `yaml:"breaker"`
}

// Kind is the key that says where the destination is: http, file, stdout or postgres.
func (d *Destination) Kind() string {
	switch {
	case d.HTTP != nil:
		return "http"
	case d.File != nil:
		return "file"
	case d.Stdout != nil:
		return "stdout"
	default:
		return "postgres"
	}
}

// Admin says where the operator's side listens.
type Admin struct {
	Socket  string `yaml:"socket"`          // absolute path of a Unix socket
	Address string `yaml:"address"`         // host:port; empty: none
	Token   Secret `yaml:"token,omitempty"` // what a caller at Address must show
	HTTP    string `yaml:"http"`            // host:port; empty: none
}

// Source finds a source by name.
func (c *Config) Source(name string) (*Source, bool) {
	for i := range c.Sources {
		if c.Sources[i].Name == name {
			return &c.Sources[i], true
		}
	}
	return nil, false
}

// Destination finds a destination by name.
func (c *Config) Destination(name string) (*Destination, bool) {
	for i := range c.Destinations {
		if c.Destinations[i].Name == name {
			return &c.Destinations[i], true
		}
	}
	return nil, false
}
