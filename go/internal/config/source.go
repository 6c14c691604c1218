package config

import (
	"net/netip"
	"slices"
	"strings"
	"time"
)

const (
	defaultDeadline = 10 * time.Second
	// deadlineMin leaves a little beside the 50 ms and the connect time that come off a deadline.
	deadlineMin  = 100 * time.Millisecond
	defaultDedup = 24 * time.Hour
)

func (r *reader) sources(t *table, c *Config) []Source {
	if len(t.fields) > sourcesMax {
		r.fault(t.path, "split them over two gateways", "%d sources are more than %d",
			len(t.fields), sourcesMax)
	}
	sources := make([]Source, 0, len(t.fields))
	paths := map[string]string{}
	for i := range t.fields {
		it := t.entry(i)
		r.name(it.path, t.fields[i].key, "source")
		s := r.source(r.table(it), t.fields[i].key, c)
		if first, twice := paths[s.Path]; twice {
			r.fault(it.path+".path", "give each source its own", "%s is the path of source %s too",
				s.Path, first)
		} else {
			paths[s.Path] = s.Name
		}
		sources = append(sources, s)
	}
	return sources
}

// name holds a name in the file to what metrics, paths and commands can carry.
func (r *reader) name(path, name, what string) {
	bad := strings.IndexFunc(name, func(c rune) bool {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		return c > 127 || !letter && (c < '0' || c > '9') && !strings.ContainsRune("_-.", c)
	})
	if name == "" || len(name) > nameMax || bad >= 0 || strings.ContainsRune("_-.", rune(name[0])) {
		r.fault(path, "write letters, digits, _ - . and at most 63 of them",
			"%q is not a name for a %s", name, what)
	}
}

func (r *reader) source(t *table, name string, c *Config) Source {
	s := Source{Name: name}
	facts := r.proof(t, &s)
	r.clientNames(t, &s)
	s.Path = value(t, "path", "/hooks/"+name, parseText, checkPath)
	s.Methods = values(t, "methods", []string{"POST"}, parseText, checkMethod)
	if len(s.Methods) == 0 {
		r.fault(t.join("methods"), "write [POST] or take the key out", "no request could come in")
	}
	for _, method := range facts.Methods {
		if !slices.Contains(s.Methods, method) {
			s.Methods = append(s.Methods, method)
		}
	}
	s.Enforce = value(t, "enforce", true, parseBool)
	r.proofOptions(t, &s, facts)
	r.secrets(t, &s, facts)
	s.Priority = value(t, "priority", "default", oneOf("high", "default", "low"))
	s.MaxBody = value(t, "max_body", c.HTTP.MaxBody, parseSize, between(Size(bodyMin), Size(bodyMax)))
	s.Deadline = value(t, "deadline", orElse(facts.Deadline, defaultDeadline), parseDuration,
		positive, atLeast(deadlineMin))
	s.Rate = r.rate(t)
	s.AllowFrom = values(t, "allow_from", nil, parsePrefix)
	if s.AllowFrom != nil {
		r.allowsSomeone(t.join("allow_from"), s.AllowFrom)
	}
	s.Dedup = value(t, "dedup", defaultDedup, parseDuration)
	s.IDFrom = value(t, "id_from", Selector{Kind: ByProvider}, parseIDFrom)
	s.OrderBy = value(t, "order_by", Selector{Kind: ByNothing}, parseOrderBy)
	s.ShedStatus = value(t, "shed_status", orElse(facts.ShedStatus, c.Admission.ShedStatus),
		parseCount, shedStatus)
	r.delivery(t, &s, c)
	r.split(t, &s, facts)
	s.Reconcile = r.reconcile(t, &s, c)
	s.Silence = r.silence(t)
	t.end()
	return s
}

func orElse[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}

// proof reads how the source's requests are proven. A source named like a provider is one of it.
func (r *reader) proof(t *table, s *Source) Provider {
	provider, verify := t.get("provider"), t.get("verify")
	switch {
	case provider.node != nil && verify.node != nil:
		r.fault(verify.path, "keep one", "provider and verify both say how requests are proven")
	case verify.node != nil:
		return r.verify(verify, s)
	case provider.node != nil:
		name, ok := r.scalar(provider)
		if !ok {
			return Provider{}
		}
		s.Provider = name
		return r.provider(provider.path, name)
	default:
		if facts, known := r.lookup(s.Name); known && r.options.Provider != nil {
			s.Provider = s.Name
			return facts
		}
		r.fault(t.path, "write provider: NAME, or provider: none to take unsigned requests",
			"nothing says how the source's requests are proven")
	}
	return Provider{}
}

func (r *reader) lookup(name string) (Provider, bool) {
	if name == "none" || r.options.Provider == nil {
		return Provider{}, true
	}
	return r.options.Provider(name)
}

func (r *reader) provider(path, name string) Provider {
	facts, known := r.lookup(name)
	if known && name != "" {
		return facts
	}
	mend := "take a name of the catalogue, none, or write a verify: block"
	if close, found := suggest(name, r.options.Providers); found {
		mend = "did you mean " + close + "?"
	}
	r.fault(path, mend, "the catalogue has no provider %q", name)
	return Provider{}
}

func (r *reader) secrets(t *table, s *Source, facts Provider) {
	it := t.get("secrets")
	entries := r.list(it)
	if s.Provider == "none" || s.MutualTLS {
		if len(entries) > 0 {
			r.fault(it.path, "take them out, or name the provider",
				"source %s is not proven by a secret", s.Name)
		}
		return
	}
	if len(entries) > secretsMax {
		r.fault(it.path, "drop old ones", "%d secrets are more than %d", len(entries), secretsMax)
	}
	r.learn(t, s, facts)
	if len(entries) == 0 && facts.NeedsSecret && !facts.Learns && (it.node == nil || isList(it)) {
		r.fault(it.path, `write secrets: ["env:NAME"]`,
			"source %s has no secret, so none of its requests could be proven", s.Name)
	}
	var paths []string
	var known []Secret
	for _, entry := range entries {
		secret, ok := r.secretOf(entry, sourceParts)
		if !ok {
			continue
		}
		if slices.ContainsFunc(known, func(other Secret) bool {
			return string(other.Reveal()) == string(secret.Reveal())
		}) {
			r.fault(entry.path, "take one out", "the secret is there twice")
			continue
		}
		s.Secrets = append(s.Secrets, secret)
		if !secret.IsZero() {
			known, paths = append(known, secret), append(paths, entry.path)
		}
	}
	if facts.Unbound != nil && len(known) == len(entries) {
		if role := facts.Unbound(known); role != "" {
			r.warn(it.path, "add {role: "+role+", value: \"env:NAME\"}",
				"the sender of source %s signs alike for all its customers: without a secret of the role "+
					"%s any of them can send here", s.Name, role)
		}
	}
	if facts.CheckSecrets == nil || len(known) == 0 || len(s.Secrets) < len(entries) {
		return
	}
	for _, f := range facts.CheckSecrets(known, s.AllowLegacy) {
		const mend = "put it in as the provider shows it"
		switch {
		case f.Index >= 0 && f.Index < len(paths):
			r.fault(paths[f.Index], mend, "the secret from %s does not serve: %s",
				known[f.Index].Origin(), f.Problem)
		case len(known) == len(entries): // else a command may give what is missing
			r.fault(it.path, mend, "the secrets do not serve: %s", f.Problem)
		}
	}
}

func (r *reader) rate(t *table) *Rate {
	it := t.get("rate")
	if it.node == nil {
		return nil
	}
	rate, ok := one(r, it, parseRate)
	if !ok {
		return nil
	}
	return &rate
}

func (r *reader) allowsSomeone(path string, from []netip.Prefix) {
	if len(from) == 0 {
		r.fault(path, "name networks, or take the key out", "nobody could send")
	}
}

// delivery reads where the source's events go and what a sender hears about it.
func (r *reader) delivery(t *table, s *Source, c *Config) {
	everywhere := make([]string, len(c.Destinations))
	for i := range c.Destinations {
		everywhere[i] = c.Destinations[i].Name
	}
	s.Acknowledge = value(t, "acknowledge", "durable", oneOf("ring", "durable", "delivered"))
	s.Respond = value(t, "respond", "own", oneOf("own", "destination"))
	s.Deliver = values(t, "deliver", everywhere, parseText,
		knownName("destination", "destinations", everywhere))
	if s.Acknowledge == "delivered" {
		if len(s.Deliver) == 0 {
			r.fault(t.join("acknowledge"), "write durable, or name a destination under deliver",
				"source %s delivers nowhere", s.Name)
		}
	}
	if s.Respond == "destination" {
		if s.Acknowledge != "delivered" {
			r.fault(t.join("respond"), "set acknowledge: delivered or write own",
				"a destination's answer is only there to give when it is waited for")
		} else if len(s.Deliver) > 0 {
			r.answers(t, c, s.Deliver[0])
		}
	}
}

// answers holds the destination whose answer is the sender's to what can give one.
func (r *reader) answers(t *table, c *Config, first string) {
	d, known := c.Destination(first)
	if !known || d.HTTP != nil {
		return
	}
	path := t.join("deliver")
	if !t.has("deliver") {
		path = t.join("respond")
	}
	r.fault(path, "name an http destination first under deliver, or write respond: own",
		"the first destination gives the sender's answer, and %s is a %s destination", first, d.Kind())
}

// knownName takes one of the names that a section of the file has.
func knownName(what, section string, names []string) func(string) error {
	return func(name string) error {
		if slices.Contains(names, name) {
			return nil
		}
		mend := "add it under " + section
		if close, found := suggest(name, names); found {
			mend = "did you mean " + close + "?"
		}
		return wrong(mend, "there is no %s %q", what, name)
	}
}

// checkPath holds a path to what can stand in a request line as it is, since paths match exactly.
func checkPath(path string) error {
	const mend = "write it as /hooks/github"
	switch {
	case !strings.HasPrefix(path, "/"):
		return wrong(mend, "the path %q does not begin with /", path)
	case len(path) > pathMax:
		return wrong("name a shorter path", "the path has %d bytes, over %d", len(path), pathMax)
	case strings.ContainsAny(path, "?#"):
		return wrong("take it out", "a path is matched without query and fragment")
	case strings.IndexFunc(path, func(c rune) bool { return c <= ' ' || c > '~' }) >= 0:
		return wrong("write such bytes as %20", "the path %q has characters that no request has", path)
	}
	return nil
}

func checkMethod(method string) error {
	if checkToken(method) != nil || strings.ToUpper(method) != method || len(method) > methodMax {
		return wrong("write it as POST", "%q is not a method", method)
	}
	if method == "CONNECT" || method == "TRACE" {
		return wrong("take it out", "%s carries no webhook", method)
	}
	return nil
}
