package e2e

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"sluice/go/internal/faultpoint"
	pb "sluice/proto/sluice/v1"
)

// batches is a source whose bodies are lists of events, each with an id and a type.
func batches(name string, splits bool) string {
	return fmt.Sprintf("  %s:\n    path: /hooks/%s\n    secrets: [%q]\n    split: %v\n"+
		"    deliver: [billing]\n    verify:\n      signature: header:X-Signature\n"+
		"      algorithm: hmac-sha256\n      encoding: hex\n      content: [body]\n"+
		"      batch: {items: body, id: json:/id, type: json:/event}\n", name, name, secret, splits)
}

func batch(body string) request {
	return request{path: "/hooks/mail", body: body, fields: []field{
		{"Content-Type", "application/json"}, {"X-Signature", hmacHex(secret, body)},
	}}
}

// items is a body with so many events.
func items(prefix string, n int) string {
	var list []string
	for k := range n {
		list = append(list, fmt.Sprintf(`{"id":"%s-%d","event":"open"}`, prefix, k))
	}
	return "[" + strings.Join(list, ",\r\n ") + "]"
}

func TestEachItemOfABatchIsDeliveredAndFoundByItself(t *testing.T) {
	to := newSink(t)
	i := install(t, "sources:\n"+batches("mail", true)+"destinations:\n"+to.config("billing"))
	i.start()
	original := i.accepted(batch(items("a", 3)))
	i.awaitDelivered() // or an item of the next one may be the first of its id
	i.accepted(batch(`[{"id":"a-1","event":"open"}, {"id":"a-3","event":"click"}]`))
	i.awaitDelivered()
	var bodies, keys []string
	for _, d := range to.all() {
		bodies, keys = append(bodies, d.body), append(keys, d.key)
		if of, _ := value(d.fields, "X-Event-Batch"); of == "" || d.target != "/in" {
			t.Errorf("delivered to %s with the fields %v", d.target, d.fields)
		}
	}
	slices.Sort(bodies)
	want := []string{`{"id":"a-0","event":"open"}`, `{"id":"a-1","event":"open"}`,
		`{"id":"a-2","event":"open"}`, `{"id":"a-3","event":"click"}`}
	if !slices.Equal(bodies, want) {
		t.Fatalf("delivered %q", bodies)
	}
	clicks := i.events(&pb.EventFilter{Type: "click"})
	if len(clicks) != 1 || clicks[0].GetProviderId() != "a-3" {
		t.Errorf("clicks: %v", clicks)
	}
	if again := i.events(&pb.EventFilter{State: "duplicate"}); len(again) != 1 ||
		again[0].GetProviderId() != "a-1" {
		t.Errorf("repeats: %v", again)
	}
	shown := i.event(original)
	if len(shown.GetItems()) != 3 || string(shown.GetBody()) != items("a", 3) {
		t.Fatalf("the original: %v", shown)
	}
	for n, id := range shown.GetItems() {
		item := i.event(id)
		if item.GetBatch() != original || item.GetItem() != uint32(n) || len(item.GetItems()) != 0 ||
			item.GetEvent().GetProviderId() != fmt.Sprint("a-", n) || !slices.Contains(keys, id) {
			t.Errorf("item %d: %v", n, item)
		}
	}
	text := i.mustRun("events", "show", original)
	if !strings.Contains(text, shown.GetItems()[2]) {
		t.Errorf("events show: %s", text)
	}
}

func TestABodyThatCannotBeTakenApartIsDeliveredWhole(t *testing.T) {
	to := newSink(t)
	i := install(t, "sources:\n"+batches("mail", true)+"destinations:\n"+to.config("billing"))
	i.start()
	for _, body := range []string{`{"id":"no list"}`, "no JSON", items("b", 5000)} {
		i.accepted(batch(body))
	}
	i.awaitDelivered()
	if got := to.len(); got != 3 {
		t.Errorf("%d are delivered", got)
	}
	counted := i.metric("webhook_batches_whole_total")
	if counted[`{source="mail"}`] != "3" {
		t.Errorf("counted: %v", counted)
	}
	// What still is to be taken apart when nobody splits any more goes on whole.
	i.configure("sources:\n" + batches("mail", false) + "destinations:\n" + to.config("billing"))
	i.mustRun("reload")
	i.accepted(batch(items("c", 2)))
	i.awaitDelivered()
	if last := to.all()[3:]; len(last) != 1 || last[0].body != items("c", 2) {
		t.Errorf("delivered %v", last)
	}
}

func TestACrashAtEachStepOfABatchMakesEachItemOnce(t *testing.T) {
	random := seeded(t)
	const many = 300 // two groups
	points := []faultpoint.Point{
		faultpoint.IntakeVerified, faultpoint.CommitDurable, faultpoint.AttemptLeased,
		faultpoint.OutcomeMade, faultpoint.OutcomeDurable,
	}
	to := newSink(t)
	i := install(t, "sources:\n"+batches("mail", true)+"destinations:\n"+to.config("billing"))
	sent := 0
	for _, point := range points {
		for range count(1, 5) {
			n := []int{1, 2, 3 + random.IntN(10)}[random.IntN(3)]
			t.Logf("kill at %s, pass %d", point, n)
			i.launch("--fault-point", fmt.Sprintf("%s:%d", point, n))
			// Until one is taken: the process may end before, between or behind two of them.
			for prefix := fmt.Sprint(sent); !i.exited(); {
				a, err := i.send(batch(items(prefix, many)))
				if err == nil && a.code == 200 {
					sent++
					prefix = fmt.Sprint(sent)
				}
			}
			if random.IntN(2) == 0 {
				i.killPlanes()
			}
			i.start()
			eventually(t, "the last one is taken", func() bool {
				a, err := i.send(batch(items(fmt.Sprint(sent), many)))
				return err == nil && a.code == 200
			})
			sent++
			i.awaitDelivered()
			i.killBoth()
		}
	}
	i.start()
	i.onceEach(sent*many, to)
	i.killBoth()
	state, _ := i.control.ProcessState.Sys().(syscall.WaitStatus)
	if !state.Signaled() {
		t.Error("no process was killed")
	}
}

// onceEach holds the events that are stored and delivered against the number of items that were
// sent: each has its own id.
func (i *installation) onceEach(count int, to *sink) {
	i.t.Helper()
	stored := map[string]int{}
	for _, e := range i.events(nil) {
		if e.GetType() == "open" {
			stored[e.GetProviderId()]++
		}
	}
	for id, n := range stored {
		if n != 1 {
			i.t.Errorf("%s is stored %d times", id, n)
		}
	}
	got := map[string]bool{}
	for _, d := range to.all() {
		got[d.body] = true
	}
	if len(stored) != count || len(got) != count {
		i.t.Errorf("%d are stored and %d delivered, want %d", len(stored), len(got), count)
	}
}
