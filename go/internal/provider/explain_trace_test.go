package provider_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/go/internal/provider"
)

// names are those of the findings; a trace has a question mark.
func names(e *provider.Explanation) string {
	var list []string
	for _, f := range e.Findings {
		name := f.Name
		if !f.Proven {
			name += "?"
		}
		list = append(list, name)
	}
	return strings.Join(list, " ")
}

func TestATimeThatDoesNotFitIsToldApart(t *testing.T) {
	for _, test := range []struct {
		want string
		by   time.Duration
	}{
		{"time-old", 11 * time.Minute},
		{"time-old", 100 * 24 * time.Hour},
		{"time-ahead", -10 * time.Minute},
		{"time-zone", 2 * time.Hour},
		{"time-zone", -5*time.Hour - 30*time.Minute},
	} {
		p := loadPayload(t, "slack-message-event")
		p.Now += int64(test.by / time.Second)
		e := p.explain(t)
		if e.Verdict.Outcome != provider.Expired || names(e) != test.want ||
			e.Ways[e.Best].Time.Skew != test.by {
			t.Errorf("%v: %s, %s, %+v", test.by, e.Verdict.Outcome, names(e), e.Ways[e.Best].Time)
		}
	}
	p := loadPayload(t, "slack-message-event")
	*p.header("X-Slack-Request-Timestamp") += "123"
	text := append([]byte("v0:"+*p.header("X-Slack-Request-Timestamp")+":"), p.body...)
	*p.header("X-Slack-Signature") = "v0=" + hex.EncodeToString(sum(sha256.New, *p.secret(), text))
	if e := p.explain(t); names(e) != "time-unit" {
		t.Errorf("milliseconds: %s, %s", e.Verdict.Outcome, names(e))
	}
}

func TestMistakesInWhatNamesAKeyAMethodOrATime(t *testing.T) {
	p := loadPayload(t, "square-payment")
	p.as(t, "hubspot")
	*p.header("X-HubSpot-Request-Timestamp") = fmt.Sprint(p.Now * 1000)
	sign := func(method string) {
		text := method + p.URL + string(p.body) + *p.header("X-HubSpot-Request-Timestamp")
		*p.header("X-HubSpot-Signature-v3") = base64.StdEncoding.EncodeToString(
			sum(sha256.New, *p.secret(), []byte(text)))
	}
	if sign("POST"); p.explain(t).Verdict.Outcome != provider.OK {
		t.Fatal("HubSpot's own form does not hold")
	}
	sign("PUT")
	if e := p.explain(t); names(e) != "wrong-method" {
		t.Errorf("method: %s", names(e))
	}

	p = loadPayload(t, "square-payment")
	p.as(t, "pusher")
	*p.header("X-Pusher-Key") = "key-1"
	*p.header("X-Pusher-Signature") = hex.EncodeToString(sum(sha256.New, *p.secret(), p.body))
	p.secrets[0].KeyID = "key-2"
	if e := p.explain(t); names(e) != "key-id" {
		t.Errorf("key id: %s", names(e))
	}

	p = loadPayload(t, "square-payment")
	p.as(t, "zendesk") // which writes its time as RFC 3339
	*p.header("X-Zendesk-Webhook-Signature-Timestamp") = fmt.Sprint(p.Now)
	*p.header("X-Zendesk-Webhook-Signature") = base64.StdEncoding.EncodeToString(
		sum(sha256.New, *p.secret(), append([]byte(fmt.Sprint(p.Now)), p.body...)))
	if e := p.explain(t); names(e) != "time-form" {
		t.Errorf("time: %s", names(e))
	}
}

func TestWhatCannotBeUndoneIsToldAsATrace(t *testing.T) {
	for _, test := range []struct {
		want string
		make func(p *payload)
	}{
		{"body-length?", func(p *payload) { p.body = reserialised(t, p.body)[:len(p.body)-40] }},
		{"body-empty?", func(p *payload) { p.body = nil }},
		{"body-length? body-unpacked?", func(p *payload) {
			*p.header("Content-Encoding") = "gzip"
			*p.header("Content-Length") = "77"
			p.body = append(p.body, 'x')
		}},
		{"body-length? body-replaced?", func(p *payload) {
			p.body = bytes.Replace(p.body, []byte("a"), []byte("\uFFFD"), 1)
		}},
		{"header-lost?", func(p *payload) { p.rename("X-Hub-Signature-256", "X-Other") }},
		{"no-secret?", func(p *payload) { p.secrets = nil }},
	} {
		p := loadPayload(t, githubText)
		p.rename("X-Hub-Signature", "X-Unused") // which holds for other providers
		test.make(p)
		if e := p.explain(t); names(e) != test.want {
			t.Errorf("%q, want %q", names(e), test.want)
		}
	}
	p := loadPayload(t, "square-payment")
	p.URL = ""
	if e := p.explain(t); names(e) != "url-unknown?" {
		t.Errorf("without a URL: %s", names(e))
	}
}

// Whoever may ask for an explanation must not learn piece by piece what the right signature is.
func TestTheBeginningOfASignatureIsConfirmedOnlyIfItCouldNotBeGuessed(t *testing.T) {
	for _, digits := range []int{2, 16, 30, 31} {
		p := loadPayload(t, githubText)
		p.rename("X-Hub-Signature", "X-Unused")
		h := p.header("X-Hub-Signature-256")
		*h = (*h)[:len("sha256=")+digits]
		if e := p.explain(t); len(e.Findings) > 0 {
			t.Errorf("%d digits: %s", digits, names(e))
		}
	}
}

func TestNoExplanationHoldsASecretOrASignatureThatDidNotCome(t *testing.T) {
	for _, name := range []string{githubText, "shopify-order-create", "slack-message-event",
		"square-payment", "gitlab-push", "standard-webhooks-contact"} {
		p := loadPayload(t, name)
		e := p.explain(t)
		right := ""
		if signed := e.Ways[e.Best].Signed; signed != nil {
			key := *p.secret()
			if rest, had := strings.CutPrefix(key, "whsec_"); had {
				raw, err := base64.StdEncoding.DecodeString(rest)
				if err != nil {
					t.Fatal(err)
				}
				key = string(raw)
			}
			right = hex.EncodeToString(sum(sha256.New, key, append(signed, '\n')))
		}
		for _, harm := range []func(){
			func() { p.body = append(p.body, '\n') }, // which was not signed
			func() { p.body = append(p.body, 'x') },
			func() { *p.secret() += "\n" },
		} {
			harm()
			e := p.explain(t)
			e.Ways[e.Best].Signed = nil // The body may say what it likes.
			text, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			secret := strings.TrimSpace(*p.secret())
			raw, _ := hex.DecodeString(right)
			for _, hidden := range []string{secret, right, base64.StdEncoding.EncodeToString(raw)} {
				if hidden != "" && bytes.Contains(text, []byte(hidden)) {
					t.Errorf("%s: %s tells %q", name, text, hidden)
				}
			}
		}
	}
}

func TestTheSearchEndsWithALargeBody(t *testing.T) {
	p := loadPayload(t, githubText)
	p.body = []byte(`[` + strings.Repeat(`{"a": "`+strings.Repeat("é", 500)+`"},`, 2_000) + `{}]`)
	e := p.explain(t)
	if !e.Exhausted || e.Tried > 1_000 || len(e.Findings) != 1 || e.Findings[0].Proven {
		t.Errorf("%d tries, exhausted %v, %s", e.Tried, e.Exhausted, names(e))
	}
}

func TestAnExplanationOfWhatHoldsSaysHow(t *testing.T) {
	p := loadPayload(t, "standard-webhooks-contact")
	p.secrets = append([]provider.Secret{{Value: "whpk_short"}}, p.secrets...)
	e := p.explain(t)
	way := e.Ways[e.Best]
	want := *p.header("webhook-id") + "." + *p.header("webhook-timestamp") + "." + string(p.body)
	if string(way.Signed) != want {
		t.Errorf("signed %q", way.Signed)
	}
	if way.Algorithm != "hmac-sha256" || way.Signature != "header:webhook-signature" ||
		len(way.Candidates) != 1 || way.Candidates[0].Label != "v1" || way.Candidates[0].Fault != "" {
		t.Errorf("%s %s %+v", way.Algorithm, way.Signature, way.Candidates)
	}
	if e.Secrets[0].Fault == "" || e.Secrets[0].Matched || !e.Secrets[1].Matched {
		t.Errorf("secrets %+v", e.Secrets)
	}
	if way.Time == nil || way.Time.Sent.Unix() != p.Now || len(way.Notes) == 0 {
		t.Errorf("time %+v, notes %q", way.Time, way.Notes)
	}
}
