package provider

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"
)

// someKeys is a Keys that a test fills.
type someKeys struct {
	keys  map[string]*PublicKey // by URL and id
	state KeyState              // of all others
	asked []KeyName
}

func (k *someKeys) Key(name KeyName) (*PublicKey, KeyState) {
	k.asked = append(k.asked, name)
	if key := k.keys[name.URL+" "+name.ID]; key != nil {
		return key, KeyKnown
	}
	return nil, k.state
}

// certified names its certificate by URL, as PayPal and Amazon SNS do.
func certified() *Scheme {
	return &Scheme{AnyOf: []Variant{{
		Signature: Source{SourceHeader, "X-Sig"},
		Proofs: []Proof{{Algorithm: ECDSAP256, Encoding: Base64, Key: KeyForm{
			Encoding: KeySPKI, Remote: &Remote{
				Form: RemoteCertificate, URLFrom: Source{SourceHeader, "X-Cert"},
				Hosts: []string{"sns.*.sender.example"}, Path: "/certs/*.pem",
			},
		}}},
		Content: []Part{{Kind: PartBody}},
	}}}
}

const certURL = "https://sns.eu-1.sender.example/certs/a.pem"

func signP256(t testing.TB, private *ecdsa.PrivateKey, body string) string {
	t.Helper()
	sum := sha256.Sum256([]byte(body))
	raw, err := ecdsa.SignASN1(rand.Reader, private, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(raw)
}

func newP256(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return private
}

func TestAKeyThatIsNotHereIsNoRefusal(t *testing.T) {
	private := newP256(t)
	small, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	keys := &someKeys{keys: map[string]*PublicKey{
		certURL + " ": {Key: &private.PublicKey, NotBefore: time.Unix(10, 0), NotAfter: time.Unix(20, 0)},
		"https://sns.x.sender.example/certs/rsa.pem ": {Key: &small.PublicKey},
	}}
	v, err := Compile(certified(), nil, Options{Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	if !v.Asymmetric() {
		t.Error("a published key costs nothing")
	}
	good := signP256(t, private, "b")
	for _, test := range []struct {
		url, signature string
		state          KeyState
		at             int64
		want           Outcome
	}{
		{certURL, good, KeyUnknown, 10, OK},
		{certURL, good, KeyUnknown, 9, BadSignature},
		{certURL, good, KeyUnknown, 20, BadSignature},
		{certURL, signP256(t, private, "c"), KeyUnknown, 10, BadSignature},
		{certURL, signP256(t, newP256(t), "b"), KeyPending, 10, BadSignature},
		{strings.Replace(certURL, "a.pem", "b.pem", 1), good, KeyPending, 10, Unavailable},
		{strings.Replace(certURL, "a.pem", "b.pem", 1), good, KeyUnknown, 10, BadSignature},
		{"https://sns.x.sender.example/certs/rsa.pem", good, KeyPending, 10, BadSignature},
		{"http://sns.eu-1.sender.example/certs/a.pem", good, KeyPending, 10, Malformed},
		{"", good, KeyPending, 10, Malformed},
		{certURL, "!", KeyPending, 10, Malformed},
	} {
		keys.state = test.state
		r := request("b", "X-Sig", test.signature, "X-Cert", test.url)
		r.ReceivedNS = test.at * 1e9
		got := v.Clone().Verify(r)
		if got.Outcome != test.want || got.Secret != -1 {
			t.Errorf("%s at %d: %s (%s) with %d, want %s", test.url, test.at, got.Outcome, got.Detail,
				got.Secret, test.want)
		}
	}
	for _, name := range keys.asked {
		if !name.From.Allows(name.URL) {
			t.Errorf("a stranger made us ask %s", name.URL)
		}
	}
	if _, err := Compile(certified(), nil, Options{}); !errors.Is(err, ErrNoSecret) {
		t.Errorf("nobody fetches keys: %v", err)
	}
	none, err := Compile(certified(), nil, Options{KeepUnusable: true})
	if err != nil {
		t.Fatal(err)
	}
	got := none.Verify(request("b", "X-Sig", good, "X-Cert", certURL))
	if got.Outcome != Unavailable {
		t.Errorf("nobody fetches keys: %s", got.Outcome)
	}
}

func TestAPinnedKeyIsNotAskedFor(t *testing.T) {
	private := newP256(t)
	keys := &someKeys{state: KeyPending}
	v, err := Compile(certified(), []Secret{
		{Value: publicPEM(t, &newP256(t).PublicKey), URL: certURL + "x"},
		{Value: publicPEM(t, &private.PublicKey), URL: certURL},
	}, Options{Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	r := request("b", "X-Sig", signP256(t, private, "b"), "X-Cert", certURL)
	if got := v.Verify(r); got.Outcome != OK || got.Secret != 1 {
		t.Errorf("%s with %d", got.Outcome, got.Secret)
	}
	r.Body = []byte("c")
	if got := v.Verify(r); got.Outcome != BadSignature {
		t.Errorf("%s", got.Outcome)
	}
	if len(keys.asked) > 0 {
		t.Errorf("asked for %d keys", len(keys.asked))
	}
	if _, err := Compile(certified(), []Secret{{Value: publicPEM(t, &private.PublicKey)}},
		Options{Keys: keys}); err == nil {
		t.Error("a key without the URL by which it is named is taken")
	}
}

func TestALoginIsForAskingAndProvesNothing(t *testing.T) {
	signer := tokenSigners(t)[3]
	s := tokenScheme(ECDSAP256, KeyForm{Encoding: KeySPKI, Remote: &Remote{
		Form: RemoteJWK, URL: "https://sender.example/key",
		Post: []PostField{{"id", PostKeyID}, {"user", PostUser}, {"secret", PostPassword}},
	}})
	keys := &someKeys{state: KeyPending}
	login := Secret{User: "u", Password: "p", NotAfter: time.Unix(2000, 0)}
	v, err := Compile(s, []Secret{login}, Options{Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(nil)
	const hexDigits = "0123456789abcdef"
	var hash []byte
	for _, c := range sum {
		hash = append(hash, hexDigits[c>>4], hexDigits[c&15])
	}
	r := request("", "X-Token", signer.token(`{"alg":"ES256","kid":"k1"}`,
		`{"iat":1000,"hash":"`+string(hash)+`"}`))
	r.ReceivedNS = 1000e9
	if got := v.Verify(r); got.Outcome != Unavailable {
		t.Errorf("%s (%s)", got.Outcome, got.Detail)
	}
	if len(keys.asked) != 1 || keys.asked[0].ID != "k1" || keys.asked[0].Login.User != "u" ||
		keys.asked[0].URL != "https://sender.example/key" {
		t.Errorf("asked for %d", len(keys.asked))
	}
	public, err := KeySPKI.decode(signer.secret)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := parsePublic(public)
	if err != nil {
		t.Fatal(err)
	}
	keys.keys = map[string]*PublicKey{"https://sender.example/key k1": {Key: parsed}}
	if got := v.Verify(r); got.Outcome != OK {
		t.Errorf("%s (%s)", got.Outcome, got.Detail)
	}
	if _, err := Compile(s, nil, Options{Keys: keys}); !errors.Is(err, ErrNoSecret) {
		t.Errorf("nobody can ask for keys: %v", err)
	}
}

func TestOnlyURLsOfTheSenderAreAllowed(t *testing.T) {
	r := &Remote{
		Hosts: []string{"sns.*.amazonaws.com", "api.paypal.com"},
		Path:  "/Simple-*.pem",
	}
	for _, text := range []string{
		"https://sns.us-west-2.amazonaws.com/Simple-0.pem", "https://api.paypal.com/Simple-a.b.pem",
		"https://SNS.us-west-2.amazonaws.com:443/Simple-0.pem",
	} {
		if !r.Allows(text) {
			t.Errorf("%s is refused", text)
		}
	}
	for _, text := range []string{
		"", "http://sns.us-west-2.amazonaws.com/Simple-0.pem", "//api.paypal.com/Simple-0.pem",
		"https://sns.us-west-2.amazonaws.com.evil.example/Simple-0.pem",
		"https://sns.a.b.amazonaws.com/Simple-0.pem", "https://sns..amazonaws.com/Simple-0.pem",
		"https://evil.example#.amazonaws.com/Simple-0.pem", "https://sns.amazonaws.com/Simple-0.pem",
		"https://u@api.paypal.com/Simple-0.pem", "https://api.paypal.com:8443/Simple-0.pem",
		"https://api.paypal.com@evil.example/Simple-0.pem", "https://api.paypal.com/x/Simple-0.pem",
		"https://api.paypal.com/Simple-/../0.pem", "https://api.paypal.com/Simple-%2f0.pem",
		"https://api.paypal.com/Simple-0.pem?x", "https://api.paypal.com/Simple-0.pem#x",
		"https://api.paypal.com/Simple-.pem", "https://api.paypal.com/Simple-0.pem?",
		"https://api.paypal.com\\.evil.example/Simple-0.pem", "https://api.paypal.com./Simple-0.pem",
		"https://api.paypal.com/Simple-" + strings.Repeat("0", keyURLMax) + ".pem",
		"https://api.paypal.com/Simple-0.pem\n", "https:api.paypal.com/Simple-0.pem",
	} {
		if r.Allows(text) {
			t.Errorf("%s is allowed", text)
		}
	}
}

func TestARemoteIsChecked(t *testing.T) {
	for want, change := range map[string]func(*Variant, *Remote){
		"hosts":                  func(_ *Variant, r *Remote) { r.Hosts = nil },
		"hosts of strangers":     func(_ *Variant, r *Remote) { r.Hosts = []string{"*.com"} },
		"would fit":              func(_ *Variant, r *Remote) { r.Hosts = []string{"a.*.com"} },
		"no host name":           func(_ *Variant, r *Remote) { r.Hosts = []string{"A.example.com"} },
		"either url or url_from": func(_ *Variant, r *Remote) { r.URL = "https://x.example/" },
		"at most one *":          func(_ *Variant, r *Remote) { r.Path = "/*/*" },
		"form: is missing":       func(_ *Variant, r *Remote) { r.Form = 0 },
		"names the key":          func(v *Variant, _ *Remote) { v.KeyID = Source{SourceHeader, "X"} },
		"is for form jwk":        func(_ *Variant, r *Remote) { r.Post = []PostField{{"a", PostUser}} },
		"only public keys": func(v *Variant, _ *Remote) {
			v.Proofs[0].Algorithm, v.Proofs[0].Key.Encoding = HMACSHA256, KeyText
		},
		"name its key": func(_ *Variant, r *Remote) {
			*r = Remote{Form: RemoteJWKS, URL: "https://x.example/"}
		},
		"https URL": func(v *Variant, r *Remote) {
			*r = Remote{Form: RemoteJWKS, URL: "http://x.example/"}
			v.KeyID = Source{SourceHeader, "X"}
		},
	} {
		s := certified()
		change(&s.AnyOf[0], s.AnyOf[0].Proofs[0].Key.Remote)
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	if err := certified().Check(); err != nil {
		t.Error(err)
	}
}
