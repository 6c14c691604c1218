package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The situations are those that operators of webhook receivers ran into.
func TestWhatOperatorsRanIntoEndsWell(t *testing.T) {
	i := install(t, "sources:\n"+
		"  github: {path: /hooks/github, provider: github, secrets: [s1], deliver: []}\n"+
		"  rotated: {path: /hooks/rotated, provider: github, secrets: [old, new], deliver: []}\n"+
		"  stripe: {path: /hooks/stripe, provider: stripe, secrets: [whsec_x], deliver: []}\n")
	i.start()
	signed := func(path, body, signature string, more ...field) request {
		return request{path: path, body: body, fields: append(more,
			field{"X-Hub-Signature-256", "sha256=" + signature})}
	}

	// Bytes are not turned into text and back.
	body := `{"action":"created","sponsorship":{"tier":{"name":"☕ $5 a month"}}}`
	id := i.accepted(signed("/hooks/github", body,
		"c94ef40c630ca7d6ff41a73cd0816bda3f27a030f7f01b5c659580b7ea6c7a79"))
	if sum := sha256Hex(string(i.event(id).GetBody())); sum !=
		"f086040e9506497c0b0307ab5432aee1b8374499bb1ad8dc5604e5c4ad68c058" {
		t.Errorf("stored body %s", sum)
	}
	// The proof does not depend on Content-Type.
	for _, kind := range []string{
		"application/json; charset=utf-8", "application/json", "text/plain", "",
	} {
		var more []field
		if kind != "" {
			more = []field{{"Content-Type", kind}}
		}
		i.accepted(signed("/hooks/github", "{}", hmacHex("s1", "{}"), more...))
	}
	// Of two secrets the one that fits is noted.
	id = i.accepted(signed("/hooks/rotated", `{"id":"evt_1","type":"ping"}`,
		"2be95162c32f817f32f94a06960d82abb72d4de0467d0846129f658f1231565f"))
	if n := i.event(id).GetSecretIndex(); n != 1 {
		t.Errorf("secret %d is noted, want 1", n)
	}
	// A field of nonsense is the sender's fault, and the next request is served.
	w := i.dial(t)
	a := w.ask(t, request{path: "/hooks/stripe", body: "{}", fields: []field{
		{"Stripe-Signature", "t=not_a_number,v1=" + strings.Repeat("0", 64)},
	}})
	if a.code != 401 && a.code != 400 {
		t.Errorf("nonsense: %v", a)
	}
	if a := w.ask(t, signed("/hooks/github", "{}", hmacHex("s1", "{}"))); a.code != 200 {
		t.Errorf("behind nonsense: %v", a)
	}
}

func TestWhatSendSignsIsAccepted(t *testing.T) {
	providers := map[string]string{
		"github": "s3cret", "stripe": "whsec_abc", "slack": "5a1f2c9b77e04d0c9c1c0e7f0a4b1d22",
		"shopify": "shpss_x", "gitlab": "token", "pagerduty": "pd", "razorpay": "rzp",
		"woocommerce": "wc", "zoom": "zm", "telegram": "tg_token", "linear": "lin",
		"standard-webhooks": "whsec_R4SLSxbLXNg80yyLuxz++LfvRgu3s+7r",
	}
	var config strings.Builder
	config.WriteString("sources:\n")
	for name, key := range providers {
		fmt.Fprintf(&config, "  %s: {path: /hooks/%s, provider: %s, secrets: [%q], deliver: []}\n",
			name, name, name, key)
	}
	i := install(t, config.String())
	i.start()
	for name, key := range providers {
		url := "http://" + i.address + "/hooks/" + name
		if out, errs, code := i.run("send", name, url, "--secret", key); code != 0 {
			t.Errorf("%s: exit code %d: %s%s", name, code, out, errs)
		}
		if _, _, code := i.run("send", name, url, "--secret", key[:len(key)-1]+"Q"); code == 0 {
			t.Errorf("%s: sent with another secret, accepted", name)
		}
	}
	got := map[string]int{}
	for _, e := range i.events(nil) {
		got[e.GetSource()]++
	}
	for name := range providers {
		if got[name] != 1 {
			t.Errorf("%s: %d events are stored, want 1", name, got[name])
		}
	}
}

func TestAStoppedDataPlaneStopsNothingElse(t *testing.T) {
	const events = 50
	to := newSink(t)
	to.code.Store(503)
	i := install(t, "sources:\n"+githubSource("ring", "ring", "billing")+"destinations:\n"+
		to.config("billing"))
	i.start()
	w := i.dial(t)
	for n := range events {
		if a := w.ask(t, github("/hooks/ring", fmt.Sprintf("d-%d", n), "{}")); a.code != 200 {
			t.Fatal(a)
		}
	}
	pid := i.plane()
	must(t, syscall.Kill(pid, syscall.SIGSTOP))
	to.code.Store(200)
	i.awaitDelivered()
	if list := i.events(nil); len(list) != events {
		t.Errorf("%d events are listed, want %d", len(list), events)
	}
	must(t, w.write(github("/hooks/ring", "late", "{}").bytes()))
	must(t, syscall.Kill(pid, syscall.SIGCONT))
	a, err := w.read("POST")
	must(t, err)
	if a.code != 200 || i.plane() != pid {
		t.Errorf("behind the pause: %v", a)
	}
	i.stop()
}

func TestDrainEndsTheDaemonInOrder(t *testing.T) {
	i := install(t, withSecret(secret, "ring"))
	i.start()
	w := i.dial(t)
	for n := range 100 {
		if a := w.ask(t, github("/hooks/github", fmt.Sprintf("d-%d", n), "{}")); a.code != 200 {
			t.Fatal(a)
		}
	}
	if _, errs, code := i.run("drain"); code != 0 {
		t.Errorf("drain exits with %d: %s", code, errs)
	}
	if code := i.awaitExit(); code != 0 {
		t.Errorf("the daemon exits with %d", code)
	}
	w.isClosed(t)
	i.start()
	if list := i.events(nil); len(list) != 100 {
		t.Errorf("%d events are listed, want 100", len(list))
	}
}

func TestAPinnedLimitIsInForceAndLetGo(t *testing.T) {
	i := install(t, withSecret(secret, "durable"))
	i.start()
	before := i.status().GetAdmission().GetLimit()
	if _, errs, code := i.run("limits", "set", "7", "--for", "10m"); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	if now := i.status().GetAdmission().GetLimit(); now != 7 {
		t.Errorf("the limit is %d, pinned to 7", now)
	}
	i.accepted(github("/hooks/github", "d-1", "{}"))
	if _, errs, code := i.run("limits", "reset"); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	if now := i.status().GetAdmission().GetLimit(); now == 7 {
		t.Errorf("the limit is %d, let go of 7, was %d", now, before)
	}
}

func TestAReplayKeepsItsKey(t *testing.T) {
	to := newSink(t)
	i := install(t, "sources:\n"+githubSource("github", "durable", "billing")+
		"destinations:\n"+to.config("billing"))
	i.start()
	id := i.accepted(github("/hooks/github", "d-1", "{}"))
	i.awaitDelivered()
	if _, errs, code := i.run("events", "replay", id); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	eventually(t, "it is delivered again", func() bool { return to.len() == 2 })
	for _, d := range to.all() {
		if d.key != id {
			t.Errorf("delivered under key %s, want %s", d.key, id)
		}
	}
	began := time.Now()
	i.killBoth()
	i.start()
	i.awaitDelivered()
	t.Logf("served again after %v", time.Since(began))
	if to.len() > 3 { // the last outcome may have been on its way
		t.Errorf("delivered %d times", to.len())
	}
}
