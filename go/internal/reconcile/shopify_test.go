package reconcile

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/go/internal/gaps"
)

// shop speaks Shopify's REST Admin API: shopify.dev, Make paginated requests to the REST Admin API,
// and REST Admin API rate limits.
type shop struct {
	t   testing.TB
	url string

	mu      sync.Mutex
	changed map[string][]change // by resource
	size    int
	asked   []string
	used    int
	full    bool // the next call is refused
}

type change struct {
	id int
	at time.Time
}

func newShop(t testing.TB) *shop {
	s := &shop{t: t, changed: map[string][]change{}, size: 2, used: 1}
	s.url = served(t, httptest.NewServer(s))
	return s
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r.URL.String())
	w.Header().Set("X-Shopify-Shop-Api-Call-Limit", fmt.Sprintf("%d/40", s.used))
	if s.full {
		s.full = false
		w.Header().Set("Retry-After", "0.0")
		http.Error(w, `{"errors":"Exceeded"}`, http.StatusTooManyRequests)
		return
	}
	resource, found := strings.CutPrefix(r.URL.Path, "/admin/api/2025-01/")
	resource = strings.TrimSuffix(resource, ".json")
	if !found || r.Header.Get("X-Shopify-Access-Token") != theToken {
		http.Error(w, "{}", http.StatusUnauthorized)
		return
	}
	q := r.URL.Query()
	from, _ := strconv.Atoi(q.Get("page_info"))
	if from == 0 && (q.Get("updated_at_min") == "" || q.Get("updated_at_max") == "" ||
		resource == "orders" && q.Get("status") != "any") {
		http.Error(w, "{}", http.StatusBadRequest)
		return
	}
	all := s.changed[resource]
	to := min(from+s.size, len(all))
	list := []any{}
	for _, c := range all[from:to] {
		zone := time.FixedZone("", -5*3600)
		list = append(list, map[string]any{"id": c.id, "updated_at": c.at.In(zone).Format(time.RFC3339),
			"name": "#" + strconv.Itoa(c.id)})
	}
	if to < len(all) {
		w.Header().Set("Link", fmt.Sprintf(`<%s%s?limit=2&page_info=%d>; rel="next"`, s.url,
			r.URL.Path, to))
	}
	must(s.t, json.NewEncoder(w).Encode(map[string]any{resource: list}))
}

// webhook is a request of Shopify's own, with an event id that no list has.
func webhook(topic string, id int, at time.Time) record {
	return record{
		headers: [][2]string{{"X-Shopify-Topic", topic}, {"X-Shopify-Event-Id", "98880550"}},
		body:    fmt.Appendf(nil, `{"id":%d,"updated_at":%q}`, id, at.Format(time.RFC3339)),
	}
}

func TestStatesOfResourcesThatNoWebhookBroughtAreTakenIn(t *testing.T) {
	s := newShop(t)
	b := newBench(t, "shopify", fmt.Sprintf("      url: %s\n      token: %s\n"+
		"      resources: [orders, customers]\n", s.url, theToken))
	s.changed["orders"] = []change{
		{1 << 53, ago(3 * time.Hour)}, {12, ago(2 * time.Hour)}, {13, ago(time.Hour)},
		{14, ago(30 * time.Minute)}, {15, ago(25 * time.Minute)},
	}
	s.changed["customers"] = []change{{12, ago(150 * time.Minute)}}
	b.arrive(webhook("orders/create", 13, ago(time.Hour)))
	r := webhook("orders/paid", 14, ago(20*time.Minute)) // it changed since the list was made
	r.headers[1][1] = "98880551"
	b.arrive(r)
	r = webhook("orders/paid", 15, ago(time.Hour)) // an older state
	r.headers[1][1] = "98880552"
	b.arrive(r)
	b.ledger.add(gaps.Gap{Source: "it", From: ago(4 * time.Hour), To: ago(time.Hour), Count: 1,
		IDs: []string{"98880549"}})

	p := b.reconcile(Ask{})
	want(t, p, 6, 2, 4, 0, 0, 1)
	id := func(resource string, c change) string {
		return fmt.Sprintf("%s/%d@%s", resource, c.id, c.at.Format(time.RFC3339))
	}
	b.wantStored("98880550", "98880551", "98880552", id("orders", s.changed["orders"][0]),
		id("customers", s.changed["customers"][0]), id("orders", s.changed["orders"][1]),
		id("orders", s.changed["orders"][4]))
	if p.Pages != 4 {
		t.Errorf("%d pages: %q", p.Pages, s.asked)
	}
	want(t, b.reconcile(Ask{Since: ago(10 * time.Hour)}), 6, 6, 0, 0, 0, 0)
}

func TestAFullBucketOfShopifysIsWaitedFor(t *testing.T) {
	s := newShop(t)
	b := newBench(t, "shopify", fmt.Sprintf("      url: %s\n      token: %s\n", s.url, theToken))
	s.changed["orders"] = []change{{11, ago(3 * time.Hour)}}
	s.used, s.full = 22, true
	waited := false
	b.every = func(p Progress) {
		waited = waited || strings.Contains(p.Waiting, "the provider's rate")
	}
	want(t, b.reconcile(Ask{}), 1, 0, 1, 0, 0, 0)
	if len(s.asked) != 2 || !waited {
		t.Errorf("asked %q, waited %v", s.asked, waited)
	}
}

func TestShopifysBucketIsKeptHalfEmpty(t *testing.T) {
	now := time.Now()
	for text, wait := range map[string]time.Duration{
		"1/40": 0, "20/40": 0, "21/40": 500 * time.Millisecond, "40/40": 10 * time.Second,
		"79/80": 19500 * time.Millisecond, "": 0, "x/40": 0, "40": 0, "9999/1": time.Minute,
	} {
		h := http.Header{"X-Shopify-Shop-Api-Call-Limit": {text}}
		got := shopifyLimits(200, h, nil, now)
		if wait == 0 && !got.IsZero() || wait > 0 && got.Sub(now) != wait {
			t.Errorf("%q: %v", text, got.Sub(now))
		}
	}
}
