package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	pb "sluice/proto/sluice/v1"
)

func TestDeadLettersAreReplayedSlowlyAndElsewhere(t *testing.T) {
	to, spare := newMoody(t), newMoody(t)
	i := install(t, "sources:\n"+githubSource("github", "durable", "billing")+
		"destinations:\n"+to.impatient("billing")+spare.impatient("spare"))
	i.start()
	to.set(answering(410, "text/plain", "gone"))
	const events = 20
	for n := range events {
		i.post("/hooks/github", fmt.Sprintf("d-%d", n), fmt.Sprint(n))
	}
	dead := func() int { return len(i.events(&pb.EventFilter{State: "dead"})) }
	eventually(t, "all are dead letters", func() bool { return dead() == events })

	out, stderr, code := i.run("dlq", "replay", "--all", "--to", "spare", "--dry-run")
	if code != 0 || !strings.Contains(out, fmt.Sprint(events)) {
		t.Errorf("dry run: %d %s%s", code, out, stderr)
	}
	if n := len(spare.all()); n != 0 {
		t.Errorf("a dry run delivered %d", n)
	}
	if _, stderr, code := i.run("dlq", "replay", "--all", "--to", "spare", "--rate",
		"20/s"); code != 0 {
		t.Fatalf("replay: %d %s", code, stderr)
	}
	eventually(t, "all went elsewhere", func() bool { return len(spare.all()) == events })
	i.awaitDelivered()
	if n := dead(); n != events {
		t.Errorf("%d dead letters are left of %d: they were sent elsewhere, not taken", n, events)
	}
	if spread := spare.at[events-1].Sub(spare.at[0]); spread < 800*time.Millisecond {
		t.Errorf("20 a second took %v for %d", spread, events)
	}

	to.set(well)
	ids := map[string]bool{}
	for _, e := range i.events(&pb.EventFilter{State: "dead"})[:5] {
		ids[e.GetId()] = true
		if _, stderr, code := i.run("dlq", "replay", e.GetId()); code != 0 {
			t.Fatalf("replay one: %d %s", code, stderr)
		}
	}
	eventually(t, "five are delivered", func() bool { return len(to.all()) == 5 })
	if _, stderr, code := i.run("dlq", "drop", "--all", "--reason", "a test of ours"); code != 0 {
		t.Fatalf("drop: %d %s", code, stderr)
	}
	list, _, _ := i.run("dlq", "list", "--json")
	if strings.TrimSpace(list) != "" {
		t.Errorf("dead letters after a drop: %s", list)
	}
	for _, e := range i.events(nil) {
		told := slices.ContainsFunc(i.event(e.GetId()).GetAttempts(), func(a *pb.Attempt) bool {
			return a.GetBy() != "" && (a.GetOutcome() == "replay" || a.GetOutcome() == "drop" &&
				a.GetError() == "a test of ours")
		})
		if !told {
			t.Errorf("event %s does not tell who did what", e.GetId())
		}
	}
	i.stop()
}

func TestADeadLetterHoldsItsKeyWhereItIsToBlock(t *testing.T) {
	for _, mode := range []string{"block", "skip"} {
		t.Run(mode, func(t *testing.T) {
			to := newMoody(t)
			i := install(t, "sources:\n"+githubSource("github", "durable", "billing")+
				"    order_by: json:/account\ndestinations:\n"+to.impatient("billing")+
				"    on_dead: "+mode+"\n")
			i.start()
			to.set(answering(422, "text/plain", "no"))
			first := i.post("/hooks/github", "a-1", `{"account":"a","n":1}`).get("X-Event-Id")
			eventually(t, "it is a dead letter", func() bool {
				return len(i.events(&pb.EventFilter{State: "dead"})) == 1
			})
			to.set(well)
			for n := 2; n <= 4; n++ {
				i.post("/hooks/github", fmt.Sprintf("a-%d", n), fmt.Sprintf(`{"account":"a","n":%d}`, n))
			}
			i.post("/hooks/github", "b-1", `{"account":"b"}`)
			a := []string{`{"account":"a","n":2}`, `{"account":"a","n":3}`, `{"account":"a","n":4}`}
			if mode == "skip" {
				eventually(t, "later ones pass", func() bool { return len(to.all()) == 4 })
			} else {
				eventually(t, "another key passes", func() bool { return len(to.all()) == 1 })
				if got := to.all(); got[0] != `{"account":"b"}` {
					t.Fatalf("passed the blocked key: %q", got)
				}
				i.killBoth() // what is blocked stays so
				i.start()
				if out, stderr, code := i.run("dlq", "replay", first); code != 0 {
					t.Fatalf("replay: %d %s%s", code, out, stderr)
				}
				eventually(t, "the key is free", func() bool { return len(to.all()) == 5 })
				a = append([]string{`{"account":"a","n":1}`}, a...)
			}
			var got []string
			for _, body := range to.all() {
				if strings.Contains(body, `"a"`) {
					got = append(got, body)
				}
			}
			if !slices.Equal(got, a) {
				t.Errorf("%q, want %q", got, a)
			}
			i.stop()
		})
	}
}
