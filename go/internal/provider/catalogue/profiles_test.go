package catalogue_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	cryptorand "crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/go/internal/provider"
	"sluice/go/internal/provider/catalogue"
)

func lookup(t testing.TB, name string) *provider.Scheme {
	t.Helper()
	scheme, found := catalogue.Lookup(name)
	if !found {
		t.Fatalf("no profile %s", name)
	}
	return scheme
}

func compile(t testing.TB, name string, secrets ...string) *provider.Verifier {
	t.Helper()
	var list []provider.Secret
	for _, text := range secrets {
		secret, err := provider.ParseSecret(text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, secret)
	}
	verifier, err := provider.Compile(lookup(t, name), list, provider.Options{})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return verifier
}

func compileKey(t testing.TB, name string, secret provider.Secret) *provider.Verifier {
	t.Helper()
	verifier, err := provider.Compile(lookup(t, name), []provider.Secret{secret}, provider.Options{})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return verifier
}

var testSeed = bytes.Repeat([]byte{7}, ed25519.SeedSize)

// keyPair is a secret to sign with and the one to verify with.
type keyPair struct{ sign, verify provider.Secret }

func shared(s provider.Secret) keyPair { return keyPair{s, s} }

// keysFor are test secrets in the forms that the profile takes.
func keysFor(name string) []keyPair {
	scheme, found := catalogue.Lookup(name)
	if !found {
		panic("no profile " + name)
	}
	if name == "rfc9421" {
		return []keyPair{shared(provider.Secret{Value: "dGVzdA=="})}
	}
	var pairs []keyPair
	for i := range scheme.AnyOf {
		v := &scheme.AnyOf[i]
		for j := range v.Proofs {
			pair := keyFor(&v.Proofs[j])
			if v.KeyID.Kind != provider.SourceNone {
				pair.sign.KeyID, pair.verify.KeyID = "app", "app"
			}
			if !v.Legacy && !slices.Contains(pairs, pair) {
				pairs = append(pairs, pair)
			}
		}
	}
	return pairs
}

func keyFor(p *provider.Proof) keyPair {
	public, _ := ed25519.NewKeyFromSeed(testSeed).Public().(ed25519.PublicKey)
	encode := func(raw []byte) string { return string(raw) }
	switch p.Key.Encoding {
	case provider.KeyBasic:
		return shared(provider.Secret{User: "u", Password: "p:w"})
	case provider.KeyBase64:
		encode = base64.StdEncoding.EncodeToString
	case provider.KeyHex:
		encode = hex.EncodeToString
	}
	if p.Key.Encoding == provider.KeySPKI && p.Key.Remote == nil {
		return curvePair()
	}
	if p.Algorithm == provider.Ed25519 {
		private := p.Key.Prefix
		if private == "whpk_" {
			private = "whsk_"
		}
		return keyPair{provider.Secret{Value: private + encode(testSeed)},
			provider.Secret{Value: p.Key.Prefix + encode(public)}}
	}
	secret := provider.Secret{Value: encode([]byte("k3y-for-tests")), Role: p.Key.Role}
	if p.Key.Prefix != "" && !p.Key.PrefixRefused {
		secret.Value = p.Key.Prefix + secret.Value
	}
	return shared(secret)
}

// curvePair is a key of P-256 in the forms of its two sides.
var curvePair = sync.OnceValue(func() keyPair {
	private, err := ecdsa.GenerateKey(elliptic.P256(), cryptorand.Reader)
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
	encode := base64.StdEncoding.EncodeToString
	return keyPair{provider.Secret{Value: encode(secret)}, provider.Secret{Value: encode(public)}}
})

// coversBody is false where the sender proves only that it knows a token.
func coversBody(name string, pair keyPair) bool {
	scheme, _ := catalogue.Lookup(name)
	a := scheme.AnyOf[0].Proofs[0].Algorithm
	return a != provider.Token && a != provider.None && !scheme.AnyOf[0].UnsignedBody &&
		(name != "gitlab" || strings.HasPrefix(pair.sign.Value, "whsec_"))
}

func TestWhatIsSignedVerifiesAndWhatIsChangedDoesNot(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 2))
	now := time.UnixMilli(1767237945123)
	signed := 0
	for _, name := range catalogue.Names() {
		scheme := lookup(t, name)
		for _, pair := range keysFor(name) {
			body := []byte(`{"webhookTimestamp":1767237945123,"id":"evt_1","n":[1,2]}`)
			made := provider.SignRequest{
				Method: "POST", Target: "/in?x=1", URL: "https://hooks.example.test/in?x=1",
				Body: body, Now: now, ID: "evt-1", Type: "made",
			}
			fields, err := provider.Sign(scheme, pair.sign, &made)
			// The body is none of Mailgun's, and no batch whose items are signed.
			if errors.Is(err, provider.ErrNotSignable) || name == "mailgun" ||
				scheme.AnyOf[0].Each != provider.EachNone {
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			signed++
			verifier, err := provider.Compile(scheme, []provider.Secret{pair.verify}, provider.Options{})
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			r := &provider.Request{
				Method: []byte("POST"), Target: []byte(made.Target), URL: []byte(made.URL),
				Body: made.Body, Headers: fields, ReceivedNS: now.UnixNano(),
			}
			if got := verifier.Verify(r); got.Outcome != provider.OK {
				t.Errorf("%s: signed, but %s (%s)", name, got.Outcome, got.Detail)
			}
			if !coversBody(name, pair) {
				continue
			}
			for at := range body {
				bit := byte(1) << random.IntN(8)
				body[at] ^= bit
				if got := verifier.Verify(r); got.Outcome != provider.BadSignature {
					t.Errorf("%s: byte %d changed: %s", name, at, got.Outcome)
				}
				body[at] ^= bit
			}
		}
	}
	if signed < 35 {
		t.Errorf("only %d senders were signed for", signed)
	}
}

func TestTheIDIsTheOneThatIsSigned(t *testing.T) {
	for _, v := range readVectors(t, "svix") {
		if !strings.HasSuffix(v.ID, "mixed-names-disagree") {
			continue
		}
		verifier, err := provider.Compile(lookup(t, "standard-webhooks"), v.Configured(), v.Options())
		if err != nil {
			t.Fatal(err)
		}
		got := verifier.Verify(requestOf(t, &v))
		if got.Outcome != provider.OK || string(got.EventID) != "msg_2LPbLIYBnNRqHnBx0AT3hGbXKFf" {
			t.Errorf("%s %q", got.Outcome, got.EventID)
		}
		return
	}
	t.Fatal("the vector is gone")
}

func TestIDsAndTypesOfTheCatalogue(t *testing.T) {
	for _, test := range []struct {
		name, body string
		headers    []string
		id, kind   string
	}{
		{"github", "{}", []string{"X-GitHub-Delivery", "72d3162e", "X-GitHub-Event", "push"},
			"72d3162e", "push"},
		{"stripe", `{"object":"event","id":"evt_1","type":"charge.succeeded"}`, nil,
			"evt_1", "charge.succeeded"},
		{"shopify", "{}", []string{"X-Shopify-Webhook-Id", "w", "X-Shopify-Event-Id", "e"}, "e", ""},
		{"slack", `{"event":{"type":"message"},"type":"event_callback","event_id":"Ev1"}`, nil,
			"Ev1", "message"},
		{"slack", "payload=%7B%7D", nil, "", ""},
		{"gitlab", "{}", []string{"X-Gitlab-Event-UUID", "u", "X-Gitlab-Event", "Push Hook"},
			"u", "Push Hook"},
		{"gitlab", "{}", []string{"X-Gitlab-Event-UUID", "u", "Idempotency-Key", "i"}, "i", ""},
		{"telegram", `{"update_id":10000}`, nil, "10000", ""},
		{"none", `{"id":"x"}`, nil, "", ""},
	} {
		identifier, err := provider.NewIdentifier(lookup(t, test.name), provider.IDFrom{})
		if err != nil {
			t.Fatal(err)
		}
		r := &provider.Request{Body: []byte(test.body)}
		for pair := range slices.Chunk(test.headers, 2) {
			r.Headers = append(r.Headers, provider.Field{Name: []byte(pair[0]), Value: []byte(pair[1])})
		}
		if id, kind := identifier.Identify(r); string(id) != test.id || string(kind) != test.kind {
			t.Errorf("%s %s: %q %q", test.name, test.body, id, kind)
		}
	}
}

func TestContractsOfTheCatalogue(t *testing.T) {
	for name, want := range map[string]time.Duration{
		"github": 10 * time.Second, "shopify": 5 * time.Second, "slack": 3 * time.Second,
		"gitlab": 10 * time.Second, "standard-webhooks": 15 * time.Second, "okta": 3 * time.Second,
	} {
		if got := lookup(t, name).Contract.Deadline.Value; got != want {
			t.Errorf("%s: deadline %v", name, got)
		}
	}
	github := lookup(t, "github").Contract
	if !github.NeverRetries.Value || !github.NeverRetries.Verified || !github.Redelivers.Value {
		t.Errorf("%+v", github)
	}
	if got := lookup(t, "pagerduty").Contract.ShedStatus.Or(503); got != 429 {
		t.Errorf("pagerduty is shed with %d", got)
	}
	if lookup(t, "meta").Contract.Deadline.Verified {
		t.Error("a guess is called verified")
	}
	if got := lookup(t, "meta").Methods(); !slices.Equal(got, []string{"GET", "POST"}) {
		t.Errorf("meta takes %q", got)
	}
	for _, name := range catalogue.Names() {
		if lookup(t, name).Unsigned() != (name == "none") {
			t.Errorf("%s: unsigned", name)
		}
		_, err := provider.Compile(lookup(t, name), nil, provider.Options{AllowLegacy: true})
		if (err == nil) != (name == "none") {
			t.Errorf("%s without a secret: %v", name, err)
		}
	}
}

func TestWhatTheDataPlaneLooksForInARequest(t *testing.T) {
	for name, want := range map[string]string{
		"slack": "X-Slack-Retry-Num", "square": "square-retry-number", "line": "", "github": "",
	} {
		fact := lookup(t, name).Contract.RetryHeaders
		if got := strings.Join(fact.Value, " "); got != want {
			t.Errorf("%s names a repeat by %q, want %q", name, got, want)
		}
		if want != "" && fact.Source == "" {
			t.Errorf("%s: nothing says where the fact is from", name)
		}
	}
	if lookup(t, "square").Contract.RetryHeaders.Verified {
		t.Error("a guess is called verified")
	}
	var probing []string
	for _, name := range catalogue.Names() {
		if lookup(t, name).Contract.ProbesBadSignatures.Or(false) {
			probing = append(probing, name)
		}
	}
	if !slices.Equal(probing, []string{"discord", "xero"}) {
		t.Errorf("bad signatures are sent on purpose by %q", probing)
	}
}

func TestPlacesOfAnIDAreThoseThatItIsReadFrom(t *testing.T) {
	for _, test := range []struct{ name, from, want string }{
		{"github", "provider", "header:X-GitHub-Delivery"},
		{"slack", "provider", "json:/event_id"},
		{"xero", "provider", ""},
		{"slack", "header:X-Own", "header:X-Own"},
		{"slack", "json:/a/0", "json:/a/0"},
		{"slack", "body-sha256", ""},
		{"slack", "none", ""},
		{"twilio", "provider", "header:I-Twilio-Idempotency-Token"},
	} {
		from, err := provider.ParseIDFrom(test.from)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, place := range from.Places(lookup(t, test.name)) {
			got = append(got, place.String())
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s, %s: %q, want %q", test.name, test.from, got, test.want)
		}
	}
	for _, name := range catalogue.Names() { // and each of them once, however many variants have it
		places := provider.IDFrom{}.Places(lookup(t, name))
		for i, place := range places {
			if slices.Contains(places[:i], place) {
				t.Errorf("%s: %s is there twice", name, place)
			}
		}
	}
}

func TestTheHMACPathOfTheCatalogueAllocatesNothing(t *testing.T) {
	body := `{"type":"event_callback","x":[1,"a\u0041"],"event":{"type":"message"},"event_id":"Ev1",` +
		`"id":"evt_1","pad":"` + strings.Repeat("p", 900) + `"}`
	for _, name := range []string{
		"github", "gitlab", "paddle", "shopify", "slack", "standard-webhooks", "stripe", "svix",
	} {
		for _, pair := range keysFor(name) {
			if strings.HasPrefix(pair.verify.Value, "whpk_") {
				continue // Ed25519 is not of this path.
			}
			fields, err := provider.Sign(lookup(t, name), pair.sign, &provider.SignRequest{
				Method: "POST", Body: []byte(body), Now: clock, ID: "msg_1", Type: "made",
			})
			if err != nil {
				t.Fatal(err)
			}
			v := compileKey(t, name, pair.verify)
			r := &provider.Request{Body: []byte(body), Headers: fields, ReceivedNS: clock.UnixNano()}
			if got := v.Verify(r); got.Outcome != provider.OK {
				t.Fatalf("%s: %s", name, got.Outcome)
			}
			if n := testing.AllocsPerRun(100, func() { v.Verify(r) }); n != 0 {
				t.Errorf("%s: %v allocations", name, n)
			}
		}
	}
}

func FuzzVerify(f *testing.F) {
	names := catalogue.Names()
	verifiers := map[string]*provider.Verifier{}
	for i, name := range names {
		var secrets []provider.Secret
		for _, pair := range keysFor(name) {
			secrets = append(secrets, pair.verify)
		}
		v, err := provider.Compile(lookup(f, name), secrets,
			provider.Options{KeepUnusable: true, AllowLegacy: true})
		if err != nil {
			f.Fatal(err)
		}
		verifiers[name] = v
		f.Add(uint8(i), []byte("X-Sig: 1\n"), []byte(`{"id":1}`), "/in?challenge=x&hub.mode=subscribe",
			int64(0))
	}
	for _, name := range []string{
		"stripe", "standard-webhooks", "slack", "docusign", "github", "rfc9421", "twilio", "box",
	} {
		for _, v := range readVectors(f, name) {
			var lines []byte
			for _, h := range v.Headers {
				lines = append(lines, h[0]+": "+h[1]+"\n"...)
			}
			if r := requestOf(f, &v); len(r.Body) < 4096 {
				f.Add(uint8(slices.Index(names, name)), lines, r.Body, "/in", v.Now)
			}
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, lines, body []byte, target string, at int64) {
		name := names[int(which)%len(names)]
		fields, err := provider.ParseHeaders(lines)
		if err != nil {
			return
		}
		r := &provider.Request{
			Method: []byte("POST"), Target: []byte(target), URL: []byte("https://x.test" + target),
			Body: body, Headers: fields, ReceivedNS: at,
		}
		got := verifiers[name].Verify(r)
		if again := verifiers[name].Clone().Verify(r); again.Outcome != got.Outcome {
			t.Fatalf("%s: %s, then %s", name, got.Outcome, again.Outcome)
		}
		if coversBody(name, keyPair{}) && got.Outcome == provider.OK && got.Response == nil &&
			!slices.ContainsFunc(fields, func(f provider.Field) bool {
				return strings.EqualFold(string(f.Name), "X-Gitlab-Token")
			}) {
			t.Fatalf("%s: forged with %q", name, lines)
		}
	})
}

func BenchmarkVerifyGitHub1KB(b *testing.B) {
	body := bytes.Repeat([]byte("x"), 1024)
	secret := provider.Secret{Value: "k3y-for-tests"}
	fields, err := provider.Sign(lookup(b, "github"), secret, &provider.SignRequest{
		Method: "POST", Body: body, ID: "72d3162e-cc78-11e3-81ab-4c9367dc0958", Type: "push",
	})
	if err != nil {
		b.Fatal(err)
	}
	// The fields that come along with every request of this sender.
	for _, name := range []string{
		"Host", "User-Agent", "Accept", "Content-Type", "Content-Length", "X-GitHub-Hook-ID",
		"X-GitHub-Hook-Installation-Target-ID",
		"X-GitHub-Hook-Installation-Target-Type", "X-Hub-Signature",
	} {
		fields = append(fields, provider.Field{Name: []byte(name), Value: []byte("value")})
	}
	r := &provider.Request{Method: []byte("POST"), Body: body, Headers: fields}
	verifier := compile(b, "github", "k3y-for-tests")
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if verifier.Verify(r).Outcome != provider.OK {
			b.Fatal("refused")
		}
	}
}
