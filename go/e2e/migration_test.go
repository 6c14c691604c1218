package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// slack is a request as Slack signs it at a time.
func slack(path, key, body string, at time.Time) request {
	stamp := fmt.Sprint(at.Unix())
	return request{path: path, body: body, fields: []field{
		{"Content-Type", "application/json"}, {"X-Slack-Request-Timestamp", stamp},
		{"X-Slack-Signature", "v0=" + hmacHex(key, "v0:"+stamp+":"+body)},
	}}
}

// without takes a field out.
func without(r request, name string) request {
	r.fields = slices.DeleteFunc(slices.Clone(r.fields), func(f field) bool { return f.name == name })
	return r
}

func TestASourceThatDoesNotEnforceTakesWhatIsNotProvenAndSaysSo(t *testing.T) {
	to := newSink(t)
	i := install(t, fmt.Sprintf("sources:\n  lax:\n    path: /hooks/lax\n    provider: slack\n"+
		"    secrets: [%q]\n    enforce: false\n", secret)+
		githubSource("strict", "durable", "billing")+"destinations:\n"+to.config("billing"))
	i.start()
	now, body := time.Now(), `{"type":"event_callback","event_id":"Ev1"}`
	proven := slack("/hooks/lax", secret, body, now)
	wants := map[string]string{
		i.accepted(proven): "",
		i.accepted(slack("/hooks/lax", "another key", body, now)):                  "bad-signature",
		i.accepted(slack("/hooks/lax", secret, body, now.Add(-time.Hour))):         "expired",
		i.accepted(without(proven, "X-Slack-Signature")):                           "missing-header",
		i.accepted(without(proven, "X-Slack-Request-Timestamp")):                   "missing-header",
		i.accepted(request{path: "/hooks/lax", body: `{"type":"event_callback"}`}): "missing-header",
	}
	if len(wants) != 6 { // one that is not proven is nobody's repeat
		t.Fatalf("ids: %v", wants)
	}
	if a, err := i.send(github("/hooks/strict", "d-1", "{}")); err != nil || a.code != 200 {
		t.Fatal(a, err)
	}
	forged := github("/hooks/strict", "d-2", "{}")
	forged.body = "{ }"
	if a, err := i.send(forged); err != nil || a.code != 401 {
		t.Fatal(a, err)
	}
	i.awaitDelivered()
	for id, want := range wants {
		if got := i.event(id).GetUnverified(); got != want {
			t.Errorf("event %s is unverified for %q, want %q", id, got, want)
		}
	}
	status := i.status()
	for _, s := range status.GetSources() {
		lax := s.GetName() == "lax"
		want := uint64(0)
		if lax {
			want = 5
		}
		if s.GetEnforce() == lax || s.GetUnverified() != want || s.GetLastEventNs() < now.UnixNano() {
			t.Errorf("status has %v", s)
		}
	}
	if problems := status.GetProblems(); !status.GetReady() || len(problems) != 1 ||
		!strings.Contains(problems[0], "source lax takes what is not proven") {
		t.Errorf("ready %v, problems %q", status.GetReady(), problems)
	}
	counted := i.metric("webhook_unverified_total")
	for reason, want := range map[string]string{
		"bad-signature": "1", "expired": "1", "missing-header": "3",
	} {
		labels := fmt.Sprintf("{reason=%q,source=\"lax\"}", reason)
		if counted[labels] != want {
			t.Errorf("%s: %q in %v, want %s", labels, counted[labels], counted, want)
		}
	}
	if !i.logged("takes what is not proven") {
		t.Error("the start says nothing of it")
	}
}

func TestAStrangerLearnsNothingFromARefusal(t *testing.T) {
	i := install(t, fmt.Sprintf("sources:\n  slack:\n    path: /hooks/slack\n    provider: slack\n"+
		"    secrets: [%q]\n    deliver: []\n", secret)+
		fmt.Sprintf("  signed:\n    path: /hooks/signed\n    provider: rfc9421\n"+
			"    secrets: ['{\"key_id\":\"known\",\"type\":\"hmac-b64\",\"value\":\"c2VjcmV0\"}']\n"+
			"    deliver: []\n"))
	i.start()
	body := `{"type":"event_callback"}`
	now := time.Now()
	good := slack("/hooks/slack", secret, body, now)
	message := func(keyID, signature string) request {
		return request{path: "/hooks/signed", body: body, fields: []field{
			{"Signature-Input", fmt.Sprintf(`sig=("@method");created=%d;keyid=%q`, now.Unix(), keyID)},
			{"Signature", "sig=:" + signature + ":"},
		}}
	}
	const nonsense = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
	refused := map[string]request{
		"a wrong signature":  slack("/hooks/slack", "another key", body, now),
		"a stale timestamp":  slack("/hooks/slack", secret, body, now.Add(-time.Hour)),
		"no signature":       without(good, "X-Slack-Signature"),
		"no timestamp":       without(good, "X-Slack-Request-Timestamp"),
		"a malformed one":    {path: "/hooks/slack", fields: []field{{"X-Slack-Signature", "?"}}},
		"nothing":            {path: "/hooks/slack"},
		"an unknown key":     message("unknown", nonsense),
		"a known key, wrong": message("known", nonsense),
		"no message":         {path: "/hooks/signed", body: body},
	}
	answers := map[string]string{}
	for what, r := range refused {
		a, err := i.send(r)
		must(t, err)
		if a.code != 401 {
			t.Errorf("%s: %v", what, a)
		}
		if date, ok := value(a.fields, "Date"); ok {
			a.fields[slices.Index(a.fields, field{"Date", date})].value = "then"
		}
		answers[a.String()] = what
	}
	if len(answers) != 1 {
		t.Errorf("refusals differ: %v", answers)
	}
	if got := i.status().GetSources()[0].GetUnauthorized(); got != 6 {
		t.Errorf("%d counted", got)
	}
	if a, err := i.send(good); err != nil || a.code != 200 {
		t.Fatal(a, err)
	}
}
