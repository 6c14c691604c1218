package config

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func warnings(t *testing.T, text string, env map[string]string) string {
	t.Helper()
	c := mustParse(t, text, testOptions(env, nil))
	return strings.ReplaceAll(c.Warnings.Error(), testFolder+"/sluice.yaml", "sluice.yaml")
}

func TestWhatHoldsAndIsHardlyMeantIsAWarning(t *testing.T) {
	env := map[string]string{"URL": databaseURL}
	got := warnings(t, `
sources:
  a: {provider: none, acknowledge: delivered, deadline: 3s, deliver: [hook, fast, table]}
groups:
  orders: {}
  nobody: {}
destinations:
  hook: {http: {url: 'http://x/'}, breaker: {group: orders}, on_dead: block}
  fast: {http: {url: 'http://x/', timeout: 2s}}
  slow: {http: {url: 'http://x/', timeout: 20s}}
  table: {postgres: {url: "env:URL", statement_timeout: 1s}}
`, env)
	want := `sluice.yaml:6: groups.nobody: no destination is in group nobody; ` +
		`name it under breaker.group of its destinations, or take it out
sluice.yaml:8: destinations.hook.http.timeout: 10s is longer than a sender of source a waits ` +
		`(deadline 3s): it hears 202 before such an attempt ends; write a time below 2.65s, or let ` +
		`it be: an attempt that ends later is not lost
sluice.yaml:8: destinations.hook.on_dead: no event that comes to hook has an ordering key, so ` +
		`there is nothing to block; set order_by of a source that delivers there, or write skip
sluice.yaml:11: destinations.table.postgres.statement_timeout: 1s is below lock_timeout 2s: a ` +
		`wait for a lock ends as a slow statement, and nobody sees that it was a lock; raise it, or ` +
		`lower lock_timeout`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestWhatIsMeantIsNoWarning(t *testing.T) {
	if got := warnings(t, `
sources:
  a: {provider: none, order_by: source, acknowledge: delivered, deliver: [hook, log]}
  b: {provider: none, deliver: [slow]}
groups: {orders: {}}
destinations:
  hook: {http: {url: 'http://x/', timeout: 8s}, breaker: {group: [orders]}, on_dead: block}
  slow: {http: {url: 'http://x/', timeout: 20s,
                egress: {allow: [10.0.0.0/8], deny: [10.0.0.0/16]}}}
  log: {file: {path: x}}
  table: {postgres: {url: "env:URL", statement_timeout: 2s}}
`, map[string]string{"URL": databaseURL}); got != "" {
		t.Errorf("got %s", got)
	}
}

// Who waits for a destination, or shares a database, notices that it is slow before it fails.
func TestLatencyTripsWhereSomebodyWaits(t *testing.T) {
	c := mustParse(t, `
sources:
  a: {provider: none, acknowledge: delivered, deliver: [waited, own, off]}
  b: {provider: none, deliver: [queued]}
destinations:
  waited: {http: {url: 'http://x/'}}
  own: {http: {url: 'http://x/'}, breaker: {latency: 100ms}}
  off: {http: {url: 'http://x/'}, breaker: {latency: 0s}}
  queued: {http: {url: 'http://x/'}}
  table: {postgres: {url: "env:URL"}}
groups: {orders: {}}
`, testOptions(map[string]string{"URL": databaseURL}, nil))
	for name, want := range map[string]time.Duration{
		"waited": 500 * time.Millisecond, "own": 100 * time.Millisecond, "off": 0, "queued": 0,
		"table": 500 * time.Millisecond,
	} {
		if d, _ := c.Destination(name); d.Breaker.Latency != want {
			t.Errorf("%s trips at %v, want %v", name, d.Breaker.Latency, want)
		}
	}
	if got := c.Groups[0].Breaker.Latency; got != 0 {
		t.Errorf("the group trips at %v", got)
	}
}

func TestADatabaseIsWatchedUnlessItsConfigSaysOtherwise(t *testing.T) {
	c := mustParse(t, `
destinations:
  table: {postgres: {url: "env:URL"}}
  quiet: {postgres: {url: "env:URL"}, breaker: {signals: []}}
  hook: {http: {url: 'http://x/'}}
`, testOptions(map[string]string{"URL": databaseURL}, nil))
	table := c.Destinations[0].Breaker.Signals
	if len(table) != 1 || table[0].Postgres == nil || table[0].Name != "postgres" ||
		table[0].Interval != 5*time.Second {
		t.Fatalf("the table has %+v", table)
	}
	want := PostgresSignal{
		URL: c.Destinations[0].Postgres.URL, Pool: PoolThreshold{Threshold: Threshold{0.85, 0.5}},
		Locks: WaitThreshold{Threshold: Threshold{5, 1}, After: 2 * time.Second},
	}
	if !reflect.DeepEqual(*table[0].Postgres, want) {
		t.Errorf("the table is watched by %+v, want %+v", *table[0].Postgres, want)
	}
	for _, d := range c.Destinations[1:] {
		if len(d.Breaker.Signals) != 0 {
			t.Errorf("%s has %+v", d.Name, d.Breaker.Signals)
		}
	}
}

func TestWorkersAreLookedForInRedisWhereThereIsOne(t *testing.T) {
	const groups = "groups: {g: {breaker: {signals: [{workers: {}}]}}}\n"
	options := testOptions(map[string]string{"R": redisURL}, nil)
	for text, want := range map[string]bool{groups: false, groups + "redis: {url: 'env:R'}": true} {
		c := mustParse(t, text, options)
		if got := c.Groups[0].Breaker.Signals[0].Workers; got.Redis != want || got.Trip != 0.3 {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func TestAScheduleSaysHowManyAttemptsThereAre(t *testing.T) {
	c := mustParse(t, "destinations: {a: {stdout: {}, retry: {schedule: [5s, 5s, 1m]}}}",
		testOptions(nil, nil))
	want := Retry{
		Schedule: []time.Duration{5 * time.Second, 5 * time.Second, time.Minute}, Attempts: 4,
	}
	if got := c.Destinations[0].Retry; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestATextIsShownUnlessItIsReferredTo(t *testing.T) {
	c := mustParse(t, `
destinations:
  a: {http: {url: 'http://x/', proxy: "env:P", headers: {X-A: "env:K", X-B: plain}}}
`, testOptions(map[string]string{"P": proxyURL, "K": billingKey}, nil))
	target := c.Destinations[0].HTTP
	if target.Proxy.Reveal() != proxyURL || target.Proxy.String() != hidden {
		t.Errorf("the proxy is shown as %s", target.Proxy)
	}
	want := []string{billingKey, hidden, "plain", "plain"}
	for i, h := range target.Headers {
		if h.Value.Reveal() != want[2*i] || h.Value.String() != want[2*i+1] {
			t.Errorf("%s is %s, shown as %s", h.Name, h.Value.Reveal(), h.Value)
		}
	}
}

func TestASecretThatSignsMayLackItsPadding(t *testing.T) {
	for text, want := range map[string]string{
		"whsec_aGk": "whsec_aGk=", "whsec_aGk=": "whsec_aGk=", "YQ": "YQ==", "whsec_aGkh": "whsec_aGkh",
	} {
		c := mustParse(t, "alerts: {url: 'http://x/', secret: 'env:S'}",
			testOptions(map[string]string{"S": text}, nil))
		if got := string(c.Alerts.Secret.Reveal()); got != want {
			t.Errorf("%s is handed on as %s, want %s", text, got, want)
		}
	}
}
