package reconcile

import (
	"context"
	"fmt"
	"time"

	"sluice/go/internal/config"
)

// record is one thing that a provider has.
type record struct {
	id  string // one in the list
	ref string // by which the provider is asked for it
	at  time.Time
	// delivered tells that the provider takes it for delivered.
	delivered bool
	headers   [][2]string
	body      []byte // nil: the list does not have it
}

func (r *record) bytes() int {
	n := len(r.body) + 128
	for _, h := range r.headers {
		n += len(h[0]) + len(h[1])
	}
	return n
}

// page is a part of a list; next is empty on the last one.
type page struct {
	records []record
	next    string
}

// span is a stretch of time, its end not included.
type span struct{ since, until time.Time }

func (s span) length() time.Duration { return s.until.Sub(s.since) }

// holds tells whether a time is in it; a record without one always is.
func (s span) holds(at time.Time) bool {
	return at.IsZero() || !at.Before(s.since) && at.Before(s.until)
}

// feed is how one kind of provider is asked. It belongs to one run.
type feed interface {
	// list gives a page, the first one for an empty cursor.
	list(ctx context.Context, s span, cursor string) (page, error)
	traits() traits
}

// fetcher is a feed whose lists have no bodies.
type fetcher interface {
	// fetch fills in headers and body. errGone: it cannot be had any more.
	fetch(ctx context.Context, r *record) error
}

// resender is a feed that can have the provider send again.
type resender interface {
	// resend asks for it. errGone: it cannot be had any more.
	resend(ctx context.Context, r *record) error
}

// traits are what a run has to know of a feed.
type traits struct {
	// halves tells that it can be asked for a part of a stretch of time.
	halves bool
	// reach is how long before we refused a request the provider may have made it.
	reach time.Duration
	// resources tells that it lists states of resources: ids of events are unknown to it.
	resources bool
	// failedOnly tells that it lists, or marks, what was delivered.
	failedOnly bool
}

// newFeed makes the feed of a config.
func newFeed(c *config.Reconcile, o callerOptions) (feed, error) {
	switch c.Kind {
	case "github":
		return newGitHub(c, o)
	case "stripe":
		return newStripe(c, o)
	case "shopify":
		return newShopify(c, o)
	case "http":
		return newListing(c, o)
	}
	return nil, fmt.Errorf("no provider is asked as %q", c.Kind)
}
