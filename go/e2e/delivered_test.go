package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	pb "sluice/proto/sluice/v1"
)

// answering answers with a status, a type and a body.
func answering(code int, contentType, text string) mood {
	return func(w http.ResponseWriter, _ *http.Request, _ string) bool {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		_, _ = fmt.Fprint(w, text)
		return code/100 == 2
	}
}

// waiting is a source whose sender waits for its destinations.
func waiting(name, respond, deadline, deliver string) string {
	return githubSource(name, "delivered", deliver) +
		fmt.Sprintf("    respond: %s\n    deadline: %s\n", respond, deadline)
}

func TestASenderHearsItsDestination(t *testing.T) {
	to, second := newMoody(t), newMoody(t)
	i := install(t, "sources:\n"+waiting("asks", "destination", "10s", "first, second")+
		waiting("own", "own", "10s", "first, second")+"destinations:\n"+to.impatient("first")+
		second.impatient("second"))
	i.start()
	for n, c := range []struct {
		name         string
		first, other int
		asks, own    int
	}{
		{"both took it", 201, 200, 201, 200},
		{"the first refused it for good", 422, 200, 422, 200},
		{"the second refused it for good", 200, 410, 200, 200},
		{"the first may take it later", 503, 200, 202, 202},
		{"the second may take it later", 200, 429, 202, 202},
	} {
		const text = `{"type":4,"data":{"content":"pong é"}}`
		to.set(answering(c.first, "application/vnd.test+json; charset=utf-8", text))
		second.set(answering(c.other, "text/plain", "never heard"))
		for source, want := range map[string]int{"asks": c.asks, "own": c.own} {
			a, err := i.send(github("/hooks/"+source, fmt.Sprintf("%s-%d", source, n), "{}"))
			must(t, err)
			if a.code != want {
				t.Errorf("%s, %s: %v, want %d", c.name, source, a, want)
				continue
			}
			switch {
			case want == 202:
				if !queued(a) {
					t.Errorf("%s, %s: 202 without its fields: %v", c.name, source, a)
				}
			case source == "asks":
				if a.body != text || a.get("Content-Type") !=
					"application/vnd.test+json; charset=utf-8" {
					t.Errorf("%s: the destination said %q, the sender heard %v", c.name, text, a)
				}
			case !strings.Contains(a.body, `"accepted"`) || a.get("X-Event-Id") == "":
				t.Errorf("%s, %s: %v", c.name, source, a)
			}
		}
		to.set(well) // what was to be tried again goes now, and the breakers stay closed
		second.set(well)
		eventually(t, "nothing waits", func() bool {
			return len(i.events(&pb.EventFilter{State: "retrying"})) == 0 &&
				i.breaker("first").GetState() == "closed" &&
				i.breaker("second").GetState() == "closed"
		})
	}
	// What was refused for good is a dead letter, and the sender was told that it is ours.
	i.awaitDelivered()
	if dead := i.events(&pb.EventFilter{State: "dead"}); len(dead) != 4 {
		t.Errorf("%d dead letters, want 4", len(dead))
	}
	i.stop()
}

func TestASenderIsNotKeptWaitingByASlowDestination(t *testing.T) {
	to := newMoody(t)
	i := install(t, "sources:\n"+waiting("github", "destination", "1500ms", "billing")+
		"destinations:\n  billing:\n"+fmt.Sprintf("    http: {url: %q, timeout: 30s}\n", to.url))
	i.start()
	release := make(chan struct{})
	to.set(func(w http.ResponseWriter, r *http.Request, body string) bool {
		<-release
		return well(w, r, body)
	})
	began := time.Now()
	a, err := i.send(github("/hooks/github", "d-1", "{}"))
	must(t, err)
	if !queued(a) {
		t.Errorf("after %v: %v", time.Since(began), a)
	}
	// The sender asks again while the first attempt is still under way.
	if again, err := i.send(github("/hooks/github", "d-1", "{}")); err != nil || again.code != 202 {
		t.Errorf("a repeat of what is not delivered: %v, %v", again, err)
	}
	close(release)
	eventually(t, "it is delivered", func() bool { return len(to.all()) == 1 })
	eventually(t, "a repeat of what is delivered is a duplicate", func() bool {
		again, err := i.send(github("/hooks/github", "d-1", "{}"))
		must(t, err)
		return again.code == 200 && strings.Contains(again.body, "duplicate")
	})
	if n := len(to.all()); n != 1 {
		t.Errorf("delivered %d times", n)
	}
	i.stop()
}

func TestAnOpenBreakerAnswersAtOnceWhereASenderWouldWait(t *testing.T) {
	to := newMoody(t)
	i := install(t, "sources:\n"+waiting("github", "destination", "30s", "billing")+
		"destinations:\n"+to.impatient("billing"))
	i.start()
	i.run("breaker", "open", "billing")
	for n := range 50 { // with a wait of half a minute each, patience would be over
		if a := i.post("/hooks/github", fmt.Sprintf("d-%d", n), "{}"); !queued(a) {
			t.Fatalf("held open: %v", a)
		}
	}
	i.run("breaker", "close", "billing")
	eventually(t, "all are delivered", func() bool { return len(to.all()) == 50 })
	a, err := i.send(github("/hooks/github", "last", "{}"))
	must(t, err)
	if a.code != 200 {
		t.Errorf("closed again: %v", a)
	}
	i.stop()
}

func TestARestartStillAnswersThoseWhoWait(t *testing.T) {
	to := newMoody(t)
	i := install(t, "sources:\n"+waiting("github", "destination", "30s", "billing")+
		"destinations:\n  billing:\n"+fmt.Sprintf("    http: {url: %q, timeout: 60s}\n", to.url))
	i.start()
	arrived := make(chan struct{}, 16)
	to.set(func(_ http.ResponseWriter, r *http.Request, _ string) bool {
		arrived <- struct{}{}
		<-r.Context().Done() // until its caller is killed
		return false
	})
	heard := make(chan *answer, 4)
	for n := range cap(heard) {
		w := i.dial(t)
		go func() {
			a, err := w.exchange(github("/hooks/github", fmt.Sprintf("d-%d", n), "{}"))
			if err != nil {
				t.Error(err)
			}
			heard <- a
		}()
	}
	for range cap(heard) {
		<-arrived
	}
	to.set(answering(200, "text/plain", "after all"))
	i.killControl()
	i.start()
	for range cap(heard) {
		if a := <-heard; a == nil || a.code != 200 || a.body != "after all" {
			t.Errorf("after a restart: %v", a)
		}
	}
	i.stop()
}
