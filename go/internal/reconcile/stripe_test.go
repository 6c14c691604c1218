package reconcile

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// payments speaks Stripe's list of events: docs.stripe.com/api/events/list and
// docs.stripe.com/api/pagination.
type payments struct {
	t testing.TB

	mu       sync.Mutex
	events   []payment // the newest first
	pageSize int
	asked    []url.Values
	before   func(w http.ResponseWriter, r *http.Request) bool
}

type payment struct {
	id        string
	created   time.Time
	delivered bool
	kind      string
}

func newPayments(t testing.TB) (*payments, string) {
	p := &payments{t: t, pageSize: 2}
	return p, served(t, httptest.NewServer(p))
}

// add adds an event that is younger than those before.
func (p *payments) add(id string, age time.Duration, delivered bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = slices.Insert(p.events, 0, payment{id, ago(age), delivered, "invoice.paid"})
}

func (p *payments) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := r.URL.Query()
	p.asked = append(p.asked, q)
	if p.before != nil && p.before(w, r) {
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+theToken || r.URL.Path != "/v1/events" {
		http.Error(w, `{"error":{}}`, http.StatusUnauthorized)
		return
	}
	bound := func(name string) time.Time {
		n, err := strconv.ParseInt(q.Get(name), 10, 64)
		must(p.t, err)
		return time.Unix(n, 0)
	}
	size, _ := strconv.Atoi(q.Get("limit"))
	size = min(size, p.pageSize)
	data, more := []any{}, false
	passed := q.Get("starting_after") == ""
	for _, e := range p.events {
		fits := !e.created.Before(bound("created[gte]")) && e.created.Before(bound("created[lt]")) &&
			(q.Get("delivery_success") == "" || q.Get("delivery_success") == fmt.Sprint(e.delivered)) &&
			(q["types[]"] == nil || slices.Contains(q["types[]"], e.kind))
		switch {
		case !passed:
			passed = e.id == q.Get("starting_after")
		case fits && len(data) == size:
			more = true
		case fits:
			data = append(data, map[string]any{"id": e.id, "object": "event", "type": e.kind,
				"created": e.created.Unix(), "data": map[string]any{"object": map[string]any{}}})
		}
	}
	must(p.t, json.NewEncoder(w).Encode(map[string]any{
		"object": "list", "url": "/v1/events", "has_more": more, "data": data,
	}))
}

func stripeBlock(at, more string) string {
	return fmt.Sprintf("      url: %s\n      token: %s\n%s", at, theToken, more)
}

func TestEventsThatStripeCouldNotDeliverAreTakenInTheOldestFirst(t *testing.T) {
	s, at := newPayments(t)
	b := newBench(t, "stripe", stripeBlock(at, "      version: 2025-04-30.basil\n"))
	version := ""
	s.before = func(_ http.ResponseWriter, r *http.Request) bool {
		version = r.Header.Get("Stripe-Version")
		return false
	}
	s.add("evt_old", 80*time.Hour, false)
	for i := range 5 {
		s.add(fmt.Sprint("evt_", i), time.Hour-time.Duration(i)*time.Minute, i == 3)
	}
	s.add("evt_same_1", 30*time.Minute, false)
	s.events[0].created = s.events[1].created // of one second, and so in the order of the list
	want(t, b.reconcile(Ask{}), 5, 0, 5, 0, 0, 0)
	b.wantStored("evt_0", "evt_1", "evt_2", "evt_4", "evt_same_1")
	if version != "2025-04-30.basil" || s.asked[0].Get("limit") != "100" {
		t.Errorf("version %q, asked %v", version, s.asked[0])
	}
	want(t, b.reconcile(Ask{}), 5, 5, 0, 0, 0, 0)
}

func TestOnlyTypesThatTheEndpointGetsAreAskedFor(t *testing.T) {
	s, at := newPayments(t)
	b := newBench(t, "stripe", stripeBlock(at, "      types: [invoice.paid]\n      which: all\n"))
	s.add("evt_1", time.Hour, true)
	s.add("evt_2", time.Hour, false)
	s.events[0].kind = "payout.paid"
	want(t, b.reconcile(Ask{}), 1, 0, 1, 0, 0, 0)
	b.wantStored("evt_1")
}

func TestMoreThanFitsInMemoryIsTakenInSliceBySliceInOrder(t *testing.T) {
	s, at := newPayments(t)
	b := newBench(t, "stripe", stripeBlock(at, ""))
	b.seams.records = 4
	b.serve()
	var all []string
	for i := range 23 {
		all = append(all, fmt.Sprint("evt_", i))
		s.add(all[i], 20*time.Hour-time.Duration(i)*7*time.Minute, false)
	}
	want(t, b.reconcile(Ask{}), 23, 0, 23, 0, 0, 0)
	b.wantStored(all...)
}

func TestASecondWithMoreThanFitsIsTakenInAsItComes(t *testing.T) {
	s, at := newPayments(t)
	b := newBench(t, "stripe", stripeBlock(at, ""))
	b.seams.records = 4
	b.serve()
	for i := range 11 {
		s.add(fmt.Sprint("evt_", i), time.Hour, false)
		s.events[0].created = s.events[len(s.events)-1].created
	}
	want(t, b.reconcile(Ask{}), 11, 0, 11, 0, 0, 0)
	if n := len(b.stored()); n != 11 {
		t.Errorf("%d are stored", n)
	}
}

func TestAProviderThatLiesAboutItsCursorIsNotAskedForEver(t *testing.T) {
	s, at := newPayments(t)
	b := newBench(t, "stripe", stripeBlock(at, ""))
	created := ago(time.Hour).Unix()
	n := 0
	for name, c := range map[string]struct {
		last func() string
		most int
	}{
		"the same cursor": {func() string { return "evt_2" }, 2},
		"others in turn":  {func() string { n++; return fmt.Sprint("evt_", n%3) }, 5},
	} {
		s.asked = nil
		s.before = func(w http.ResponseWriter, _ *http.Request) bool {
			fmt.Fprintf(w, `{"has_more":true,"data":[{"id":"evt_1","created":%d},`+
				`{"id":%q,"created":%d}]}`, created, c.last(), created)
			return true
		}
		b.failed(Ask{Since: ago(2 * time.Hour)}, "does not end")
		if len(s.asked) > c.most {
			t.Errorf("%s: asked %d times", name, len(s.asked))
		}
	}
}

func TestAPageThatComesAgainUnderOtherCursorsIsNotReadForEver(t *testing.T) {
	a, at := newAnswers(t, nil)
	a.give = func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"items":[{"id":"e"}],"next":"c%d"}`, len(a.asked))
	}
	b := newBench(t, "http", "      url: \""+at+"/?c={cursor}\"\n      items: /items\n"+
		"      cursor: /next\n      set: {X-Event-Id: 'json:/id'}\n")
	b.failed(Ask{}, "does not end")
	if len(a.asked) > stalePagesMax+1 {
		t.Errorf("asked %d times", len(a.asked))
	}
}

func TestAnEventThatMovesToTheNextPageWhileItIsReadIsTakenInOnce(t *testing.T) {
	s, at := newPayments(t)
	b := newBench(t, "stripe", stripeBlock(at, ""))
	for i := range 4 {
		s.add(fmt.Sprint("evt_", i), time.Hour-time.Duration(i)*time.Minute, false)
	}
	repeat := s.events[1]
	s.before = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("starting_after") != "" && len(s.events) == 4 {
			s.events = slices.Insert(s.events, 2, repeat)
		}
		return false
	}
	want(t, b.reconcile(Ask{}), 4, 0, 4, 0, 0, 0)
	b.wantStored("evt_0", "evt_1", "evt_2", "evt_3")
}
