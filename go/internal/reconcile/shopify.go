package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"sluice/go/internal/config"
)

// shopify asks for resources that changed (shopify.dev, REST Admin API). Shopify lists no events: a
// record is the state of a resource now, states between are lost, and so is what was deleted.
type shopify struct {
	*caller
	version   string
	resources []string
}

const (
	// shopifyRetries is how long Shopify tries to deliver (shopify.dev, HTTPS webhooks).
	shopifyRetries = 4 * time.Hour
	// shopifyLeak is what a request more takes to leak from the bucket (shopify.dev, REST Admin API
	// rate limits: 2 a second on the standard plan).
	shopifyLeak = 500 * time.Millisecond
)

func newShopify(c *config.Reconcile, o callerOptions) (feed, error) {
	call, err := newCaller(strings.TrimSuffix(c.URL.Reveal(), "/")+"/", o)
	if err != nil {
		return nil, err
	}
	call.sign = func(h http.Header) {
		h.Set("X-Shopify-Access-Token", string(c.Token.Reveal()))
	}
	call.limits = shopifyLimits
	call.hints = map[int]string{
		http.StatusForbidden: "the app may not read this resource (403): give it the read_ scope of " +
			"each of reconcile.resources",
		http.StatusNotFound: "the shop has no such resource in this version (404): check " +
			"reconcile.url, version and resources",
	}
	return &shopify{call, c.Version, c.Resources}, nil
}

// shopifyLimits keeps the bucket half empty, for whoever else asks with this token:
// X-Shopify-Shop-Api-Call-Limit is used/size.
func shopifyLimits(_ int, h http.Header, _ []byte, now time.Time) time.Time {
	used, size, found := strings.Cut(h.Get("X-Shopify-Shop-Api-Call-Limit"), "/")
	n, err := strconv.Atoi(used)
	of, err2 := strconv.Atoi(size)
	if !found || err != nil || err2 != nil || n <= of/2 {
		return time.Time{}
	}
	return now.Add(min(time.Duration(n-of/2)*shopifyLeak, limitedWait))
}

func (s *shopify) traits() traits {
	return traits{halves: true, reach: shopifyRetries, resources: true}
}

// list goes through the resources one after the other. A cursor is the resource's index, and the
// URL of the page if it is not its first one.
func (s *shopify) list(ctx context.Context, in span, cursor string) (page, error) {
	number, at, _ := strings.Cut(cursor, " ")
	index, _ := strconv.Atoi(number) // ours; the first one is empty
	resource := s.resources[index]
	if at == "" {
		q := url.Values{"limit": {"250"}}
		q.Set("updated_at_min", in.since.UTC().Format(time.RFC3339))
		q.Set("updated_at_max", in.until.UTC().Format(time.RFC3339))
		if resource == "orders" {
			q.Set("status", "any") // else those that are open alone
		}
		at = "admin/api/" + s.version + "/" + resource + ".json?" + q.Encode()
	}
	got, err := s.get(ctx, at)
	if err != nil {
		return page{}, err
	}
	var named map[string]json.RawMessage
	var list []json.RawMessage
	if err := json.Unmarshal(got.body, &named); err != nil {
		return page{}, fmt.Errorf("the list of %s of Shopify: %w", resource, err)
	}
	if err := json.Unmarshal(named[path.Base(resource)], &list); err != nil {
		return page{}, fmt.Errorf("the list of %s of Shopify: %w", resource, err)
	}
	p := page{}
	for _, raw := range list {
		var r struct {
			ID        json.Number `json:"id"`
			UpdatedAt time.Time   `json:"updated_at"`
		}
		if err := json.Unmarshal(raw, &r); err != nil || r.ID == "" {
			return page{}, fmt.Errorf("one of Shopify's %s has no id or time", resource)
		}
		id := fmt.Sprintf("%s/%s@%s", resource, r.ID, r.UpdatedAt.UTC().Format(time.RFC3339))
		p.records = append(p.records, record{
			id: id, at: r.UpdatedAt, body: raw,
			headers: [][2]string{
				{"Content-Type", "application/json"}, {"X-Shopify-Topic", resource + "/updated"},
				{"X-Shopify-Shop-Domain", s.base.Host}, {"X-Shopify-API-Version", s.version},
				{"X-Shopify-Event-Id", id},
			},
		})
	}
	if next := nextLink(got.header); next != "" {
		p.next = strconv.Itoa(index) + " " + next
	} else if index+1 < len(s.resources) {
		p.next = strconv.Itoa(index + 1)
	}
	return p, nil
}
