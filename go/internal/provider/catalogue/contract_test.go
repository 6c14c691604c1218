package catalogue_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/go/internal/provider"
	"sluice/go/internal/provider/catalogue"
)

// general are the profiles that stand for a way to sign and not for a sender, so that nobody can
// say how they deliver.
var general = []string{"basic-auth", "bearer-token", "none", "rfc9421", "url-token"}

// evidence is what a fact says of itself.
type evidence struct {
	name, source, checked string
	verified              bool
}

func evidenceOf[T any](name string, f provider.Fact[T]) evidence {
	return evidence{name, f.Source, f.Checked, f.Verified}
}

func factsOf(c *provider.Contract) []evidence {
	all := []evidence{
		evidenceOf("deadline", c.Deadline), evidenceOf("connect_deadline", c.ConnectDeadline),
		evidenceOf("success_status", c.SuccessStatus),
		evidenceOf("success_statuses", c.SuccessStatuses),
		evidenceOf("empty_success", c.EmptySuccess), evidenceOf("shed_status", c.ShedStatus),
		evidenceOf("never_retries", c.NeverRetries), evidenceOf("retries", c.Retries),
		evidenceOf("retry_window", c.RetryWindow), evidenceOf("retry_statuses", c.RetryStatuses),
		evidenceOf("drop_statuses", c.DropStatuses),
		evidenceOf("honours_retry_after", c.HonoursRetryAfter),
		evidenceOf("disable_after", c.DisableAfter),
		evidenceOf("disable_statuses", c.DisableStatuses), evidenceOf("ordered", c.Ordered),
		evidenceOf("probes_bad_signatures", c.ProbesBadSignatures),
		evidenceOf("retry_headers", c.RetryHeaders), evidenceOf("redelivers", c.Redelivers),
	}
	return slices.DeleteFunc(all, func(e evidence) bool { return e.source == "" })
}

func TestEveryProfileSaysHowItsSenderDelivers(t *testing.T) {
	titles := map[string]string{}
	verified := 0
	for _, name := range catalogue.Names() {
		scheme := lookup(t, name)
		if other := titles[strings.ToLower(scheme.Title)]; other != "" || scheme.Title == "" {
			t.Errorf("%s: the title %q is that of %q", name, scheme.Title, other)
		}
		titles[strings.ToLower(scheme.Title)] = name
		c := &scheme.Contract
		if slices.Contains(general, name) {
			if len(factsOf(c)) > 0 {
				t.Errorf("%s is a way to sign and delivers nothing", name)
			}
			continue
		}
		if !c.Deadline.Known() || !c.SuccessStatus.Known() ||
			!c.NeverRetries.Known() && !c.Retries.Known() && !c.RetryWindow.Known() {
			t.Errorf("%s lacks deadline, success_status or what it tries again", name)
		}
		for _, e := range factsOf(c) {
			// A host alone is no place where a value can be looked up again.
			if !strings.ContainsAny(e.source, "/,") {
				t.Errorf("%s: %s is from %q, which is no page", name, e.name, e.source)
			}
			if e.checked != "" && !e.verified {
				t.Errorf("%s: %s was read at its source and is not verified", name, e.name)
			}
			if e.verified {
				verified++
			}
		}
		judgeContract(t, name, c)
	}
	t.Logf("%d facts are verified", verified)
}

// judgeContract finds values that contradict each other.
func judgeContract(t *testing.T, name string, c *provider.Contract) {
	t.Helper()
	if d := c.Deadline.Value; d < time.Second || d > 2*time.Minute || c.ConnectDeadline.Value > d {
		t.Errorf("%s: deadline %v, to connect %v", name, d, c.ConnectDeadline.Value)
	}
	if c.NeverRetries.Value && (c.Retries.Value > 0 || c.RetryWindow.Value > 0) {
		t.Errorf("%s never tries again and does", name)
	}
	success := c.SuccessStatuses.Value
	if len(success) > 0 && !slices.Contains(success, c.SuccessStatus.Value) ||
		c.SuccessStatus.Value/100 != 2 {
		t.Errorf("%s: %d is no success", name, c.SuccessStatus.Value)
	}
	shed := c.ShedStatus.Or(503)
	if slices.Contains(c.DropStatuses.Value, shed) ||
		slices.Contains(c.DisableStatuses.Value, shed) || slices.Contains(success, shed) ||
		c.RetryStatuses.Known() && !slices.Contains(c.RetryStatuses.Value, shed) {
		t.Errorf("%s: whoever is turned away with %d does not come back", name, shed)
	}
	for _, list := range [][]int{c.RetryStatuses.Value, c.DropStatuses.Value,
		c.DisableStatuses.Value} {
		for _, status := range list {
			if status < 300 || status > 599 || slices.Contains(success, status) {
				t.Errorf("%s: %d is no refusal", name, status)
			}
		}
	}
	for _, status := range c.RetryStatuses.Value {
		if slices.Contains(c.DropStatuses.Value, status) {
			t.Errorf("%s both tries again and does not after %d", name, status)
		}
	}
}
