package provider

import (
	"crypto/ed25519"
	"encoding/hex"
	"strings"
	"testing"
	"time"
)

// TestEveryReasonToRefuseCostsTheSame holds that what a stranger can learn by the clock is nothing:
// a key id that nobody has, a secret that has expired, a signature that is wrong and a time that is
// stale all cost one proof of the same kind.
func TestEveryReasonToRefuseCostsTheSame(t *testing.T) {
	private := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	public, _ := private.Public().(ed25519.PublicKey)
	edwards := func(text string) string {
		return hex.EncodeToString(ed25519.Sign(private, []byte(text)))
	}
	keyed := func(text string) string { return strings.TrimPrefix(signBody("k", text), "sha256=") }
	for _, test := range []struct {
		proof  Proof
		secret string
		sign   func(string) string
	}{
		{Proof{Algorithm: HMACSHA256, Encoding: Hex}, "k", keyed},
		{Proof{Algorithm: Ed25519, Encoding: Hex, Key: KeyForm{Encoding: KeyHex}},
			hex.EncodeToString(public), edwards},
	} {
		s := &Scheme{AnyOf: []Variant{{
			Signature: Source{SourceHeader, "X-Sig"}, Proofs: []Proof{test.proof},
			KeyID:   Source{SourceHeader, "X-Key"},
			Content: []Part{{Kind: PartTimestamp}, {Kind: PartBody}},
			Timestamp: Timestamp{
				From: Source{SourceHeader, "X-Time"}, Format: UnixSeconds, Tolerance: time.Minute,
			},
		}}}
		v, err := Compile(s, []Secret{
			{Value: test.secret, KeyID: "now"},
			{Value: test.secret, KeyID: "past", NotAfter: time.Unix(1, 0)},
		}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		good, wrong := test.sign("1000body"), test.sign("1000other")
		for reason, r := range map[string]*Request{
			"good":        request("body", "X-Sig", good, "X-Key", "now", "X-Time", "1000"),
			"wrong":       request("body", "X-Sig", wrong, "X-Key", "now", "X-Time", "1000"),
			"unknown key": request("body", "X-Sig", good, "X-Key", "none", "X-Time", "1000"),
			"old secret":  request("body", "X-Sig", good, "X-Key", "past", "X-Time", "1000"),
			"stale": request("body", "X-Sig", test.sign("900body"), "X-Key", "now", "X-Time",
				"900"),
		} {
			r.ReceivedNS = 1000e9
			before := v.checks
			got := v.Verify(r)
			if cost := v.checks - before; cost != 1 || (got.Outcome == OK) != (reason == "good") {
				t.Errorf("%s, %s: %s at the cost of %d", test.proof.Algorithm, reason, got.Outcome, cost)
			}
		}
	}
	message := &Scheme{AnyOf: []Variant{{Proofs: []Proof{{Algorithm: MessageSignature}}}}}
	v, err := Compile(message, []Secret{{Value: hex.EncodeToString(public), KeyID: "k"}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"k", "none"} {
		before := v.checks
		got := v.Verify(request("", "Signature-Input", `s=("@method");keyid="`+id+`"`,
			"Signature", "s=:"+strings.Repeat("A", 86)+"==:"))
		if cost := v.checks - before; cost != 1 || got.Outcome != BadSignature {
			t.Errorf("keyid %s: %s at the cost of %d", id, got.Outcome, cost)
		}
	}
}
