package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestSecretsAreReadFromTheirForms(t *testing.T) {
	for text, want := range map[string]Secret{
		"plain":                                    {Value: "plain"},
		" blanks count ":                           {Value: " blanks count "},
		`{"key_id":"k1","value":"v"}`:              {KeyID: "k1", Value: "v"},
		`{"user":"u","password":"p:ss wörd"}`:      {User: "u", Password: "p:ss wörd"},
		`{"url":"https://x.test/c","value":"pem"}`: {URL: "https://x.test/c", Value: "pem"},
		`{"role":"verify_token","value":"v"}`:      {Role: "verify_token", Value: "v"},
		`{"type":"shared","value":"with \"quotes\""}`: {
			Type: "shared", Value: `with "quotes"`,
		},
	} {
		if got, err := ParseSecret(text); err != nil || got != want {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{`{`, `{"value":1}`, `{"secret":"hush"}`, `{"value":"hush"} x`} {
		if _, err := ParseSecret(text); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestASecretNeverPrints(t *testing.T) {
	secret := Secret{Value: "hush", User: "hush", Password: "hush", KeyID: "hush"}
	encoded, err := json.Marshal(map[string]any{"s": secret, "p": &secret})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", secret, "pointer", &secret)
	shown := string(encoded) + log.String()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, value := range []any{secret, &secret, []Secret{secret}} {
			shown += fmt.Sprintf(verb, value)
		}
	}
	if strings.Contains(shown, "hush") || strings.Contains(shown, "68757368") {
		t.Error(shown)
	}
}

func TestUnusableSecretsAreNamed(t *testing.T) {
	edwards := bodyHMAC()
	edwards.AnyOf[0].Proofs[0] = Proof{
		Algorithm: Ed25519, Encoding: Hex, Key: KeyForm{Encoding: KeyHex},
	}
	prefixed := bodyHMAC()
	prefixed.AnyOf[0].Proofs[0].Key = KeyForm{Prefix: "whsec_", Encoding: KeyBase64}
	keyed := bodyHMAC()
	keyed.AnyOf[0].KeyID = Source{SourceHeader, "X-Key"}
	for _, test := range []struct {
		scheme  *Scheme
		secrets []Secret
		index   int
	}{
		{bodyHMAC(), []Secret{{Value: ""}}, 0}, {bodyHMAC(), []Secret{{Value: "a"}, {}}, 1},
		{prefixed, []Secret{{Value: "whsec_"}}, 0}, {prefixed, []Secret{{Value: "whsec_!!!"}}, 0},
		{edwards, []Secret{{Value: "00"}}, 0}, {edwards, []Secret{{Value: strings.Repeat("0", 64)}}, 0},
		{keyed, []Secret{{Value: "a"}}, 0}, {bodyHMAC(), []Secret{{User: "u", Password: "p"}}, 0},
	} {
		_, err := Compile(test.scheme, test.secrets, Options{})
		var fault *SecretError
		if !errors.As(err, &fault) || fault.Index != test.index {
			t.Errorf("%v", err)
		}
		v, err := Compile(test.scheme, test.secrets[test.index:], Options{KeepUnusable: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := v.Verify(request("", "X-Key", "k", "X-Sig", signBody("", ""))); got.Outcome == OK {
			t.Error("an unusable secret passes a request")
		}
	}
	if _, err := Compile(bodyHMAC(), nil, Options{}); !errors.Is(err, ErrNoSecret) {
		t.Errorf("no secret: %v", err)
	}
	v, err := Compile(bodyHMAC(), nil, Options{KeepUnusable: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := v.Verify(request("", "X-Sig", signBody("", ""))).Outcome; got != BadSignature {
		t.Errorf("without a secret: %s", got)
	}
}

func TestSchemesThatProtectLessThanTheySeemAreRefused(t *testing.T) {
	for want, change := range map[string]func(*Variant){
		"body is missing":        func(v *Variant) { v.Content = []Part{{Kind: PartMethod}} },
		"anybody could change":   func(v *Variant) { v.Content = []Part{{Kind: PartBody}} },
		"algorithm: is missing":  func(v *Variant) { v.Proofs[0].Algorithm = 0 },
		"encoding: is missing":   func(v *Variant) { v.Proofs[0].Encoding = 0 },
		"encoding: text":         func(v *Variant) { v.Proofs[0].Encoding = EncodingText },
		"label":                  func(v *Variant) { v.Proofs[0].Label = "" },
		"stands twice":           func(v *Variant) { v.Proofs = append(v.Proofs, v.Proofs[0]) },
		"signature":              func(v *Variant) { v.Signature = Source{} },
		"from: is missing":       func(v *Variant) { v.Timestamp.From = Source{} },
		"format: is missing":     func(v *Variant) { v.Timestamp.Format = 0 },
		"needs items":            func(v *Variant) { v.Items.Assign = 0; v.Proofs[0].Label = "" },
		"stands alone":           func(v *Variant) { v.Proofs[0].Algorithm = None },
		"token signs nothing":    func(v *Variant) { v.Proofs[0].Algorithm = Token },
		"the same":               func(v *Variant) { v.Items.Assign = ',' },
		"header name":            func(v *Variant) { v.Signature.Name = "a b" },
		"only a signature comes": func(v *Variant) { v.Timestamp.From.Kind = SourceNumbered },
	} {
		s := timedHMAC()
		change(&s.AnyOf[0])
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	tolerance := timedHMAC().AnyOf[0].Timestamp.Tolerance
	_, err := Compile(bodyHMAC(), []Secret{{Value: "s"}}, Options{Tolerance: &tolerance})
	if err == nil || !strings.Contains(err.Error(), "signs no time") {
		t.Errorf("a tolerance without a time: %v", err)
	}
}
