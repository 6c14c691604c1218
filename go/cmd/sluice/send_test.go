package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/go/internal/provider"
	"sluice/go/internal/provider/catalogue"
)

// receiver takes webhooks and keeps them.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	taken []taken
	code  int
}

type taken struct {
	r    *http.Request
	body []byte
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{code: 200}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.taken = append(r.taken, taken{q, body})
		w.Header().Set("X-Event-Id", "01TEST")
		w.WriteHeader(r.code)
		_, _ = io.WriteString(w, `{"status":"accepted","id":"01TEST"}`) // send looks at it
	}))
	t.Cleanup(r.Close)
	return r
}

// request is what a daemon would judge.
func (t *taken) request(server string) *provider.Request {
	r := &provider.Request{
		Method: []byte(t.r.Method), Target: []byte(t.r.RequestURI),
		URL: []byte(server + t.r.RequestURI), Body: t.body, ReceivedNS: time.Now().UnixNano(),
	}
	for name, values := range t.r.Header {
		for _, value := range values {
			r.Headers = append(r.Headers, provider.Field{Name: []byte(name), Value: []byte(value)})
		}
	}
	return r
}

// pairs are secrets in all the forms that providers have: what the sender has and what we have.
var pairs = []struct{ send, verify string }{
	{"c2VjcmV0LW9mLTMyLWJ5dGVzLWZvci10ZXN0cy1vbmx5IQ==", ""},
	{"whsec_c2VjcmV0LW9mLTMyLWJ5dGVzLWZvci10ZXN0cy1vbmx5IQ==", ""},
	{`{"user":"aladdin","password":"opensesame"}`, ""},
	{`{"key_id":"k1","value":"c2VjcmV0"}`, ""},
	{`{"role":"primary","value":"c2VjcmV0"}`, ""},
	{"00ff10a7", ""},
	// The private and the public key of RFC 8032, section 7.1, test 1.
	{"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
		"d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"},
	{"nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=",
		"11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="},
	pairOfCurve(elliptic.P256()),
}

// pairOfCurve is a new private key and the public one, as senders show them.
func pairOfCurve(curve elliptic.Curve) struct{ send, verify string } {
	private, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		panic(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		panic(err)
	}
	public, err := x509.MarshalPKIXPublicKey(private.Public())
	if err != nil {
		panic(err)
	}
	text := base64.StdEncoding.EncodeToString
	return struct{ send, verify string }{text(secret), text(public)}
}

func TestWhatIsSentHoldsBeforeTheProvidersOwnScheme(t *testing.T) {
	server := newReceiver(t)
	var cannot []string
	for _, name := range catalogue.Names() {
		scheme, _ := catalogue.Lookup(name)
		held := false
		for _, pair := range pairs {
			if pair.verify == "" {
				pair.verify = pair.send
			}
			secret, err := provider.ParseSecret(pair.verify)
			if err != nil {
				t.Fatal(err)
			}
			verifier, err := provider.Compile(scheme, []provider.Secret{secret},
				provider.Options{AllowLegacy: true})
			if err != nil {
				continue // not a secret of this provider's form
			}
			server.taken = nil
			code, out, errs := run(t, "send", name, "--json", "--secret", pair.send,
				server.URL+"/hooks/"+name+"?x=1")
			if code != 0 {
				if !strings.Contains(errs, provider.ErrNotSignable.Error()) {
					t.Errorf("%s: exit code %d, %s", name, code, errs)
				}
				continue
			}
			got := server.taken[0]
			v := verifier.Verify(got.request(server.URL))
			if v.Outcome != provider.OK || v.Response != nil {
				t.Errorf("%s: %s (%s), handshake %v", name, v.Outcome, v.Detail, v.Response != nil)
			}
			var said answered
			if err := json.Unmarshal([]byte(out), &said); err != nil {
				t.Fatal(err)
			}
			if len(scheme.ID) > 0 && string(v.EventID) != said.ProviderID {
				t.Errorf("%s: the id is %q, send says %q", name, v.EventID, said.ProviderID)
			}
			if said.Status != 200 || said.ID != "01TEST" || said.Result != "accepted" {
				t.Errorf("%s: the answer is %+v", name, said)
			}
			held = true
			break
		}
		if !held {
			cannot = append(cannot, name)
		}
	}
	// The sender publishes its key, or its form is only verified.
	want := []string{"aws-sns", "paypal", "paypal-sandbox", "plaid", "plaid-sandbox", "rfc9421"}
	if !slices.Equal(cannot, want) {
		t.Errorf("%q cannot be sent, want %q", cannot, want)
	}
}

func TestEachOfManyHasItsOwnIDUnlessOneIsGiven(t *testing.T) {
	server := newReceiver(t)
	send := func(args ...string) map[string]int {
		server.taken = nil
		code, _, errs := run(t, append([]string{"send", "github", "--secret", "x", "--count", "3",
			server.URL}, args...)...)
		if code != 0 {
			t.Fatal(errs)
		}
		ids := map[string]int{}
		for _, got := range server.taken {
			ids[got.r.Header.Get("X-GitHub-Delivery")]++
		}
		return ids
	}
	if ids := send(); len(ids) != 3 {
		t.Errorf("ids are %v", ids)
	}
	if ids := send("--id", "same"); len(ids) != 1 || ids["same"] != 3 {
		t.Errorf("with --id they are %v", ids)
	}
}

func TestABodyAndHeadersOfTheOperatorsOwnAreSentAsTheyAre(t *testing.T) {
	server := newReceiver(t)
	path := filepath.Join(t.TempDir(), "body")
	write(t, path, "a=1\r\n\x00")
	code, _, errs := run(t, "send", "github", "--secret", "x", "--file", path, "--type", "push",
		"--header", "Content-Type: text/plain", "--header", "x-odd_Name: 1", server.URL+"/a")
	if code != 0 {
		t.Fatal(errs)
	}
	got := server.taken[0]
	if string(got.body) != "a=1\r\n\x00" || got.r.Header.Get("Content-Type") != "text/plain" ||
		got.r.Header.Get("X-GitHub-Event") != "push" || got.r.Header.Get("X-Odd_name") != "1" {
		t.Errorf("sent %q with %v", got.body, got.r.Header)
	}
}

func TestARefusalIsExitCodeOneAndSoIsNoAnswer(t *testing.T) {
	server := newReceiver(t)
	server.code = 503
	code, out, _ := run(t, "send", "none", server.URL)
	if code != 1 || !strings.HasPrefix(out, "503 Service Unavailable  accepted  01TEST  ") {
		t.Errorf("exit code %d, %q", code, out)
	}
	server.Close()
	code, out, errs := run(t, "send", "none", server.URL+"/?token=hidden")
	if code != 1 || out != "" || !strings.Contains(errs, "refused") ||
		strings.Contains(errs, "hidden") {
		t.Errorf("exit code %d, %q %q", code, out, errs)
	}
}

func TestAPaceKeepsToItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		pause := newPace(1000)
		for n := range uint64(20) {
			if err := pause(ctx, n); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != 19*time.Millisecond {
			t.Errorf("20 at 1000/s took %v", took)
		}
		if err := newPace(0)(ctx, 5); err != nil || time.Since(began) != 19*time.Millisecond {
			t.Errorf("without a rate: %v, %v", err, time.Since(began))
		}
		cancel()
		if err := newPace(0.001)(ctx, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("an ended pace: %v", err)
		}
	})
}
