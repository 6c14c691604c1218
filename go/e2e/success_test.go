package e2e

import (
	"slices"
	"testing"
	"time"
)

// TestASenderHearsOfSuccessInItsOwnWay has senders that take 202, or a body, for a failure send
// to a source whose breaker is open.
func TestASenderHearsOfSuccessInItsOwnWay(t *testing.T) {
	var some []signer
	for _, s := range signers(t) {
		if slices.Contains([]string{"github", "zoom", "xero", "discord"}, s.Provider) {
			some = append(some, s)
		}
	}
	to := newSink(t)
	i := install(t, signersConfig(t, some, to.config("billing")))
	i.start()
	want := map[string]struct {
		closed, open int
		empty        bool
	}{
		"github": {200, 202, false}, "zoom": {200, 200, false},
		"xero": {200, 200, true}, "discord": {204, 204, true},
	}
	look := func(isOpen bool) {
		t.Helper()
		for n := range some {
			s := &some[n]
			a, err := i.send(s.sign(t, s.Recipe.Secret, time.Now()))
			must(t, err)
			w := want[s.Provider]
			code, degraded := w.closed, ""
			if isOpen {
				code, degraded = w.open, "true"
			}
			if a.code != code || a.get("X-System-Degraded") != degraded || a.get("X-Event-Id") == "" ||
				(a.body == "") != w.empty {
				t.Errorf("%s, open: %v: %v, want %d", s.Provider, isOpen, a, code)
			}
		}
	}
	look(false)
	if _, stderr, code := i.run("breaker", "open", "billing"); code != 0 {
		t.Fatal(stderr)
	}
	look(true)
	if events := i.events(nil); len(events) != 2*len(some) {
		t.Errorf("%d events are stored of %d", len(events), 2*len(some))
	}
}
