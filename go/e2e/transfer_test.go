package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	pb "sluice/proto/sluice/v1"
)

// TestAnotherHostDeliversWhatThisOneCouldNot moves what one installation has to another: the
// backlog of a destination that is down among it, and an event that it had delivered.
func TestAnotherHostDeliversWhatThisOneCouldNot(t *testing.T) {
	old, next := newSink(t), newSink(t)
	text := func(to *sink) string {
		return "sources:\n" + githubSource("github", "durable", "billing") +
			"destinations:\n" + to.config("billing")
	}
	from, to := install(t, text(old)), install(t, text(next))
	from.start()
	to.start()
	done := from.accepted(github("/hooks/github", "done", `{"n":-1}`))
	from.awaitDelivered()
	old.code.Store(503)
	bodies := map[string]string{}
	for n := range 20 {
		body := fmt.Sprintf(`{"n":%d,"pad":"%s"}`, n, strings.Repeat("x", n*40_000))
		bodies[from.accepted(github("/hooks/github", fmt.Sprint("move-", n), body))] = body
	}
	from.stop()
	from.start() // what was queued is not lost by a stop
	file := filepath.Join(t.TempDir(), "events.ndjson")
	must(t, os.WriteFile(file, []byte(from.mustRun("events", "export")), 0o600))
	from.stop()
	type sums struct{ Imported, Known, Duplicates int }
	for n, want := range []sums{{Imported: 21}, {Known: 21}} {
		if got := jsonOf[sums](to, "events", "import", file)[0]; got != want {
			t.Errorf("import %d: %+v, want %+v", n+1, got, want)
		}
	}
	to.awaitDelivered()
	for _, d := range next.all() {
		if body, ok := bodies[d.key]; !ok || d.body != body {
			t.Errorf("delivered %s with %d bytes, want %d", d.key, len(d.body), len(body))
		}
	}
	if n := next.len(); n != len(bodies) {
		t.Errorf("%d deliveries, want %d: one each, and none of what was delivered", n, len(bodies))
	}
	e := to.event(done)
	if e.GetEvent().GetState() != "delivered" || string(e.GetBody()) != `{"n":-1}` {
		t.Errorf("the delivered one is %v", e)
	}
	found := to.events(&pb.EventFilter{ProviderId: "move-7", Type: "push"})
	if len(found) != 1 || bodies[found[0].GetId()] == "" {
		t.Errorf("found %v by the sender's id and type", found)
	}
	// Here they are known as well.
	a, err := to.send(github("/hooks/github", "move-7", `{}`))
	must(t, err)
	if a.code != 200 || to.status().GetSources()[0].GetAccepted() != 21 {
		t.Errorf("a repeat after the move: %v, %v", a, to.status().GetSources())
	}
}

// TestARaceOfOneIDOnTwoConnectionsIsOneEvent sends each id twice at the same moment.
func TestARaceOfOneIDOnTwoConnectionsIsOneEvent(t *testing.T) {
	to := newSink(t)
	i := install(t, "workers: 2\nsources:\n"+githubSource("github", "durable", "billing")+
		"destinations:\n"+to.config("billing"))
	i.start()
	const ids = 100
	one, two := i.dial(t), i.dial(t)
	race := func(round string, codes map[int]int) {
		for n := range ids {
			text := github("/hooks/github", fmt.Sprint("race-", n), `{"round":"`+round+`"}`).bytes()
			var both sync.WaitGroup
			var mu sync.Mutex
			start := make(chan struct{})
			for _, w := range []*wire{one, two} {
				both.Go(func() {
					<-start
					if err := w.write(text); err != nil {
						t.Error(err)
						return
					}
					a, err := w.read("POST")
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					codes[a.code]++
					mu.Unlock()
				})
			}
			close(start)
			both.Wait()
		}
	}
	codes := map[int]int{}
	race("first", codes)
	i.awaitDelivered() // an attempt whose outcome a crash takes is made again
	i.killBoth()
	i.start()
	one, two = i.dial(t), i.dial(t)
	race("after a crash", codes)
	if codes[200] != 4*ids {
		t.Errorf("answers %v, want 200 alone", codes)
	}
	i.awaitDelivered()
	listed := i.events(nil)
	if len(listed) != ids || to.len() != ids {
		t.Errorf("%d events and %d deliveries of %d ids", len(listed), to.len(), ids)
	}
}
