package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/go/internal/provider/catalogue/vectors"
)

// signer is one sender of the catalogue: the recipe by which it signs, and its source here.
type signer struct {
	vectors.Set
	path string
}

// signers are all senders of the catalogue.
func signers(t testing.TB) []signer {
	t.Helper()
	sets, err := vectors.Read("../internal/provider/catalogue/testdata/vectors")
	must(t, err)
	if len(sets) < 80 {
		t.Fatalf("%d senders, want 80 and more", len(sets))
	}
	all := make([]signer, len(sets))
	for n, set := range sets {
		all[n] = signer{set, "/in/" + set.Provider}
	}
	return all
}

// signersConfig has a source for each, with the secrets that its vectors are signed with.
func signersConfig(t testing.TB, all []signer, destination string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("sources:\n")
	for _, s := range all {
		secrets, err := json.Marshal(s.configured())
		must(t, err)
		fmt.Fprintf(&b, "  %s: {path: %s, provider: %s, secrets: %s, dedup: 0s, deliver: [billing]",
			s.Provider, s.path, s.Provider, secrets)
		if s.signsURL() {
			fmt.Fprintf(&b, ", url: 'https://hooks.example.test%s'", s.path)
		}
		if s.Recipe.Legacy {
			b.WriteString(", allow_legacy: true")
		}
		b.WriteString("}\n")
	}
	return b.String() + "destinations:\n" + destination
}

// configured are the secrets of the recipe, and those that only the handshakes need.
func (s *signer) configured() []vectors.Secret {
	list := []vectors.Secret{}
	for _, v := range append(s.Vectors, vectors.Vector{Secrets: s.Recipe.Secrets}) {
		for _, secret := range v.Secrets {
			role := slices.ContainsFunc(s.Recipe.Secrets, func(own vectors.Secret) bool {
				return own == secret
			})
			if (role || v.Answer != nil) && !slices.Contains(list, secret) {
				list = append(list, secret)
			}
		}
	}
	return list
}

// success is what it takes for success.
func (s *signer) success() int {
	if s.Provider == "discord" {
		return 204
	}
	return 200
}

func (s *signer) signsURL() bool { return strings.Contains(s.Recipe.Text, "<url>") }

// sign is a request of that time.
func (s *signer) sign(t testing.TB, secret vectors.Secret, at time.Time) request {
	t.Helper()
	signed, err := s.Recipe.Sign(secret, at, "")
	must(t, err)
	return wireForm("POST", signed.URL, signed.Headers, signed.Body)
}

func wireForm(method, url string, headers [][2]string, body string) request {
	_, target, _ := strings.Cut(url, "hooks.example.test")
	r := request{method: method, path: target, body: body}
	for _, h := range headers {
		r.fields = append(r.fields, field{h[0], h[1]})
	}
	return r
}

// recorded is a vector as it was signed when it was made.
func recorded(v *vectors.Vector) request {
	return wireForm(v.Method, v.URL, v.Headers, v.Body.UTF8)
}

func TestEverySenderOfTheCatalogueIsJudgedByTheServer(t *testing.T) {
	all := signers(t)
	to := newSink(t)
	i := install(t, signersConfig(t, all, to.config("billing")))
	i.start()
	taken := 0
	refusal := ""
	for n := range all {
		s := &all[n]
		// One connection a sender: a refusal may close it.
		exchange := func(what string, r request, want int) *answer {
			a, err := i.send(r)
			if err != nil || a.code != want {
				t.Errorf("%s: %s: %v %v, want %d", s.Provider, what, a, err, want)
				return nil
			}
			if want == 401 {
				// Nothing in a refusal says what was wrong.
				if refusal == "" {
					refusal = a.body
				}
				if a.body != refusal {
					t.Errorf("%s: %s: refused with %q, others with %q", s.Provider, what, a.body,
						refusal)
				}
			}
			return a
		}
		now := time.Now()
		good := s.sign(t, s.Recipe.Secret, now)
		if exchange("signed now", good, s.success()) != nil {
			taken++
		}
		if s.Recipe.Alg == "none" {
			continue
		}
		exchange("signed with a key that nobody configured", s.sign(t, s.Recipe.Other, now), 401)
		for k := range s.Vectors {
			v := &s.Vectors[k]
			switch timed := v.Tolerance != nil; {
			case v.Kind == "stale" && v.Expect != "ok":
				exchange("signed long ago", recorded(v), 401)
			case v.Kind == "good" && timed:
				exchange("signed long ago", recorded(v), 401)
			case timed || v.Answer != nil || !slices.Equal(v.Secrets, s.Recipe.Secrets):
				// Its time is over, it belongs to another test, or it needs other secrets.
			case v.Expect == "ok":
				if exchange(v.ID, recorded(v), s.success()) != nil {
					taken++
				}
			default:
				exchange(v.ID, recorded(v), 401)
			}
		}
	}
	if events := i.events(nil); len(events) != taken {
		t.Errorf("%d events are stored, %d were taken", len(events), taken)
	}
}

func TestEveryHandshakeIsAnsweredByTheServer(t *testing.T) {
	all := signers(t)
	to := newSink(t)
	i := install(t, signersConfig(t, all, to.config("billing")))
	i.start()
	answered := 0
	for n := range all {
		s := &all[n]
		for k := range s.Vectors {
			v := &s.Vectors[k]
			if v.Answer == nil || len(v.Learned) > 0 { // secrets that are learned have tests of their own
				continue
			}
			r := recorded(v)
			if v.Tolerance != nil {
				r = s.again(t, v)
			}
			a, err := i.send(r)
			must(t, err)
			if a.code != v.Answer.Status || a.body != v.Answer.Body ||
				a.get("Content-Type") != v.Answer.ContentType {
				t.Errorf("%s: %v, want %+v", v.ID, a, *v.Answer)
			}
			for _, h := range v.Answer.Headers {
				if a.get(h[0]) != h[1] {
					t.Errorf("%s: %v has not %s: %s", v.ID, a, h[0], h[1])
				}
			}
			answered++
		}
	}
	if answered < 12 {
		t.Errorf("only %d handshakes", answered)
	}
	if events := i.events(nil); len(events) != 0 {
		t.Errorf("%d handshakes were stored as events", len(events))
	}
}

// again signs a recorded handshake as of now.
func (s *signer) again(t testing.TB, v *vectors.Vector) request {
	t.Helper()
	recipe := *s.Recipe
	recipe.Body = v.Body.UTF8
	for _, h := range v.Headers {
		if !slices.ContainsFunc(recipe.Headers, func(own [2]string) bool { return own[0] == h[0] }) {
			recipe.Headers = append(slices.Clip(recipe.Headers), h)
		}
	}
	signed, err := recipe.Sign(recipe.Secret, time.Now(), "")
	must(t, err)
	return wireForm("POST", signed.URL, signed.Headers, signed.Body)
}
