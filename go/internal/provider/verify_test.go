package provider

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"time"
)

// bodyHMAC is the simplest useful scheme.
func bodyHMAC() *Scheme {
	return &Scheme{AnyOf: []Variant{{
		Signature: Source{SourceHeader, "X-Sig"},
		Proofs:    []Proof{{Algorithm: HMACSHA256, Encoding: Hex, Prefix: "sha256="}},
		Content:   []Part{{Kind: PartBody}},
	}}}
}

// timedHMAC signs id, time and body, with items in the signature field.
func timedHMAC() *Scheme {
	return &Scheme{AnyOf: []Variant{{
		Signature: Source{SourceHeader, "X-Sig"},
		Items:     Items{Separator: ',', Assign: '='},
		Proofs:    []Proof{{Label: "v1", Algorithm: HMACSHA512, Encoding: Base64URLRaw}},
		Content: []Part{
			{Kind: PartSource, Source: Source{SourceHeader, "X-Id"}},
			{Kind: PartLiteral, Literal: "."}, {Kind: PartTimestamp}, {Kind: PartLiteral, Literal: "."},
			{Kind: PartBody},
		},
		Timestamp: Timestamp{From: Source{SourceItem, "t"}, Format: UnixMillis, Tolerance: time.Minute},
	}}, ID: []Source{{SourceHeader, "X-Id"}}}
}

func compile(t testing.TB, s *Scheme, o Options, secrets ...string) *Verifier {
	t.Helper()
	var list []Secret
	for _, value := range secrets {
		list = append(list, Secret{Value: value})
	}
	v, err := Compile(s, list, o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func signBody(secret, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

func request(body string, pairs ...string) *Request {
	r := &Request{Method: []byte("POST"), Target: []byte("/in"), Body: []byte(body)}
	for i := 0; i < len(pairs); i += 2 {
		r.Headers = append(r.Headers, Field{[]byte(pairs[i]), []byte(pairs[i+1])})
	}
	return r
}

func TestTheMatchingSecretIsNamed(t *testing.T) {
	v := compile(t, bodyHMAC(), Options{}, "old", "new", "newest")
	for i, secret := range []string{"old", "new", "newest"} {
		verdict := v.Verify(request("body", "x-SIG", signBody(secret, "body")))
		if verdict.Outcome != OK || verdict.Secret != i {
			t.Errorf("%s: %s with secret %d", secret, verdict.Outcome, verdict.Secret)
		}
	}
}

func TestAVerdictDoesNotDependOnTheRequestBefore(t *testing.T) {
	v := compile(t, bodyHMAC(), Options{}, "s")
	good := request("one", "X-Sig", signBody("s", "one"))
	for range 3 {
		if got := v.Verify(good).Outcome; got != OK {
			t.Fatal(got)
		}
		// The digest of the request before must not be left over.
		if got := v.Verify(request("two", "X-Sig", signBody("s", "one"))).Outcome; got != BadSignature {
			t.Fatal(got)
		}
		if got := v.Verify(request("one")).Outcome; got != MissingHeader {
			t.Fatal(got)
		}
	}
}

func TestClonesShareNothingThatMoves(t *testing.T) {
	v := compile(t, timedHMAC(), Options{}, "s")
	now := time.Unix(1767237945, 0)
	done := make(chan Outcome)
	for _, body := range []string{"a", "b", "c", "d"} {
		fields, err := Sign(timedHMAC(), Secret{Value: "s"},
			&SignRequest{Body: []byte(body), Now: now, ID: "id-" + body})
		if err != nil {
			t.Fatal(err)
		}
		r := &Request{Headers: fields, Body: []byte(body), ReceivedNS: now.UnixNano()}
		go func(v *Verifier) {
			worst := OK
			for range 200 {
				worst = max(worst, v.Verify(r).Outcome)
			}
			done <- worst
		}(v.Clone())
	}
	for range 4 {
		if got := <-done; got != OK {
			t.Error(got)
		}
	}
}

func TestToleranceIsInclusiveBothWaysInTheSendersUnit(t *testing.T) {
	now := time.Unix(1767237945, 0)
	second, none := time.Second, time.Duration(-1)
	tests := []struct {
		at        time.Duration // of receipt, after the signature
		tolerance *time.Duration
		want      Outcome
	}{
		{0, nil, OK}, {time.Minute, nil, OK}, {-time.Minute, nil, OK},
		{time.Minute + time.Millisecond, nil, Expired}, {-time.Minute - time.Millisecond, nil, Expired},
		// A part of the sender's unit is no age.
		{time.Minute + time.Millisecond - time.Nanosecond, nil, OK},
		{time.Second, &second, OK}, {2 * time.Second, &second, Expired}, {999 * time.Hour, &none, OK},
	}
	for _, test := range tests {
		v := compile(t, timedHMAC(), Options{Tolerance: test.tolerance}, "s")
		fields, err := Sign(timedHMAC(), Secret{Value: "s"}, &SignRequest{Now: now, ID: "1"})
		if err != nil {
			t.Fatal(err)
		}
		r := &Request{Headers: fields, ReceivedNS: now.Add(test.at).UnixNano()}
		if got := v.Verify(r).Outcome; got != test.want {
			t.Errorf("%v late: %s, want %s", test.at, got, test.want)
		}
	}
}

func TestTooManyCandidatesAreMalformed(t *testing.T) {
	s := bodyHMAC()
	s.AnyOf[0].Items = Items{Separator: ','}
	v := compile(t, s, Options{}, "s")
	good, bad := signBody("s", ""), signBody("other", "")
	list := strings.Repeat(bad+",", candidatesMax-1)
	if got := v.Verify(request("", "X-Sig", list+good)).Outcome; got != OK {
		t.Errorf("the last of the allowed: %s", got)
	}
	if got := v.Verify(request("", "X-Sig", list+bad+","+good)).Outcome; got != Malformed {
		t.Errorf("one too many: %s", got)
	}
}

func TestAlternativesTellTheOutcomeThatCameFurthest(t *testing.T) {
	s := bodyHMAC()
	second := bodyHMAC().AnyOf[0]
	second.Signature.Name = "Y-Sig"
	s.AnyOf = append(s.AnyOf, second)
	v := compile(t, s, Options{}, "s")
	good, bad := signBody("s", "b"), signBody("t", "b")
	for _, test := range []struct {
		pairs []string
		want  Outcome
	}{
		{nil, MissingHeader}, {[]string{"Y-Sig", good}, OK}, {[]string{"X-Sig", bad, "Y-Sig", good}, OK},
		{[]string{"Y-Sig", bad}, BadSignature}, {[]string{"X-Sig", "?", "Y-Sig", bad}, BadSignature},
		{[]string{"X-Sig", "?"}, Malformed},
	} {
		if got := v.Verify(request("b", test.pairs...)).Outcome; got != test.want {
			t.Errorf("%q: %s, want %s", test.pairs, got, test.want)
		}
	}
}

func TestIDsComeFromWhereTheOperatorSays(t *testing.T) {
	body := `{"id":42,"esc":"a\u0041","long":"` + strings.Repeat("x", idMax+1) + `"}`
	sum := sha256.Sum256([]byte(body))
	for _, test := range []struct{ from, want string }{
		{"provider", "h1"}, {"none", ""}, {"header:X-Other", "o"}, {"json:/id", "42"},
		{"json:/esc", "aA"}, {"json:/long", ""}, {"json:/missing", ""}, {"header:X-Twice", ""},
		{"header:X-Blank", ""}, {"body-sha256", hex.EncodeToString(sum[:])},
	} {
		from, err := ParseIDFrom(test.from)
		if err != nil || from.String() != test.from {
			t.Fatalf("%s: %v", test.from, err)
		}
		s := bodyHMAC()
		s.ID = []Source{{SourceHeader, "X-None"}, {SourceHeader, "X-Id"}, {SourceJSON, "/id"}}
		v := compile(t, s, Options{IDFrom: from}, "s")
		r := request(body, "X-Sig", signBody("s", body), "X-Id", " h1\t", "X-Other", "o",
			"X-Twice", "1", "X-Twice", "1", "X-Blank", "")
		verdict := v.Verify(r)
		if verdict.Outcome != OK || string(verdict.EventID) != test.want {
			t.Errorf("%s: %s %q, want %q", test.from, verdict.Outcome, verdict.EventID, test.want)
		}
		identifier, err := NewIdentifier(s, from)
		if err != nil {
			t.Fatal(err)
		}
		if id, _ := identifier.Clone().Identify(r); string(id) != test.want {
			t.Errorf("%s: identifier says %q, want %q", test.from, id, test.want)
		}
		r.Body = append(r.Body, ' ')
		if verdict := v.Verify(r); verdict.EventID != nil || verdict.EventType != nil {
			t.Errorf("%s: an unproven request has an id", test.from)
		}
	}
	for _, text := range []string{
		"", "header", "header:", "header:a b", "json:", "json:id", "query:x",
	} {
		if _, err := ParseIDFrom(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestVerifyingAllocatesNothing(t *testing.T) {
	body := `{"id":"evt_1","data":{"x":[1,2,3]},"pad":"` + strings.Repeat("p", 900) + `"}`
	now := time.Unix(1767237945, 0)
	token := bodyHMAC()
	token.AnyOf[0].Proofs[0] = Proof{Algorithm: Token, Encoding: EncodingText}
	token.AnyOf[0].Content = nil
	byBody, byHash := bodyHMAC(), IDFrom{kind: idBody}
	byBody.ID = []Source{{SourceJSON, "/id"}}
	for name, test := range map[string]struct {
		scheme *Scheme
		o      Options
	}{
		"body": {bodyHMAC(), Options{}}, "items and time": {timedHMAC(), Options{}},
		"token": {token, Options{}}, "json id": {byBody, Options{}},
		"body hash": {byBody, Options{IDFrom: byHash}},
	} {
		fields, err := Sign(test.scheme, Secret{Value: "new"},
			&SignRequest{Body: []byte(body), Now: now, ID: "1"})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r := &Request{Headers: fields, Body: []byte(body), ReceivedNS: now.UnixNano()}
		v := compile(t, test.scheme, test.o, "old", "new")
		if got := v.Verify(r); got.Outcome != OK {
			t.Fatalf("%s: %s (%s)", name, got.Outcome, got.Detail)
		}
		if n := testing.AllocsPerRun(200, func() { v.Verify(r) }); n != 0 {
			t.Errorf("%s: %v allocations for a good request", name, n)
		}
		r.Body = bytes.Repeat([]byte("x"), 1024)
		r.Headers[len(r.Headers)-1].Value = []byte("no form at all")
		if n := testing.AllocsPerRun(200, func() { v.Verify(r) }); n != 0 && name != "body hash" {
			t.Errorf("%s: %v allocations for a refused request", name, n)
		}
	}
}

func TestSmallOrderKeysAreRefused(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("00", 32), "01" + strings.Repeat("00", 31),
		"ec" + strings.Repeat("ff", 30) + "7f",
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
	} {
		raw, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		if !smallOrder(raw) {
			t.Errorf("%s is taken", text)
		}
	}
	base, err := hex.DecodeString("58" + strings.Repeat("66", 31))
	if err != nil {
		t.Fatal(err)
	}
	if smallOrder(base) {
		t.Error("the base point is refused")
	}
}

func TestHeaderLinesAreRead(t *testing.T) {
	fields, err := ParseHeaders([]byte("A: 1\r\n\r\nb-C:two: parts \nEmpty:\n"))
	if err != nil || len(fields) != 3 {
		t.Fatalf("%d fields, %v", len(fields), err)
	}
	if string(fields[1].Name) != "b-C" || string(fields[1].Value) != "two: parts " {
		t.Errorf("%s: %q", fields[1].Name, fields[1].Value)
	}
	for _, text := range []string{"no colon", ": no name", "A: 1\n folded: x", "sp ace: x"} {
		if _, err := ParseHeaders([]byte(text)); err == nil || !strings.Contains(err.Error(), "line ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
