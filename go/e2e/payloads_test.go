package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// payload is one recorded request of testdata/payloads.
type payload struct {
	Name, Provider, Method, URL string
	Headers                     [][2]string
	BodyFile                    string `json:"body_file"`
	BodySHA256                  string `json:"body_sha256"`
	Secrets                     []struct{ Type, Value string }

	source string
	body   string
}

// timeless are the providers whose signature covers no time, so that a recorded one still holds.
// The others go to a source that checks none.
var timeless = []string{
	"github", "shopify", "gitlab", "pagerduty", "sentry", "typeform", "bitbucket", "woocommerce",
	"razorpay", "telegram",
}

func payloads(t testing.TB) []payload {
	t.Helper()
	files, err := filepath.Glob("testdata/payloads/*.json")
	must(t, err)
	var all []payload
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		var p payload
		must(t, json.Unmarshal(text, &p))
		body, err := os.ReadFile(filepath.Join("testdata/payloads", p.BodyFile))
		must(t, err)
		p.body, p.source = string(body), "open"
		if slices.Contains(timeless, p.Provider) {
			p.source = p.Provider
		}
		if sha256Hex(p.body) != p.BodySHA256 {
			t.Fatalf("%s is not as it was recorded: was it checked out with other line ends?", file)
		}
		all = append(all, p)
	}
	if len(all) < 58 {
		t.Fatalf("%d payloads, want 58", len(all))
	}
	return all
}

// payloadConfig has one source for each timeless provider, with the secret of its payloads.
func payloadConfig(all []payload, destination string) string {
	var b strings.Builder
	b.WriteString("sources:\n  open: {path: /hooks/open, provider: none, methods: [POST, GET], " +
		"dedup: 0s, deliver: [billing]}\n")
	done := map[string]bool{"open": true}
	for _, p := range all {
		if done[p.source] {
			continue
		}
		done[p.source] = true
		fmt.Fprintf(&b, "  %s: {path: /hooks/%s, provider: %s, secrets: [%q], dedup: 0s, "+
			"deliver: [billing]}\n", p.source, p.source, p.Provider, p.Secrets[0].Value)
	}
	return b.String() + "destinations:\n" + destination
}

// request is the payload as the nth request of the test.
func (p *payload) request(n int) request {
	r := request{method: p.Method, path: "/hooks/" + p.source, body: p.body}
	for _, h := range p.Headers {
		r.fields = append(r.fields, field{h[0], h[1]})
	}
	r.fields = append(r.fields, field{"X-Number", strconv.Itoa(n)})
	return r
}

func TestRealPayloadsArriveAsTheyWereSent(t *testing.T) {
	const connections = 8
	total := count(3000, 100_000)
	random := seeded(t)
	all := payloads(t)
	to := newSink(t)
	to.digest = true
	i := install(t, payloadConfig(all, to.config("billing")))
	i.start()

	order := make([]int, total)
	for n := range order {
		order[n] = n % len(all)
	}
	random.Shuffle(total, func(a, b int) { order[a], order[b] = order[b], order[a] })
	ids := make([]string, total)
	var senders sync.WaitGroup
	for c := range connections {
		senders.Go(func() {
			w, err := connect(i.address)
			if err != nil {
				t.Error(err)
				return
			}
			defer w.conn.Close()
			for n := c; n < total; n += connections {
				p := &all[order[n]]
				a, err := w.exchange(p.request(n))
				if err != nil || a.code != 200 {
					t.Errorf("%s: %v %v", p.Name, a, err)
					return
				}
				ids[n] = a.get("X-Event-Id")
			}
		})
	}
	senders.Wait()
	if t.Failed() {
		return
	}

	events := map[string]uint64{}
	for _, e := range i.events(nil) {
		events[e.GetId()] = e.GetSize()
	}
	if len(events) != total {
		t.Errorf("%d events are stored, want %d", len(events), total)
	}
	for n := range total {
		if size, ok := events[ids[n]]; !ok || size != uint64(len(all[order[n]].body)) {
			t.Fatalf("request %d, %s: stored %v with %d bytes", n, all[order[n]].Name, ok, size)
		}
		if n%max(total/500, 1) == 0 { // the bytes of some; the destination sees those of all
			stored := i.event(ids[n])
			if sha256Hex(string(stored.GetBody())) != all[order[n]].BodySHA256 {
				t.Errorf("%s is stored with another body", all[order[n]].Name)
			}
			want := all[order[n]].request(n).fields
			for k, h := range stored.GetHeaders() {
				if k >= len(want) && string(h.GetName()) == "Content-Length" {
					continue
				}
				if string(h.GetName()) != want[k].name || string(h.GetValue()) != want[k].value {
					t.Errorf("%s: field %d is %q", all[order[n]].Name, k, h)
				}
			}
		}
	}
	i.awaitDelivered()
	got := map[int]bool{}
	for _, d := range to.all() {
		text, _ := value(d.fields, "X-Number")
		n, err := strconv.Atoi(text)
		must(t, err)
		p := &all[order[n]]
		if d.body != p.BodySHA256 || d.key != ids[n] || d.method != p.Method {
			t.Errorf("%s was delivered with another body, key or method", p.Name)
		}
		sameFields(t, p.request(n).fields, d.fields)
		got[n] = true
	}
	if len(got) != total || to.len() != total {
		t.Errorf("%d events in %d requests were delivered, want %d", len(got), to.len(), total)
	}
	i.stop()
}
