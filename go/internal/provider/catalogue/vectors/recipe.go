package vectors

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"hash"
	"hash/crc32"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Recipe is how a sender signs, as templates in which <ts>, <body>, <sig>, <url>, <method>,
// <digest>, <bodyhex>, <crc32>, <claims>, <form> and the names of Parts stand for what they say.
// It knows nothing of the profile that judges what it makes.
type Recipe struct {
	// Alg is token, basic, none, hmac-HASH, ed25519, ecdsa-sha256, es256, rsa-sha1 or rsa-sha256.
	Alg string
	// Enc is the form of the signature: hex, base64, base64url-raw or text.
	Enc string
	// Key is the form of the secret: text, hex, base64, strip:PREFIX, sha1 or nfkd.
	Key string
	// Text is what is signed, Claims the second part of a JWS in clear.
	Text, Claims string
	// Time is unix-s, unix-ms or rfc3339.
	Time    string
	Headers [][2]string
	Body    string
	URL     string
	Parts   map[string]string
	// Quote: the values in the body are percent-encoded. Legacy: it takes allow_legacy to be judged.
	Quote, Legacy bool
	// Secret signs, Other is one that nobody configured, Secrets are what the receiver configures.
	Secret, Other Secret
	Secrets       []Secret
}

// Signed is a request that nobody has judged yet.
type Signed struct {
	URL     string
	Headers [][2]string
	Body    string
}

// Sign makes a request of now with one of the recipe's secrets, at a URL (empty: the recipe's).
func (r *Recipe) Sign(secret Secret, at time.Time, to string) (Signed, error) {
	values := map[string]string{"ts": r.stamp(at), "method": "POST", "url": r.URL}
	if to != "" {
		values["url"] = to
	}
	for _, name := range slices.Sorted(maps.Keys(r.Parts)) {
		values[name] = fill(r.Parts[name], values)
	}
	body := r.Body
	if !r.Quote {
		body = fill(body, values)
	}
	sum := sha256.Sum256([]byte(body))
	values["digest"] = base64.StdEncoding.EncodeToString(sum[:])
	values["bodyhex"] = hex.EncodeToString(sum[:])
	values["crc32"] = strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(body))), 10)
	values["claims"] = base64.RawURLEncoding.EncodeToString([]byte(fill(r.Claims, values)))
	if strings.Contains(r.Text, "<form>") {
		form, err := sortedForm(body)
		if err != nil {
			return Signed{}, err
		}
		values["form"] = form
	}
	text := strings.ReplaceAll(fill(r.Text, values), "<body>", body)
	raw, err := r.signature(secret, []byte(text))
	if err != nil {
		return Signed{}, err
	}
	values["sig"] = r.encode(raw)
	signed := Signed{URL: fill(values["url"], values)}
	for _, h := range r.Headers {
		signed.Headers = append(signed.Headers, [2]string{h[0], fill(h[1], values)})
	}
	if r.Quote {
		for name, value := range values {
			values[name] = url.QueryEscape(value)
		}
	}
	signed.Body = fill(body, values)
	return signed, nil
}

func fill(template string, values map[string]string) string {
	for name, value := range values {
		template = strings.ReplaceAll(template, "<"+name+">", value)
	}
	return template
}

func (r *Recipe) stamp(at time.Time) string {
	switch r.Time {
	case "unix-ms":
		return strconv.FormatInt(at.UnixMilli(), 10)
	case "rfc3339":
		return at.UTC().Format(time.RFC3339)
	}
	return strconv.FormatInt(at.Unix(), 10)
}

func (r *Recipe) encode(raw []byte) string {
	switch r.Enc {
	case "base64":
		return base64.StdEncoding.EncodeToString(raw)
	case "base64url-raw":
		return base64.RawURLEncoding.EncodeToString(raw)
	case "text":
		return string(raw)
	}
	return hex.EncodeToString(raw)
}

func sortedForm(body string) (string, error) {
	values, err := url.ParseQuery(body)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(values)) {
		text.WriteString(name + strings.Join(values[name], name))
	}
	return text.String(), nil
}

func (r *Recipe) key(secret Secret) ([]byte, error) {
	text, how := secret.Value, r.Key
	if prefix, found := strings.CutPrefix(how, "strip:"); found {
		text, how = strings.TrimPrefix(text, prefix), "base64"
	}
	switch how {
	case "base64":
		return base64.StdEncoding.DecodeString(text)
	case "hex":
		return hex.DecodeString(text)
	case "sha1":
		sum := sha1.Sum([]byte(text))
		return sum[:], nil
	case "nfkd": // of the characters that the set has
		return []byte(strings.NewReplacer("é", "e\u0301", "①", "1", "②", "2").Replace(text)), nil
	}
	return []byte(text), nil
}

var hashes = map[string]func() hash.Hash{
	"hmac-sha1": sha1.New, "hmac-sha256": sha256.New, "hmac-sha384": sha512.New384,
	"hmac-sha512": sha512.New,
}

func (r *Recipe) signature(secret Secret, text []byte) ([]byte, error) {
	switch r.Alg {
	case "none":
		return nil, nil
	case "token":
		return []byte(secret.Value), nil
	case "basic":
		return []byte(secret.User + ":" + secret.Password), nil
	case "ed25519":
		seed, err := hex.DecodeString(secret.Private)
		if err != nil || len(seed) != ed25519.SeedSize {
			return nil, fmt.Errorf("no seed: %w", err)
		}
		return ed25519.Sign(ed25519.NewKeyFromSeed(seed), text), nil
	}
	if newHash := hashes[r.Alg]; newHash != nil {
		key, err := r.key(secret)
		if err != nil {
			return nil, err
		}
		mac := hmac.New(newHash, key)
		mac.Write(text)
		return mac.Sum(nil), nil
	}
	block, _ := pem.Decode([]byte(secret.Private))
	if block == nil {
		return nil, fmt.Errorf("algorithm %q has no private key", r.Alg)
	}
	private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	switch k := private.(type) {
	case *ecdsa.PrivateKey:
		if r.Alg == "ecdsa-sha256" {
			return ecdsa.SignASN1(rand.Reader, k, sum[:])
		}
		left, right, err := ecdsa.Sign(rand.Reader, k, sum[:])
		if err != nil {
			return nil, err
		}
		raw := make([]byte, 64) // r||s, as JWS has it (RFC 7518, section 3.4)
		left.FillBytes(raw[:32])
		right.FillBytes(raw[32:])
		return raw, nil
	case *rsa.PrivateKey:
		if r.Alg == "rsa-sha1" {
			old := sha1.Sum(text)
			return rsa.SignPKCS1v15(nil, k, crypto.SHA1, old[:])
		}
		return rsa.SignPKCS1v15(nil, k, crypto.SHA256, sum[:])
	}
	return nil, fmt.Errorf("algorithm %q is unknown", r.Alg)
}
