package e2e

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/go/internal/provider"
	"sluice/go/internal/provider/catalogue"
)

// questions are the sources of all providers that ask something first, with what each asks. Those
// whose answer hands a secret over are another matter: it is kept before it is answered.
type question struct {
	provider, rule string
	scheme         *provider.Scheme
	sign           provider.Secret
	shake          *provider.Handshake
	verifier       *provider.Verifier
}

func questions(t *testing.T) (list []question, config string) {
	t.Helper()
	for _, name := range catalogue.Names() {
		scheme, _ := catalogue.Lookup(name)
		sign, secrets, texts := keysOf(scheme)
		begun := false
		for n := range scheme.Handshakes {
			shake := &scheme.Handshakes[n]
			if shake.Store != nil {
				continue
			}
			verifier, err := provider.Compile(scheme, secrets, provider.Options{})
			must(t, err)
			list = append(list, question{name, shake.Name, scheme, sign, shake, verifier})
			if !begun {
				begun = true
				if scheme.SignsURL() {
					texts += ", url: https://hooks.example.test/hooks/" + name
				}
				config += fmt.Sprintf("  %s: {provider: %s, deliver: [gone], secrets: %s}\n",
					name, name, texts)
			}
		}
	}
	return list, config
}

// keysOf are secrets that fit a scheme: what its sender signs with, and what proves that.
func keysOf(s *provider.Scheme) (sign provider.Secret, secrets []provider.Secret, texts string) {
	key := &s.AnyOf[0].Proofs[0].Key
	sign = provider.Secret{Value: "k3y-for-tests", Role: key.Role}
	check := sign
	if s.AnyOf[0].Proofs[0].Algorithm == provider.Ed25519 {
		seed := slices.Repeat([]byte{7}, ed25519.SeedSize)
		sign.Value = hex.EncodeToString(seed)
		check.Value = hex.EncodeToString(ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey))
	}
	roles := map[string]bool{check.Role: true}
	secrets = append(secrets, check)
	for i := range s.Handshakes {
		for _, m := range s.Handshakes[i].Match {
			if m.Secret != "" && !roles[m.Secret] {
				roles[m.Secret] = true
				secrets = append(secrets, provider.Secret{Value: "role-" + m.Secret, Role: m.Secret})
			}
		}
	}
	var list []string
	for _, secret := range secrets {
		text, _ := json.Marshal(map[string]string{"value": secret.Value, "role": secret.Role})
		list = append(list, "'"+string(text)+"'")
	}
	return sign, secrets, "[" + strings.Join(list, ", ") + "]"
}

// ask makes the request of a question; every value in it is of this time alone.
func (q *question) ask(t *testing.T, number int) (request, *provider.Request) {
	t.Helper()
	var query []string
	headers := map[string]string{"Content-Type": "application/json"}
	body := map[string]any{}
	put := func(from provider.Source, value string) {
		switch from.Kind {
		case provider.SourceQuery:
			query = append(query, from.Name+"="+value)
		case provider.SourceHeader:
			headers[from.Name] = value
		case provider.SourceJSON:
			at, keys := body, strings.Split(from.Name[1:], "/")
			for _, key := range keys[:len(keys)-1] {
				if at[key] == nil {
					at[key] = map[string]any{}
				}
				at = at[key].(map[string]any)
			}
			at[keys[len(keys)-1]] = json.RawMessage(value)
			if !json.Valid([]byte(value)) {
				at[keys[len(keys)-1]] = value
			}
		}
	}
	named := map[provider.Source]bool{}
	for _, m := range q.shake.Match {
		named[m.From] = true
		switch {
		case m.Absent:
		case m.Equals != "":
			put(m.From, m.Equals)
		case m.Media != "":
			put(m.From, m.Media)
		case m.Secret != "":
			put(m.From, q.secretOf(m.Secret))
		default:
			put(m.From, fmt.Sprintf("challenge-%d", number))
		}
	}
	for _, part := range q.shake.Body {
		if part.Kind != provider.AnswerLiteral && !named[part.From] {
			put(part.From, fmt.Sprintf("challenge-%d", number))
		}
	}
	r := request{method: q.shake.Method, path: "/hooks/" + q.provider}
	if len(query) > 0 {
		r.path += "?" + strings.Join(query, "&")
	}
	if r.method == "" {
		r.method = "POST"
	}
	if r.method == "POST" && len(body) > 0 {
		text, err := json.Marshal(body)
		must(t, err)
		r.body = string(text)
	}
	judged := &provider.Request{
		Method: []byte(r.method), Target: []byte(r.path), Body: []byte(r.body),
		ReceivedNS: time.Now().UnixNano(),
	}
	if q.shake.Signed {
		fields, err := provider.Sign(q.scheme, q.sign, &provider.SignRequest{
			Method: r.method, Target: r.path, Body: []byte(r.body), Now: time.Now(),
			ID: fmt.Sprint("question-", number),
		})
		must(t, err)
		for _, f := range fields {
			headers[string(f.Name)] = string(f.Value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		r.fields = append(r.fields, field{name, headers[name]})
		judged.Headers = append(judged.Headers,
			provider.Field{Name: []byte(name), Value: []byte(headers[name])})
	}
	return r, judged
}

func (q *question) secretOf(role string) string {
	_, secrets, _ := keysOf(q.scheme)
	for _, s := range secrets {
		if s.Role == role {
			return s.Value
		}
	}
	return ""
}

// answered asks and holds the answer against the rule's own.
func (q *question) answered(i *installation, number int) {
	t := i.t
	r, judged := q.ask(t.(*testing.T), number)
	want := q.verifier.Verify(judged)
	if want.Response == nil {
		t.Fatalf("%s, %s: the question is none: %s, %s", q.provider, q.rule, want.Outcome, want.Detail)
	}
	var a *answer
	eventually(t, q.provider+" is answered", func() bool { // a source has two by the floor a second
		var err error
		a, err = i.send(r)
		return err == nil && a.code != 503 && a.code != 429
	})
	body := string(want.Response.Body)
	if r.method == "HEAD" {
		body = ""
	}
	if a.code != want.Response.Status || a.body != body ||
		a.get("Content-Type") != want.Response.ContentType {
		t.Errorf("%s, %s: %v, want %d %s %q", q.provider, q.rule, a, want.Response.Status,
			want.Response.ContentType, body)
	}
	for _, f := range want.Response.Headers {
		if got := a.get(string(f.Name)); got != string(bytes.TrimSpace(f.Value)) {
			t.Errorf("%s, %s: %s is %q", q.provider, q.rule, f.Name, got)
		}
	}
}

// broken is a destination behind a closed port, whose breaker opens at its first failure.
func broken(t *testing.T) string {
	return fmt.Sprintf("destinations:\n  gone:\n    http: {url: \"http://%s/\"}\n"+
		"    breaker: {failures: 1, cooldown: 1h, cooldown_max: 1h}\n", freeAddress(t))
}

func TestHandshakesAreAnsweredWithoutDiskDestinationOrSlot(t *testing.T) {
	list, config := questions(t)
	if len(list) < 10 {
		t.Fatalf("the catalogue has %d questions", len(list))
	}
	i := install(t, narrow+"sources:\n"+config+
		"  filler: {path: /hooks/filler, provider: none, deliver: []}\n"+
		"  failing: {path: /hooks/failing, provider: none, deliver: [gone]}\n"+broken(t))
	i.start()
	for n := range list {
		list[n].answered(i, n)
	}
	i.accepted(request{path: "/hooks/failing", body: "{}"})
	eventually(t, "the breaker is open", func() bool {
		for _, d := range i.status().GetDestinations() {
			if d.GetName() == "gone" {
				return d.GetBreaker() == "open"
			}
		}
		return false
	})
	for n := range list { // queue only
		list[n].answered(i, 100+n)
	}
	// No slot is left, and as many wait as may.
	o := hear(i)
	if code := o.send("filler", "first"); code != 200 {
		t.Fatalf("first of filler: %d", code)
	}
	o.jam()
	o.flood("filler", ids("held", 12))
	for n := range list {
		list[n].answered(i, 200+n)
	}
	i.mustRun("fault", "clear")
	o.waiting.Wait()
	// The journal takes nothing.
	i.mustRun("fault", "set", "journal.write", "error", "EIO")
	eventually(t, "the journal is not writable", func() bool {
		a, err := i.send(request{path: "/hooks/filler", body: "{}"})
		return err == nil && a.code == 503 && a.get("X-Backpressure-Reason") == "Ingestion-Queue-Full"
	})
	for n := range list {
		list[n].answered(i, 300+n)
	}
	// What only looks like one is told so, at once and not when its sender has given up.
	event := slack("/hooks/slack", "k3y-for-tests", `{"type":"event_callback"}`, time.Now())
	eventually(t, "an event is refused", func() bool {
		began := time.Now()
		a, err := i.send(event)
		must(t, err)
		if a.code != 503 || a.get("Retry-After") == "" {
			t.Fatalf("an event is answered %v", a)
		}
		return time.Since(began) < time.Second
	})
	i.mustRun("fault", "clear")
	eventually(t, "the journal is writable", func() bool { return i.readyz() == 200 })
	for _, e := range i.events(nil) {
		if e.GetSource() != "filler" && e.GetSource() != "failing" {
			t.Errorf("a question of %s is stored", e.GetSource())
		}
	}
}
