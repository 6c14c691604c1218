package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// githubSource is a signed source in the config.
func githubSource(name, acknowledge, deliver string) string {
	return fmt.Sprintf("  %s:\n    path: /hooks/%s\n    provider: github\n    secrets: [%q]\n"+
		"    acknowledge: %s\n    deliver: [%s]\n", name, name, secret, acknowledge, deliver)
}

func TestASignedRequestIsStoredAndDeliveredByteForByte(t *testing.T) {
	to := newSink(t)
	i := install(t, "sources:\n"+githubSource("github", "durable", "billing")+
		"destinations:\n"+to.config("billing"))
	i.start()
	r := github("/hooks/github?a=%20b", "d-1", "{\"a\": \"\u2615\",\r\n\t\"b\":1}\x00\xff")
	r.fields = append(r.fields, field{"x-LOWER-case", "kept  as it is"},
		field{"X-Twice", "one"}, field{"Accept", "*/*"}, field{"X-Twice", "two"},
		field{"X-Empty", ""}, field{"User-Agent", "GitHub-Hookshot/0a1b2c3"},
		field{"Idempotency-Key", "the sender's own"}, field{"X-Latin", "caf\xe9"})
	id := i.accepted(r)

	eventually(t, "the event is delivered", func() bool { return to.len() > 0 })
	got := to.all()[0]
	if got.method != "POST" || got.body != r.body {
		t.Errorf("delivered %s %q, want POST %q", got.method, got.body, r.body)
	}
	if got.key != id {
		t.Errorf("Idempotency-Key %q, want the event's id %s", got.key, id)
	}
	sameFields(t, r.fields, got.fields)

	detail := i.event(id)
	if string(detail.GetBody()) != r.body || detail.GetTarget() != r.path ||
		detail.GetMethod() != "POST" {
		t.Errorf("stored %s %s %q", detail.GetMethod(), detail.GetTarget(), detail.GetBody())
	}
	stored := make([]field, 0, len(detail.GetHeaders()))
	for _, h := range detail.GetHeaders() {
		stored = append(stored, field{string(h.GetName()), string(h.GetValue())})
	}
	want := append([]field{{"Host", "hooks.example.test"}}, r.fields...)
	want = append(want, field{"Content-Length", fmt.Sprint(len(r.body))})
	if fmt.Sprint(stored) != fmt.Sprint(want) {
		t.Errorf("stored fields\n%q\nwant, in wire order,\n%q", stored, want)
	}
	i.stop()
}

// sameFields checks that every end-to-end field that was sent arrived: value byte for byte, the
// name's case kept, order kept per name, nothing added but framing and ours.
func sameFields(t testing.TB, sent, got []field) {
	t.Helper()
	ours := []string{"host", "content-length", "idempotency-key", "connection", "transfer-encoding"}
	keep := func(list []field) map[string][]field {
		kept := map[string][]field{}
		for _, f := range list {
			name := strings.ToLower(f.name)
			if !strings.Contains(" "+strings.Join(ours, " ")+" ", " "+name+" ") {
				kept[name] = append(kept[name], f)
			}
		}
		return kept
	}
	want, have := keep(sent), keep(got)
	if fmt.Sprint(want) != fmt.Sprint(have) {
		t.Errorf("fields arrived as\n%q\nsent as\n%q", have, want)
	}
}

func TestABigBodyArrivesWhole(t *testing.T) {
	const size = 8 << 20
	to := newSink(t)
	to.digest = true
	i := install(t, "ring_size: 64MiB\nsources:\n"+githubSource("github", "durable", "billing")+
		"    max_body: 8MiB\ndestinations:\n"+to.config("billing"))
	i.start()
	random := seeded(t)
	bytes := make([]byte, size)
	for n := range bytes {
		bytes[n] = byte(random.Uint32())
	}
	body := string(bytes)
	ids := []string{i.accepted(github("/hooks/github", "whole", body))}
	r := github("/hooks/github", "chunked", body)
	r.fields = append(r.fields, field{"Transfer-Encoding", "chunked"})
	r.body = ""
	head := strings.Replace(r.bytes(), "Content-Length: 0\r\n", "", 1)
	var chunks strings.Builder
	for rest := body; rest != ""; {
		n := min(len(rest), 1+random.IntN(100_000))
		fmt.Fprintf(&chunks, "%x\r\n%s\r\n", n, rest[:n])
		rest = rest[n:]
	}
	a := i.dial(t).raw(t, head+chunks.String()+"0\r\n\r\n")
	if a.code != 200 {
		t.Fatalf("in chunks: %v", a)
	}
	ids = append(ids, a.get("X-Event-Id"))
	eventually(t, "both are delivered", func() bool { return to.len() == 2 })
	for n, d := range to.all() {
		if d.body != sha256Hex(body) || !has(d.fields, "Content-Length") {
			t.Errorf("body %d arrived as another one", n)
		}
	}
	for _, e := range i.events(nil) {
		if e.GetSize() != size || !slices.Contains(ids, e.GetId()) {
			t.Errorf("listed: %v", e)
		}
	}
	if a := i.dial(t).raw(t, strings.Replace(head, "chunked", "again", 1)+
		chunks.String()+"1\r\nx\r\n0\r\n\r\n"); a.code != 413 {
		t.Errorf("a byte more: %v", a)
	}
}

func TestADurable2xxIsOnDiskBeforeItLeaves(t *testing.T) {
	to := newSink(t)
	i := install(t, "sources:\n"+githubSource("github", "durable", "billing")+
		"destinations:\n"+to.config("billing"))
	for round := range count(3, 20) {
		i.start()
		id := i.accepted(github("/hooks/github", fmt.Sprintf("d-%d", round), `{"n":1}`))
		i.killBoth()
		// What memory held is gone: only the journal is left.
		must(t, os.RemoveAll(i.shm))
		must(t, os.Mkdir(i.shm, 0o700))
		i.start()
		if got := i.event(id).GetEvent().GetProviderId(); got != fmt.Sprintf("d-%d", round) {
			t.Fatalf("event %s has provider id %q", id, got)
		}
		i.killBoth()
	}
	i.start()
	i.awaitDelivered()
	keys := map[string]string{}
	for _, d := range to.all() {
		name, _ := value(d.fields, "X-GitHub-Delivery")
		if before, ok := keys[name]; ok && before != d.key {
			t.Errorf("delivery %s came under keys %s and %s", name, before, d.key)
		}
		keys[name] = d.key
	}
	if len(keys) != count(3, 20) {
		t.Errorf("%d events were delivered, want %d", len(keys), count(3, 20))
	}
}

func TestTheCommandLineShowsWhatTheContractNames(t *testing.T) {
	to, dead := newSink(t), newSink(t)
	dead.code.Store(410)
	// Without --dev: secrets come from outside of the file.
	i := install(t, "sources:\n"+
		strings.ReplaceAll(githubSource("github", "durable", "billing, gone"), fmt.Sprintf("%q", secret),
			`"env:E2E_SECRET"`)+
		"destinations:\n"+to.config("billing")+dead.config("gone"))
	i.strict, i.env = true, []string{"E2E_SECRET=" + secret}
	i.start()
	r := github("/hooks/github", "d-1", `{"n":1}`)
	id := i.accepted(r)
	if a, err := i.send(github("/hooks/github", "d-1", `{"n":1}`)); err != nil || a.code != 200 {
		t.Fatalf("the same delivery again: %v %v", a, err)
	}
	if a, err := i.send(request{path: "/hooks/github", body: "{}"}); err != nil || a.code != 401 {
		t.Fatalf("unsigned: %v %v", a, err)
	}
	i.awaitDelivered()

	var status struct {
		Ready         *bool    `json:"ready"`
		Generation    int      `json:"generation"`
		ConfigVersion int      `json:"config_version"`
		Uptime        *float64 `json:"uptime_s"`
		Listeners     []struct {
			Address string `json:"address"`
		} `json:"listeners"`
		Admission struct {
			Limit, Inflight, Held *int
			Overloaded            *bool
		} `json:"admission"`
		Journal struct {
			Bytes, Events *int
			Oldest        *float64 `json:"oldest_s"`
			Writable      *bool
		} `json:"journal"`
		Sources []struct {
			Name                                        string
			Accepted, Duplicates, Unauthorized, Refused *int
		} `json:"sources"`
		Destinations []struct {
			Name, Breaker string
			Backlog, Dead *int
		} `json:"destinations"`
		Dataplane struct {
			Pid      int
			Driver   string
			Restarts *int
		} `json:"dataplane"`
	}
	one(t, i, &status, "status", "--json")
	if status.Ready == nil || !*status.Ready || status.Generation != 1 ||
		status.ConfigVersion != 1 || status.Uptime == nil || len(status.Listeners) != 1 ||
		status.Listeners[0].Address != i.address {
		t.Errorf("status: %+v", status)
	}
	if a := status.Admission; a.Limit == nil || *a.Limit < 1 || a.Inflight == nil || a.Held == nil ||
		a.Overloaded == nil || *a.Overloaded {
		t.Errorf("status.admission: %+v", a)
	}
	if j := status.Journal; j.Bytes == nil || *j.Bytes < 4096 || j.Events == nil || *j.Events != 1 ||
		j.Oldest == nil || j.Writable == nil || !*j.Writable {
		t.Errorf("status.journal: %+v", j)
	}
	if s := status.Sources; len(s) != 1 || s[0].Name != "github" || *s[0].Accepted != 1 ||
		*s[0].Duplicates != 1 || *s[0].Unauthorized != 1 || *s[0].Refused != 0 {
		t.Errorf("status.sources: %s", shown(s))
	}
	for _, d := range status.Destinations {
		want := map[string]int{"billing": 0, "gone": 1}[d.Name]
		if d.Breaker != "closed" || *d.Backlog != 0 || *d.Dead != want {
			t.Errorf("status.destinations: %s", shown(d))
		}
	}
	if p := status.Dataplane; p.Pid != i.plane() || p.Driver != "io_uring" || *p.Restarts != 0 {
		t.Errorf("status.dataplane: %s", shown(p))
	}

	type eventLine struct {
		ID         string    `json:"id"`
		Source     string    `json:"source"`
		ProviderID string    `json:"provider_id"`
		ReceivedAt time.Time `json:"received_at"`
		Size       int       `json:"size"`
		State      string    `json:"state"`
		To         []struct {
			Name, State string
			Attempts    int
			LastError   string `json:"last_error"`
		} `json:"destinations"`
	}
	var listed eventLine
	one(t, i, &listed, "events", "list", "--json")
	if listed.ID != id || listed.Source != "github" || listed.ProviderID != "d-1" ||
		listed.Size != len(r.body) || listed.State != "dead" || len(listed.To) != 2 ||
		time.Since(listed.ReceivedAt).Abs() > time.Hour {
		t.Errorf("events list: %+v", listed)
	}
	for _, d := range listed.To {
		if want := map[string]string{"billing": "delivered", "gone": "dead"}[d.Name]; d.State != want ||
			d.Attempts != 1 {
			t.Errorf("events list: %+v", d)
		}
	}
	var detail struct {
		eventLine
		Headers  [][2]string       `json:"headers"`
		Body     string            `json:"body"`
		Attempts []json.RawMessage `json:"attempts"`
	}
	one(t, i, &detail, "events", "show", id, "--json")
	body, err := base64.StdEncoding.DecodeString(detail.Body)
	if err != nil || string(body) != r.body || len(detail.Attempts) != 2 ||
		len(detail.Headers) != len(r.fields)+2 || detail.Headers[1][0] != "Content-Type" {
		t.Errorf("events show: %+v (%v)", detail, err)
	}

	var letter struct {
		ID          string    `json:"id"`
		Source      string    `json:"source"`
		Destination string    `json:"destination"`
		Attempts    int       `json:"attempts"`
		LastError   string    `json:"last_error"`
		DeadAt      time.Time `json:"dead_at"`
	}
	one(t, i, &letter, "dlq", "list", "--json")
	if letter.ID != id || letter.Source != "github" || letter.Destination != "gone" ||
		letter.Attempts != 1 || letter.LastError == "" ||
		time.Since(letter.DeadAt).Abs() > time.Hour {
		t.Errorf("dlq list: %+v", letter)
	}

	dead.code.Store(200)
	if _, errs, code := i.run("dlq", "replay", id); code != 0 {
		t.Fatalf("dlq replay exits with %d: %s", code, errs)
	}
	eventually(t, "the dead letter is delivered", func() bool {
		return i.event(id).GetEvent().GetState() == "delivered"
	})
	i.stop()
}

func shown(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}

// one runs a command that prints at most one JSON object.
func one(t *testing.T, i *installation, into any, args ...string) {
	t.Helper()
	out, errs, code := i.run(args...)
	if code != 0 {
		t.Fatalf("sluice %v exits with %d: %s", args, code, errs)
	}
	if strings.TrimSpace(out) == "" {
		return
	}
	decoder := json.NewDecoder(strings.NewReader(out))
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("sluice %v printed %q: %v", args, out, err)
	}
	if decoder.More() {
		t.Fatalf("sluice %v printed more than one object: %q", args, out)
	}
}

func TestADuplicateIsAnsweredAndStoredOnce(t *testing.T) {
	to := newSink(t)
	i := install(t, "sources:\n"+githubSource("github", "durable", "billing")+
		githubSource("other", "durable", "billing")+"destinations:\n"+to.config("billing"))
	i.start()
	id := i.accepted(github("/hooks/github", "same", `{"n":1}`))
	for range 3 {
		a, err := i.send(github("/hooks/github", "same", `{"n":1}`))
		must(t, err)
		if a.code != 200 || !strings.Contains(a.body, `"duplicate"`) || a.get("X-Event-Id") != id {
			t.Errorf("the same again: %v, want a duplicate of %s", a, id)
		}
	}
	// Dedup is per source.
	if other := i.accepted(github("/hooks/other", "same", `{"n":1}`)); other == id {
		t.Error("another source's delivery is taken for the first one's")
	}
	// Both copies at once: one may be stored before the other is known, listed is one all the same.
	w := i.dial(t)
	twice := github("/hooks/github", "twice", `{"n":2}`).bytes()
	must(t, w.write(twice+twice))
	for range 2 {
		a, err := w.read("POST")
		must(t, err)
		if a.code != 200 {
			t.Errorf("pipelined twice: %v", a)
		}
	}
	i.killBoth()
	i.start()
	a, err := i.send(github("/hooks/github", "same", `{"n":1}`))
	must(t, err)
	if a.code != 200 {
		t.Errorf("the same after a crash: %v", a)
	}
	i.awaitDelivered()
	byID := map[string]int{}
	for _, e := range i.events(nil) {
		byID[e.GetSource()+" "+e.GetProviderId()]++
	}
	if fmt.Sprint(byID) != "map[github same:1 github twice:1 other same:1]" {
		t.Errorf("listed: %v", byID)
	}
}

func TestAHandshakeIsAnsweredAndNotStored(t *testing.T) {
	i := install(t, fmt.Sprintf("sources:\n  slack:\n    path: /hooks/slack\n    provider: slack\n"+
		"    secrets: [%q]\n    deliver: []\n", secret))
	i.start()
	body := `{"token":"x","challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P",` +
		`"type":"url_verification"}`
	signed := func(body, key string) request {
		at := fmt.Sprint(time.Now().Unix())
		return request{path: "/hooks/slack", body: body, fields: []field{
			{"Content-Type", "application/json"}, {"X-Slack-Request-Timestamp", at},
			{"X-Slack-Signature", "v0=" + hmacHex(key, "v0:"+at+":"+body)},
		}}
	}
	a, err := i.send(signed(body, secret))
	must(t, err)
	if a.code != 200 ||
		!strings.Contains(a.body, "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P") {
		t.Errorf("handshake: %v", a)
	}
	a, err = i.send(signed(body, "another secret"))
	must(t, err)
	if a.code != 401 {
		t.Errorf("a forged handshake: %v, want 401", a)
	}
	i.accepted(signed(`{"type":"event_callback","event_id":"Ev1"}`, secret))
	if list := i.events(nil); len(list) != 1 || list[0].GetProviderId() != "Ev1" {
		t.Errorf("listed: %v, want the event alone", list)
	}
}
