package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sluice/go/internal/config"
)

// stripe asks for events (docs.stripe.com/api/events/list): up to 30 days, the newest first, each
// as its webhook had it. delivery_success=false leaves those that are pending or failed.
type stripe struct {
	*caller
	types []string
	all   bool
}

// stripeRetries is how long Stripe tries to deliver an event (docs.stripe.com/webhooks, Automatic
// retries): what we refused may be as old.
const stripeRetries = 72 * time.Hour

func newStripe(c *config.Reconcile, o callerOptions) (feed, error) {
	call, err := newCaller(strings.TrimSuffix(c.URL.Reveal(), "/")+"/", o)
	if err != nil {
		return nil, err
	}
	token := bearer(c.Token.Reveal())
	call.sign = func(h http.Header) {
		token(h)
		if c.Version != "" {
			h.Set("Stripe-Version", c.Version)
		}
	}
	call.hints = map[int]string{
		http.StatusUnauthorized: "Stripe refuses the key (401): put a valid one where reconcile.token " +
			"names it",
		http.StatusForbidden: "the key may not list events (403): a restricted key needs Events, read",
	}
	return &stripe{call, c.Types, c.Which == "all"}, nil
}

func (s *stripe) traits() traits {
	return traits{halves: true, reach: stripeRetries, failedOnly: !s.all}
}

func (s *stripe) list(ctx context.Context, in span, cursor string) (page, error) {
	q := url.Values{"limit": {"100"}}
	q.Set("created[gte]", strconv.FormatInt(in.since.Unix(), 10))
	q.Set("created[lt]", strconv.FormatInt(in.until.Unix(), 10))
	if !s.all {
		q.Set("delivery_success", "false")
	}
	q["types[]"] = s.types
	if cursor != "" {
		q.Set("starting_after", cursor)
	}
	got, err := s.get(ctx, "v1/events?"+q.Encode())
	if err != nil {
		return page{}, err
	}
	var list struct {
		Data    []json.RawMessage `json:"data"`
		HasMore bool              `json:"has_more"`
	}
	if err := json.Unmarshal(got.body, &list); err != nil {
		return page{}, fmt.Errorf("the list of events of Stripe: %w", err)
	}
	p := page{}
	last := ""
	for _, raw := range list.Data {
		var e struct {
			ID      string `json:"id"`
			Created int64  `json:"created"`
		}
		if err := json.Unmarshal(raw, &e); err != nil {
			return page{}, fmt.Errorf("an event of Stripe's: %w", err)
		}
		last = e.ID
		p.records = append(p.records, record{
			id: e.ID, at: time.Unix(e.Created, 0), body: raw,
			headers: [][2]string{{"Content-Type", "application/json; charset=utf-8"}},
		})
	}
	if list.HasMore {
		p.next = last
	}
	return p, nil
}
