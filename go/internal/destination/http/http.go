// Package http delivers events to an HTTP/1.1 URL: the sender's headers and body as they came.
//
// It follows no redirect, reads no proxy from the environment, speaks no HTTP/2, keeps no cookie,
// asks for no compression, and decides nothing about when to try again.
//
// The standard transport is not used, because it cannot keep the promise that is made to senders:
// it sorts fields by name, so values of one name that came in two spellings change their order; it
// refuses values with control characters, so an accepted event could never be delivered; and of
// several User-Agent fields it passes one. What is not particular to us (answers, TLS, dialling)
// is the standard library's.
//
// # Connections
//
// A connection is dialled, or taken from the idle ones, used for one exchange at a time, and idle
// again only when the whole request was written and the whole answer read. An idle one on which
// anything can be read, the end of the stream included, is never used: what lies there would be
// taken for the answer to the next event. When a reused connection breaks before the first byte of
// an answer, the request is written once more on a fresh one, within the same attempt.
package http

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	nethttp "net/http"
	"net/url"
	"strings"
	"time"

	"sluice/go/internal/destination"
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

// Options describe one destination. Zero values are defaults.
type Options struct {
	URL           string        // http or https; user:password becomes an Authorization field
	Timeout       time.Duration // of one attempt as a whole, connecting included
	IdleTimeout   time.Duration // how long an unused connection is kept
	IdleCount     int           // connections kept at most; the concurrency is a good number
	DropHeaders   []string      // names of the sender's that do not go on
	RetryAfterMax time.Duration // cap of the destination's Retry-After
	TLS           *tls.Config   // roots, client certificate; nil is the host's roots
	Dial          func(ctx context.Context, network, address string) (net.Conn, error)
	Now           func() time.Time
}

// Destination is one URL with its connections.
type Destination struct {
	options       Options
	address       string // host:port to dial
	tls           *tls.Config
	pool          pool
	host          string // Host field
	target        string // path and query
	authorization string // ours, from the URL; empty for none
	drop          [][]byte
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
		o.Dial = (&net.Dialer{}).DialContext
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	d := &Destination{options: o}
	if err := d.readURL(o.URL); err != nil {
		return nil, err
	}
	d.drop = dropped(o.DropHeaders, d.authorization != "")
	d.pool = pool{timeout: o.IdleTimeout, countMax: o.IdleCount, now: o.Now}
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
	case "https":
		if port == "" {
			port = "443"
		}
		d.tls = d.options.TLS.Clone()
		if d.tls == nil {
			d.tls = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		if d.tls.ServerName == "" {
			d.tls.ServerName = u.Hostname()
		}
		d.tls.NextProtos = []string{"http/1.1"}
		if d.tls.ClientSessionCache == nil {
			d.tls.ClientSessionCache = tls.NewLRUClientSessionCache(0)
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
		password, _ := u.User.Password()
		d.authorization = "Basic " +
			base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))
	}
	return nil
}

// Deliver makes one attempt.
func (d *Destination) Deliver(ctx context.Context, r *destination.Request) destination.Result {
	head, err := d.head(r)
	if err != nil {
		return destination.Refusal(err)
	}
	ctx, cancel := context.WithTimeout(ctx, d.options.Timeout)
	defer cancel()

	c := d.pool.take()
	if c != nil {
		a, err := c.exchange(ctx, r.Method, head, r.Body)
		if err == nil || c.answerStarted() || ctx.Err() != nil {
			return d.finish(ctx, c, a, err)
		}
		c.abort()
	}
	if c, err = d.connect(ctx); err != nil {
		return destination.Failure(blame(ctx, "connect", err))
	}
	a, err := c.exchange(ctx, r.Method, head, r.Body)
	return d.finish(ctx, c, a, err)
}

func (d *Destination) connect(ctx context.Context) (*conn, error) {
	raw, err := d.options.Dial(ctx, "tcp", d.address)
	if err != nil {
		return nil, err
	}
	if d.tls == nil {
		return newConn(raw, raw), nil
	}
	secure := tls.Client(raw, d.tls)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, err
	}
	return newConn(secure, raw), nil
}

// finish gives the connection back or up, and turns what happened into a result.
func (d *Destination) finish(ctx context.Context, c *conn, a answer, err error) destination.Result {
	if err != nil {
		c.abort()
		return destination.Failure(blame(ctx, "request", err))
	}
	if a.reusable {
		d.pool.put(c)
	} else {
		c.abort()
	}
	result := destination.Result{Kind: retry.Status(a.code), Code: a.code}
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

// blame names the step, and the end of the attempt as the reason where that is what cut it short:
// the operating system only knows of a deadline that passed.
func blame(ctx context.Context, step string, err error) error {
	if ended := ctx.Err(); ended != nil {
		return fmt.Errorf("%s: %w", step, ended)
	}
	return fmt.Errorf("%s: %w", step, err)
}

// Close ends the idle connections.
func (d *Destination) Close() error {
	d.pool.close()
	return nil
}
