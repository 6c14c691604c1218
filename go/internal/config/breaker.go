package config

import (
	"fmt"
	"slices"
	"time"
)

// slowDestination is the p99 that trips where somebody waits for a destination, or where it is a
// database that others need as well.
const slowDestination = 500 * time.Millisecond

// groups reads the breakers that destinations share. shared tells that there is a Redis.
func (r *reader) groups(t *table, shared bool) []Group {
	if len(t.fields) > groupsMax {
		r.fault(t.path, "join some", "%d groups are more than %d", len(t.fields), groupsMax)
	}
	var groups []Group
	for i := range t.fields {
		it := t.entry(i)
		r.name(it.path, t.fields[i].key, "group")
		block := r.table(it)
		g := Group{Name: t.fields[i].key}
		g.Breaker = r.breaker(r.table(block.get("breaker")), shared)
		block.end()
		groups = append(groups, g)
	}
	return groups
}

// breakerOf reads a destination's breaker, which may name groups.
func (r *reader) breakerOf(t *table, d *Destination, c *Config) Breaker {
	names := make([]string, len(c.Groups))
	for i := range c.Groups {
		names[i] = c.Groups[i].Name
	}
	groups := r.memberships(t, names)
	b := r.breaker(t, c.Redis != nil)
	b.Groups = groups
	if d.Postgres != nil && !t.has("signals") {
		b.Signals = []Signal{r.ownDatabase(d.Postgres)}
	}
	return b
}

// memberships reads one name of a group or a list of them.
func (r *reader) memberships(t *table, names []string) []string {
	it, known := t.get("group"), knownName("group", "groups", names)
	var groups []string
	switch {
	case it.node == nil:
		return nil
	case isList(it):
		groups = values(t, "group", nil, parseText, known)
	default:
		if name, ok := one(r, it, parseText, known); ok {
			groups = []string{name}
		}
	}
	if len(groups) > memberMax {
		r.fault(it.path, "join some", "%d groups are more than %d", len(groups), memberMax)
	}
	return groups
}

// breaker reads all but the groups. The default of latency follows from who delivers, so it is
// filled in when the sources are known.
func (r *reader) breaker(t *table, shared bool) Breaker {
	b := Breaker{
		Failures:    value(t, "failures", 5, parseCount, between(0, 1000)),
		Ratio:       value(t, "ratio", 0.15, parseNumber, between(0.0, 1.0)),
		Window:      value(t, "window", time.Minute, parseDuration, between(time.Second, time.Hour)),
		Samples:     value(t, "samples", 20, parseCount, between(1, 1<<20)),
		Latency:     value(t, "latency", 0, parseDuration, between(0, time.Hour)),
		Cooldown:    value(t, "cooldown", 30*time.Second, parseDuration, positive),
		CooldownMax: value(t, "cooldown_max", 5*time.Minute, parseDuration, positive),
		Ramp:        values(t, "ramp", []int{10, 50, 200}, parseCount, between(1, 1<<20)),
		RampStep:    value(t, "ramp_step", 5*time.Second, parseDuration, positive),
		Inflight:    value(t, "inflight", true, parseBool),
		DeadLetters: value(t, "dead_letters", Rate{Per: time.Minute}, parseThreshold),
	}
	if b.CooldownMax < b.Cooldown {
		r.fault(t.join("cooldown_max"), "raise it, or lower cooldown",
			"%v is below cooldown %v", b.CooldownMax, b.Cooldown)
	}
	if !slices.IsSorted(b.Ramp) || len(b.Ramp) == 0 {
		r.fault(t.join("ramp"), "write it as [10, 50, 200]",
			"%s is no ramp that climbs", fmt.Sprint(b.Ramp))
	}
	b.Signals = r.signals(t, shared)
	t.end()
	return b
}

// latencies gives the threshold that no file names to the destinations that somebody waits for.
func (r *reader) latencies(c *Config) {
	waited := map[string]bool{}
	for i := range c.Sources {
		if c.Sources[i].Acknowledge != "delivered" {
			continue
		}
		for _, name := range c.Sources[i].Deliver {
			waited[name] = true
		}
	}
	for i := range c.Destinations {
		d := &c.Destinations[i]
		_, own := r.lines["destinations."+d.Name+".breaker.latency"]
		if !own && (d.Postgres != nil || waited[d.Name]) {
			d.Breaker.Latency = slowDestination
		}
	}
}
