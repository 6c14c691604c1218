package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

func mustParse(t testing.TB, text string, options Options) *Config {
	t.Helper()
	c, err := Parse(filepath.Join(testFolder, "sluice.yaml"), []byte(text), options)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func example(t testing.TB) (*Config, Options) {
	t.Helper()
	text, err := os.ReadFile("testdata/example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	options := exampleOptions(t)
	return mustParse(t, string(text), options), options
}

// golden compares with a file of testdata, or writes it with -rewrite.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: want\n%s\ngot\n%s", path, want, got)
	}
}

func TestEveryKeyHasItsDefault(t *testing.T) {
	c := mustParse(t, "sources: {a: {provider: none}}\ndestinations: {b: {http: {url: http://x/}}}",
		testOptions(nil, nil))
	text, err := c.Redacted()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "defaults.yaml", text)
}

func TestTheExampleHoldsAndIsShownWhole(t *testing.T) {
	c, _ := example(t)
	text, err := c.Redacted()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "example-redacted.yaml", text)
}

func TestTheExampleNamesEveryKeyThatIsKnown(t *testing.T) {
	text, err := os.ReadFile("testdata/example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// Each key that a reader asks for is in the mend of an unknown one beside it.
	for _, word := range []string{"zzzzzz: 1", "http: {zzzzzz: 1}", "admission: {zzzzzz: 1}",
		"admin: {zzzzzz: 1}", "listeners: [{address: ':1', zzzzzz: 1}]",
		"sources: {a: {provider: none, zzzzzz: 1}}",
		"sources: {a: {provider: none, reconcile: {kind: http, url: 'http://x/', zzzzzz: 1}}}",
		"sources: {a: {provider: none, reconcile: {kind: stripe, token: 'env:S', zzzzzz: 1}}}",
		"sources: {a: {provider: none, reconcile: {kind: shopify, url: 'http://x/', token: 'env:S', " +
			"zzzzzz: 1}}}",
		"sources: {a: {provider: none, reconcile: {kind: github, hook: app/hook, token: 'env:S', " +
			"zzzzzz: 1}}}",
		"destinations: {a: {stdout: {}, zzzzzz: 1}}",
		"destinations: {a: {stdout: {}, retry: {zzzzzz: 1}, breaker: {zzzzzz: 1}}}",
		"destinations: {a: {postgres: {url: 'env:S', zzzzzz: 1}}}",
		"destinations: {a: {http: {url: 'https://x/', zzzzzz: 1, sign: {secret: 'env:W', zzzzzz: 1}, " +
			"tls: {zzzzzz: 1}, egress: {zzzzzz: 1}}}}",
		"destinations: {a: {stdout: {}, transform: {cel: x, zzzzzz: 1}}}",
		"groups: {g: {zzzzzz: 1}}", "redis: {url: 'env:R', zzzzzz: 1}",
		"alerts: {url: 'http://x/', zzzzzz: 1}",
		"groups: {g: {breaker: {signals: [{workers: {redis: false, zzzzzz: 1}, zzzzzz: 1}]}}}",
		"groups: {g: {breaker: {signals: [{http: {url: 'http://x/', trip: 1, recover: 0, zzzzzz: 1}}]}}}",
		"groups: {g: {breaker: {signals: [{prometheus: {url: 'http://x/', query: q, trip: 1, " +
			"recover: 0, zzzzzz: 1}}]}}}",
		"groups: {g: {breaker: {signals: [{postgres: {url: 'env:S', zzzzzz: 1, pool: {zzzzzz: 1}, " +
			"locks: {zzzzzz: 1}, blocked: {zzzzzz: 1}}}]}}}",
	} {
		env := map[string]string{"S": databaseURL, "W": billingSecret, "R": redisURL}
		_, err := Parse("x", []byte(word), testOptions(env, nil))
		var faults Faults
		if !errors.As(err, &faults) {
			t.Fatalf("%s: no fault", word)
		}
		for _, fault := range faults {
			known, found := strings.CutPrefix(fault.Mend, "known here: ")
			if !found {
				t.Errorf("%s: no known keys in %s", word, fault)
			}
			for _, key := range strings.Split(known, ", ") {
				if !bytes.Contains(text, []byte(key+":")) {
					t.Errorf("the example lacks %s of %s", key, fault.Path)
				}
			}
		}
	}
}

func TestARedactedConfigReadAgainIsTheSame(t *testing.T) {
	first, options := example(t)
	text, err := first.Redacted()
	if err != nil {
		t.Fatal(err)
	}
	options.Dev = true
	options.CheckScheme = nil
	// The secrets in the order in which they are shown.
	again := string(text)
	for _, secret := range []string{adminToken, sealKey, redisURL, alertSecret, currentSecret,
		oldSecret, githubToken, ordersParts, "what a command prints", currentSecret, currentSecret,
		openToken, currentSecret, stripeKey,
		currentSecret, shopifyToken, billingKey, billingSecret, formerSecret, proxyURL,
		databaseURL, databaseURL, databaseURL} {
		again = strings.Replace(again, "'[secret]'", "'"+secret+"'", 1)
	}
	if strings.Contains(again, hidden) {
		t.Fatalf("there are more secrets:\n%s", again)
	}
	second := mustParse(t, again, options)
	second.Dev = false
	for _, c := range []*Config{first, second} {
		for i := range c.Sources {
			c.Sources[i].Verify = nil
		}
		sameOrigin(reflect.ValueOf(c).Elem())
	}
	if !reflect.DeepEqual(first, second) {
		t.Errorf("want %+v\ngot  %+v", first, second)
	}
}

// ordersParts is a secret of parts as one text.
const ordersParts = `{"key_id":"k1","not_after":"2027-03-31T00:00:00Z","value":"hunter2-orders"}`

// sameOrigin makes each secret and each text below a value the same kind of it.
func sameOrigin(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			sameOrigin(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			sameOrigin(v.Index(i))
		}
	case reflect.Struct:
		switch held := v.Addr().Interface().(type) {
		case *Secret:
			if held.Command() != nil {
				*held = NewSecret("somewhere", []byte("what a command prints"))
			} else if !held.IsZero() {
				*held = NewSecret("somewhere", held.Reveal())
			}
			return
		case *Text:
			*held = NewText(held.Reveal())
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				sameOrigin(v.Field(i))
			}
		}
	}
}

func TestWhatIsReadIsWhatIsWritten(t *testing.T) {
	c, _ := example(t)
	github, _ := c.Source("github")
	secrets := []string{string(github.Secrets[0].Reveal()), string(github.Secrets[1].Reveal())}
	if !slices.Equal(secrets, []string{currentSecret, oldSecret}) {
		t.Errorf("secrets %q", secrets)
	}
	if github.Rate.PerSecond() != 500 || github.MaxBody != 25<<20 || github.Dedup != 24*time.Hour {
		t.Errorf("github is %+v", github)
	}
	orders, _ := c.Source("orders")
	if got := string(orders.Secrets[0].Reveal()); got != ordersParts {
		t.Errorf("a secret of parts is %s", got)
	}
	if orders.Verify == nil || orders.Verify.Line != 95 || !orders.Verify.Exact {
		t.Errorf("the scheme is %+v", orders.Verify)
	}
	archive, _ := c.Destination("archive")
	if archive.File.Path != "/etc/sluice/events.ndjson" || archive.Kind() != "file" {
		t.Errorf("archive is %+v", archive)
	}
	if _, found := c.Source("nobody"); found {
		t.Error("found a source that is not there")
	}
}

func TestTheCatalogueFillsWhatTheFileLeavesOpen(t *testing.T) {
	c := mustParse(t, `{sources: {discord: {secrets: ["env:S"]}}, admission: {shed_status: 503}}`,
		testOptions(map[string]string{"S": "s"}, nil))
	s, _ := c.Source("discord")
	if s.Provider != "discord" || s.Path != "/hooks/discord" || s.Deadline != 3*time.Second ||
		s.ShedStatus != 429 || !slices.Equal(s.Methods, []string{"POST", "GET"}) {
		t.Errorf("got %+v", s)
	}
	c = mustParse(t, `{sources: {discord: {secrets: ["env:S"], deadline: 2s, shed_status: 503}}}`,
		testOptions(map[string]string{"S": "s"}, nil))
	s, _ = c.Source("discord")
	if s.Deadline != 2*time.Second || s.ShedStatus != 503 {
		t.Errorf("the file's own does not win: %+v", s)
	}
}

func TestBothFormsOfCoDelSayTheSame(t *testing.T) {
	want := mustParse(t, "admission: {overload: codel, target_delay: 10ms, interval: 1s}",
		testOptions(nil, nil)).Admission
	if want.Overload != "codel" || want.TargetDelay != 10*time.Millisecond ||
		want.Interval != time.Second {
		t.Errorf("read as %+v", want)
	}
	got := mustParse(t, "admission: {overload: {codel: {target_delay: 10ms, interval: 1s}}}",
		testOptions(nil, nil)).Admission
	if got != want {
		t.Errorf("the block is read as %+v, the words as %+v", got, want)
	}
	plain := mustParse(t, "admission: {overload: {codel: {}}}", testOptions(nil, nil)).Admission
	if plain.Overload != "codel" || plain.TargetDelay != 5*time.Millisecond ||
		plain.Interval != 100*time.Millisecond {
		t.Errorf("an empty block is read as %+v", plain)
	}
}

func TestDeliverIsEverywhereUnlessTheFileSaysWhere(t *testing.T) {
	c := mustParse(t, `
sources: {a: {provider: none}, b: {provider: none, deliver: []}, c: {provider: none, deliver: [y]}}
destinations: {x: {stdout: {}}, y: {stdout: {}}}`, testOptions(nil, nil))
	for i, want := range [][]string{{"x", "y"}, {}, {"y"}} {
		if got := c.Sources[i].Deliver; !slices.Equal(got, want) || got == nil {
			t.Errorf("source %s delivers to %q, want %q", c.Sources[i].Name, got, want)
		}
	}
}

func TestTheBuiltInConfigsHold(t *testing.T) {
	options := testOptions(nil, nil)
	c, err := Default(options)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Sources) != 0 || c.File != "" || c.DataDir != "/srv/sluice-data" || c.Dev {
		t.Errorf("default is %+v", c)
	}
	c, err = Dev(options)
	if err != nil {
		t.Fatal(err)
	}
	github, _ := c.Source("github")
	if !c.Dev || github.Path != "/hooks/github" || string(github.Secrets[0].Reveal()) != DevSecret {
		t.Errorf("dev is %+v", c)
	}
	if c.Listeners[0].Address.String() != "127.0.0.1:8080" || c.Admin.HTTP != "127.0.0.1:9464" ||
		!slices.Equal(github.Deliver, []string{"stdout"}) {
		t.Errorf("dev is %+v", c)
	}
	if _, err := Dev(Options{}); err != nil {
		t.Errorf("dev without a catalogue: %v", err)
	}
}

func TestASchemeKeepsTheLinesOfItsFile(t *testing.T) {
	text := "sources:\n  own:\n    secrets: ['env:S']\n    verify:\n      a: |\n        two\n\n" +
		"        lines\n  # a comment at any depth\n      b: [1,\n        2]\n    priority: low\n"
	c := mustParse(t, text, testOptions(map[string]string{"S": "s"}, nil))
	got := c.Sources[0].Verify
	want := "a: |\n  two\n\n  lines\n# a comment at any depth\nb: [1,\n  2]\n"
	if string(got.YAML) != want || got.Line != 5 || !got.Exact || got.Source != "own" {
		t.Errorf("got %+v\n%s", got, got.YAML)
	}
}

func TestLoadNamesAFileThatIsNotThere(t *testing.T) {
	faults := Check("testdata/nowhere.yaml", Options{})
	if len(faults) != 1 || faults[0].String() != "testdata/nowhere.yaml: the config cannot be read: "+
		"no such file or directory; name a file that sluice may read" {
		t.Errorf("got %v", faults)
	}
}

func TestLoadReadsAFileAndItsNeighbours(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "sluice.yaml")
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("s.txt", "abc\r\n")
	write("sluice.yaml", "data_dir: data\nsources: {a: {provider: github, secrets: [file:s.txt]}}")
	if faults := Check(path, Options{}); faults != nil {
		t.Fatal(faults)
	}
	c, err := Load(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if c.DataDir != filepath.Join(folder, "data") ||
		c.Admin.Socket != filepath.Join(c.DataDir, "admin.sock") ||
		string(c.Sources[0].Secrets[0].Reveal()) != "abc" {
		t.Errorf("got %+v", c)
	}
	write("sluice.yaml", strings.Repeat("#", fileBytesMax+1))
	if faults := Check(path, Options{}); len(faults) != 1 {
		t.Errorf("a file without end: %v", faults)
	}
}

// hiding is a value that keeps a Secret where fmt can call no method of it.
type hiding struct{ secret Secret }

func TestASecretNeverShows(t *testing.T) {
	c, _ := example(t)
	var rendered strings.Builder
	show := func(v any) {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%p"} {
			fmt.Fprintf(&rendered, verb+"\n", v)
		}
		text, _ := json.Marshal(v)
		rendered.Write(text)
		text, _ = yaml.Marshal(v)
		rendered.Write(text)
		for _, handler := range []slog.Handler{
			slog.NewTextHandler(&rendered, nil), slog.NewJSONHandler(&rendered, nil),
		} {
			slog.New(handler).Info("shown", "value", v)
		}
	}
	secret := c.Sources[0].Secrets[0]
	for _, v := range []any{
		c, *c, c.Sources, c.Sources[0], &c.Sources[1], c.Destinations, c.Admin, secret, &secret,
		c.Redis, c.Alerts, c.Groups, c.Destinations[0].HTTP.Headers, c.Destinations[0].HTTP.Proxy,
		&c.Destinations[0].HTTP.Proxy,
		hiding{secret}, &hiding{secret}, []Secret{secret}, map[string]Secret{"a": secret},
		struct{ S Secret }{secret},
	} {
		show(v)
	}
	redacted, err := c.RedactedJSON()
	if err != nil {
		t.Fatal(err)
	}
	rendered.Write(redacted)
	text := rendered.String()
	for _, word := range []string{currentSecret, oldSecret, ordersSecret, "hunter2", adminToken,
		billingSecret, formerSecret, alertSecret} {
		for _, form := range []string{
			word, fmt.Sprintf("%x", word), fmt.Sprintf("%X", word),
			strings.Trim(fmt.Sprint([]byte(word)), "[]"), fmt.Sprintf("%#v", []byte(word)),
		} {
			if at := strings.Index(text, form); at >= 0 {
				t.Errorf("a secret shows: …%s", text[max(0, at-80):at+len(form)])
			}
		}
	}
	if !strings.Contains(text, hidden) {
		t.Error("nothing was shown at all")
	}
}

func TestSizesAndRatesReadAndWriteTheSame(t *testing.T) {
	for text, want := range map[string]Size{
		"0": 0, "1": 1, "1023": 1023, "1KiB": 1024, "1025": 1025, "64 MiB": 64 << 20, "3GiB": 3 << 30,
		"1024KiB": 1 << 20, "8388607TiB": 8388607 << 40,
	} {
		got, err := parseSize(text)
		if err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
		if again, err := parseSize(got.String()); err != nil || again != got {
			t.Errorf("%s is written as %s", text, got)
		}
	}
	for _, text := range []string{"", "KiB", "-1", "1kb", "8388608TiB", "9223372036854775808", "1e3"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("%q is taken as %v", text, got)
		}
	}
	for _, text := range []string{"1/s", "10/m", "3/h"} {
		if got, err := parseRate(text); err != nil || got.String() != text {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

func TestRestartIsNeededForWhatIsOpenedOnce(t *testing.T) {
	base := "data_dir: /a\nworkers: 1\n"
	options := testOptions(map[string]string{"R": redisURL}, nil)
	before := mustParse(t, base, options)
	for text, want := range map[string][]string{
		base: nil,
		base + "http: {max_body: 2MiB}\nsources: {a: {provider: none}}\n": nil,
		base + "ring_size: 32MiB\nlisteners: [{address: ':1'}]\n":         nil,
		"data_dir: /b\nworkers: 1\nshm_dir: /s\n": {
			"data_dir", "shm_dir", "admin.socket"},
		base + "journal: {retention: {age: 9d}}\n":                   {"journal"},
		base + "admin: {http: ''}\n":                                 {"admin.http"},
		base + "redis: {url: 'env:R'}\nalerts: {url: 'http://x/'}\n": {"redis"},
	} {
		if got := before.NeedsRestart(mustParse(t, text, options)); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestADataPlaneIsNeededForItsSocketsAndItsRights(t *testing.T) {
	cert, key := testPair(t)
	options := testOptions(nil, map[string]string{"tls.crt": cert, "tls.key": key})
	const base = "workers: 1\n"
	before := mustParse(t, base+"listeners: [{address: ':1'}, {address: 'unix:/s'}]", options)
	for text, want := range map[string][]string{
		base: nil,
		base + "http: {max_body: 2MiB, receive_memory: 1GiB, handshake_rate: 1, idle_timeout: 1s}": nil,
		"workers: 2\nring_size: 32MiB\ndriver: epoll\nsandbox: off\nuser: sluice\n" +
			"http: {max_connections: 7}": {
			"workers", "ring_size", "driver", "sandbox", "user", "http.max_connections"},
	} {
		next := mustParse(t, text+"\nlisteners: [{address: ':1'}, {address: 'unix:/s'}]", options)
		if got := before.NeedsDataplane(next); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	const second = ", {address: 'unix:/s'}"
	const certificate = "tls: {certificates: [{cert: tls.crt, key: tls.key}]}"
	for listeners, want := range map[string]bool{
		"{address: ':1', forwarded_for: {from: [10.0.0.1]}}" + second: false,
		"{address: ':1', " + certificate + "}" + second:               false,
		"{address: ':1'}, {address: 'unix:/s', proxy_protocol: {}}":   false,
		"{address: ':1'}, {address: 'unix:/s', mode: '0600'}":         true,
		"{address: ':1', backlog: 1}" + second:                        true,
		"{address: ':1', keepalive: 0s}" + second:                     true,
		"{address: ':1', defer_accept: 1s}" + second:                  true,
		"{address: 'unix:/s'}, {address: ':1'}":                       true,
		"{address: ':1'}":                                             true,
	} {
		next := mustParse(t, base+"listeners: ["+listeners+"]", options)
		if got := before.NeedsDataplane(next); (len(got) > 0) != want {
			t.Errorf("%s: %q, want any: %v", listeners, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	example, err := os.ReadFile("testdata/example.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(example)
	f.Add(devYAML)
	files, err := filepath.Glob("testdata/faults/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, part := range strings.Split(string(text), "--- config\n")[1:] {
			config, _, _ := strings.Cut(part, "--- faults")
			f.Add([]byte(config))
		}
	}
	options := exampleOptions(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Parse("sluice.yaml", text, options)
		if err != nil {
			if faults := (Faults)(nil); !errors.As(err, &faults) || len(faults) == 0 {
				t.Fatalf("an error without faults: %v", err)
			}
			return
		}
		shown, err := c.Redacted()
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(shown, []byte("hunter2-")) && !bytes.Contains(text, []byte("hunter2-")) {
			t.Fatalf("a secret shows:\n%s", shown)
		}
	})
}
