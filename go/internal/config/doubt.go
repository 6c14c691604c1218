package config

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// doubts finds what holds and yet is hardly meant.
func (r *reader) doubts(c *Config) {
	ordered := map[string]bool{}
	for i := range c.Sources {
		s := &c.Sources[i]
		for _, name := range s.Deliver {
			ordered[name] = ordered[name] || s.OrderBy.Kind != ByNothing
		}
		if s.Acknowledge == "delivered" {
			r.doubtWait(c, s)
		}
	}
	for i := range c.Destinations {
		d := &c.Destinations[i]
		path := "destinations." + d.Name
		if d.OnDead == "block" && !ordered[d.Name] {
			r.warn(path+".on_dead", "set order_by of a source that delivers there, or write skip",
				"no event that comes to %s has an ordering key, so there is nothing to block", d.Name)
		}
		if p := d.Postgres; p != nil && p.StatementTimeout < p.LockTimeout {
			r.warn(path+".postgres.statement_timeout", "raise it, or lower lock_timeout",
				"%v is below lock_timeout %v: a wait for a lock ends as a slow statement, and nobody "+
					"sees that it was a lock", p.StatementTimeout, p.LockTimeout)
		}
	}
	r.doubtTrust(c)
	for i := range c.Groups {
		name := c.Groups[i].Name
		if !slices.ContainsFunc(c.Destinations, func(d Destination) bool {
			return slices.Contains(d.Breaker.Groups, name)
		}) {
			r.warn("groups."+name, "name it under breaker.group of its destinations, or take it out",
				"no destination is in group %s", name)
		}
	}
}

// doubtTrust finds peers that are believed and may be anybody.
func (r *reader) doubtTrust(c *Config) {
	all := func(list []netip.Prefix) bool {
		return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Bits() == 0 })
	}
	for i, l := range c.Listeners {
		path := fmt.Sprintf("listeners[%d]", i)
		if l.Address.Network != "unix" && all(l.ProxyProtocol) {
			r.warn(path+".proxy_protocol.from", "name the networks of your load balancers",
				"whoever connects says what its address is, so allow_from and bounds per address mean "+
					"nothing where others than a load balancer reach the port")
		}
		if all(l.ForwardedFor) {
			r.warn(path+".forwarded_for.from", "name the networks of your proxies",
				"every X-Forwarded-For is believed, so a sender chooses the address that allow_from sees")
		}
	}
	if c.User == "root" || c.User == "0" {
		r.warn("user", "name one made for sluice, or take it out",
			"the data plane, which strangers talk to, stays root")
	}
}

// doubtWait holds the destinations that a sender waits for against how long it does.
func (r *reader) doubtWait(c *Config, s *Source) {
	const margin = 50 * time.Millisecond
	budget := s.Deadline - min(s.Deadline/10, time.Second) - margin
	for _, name := range s.Deliver {
		d, known := c.Destination(name)
		if !known || d.HTTP == nil || d.HTTP.Timeout <= budget {
			continue
		}
		r.warn("destinations."+name+".http.timeout", "write a time below "+budget.String()+
			", or let it be: an attempt that ends later is not lost",
			"%v is longer than a sender of source %s waits (deadline %v): it hears 202 before such an "+
				"attempt ends", d.HTTP.Timeout, s.Name, s.Deadline)
	}
}
