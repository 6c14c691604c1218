package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

func (r *reader) destinations(t *table, c *Config) []Destination {
	if len(t.fields) > destinationsMax {
		r.fault(t.path, "split them over two gateways", "%d destinations are more than %d",
			len(t.fields), destinationsMax)
	}
	destinations := make([]Destination, 0, len(t.fields))
	files := map[string]string{}
	for i := range t.fields {
		it := t.entry(i)
		r.name(it.path, t.fields[i].key, "destination")
		d := r.destination(r.table(it), t.fields[i].key, c)
		if slices.ContainsFunc(c.Groups, func(g Group) bool { return g.Name == d.Name }) {
			r.fault("groups."+d.Name, "rename one", "%s is the name of a destination too", d.Name)
		}
		if d.File != nil && d.File.Path != "" {
			if first, twice := files[d.File.Path]; twice {
				r.fault(it.path+".file.path", "give each its own",
					"destination %s writes to %s too", first, d.File.Path)
			}
			files[d.File.Path] = d.Name
		}
		destinations = append(destinations, d)
	}
	return destinations
}

var kinds = []string{"http", "file", "stdout", "postgres"}

func (r *reader) destination(t *table, name string, c *Config) Destination {
	d := Destination{Name: name}
	r.kind(t, &d)
	d.Filter = value(t, "filter", "", parseText, r.checkExpression("filter"))
	d.Transform = r.transform(t.get("transform"))
	d.Concurrency = value(t, "concurrency", 0, parseConcurrency)
	d.Rate = r.rate(t)
	d.DropHeaders = values(t, "drop_headers", nil, parseText, checkToken)
	d.OnDead = value(t, "on_dead", "skip", oneOf("skip", "block"))
	d.Retry = r.retry(r.table(t.get("retry")))
	d.Breaker = r.breakerOf(r.table(t.get("breaker")), &d, c)
	t.end()
	return d
}

// kind reads where the destination is.
func (r *reader) kind(t *table, d *Destination) {
	var found []string
	for _, kind := range kinds {
		it := t.get(kind)
		if it.node == nil {
			continue
		}
		found = append(found, kind)
		block := r.table(it)
		switch kind {
		case "http":
			d.HTTP = r.httpTarget(block)
		case "file":
			d.File = r.fileTarget(block)
		case "stdout":
			d.Stdout = &StdoutTarget{}
		case "postgres":
			d.Postgres = r.postgresTarget(block)
		}
		block.end()
	}
	switch len(found) {
	case 0:
		r.fault(t.path, `write http: {url: "http://127.0.0.1:9000/hook"}, postgres:, file: or stdout: {}`,
			"destination %s does not say where it is", d.Name)
	case 1:
	default:
		r.fault(t.path, "make a destination of each", "destination %s is %s at once", d.Name,
			strings.Join(found, " and "))
	}
}

// transform reads what makes the body: {cel: …} or {jq: …}.
func (r *reader) transform(it item) *Transform {
	if it.node == nil {
		return nil
	}
	t := r.table(it)
	var found []Transform
	for _, kind := range []string{"cel", "jq"} {
		if t.has(kind) {
			text := value(t, kind, "", parseText, r.checkExpression(kind))
			found = append(found, Transform{Kind: kind, Text: text})
		} else {
			t.get(kind)
		}
	}
	t.end()
	if len(found) != 1 {
		r.fault(it.path, "write {cel: '…'} or {jq: '…'}", "a transform is one expression")
		return nil
	}
	return &found[0]
}

func (r *reader) httpTarget(t *table) *HTTPTarget {
	target := &HTTPTarget{}
	if !t.has("url") {
		r.fault(t.path, `write url: "http://127.0.0.1:9000/hook"`, "there is no url")
	}
	target.URL = value(t, "url", "", parseText, checkURL)
	target.Timeout = value(t, "timeout", 10*time.Second, parseDuration, positive)
	target.Protocol = value(t, "protocol", "auto", oneOf("auto", "http1", "http2"))
	target.Sign = r.sign(t.get("sign"))
	target.Headers = r.headers(r.table(t.get("headers")), target.Sign != nil)
	if block := t.get("tls"); block.node != nil {
		target.TLS = r.targetTLS(r.table(block))
		if strings.HasPrefix(target.URL, "http://") {
			r.fault(block.path, "write the url with https://, or take tls out",
				"the url is one without TLS")
		}
	}
	if proxy := t.get("proxy"); proxy.node != nil {
		target.Proxy, _ = r.place(proxy, "http://proxy.example:3128", "http", "https", "socks5")
	}
	target.Egress = r.egress(r.table(t.get("egress")))
	return target
}

// sign reads one secret, or the several that sign while one takes the place of another.
func (r *reader) sign(it item) *Sign {
	if it.node == nil {
		return nil
	}
	t, sign := r.table(it), &Sign{}
	single, several := t.get("secret"), t.get("secrets")
	entries := r.list(several)
	switch {
	case single.node != nil && several.node != nil:
		r.fault(several.path, "keep one of them", "secret and secrets both say what signs")
	case single.node != nil:
		entries = []item{single}
	case len(entries) == 0:
		r.fault(it.path, `write secret: "env:NAME"`, "there is no secret to sign with")
	case len(entries) > signersMax:
		r.fault(several.path, "drop old ones", "%d secrets are more than %d", len(entries), signersMax)
	}
	for _, entry := range entries {
		if secret, ok := r.secret(entry); ok {
			r.holds(entry.path, secret, checkSigner)
			sign.Secrets = append(sign.Secrets, secret)
		}
	}
	t.end()
	return sign
}

// targetTLS reads what a destination must show and is shown. The files are read here, so that what
// is wrong with them is found before the first delivery.
func (r *reader) targetTLS(t *table) *TargetTLS {
	target := &TargetTLS{ServerName: value(t, "server_name", "", parseText, filledName)}
	if t.has("ca") {
		target.CA = r.inFolder(value(t, "ca", "", parseText, filled))
		r.clientCA(t.join("ca"), target.CA)
	} else {
		t.get("ca")
	}
	if t.has("cert") || t.has("key") {
		pair := r.certificate(t)
		target.Cert, target.Key = pair.Cert, pair.Key
	} else {
		t.get("cert")
		t.get("key")
	}
	t.end()
	return target
}

func filledName(text string) error {
	if text == "" || strings.ContainsAny(text, ":/ ") {
		return wrong("write a host's name", "%q is no name of a server", text)
	}
	return nil
}

// egress reads which addresses may be connected to.
func (r *reader) egress(t *table) Egress {
	e := Egress{
		Allow: values(t, "allow", nil, parsePrefix), Deny: values(t, "deny", nil, parsePrefix),
	}
	for i, allowed := range e.Allow {
		for _, denied := range e.Deny {
			if denied.Bits() <= allowed.Bits() && denied.Contains(allowed.Addr()) {
				r.fault(fmt.Sprintf("%s[%d]", t.join("allow"), i), "take one out",
					"%v is denied by %v, which wins", allowed, denied)
			}
		}
	}
	t.end()
	return e
}

// checkURL never repeats the text, which may hold a password.
func checkURL(text string) error {
	const mend = "write it as http://127.0.0.1:9000/hook"
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return wrong(mend, "this is not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return wrong(mend, "the URL begins with neither http:// nor https://")
	case u.Hostname() == "":
		return wrong(mend, "the URL names no host")
	case u.User != nil:
		return wrong("take them out", "a user and password do not belong in a config")
	case u.Fragment != "":
		return wrong("take out what follows the #", "a fragment is never sent")
	}
	return nil
}

func (r *reader) fileTarget(t *table) *FileTarget {
	if !t.has("path") {
		r.fault(t.path, "write path: events.ndjson", "there is no path")
		t.get("path")
		return &FileTarget{}
	}
	path := value(t, "path", "", parseText, filled)
	if path == "" {
		return &FileTarget{}
	}
	return &FileTarget{Path: r.inFolder(path)}
}

func (r *reader) postgresTarget(t *table) *PostgresTarget {
	timeout := func(key string, otherwise, most time.Duration) time.Duration {
		return value(t, key, otherwise, parseDuration, between(time.Millisecond, most))
	}
	const day = 24 * time.Hour
	return &PostgresTarget{
		URL:              r.database(t),
		Table:            value(t, "table", "sluice_events", parseText, checkTable),
		CreateTable:      value(t, "create_table", true, parseBool),
		Pool:             value(t, "pool", 8, parseCount, between(1, 1024)),
		AcquireTimeout:   timeout("acquire_timeout", 250*time.Millisecond, time.Minute),
		LockTimeout:      timeout("lock_timeout", 2*time.Second, day),
		StatementTimeout: timeout("statement_timeout", 5*time.Second, day),
		IdleTimeout:      timeout("idle_in_transaction_session_timeout", 10*time.Second, day),
		Batch:            value(t, "batch", 256, parseCount, between(1, 16_384)),
	}
}

// checkTable takes NAME or SCHEMA.NAME; the adapter quotes both, so their case counts.
func checkTable(text string) error {
	parts := strings.Split(text, ".")
	good := len(parts) <= 2
	for _, part := range parts {
		bad := strings.IndexFunc(part, func(c rune) bool {
			letter := c|0x20 >= 'a' && c|0x20 <= 'z'
			return c > 127 || !letter && (c < '0' || c > '9') && !strings.ContainsRune("_-$", c)
		})
		good = good && part != "" && len(part) <= nameMax && bad < 0
	}
	if !good {
		return wrong("write it as sluice_events or audit.sluice_events", "%q is no name of a table", text)
	}
	return nil
}

func (r *reader) retry(t *table) Retry {
	retry := Retry{
		Base:     value(t, "base", 2*time.Second, parseDuration, positive),
		Max:      value(t, "max", time.Hour, parseDuration, positive),
		Attempts: value(t, "attempts", 16, parseCount, between(1, attemptsMax)),
	}
	if retry.Max < retry.Base {
		r.fault(t.join("max"), "raise it, or lower base", "%v is below base %v", retry.Max, retry.Base)
	}
	if it := t.get("schedule"); it.node != nil {
		retry = r.schedule(t, it)
	}
	t.end()
	return retry
}

// schedule reads the waits between attempts, which say how many of those there are as well.
func (r *reader) schedule(t *table, it item) Retry {
	for _, key := range []string{"base", "max", "attempts"} {
		if t.has(key) {
			r.fault(t.join(key), "take one of them out", "the schedule says it already")
		}
	}
	var retry Retry
	entries := r.list(it)
	for _, entry := range entries {
		if wait, ok := one(r, entry, parseDuration, positive); ok {
			retry.Schedule = append(retry.Schedule, wait)
		}
	}
	retry.Attempts = len(retry.Schedule) + 1
	if len(entries) == 0 && isList(it) {
		r.fault(it.path, "write attempts: 1 in its place to try once only", "the schedule is empty")
	}
	if retry.Attempts > attemptsMax {
		r.fault(it.path, "shorten it", "%d attempts are more than %d", retry.Attempts, attemptsMax)
	}
	return retry
}
