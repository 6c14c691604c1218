package provider

import (
	"bytes"
	"crypto"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Secret is what sender and receiver agreed on, in the text form in which the sender shows it.
// It never prints.
type Secret struct {
	Value string
	// KeyID is the name by which a request refers to this secret.
	KeyID string
	// User and Password are the parts of HTTP Basic credentials.
	User, Password string
	// URL is where a certificate stands, for schemes that name theirs by URL.
	URL string
	// Role tells secrets with different duties apart, such as primary, secondary, verify_token.
	Role string
	// Type says what Value is where that cannot be seen: hmac-b64, hmac-hex, ed25519-public.
	Type string
	// NotBefore and NotAfter bound the times of receipt at which the secret counts: from NotBefore on
	// and until just before NotAfter. The zero time is no bound.
	NotBefore, NotAfter time.Time
}

// ParseSecret reads a literal, or a JSON object where a secret has parts:
// {"key_id","value"}, {"user","password"}, {"url","value"}, {"role","value"}, each with not_before
// and not_after (RFC 3339) if need be.
func ParseSecret(text string) (Secret, error) {
	if !strings.HasPrefix(strings.TrimSpace(text), "{") {
		return Secret{Value: text}, nil
	}
	var parts struct {
		Type     string `json:"type"`
		Value    string `json:"value"`
		KeyID    string `json:"key_id"`
		User     string `json:"user"`
		Password string `json:"password"`
		URL      string `json:"url"`
		Role     string `json:"role"`

		NotBefore time.Time `json:"not_before"`
		NotAfter  time.Time `json:"not_after"`
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	// The errors of the decoder may quote the text, so they are not passed on.
	if decoder.Decode(&parts) != nil {
		return Secret{}, errors.New("the secret begins with { but is no JSON object of the parts " +
			"value, key_id, user, password, url, role, not_before, not_after")
	}
	if _, err := decoder.Token(); err != io.EOF {
		return Secret{}, errors.New("the secret has text behind its JSON object")
	}
	return Secret{
		Value: parts.Value, KeyID: parts.KeyID, User: parts.User, Password: parts.Password,
		URL: parts.URL, Role: parts.Role, Type: parts.Type,
		NotBefore: parts.NotBefore, NotAfter: parts.NotAfter,
	}, nil
}

const redacted = "[secret]"

// String hides the secret.
func (Secret) String() string { return redacted }

// GoString hides the secret from %#v.
func (Secret) GoString() string { return redacted }

// Format hides the secret from every verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue hides the secret from slog.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText hides the secret from encoders.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// ErrNoSecret says that a scheme that needs a secret has none.
var ErrNoSecret = errors.New("no secret is configured, so nothing could ever pass")

// SecretError says which of the configured secrets cannot be used, and why, without quoting it.
type SecretError struct {
	Index  int
	Reason string
}

func (e *SecretError) Error() string { return fmt.Sprintf("secret %d %s", e.Index, e.Reason) }

// window is the span of times of receipt in which a secret counts, in ns since 1970.
type window struct{ from, to int64 }

// noWindow is all times.
var noWindow = window{math.MinInt64, math.MaxInt64}

func (s *Secret) window() (window, error) {
	w := noWindow
	for _, bound := range []struct {
		at time.Time
		to *int64
	}{{s.NotBefore, &w.from}, {s.NotAfter, &w.to}} {
		if bound.at.IsZero() {
			continue
		}
		// UnixNano is undefined outside of these years.
		if y := bound.at.Year(); y < 1678 || y > 2261 {
			return w, errors.New("has a bound of validity outside of the years 1678 to 2261")
		}
		*bound.to = bound.at.UnixNano()
	}
	if w.to <= w.from {
		return w, errors.New("is never valid: not_after is not after not_before")
	}
	return w, nil
}

func (w window) holds(ns int64) bool { return w.from <= ns && ns < w.to }

// key is the material of one secret for one proof. It does not change after Compile.
type key struct {
	secret, proof int
	valid         window
	id            []byte
	raw           []byte // HMAC key
	token         [sha256.Size]byte
	edwards       ed25519.PublicKey
	weierstrass   *ecdsa.PublicKey
	rsa           *rsa.PublicKey
	message       *messageForm
}

// bytes takes the key out of the text of the secret.
func (f KeyForm) bytes(secret Secret) ([]byte, error) {
	if f.Role != "" && f.Role != secret.Role {
		return nil, fmt.Errorf("has not the role %s", f.Role)
	}
	if f.Encoding == KeyBasic {
		switch {
		case secret.User == "" || secret.Password == "":
			return nil, errors.New("needs a user and a password")
		case strings.Contains(secret.User, ":"):
			return nil, errors.New("has a user with a colon, which HTTP Basic cannot carry")
		}
		return []byte(secret.User + ":" + secret.Password), nil
	}
	if secret.Value == "" {
		return nil, errors.New("is empty")
	}
	text := secret.Value
	if f.Normalize != nil {
		text = f.Normalize(text)
	}
	text, had := strings.CutPrefix(text, f.Prefix)
	had = had && f.Prefix != ""
	switch {
	case f.PrefixRefused && had:
		return nil, fmt.Errorf("begins with %s", f.Prefix)
	case f.PrefixRequired && !had:
		return nil, fmt.Errorf("does not begin with %s", f.Prefix)
	}
	return f.Encoding.decode(text)
}

func (e KeyEncoding) decode(text string) ([]byte, error) {
	var raw []byte
	var err error
	switch e {
	case KeyHex:
		raw, err = hex.DecodeString(text)
		err = reason(err, "is not hex")
	case KeyBase64:
		raw, err = base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
		err = reason(err, "is not base64")
	case KeySPKI:
		if block, _ := pem.Decode([]byte(text)); block != nil {
			raw = block.Bytes
			break
		}
		raw, err = base64.StdEncoding.DecodeString(strings.TrimSpace(text))
		err = reason(err, "is neither base64 nor PEM")
	case KeySHA1:
		sum := sha1.Sum([]byte(text))
		raw = sum[:]
	default:
		raw = []byte(text)
	}
	if err == nil && len(raw) == 0 {
		err = errors.New("is empty")
	}
	return raw, err
}

// reason replaces err, which may quote the secret.
func reason(err error, text string) error {
	if err == nil {
		return nil
	}
	return errors.New(text)
}

// newKey makes the key of secret for a proof, or says why it does not fit.
func newKey(p *Proof, secret Secret) (key, error) {
	if p.Algorithm == MessageSignature {
		return newMessageKey(secret)
	}
	raw, err := p.Key.bytes(secret)
	if err != nil {
		return key{}, err
	}
	k := key{id: []byte(secret.KeyID)}
	if p.Key.Remote != nil && p.Key.Remote.URLFrom.Kind != SourceNone {
		if k.id = []byte(secret.URL); len(k.id) == 0 {
			return key{}, errors.New("has no url, by which the sender names it")
		}
	}
	switch {
	case p.Algorithm == Token:
		k.token = sha256.Sum256(raw)
	case p.Algorithm.kind() == kindShared:
		k.raw = raw
	case p.Key.Encoding != KeySPKI: // Check lets only Ed25519 come here.
		if len(raw) != ed25519.PublicKeySize {
			return key{}, fmt.Errorf("is no Ed25519 public key: %d bytes, want 32", len(raw))
		}
		err = k.setPublic(Ed25519, ed25519.PublicKey(raw))
	default:
		public, fault := parsePublic(raw)
		if fault != nil {
			return key{}, fault
		}
		err = k.setPublic(p.Algorithm, public)
	}
	return k, err
}

// parsePublic reads a SubjectPublicKeyInfo, or a certificate that has one.
func parsePublic(der []byte) (crypto.PublicKey, error) {
	if public, err := x509.ParsePKIXPublicKey(der); err == nil {
		return public, nil
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, errors.New("is neither a SubjectPublicKeyInfo nor a certificate")
	}
	return certificate.PublicKey, nil
}

// setPublic takes a public key up that fits the algorithm.
func (k *key) setPublic(a Algorithm, public crypto.PublicKey) error {
	switch public := public.(type) {
	case *rsa.PublicKey:
		if bits := public.N.BitLen(); bits < rsaBitsMin || bits > rsaBitsMax {
			return fmt.Errorf("is an RSA key of %d bits, want %d to %d", bits, rsaBitsMin, rsaBitsMax)
		}
		k.rsa = public
		switch a {
		case RSASHA1, RSASHA256, RSAPSSSHA256, RSAPSSSHA512:
			return nil
		}
	case *ecdsa.PublicKey:
		k.weierstrass = public
		if a == ECDSAP256 && public.Curve == elliptic.P256() ||
			a == ECDSAP384 && public.Curve == elliptic.P384() {
			return nil
		}
	case ed25519.PublicKey:
		if len(public) != ed25519.PublicKeySize || smallOrder(public) {
			return errors.New("is an Ed25519 point of small order, under which anything verifies")
		}
		if k.edwards = public; a == Ed25519 {
			return nil
		}
	}
	return fmt.Errorf("is no public key for %s", a)
}

// smallOrder tells whether the point has an order that divides 8. It goes over to Curve25519 by
// u = (1+y)/(1-y), where the standard library refuses such points.
func smallOrder(public []byte) bool {
	little := bytes.Clone(public)
	little[31] &= 0x7f
	slices.Reverse(little)
	prime := new(big.Int).Lsh(big.NewInt(1), 255)
	prime.Sub(prime, big.NewInt(19))
	y := new(big.Int).SetBytes(little)
	y.Mod(y, prime)
	below := new(big.Int).Sub(big.NewInt(1), y)
	below.Mod(below, prime)
	if below.Sign() == 0 {
		return true // y = 1 is the neutral element, which has no u.
	}
	u := new(big.Int).Add(big.NewInt(1), y)
	u.Mul(u, below.ModInverse(below, prime)).Mod(u, prime)
	var text [32]byte
	u.FillBytes(text[:])
	slices.Reverse(text[:])
	scalar := sha256.Sum256(public)
	private, err := ecdh.X25519().NewPrivateKey(scalar[:])
	if err != nil {
		return true
	}
	point, err := ecdh.X25519().NewPublicKey(text[:])
	if err != nil {
		return true
	}
	_, err = private.ECDH(point)
	return err != nil
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
