// Package vectors reads the signed requests under catalogue/testdata, for the tests of every
// package that judges requests.
//
// It judges nothing and no program uses it. The form of the files is described in
// testdata/vectors/generate.py.
package vectors

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sluice/go/internal/provider"
)

// Set is the vectors of one sender.
type Set struct {
	Provider, About string
	// Recipe is how the sender signs; nil in the sets that do not say.
	Recipe  *Recipe
	Vectors []Vector
}

// Vector is one request and the right judgement of it.
type Vector struct {
	ID string
	// Kind is what is right or wrong with it: good, tampered, wrong-key, stale, rotated,
	// duplicate-header, odd-encoding, missing or handshake. Empty in the sets that do not say.
	Kind        string
	Method, URL string
	Secrets     []Secret
	// Headers are names and values in wire order; blanks around a value still have to go.
	Headers [][2]string
	Body    Body
	// Tolerance is in seconds; nil: no time is judged.
	Tolerance *int64 `json:"tolerance_s"`
	// Now is the receiver's clock in seconds since 1970.
	Now int64
	// Expect is the right outcome, Also are others that are as right.
	Expect string
	Also   []string
	// Require is for message signatures: the components that must be covered.
	Require []string
	// Key is the index of the secret that has to match, -1: none; nil: not said.
	Key *int
	// Event is what has to be found in an event; empty: not said.
	Event struct{ ID, Type string }
	// Handshake is the name of the rule that Answer and Learned belong to.
	Handshake string
	Answer    *Answer
	Learned   []struct{ Role, Value string }
}

// Secret is a configured secret in its parts.
type Secret struct {
	Type     string `json:"type,omitempty"`
	Value    string `json:"value,omitempty"`
	KeyID    string `json:"key_id,omitempty"`
	User     string `json:"user,omitempty"`
	Password string `json:"password,omitempty"`
	URL      string `json:"url,omitempty"`
	Role     string `json:"role,omitempty"`
	// Private is the other half of an asymmetric key; only recipes have it.
	Private string `json:"private,omitempty"`
}

// Answer is what a handshake has to be answered with, byte for byte.
type Answer struct {
	Status      int
	ContentType string `json:"content_type"`
	Headers     [][2]string
	Body        string
}

// Body is text, or bytes in base64, or some of them many times.
type Body struct {
	UTF8, Base64 string
	Repeat       string `json:"repeat_base64"`
	Times        int
}

// Read reads the sets of a folder in the order of their names.
func Read(folder string) ([]Set, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s has no vectors", folder)
	}
	sets := make([]Set, len(paths))
	for i, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, &sets[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if want := strings.TrimSuffix(filepath.Base(path), ".json"); sets[i].Provider != want {
			return nil, fmt.Errorf("%s is of the provider %q", path, sets[i].Provider)
		}
	}
	return sets, nil
}

// Bytes is the body as it was sent.
func (b *Body) Bytes() ([]byte, error) {
	text, times := b.Base64, 1
	if b.Repeat != "" {
		text, times = b.Repeat, b.Times
	}
	if text == "" {
		return []byte(b.UTF8), nil
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	return bytes.Repeat(raw, times), nil
}

// Request is the vector as the judge gets it.
func (v *Vector) Request() (*provider.Request, error) {
	target := v.URL
	if _, rest, found := strings.Cut(v.URL, "://"); found {
		target = rest[strings.IndexByte(rest, '/'):]
	}
	body, err := v.Body.Bytes()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", v.ID, err)
	}
	r := &provider.Request{
		Method: []byte(v.Method), URL: []byte(v.URL), Target: []byte(target),
		Body: body, ReceivedNS: v.Now * int64(time.Second),
	}
	for _, h := range v.Headers {
		r.Headers = append(r.Headers, provider.Field{Name: []byte(h[0]), Value: []byte(h[1])})
	}
	return r, nil
}

// Provider is the secret as the judge gets it.
func (s *Secret) Provider() provider.Secret {
	return provider.Secret{
		Value: s.Value, User: s.User, Password: s.Password, Role: s.Role, KeyID: s.KeyID,
		Type: s.Type, URL: s.URL,
	}
}

// Configured are the secrets of the vector in order.
func (v *Vector) Configured() []provider.Secret {
	var list []provider.Secret
	for i := range v.Secrets {
		list = append(list, v.Secrets[i].Provider())
	}
	return list
}

// Options are those under which the vector is judged.
func (v *Vector) Options() provider.Options {
	tolerance := time.Duration(-1)
	if v.Tolerance != nil {
		tolerance = time.Duration(*v.Tolerance) * time.Second
	}
	return provider.Options{
		Tolerance: &tolerance, Components: v.Require, AllowLegacy: true, KeepUnusable: true,
		Learn: len(v.Learned) > 0,
	}
}
