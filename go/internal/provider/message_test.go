package provider

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"testing"
	"time"
)

func TestMessageSignaturesOfP256Keys(t *testing.T) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&private.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	public := string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	const input = `("@method" "@authority" "@scheme" "@request-target" "@query" "x");created=1000` +
		`;keyid="k";alg="ecdsa-p256-sha256";nonce="n"`
	base := "\"@method\": PUT\n\"@authority\": a.test\n\"@scheme\": https\n" +
		"\"@request-target\": /p?q=1\n\"@query\": ?q=1\n\"x\": 1, 2\n\"@signature-params\": " + input
	sum := sha256.Sum256([]byte(base))
	r, s, err := ecdsa.Sign(rand.Reader, private, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	raw := make([]byte, 64)
	r.FillBytes(raw[:32])
	s.FillBytes(raw[32:])
	scheme := &Scheme{AnyOf: []Variant{{
		Proofs: []Proof{{Algorithm: MessageSignature}}, MaxAge: time.Minute,
	}}}
	message := func(signature []byte) *Request {
		text := base64.StdEncoding.EncodeToString(signature)
		m := request("", "X", " 1", "x", "2 ", "Signature-Input", "s="+input, "Signature", "s=:"+text+":")
		m.Method, m.Target, m.URL = []byte("PUT"), []byte("/p?q=1"), []byte("https://A.test:443/p?q=1")
		m.ReceivedNS = int64(1060 * time.Second)
		return m
	}
	for _, test := range []struct {
		secret Secret
		change func(*Request)
		want   Outcome
	}{
		{Secret{Value: public, KeyID: "k"}, func(*Request) {}, OK},
		{Secret{Value: public}, func(*Request) {}, OK},
		{Secret{Value: public, KeyID: "other"}, func(*Request) {}, BadSignature},
		{Secret{Value: "dGVzdA==", KeyID: "k"}, func(*Request) {}, BadSignature},
		{Secret{Value: public}, func(m *Request) { m.Method = []byte("POST") }, BadSignature},
		{Secret{Value: public}, func(m *Request) { m.URL = nil }, Malformed},
		{Secret{Value: public}, func(m *Request) { m.ReceivedNS += 1e9 }, Expired},
		{Secret{Value: public}, func(m *Request) { m.Headers = m.Headers[1:] }, BadSignature},
		{Secret{Value: public}, func(m *Request) { m.Headers = m.Headers[2:] }, Malformed},
	} {
		v, err := Compile(scheme, []Secret{test.secret}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		m := message(raw)
		test.change(m)
		if got := v.Verify(m); got.Outcome != test.want {
			t.Errorf("%s (%s), want %s", got.Outcome, got.Detail, test.want)
		}
		if got := v.Verify(message(raw[:63])); got.Outcome == OK {
			t.Error("a short signature passes")
		}
	}
	for _, value := range []string{"-----BEGIN", "", "!", public[:60] + public[64:]} {
		if _, err := Compile(scheme, []Secret{{Value: value}}, Options{}); err == nil {
			t.Errorf("%.20q is taken for a key", value)
		}
	}
}

func TestStructuredFieldsAreRefused(t *testing.T) {
	for _, text := range []string{
		"", " ", "s", "s=", "s=()x", "s=(", `s=("a`, `s=("a"`, `s=("a""b")`, `s=("A")`, `s=("a";sf)`,
		`s=("a" "a")`, `s=("@signature-params")`, `s=("a\b")`, "s=(\"a\x01\")", `S=("a")`, `s=("a"),`,
		`s=("a"),s=("b")`, `s=("a") x=("b")`, `s=("a");created`, `s=("a");created="1"`,
		`s=("a");created=1234567890123456`, `s=("a");keyid=k`, `s=("a");`, `s=("a");alg="`,
	} {
		if inputs, ok := parseInputs([]byte(text)); ok {
			t.Errorf("%q is taken: %+v", text, inputs)
		}
	}
	for _, text := range []string{"s=()", `s=( "a"  "b" );created=1; keyid="a\"\\"`, "a=(),\tb=()"} {
		if _, ok := parseInputs([]byte(text)); !ok {
			t.Errorf("%q is refused", text)
		}
	}
	for _, text := range []string{
		"s=:", "s=::", "s=:A:", "s=:QQ==", "s=:QQ==:x", "s=:QQ==:,s=:QQ==:",
	} {
		if _, ok := parseOctets([]byte(text)); ok {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestAContentDigestMustFit(t *testing.T) {
	const body, good = "body", "sha-256=:Iw2NV5AS1orRkIYudRHYBgbXELf+MJUkBKvnMsDzsbM=:"
	sum := sha256.Sum256([]byte(body))
	right := "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
	for text, want := range map[string]Outcome{
		right: OK, "md5=:QQ==:, " + right: OK, good: BadSignature, "md5=:QQ==:": Malformed,
		"sha-256=QQ==": Malformed, right + ", sha-512=:QQ==:": BadSignature,
	} {
		if got, _ := checkDigest(request(body, "content-digest", text)); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	if got, _ := checkDigest(request(body)); got != MissingHeader {
		t.Errorf("without a digest: %s", got)
	}
}

func TestAPortIsAddedOrDropped(t *testing.T) {
	for _, test := range []struct{ url, with, without string }{
		{"https://a.test/x?y=b:1", "https://a.test:443/x?y=b:1", "https://a.test/x?y=b:1"},
		{"http://a.test", "http://a.test:80", "http://a.test"},
		{"https://a.test:8443/", "https://a.test:8443/", "https://a.test/"},
		{"https://[::1]/", "https://[::1]:443/", "https://[::1]/"},
		{"https://[::1]:1/", "https://[::1]:1/", "https://[::1]/"},
		{"ftp://a.test/", "", ""}, {"a.test", "", ""},
	} {
		with, _ := withPort(test.url, true)
		without, _ := withPort(test.url, false)
		if string(with) != test.with || string(without) != test.without {
			t.Errorf("%s: %s and %s", test.url, with, without)
		}
	}
}

func TestMessageSignaturesOfSeveralKeys(t *testing.T) {
	const input = `("@method");created=1000`
	base := "\"@method\": POST\n\"@signature-params\": " + input
	hashed := func(h crypto.Hash) []byte {
		d := h.New()
		d.Write([]byte(base))
		return d.Sum(nil)
	}
	p256 := newP256(t)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := rsa.GenerateKey(rand.Reader, rsaBitsMin)
	if err != nil {
		t.Fatal(err)
	}
	other, err := rsa.GenerateKey(rand.Reader, rsaBitsMin)
	if err != nil {
		t.Fatal(err)
	}
	old, err := rsa.SignPKCS1v15(nil, other, crypto.SHA256, hashed(crypto.SHA256))
	if err != nil {
		t.Fatal(err)
	}
	pss, err := rsa.SignPSS(rand.Reader, key, crypto.SHA512, hashed(crypto.SHA512),
		&rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
	if err != nil {
		t.Fatal(err)
	}
	secrets := []Secret{
		{Value: publicPEM(t, &p256.PublicKey)}, {Value: publicPEM(t, &p384.PublicKey)},
		{Value: publicPEM(t, &key.PublicKey)},
		{Value: publicPEM(t, &other.PublicKey), Type: "rsa-v1_5-sha256"},
	}
	scheme := &Scheme{AnyOf: []Variant{{Proofs: []Proof{{Algorithm: MessageSignature}}}}}
	v, err := Compile(scheme, secrets, Options{})
	if err != nil {
		t.Fatal(err)
	}
	// Each key hashes the same text in a way of its own.
	for i, signature := range [][]byte{
		rawECDSA(t, p256, hashed(crypto.SHA256)), rawECDSA(t, p384, hashed(crypto.SHA384)), pss, old,
	} {
		got := v.Verify(request("", "Signature-Input", "s="+input,
			"Signature", "s=:"+base64.StdEncoding.EncodeToString(signature)+":"))
		if got.Outcome != OK || got.Secret != i {
			t.Errorf("key %d: %s (%s) with %d", i, got.Outcome, got.Detail, got.Secret)
		}
	}
	// The size of a salt is not the sender's to choose (RFC 9421, section 3.3.1).
	short, err := rsa.SignPSS(rand.Reader, key, crypto.SHA512, hashed(crypto.SHA512),
		&rsa.PSSOptions{SaltLength: 8})
	if err != nil {
		t.Fatal(err)
	}
	got := v.Verify(request("", "Signature-Input", "s="+input,
		"Signature", "s=:"+base64.StdEncoding.EncodeToString(short)+":"))
	if got.Outcome != BadSignature {
		t.Errorf("another salt: %s", got.Outcome)
	}
}
