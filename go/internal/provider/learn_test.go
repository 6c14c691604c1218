package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// learner hands its secret over in a header, which has to be repeated.
func learner() *Scheme {
	s := bodyHMAC()
	hook := Source{SourceHeader, "X-Hook-Secret"}
	s.Handshakes = []Handshake{{
		Name: "hook", Match: []Match{{From: hook}, {From: Source{SourceHeader, "X-Sig"}, Absent: true}},
		Status: 200, Store: &Store{Role: "hook", From: hook},
		Headers: []AnswerField{
			{Name: "X-Hook-Secret", Value: AnswerPart{Kind: Echo, From: hook}},
			{Name: "X-Fixed", Value: AnswerPart{Kind: AnswerLiteral, Literal: "yes"}},
		},
	}}
	return s
}

func TestASecretIsLearnedOnlyWhereThatIsWanted(t *testing.T) {
	if roles := learner().Learns(); len(roles) != 1 || roles[0] != "hook" {
		t.Fatalf("%q", roles)
	}
	ask := request("{}", "X-Hook-Secret", "hush")
	v := compile(t, learner(), Options{Learn: true})
	got := v.Verify(ask)
	r := got.Response
	if got.Outcome != OK || r == nil || r.Status != 200 || len(r.Learned) != 1 ||
		r.Learned[0].Role != "hook" || string(r.Learned[0].Value) != "hush" ||
		len(r.Headers) != 2 || string(r.Headers[0].Value) != "hush" ||
		string(r.Headers[1].Value) != "yes" {
		t.Fatalf("%s %+v", got.Outcome, r)
	}
	if got := v.Verify(request("{}")); got.Outcome == OK {
		t.Error("without any secret a request passes")
	}
	// Whoever could hand a secret over at any time would own the source.
	if got := compile(t, learner(), Options{}, "k").Verify(ask); got.Outcome != MissingHeader ||
		got.Response != nil {
		t.Errorf("%s %v", got.Outcome, got.Response)
	}
	if _, err := Compile(learner(), nil, Options{}); !errors.Is(err, ErrNoSecret) {
		t.Errorf("nothing is learned and nothing configured: %v", err)
	}
	if _, err := Compile(bodyHMAC(), nil, Options{Learn: true}); !errors.Is(err, ErrNoSecret) {
		t.Errorf("nothing can be learned: %v", err)
	}
	learned := []Secret{{Value: "hush", Role: "hook"}}
	known, err := Compile(learner(), learned, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := known.Verify(request("{}", "X-Sig", signBody("hush", "{}"))); got.Outcome != OK {
		t.Errorf("what was learned proves nothing: %s", got.Outcome)
	}
	long := request("{}", "X-Hook-Secret", strings.Repeat("s", learnedMax+1))
	if got := v.Verify(long); got.Response != nil {
		t.Error("a secret without a bound is learned")
	}
	two := request("{}", "X-Hook-Secret", "a", "X-Hook-Secret", "b")
	if got := v.Verify(two); got.Response != nil {
		t.Error("one of two secrets is learned")
	}
}

func TestALearnedSecretNeverPrints(t *testing.T) {
	learned := Learned{Role: "r", Value: []byte("hush")}
	encoded, err := json.Marshal(learned)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "learned", learned)
	shown := string(encoded) + log.String()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, value := range []any{learned, &learned, []Learned{learned}} {
			shown += fmt.Sprintf(verb, value)
		}
	}
	for _, hidden := range []string{"hush", "68757368", "104 117", "aHVzaA"} {
		if strings.Contains(shown, hidden) {
			t.Error(shown)
		}
	}
}

func TestAnEchoedFieldCannotEndItsLine(t *testing.T) {
	s := learner()
	s.Handshakes[0].Headers[0].Value.From = Source{SourceJSON, "/v"}
	s.Handshakes[0].Match = s.Handshakes[0].Match[1:]
	v := compile(t, s, Options{Learn: true})
	for body, answered := range map[string]bool{
		`{"v":"plain é"}`: true, `{"v":"a\r\nSet-Cookie: x"}`: false, `{"v":"a\nb"}`: false,
		`{"v":"\u0000"}`: false, `{"v":"\u007f"}`: false, `{}`: false,
	} {
		got := v.Verify(request(body, "X-Hook-Secret", "s"))
		if (got.Response != nil) != answered {
			t.Errorf("%s: %+v", body, got.Response)
		}
	}
}

func TestAHandshakeByMethodAlone(t *testing.T) {
	s := bodyHMAC()
	s.Handshakes = []Handshake{{Name: "created", Method: "HEAD", Status: 200}}
	r := request("")
	r.Method = []byte("HEAD")
	if got := compile(t, s, Options{}, "k").Verify(r); got.Response == nil {
		t.Errorf("%s", got.Outcome)
	}
	for _, method := range []string{"", "POST"} {
		s.Handshakes[0].Method = method
		if err := s.Check(); err == nil {
			t.Errorf("every %q is a handshake", method)
		}
	}
}

func TestASecretCountsInItsTimeOnly(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	secrets := []Secret{
		{Value: "old", NotAfter: at(100)}, {Value: "new", NotBefore: at(100), NotAfter: at(200)},
		{Value: "any"},
	}
	v, err := Compile(bodyHMAC(), secrets, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		key    string
		ns     int64
		want   Outcome
		secret int
	}{
		{"old", 0, OK, 0}, {"old", 100e9 - 1, OK, 0}, {"old", 100e9, BadSignature, -1},
		{"new", 100e9 - 1, BadSignature, -1}, {"new", 100e9, OK, 1}, {"new", 200e9, BadSignature, -1},
		{"any", 0, OK, 2}, {"any", 1e18, OK, 2}, {"other", 150e9, BadSignature, -1},
	} {
		r := request("b", "X-Sig", signBody(test.key, "b"))
		r.ReceivedNS = test.ns
		got := v.Verify(r)
		if got.Outcome != test.want || got.Secret != test.secret {
			t.Errorf("%s at %d: %s with %d", test.key, test.ns, got.Outcome, got.Secret)
		}
		// The log tells a secret that is out of its time from a wrong one; the sender is not told.
		if late := strings.Contains(got.Detail, "expired"); late != (test.want != OK &&
			test.key != "other") {
			t.Errorf("%s at %d: %s", test.key, test.ns, got.Detail)
		}
	}
	for _, bad := range []Secret{
		{Value: "v", NotBefore: at(2), NotAfter: at(2)}, {Value: "v", NotBefore: at(3), NotAfter: at(2)},
		{Value: "v", NotAfter: time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		var fault *SecretError
		if _, err := Compile(bodyHMAC(), []Secret{{Value: "x"}, bad}, Options{}); !errors.As(err,
			&fault) || fault.Index != 1 {
			t.Errorf("%v", err)
		}
	}
	parsed, err := ParseSecret(
		`{"value":"v","not_before":"2026-01-02T03:04:05Z","not_after":"2027-01-02T03:04:05+01:00"}`)
	if err != nil || parsed.NotBefore.Unix() != 1767323045 || parsed.NotAfter.Unix() != 1798855445 {
		t.Errorf("%v %v %v", parsed.NotBefore, parsed.NotAfter, err)
	}
	if _, err := ParseSecret(`{"value":"hush","not_after":"soon"}`); err == nil ||
		strings.Contains(err.Error(), "hush") {
		t.Error(err)
	}
}

func TestARoleSecretCountsInItsTimeOnly(t *testing.T) {
	s := bodyHMAC()
	s.Handshakes = []Handshake{{
		Name: "v", Method: "GET", Status: 200,
		Match: []Match{{From: Source{SourceQuery, "token"}, Secret: "verify"}},
	}}
	v, err := Compile(s, []Secret{
		{Value: "k"}, {Value: "tok", Role: "verify", NotAfter: time.Unix(10, 0)},
	}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := request("")
	r.Method, r.Target = []byte("GET"), []byte("/in?token=tok")
	if got := v.Verify(r); got.Response == nil {
		t.Errorf("in its time: %s", got.Outcome)
	}
	r.ReceivedNS = 10e9
	if got := v.Verify(r); got.Response != nil {
		t.Error("after its time it is answered")
	}
}
