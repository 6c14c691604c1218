package config

import (
	"fmt"
	"path/filepath"
	"time"
)

const (
	defaultDataDir   = "sluice-data"
	defaultShmDir    = "/dev/shm/sluice"
	defaultRing      = Size(64 << 20)
	defaultUser      = "nobody"
	defaultListener  = "0.0.0.0:8080"
	defaultBacklog   = 4096
	defaultKeepAlive = time.Minute
	defaultMode      = Mode(0o660)
	defaultMemory    = Size(512 << 20)
	defaultMetrics   = "127.0.0.1:9464"
	socketName       = "admin.sock"

	// defaultHandshakes is half of what a core does of full TLS handshakes, so that a flood of them
	// leaves the other half to requests.
	defaultHandshakes = 2000
)

// config reads the top of the file, then the checks between keys of different sections.
func (r *reader) config(top item) *Config {
	t := r.table(top)
	c := &Config{}
	c.DataDir = r.inFolder(value(t, "data_dir",
		filepath.Join(r.options.WorkingFolder, defaultDataDir), parseText, filled))
	c.ShmDir = r.inFolder(value(t, "shm_dir", defaultShmDir, parseText, filled))
	c.Workers = value(t, "workers", min(max(1, r.options.Cores/2), workersMax), parseCount,
		between(1, workersMax))
	c.RingSize = value(t, "ring_size", defaultRing, parseSize, powerOfTwo,
		between(Size(ringSizeMin), Size(ringSizeMax)))
	c.Driver = value(t, "driver", "auto", oneOf("auto", "io_uring", "epoll"))
	c.Sandbox = value(t, "sandbox", "auto", oneOf("auto", "off", "require"))
	c.User = value(t, "user", defaultUser, parseText, r.knownUser)
	c.Journal = r.journal(r.table(t.get("journal")))
	c.Listeners = r.listeners(t.get("listeners"))
	c.HTTP = r.http(r.table(t.get("http")), c.Workers)
	c.Admission = r.admission(r.table(t.get("admission")))
	c.Admin = r.admin(r.table(t.get("admin")), c.DataDir)
	c.SecretsKey = r.sealKeys(t.get("secrets_key"))
	c.Redis = r.redis(t.get("redis"))
	c.Alerts = r.alerts(t.get("alerts"))
	c.Groups = r.groups(r.table(t.get("groups")), c.Redis != nil)
	c.Destinations = r.destinations(r.table(t.get("destinations")), c)
	c.Sources = r.sources(r.table(t.get("sources")), c)
	t.end()
	r.latencies(c)
	r.rings(c)
	r.memory(c)
	r.addresses(c)
	r.clientCertificates(c)
	r.windows(c)
	r.doubts(c)
	return c
}

// knownUser holds a name or a number against the host's users.
func (r *reader) knownUser(name string) error {
	if name == "" {
		return wrong("write nobody, or a user made for sluice", "no user is named")
	}
	if err := r.options.LookupUser(name); err != nil {
		return wrong("make it with `useradd --system "+name+"`, or name another",
			"this host has no user %q", name)
	}
	return nil
}

func filled(text string) error {
	if text == "" {
		return wrong("write a path", "the path is empty")
	}
	return nil
}

func powerOfTwo(size Size) error {
	if size > 0 && size&(size-1) == 0 {
		return nil
	}
	upper := Size(ringSizeMin)
	for upper < size && upper < ringSizeMax {
		upper *= 2
	}
	return wrong(fmt.Sprintf("write %v", upper), "%v is not a power of two", size)
}

// rings holds every body against the ring it has to fit in.
func (r *reader) rings(c *Config) {
	check := func(path string, body Size) {
		frame := FrameMax(c.HTTP.MaxHeader, body)
		if frame <= c.RingSize/framePartOfRing {
			return
		}
		needed := Size(ringSizeMin)
		for needed/framePartOfRing < frame {
			needed *= 2
		}
		r.fault(path, fmt.Sprintf("raise ring_size to %v or lower it", needed),
			"a request with %v of body and %v of header does not fit in a quarter of ring_size %v",
			body, c.HTTP.MaxHeader, c.RingSize)
	}
	largest := false
	for i := range c.Sources {
		path := "sources." + c.Sources[i].Name + ".max_body"
		if _, own := r.lines[path]; own {
			check(path, c.Sources[i].MaxBody)
		} else {
			largest = true
		}
	}
	if largest || len(c.Sources) == 0 {
		check("http.max_body", c.HTTP.MaxBody)
	}
}

// memory holds every body against a worker's share of the memory for unfinished requests. The
// default grows with the bodies; a value of the file is the operator's word.
func (r *reader) memory(c *Config) {
	largest, path := c.HTTP.MaxBody, "http.max_body"
	for i := range c.Sources {
		if s := &c.Sources[i]; s.MaxBody > largest {
			largest, path = s.MaxBody, "sources."+s.Name+".max_body"
		}
	}
	const unit = 1 << 20
	need := Size(c.Workers) * keptFrames * (largest + keptHead)
	need = (need + unit - 1) / unit * unit
	if c.HTTP.ReceiveMemory >= need {
		return
	}
	if _, own := r.lines["http.receive_memory"]; !own {
		c.HTTP.ReceiveMemory = need
		return
	}
	r.fault("http.receive_memory", fmt.Sprintf("raise it to %v, or lower %s or workers", need, path),
		"a worker's share of %v is less than two requests of %v (%s)",
		c.HTTP.ReceiveMemory/Size(c.Workers), largest, path)
}

// addresses finds two doors on one address.
func (r *reader) addresses(c *Config) {
	type door struct{ path, address string }
	var doors []door
	for i, listener := range c.Listeners {
		at := listener.Address.Target
		if listener.Address.Network == "systemd" {
			at = listener.Address.String()
		}
		doors = append(doors, door{fmt.Sprintf("listeners[%d].address", i), at})
	}
	doors = append(doors, door{"admin.http", c.Admin.HTTP}, door{"admin.address", c.Admin.Address},
		door{"admin.socket", c.Admin.Socket})
	for i, later := range doors {
		for _, first := range doors[:i] {
			if later.address == "" || !collide(first.address, later.address) {
				continue
			}
			r.fault(later.path, "give each its own", "%s is taken by %s (%s)",
				later.address, first.path, first.address)
			break
		}
	}
}

// clientCertificates holds sources that are proven by a certificate against the listeners.
func (r *reader) clientCertificates(c *Config) {
	for _, listener := range c.Listeners {
		if listener.TLS != nil && listener.TLS.ClientCA != "" {
			return
		}
	}
	for i := range c.Sources {
		if c.Sources[i].MutualTLS {
			r.fault("sources."+c.Sources[i].Name+".verify", "set tls.client_ca of a listener",
				"no listener asks for a client certificate")
		}
	}
}

func (r *reader) http(t *table, workers int) HTTP {
	h := HTTP{
		MaxHeader: value(t, "max_header", Size(32<<10), parseSize,
			between(Size(headerMin), Size(headerMax))),
		MaxBody: value(t, "max_body", Size(1<<20), parseSize,
			between(Size(bodyMin), Size(bodyMax))),
		HeaderTimeout:       value(t, "header_timeout", 5*time.Second, parseDuration, positive),
		BodyTimeout:         value(t, "body_timeout", 10*time.Second, parseDuration, positive),
		IdleTimeout:         value(t, "idle_timeout", 60*time.Second, parseDuration, positive),
		MaxConnections:      value(t, "max_connections", 20000, parseCount, between(1, 1<<20)),
		MaxConnectionsPerIP: value(t, "max_connections_per_ip", 0, parseCount, atLeast(0)),
		MinBodyRate: value(t, "min_body_rate", Size(16<<10), parseSize,
			between(0, Size(bodyMax))),
		ReceiveMemory: value(t, "receive_memory", defaultMemory, parseSize,
			between(Size(1<<20), Size(1<<40))),
		HandshakeTimeout: value(t, "handshake_timeout", 5*time.Second, parseDuration, positive),
		HandshakeRate: value(t, "handshake_rate", defaultHandshakes*workers, parseCount,
			atLeast(0)),
	}
	t.end()
	return h
}

func (r *reader) admission(t *table) Admission {
	a := Admission{
		Algorithm: value(t, "algorithm", "slope",
			oneOf("slope", "gradient2", "min-gradient", "aimd", "fixed")),
		InitialLimit: value(t, "initial_limit", 16, parseCount, between(1, limitMax)),
		MinLimit:     value(t, "min_limit", 2, parseCount, between(1, limitMax)),
		MaxLimit:     value(t, "max_limit", 4096, parseCount, between(1, limitMax)),
		Patience: value(t, "patience", 500*time.Millisecond, parseDuration,
			between(patienceMin, patienceMax)),
		Smoothing:  value(t, "smoothing", 0.2, parseNumber, between(0.001, 1.0)),
		Tolerance:  value(t, "tolerance", 1.5, parseNumber, between(1.0, 100.0)),
		Pacing:     value(t, "pacing", "off", oneOf("off", "little")),
		HoldBudget: value(t, "hold_budget", 2500*time.Millisecond, parseDuration),
		MaxHeld:    value(t, "max_held", 1024, parseCount, between(0, heldMax)),
		ShedStatus: value(t, "shed_status", 503, parseCount, shedStatus),
	}
	if a.MinLimit > a.MaxLimit {
		r.fault(t.join("min_limit"), "lower it or raise max_limit",
			"%d is over max_limit %d", a.MinLimit, a.MaxLimit)
	} else if a.InitialLimit < a.MinLimit || a.InitialLimit > a.MaxLimit {
		r.fault(t.join("initial_limit"), "write a value between them",
			"%d is not between min_limit %d and max_limit %d", a.InitialLimit, a.MinLimit, a.MaxLimit)
	}
	r.overload(t, &a)
	t.end()
	return a
}

// overload reads how it is told that too many wait: a word, with the two times of codel beside it,
// or `overload: {codel: {target_delay: 5ms, interval: 100ms}}`.
func (r *reader) overload(t *table, a *Admission) {
	a.Overload = "queue"
	it, times := t.get("overload"), t
	if it.isTable() {
		of := r.table(it)
		codel := of.get("codel")
		if codel.node == nil {
			r.fault(it.path, "write queue, codel or {codel: {target_delay: 5ms, interval: 100ms}}",
				"only codel has keys of its own")
		}
		a.Overload, times = "codel", r.table(codel)
		for _, key := range []string{"target_delay", "interval"} {
			if t.get(key).node != nil {
				r.fault(t.join(key), "keep one", "it belongs to %s.codel", it.path)
			}
		}
		defer of.end()
		defer times.end()
	} else if it.node != nil {
		a.Overload, _ = one(r, it, oneOf("queue", "codel"))
	}
	a.TargetDelay = value(times, "target_delay", 5*time.Millisecond, parseDuration, positive)
	a.Interval = value(times, "interval", 100*time.Millisecond, parseDuration, positive)
	if a.TargetDelay >= a.Interval {
		r.fault(times.join("target_delay"), "write a fraction of it, such as a twentieth",
			"%v is not below the interval of %v in which it is looked for", a.TargetDelay, a.Interval)
	}
}

func shedStatus(status int) error {
	if status == 503 || status == 429 {
		return nil
	}
	return wrong("write 503 or 429", "%d does not make senders try again", status)
}

func (r *reader) admin(t *table, dataDir string) Admin {
	a := Admin{
		Socket: r.inFolder(value(t, "socket", filepath.Join(dataDir, socketName), parseText, filled)),
		HTTP:   value(t, "http", defaultMetrics, orNothing(parseHostPort)),
	}
	if len(a.Socket) > unixPathMax {
		r.fault(t.join("socket"), "name a shorter path",
			"the socket's path %s has %d bytes; the kernel takes %d", a.Socket, len(a.Socket), unixPathMax)
	}
	a.Address = value(t, "address", "", orNothing(parseHostPort))
	if token := t.get("token"); token.node != nil {
		a.Token, _ = r.secret(token)
	}
	if a.Address != "" {
		if !t.has("token") {
			r.fault(t.join("address"), `set admin.token to "env:NAME" or "file:PATH"`,
				"anyone who reaches it would command this daemon")
		}
	} else if t.has("token") {
		r.fault(t.join("token"), "set admin.address or take it out",
			"the token guards nothing, since admin.address is empty")
	}
	t.end()
	return a
}

func orNothing(parse func(string) (string, error)) func(string) (string, error) {
	return func(text string) (string, error) {
		if text == "" {
			return "", nil
		}
		return parse(text)
	}
}
