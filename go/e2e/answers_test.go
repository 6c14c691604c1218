package e2e

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// every is a config with one source for each row of the contract's table that needs one.
func every() string {
	return "http: {max_header: 8KiB, header_timeout: 1s, body_timeout: 1s}\nsources:\n" +
		githubSource("github", "durable", "") + "    max_body: 64KiB\n" +
		githubSource("ring", "ring", "") +
		githubSource("lenient", "durable", "") + "    enforce: false\n" +
		"  open: {path: /hooks/open, provider: none, methods: [POST, PUT, GET], deliver: []}\n" +
		"  fenced: {path: /hooks/fenced, provider: none, allow_from: [10.0.0.0/8], deliver: []}\n" +
		"  home: {path: /hooks/home, provider: none, allow_from: [127.0.0.0/8], deliver: []}\n" +
		"  slow: {path: /hooks/slow, provider: none, rate: 2/s, deliver: []}\n"
}

func TestASenderSeesWhatTheContractSays(t *testing.T) {
	i := install(t, every())
	i.start()
	post := func(path, body string) request { return request{path: path, body: body} }
	signed := github("/hooks/github", "d-1", "{}")
	forged := github("/hooks/github", "d-2", "{}")
	forged.body = "{ }"
	const line = "POST /hooks/open HTTP/1.1\r\nHost: a\r\n"
	rows := []struct {
		name   string
		bytes  string
		codes  []int
		closes bool
		check  func(*testing.T, *answer)
	}{
		{name: "accepted durable", bytes: signed.bytes(), codes: []int{200}, check: isAccepted},
		{name: "accepted ring", bytes: github("/hooks/ring", "d-1", "{}").bytes(),
			codes: []int{200}, check: isAccepted},
		{name: "the query is not part of the path", codes: []int{200}, check: isAccepted,
			bytes: github("/hooks/github?x=1", "d-3", "{}").bytes()},
		{name: "bad signature", bytes: forged.bytes(), codes: []int{401}, check: isRefused},
		{name: "no signature", bytes: post("/hooks/github", "{}").bytes(), codes: []int{401},
			check: isRefused},
		{name: "not enforced", bytes: post("/hooks/lenient", "{}").bytes(), codes: []int{200},
			check: isAccepted},
		{name: "unknown path", bytes: post("/hooks/none", "{}").bytes(), codes: []int{404}},
		{name: "a longer path", bytes: post("/hooks/github/", "{}").bytes(), codes: []int{404}},
		{name: "method", bytes: request{method: "DELETE", path: "/hooks/github"}.bytes(),
			codes: []int{405}, check: func(t *testing.T, a *answer) {
				if a.get("Allow") != "POST" {
					t.Errorf("Allow: %q, want POST", a.get("Allow"))
				}
			}},
		{name: "too large", closes: true, codes: []int{413},
			bytes: "POST /hooks/github HTTP/1.1\r\nHost: a\r\nContent-Length: 65537\r\n\r\n"},
		{name: "too large in chunks", closes: true, codes: []int{413},
			bytes: "POST /hooks/github HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n10001\r\n"},
		{name: "headers too large", closes: true, codes: []int{431},
			bytes: line + "X-Big: " + strings.Repeat("x", 9<<10)},
		{name: "malformed", bytes: "POST  /hooks/open HTTP/1.1\r\nHost: a\r\n\r\n", closes: true,
			codes: []int{400}},
		{name: "no host", bytes: "POST /hooks/open HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
			closes: true, codes: []int{400}},
		{name: "header too slow", bytes: line, closes: true, codes: []int{408}},
		{name: "body too slow", bytes: line + "Content-Length: 7\r\n\r\n{", closes: true,
			codes: []int{408}},
		{name: "transfer coding", closes: true, codes: []int{501},
			bytes: line + "Transfer-Encoding: gzip, chunked\r\n\r\n"},
		{name: "HTTP/2 preface", bytes: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", closes: true,
			codes: []int{505}},
		{name: "version", bytes: "POST /hooks/open HTTP/3.0\r\nHost: a\r\n\r\n", closes: true,
			codes: []int{505}},
		{name: "peer outside allow_from", bytes: post("/hooks/fenced", "{}").bytes(), closes: true,
			codes: []int{403}},
		{name: "peer inside allow_from", bytes: post("/hooks/home", "{}").bytes(),
			codes: []int{200}, check: isAccepted},
		{name: "HTTP/1.0", closes: true, codes: []int{200, 505},
			bytes: "POST /hooks/open HTTP/1.0\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"},
		{name: "PUT", bytes: request{method: "PUT", path: "/hooks/open", body: "{}"}.bytes(),
			codes: []int{200}, check: isAccepted},
		{name: "the sender closes", closes: true, codes: []int{200}, check: isAccepted,
			bytes: line + "Connection: close\r\nContent-Length: 2\r\n\r\n{}"},
	}
	for _, row := range rows {
		t.Run(strings.ReplaceAll(row.name, " ", "-"), func(t *testing.T) {
			w := i.dial(t)
			a := w.raw(t, row.bytes)
			found := false
			for _, code := range row.codes {
				found = found || a.code == code
			}
			if !found {
				t.Fatalf("%v, want %v", a, row.codes)
			}
			if row.check != nil {
				row.check(t, a)
			}
			if row.closes {
				if !a.closes() {
					t.Errorf("the end is not announced: %v", a.fields)
				}
				w.isClosed(t)
				return
			}
			if a.closes() {
				t.Errorf("the end is announced: %v", a.fields)
			}
			w.isOpen(t, "/hooks/open")
		})
	}
	listed, _, _ := i.run("events", "list", "--limit", "0", "--json")
	if !strings.Contains(listed, `"d-1"`) || strings.Contains(listed, `"d-2"`) {
		t.Errorf("listed: %s; want d-1 and no forged d-2", listed)
	}
	for _, s := range i.status().GetSources() {
		if s.GetName() == "github" && s.GetUnauthorized() != 2 {
			t.Errorf("unauthorized: %d, want 2", s.GetUnauthorized())
		}
	}
	if i.logged(hmacHex(secret, forged.body)) {
		t.Error("the log holds a signature that would have been right")
	}
}

func isAccepted(t *testing.T, a *answer) {
	t.Helper()
	var body struct{ Status, ID string }
	if err := json.Unmarshal([]byte(a.body), &body); err != nil || body.Status != "accepted" ||
		len(body.ID) != 26 || body.ID != a.get("X-Event-Id") ||
		!strings.HasPrefix(a.get("Content-Type"), "application/json") {
		t.Errorf("accepted as %v (%v)", a, err)
	}
}

func isRefused(t *testing.T, a *answer) {
	t.Helper()
	var body struct{ Error string }
	if err := json.Unmarshal([]byte(a.body), &body); err != nil || body.Error == "" ||
		a.get("X-Event-Id") != "" {
		t.Errorf("refused as %v (%v)", a, err)
	}
	if strings.Contains(a.body, "timestamp") || strings.Contains(a.body, "missing") {
		t.Errorf("%q tells the sender which check failed", a.body)
	}
}

// retryAfter checks a refusal that asks the sender to come back.
func retryAfter(t testing.TB, a *answer, code int, reason string) int {
	t.Helper()
	seconds, err := strconv.Atoi(a.get("Retry-After"))
	if a.code != code || err != nil || seconds < 1 || a.get("X-Backpressure-Reason") != reason {
		t.Fatalf("%v, want %d, Retry-After and %s", a, code, reason)
	}
	return seconds
}

func TestASourceOverItsRateIsTold429(t *testing.T) {
	i := install(t, every())
	i.start()
	w := i.dial(t)
	limited := 0
	for range 20 {
		a := w.ask(t, request{path: "/hooks/slow", body: "{}"})
		if a.code == 429 {
			retryAfter(t, a, 429, "Rate-Limited")
			limited++
		} else if a.code != 200 {
			t.Fatalf("%v", a)
		}
	}
	if limited == 0 {
		t.Error("20 requests at once all passed a rate of 2/s")
	}
	a := w.ask(t, github("/hooks/github", "d-1", "{}"))
	if a.code != 200 {
		t.Errorf("another source is limited, too: %v", a)
	}
	eventually(t, "the refused ones are counted", func() bool {
		for _, s := range i.status().GetSources() {
			if s.GetName() == "slow" {
				return s.GetRefused() == uint64(limited) && s.GetAccepted() == uint64(20-limited)
			}
		}
		return false
	})
}

func TestOverloadIsToldAndSheds(t *testing.T) {
	i := install(t, "admission: {algorithm: fixed, initial_limit: 4, max_held: 8, "+
		"hold_budget: 200ms}\n"+withSecret(secret, "durable")+"    shed_status: 429\n")
	i.start()
	i.freeze()
	var senders sync.WaitGroup
	for n := range 30 {
		senders.Go(func() {
			a, err := i.send(github("/hooks/github", fmt.Sprintf("d-%d", n), "{}"))
			if err != nil || a.code != 429 || a.get("X-Backpressure-Reason") != "Overloaded" ||
				a.get("Retry-After") == "" {
				t.Errorf("%d: %v %v", n, a, err)
			}
		})
	}
	senders.Wait()
	i.signal(syscall.SIGCONT)
	eventually(t, "it takes requests again", func() bool {
		a, err := i.send(github("/hooks/github", "later", "{}"))
		return err == nil && a.code == 200
	})
	eventually(t, "the lane is drained", i.drained)
	// A source without a success may use the floor, which is beyond the limit and counted apart.
	eventually(t, "the 4 that had a slot, the floor's and the later one are stored", func() bool {
		floored, err := strconv.Atoi(i.metric("webhook_ingress_floored_total")[`{source="github"}`])
		must(t, err)
		ordinary := len(i.events(nil)) - floored
		// The later one may have come by the floor itself.
		return floored <= 3 && (ordinary == 5 || ordinary == 4 && floored > 0)
	})
	if s := i.status(); s.GetAdmission().GetInflight() != 0 || s.GetAdmission().GetLimit() != 4 {
		t.Errorf("status.admission: %v", s.GetAdmission())
	}
}

func TestHEADHasNoBody(t *testing.T) {
	i := install(t, every())
	i.start()
	w := i.dial(t)
	must(t, w.write("HEAD /hooks/open HTTP/1.1\r\nHost: a\r\n\r\n"))
	a, err := w.read("HEAD")
	must(t, err)
	if a.code != 405 && a.code != 200 {
		t.Errorf("HEAD: %v", a)
	}
	// What a body would have been must not stand where the next answer begins.
	if a := w.ask(t, request{path: "/hooks/open", body: "{}"}); a.code != 200 {
		t.Errorf("behind HEAD: %v", a)
	}
}

func TestABodyIsAskedForWhenTheSenderWaits(t *testing.T) {
	i := install(t, every())
	i.start()
	const head = "Host: a\r\nExpect: 100-continue\r\nContent-Length: "
	w := i.dial(t)
	must(t, w.write("POST /hooks/open HTTP/1.1\r\n"+head+"7\r\n\r\n"))
	a, err := w.read("POST")
	must(t, err)
	if a.code != 100 {
		t.Fatalf("%v, want 100 before the body", a)
	}
	must(t, w.write(`{"a":1}`))
	if a, err = w.read("POST"); err != nil || a.code != 200 {
		t.Fatalf("behind the body: %v %v", a, err)
	}
	w.isOpen(t, "/hooks/open")

	w = i.dial(t)
	must(t, w.write("POST /hooks/github HTTP/1.1\r\n"+head+"65537\r\n\r\n"))
	if a, err = w.read("POST"); err != nil || a.code != 413 || !a.closes() {
		t.Fatalf("over the limit: %v %v, want 413 and no 100", a, err)
	}
	w = i.dial(t)
	must(t, w.write("POST /hooks/none HTTP/1.1\r\n"+head+"7\r\n\r\n"))
	if a, err = w.read("POST"); err != nil || (a.code != 404 && a.code != 100) {
		t.Fatalf("unknown path: %v %v", a, err)
	}
}

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	i := install(t, every())
	i.start()
	w := i.dial(t)
	var all strings.Builder
	want := make([]int, 0, 40)
	for n := range 10 {
		all.WriteString(github("/hooks/github", fmt.Sprintf("g-%d", n), "{}").bytes())
		all.WriteString(request{path: "/hooks/github", body: "{}"}.bytes())
		all.WriteString(request{path: "/hooks/none", body: "{}"}.bytes())
		all.WriteString(github("/hooks/ring", fmt.Sprintf("r-%d", n), "{}").bytes())
		want = append(want, 200, 401, 404, 200)
	}
	must(t, w.write(all.String()))
	var ids []string
	for n, code := range want {
		a, err := w.read("POST")
		must(t, err)
		if a.code != code {
			t.Fatalf("answer %d: %v, want %d", n, a, code)
		}
		if code == 200 {
			ids = append(ids, a.get("X-Event-Id"))
		}
	}
	// Each answer names the event of its own request.
	for n, id := range ids {
		name := fmt.Sprintf("%s-%d", []string{"g", "r"}[n%2], n/2)
		eventually(t, "the event is stored", func() bool { return len(i.events(nil)) == len(ids) })
		if got := i.event(id).GetEvent().GetProviderId(); got != name {
			t.Errorf("answer %d names the event of %s, want %s", n, got, name)
		}
	}
}

func TestASecretCanBeRotated(t *testing.T) {
	const both = "sources:\n  github:\n    path: /hooks/github\n    provider: github\n" +
		"    secrets: [old, new]\n    deliver: []\n"
	i := install(t, both)
	i.start()
	body := `{"id":"evt_1","type":"ping"}`
	for n, key := range []string{"old", "new"} {
		r := request{path: "/hooks/github", body: body, fields: []field{
			{"X-Hub-Signature-256", "sha256=" + hmacHex(key, body)},
			{"X-GitHub-Delivery", key},
		}}
		if got := i.event(i.accepted(r)).GetSecretIndex(); got != uint32(n) {
			t.Errorf("signed with %s: secret %d is noted", key, got)
		}
	}
}

func TestAnIdleConnectionIsClosed(t *testing.T) {
	i := install(t, "http: {idle_timeout: 1s}\n"+strings.TrimPrefix(every(),
		"http: {max_header: 8KiB, header_timeout: 1s, body_timeout: 1s}\n"))
	i.start()
	w := i.dial(t)
	if a := w.ask(t, request{path: "/hooks/open", body: "{}"}); a.code != 200 {
		t.Fatalf("%v", a)
	}
	began := time.Now()
	w.isClosed(t)
	t.Logf("closed after %v", time.Since(began))
}
