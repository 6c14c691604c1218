// Package http delivers events to a URL: the sender's headers and body as they came, over HTTP/1.1
// or HTTP/2.
//
// It follows no redirect, reads no proxy from the environment, keeps no cookie, asks for no
// compression, and decides nothing about when to try again.
//
// # HTTP/1.1
//
// The standard transport is not used, because it cannot keep the promise that is made to senders:
// it sorts fields by name, so values of one name that came in two spellings change their order; it
// refuses values with control characters, so an accepted event could never be delivered; and of
// several User-Agent fields it passes one. Answers are read here too: what matters of them is a
// number and a handful of fields. TLS and dialling are the standard library's.
//
// A connection is dialled, or taken from the idle ones, used for one exchange at a time, and idle
// again only when the whole request was written and the whole answer read. An idle one on which
// anything can be read, the end of the stream included, is never used: what lies there would be
// taken for the answer to the next event. When a reused connection breaks before the first byte of
// an answer, the request is written once more on a fresh one, within the same attempt.
//
// # HTTP/2
//
// Spoken over TLS where the destination agrees to it (ALPN), and without TLS where the config
// says so. Frames and flow control are the standard library's, over connections that are made
// here, so proxies and egress rules hold. Names are in lower case and values of one name keep
// their order, as the protocol has it. A value that the protocol cannot carry, and a second
// User-Agent, which the standard library drops, goes over HTTP/1.1 where the config leaves the
// choice. A request is sent again within the same attempt only when the destination said that it
// did not process it (GOAWAY, REFUSED_STREAM; RFC 9113 §8.7).
package http

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	nethttp "net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"sluice/go/internal/destination"
	"sluice/go/internal/destination/egress"
	"sluice/go/internal/retry"
)

// Bounds of one exchange and of what is kept between them.
const (
	timeoutDefault     = 10 * time.Second
	idleTimeoutDefault = 30 * time.Second
	idleCountDefault   = 64
	answerHeadMax      = 64 << 10 // bytes of status line and fields, interim answers included
	answerBodyMax      = 64 << 10 // bytes of body read so that the connection can be used again
	drainTimeout       = time.Second
	interimMax         = 8 // 1xx answers before the final one
)

// Protocol says which versions of HTTP may be spoken.
type Protocol string

// The protocols. The empty one is Auto.
const (
	Auto  Protocol = "auto"  // HTTP/2 where TLS agrees to it, else HTTP/1.1
	HTTP1 Protocol = "http1" // HTTP/1.1 alone
	HTTP2 Protocol = "http2" // HTTP/2 alone; without TLS by prior knowledge (RFC 9113 §3.3)
)

// Header is a field that is added to each request.
type Header struct{ Name, Value string }

// Options describe one destination. Zero values are defaults.
type Options struct {
	URL         string        // http or https; user:password becomes an Authorization field
	Timeout     time.Duration // of one attempt as a whole, connecting included
	IdleTimeout time.Duration // how long an unused connection is kept
	IdleCount   int           // connections kept at most; the concurrency is a good number
	DropHeaders []string      // names of the sender's that do not go on
	// Headers are added and replace the sender's of their names. None may frame the request, name
	// the host, or be the Idempotency-Key.
	Headers []Header
	// Secrets sign what is sent by Standard Webhooks: whsec_ and base64, each of them signs.
	Secrets       []string
	RetryAfterMax time.Duration // cap of the destination's Retry-After
	Protocol      Protocol
	TLS           *tls.Config // what TLSFiles do not say; nil is the host's roots
	TLSFiles      TLSFiles
	// Proxy is an http, https or socks5 URL, user:password being its credentials. The destination's
	// name is resolved on this host, and the proxy asked for the address.
	Proxy    string
	ProxyTLS *tls.Config // for an https proxy; nil is the host's roots
	// Egress is asked about every address that is connected to: the destination's, or the proxy's
	// and the destination's. nil denies link-local and metadata addresses.
	Egress *egress.Rules
	// Dial replaces the dialling of destination or proxy, and the egress rules with it.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	Now  func() time.Time
}

// Destination is one URL with its connections.
type Destination struct {
	options Options
	url     *url.URL // without credentials and fragment
	address string   // host:port to connect to
	host    string   // Host field
	target  string   // path and query
	own     []destination.Header
	drop    [][]byte
	keys    keys
	tls     *certificates // nil without TLS
	proxy   *proxy        // nil without one
	idle    pool
	streams *streams // nil where HTTP/2 is never spoken

	scratches sync.Pool // of *scratch
}

var _ destination.Destination = (*Destination)(nil)

// New reads the options; errors are the operator's and repeat no credentials.
func New(o Options) (*Destination, error) {
	if o.Timeout <= 0 {
		o.Timeout = timeoutDefault
	}
	if o.IdleTimeout <= 0 {
		o.IdleTimeout = idleTimeoutDefault
	}
	if o.IdleCount <= 0 {
		o.IdleCount = idleCountDefault
	}
	if o.RetryAfterMax <= 0 {
		o.RetryAfterMax = retry.MaxDefault
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{ControlContext: o.Egress.Control}).DialContext
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	d := &Destination{options: o}
	if err := d.readURL(o.URL); err != nil {
		return nil, err
	}
	if err := d.readFields(); err != nil {
		return nil, err
	}
	if o.Proxy != "" {
		p, err := newProxy(&d.options)
		if err != nil {
			return nil, err
		}
		d.proxy = p
	}
	d.idle = pool{timeout: o.IdleTimeout, countMax: o.IdleCount, now: o.Now}
	switch o.Protocol {
	case Auto, "":
		if d.tls != nil {
			d.streams = newStreams(d)
		}
	case HTTP2:
		d.streams = newStreams(d)
	case HTTP1:
	default:
		return nil, fmt.Errorf("protocol %q: want auto, http1 or http2", o.Protocol)
	}
	return d, nil
}

// readURL never shows the text in an error: the parser's own message holds all of it.
func (d *Destination) readURL(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return errors.New("destination url: not a URL")
	}
	port := u.Port()
	switch u.Scheme {
	case "http":
		if port == "" {
			port = "80"
		}
		if d.options.TLSFiles != (TLSFiles{}) {
			return errors.New("destination url: TLS settings have no meaning for http://")
		}
	case "https":
		if port == "" {
			port = "443"
		}
		d.tls, err = newCertificates(d.options.TLS, d.options.TLSFiles, u.Hostname(), d.options.Now)
		if err != nil {
			return err
		}
	default:
		return fmt.Errorf("destination url: scheme %q: want http or https", u.Scheme)
	}
	name := u.Hostname()
	if name == "" {
		return errors.New("destination url: no host")
	}
	for i := range len(name) {
		if name[i] >= 0x80 || name[i] <= ' ' {
			return fmt.Errorf("destination url: host %q: want ASCII (punycode for other scripts)", name)
		}
	}
	d.address = net.JoinHostPort(name, port)
	d.host = strings.TrimSuffix(u.Host, ":")
	if zone := strings.IndexByte(name, '%'); zone >= 0 {
		// A zone means something on this host only (RFC 6874 §4).
		d.host = "[" + name[:zone] + "]"
		if u.Port() != "" {
			d.host += ":" + u.Port()
		}
	}
	d.target = u.RequestURI()
	if u.User != nil {
		d.own = append(d.own, field("Authorization", basic(u.User)))
	}
	d.url = u
	d.url.User, d.url.Fragment, d.url.Host = nil, "", d.host
	return nil
}

// Deliver makes one attempt.
func (d *Destination) Deliver(ctx context.Context, r *destination.Request) destination.Result {
	if err := ctx.Err(); err != nil {
		return destination.Failure(err)
	}
	s := d.newScratch()
	if err := d.compose(s, r); err != nil {
		return destination.Refusal(err)
	}
	deadline := time.Now().Add(d.options.Timeout)
	if end, ok := ctx.Deadline(); ok {
		deadline = sooner(deadline, end)
	}
	var a answer
	var err error
	if d.streams == nil {
		a, err = d.overOne(ctx, deadline, s, r, nil)
	} else {
		a, err = d.overStream(ctx, deadline, s, r)
	}
	d.free(s)
	return d.conclude(&a, err, r.WantAnswer)
}

// overOne delivers over a connection of HTTP/1.1: fresh where the caller has one, else idle or new.
func (d *Destination) overOne(ctx context.Context, deadline time.Time, s *scratch,
	r *destination.Request, fresh *link) (answer, error) {
	p := d.post(s, r)
	p.deadline = deadline
	if fresh == nil {
		if c := d.idle.take(); c != nil {
			a, err := c.exchange(ctx, p)
			if err == nil || c.answerStarted() || ctx.Err() != nil ||
				errors.Is(err, os.ErrDeadlineExceeded) {
				return d.giveBack(ctx, c, a, err)
			}
			c.abort()
		}
		dialling, cancel := context.WithDeadline(ctx, deadline)
		defer cancel()
		var err error
		if fresh, err = d.connect(dialling, "http/1.1"); err != nil {
			return answer{}, d.blame(ctx, "connect", err)
		}
	}
	c := newConn(fresh)
	a, err := c.exchange(ctx, p)
	return d.giveBack(ctx, c, a, err)
}

// giveBack keeps the connection for the next exchange, or ends it.
func (d *Destination) giveBack(ctx context.Context, c *conn, a answer, err error) (answer, error) {
	if err != nil {
		c.abort()
		return a, d.blame(ctx, "request", err)
	}
	if a.reusable {
		d.idle.put(c)
	} else {
		c.abort()
	}
	return a, nil
}

// conclude turns what happened into a result.
func (d *Destination) conclude(a *answer, err error, want bool) destination.Result {
	if errors.Is(err, errNotCarried) {
		return destination.Refusal(err)
	}
	if err != nil {
		return destination.Failure(err)
	}
	result := destination.Result{Kind: retry.Status(a.code), Code: a.code}
	if want {
		result.Answer = a.forSender()
	}
	if result.Kind == destination.Delivered {
		return result
	}
	if result.Kind == destination.Retry {
		result.RetryAfter = retry.After(a.retryAfter, d.options.Now(), d.options.RetryAfterMax)
	}
	result.Err = fmt.Errorf("answered %d %s", a.code, nethttp.StatusText(a.code))
	if a.code >= 300 && a.code <= 399 {
		result.Err = fmt.Errorf("%w: redirect%s is not followed", result.Err, origin(a.location))
	}
	return result
}

// origin is as much of a redirect's goal as can be shown: paths and queries may hold secrets.
func origin(location string) string {
	u, err := url.Parse(location)
	if err != nil || u.Host == "" {
		return ""
	}
	return fmt.Sprintf(" to %.128s", (&url.URL{Scheme: u.Scheme, Host: u.Host}).String())
}

// blame names the step. Where the caller ended the attempt, that is the reason, whatever the
// operating system saw of it; where time ran out, it says how much there was.
func (d *Destination) blame(ctx context.Context, step string, err error) error {
	switch ended := ctx.Err(); {
	case ended != nil:
		return fmt.Errorf("%s: %w", step, ended)
	case retry.CauseOf(err) == retry.Timeout:
		return fmt.Errorf("%s: not done within %v: %w", step, d.options.Timeout, err)
	}
	return fmt.Errorf("%s: %w", step, err)
}

// Close ends the idle connections.
func (d *Destination) Close() error {
	d.idle.close()
	if d.streams != nil {
		d.streams.close()
	}
	return nil
}
