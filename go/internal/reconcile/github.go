package reconcile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/go/internal/config"
)

// github asks for the deliveries of one webhook (docs.github.com, REST API endpoints for
// repository, organization and GitHub App webhooks): the past three days, the newest first. A
// delivery and those that repeat it have one guid, which is their X-GitHub-Delivery.
type github struct {
	*caller
	path string // of the webhook's deliveries
	all  bool
}

// githubPause is how long to wait between requests that change something (docs.github.com, Best
// practices for using the REST API).
const githubPause = time.Second

func newGitHub(c *config.Reconcile, o callerOptions) (feed, error) {
	base := strings.TrimSuffix(c.URL.Reveal(), "/")
	call, err := newCaller(base+"/", o)
	if err != nil {
		return nil, err
	}
	token := bearer(c.Token.Reveal())
	call.sign = func(h http.Header) {
		token(h)
		h.Set("Accept", "application/vnd.github+json")
		h.Set("X-GitHub-Api-Version", "2022-11-28")
	}
	call.limits = githubLimits
	call.hints = map[int]string{
		http.StatusForbidden: "the token may not see deliveries of this webhook (403): give it the " +
			"webhooks permission, read and write (a classic token: admin:repo_hook or admin:org_hook)",
		http.StatusNotFound: "GitHub has no such webhook, or the token may not see it (404): check " +
			"reconcile.hook and what the token may do",
	}
	f := &github{caller: call, path: base + "/" + c.Hook + "/deliveries", all: c.Which == "all"}
	if c.Take == "redeliver" {
		return &redelivering{f}, nil
	}
	return f, nil
}

// githubLimits reads docs.github.com, Rate limits for the REST API: a 403 or 429 with retry-after
// or without what remains is a limit, and without a time one waits for a minute.
func githubLimits(status int, h http.Header, body []byte, now time.Time) time.Time {
	reset := time.Time{}
	if h.Get("X-Ratelimit-Remaining") == "0" {
		if n, err := strconv.ParseInt(h.Get("X-Ratelimit-Reset"), 10, 64); err == nil {
			reset = time.Unix(n+1, 0)
		}
	}
	if status != http.StatusForbidden && status != http.StatusTooManyRequests {
		return reset
	}
	if wait := retryAfter(h.Get("Retry-After"), now); wait > 0 {
		return now.Add(wait)
	}
	if reset.IsZero() && bytes.Contains(bytes.ToLower(body), []byte("rate limit")) {
		return now.Add(jittered(limitedWait))
	}
	return reset
}

func (g *github) traits() traits { return traits{failedOnly: !g.all} }

func (g *github) list(ctx context.Context, s span, cursor string) (page, error) {
	if cursor == "" {
		cursor = g.path + "?per_page=100"
	}
	got, err := g.get(ctx, cursor)
	if err != nil {
		return page{}, err
	}
	var list []struct {
		ID          json.Number `json:"id"`
		GUID        string      `json:"guid"`
		DeliveredAt time.Time   `json:"delivered_at"`
		Status      int         `json:"status_code"`
		Event       string      `json:"event"`
	}
	if err := json.Unmarshal(got.body, &list); err != nil {
		return page{}, fmt.Errorf("GitHub's list of deliveries: %w", err)
	}
	p := page{next: nextLink(got.header)}
	older := false
	for _, d := range list {
		older = older || d.DeliveredAt.Before(s.since)
		p.records = append(p.records, record{
			id: d.GUID, ref: d.ID.String(), at: d.DeliveredAt,
			delivered: !g.all && d.Status >= 200 && d.Status < 300,
			headers:   [][2]string{{"X-GitHub-Delivery", d.GUID}, {"X-GitHub-Event", d.Event}},
		})
	}
	if older {
		p.next = ""
	}
	return p, nil
}

// notKept are fields of the record that say how it was sent, or prove what is not there any more:
// the payload comes parsed, in other bytes.
var notKept = map[string]bool{
	"connection": true, "content-length": true, "host": true, "transfer-encoding": true,
	"x-hub-signature": true, "x-hub-signature-256": true,
}

func (g *github) fetch(ctx context.Context, r *record) error {
	got, err := g.get(ctx, g.path+"/"+r.ref)
	if err != nil {
		return goneWhere(err)
	}
	var detail struct {
		Request struct {
			Headers map[string]any  `json:"headers"`
			Payload json.RawMessage `json:"payload"`
		} `json:"request"`
	}
	if err := json.Unmarshal(got.body, &detail); err != nil {
		return fmt.Errorf("GitHub's delivery: %w", err)
	}
	payload := detail.Request.Payload
	if len(payload) == 0 || string(payload) == "null" {
		return errGone
	}
	r.body = compactBody(payload)
	r.headers = nil
	for _, name := range slices.Sorted(maps.Keys(detail.Request.Headers)) {
		value, is := detail.Request.Headers[name].(string)
		if !is || notKept[strings.ToLower(name)] {
			continue
		}
		if strings.EqualFold(name, "Content-Type") && strings.Contains(value, "form-urlencoded") {
			r.body = []byte("payload=" + url.QueryEscape(string(r.body)))
		}
		r.headers = append(r.headers, [2]string{name, value})
	}
	return nil
}

// redelivering has GitHub send again what is missing, with a signature that holds.
type redelivering struct{ *github }

func (g *redelivering) resend(ctx context.Context, r *record) error {
	_, err := g.call(ctx, http.MethodPost, g.path+"/"+r.ref+"/attempts")
	if next := time.Now().Add(g.between); next.After(g.after) {
		g.after = next
	}
	return goneWhere(err)
}

// goneWhere turns an answer that is about one record alone into errGone.
func goneWhere(err error) error {
	var fault *Fault
	if errors.As(err, &fault) {
		switch fault.Status {
		case http.StatusNotFound, http.StatusGone, http.StatusUnprocessableEntity,
			http.StatusBadRequest:
			return errGone
		}
	}
	return err
}
