package reconcile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sluice/go/internal/retry"
)

// errGone says that the provider cannot give one record any more.
var errGone = errors.New("the provider has it no more")

// Fault is an answer of a provider that ends a run: the operator's to mend, or the provider's.
type Fault struct {
	Status int    // of the answer
	Text   string // what it means and how to mend it; nothing of the answer's body
}

func (f *Fault) Error() string { return f.Text }

// callerOptions are the same for all kinds.
type callerOptions struct {
	transport http.RoundTripper // nil: the standard library's
	// waiting is told what is waited for; empty: nothing any more.
	waiting func(what string)
	// between is how long to wait after a call that changes something, where the provider asks so.
	between time.Duration
}

// caller asks one provider, one call after the other. It waits where the provider says so.
type caller struct {
	callerOptions
	client *http.Client
	base   *url.URL
	// sign proves us to the provider.
	sign func(http.Header)
	// hints say by status what is wrong and how to mend it.
	hints map[int]string
	// limits reads from an answer when the next call may be made; zero: at once. nil: nothing does.
	limits func(status int, h http.Header, body []byte, now time.Time) time.Time
	// after is when the next call may be made.
	after time.Time
}

// answer is one with a status of 2xx.
type answer struct {
	header http.Header
	body   []byte
}

func newCaller(base string, o callerOptions) (*caller, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, errors.New("the URL of the provider does not parse") // it may hold a secret
	}
	if o.waiting == nil {
		o.waiting = func(string) {}
	}
	c := &caller{callerOptions: o, base: u}
	c.client = &http.Client{Transport: o.transport, Timeout: callTimeout,
		// What proves us to the provider goes nowhere else.
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) > redirectMax || !sameHost(r.URL, c.base) {
				return http.ErrUseLastResponse
			}
			return nil
		},
	}
	return c, nil
}

// sameHost tells whether two URLs ask the same server in the same way.
func sameHost(a, b *url.URL) bool { return a.Scheme == b.Scheme && a.Host == b.Host }

// get asks for a URL of the provider's.
func (c *caller) get(ctx context.Context, at string) (answer, error) {
	return c.call(ctx, http.MethodGet, at)
}

// call asks until there is an answer that says yes or no.
func (c *caller) call(ctx context.Context, method, at string) (answer, error) {
	u, err := c.base.Parse(at)
	if err != nil || !sameHost(u, c.base) {
		return answer{}, &Fault{Text: "the provider leads to another host than its own, which is " +
			"not asked: what proves us is not for others"}
	}
	failed, limited := 0, 0
	for {
		if err := c.pause(ctx); err != nil {
			return answer{}, err
		}
		status, got, err := c.once(ctx, method, u.String())
		if ctx.Err() != nil {
			return answer{}, ctx.Err()
		}
		now := time.Now()
		switch {
		case err != nil:
		case status >= 200 && status < 300:
			c.after = c.next(status, got, now)
			return got, nil
		default:
			if c.after = c.next(status, got, now); c.after.After(now) {
				if limited++; limited > limitedMax || c.after.Sub(now) > waitMax {
					return got, &Fault{status, fmt.Sprintf("the provider lets nothing through (%d) for "+
						"longer than is waited for: %v", status, c.after.Sub(now).Round(time.Second))}
				}
				continue
			}
			if status < 500 {
				return got, c.fault(status)
			}
			err = &Fault{status, fmt.Sprintf("the provider fails (%d)", status)}
		}
		if failed++; failed == triesMax {
			return answer{}, fmt.Errorf("the provider was asked %d times: %w", failed, err)
		}
		c.after = now.Add(jittered(retryPause << (failed - 1)))
	}
}

// once makes one call.
func (c *caller) once(ctx context.Context, method, at string) (int, answer, error) {
	r, err := http.NewRequestWithContext(ctx, method, at, nil)
	if err != nil {
		return 0, answer{}, errors.New("the URL of the provider does not parse")
	}
	r.Header.Set("User-Agent", "sluice")
	r.Header.Set("Accept", "application/json")
	c.sign(r.Header)
	response, err := c.client.Do(r)
	if err != nil {
		// Its text holds the URL, which may hold a secret; its cause does not.
		if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return 0, answer{}, err
	}
	defer response.Body.Close()
	limit := int64(pageBytesMax)
	if response.StatusCode > 299 {
		limit = errorBytes
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err != nil {
		return 0, answer{}, fmt.Errorf("read the provider's answer: %w", err)
	}
	if int64(len(body)) > limit && response.StatusCode < 300 {
		return 0, answer{}, fmt.Errorf("the provider's answer is longer than %d bytes", limit)
	}
	return response.StatusCode, answer{response.Header, body}, nil
}

// next is when another call may be made; zero: at once.
func (c *caller) next(status int, got answer, now time.Time) (at time.Time) {
	if c.limits != nil {
		at = c.limits(status, got.header, got.body, now)
	}
	if status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable {
		return at
	}
	wait := retryAfter(got.header.Get("Retry-After"), now)
	if wait == 0 && status == http.StatusTooManyRequests && !at.After(now) {
		wait = jittered(2 * time.Second)
	}
	if until := now.Add(wait); wait > 0 && until.After(at) {
		at = until
	}
	return at
}

// retryAfter reads the field; Shopify writes seconds with a fraction.
func retryAfter(text string, now time.Time) time.Duration {
	if whole, part, found := strings.Cut(strings.TrimSpace(text), "."); found {
		if strings.Trim(part, "0123456789") == "" {
			if wait := retry.After(whole, now, 24*time.Hour); wait > 0 || whole == "0" {
				return wait + time.Second
			}
		}
	}
	return retry.After(text, now, 24*time.Hour)
}

// pause waits until the next call may be made.
func (c *caller) pause(ctx context.Context) error {
	wait := time.Until(c.after)
	if wait <= 0 {
		return ctx.Err()
	}
	if wait >= sayInterval {
		c.waiting(fmt.Sprintf("the provider's rate, until %s", c.after.UTC().Format("15:04:05Z")))
		defer c.waiting("")
	}
	return sleep(ctx, wait)
}

// fault says what an answer means.
func (c *caller) fault(status int) error {
	if hint, known := c.hints[status]; known {
		return &Fault{status, hint}
	}
	switch {
	case status == http.StatusUnauthorized:
		return &Fault{status, "the provider refuses the token (401): put a valid one where " +
			"reconcile.token names it"}
	case status == http.StatusForbidden:
		return &Fault{status, "the token may not do this (403): give it the right to, or another token"}
	case status == http.StatusNotFound:
		return &Fault{status, "the provider has nothing there (404): check the URL of reconcile"}
	case status >= 300 && status < 400:
		return &Fault{status, fmt.Sprintf("the provider leads elsewhere (%d): write the URL it leads "+
			"to into reconcile.url", status)}
	}
	return &Fault{status, fmt.Sprintf("the provider does not take the request (%d): check the keys "+
		"of reconcile", status)}
}

// bearer proves us by a token.
func bearer(token []byte) func(http.Header) {
	return func(h http.Header) {
		if len(token) > 0 {
			h.Set("Authorization", "Bearer "+string(token))
		}
	}
}

// nextLink is the URL with rel="next" of Link fields (RFC 8288), empty if there is none.
func nextLink(h http.Header) string {
	for _, field := range h.Values("Link") {
		for field != "" {
			_, rest, found := strings.Cut(field, "<")
			at, rest, closed := strings.Cut(rest, ">")
			if !found || !closed {
				break
			}
			params, more, _ := strings.Cut(rest, ",")
			for param := range strings.SplitSeq(params, ";") {
				name, value, _ := strings.Cut(strings.TrimSpace(param), "=")
				if strings.EqualFold(name, "rel") && strings.Trim(value, `"`) == "next" {
					return at
				}
			}
			field = more
		}
	}
	return ""
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// jittered spreads a wait over half of itself, so that hosts do not ask in step.
func jittered(d time.Duration) time.Duration { return d + rand.N(d/2+1) }

// compactBody takes the blanks between the tokens of a JSON text off.
func compactBody(raw []byte) []byte {
	var out bytes.Buffer
	if err := json.Compact(&out, raw); err != nil {
		return raw
	}
	return out.Bytes()
}
