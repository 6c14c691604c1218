package keyfetch

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/go/internal/provider"
)

// sender is a server that publishes keys.
type sender struct {
	*httptest.Server
	asked atomic.Int32
	// answer is called for each request, one at a time.
	mu     sync.Mutex
	answer http.HandlerFunc
}

func newSender(t *testing.T, answer http.HandlerFunc) *sender {
	t.Helper()
	s := &sender{answer: answer}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *sender) says(answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func text(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}

// clock is a time that a test moves.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time       { return time.Unix(0, c.at.Load()) }
func (c *clock) pass(d time.Duration) { c.at.Add(int64(d)) }

func newClock() *clock {
	c := &clock{}
	c.at.Store(time.Now().UnixNano())
	return c
}

func fetcher(t *testing.T, s *sender, c *clock) *Fetcher {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	f := New(Options{Roots: roots, AllowPrivate: true, Now: c.now})
	t.Cleanup(f.Close)
	return f
}

// settle waits until no fetch runs, and asks then.
func settle(
	t *testing.T, f *Fetcher, name provider.KeyName,
) (*provider.PublicKey, provider.KeyState) {
	t.Helper()
	f.Key(name)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for {
		f.mu.Lock()
		running := f.fetches
		f.mu.Unlock()
		if running == 0 {
			return f.Key(name)
		}
		select {
		case <-ctx.Done():
			t.Fatal("the fetch does not end")
		case <-time.After(time.Millisecond):
		}
	}
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func jwk(kid string, public crypto.PublicKey) string {
	object := map[string]any{"kid": kid, "use": "sig"}
	switch public := public.(type) {
	case *rsa.PublicKey:
		object["kty"], object["n"] = "RSA", encode(public.N.Bytes())
		object["e"] = encode(big.NewInt(int64(public.E)).Bytes())
	case *ecdsa.PublicKey:
		point, _ := public.Bytes()
		half := (len(point) - 1) / 2
		object["kty"], object["crv"] = "EC", public.Params().Name
		object["x"], object["y"] = encode(point[1:1+half]), encode(point[1+half:])
	case ed25519.PublicKey:
		object["kty"], object["crv"], object["x"] = "OKP", "Ed25519", encode(public)
	}
	raw, _ := json.Marshal(object)
	return string(raw)
}

func newP256(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return private
}

func set(url string) *provider.Remote {
	return &provider.Remote{Form: provider.RemoteJWKS, URL: url}
}

func TestAKeyOfASetIsHereOnceItWasFetched(t *testing.T) {
	point := newP256(t)
	edwards, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	s := newSender(t, text(`{"keys":[{"kty":"oct","kid":"o","k":"QQ"},`+
		jwk("p", &point.PublicKey)+","+jwk("e", edwards)+","+jwk("r", &private.PublicKey)+
		`,{"kty":"EC","crv":"P-256","kid":"off","x":"`+encode(make([]byte, 32))+`","y":"`+
		encode(make([]byte, 32))+`"}]}`))
	f := fetcher(t, s, newClock())
	from := set(s.URL)
	if _, state := f.Key(provider.KeyName{From: from, URL: s.URL, ID: "p"}); state !=
		provider.KeyPending {
		t.Fatalf("before any fetch: %d", state)
	}
	for id, want := range map[string]interface{ Equal(crypto.PublicKey) bool }{
		"p": &point.PublicKey, "e": edwards, "r": &private.PublicKey,
	} {
		key, state := settle(t, f, provider.KeyName{From: from, URL: s.URL, ID: id})
		if state != provider.KeyKnown || !want.Equal(key.Key) {
			t.Errorf("%s: %d %v", id, state, key)
		}
	}
	for _, id := range []string{"o", "off", "", "none"} {
		if _, state := settle(t, f, provider.KeyName{From: from, URL: s.URL, ID: id}); state !=
			provider.KeyUnknown {
			t.Errorf("%q: %d", id, state)
		}
	}
	if n := s.asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

func TestASetThatLacksAKeyIsFetchedAgainAfterAWhile(t *testing.T) {
	one, two := newP256(t), newP256(t)
	s := newSender(t, text(`{"keys":[`+jwk("1", &one.PublicKey)+`]}`))
	c := newClock()
	f := fetcher(t, s, c)
	name := provider.KeyName{From: set(s.URL), URL: s.URL, ID: "2"}
	if _, state := settle(t, f, name); state != provider.KeyUnknown {
		t.Fatalf("%d", state)
	}
	s.says(text(`{"keys":[` + jwk("1", &one.PublicKey) + "," + jwk("2", &two.PublicKey) + `]}`))
	for range 100 { // A flood of unknown ids does not make us ask.
		f.Key(name)
	}
	if n := s.asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	c.pass(askAgain)
	if key, state := settle(t, f, name); state != provider.KeyKnown || !two.PublicKey.Equal(key.Key) {
		t.Errorf("the new key: %d", state)
	}
}

func TestKeysCountOnWhileTheSenderIsAway(t *testing.T) {
	one := newP256(t)
	s := newSender(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=600")
		_, _ = io.WriteString(w, `{"keys":[`+jwk("1", &one.PublicKey)+`]}`)
	})
	c := newClock()
	f := fetcher(t, s, c)
	name := provider.KeyName{From: set(s.URL), URL: s.URL, ID: "1"}
	settle(t, f, name)
	s.says(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	c.pass(10*time.Minute + time.Second)
	if _, state := settle(t, f, name); state != provider.KeyKnown {
		t.Errorf("stale: %d", state)
	}
	if n := s.asked.Load(); n != 2 {
		t.Errorf("asked %d times, want once more after its lifetime", n)
	}
	if places := f.Places(); len(places) != 1 || places[0].Fault == nil || places[0].Keys != 1 {
		t.Errorf("%+v", places)
	}
	c.pass(staleMax)
	if _, state := settle(t, f, name); state != provider.KeyPending {
		t.Errorf("too old: %d", state)
	}
}

func TestAnOperatorsURLOutOfOrderIsNoRefusal(t *testing.T) {
	for code, body := range map[int]string{
		404: "", 500: "", 200: "<html>", 302: "", 403: "", 201: `{"keys":[]}`,
	} {
		s := newSender(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		})
		f := fetcher(t, s, newClock())
		_, state := settle(t, f, provider.KeyName{From: set(s.URL), URL: s.URL, ID: "1"})
		if state != provider.KeyPending {
			t.Errorf("%d %q: %d", code, body, state)
		}
		if n := s.asked.Load(); n != 1 {
			t.Errorf("%d: asked %d times", code, n)
		}
	}
}

func TestASingleKeyIsAskedForWithItsIDAndALogin(t *testing.T) {
	one := newP256(t)
	s := newSender(t, func(w http.ResponseWriter, r *http.Request) {
		var asked map[string]string
		if json.NewDecoder(r.Body).Decode(&asked) != nil || r.Method != http.MethodPost ||
			asked["client_id"] != "c" || asked["secret"] != "s" || asked["key_id"] != "k" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, `{"key":`+strings.Replace(jwk("k", &one.PublicKey), "{",
			`{"expired_at":2000000000,`, 1)+`,"request_id":"x"}`)
	})
	c := newClock()
	f := fetcher(t, s, c)
	from := &provider.Remote{
		Form: provider.RemoteJWK, URL: s.URL,
		At: provider.Source{Kind: provider.SourceJSON, Name: "/key"},
		Post: []provider.PostField{
			{Name: "client_id", From: provider.PostUser},
			{Name: "secret", From: provider.PostPassword}, {Name: "key_id", From: provider.PostKeyID},
		},
	}
	name := provider.KeyName{
		From: from, URL: s.URL, ID: "k", Login: provider.Secret{User: "c", Password: "s"},
	}
	key, state := settle(t, f, name)
	if state != provider.KeyKnown || !one.PublicKey.Equal(key.Key) ||
		key.NotAfter.Unix() != 2000000000 {
		t.Fatalf("%d %+v", state, key)
	}
	other := name
	other.ID = "made up"
	if _, state := settle(t, f, other); state != provider.KeyUnknown {
		t.Errorf("an id that the sender does not know: %d", state)
	}
	asked := s.asked.Load()
	f.Key(other)
	c.pass(refusedFor)
	if _, state := f.Key(other); state != provider.KeyPending || s.asked.Load() > asked+1 {
		t.Errorf("after a while: %d, asked %d times", state, s.asked.Load())
	}
	wrong := name
	wrong.Login.Password = "other"
	if _, state := settle(t, f, wrong); state == provider.KeyKnown {
		t.Error("the key that another login brought")
	}
	for _, place := range f.Places() {
		if place.Fault != nil && strings.Contains(place.Fault.Error(), "other") {
			t.Error("a password in an error")
		}
	}
}

// chain makes a root and a certificate for a name, both in PEM.
func chain(t *testing.T, name string, from, to time.Time) (*x509.CertPool, string) {
	t.Helper()
	top, leaf := newP256(t), newP256(t)
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "root"}, NotBefore: from,
		NotAfter: to, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	end := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: from,
		NotAfter: to, DNSNames: []string{name},
	}
	der, err := x509.CreateCertificate(rand.Reader, root, root, &top.PublicKey, top)
	if err != nil {
		t.Fatal(err)
	}
	root, err = x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(root)
	der, err = x509.CreateCertificate(rand.Reader, end, root, &leaf.PublicKey, top)
	if err != nil {
		t.Fatal(err)
	}
	return pool, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestACertificateMustBeForItsName(t *testing.T) {
	now := time.Now()
	roots, leaf := chain(t, "signs.sender.example", now.Add(-time.Hour), now.Add(time.Hour))
	_, expired := chain(t, "signs.sender.example", now.Add(-2*time.Hour), now.Add(-time.Hour))
	s := newSender(t, nil)
	roots.AddCert(s.Certificate())
	for _, test := range []struct {
		answer, name string
		want         provider.KeyState
	}{
		{leaf, "signs.sender.example", provider.KeyKnown},
		{leaf, "", provider.KeyKnown},
		{leaf, "other.sender.example", provider.KeyUnknown},
		{expired, "signs.sender.example", provider.KeyUnknown},
		{"", "", provider.KeyUnknown},
		{"-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n", "", provider.KeyUnknown},
		{strings.Repeat(leaf, certificatesMax+1), "", provider.KeyUnknown},
		{strings.Repeat("x", answerMax+1), "", provider.KeyUnknown},
	} {
		s.says(text(test.answer))
		f := New(Options{Roots: roots, AllowPrivate: true})
		from := &provider.Remote{
			Form: provider.RemoteCertificate, Name: test.name,
			URLFrom: provider.Source{Kind: provider.SourceHeader, Name: "X-Cert"},
		}
		key, state := settle(t, f, provider.KeyName{From: from, URL: s.URL + "/c.pem"})
		if state != test.want {
			t.Errorf("%.40q for %q: %d, %v", test.answer, test.name, state, f.Places())
		}
		if state == provider.KeyKnown && (key.NotBefore.IsZero() || key.NotAfter.IsZero()) {
			t.Error("its time is lost")
		}
		f.Close()
	}
}

func TestStrangersDoNotMakeUsAskWithoutEnd(t *testing.T) {
	s := newSender(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
	})
	c := newClock()
	f := fetcher(t, s, c)
	from := &provider.Remote{
		Form:    provider.RemoteCertificate,
		URLFrom: provider.Source{Kind: provider.SourceHeader, Name: "X-Cert"},
	}
	for i := range 10 * newPlacesMax {
		settle(t, f, provider.KeyName{From: from, URL: fmt.Sprintf("%s/%d", s.URL, i)})
	}
	if n := s.asked.Load(); n != newPlacesMax {
		t.Errorf("asked %d times, want %d", n, newPlacesMax)
	}
	for i := range 2 * placesMax {
		c.pass(newPlaceEvery)
		settle(t, f, provider.KeyName{From: from, URL: fmt.Sprintf("%s/more/%d", s.URL, i)})
	}
	if n := len(f.Places()); n > placesMax {
		t.Errorf("%d places", n)
	}
}

func TestAPlaceWithKeysIsNotForgottenForOnesWithout(t *testing.T) {
	now := time.Now()
	_, leaf := chain(t, "a.example", now.Add(-time.Hour), now.Add(time.Hour))
	s := newSender(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/good" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, leaf)
	})
	c := newClock()
	f := fetcher(t, s, c)
	from := &provider.Remote{
		Form:    provider.RemoteCertificate,
		URLFrom: provider.Source{Kind: provider.SourceHeader, Name: "X-Cert"},
	}
	good := provider.KeyName{From: from, URL: s.URL + "/good"}
	settle(t, f, good)
	for i := range placesMax + 50 {
		c.pass(newPlaceEvery)
		settle(t, f, provider.KeyName{From: from, URL: fmt.Sprintf("%s/%d", s.URL, i)})
	}
	if _, state := f.Key(good); state != provider.KeyKnown {
		t.Errorf("%d", state)
	}
}

func TestOnlyPublicAddressesAreDialled(t *testing.T) {
	for address, public := range map[string]bool{
		"93.184.215.14:443": true, "[2606:2800:21f:cb07::1]:443": true, "127.0.0.1:443": false,
		"10.0.0.1:443": false, "192.168.1.1:443": false, "172.16.0.1:443": false,
		"169.254.169.254:443": false, "100.64.0.1:443": false, "0.0.0.0:443": false,
		"[::1]:443": false, "[fd00::1]:443": false, "[fe80::1%eth0]:443": false,
		"[::ffff:127.0.0.1]:443": false, "[64:ff9b::7f00:1]:443": false, "224.0.0.1:443": false,
		"255.255.255.255:443": false, "[::]:443": false, "[ff02::1]:443": false, "x:443": false,
	} {
		if err := checkAddress(address); (err == nil) != public {
			t.Errorf("%s: %v", address, err)
		}
	}
	s := newSender(t, text("{}"))
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	f := New(Options{Roots: roots})
	defer f.Close()
	settle(t, f, provider.KeyName{From: set(s.URL), URL: s.URL, ID: "1"})
	places := f.Places()
	if s.asked.Load() != 0 || len(places) != 1 || places[0].Fault == nil ||
		!strings.Contains(places[0].Fault.Error(), "not public") {
		t.Errorf("asked %d times: %+v", s.asked.Load(), places)
	}
}

func TestAServerWithoutAKnownRootIsNotAsked(t *testing.T) {
	s := newSender(t, text("{}"))
	f := New(Options{Roots: x509.NewCertPool(), AllowPrivate: true})
	defer f.Close()
	_, state := settle(t, f, provider.KeyName{From: set(s.URL), URL: s.URL, ID: "1"})
	if state != provider.KeyPending || s.asked.Load() != 0 {
		t.Errorf("%d, asked %d times", state, s.asked.Load())
	}
}

func TestOneFetchServesAllWhoAsk(t *testing.T) {
	release := make(chan struct{})
	one := newP256(t)
	s := newSender(t, func(w http.ResponseWriter, _ *http.Request) {
		<-release
		_, _ = io.WriteString(w, `{"keys":[`+jwk("1", &one.PublicKey)+`]}`)
	})
	f := fetcher(t, s, newClock())
	name := provider.KeyName{From: set(s.URL), URL: s.URL, ID: "1"}
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			if _, state := f.Key(name); state != provider.KeyPending {
				t.Errorf("%d", state)
			}
		})
	}
	all.Wait()
	close(release)
	if _, state := settle(t, f, name); state != provider.KeyKnown || s.asked.Load() != 1 {
		t.Errorf("%d, asked %d times", state, s.asked.Load())
	}
}

func TestCloseEndsAFetch(t *testing.T) {
	release := make(chan struct{})
	s := newSender(t, func(http.ResponseWriter, *http.Request) { <-release })
	f := fetcher(t, s, newClock())
	name := provider.KeyName{From: set(s.URL), URL: s.URL, ID: "1"}
	f.Key(name)
	f.Close()
	close(release)
	f.Key(name)
	if f.fetches != 0 {
		t.Error("a fetch runs after the end")
	}
}

func TestPlacesWithKeysInUseGiveNoRoom(t *testing.T) {
	c := newClock()
	f := New(Options{Now: c.now})
	defer f.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	key := map[string]*provider.PublicKey{"": {}}
	for i := range placesMax {
		f.places[place{id: fmt.Sprint(i)}] = &entry{keys: key, used: c.now()}
	}
	if f.mayBegin(c.now()) {
		t.Error("a key in use was forgotten for a stranger's")
	}
	c.pass(lifetimeMax / 2)
	f.places[place{id: "7"}].used = c.now()
	c.pass(lifetimeMax / 2)
	if !f.mayBegin(c.now()) || len(f.places) != placesMax-1 || f.places[place{id: "7"}] == nil {
		t.Errorf("keys that nobody used for a day take the room: %d places", len(f.places))
	}
}

func TestAKeyOfAnotherIDIsNotTheOneThatWasAskedFor(t *testing.T) {
	one := newP256(t)
	s := newSender(t, text(jwk("other", &one.PublicKey)))
	f := fetcher(t, s, newClock())
	from := &provider.Remote{Form: provider.RemoteJWK, URL: s.URL}
	for id, want := range map[string]provider.KeyState{
		"other": provider.KeyKnown, "mine": provider.KeyUnknown,
	} {
		_, state := settle(t, f, provider.KeyName{From: from, URL: s.URL, ID: id})
		if state != want {
			t.Errorf("%s: %d", id, state)
		}
	}
}
