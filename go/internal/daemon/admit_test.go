package daemon

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice/go/internal/provider"
	"sluice/go/internal/provider/catalogue"
	pb "sluice/proto/sluice/v1"
)

// placeText is an id's place as a config names it.
func placeText(p *pb.IdPlace) string {
	if p.GetHeader() != "" {
		return "header:" + p.GetHeader()
	}
	return "json:" + p.GetJson()
}

func lookText(h *pb.Handshake) string {
	return fmt.Sprintf("%s q=%v h=%v max=%d", h.Method, h.QueryKeys, h.Headers, h.MaxBody)
}

func texts[T any](list []T, text func(T) string) string {
	var all []string
	for _, one := range list {
		all = append(all, text(one))
	}
	return strings.Join(all, "; ")
}

// source is the snapshot's source of a provider, or with keys of its own.
func source(t *testing.T, keys string) *pb.Source {
	t.Helper()
	return planOf(t, nil, "sources: {a: {path: /a, deliver: [], "+keys+"}}").snapshot.Sources[0]
}

func TestASenderIsKnownToTheDataPlaneByItsContract(t *testing.T) {
	const secret = "secrets: [it-is-a-secret]"
	for _, test := range []struct {
		keys             string
		priority         pb.Priority
		never, probes    bool
		ids, retry, look string
		guard            uint32
	}{
		{"provider: github, " + secret, pb.Priority_PRIORITY_DEFAULT, true, false,
			"header:X-GitHub-Delivery", "", "", 0},
		{"provider: github, priority: high, " + secret, pb.Priority_PRIORITY_HIGH, true, false,
			"header:X-GitHub-Delivery", "", "", 0},
		{"provider: slack, priority: low, " + secret, pb.Priority_PRIORITY_LOW, false, false,
			"json:/event_id", "X-Slack-Retry-Num", "POST q=[] h=[] max=4096", 0},
		{"provider: square, id_from: none, " + secret, pb.Priority_PRIORITY_DEFAULT, false, false,
			"", "square-retry-number", "", 0},
		{"provider: shopify, " + secret, pb.Priority_PRIORITY_DEFAULT, false, false,
			"header:X-Shopify-Event-Id; header:X-Shopify-Webhook-Id", "", "", 4},
		{"provider: gitlab, id_from: 'json:/object_attributes/id', " + secret,
			pb.Priority_PRIORITY_DEFAULT, true, false, "json:/object_attributes/id", "", "", 2},
		{"provider: pagerduty, id_from: body-sha256, " + secret, pb.Priority_PRIORITY_DEFAULT,
			false, false, "", "", "", 2},
		{"provider: trello, " + secret, pb.Priority_PRIORITY_DEFAULT, false, false,
			"json:/action/id", "", "HEAD q=[] h=[] max=0", 15},
		{"provider: xero, " + secret, pb.Priority_PRIORITY_DEFAULT, false, true, "", "", "", 0},
		{"provider: okta, " + secret, pb.Priority_PRIORITY_DEFAULT, false, false,
			"json:/eventId", "", "GET q=[] h=[X-Okta-Verification-Challenge] max=0", 0},
		{`provider: meta, secrets: [s, '{"value":"v","role":"verify_token"}']`,
			pb.Priority_PRIORITY_DEFAULT, false, false, "", "",
			"GET q=[hub.mode hub.verify_token] h=[] max=0", 0},
		{"provider: none, id_from: 'header:X-Id'", pb.Priority_PRIORITY_DEFAULT, false, false,
			"header:X-Id", "", "", 0},
	} {
		s := source(t, test.keys)
		ids, look := texts(s.IdPlaces, placeText), texts(s.Handshakes, lookText)
		if s.Priority != test.priority || s.NeverRetries != test.never || s.Probes != test.probes ||
			ids != test.ids || strings.Join(s.RetryHeaders, " ") != test.retry ||
			look != test.look || s.GuardAfter != test.guard || s.RefusedInRow != 0 {
			t.Errorf("%s: %v, never retries %v, probes %v, ids %q, retry %q, handshakes %q, guard %d",
				test.keys, s.Priority, s.NeverRetries, s.Probes, ids, s.RetryHeaders, look,
				s.GuardAfter)
		}
	}
}

// Whatever the catalogue has stays inside what a data plane takes, and no handshake takes in all.
func TestEveryProviderFitsTheSnapshot(t *testing.T) {
	probing := 0
	for _, name := range catalogue.Names() {
		scheme, _ := catalogue.Lookup(name)
		if scheme.Contract.ProbesBadSignatures.Or(false) {
			probing++
		}
		looks, places := handshakesOf(scheme), idPlacesOf(scheme, provider.IDFrom{})
		if len(looks) > handshakesMax || len(places) > idPlacesMax ||
			len(looks) > len(scheme.Handshakes) {
			t.Errorf("%s: %d handshakes, %d places", name, len(looks), len(places))
		}
		if (len(looks) == 0) != (len(scheme.Handshakes) == 0) {
			t.Errorf("%s: %d handshakes of %d", name, len(looks), len(scheme.Handshakes))
		}
		for _, look := range looks {
			if look.Method == "" && len(look.QueryKeys) == 0 && len(look.Headers) == 0 {
				t.Errorf("%s: every request looks like a handshake", name)
			}
			if !slices.Contains(scheme.Methods(), look.Method) && look.Method != "" {
				t.Errorf("%s: a handshake by %s, which it never sends", name, look.Method)
			}
			if look.Method == "POST" && look.MaxBody == 0 && len(look.Headers) == 0 &&
				len(look.QueryKeys) == 0 {
				t.Errorf("%s: every event looks like a handshake", name)
			}
		}
	}
	if probing != 2 {
		t.Errorf("%d providers send bad signatures on purpose; discord and xero do", probing)
	}
}

func TestAHandshakeIsKnownByWhatMustBeThere(t *testing.T) {
	match := func(list ...provider.Match) provider.Handshake { return provider.Handshake{Match: list} }
	at := func(kind provider.SourceKind, name string) provider.Match {
		return provider.Match{From: provider.Source{Kind: kind, Name: name}}
	}
	absent := at(provider.SourceHeader, "X-Event")
	absent.Absent = true
	head := match()
	head.Method = "HEAD"
	put := match(at(provider.SourceJSON, "/type"))
	put.Method = "PUT"
	for want, rule := range map[string]provider.Handshake{
		"HEAD q=[] h=[] max=0":          head,
		"PUT q=[] h=[] max=4096":        put,
		"POST q=[] h=[] max=4096":       match(absent),
		" q=[challenge] h=[] max=0":     match(at(provider.SourceQuery, "challenge"), absent),
		" q=[] h=[X-Hook-Secret] max=0": match(at(provider.SourceHeader, "X-Hook-Secret")),
		"POST q=[a b] h=[] max=4096": match(at(provider.SourceQuery, "a"),
			at(provider.SourceQuery, "b"), at(provider.SourceJSON, "/c")),
	} {
		got := handshakesOf(&provider.Scheme{Handshakes: []provider.Handshake{rule, rule}})
		if texts(got, lookText) != want { // and two that look the same are one
			t.Errorf("%q, want %q", texts(got, lookText), want)
		}
	}
}

func TestTheGuardBeginsAtHalfAndBelowTheEnd(t *testing.T) {
	for bears, want := range map[int]uint32{
		0: 0, 1: 1, 2: 1, 3: 2, 4: 2, 5: 3, 8: 4, 9: 5, 30: 15, 1000: 500,
	} {
		c := &provider.Contract{DisableAfter: provider.Fact[int]{Value: bears, Source: "a test"}}
		got := guardAfter(c)
		if got != want || bears > 1 && int(got) >= bears {
			t.Errorf("disabled after %d: guarded after %d, want %d", bears, got, want)
		}
	}
	if got := guardAfter(&provider.Contract{}); got != 0 {
		t.Errorf("nothing is known: guarded after %d", got)
	}
}
