package keyfetch

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"sluice/go/internal/provider"
)

// webKey is a JSON Web Key (RFC 7517; its parameters: RFC 7518, section 6, and RFC 8037).
type webKey struct {
	Kty, Kid, Use, Crv string
	N, E, X, Y         string
	// ExpiredAt is the time in s since 1970 from which on Plaid's keys no longer count.
	ExpiredAt *int64 `json:"expired_at"`
}

var errNoKey = errors.New("the answer is no JSON Web Key that can be used")

// parseSet reads a key set. Keys of kinds that are not known are passed over, as RFC 7517, section
// 5 asks for, and so are those that are not for signatures.
func parseSet(text []byte) (map[string]*provider.PublicKey, error) {
	var set struct{ Keys []json.RawMessage }
	if json.Unmarshal(text, &set) != nil || len(set.Keys) == 0 {
		return nil, errors.New("the answer is no JSON Web Key Set with keys")
	}
	if len(set.Keys) > keysMax {
		return nil, fmt.Errorf("the set has more than %d keys", keysMax)
	}
	keys := map[string]*provider.PublicKey{}
	for _, raw := range set.Keys {
		var one webKey
		if json.Unmarshal(raw, &one) != nil || one.Kid == "" || keys[one.Kid] != nil {
			continue
		}
		if key, err := one.public(); err == nil {
			keys[one.Kid] = key
		}
	}
	if len(keys) == 0 {
		return nil, errNoKey
	}
	return keys, nil
}

// parseSingle reads one key, and holds it against the id that was asked for.
func parseSingle(text []byte, name provider.KeyName) (map[string]*provider.PublicKey, error) {
	for _, segment := range strings.Split(name.From.At.Name, "/")[1:] {
		var object map[string]json.RawMessage
		if json.Unmarshal(text, &object) != nil {
			return nil, errNoKey
		}
		segment = strings.ReplaceAll(strings.ReplaceAll(segment, "~1", "/"), "~0", "~")
		text = object[segment]
	}
	var one webKey
	if json.Unmarshal(text, &one) != nil || one.Kid != "" && one.Kid != name.ID {
		return nil, errNoKey
	}
	key, err := one.public()
	if err != nil {
		return nil, err
	}
	return map[string]*provider.PublicKey{"": key}, nil
}

func (w *webKey) public() (*provider.PublicKey, error) {
	if w.Use != "" && w.Use != "sig" {
		return nil, errNoKey
	}
	material, err := w.material()
	if err != nil {
		return nil, errNoKey
	}
	key := &provider.PublicKey{Key: material}
	if w.ExpiredAt != nil {
		key.NotAfter = time.Unix(*w.ExpiredAt, 0)
	}
	return key, nil
}

func (w *webKey) material() (crypto.PublicKey, error) {
	switch w.Kty + " " + w.Crv {
	case "RSA ":
		n, err := number(w.N)
		if err != nil {
			return nil, err
		}
		e, err := number(w.E)
		if err != nil || len(e) == 0 || len(e) > 4 {
			return nil, errNoKey
		}
		exponent := int(new(big.Int).SetBytes(e).Int64())
		if exponent < 3 || exponent%2 == 0 {
			return nil, errNoKey
		}
		return &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: exponent}, nil
	case "EC P-256":
		return w.point(elliptic.P256(), 32)
	case "EC P-384":
		return w.point(elliptic.P384(), 48)
	case "OKP Ed25519":
		x, err := number(w.X)
		if err != nil || len(x) != ed25519.PublicKeySize {
			return nil, errNoKey
		}
		return ed25519.PublicKey(x), nil
	}
	return nil, errNoKey
}

// point reads a point, which has to be on the curve.
func (w *webKey) point(curve elliptic.Curve, size int) (crypto.PublicKey, error) {
	x, err := number(w.X)
	if err != nil {
		return nil, err
	}
	y, err := number(w.Y)
	if err != nil || len(x) != size || len(y) != size {
		return nil, errNoKey
	}
	return ecdsa.ParseUncompressedPublicKey(curve, append(append([]byte{4}, x...), y...))
}

func number(text string) ([]byte, error) { return base64.RawURLEncoding.DecodeString(text) }
