package reconcile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"sluice/go/internal/config"
)

// listing asks for a list in JSON as an operator describes it.
type listing struct {
	*caller
	c *config.Reconcile
}

func newListing(c *config.Reconcile, o callerOptions) (feed, error) {
	// Placeholders are no part of scheme and host.
	call, err := newCaller(strings.NewReplacer("{since}", "", "{until}", "", "{cursor}", "").
		Replace(c.URL.Reveal()), o)
	if err != nil {
		return nil, err
	}
	token := bearer(c.Token.Reveal())
	call.sign = func(h http.Header) {
		token(h)
		for _, field := range c.Headers {
			h.Set(field.Name, field.Value.Reveal())
		}
	}
	return &listing{call, c}, nil
}

func (l *listing) traits() traits {
	template := l.c.URL.Reveal()
	return traits{
		halves: strings.Contains(template, "{since}") && strings.Contains(template, "{until}"),
		reach:  overlap,
	}
}

// url fills the template. Where there is no cursor yet, its parameter is left out.
func (l *listing) url(s span, cursor string) string {
	template := l.c.URL.Reveal()
	if cursor == "" {
		front, query, found := strings.Cut(template, "?")
		if found {
			var kept []string
			for param := range strings.SplitSeq(query, "&") {
				if !strings.Contains(param, "{cursor}") {
					kept = append(kept, param)
				}
			}
			template = front + "?" + strings.Join(kept, "&")
		}
	}
	return strings.NewReplacer(
		"{since}", url.QueryEscape(formatTime(l.c.TimeFormat, s.since)),
		"{until}", url.QueryEscape(formatTime(l.c.TimeFormat, s.until)),
		"{cursor}", url.QueryEscape(cursor),
	).Replace(template)
}

func (l *listing) list(ctx context.Context, s span, cursor string) (page, error) {
	at := l.url(s, cursor)
	if cursor != "" && !strings.Contains(l.c.URL.Reveal(), "{cursor}") {
		if at = cursor; !strings.Contains(at, "/") {
			return page{}, &Fault{Text: "the provider's cursor is no URL: write {cursor} into " +
				"reconcile.url where it belongs"}
		}
	}
	got, err := l.get(ctx, at)
	if err != nil {
		return page{}, err
	}
	raw, found := within(got.body, l.c.Items)
	var items []json.RawMessage
	if !found || json.Unmarshal(raw, &items) != nil {
		return page{}, &Fault{Text: fmt.Sprintf("the provider's answer has no list at %q: check "+
			"reconcile.items", l.c.Items)}
	}
	p := page{}
	for i, item := range items {
		r, err := l.record(item)
		if err != nil {
			return page{}, &Fault{Text: fmt.Sprintf("item %d of the provider's list: %v", i, err)}
		}
		p.records = append(p.records, r)
	}
	switch l.c.Cursor {
	case "":
	case "link":
		p.next = nextLink(got.header)
	default:
		p.next, _ = textAt(got.body, l.c.Cursor)
	}
	return p, nil
}

func (l *listing) record(item json.RawMessage) (r record, err error) {
	body, found := within(item, l.c.Body)
	if !found {
		return r, fmt.Errorf("it has nothing at %q: check reconcile.body", l.c.Body)
	}
	var text string
	if l.c.Body != "" && json.Unmarshal(body, &text) == nil && string(body) != "null" {
		body = []byte(text) // a body inside a string is that text
	}
	r.body = append([]byte{}, body...)
	if l.c.Time != "" {
		text, _ := textAt(item, l.c.Time)
		at, ok := parseTime(l.c.TimeFormat, text)
		if !ok {
			return r, fmt.Errorf("it has no time of the form %s at %q: check reconcile.time and "+
				"time_format", l.c.TimeFormat, l.c.Time)
		}
		r.at = at
	}
	for _, h := range l.c.Set {
		value := h.Value.Reveal()
		if pointer, is := strings.CutPrefix(value, "json:"); is {
			if value, found = textAt(item, pointer); !found {
				return r, fmt.Errorf("it has no text at %q for the header %s: check reconcile.set",
					pointer, h.Name)
			}
		}
		if strings.ContainsAny(value, "\r\n\x00") {
			return r, fmt.Errorf("its header %s would hold a line end", h.Name)
		}
		r.headers = append(r.headers, [2]string{h.Name, value})
	}
	sum := sha256.Sum256(item)
	r.id = hex.EncodeToString(sum[:16]) // what its sender calls it is read from the request
	return r, nil
}
