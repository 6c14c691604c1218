package catalogue_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/go/internal/provider"
	"sluice/go/internal/provider/catalogue"
)

// vector is one signed request with its right outcome.
type vector struct {
	ID, Scheme, Method, URL string
	Secrets                 []struct {
		Type, Value, User, Password, Role string
		KeyID                             string `json:"key_id"`
	}
	Headers [][2]string
	Body    struct {
		UTF8, Base64 string
		Repeat       string `json:"repeat_base64"`
		Times        int
	}
	Tolerance *int64 `json:"tolerance_s"`
	Now       int64
	Expect    string
	Also      []string
	Require   []string
}

func readVectors(t testing.TB, path string) []vector {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Vectors []vector }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return file.Vectors
}

func (v *vector) body(t testing.TB) []byte {
	t.Helper()
	text, times := v.Body.Base64, 1
	if v.Body.Repeat != "" {
		text, times = v.Body.Repeat, v.Body.Times
	}
	if text == "" {
		return []byte(v.Body.UTF8)
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatalf("%s: %v", v.ID, err)
	}
	return bytes.Repeat(raw, times)
}

func (v *vector) request(t testing.TB) *provider.Request {
	t.Helper()
	target := v.URL
	if _, rest, found := strings.Cut(v.URL, "://"); found {
		target = rest[strings.IndexByte(rest, '/'):]
	}
	r := &provider.Request{
		Method: []byte(v.Method), URL: []byte(v.URL), Target: []byte(target),
		Body: v.body(t), ReceivedNS: v.Now * int64(time.Second),
	}
	for _, h := range v.Headers {
		r.Headers = append(r.Headers, provider.Field{Name: []byte(h[0]), Value: []byte(h[1])})
	}
	return r
}

func (v *vector) secrets() []provider.Secret {
	var list []provider.Secret
	for _, s := range v.Secrets {
		list = append(list, provider.Secret{
			Value: s.Value, User: s.User, Password: s.Password, Role: s.Role, KeyID: s.KeyID,
			Type: s.Type,
		})
	}
	return list
}

func (v *vector) options() provider.Options {
	tolerance := time.Duration(-1)
	if v.Tolerance != nil {
		tolerance = time.Duration(*v.Tolerance) * time.Second
	}
	return provider.Options{
		Tolerance: &tolerance, Components: v.Require, AllowLegacy: true, KeepUnusable: true,
	}
}

func TestEveryVectorHasItsOutcome(t *testing.T) {
	paths, err := filepath.Glob("testdata/signatures/*.json")
	if err != nil || len(paths) < 7 {
		t.Fatalf("%d vector files, %v", len(paths), err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		t.Run(name, func(t *testing.T) {
			scheme, found := catalogue.Lookup(name)
			if !found {
				t.Fatalf("no profile %s", name)
			}
			exact := 0
			vectors := readVectors(t, path)
			for _, v := range vectors {
				verifier, err := provider.Compile(scheme, v.secrets(), v.options())
				if err != nil {
					t.Errorf("%s: %v", v.ID, err)
					continue
				}
				verdict := verifier.Clone().Verify(v.request(t))
				got := verdict.Outcome.String()
				if got == v.Expect {
					exact++
				} else if !slices.Contains(v.Also, got) {
					t.Errorf("%s: %s (%s), want %s or %q", v.ID, got, verdict.Detail, v.Expect, v.Also)
				} else {
					t.Logf("%s: %s, first choice is %s", v.ID, got, v.Expect)
				}
				if (verdict.Outcome == provider.OK) != (verdict.Secret >= 0) {
					t.Errorf("%s: %s with secret %d", v.ID, got, verdict.Secret)
				}
				if verdict.Outcome != provider.OK && (verdict.Detail == "" || verdict.EventID != nil) {
					t.Errorf("%s: refused without a reason, or with an id", v.ID)
				}
				if again := verifier.Verify(v.request(t)); again.Outcome != verdict.Outcome {
					t.Errorf("%s: a second look gives %s", v.ID, again.Outcome)
				}
			}
			t.Logf("%d of %d with the first choice", exact, len(vectors))
		})
	}
}
