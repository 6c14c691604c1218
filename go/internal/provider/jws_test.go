package provider

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"
)

var b64 = base64.RawURLEncoding.EncodeToString

// publicPEM is the SubjectPublicKeyInfo of a key.
func publicPEM(t testing.TB, public crypto.PublicKey) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// rawECDSA is a signature as r and s side by side.
func rawECDSA(t testing.TB, private *ecdsa.PrivateKey, sum []byte) []byte {
	t.Helper()
	r, s, err := ecdsa.Sign(rand.Reader, private, sum)
	if err != nil {
		t.Fatal(err)
	}
	half := (private.Params().BitSize + 7) / 8
	raw := make([]byte, 2*half)
	r.FillBytes(raw[:half])
	s.FillBytes(raw[half:])
	return raw
}

// tokenScheme takes a token in a header whose claims hold the hash of the body and a time.
func tokenScheme(a Algorithm, form KeyForm) *Scheme {
	return &Scheme{AnyOf: []Variant{{
		Signature: Source{SourceHeader, "X-Token"}, JWS: &JWS{Leeway: 10 * time.Second},
		Proofs:   []Proof{{Algorithm: a, Key: form, Prefix: "Bearer ", PrefixOptional: true}},
		KeyID:    Source{SourceJOSE, "kid"},
		BodyHash: Source{SourceClaim, "hash"},
		Timestamp: Timestamp{
			From: Source{SourceClaim, "iat"}, Format: UnixSeconds, Tolerance: 5 * time.Minute,
		},
	}}, ID: []Source{{SourceClaim, "jti"}}}
}

// tokenSigner signs the input of a token in one algorithm.
type tokenSigner struct {
	algorithm Algorithm
	form      KeyForm
	secret    string
	sign      func(input []byte) []byte
}

func tokenSigners(t testing.TB) []tokenSigner {
	t.Helper()
	spki := KeyForm{Encoding: KeySPKI}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	edwards, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	must := func(raw []byte, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	hashed := func(h crypto.Hash, input []byte) []byte {
		d := h.New()
		d.Write(input)
		return d.Sum(nil)
	}
	return []tokenSigner{
		{HMACSHA256, KeyForm{}, "secret", func(input []byte) []byte {
			mac := hmac.New(sha256.New, []byte("secret"))
			mac.Write(input)
			return mac.Sum(nil)
		}},
		{RSASHA256, spki, publicPEM(t, &key.PublicKey), func(input []byte) []byte {
			return must(rsa.SignPKCS1v15(nil, key, crypto.SHA256, hashed(crypto.SHA256, input)))
		}},
		{RSAPSSSHA256, spki, publicPEM(t, &key.PublicKey), func(input []byte) []byte {
			return must(rsa.SignPSS(rand.Reader, key, crypto.SHA256, hashed(crypto.SHA256, input),
				&rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}))
		}},
		{ECDSAP256, spki, publicPEM(t, &p256.PublicKey), func(input []byte) []byte {
			return rawECDSA(t, p256, hashed(crypto.SHA256, input))
		}},
		{ECDSAP384, spki, publicPEM(t, &p384.PublicKey), func(input []byte) []byte {
			return rawECDSA(t, p384, hashed(crypto.SHA384, input))
		}},
		{Ed25519, spki, publicPEM(t, edwards), func(input []byte) []byte {
			return ed25519.Sign(private, input)
		}},
	}
}

func (s *tokenSigner) token(header, claims string) string {
	input := b64([]byte(header)) + "." + b64([]byte(claims))
	return input + "." + b64(s.sign([]byte(input)))
}

func TestTokensOfEveryAlgorithm(t *testing.T) {
	const body = `{"a":1}`
	sum := sha256.Sum256([]byte(body))
	hash := hex.EncodeToString(sum[:])
	names := map[Algorithm]string{
		HMACSHA256: "HS256", RSASHA256: "RS256", RSAPSSSHA256: "PS256", ECDSAP256: "ES256",
		ECDSAP384: "ES384", Ed25519: "EdDSA",
	}
	for _, signer := range tokenSigners(t) {
		alg := names[signer.algorithm]
		v, err := Compile(tokenScheme(signer.algorithm, signer.form),
			[]Secret{{Value: signer.secret, KeyID: "k"}}, Options{})
		if err != nil {
			t.Fatalf("%s: %v", alg, err)
		}
		if got := v.Asymmetric(); got != (alg != "HS256") {
			t.Errorf("%s: asymmetric %v", alg, got)
		}
		header := fmt.Sprintf(`{"typ":"JWT","alg":%q,"kid":"k"}`, alg)
		claims := fmt.Sprintf(`{"iat":1000,"hash":%q,"jti":"e1"}`, hash)
		with := func(old, new string) string {
			return signer.token(header, strings.Replace(claims, old, new, 1))
		}
		says := func(old, new string) string {
			return signer.token(strings.Replace(header, old, new, 1), claims)
		}
		good := signer.token(header, claims)
		swapped := func(claim string) string {
			return strings.Replace(good, b64([]byte(claims)), b64([]byte(claim)), 1)
		}
		long := strings.Repeat("x", tokenMax)
		last := strings.LastIndexByte(good, '.')
		for name, test := range map[string]struct {
			token, body string
			at          int64
			want        Outcome
		}{
			"good":              {good, body, 1300, OK},
			"with its prefix":   {"Bearer " + good, body, 1300, OK},
			"a fraction":        {with("1000", "1000.9"), body, 1300, OK},
			"another body":      {good, `{"a":2}`, 1300, BadSignature},
			"no hash":           {with("hash", "hush"), body, 1000, BadSignature},
			"stale":             {good, body, 1301, Expired},
			"from the future":   {good, body, 699, Expired},
			"no time":           {with("iat", "at"), body, 1000, Malformed},
			"a time as text":    {with("1000", `"1000"`), body, 1000, Malformed},
			"other key":         {says(`"k"`, `"j"`), body, 1000, BadSignature},
			"no key":            {says("kid", "kit"), body, 1000, MissingHeader},
			"alg none":          {says(alg, "none"), body, 1000, Malformed},
			"no alg":            {says("alg", "arg"), body, 1000, Malformed},
			"crit":              {says("typ", "crit"), body, 1000, Malformed},
			"no signature":      {good[:last+1], body, 1000, Malformed},
			"claims cut":        {swapped(""), body, 1000, BadSignature},
			"claims changed":    {swapped(claims + " "), body, 1000, BadSignature},
			"two parts":         {good[:last], body, 1000, Malformed},
			"four parts":        {good + ".x", body, 1000, Malformed},
			"padded":            {good + "=", body, 1000, Malformed},
			"expired":           {with("{", `{"exp":1290,`), body, 1300, Expired},
			"within the leeway": {with("{", `{"exp":1291,`), body, 1300, OK},
			"not yet":           {with("{", `{"nbf":1011,`), body, 1000, Expired},
			"nearly":            {with("{", `{"nbf":1010,`), body, 1000, OK},
			"exp is no time":    {with("{", `{"exp":"1999",`), body, 1000, Malformed},
			"a long one":        {with("{", `{"x":"`+long+`",`), body, 1000, Malformed},
		} {
			r := request(test.body, "X-Token", test.token)
			r.ReceivedNS = test.at * 1e9
			got := v.Verify(r)
			if got.Outcome != test.want {
				t.Errorf("%s, %s: %s (%s), want %s", alg, name, got.Outcome, got.Detail, test.want)
			}
			if got.Outcome == OK && string(got.EventID) != "e1" {
				t.Errorf("%s, %s: id %q", alg, name, got.EventID)
			}
		}
		// Whatever else the key could do, the scheme alone chooses the algorithm.
		for _, other := range names {
			if other == alg {
				continue
			}
			r := request(body, "X-Token", says(alg, other))
			r.ReceivedNS = 1000e9
			if got := v.Verify(r); got.Outcome != Malformed {
				t.Errorf("%s that says %s: %s", alg, other, got.Outcome)
			}
		}
	}
}

func TestAPublicKeyIsNoSharedOne(t *testing.T) {
	// The old trick: sign with HMAC, with the text of the public key as the key.
	signers := tokenSigners(t)
	public := signers[1]
	v, err := Compile(tokenScheme(public.algorithm, public.form),
		[]Secret{{Value: public.secret, KeyID: "k"}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	forged := tokenSigner{sign: func(input []byte) []byte {
		mac := hmac.New(sha256.New, []byte(public.secret))
		mac.Write(input)
		return mac.Sum(nil)
	}}
	for _, alg := range []string{"HS256", "RS256"} {
		header := fmt.Sprintf(`{"alg":%q,"kid":"k"}`, alg)
		if got := v.Verify(request("", "X-Token", forged.token(header, `{"iat":0}`))); got.Outcome == OK {
			t.Errorf("%s passes", alg)
		}
	}
}

func TestATokenMayHaveToExpire(t *testing.T) {
	signer := tokenSigners(t)[0]
	s := tokenScheme(signer.algorithm, signer.form)
	s.AnyOf[0].JWS.Expires = true
	s.AnyOf[0].Timestamp, s.AnyOf[0].KeyID = Timestamp{}, Source{}
	s.AnyOf[0].BodyHash, s.AnyOf[0].UnsignedBody = Source{}, true
	v := compile(t, s, Options{}, signer.secret)
	forever := time.Duration(-1)
	timeless := compile(t, s, Options{Tolerance: &forever}, signer.secret)
	for claims, want := range map[string]Outcome{
		`{"exp":1}`: OK, `{}`: Malformed, `{"exp":-1}`: Malformed, `{"exp":-9e9}`: Malformed,
	} {
		r := request("", "X-Token", signer.token(`{"alg":"HS256"}`, claims))
		if got := v.Verify(r); got.Outcome != want {
			t.Errorf("%s: %s", claims, got.Outcome)
		}
		if got := timeless.Verify(r); got.Outcome != OK {
			t.Errorf("%s, no time is judged: %s", claims, got.Outcome)
		}
	}
}

func TestATokenSchemeIsChecked(t *testing.T) {
	for want, change := range map[string]func(*Variant){
		"carries what it signs": func(v *Variant) { v.Content = []Part{{Kind: PartBody}} },
		"has its own":           func(v *Variant) { v.Proofs[0].Encoding = Hex },
		"always so":             func(v *Variant) { v.Proofs[0].Raw = true },
		"is not made with":      func(v *Variant) { v.Proofs[0].Algorithm = HMACSHA1 },
		"body is missing":       func(v *Variant) { v.BodyHash = Source{} },
		"needs jws":             func(v *Variant) { v.JWS = nil; v.Proofs[0].Encoding = Hex },
		"one field":             func(v *Variant) { v.Items.Separator = ',' },
	} {
		s := tokenScheme(HMACSHA256, KeyForm{})
		change(&s.AnyOf[0])
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

func FuzzToken(f *testing.F) {
	signer := tokenSigners(f)[0]
	good := signer.token(`{"alg":"HS256","kid":"k"}`, `{"iat":0}`)
	for _, text := range []string{
		good, "..", "a.b.c", strings.Repeat(".", 99), good[:20], "Bearer " + good,
	} {
		f.Add([]byte(text))
	}
	s := tokenScheme(HMACSHA256, KeyForm{})
	s.AnyOf[0].BodyHash, s.AnyOf[0].UnsignedBody = Source{}, true
	v, err := Compile(s, []Secret{{Value: signer.secret, KeyID: "k"}}, Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got := v.Verify(request("", "X-Token", string(text)))
		trimmed := strings.TrimPrefix(strings.Trim(string(text), " \t"), "Bearer ")
		if got.Outcome == OK && strings.Trim(trimmed, " \t") != good {
			t.Fatalf("%q passes", text)
		}
	})
}
