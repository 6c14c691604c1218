package catalogue_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"sluice/go/internal/provider"
)

var clock = time.Unix(1767237945, 0)

// signedRequest is body as the sender of the profile would send it.
func signedRequest(
	t testing.TB, name string, secret provider.Secret, body string,
) *provider.Request {
	t.Helper()
	fields, err := provider.Sign(lookup(t, name), secret,
		&provider.SignRequest{Method: "POST", Target: "/in", Body: []byte(body), Now: clock})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return &provider.Request{
		Method: []byte("POST"), Target: []byte("/in"), Body: []byte(body), Headers: fields,
		ReceivedNS: clock.UnixNano(),
	}
}

func TestSignedHandshakesAreAnsweredAfterTheProof(t *testing.T) {
	for _, test := range []struct {
		name, body string
		status     int
		kind, want string
	}{
		{"slack", `{"token":"x","challenge":"3eZbrw1aBm2rZgRNFdxV","type":"url_verification"}`,
			200, "text/plain", "3eZbrw1aBm2rZgRNFdxV"},
		{"slack", `{"challenge":"<b>\u00e9\"","type":"url_verification"}`, 200, "text/plain", `<b>é"`},
		{"zoom", `{"payload":{"plainToken":"qgg8vlvZRS6UYooatFL8Aw"},"event":"endpoint.url_validation"}`,
			200, "application/json", `{"plainToken":"qgg8vlvZRS6UYooatFL8Aw","encryptedToken":` +
				`"5adf68212243204de1343e482421753b54f810ecffa3378d307b1d581d25e46f"}`},
		{"discord", `{"version":1,"type":0}`, 204, "", ""},
		{"discord", `{"id":"1","type":1,"version":1}`, 200, "application/json", `{"type":1}`},
	} {
		pair := keysFor(test.name)[0]
		r := signedRequest(t, test.name, pair.sign, test.body)
		v := compileKey(t, test.name, pair.verify)
		got := v.Verify(r)
		if got.Outcome != provider.OK || got.Response == nil {
			t.Errorf("%s: %s (%s), response %v", test.name, got.Outcome, got.Detail, got.Response)
			continue
		}
		if got.Response.Status != test.status || got.Response.ContentType != test.kind ||
			string(got.Response.Body) != test.want {
			t.Errorf("%s: %d %s %s", test.name, got.Response.Status, got.Response.ContentType,
				got.Response.Body)
		}
		if again := v.Verify(r); again.Outcome != provider.OK {
			t.Errorf("%s: the answer spoilt the key: %s", test.name, again.Outcome)
		}
		r.Body = append([]byte(" "), r.Body...)
		if got := v.Verify(r); got.Outcome != provider.BadSignature || got.Response != nil {
			t.Errorf("%s: unproven: %s, response %v", test.name, got.Outcome, got.Response)
		}
	}
}

func TestEventsAreNotTakenForHandshakes(t *testing.T) {
	for _, test := range []struct{ name, body string }{
		{"slack", `{"type":"event_callback","challenge":"x"}`},
		{"slack", `{"type":"url_verification"}`},
		{"slack", `{"challenge":"` + strings.Repeat("x", 2000) + `","type":"url_verification"}`},
		{"slack", `{"challenge":"x","pad":"` + strings.Repeat("x", 17<<10) +
			`","type":"url_verification"}`},
		{"slack", "command=%2Fweather&text=x"},
		{"discord", `{"type":1,"event":{"type":"APPLICATION_AUTHORIZED"}}`},
		{"discord", `{"type":2,"data":{"type":1}}`},
		{"github", `{"zen":"Design for failure.","hook_id":1}`},
	} {
		pair := keysFor(test.name)[0]
		r := signedRequest(t, test.name, pair.sign, test.body)
		v := compileKey(t, test.name, pair.verify)
		if got := v.Verify(r); got.Outcome != provider.OK || got.Response != nil {
			t.Errorf("%s: %s, response %v", test.body[:20], got.Outcome, got.Response)
		}
	}
}

func TestUnsignedHandshakesHaveTheirOwnCheck(t *testing.T) {
	meta := compile(t, "meta", "app-secret", `{"role":"verify_token","value":"meta-verify"}`)
	dropbox := compile(t, "dropbox", "app-secret")
	for _, test := range []struct {
		verifier             *provider.Verifier
		method, target, want string
	}{
		{meta, "GET", "/in?hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=meta-verify",
			"1158201444"},
		{meta, "GET", "/in?hub.mode=subscribe&hub.challenge=1&hub.verify_token=wrong", ""},
		{meta, "GET", "/in?hub.mode=subscribe&hub.challenge=1&hub.verify_token=", ""},
		{meta, "GET", "/in?hub.mode=subscribe&hub.verify_token=meta-verify", ""},
		{meta, "GET", "/in?hub.mode=subscribe&hub.challenge=1&hub.challenge=2" +
			"&hub.verify_token=meta-verify", ""},
		{meta, "POST", "/in?hub.mode=subscribe&hub.challenge=1&hub.verify_token=meta-verify", ""},
		{meta, "GET", "/in", ""},
		{dropbox, "GET", "/in?challenge=a%26b", "a&b"},
		{dropbox, "GET", "/in?challenge=%zz", ""},
		{dropbox, "GET", "/in?challenge=" + strings.Repeat("x", 2000), ""},
		{dropbox, "POST", "/in?challenge=x", ""},
	} {
		got := test.verifier.Verify(&provider.Request{
			Method: []byte(test.method), Target: []byte(test.target),
		})
		if test.want == "" {
			if got.Outcome != provider.MissingHeader || got.Response != nil {
				t.Errorf("%.60s: %s %v", test.target, got.Outcome, got.Response)
			}
			continue
		}
		if got.Outcome != provider.OK || got.Response == nil || string(got.Response.Body) != test.want ||
			got.Response.ContentType != "text/plain" || len(got.Response.Headers) != 1 {
			t.Errorf("%.60s: %s %v", test.target, got.Outcome, got.Response)
		}
	}
	// The verify token proves nothing but the handshake.
	r := signedRequest(t, "meta", provider.Secret{Value: "meta-verify"}, "{}")
	if got := meta.Verify(r); got.Outcome != provider.BadSignature {
		t.Errorf("signed with the verify token: %s", got.Outcome)
	}
}

func TestBytesAreJudgedNotText(t *testing.T) {
	body := `{"action":"created","sponsorship":{"tier":{"name":"☕ $5 a month"}}}`
	v := compile(t, "github", "s1")
	for _, kind := range []string{
		"application/json; charset=utf-8", "application/json", "text/plain", "",
	} {
		r := &provider.Request{Body: []byte(body), Headers: []provider.Field{{
			Name:  []byte("X-Hub-Signature-256"),
			Value: []byte("sha256=c94ef40c630ca7d6ff41a73cd0816bda3f27a030f7f01b5c659580b7ea6c7a79"),
		}}}
		if kind != "" {
			r.Headers = append(r.Headers, provider.Field{Name: []byte("Content-Type"), Value: []byte(kind)})
		}
		if got := v.Verify(r); got.Outcome != provider.OK || string(r.Body) != body {
			t.Errorf("%q: %s", kind, got.Outcome)
		}
	}
}

func TestARotatedSecretIsNamedByItsIndex(t *testing.T) {
	v := compile(t, "github", "old", "new")
	got := v.Verify(&provider.Request{
		Body: []byte(`{"id":"evt_1","type":"ping"}`),
		Headers: []provider.Field{{
			Name:  []byte("X-Hub-Signature-256"),
			Value: []byte("sha256=2be95162c32f817f32f94a06960d82abb72d4de0467d0846129f658f1231565f"),
		}},
	})
	if got.Outcome != provider.OK || got.Secret != 1 {
		t.Errorf("%s with secret %d", got.Outcome, got.Secret)
	}
}

func TestARefusalSaysNothingOfTheExpectedDigest(t *testing.T) {
	for _, name := range []string{"github", "slack", "shopify", "stripe", "telegram"} {
		pair := keysFor(name)[0]
		good := signedRequest(t, name, pair.sign, "{}")
		bad := signedRequest(t, name, provider.Secret{Value: "another"}, "{}")
		v := compile(t, name, pair.verify.Value)
		got := v.Verify(bad)
		if got.Outcome != provider.BadSignature || got.Response != nil {
			t.Fatalf("%s: %s", name, got.Outcome)
		}
		for i := range good.Headers {
			value := good.Headers[i].Value
			for at := 0; at+8 <= len(value); at++ {
				if bytes.Contains([]byte(got.Detail), value[at:at+8]) {
					t.Errorf("%s: %q gives %q away", name, got.Detail, value[at:at+8])
				}
			}
		}
	}
}
