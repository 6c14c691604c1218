package config

import (
	"regexp"
	"strings"
	"time"
)

const (
	defaultReconcileRate = 20 // events a second
	resourcesMax         = 32
	typesMax             = 20 // that Stripe takes, docs.stripe.com/api/events/list
)

// Reconcile says how a source's provider is asked for what was missed. What does not belong to Kind
// is empty.
type Reconcile struct {
	Kind  string `yaml:"kind"`            // github | stripe | shopify | http
	URL   Text   `yaml:"url"`             // of the provider's API; of http: a template
	Token Secret `yaml:"token,omitempty"` // that the provider takes

	// Every is how often; 0: by hand only, gaps do not count then.
	Every time.Duration `yaml:"every"`
	// Lookback is how far back a run by itself asks at most.
	Lookback time.Duration `yaml:"lookback"`
	Rate     *Rate         `yaml:"rate"`            // of events taken in or asked for again
	Which    string        `yaml:"which,omitempty"` // github, stripe: failed | all

	Hook string `yaml:"hook,omitempty"` // github: repos/OWNER/REPO/hooks/ID, orgs/…, app/hook
	Take string `yaml:"take,omitempty"` // github: redeliver | payload

	Version   string   `yaml:"version,omitempty"`        // of the API; stripe, shopify
	Types     []string `yaml:"types,flow,omitempty"`     // stripe: those that the endpoint gets
	Resources []string `yaml:"resources,flow,omitempty"` // shopify

	Headers Headers `yaml:"headers,omitempty"` // http: of the request to the provider
	Items   string  `yaml:"items,omitempty"`   // http: pointer to the list
	// Cursor, of http: link, or a pointer to what {cursor} stands for, or to the URL of the next page
	// where the URL has no {cursor}.
	Cursor string `yaml:"cursor,omitempty"`
	Body   string `yaml:"body,omitempty"` // http: pointer within an item; empty: the item
	Time   string `yaml:"time,omitempty"` // http: pointer within an item
	// TimeFormat is that of {since}, {until} and of Time: rfc3339, unix-s or unix-ms.
	TimeFormat string `yaml:"time_format,omitempty"`
	// Set are the headers that an event gets: json:/pointer within the item, or a text as it is.
	Set Headers `yaml:"set,omitempty"`
}

// reconcileKind is what differs between kinds. Horizons are the providers' own.
type reconcileKind struct {
	url     string        // the default; empty: there is none
	horizon time.Duration // how far back the provider knows; 0: no bound
	look    time.Duration // the default of lookback
}

var reconcileKinds = map[string]reconcileKind{
	// docs.github.com, Viewing webhook deliveries: the past 3 days.
	"github": {url: "https://api.github.com", horizon: 72 * time.Hour, look: 72 * time.Hour},
	// docs.stripe.com/api/events/list: up to 30 days.
	"stripe":  {url: "https://api.stripe.com", horizon: 30 * 24 * time.Hour, look: 72 * time.Hour},
	"shopify": {look: 24 * time.Hour},
	"http":    {look: 24 * time.Hour},
}

// reconcile reads how the provider of a source is asked; nil: it is not.
func (r *reader) reconcile(t *table, s *Source, all *Config) *Reconcile {
	it := t.get("reconcile")
	if it.node == nil {
		return nil
	}
	of := r.table(it)
	otherwise := "http"
	if _, known := reconcileKinds[s.Provider]; known {
		otherwise = s.Provider
	}
	c := &Reconcile{}
	c.Kind = value(of, "kind", otherwise, parseText, oneKind)
	kind := reconcileKinds[c.Kind]
	c.URL = NewText(kind.url)
	if at := of.get("url"); at.node != nil {
		c.URL, _ = r.place(at, "https://api.example.com", "http", "https")
	} else if kind.url == "" {
		r.fault(it.path, `write url: "https://…"`, "nothing says where the provider is asked")
	}
	if at := of.get("token"); at.node != nil {
		if secret, ok := r.secret(at); ok {
			c.Token = secret
			r.holds(at.path, secret, checkFieldValue)
		}
	} else if c.Kind != "http" {
		r.fault(it.path, `write token: "env:NAME"`, "%s wants a token", c.Kind)
	}
	c.Every = value(of, "every", time.Hour, parseDuration)
	if c.Every != 0 && c.Every < time.Minute {
		r.fault(of.join("every"), "write at least 1m, or 0s for by hand only", "%v is too often", c.Every)
	}
	kept := time.Duration(all.Journal.Retention.Age)
	c.Lookback = value(of, "lookback", min(kind.look, kept), parseDuration, positive)
	if c.Lookback > kept {
		r.fault(of.join("lookback"), "lower it, or raise journal.retention.age",
			"%v is longer than events are kept, which is %v: older ones would come again", c.Lookback,
			all.Journal.Retention.Age)
	}
	if kind.horizon > 0 && c.Lookback > kind.horizon {
		r.fault(of.join("lookback"), "lower it to "+Days(kind.horizon).String(),
			"%s does not know more than %v", c.Kind, Days(kind.horizon))
	}
	if c.Rate = r.rate(of); c.Rate == nil {
		c.Rate = &Rate{Events: defaultReconcileRate, Per: time.Second}
	}
	r.reconcileOwn(of, c)
	of.end()
	r.knowable(it.path, s, c)
	return c
}

// reconcileOwn reads the keys of the kind alone.
func (r *reader) reconcileOwn(t *table, c *Reconcile) {
	switch c.Kind {
	case "github":
		c.Which = value(t, "which", "failed", oneOf("failed", "all"))
		c.Take = value(t, "take", "redeliver", oneOf("redeliver", "payload"))
		if !t.has("hook") {
			r.fault(t.path, "write hook: repos/OWNER/REPO/hooks/ID, orgs/ORG/hooks/ID or app/hook",
				"nothing says which webhook of GitHub's it is")
		}
		c.Hook = value(t, "hook", "", parseText, checkHook)
	case "stripe":
		c.Which = value(t, "which", "failed", oneOf("failed", "all"))
		c.Version = value(t, "version", "", parseText, checkFieldValue)
		c.Types = values(t, "types", nil, parseText, named("type of events"))
		if len(c.Types) > typesMax {
			r.fault(t.join("types"), "name a group as invoice.*, or take the key out",
				"%d types are more than %d", len(c.Types), typesMax)
		}
	case "shopify":
		c.Version = value(t, "version", "2025-01", parseText, checkShopifyVersion)
		c.Resources = values(t, "resources", []string{"orders"}, parseText, checkResource)
		if n := len(r.list(t.get("resources"))); t.has("resources") && n == 0 || n > resourcesMax {
			r.fault(t.join("resources"), "write [orders] or others that have updated_at_min",
				"%d resources are not from 1 to %d", n, resourcesMax)
		}
	case "http":
		r.reconcileHTTP(t, c)
	}
}

func (r *reader) reconcileHTTP(t *table, c *Reconcile) {
	c.Headers = r.headers(r.table(t.get("headers")), false)
	c.Items = value(t, "items", "", parseText, checkWithin)
	c.Cursor = value(t, "cursor", "", parseText, func(text string) error {
		if text == "link" {
			return nil
		}
		return checkWithin(text)
	})
	c.Body = value(t, "body", "", parseText, checkWithin)
	c.Time = value(t, "time", "", parseText, checkWithin)
	c.TimeFormat = value(t, "time_format", "rfc3339", oneOf("rfc3339", "unix-s", "unix-ms"))
	c.Set = r.headers(r.table(t.get("set")), false)
	for _, h := range c.Set {
		if at, is := strings.CutPrefix(h.Value.Reveal(), "json:"); is {
			if err := checkWithin(at); err != nil {
				r.refuse(t.join("set")+"."+h.Name, err)
			}
		}
	}
}

// knowable holds a source to what reconciliation needs to tell what is here already.
func (r *reader) knowable(path string, s *Source, c *Reconcile) {
	if s.Dedup == 0 {
		r.fault(path, "set dedup, or take reconcile out",
			"without dedup an event that comes by webhook meanwhile would be there twice")
	}
	switch {
	case s.IDFrom.Kind == ByNothing:
		r.fault(path, "set id_from, or take reconcile out",
			"without ids nobody can tell what was missed")
	case s.IDFrom.Kind == ByBody:
		r.fault(path, "set id_from: provider, or take reconcile out",
			"what a provider has on record differs in its bytes from what it sent, so its hash says "+
				"nothing")
	case s.IDFrom.Kind == ByJSON && c.Take == "redeliver":
		r.fault(path, "set id_from: provider, or take: payload",
			"GitHub's list of deliveries has no bodies to read an id from")
	}
}

func oneKind(text string) error {
	_, err := oneOf("github", "stripe", "shopify", "http")(text)
	return err
}

var (
	hookForm = regexp.MustCompile(
		`^(repos/[\w.-]+/[\w.-]+/hooks/\d+|orgs/[\w.-]+/hooks/\d+|app/hook)$`)
	resourceForm = regexp.MustCompile(`^[a-z][a-z_/]*[a-z]$`)
	versionForm  = regexp.MustCompile(`^(\d{4}-\d{2}|unstable)$`)
)

func checkHook(text string) error {
	if hookForm.MatchString(text) {
		return nil
	}
	return wrong("write repos/OWNER/REPO/hooks/ID, orgs/ORG/hooks/ID or app/hook; the ID is in the "+
		"address of the webhook's settings", "%q is no webhook of GitHub's", text)
}

func checkResource(text string) error {
	if resourceForm.MatchString(text) {
		return nil
	}
	return wrong("write it as orders or draft_orders", "%q is no resource", text)
}

func checkShopifyVersion(text string) error {
	if versionForm.MatchString(text) {
		return nil
	}
	return wrong("write it as 2025-01", "%q is no version of Shopify's API", text)
}

// checkWithin takes a JSON pointer (RFC 6901); an empty one is the whole.
func checkWithin(text string) error {
	if text == "" || checkPointer(text) == nil {
		return nil
	}
	return wrong("write it as /data/items", "%q is not a JSON pointer", text)
}

// silence reads when a quiet source is one to look at. 0: never; negative: when it is quiet beyond
// its own rhythm.
func (r *reader) silence(t *table) Silence {
	return value(t, "silence", SilenceAuto, func(text string) (Silence, error) {
		switch text {
		case "auto":
			return SilenceAuto, nil
		case "off":
			return SilenceOff, nil
		}
		d, err := parseDuration(text)
		if err != nil || d < time.Second {
			return 0, wrong("write auto, off, or a time of 1s or more as 6h", "%q is no silence", text)
		}
		return Silence(d), nil
	})
}

// Silence is after which quiet time a source is one to look at.
type Silence time.Duration

// SilenceOff is never, SilenceAuto when the source is quiet beyond its own rhythm.
const (
	SilenceOff  Silence = 0
	SilenceAuto Silence = -1
)

// String is the form that a config takes.
func (s Silence) String() string {
	switch s {
	case SilenceOff:
		return "off"
	case SilenceAuto:
		return "auto"
	}
	return time.Duration(s).String()
}

// MarshalText writes the form that a config takes.
func (s Silence) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
