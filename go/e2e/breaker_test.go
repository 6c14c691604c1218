package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pb "sluice/proto/sluice/v1"
)

// mood answers a request and tells whether it took the body.
type mood func(w http.ResponseWriter, r *http.Request, body string) bool

// moody is a destination whose mood a test sets. It notes what it took and what it was asked.
type moody struct {
	url string

	mu      sync.Mutex
	answer  mood
	taken   []string // bodies, in the order in which it took them
	asked   int
	at      []time.Time // of each request
	present int         // requests in it
	most    int         // at once, since the last look
}

func newMoody(t testing.TB) *moody {
	t.Helper()
	m := &moody{}
	server := httptest.NewServer(m)
	t.Cleanup(server.CloseClientConnections)
	t.Cleanup(server.Close)
	m.url = server.URL + "/in"
	m.set(well)
	return m
}

func (m *moody) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	m.mu.Lock()
	m.asked++
	m.at = append(m.at, time.Now())
	m.present++
	m.most = max(m.most, m.present)
	answer := m.answer
	m.mu.Unlock()
	took := false
	defer func() { // an answer may abort the connection by a panic
		m.mu.Lock()
		defer m.mu.Unlock()
		m.present--
		if took {
			m.taken = append(m.taken, string(body))
		}
	}()
	took = answer(w, r, string(body))
}

func (m *moody) set(answer mood) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answer = answer
}

// look gives how many requests came in all, and how many were in it at once since the last look.
func (m *moody) look() (asked, most int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	most, m.most = m.most, m.present
	return m.asked, most
}

func (m *moody) all() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.taken)
}

func well(w http.ResponseWriter, _ *http.Request, _ string) bool {
	w.WriteHeader(http.StatusOK)
	return true
}

func sick(w http.ResponseWriter, _ *http.Request, _ string) bool {
	w.WriteHeader(http.StatusInternalServerError)
	return false
}

// impatient is a destination with a breaker that is quick enough for a test.
func (m *moody) impatient(name string) string {
	return fmt.Sprintf("  %s:\n    http: {url: %q, timeout: 2s}\n"+
		"    retry: {base: 50ms, max: 200ms, attempts: 1000}\n"+
		"    breaker: {failures: 5, cooldown: 300ms, cooldown_max: 1s, ramp: [100, 400], "+
		"ramp_step: 200ms}\n", name, m.url)
}

// queued tells whether an answer is the one for an event that waits behind an open breaker.
func queued(a *answer) bool {
	return a.code == 202 && a.get("X-Execution-Mode") == "Queued-Async" &&
		a.get("X-System-Degraded") == "true" && a.get("X-Execution-Path") == "Queue-Only" &&
		a.get("X-Event-Id") != ""
}

func (i *installation) breaker(name string) (found *pb.Breaker) {
	i.t.Helper()
	i.ask(func(ctx context.Context, api pb.AdminClient) error {
		list, err := api.ListBreakers(ctx, &pb.ListBreakersRequest{})
		for _, b := range list.GetBreakers() {
			if b.GetName() == name {
				found = b
			}
		}
		return err
	})
	if found == nil {
		i.t.Fatalf("no breaker %s", name)
	}
	return found
}

// post sends one signed event that must be taken, whatever its answer says of its delivery.
func (i *installation) post(path, id, body string) *answer {
	i.t.Helper()
	a, err := i.send(github(path, id, body))
	must(i.t, err)
	if a.code != 200 && !queued(a) {
		i.t.Fatalf("event %s was answered %v", id, a)
	}
	return a
}

func TestASickDestinationIsLeftAloneAndComesBackInOrder(t *testing.T) {
	to := newMoody(t)
	i := install(t, "sources:\n"+githubSource("github", "durable", "billing")+
		"    order_by: source\ndestinations:\n"+to.impatient("billing"))
	i.start()
	sent := 0
	next := func() *answer {
		sent++
		return i.post("/hooks/github", fmt.Sprintf("d-%d", sent), fmt.Sprintf("{\"n\":%d}", sent))
	}
	for range 3 {
		if a := next(); a.code != 200 {
			t.Fatalf("a well destination: %v", a)
		}
	}
	eventually(t, "three are delivered", func() bool { return len(to.all()) == 3 })

	to.set(sick)
	next()
	eventually(t, "the breaker opens", func() bool {
		return i.breaker("billing").GetState() != "closed"
	})
	to.look()
	asked, _ := to.look()
	began := time.Now()
	for range count(150, 2000) {
		if a := next(); !queued(a) {
			t.Fatalf("while it is open: %v", a)
		}
	}
	// Probes come one at a time, the first two a third and two thirds of a second after the trip.
	now, most := to.look()
	if bound := 3 + int(time.Since(began)/(300*time.Millisecond)); now-asked > bound || most > 1 {
		t.Errorf("%d requests, %d at once, reached a destination that is left alone for %v",
			now-asked, most, time.Since(began))
	}
	if values := i.metric("webhook_breaker_state"); values[`{destination="billing"}`] == "0" {
		t.Errorf("the metric says that it is closed: %v", values)
	}
	if s := i.status().GetDestinations()[0]; s.GetBreaker() == "closed" || s.GetBacklog() == 0 {
		t.Errorf("status: %v", s)
	}

	to.set(well)
	eventually(t, "the backlog is gone and the breaker closed", func() bool {
		return len(to.all()) >= sent && i.breaker("billing").GetState() == "closed"
	})
	var want []string
	for n := range sent {
		want = append(want, fmt.Sprintf("{\"n\":%d}", n+1))
	}
	if got := to.all(); !slices.Equal(got, want) {
		t.Errorf("not each once and in order: %d came of %d", len(got), len(want))
	}
	if a := next(); a.code != 200 {
		t.Errorf("a closed breaker: %v", a)
	}
	i.stop()
}

func TestAnOperatorOpensAndClosesABreaker(t *testing.T) {
	to := newMoody(t)
	i := install(t, "sources:\n"+githubSource("github", "durable", "billing")+
		"destinations:\n"+to.impatient("billing"))
	i.start()
	if out, stderr, code := i.run("breaker", "open", "billing"); code != 0 {
		t.Fatalf("breaker open: %d, %s%s", code, out, stderr)
	}
	for n := range 20 {
		if a := i.post("/hooks/github", fmt.Sprintf("d-%d", n), "{}"); !queued(a) {
			t.Fatalf("held open: %v", a)
		}
	}
	if n := len(to.all()); n > 0 {
		t.Errorf("%d events passed a breaker that is held open", n)
	}
	out, _, _ := i.run("breaker", "list", "--json")
	if !strings.Contains(out, `"name":"billing"`) || !strings.Contains(out, `"state":"open"`) {
		t.Errorf("breaker list: %s", out)
	}
	if _, stderr, code := i.run("breaker", "open", "biling"); code != 1 ||
		!strings.Contains(stderr, "billing") {
		t.Errorf("a breaker that is none: %d, %s", code, stderr)
	}
	if _, stderr, code := i.run("breaker", "auto", "billing"); code != 0 {
		t.Fatalf("breaker auto: %d, %s", code, stderr)
	}
	eventually(t, "it closes by itself", func() bool {
		return len(to.all()) == 20 && i.breaker("billing").GetState() == "closed"
	})
	i.stop()
}

func TestBreakersAreWatched(t *testing.T) {
	to := newMoody(t)
	i := install(t, "sources:\n"+githubSource("github", "durable", "billing")+
		"destinations:\n"+to.impatient("billing"))
	i.start()
	to.set(sick)
	i.ask(func(ctx context.Context, api pb.AdminClient) error {
		stream, err := api.WatchBreakers(ctx, &pb.WatchBreakersRequest{})
		if err != nil {
			return err
		}
		first, err := stream.Recv()
		if err != nil || first.GetBreaker().GetState() != "closed" || first.GetFrom() != "" {
			t.Errorf("the first: %v, %v", first, err)
		}
		i.post("/hooks/github", "d-1", "{}")
		var seen []string
		for from := "closed"; len(seen) < 8; {
			change, err := stream.Recv()
			if err != nil {
				return err
			}
			state := change.GetBreaker().GetState()
			if change.GetFrom() != from {
				t.Errorf("%s → %s after %v", change.GetFrom(), state, seen)
			}
			from = state
			if seen = append(seen, state); state == "closed" {
				return nil
			}
			if len(seen) == 3 { // open, half open, open again
				to.set(well)
			}
		}
		t.Errorf("it never closed: %v", seen)
		return nil
	})
	i.stop()
}

func TestOneSickDestinationLeavesTheOthersAlone(t *testing.T) {
	ill, fine := newMoody(t), newMoody(t)
	i := install(t, "sources:\n"+githubSource("github", "durable", "ill, fine")+
		githubSource("other", "durable", "fine")+"destinations:\n"+ill.impatient("ill")+
		fine.impatient("fine"))
	i.start()
	hung := make(chan struct{})
	t.Cleanup(func() { close(hung) })
	ill.set(func(_ http.ResponseWriter, r *http.Request, _ string) bool { // hangs
		select {
		case <-hung:
		case <-r.Context().Done():
		}
		return false
	})
	for n := range 100 {
		i.post("/hooks/github", fmt.Sprintf("d-%d", n), fmt.Sprint(n))
		if a := i.post("/hooks/other", fmt.Sprintf("o-%d", n), fmt.Sprint(n)); a.code != 200 {
			t.Fatalf("a source that never goes to the sick one: %v", a)
		}
	}
	eventually(t, "the well one has all", func() bool { return len(fine.all()) == 200 })
	eventually(t, "the hanging one is left alone", func() bool {
		return i.breaker("ill").GetState() == "open"
	})
	if state := i.breaker("fine").GetState(); state != "closed" {
		t.Errorf("the well one is %s", state)
	}
	i.stop()
}

// replaced puts a text in another's place; it must be there.
func replaced(t testing.TB, text, old, with string) string {
	t.Helper()
	if !strings.Contains(text, old) {
		t.Fatalf("%q is not in\n%s", old, text)
	}
	return strings.ReplaceAll(text, old, with)
}
