package catalogue_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/go/internal/provider"
	"sluice/go/internal/provider/catalogue"
)

var rewrite = flag.Bool("rewrite", false, "write docs/providers.md anew")

const pagePath = "../../../../docs/providers.md"

const pageHead = "# Providers\n\n" +
	"What the built-in profiles know of each sender; `sluice providers show NAME` says all of it, " +
	"with the page that it is from.\n" +
	"A value with `?` was not read in the sender's own text and is the cautious one. " +
	"Made from `go/internal/provider/catalogue/profiles`:\n" +
	"`go test ./go/internal/provider/catalogue -run Page -rewrite`.\n\n" +
	"| name | sender | proof | answers | id of an event | waits | tries again |\n" +
	"|---|---|---|---|---|---|---|\n"

// The page of the catalogue is the catalogue.
func TestThePageOfTheProvidersIsWhatTheProfilesSay(t *testing.T) {
	var b strings.Builder
	b.WriteString(pageHead)
	for _, name := range catalogue.Names() {
		s := lookup(t, name)
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s | %s |\n", name, s.Title, proofText(s),
			handshakeText(s), idText(s), marked(s.Contract.Deadline, durationText), retryText(s))
	}
	if *rewrite {
		if err := os.WriteFile(pagePath, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(pagePath)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != b.String() {
		t.Errorf("%s is otherwise now (-rewrite takes it over)", pagePath)
	}
}

// marked is the value, with a mark if it was not verified.
func marked[T any](f provider.Fact[T], text func(T) string) string {
	switch {
	case !f.Known():
		return ""
	case f.Verified:
		return text(f.Value)
	}
	return text(f.Value) + "?"
}

func durationText(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return strings.TrimSuffix(d.String(), "0s")
	}
	return d.String()
}

func retryText(s *provider.Scheme) string {
	c := &s.Contract
	var list []string
	if c.NeverRetries.Known() {
		list = append(list, marked(c.NeverRetries, func(never bool) string {
			if never {
				return "never"
			}
			return "some times"
		}))
	}
	if c.Retries.Known() {
		list = append(list, marked(c.Retries, func(n int) string {
			if n == 1 {
				return "once"
			}
			return fmt.Sprintf("%d times", n)
		}))
	}
	if c.RetryWindow.Known() {
		list = append(list, marked(c.RetryWindow, func(d time.Duration) string {
			return "for " + durationText(d)
		}))
	}
	if c.Redelivers.Value {
		list = append(list, marked(c.Redelivers, func(bool) string { return "on request" }))
	}
	return strings.Join(list, ", ")
}

func idText(s *provider.Scheme) string {
	var list []string
	for _, place := range (provider.IDFrom{}).Places(s) {
		list = append(list, "`"+place.String()+"`")
	}
	if s.Batch != nil {
		list = append(list, "of each item in `"+s.Batch.Items.String()+"`")
	}
	return strings.Join(list, ", ")
}

func handshakeText(s *provider.Scheme) string {
	var list []string
	for _, rule := range s.Handshakes {
		list = append(list, rule.Name)
	}
	return strings.Join(list, ", ")
}

func proofText(s *provider.Scheme) string {
	var list []string
	for i := range s.AnyOf {
		v := &s.AnyOf[i]
		for j := range v.Proofs {
			text := v.Proofs[j].Algorithm.String()
			if v.Signature.Kind != provider.SourceNone {
				text += " in `" + v.Signature.String() + "`"
			}
			if v.Legacy {
				text += " (legacy)"
			}
			if !slices.Contains(list, text) {
				list = append(list, text)
			}
		}
	}
	return strings.Join(list, ", ")
}
