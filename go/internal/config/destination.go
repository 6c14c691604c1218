package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

func (r *reader) destinations(t *table) []Destination {
	if len(t.fields) > destinationsMax {
		r.fault(t.path, "split them over two gateways", "%d destinations are more than %d",
			len(t.fields), destinationsMax)
	}
	destinations := make([]Destination, 0, len(t.fields))
	files := map[string]string{}
	for i := range t.fields {
		it := t.entry(i)
		r.name(it.path, t.fields[i].key, "destination")
		d := r.destination(r.table(it), t.fields[i].key)
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

func (r *reader) destination(t *table, name string) Destination {
	d := Destination{Name: name}
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
		r.fault(t.path, `write http: {url: "http://127.0.0.1:9000/hook"}, file: or stdout: {}`,
			"destination %s does not say where it is", name)
	case 1:
	default:
		r.fault(t.path, "make a destination of each", "destination %s is %s at once", name,
			strings.Join(found, " and "))
	}
	d.Concurrency = value(t, "concurrency", 0, parseConcurrency)
	d.DropHeaders = values(t, "drop_headers", nil, parseText, checkToken)
	if len(d.DropHeaders) > 0 {
		r.needs(DropHeaders, t.join("drop_headers"), "drop_headers")
	}
	d.Retry = r.retry(r.table(t.get("retry")))
	d.Breaker = r.breaker(r.table(t.get("breaker")))
	t.end()
	return d
}

func (r *reader) httpTarget(t *table) *HTTPTarget {
	target := &HTTPTarget{}
	if !t.has("url") {
		r.fault(t.path, `write url: "http://127.0.0.1:9000/hook"`, "there is no url")
	}
	target.URL = value(t, "url", "", parseText, checkURL)
	target.Timeout = value(t, "timeout", 10*time.Second, parseDuration, positive)
	return target
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
	r.needs(Postgres, t.path, "a postgres destination")
	target := &PostgresTarget{}
	if it := t.get("url"); it.node == nil {
		r.fault(t.path, `write url: "env:NAME"`, "there is no url")
	} else {
		target.URL, _ = r.secret(it)
	}
	target.Table = value(t, "table", "sluice_events", parseText, filled)
	return target
}

func (r *reader) retry(t *table) Retry {
	retry := Retry{
		Base:     value(t, "base", 2*time.Second, parseDuration, positive),
		Max:      value(t, "max", time.Hour, parseDuration, positive),
		Attempts: value(t, "attempts", 16, parseCount, between(1, 1000)),
	}
	if retry.Max < retry.Base {
		r.fault(t.join("max"), "raise it, or lower base", "%v is below base %v", retry.Max, retry.Base)
	}
	t.end()
	return retry
}

func (r *reader) breaker(t *table) Breaker {
	if t.present {
		r.needs(BreakerTuning, t.path, "tuning a breaker")
	}
	b := Breaker{
		Failures:    value(t, "failures", 5, parseCount, between(1, 1000)),
		Cooldown:    value(t, "cooldown", 30*time.Second, parseDuration, positive),
		CooldownMax: value(t, "cooldown_max", 5*time.Minute, parseDuration, positive),
		Ramp:        values(t, "ramp", []int{10, 50, 200}, parseCount, between(1, 1<<20)),
		RampStep:    value(t, "ramp_step", 5*time.Second, parseDuration, positive),
	}
	if b.CooldownMax < b.Cooldown {
		r.fault(t.join("cooldown_max"), "raise it, or lower cooldown",
			"%v is below cooldown %v", b.CooldownMax, b.Cooldown)
	}
	if !slices.IsSorted(b.Ramp) || len(b.Ramp) == 0 {
		r.fault(t.join("ramp"), "write it as [10, 50, 200]",
			"%s is no ramp that climbs", fmt.Sprint(b.Ramp))
	}
	t.end()
	return b
}
