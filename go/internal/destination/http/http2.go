package http

import (
	"context"
	"errors"
	"fmt"
	"io"
	nethttp "net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"sluice/go/internal/destination"
	"sluice/go/internal/retry"
)

// errNotCarried says that the protocol has no form for a request. The same request gets it again.
var errNotCarried = errors.New("HTTP/2 cannot carry the request (RFC 9113 §8.2.1)")

// unprocessedMax is how often a request that was not processed is sent in one attempt.
const unprocessedMax = 3

// overStream delivers over HTTP/2, or over HTTP/1.1 where that is what the destination agrees to.
func (d *Destination) overStream(ctx context.Context, deadline time.Time, s *scratch,
	r *destination.Request) (answer, error) {
	name := uncarried(s.fields)
	if d.options.Protocol != HTTP2 && (name != nil || dropsOne(s.fields)) {
		return d.overOne(ctx, deadline, s, r, nil)
	}
	if name != nil {
		return answer{}, fmt.Errorf("%w: control byte in the value of %q", errNotCarried, name)
	}
	limited, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	for try := 1; ; try++ {
		c, l, err := d.streams.take(limited)
		if err != nil {
			return answer{}, d.blame(ctx, "connect", err)
		}
		if c == nil {
			return d.overOne(ctx, deadline, s, r, l)
		}
		a, err := d.roundTrip(limited, c, s, r)
		if err == nil {
			return a, nil
		}
		if limited.Err() != nil || try == unprocessedMax || !unprocessed(err) {
			return a, d.blame(ctx, "request", explain(err))
		}
	}
}

// uncarried finds a field whose value HTTP/2 has no form for. RFC 9113 forbids the line's ends and
// NUL; the standard library, and with it many a receiver, refuses the other control bytes as well.
func uncarried(fields []destination.Header) (name []byte) {
	for _, h := range fields {
		for _, c := range h.Value {
			if c < ' ' && c != '\t' || c == 0x7f {
				return h.Name
			}
		}
	}
	return nil
}

// dropsOne tells whether the standard library would leave a field out: it passes one User-Agent.
func dropsOne(fields []destination.Header) bool {
	agents := 0
	for _, h := range fields {
		if strings.EqualFold(string(h.Name), "User-Agent") {
			agents++
		}
	}
	return agents > 1
}

// roundTrip makes one exchange on a connection that has a place reserved for it.
func (d *Destination) roundTrip(ctx context.Context, c *nethttp.ClientConn, s *scratch,
	r *destination.Request) (answer, error) {
	var wrote atomic.Bool
	request := (&nethttp.Request{
		Method: r.Method, URL: d.url, Host: d.host, Header: headerOf(s), ProtoMajor: 2,
	}).WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(sent httptrace.WroteRequestInfo) { wrote.Store(sent.Err == nil) },
	}))
	if len(r.Body) > 0 {
		body := &lent{rest: r.Body}
		defer body.takeBack()
		request.Body, request.ContentLength = body, int64(len(r.Body))
	}
	response, err := c.RoundTrip(request)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	// From here on the transport no longer watches ctx while it waits for leave to send on.
	defer context.AfterFunc(ctx, func() { _ = response.Body.Close() })()
	a := answer{
		code: response.StatusCode, retryAfter: response.Header.Get("Retry-After"),
		location:    response.Header.Get("Location"),
		contentType: response.Header.Get("Content-Type"),
		encoding:    strings.Join(response.Header.Values("Content-Encoding"), ""),
	}
	if r.WantAnswer {
		kept, err := io.ReadAll(io.LimitReader(response.Body, destination.AnswerBodyMax+1))
		if err == nil && len(kept) <= destination.AnswerBodyMax {
			a.body, a.whole = kept, true
		}
	}
	// A stream that is closed before its end is reset, and with it goes what the destination has not
	// read yet. So what it accepted is read to the end, or to that of the attempt; it counts as
	// handed over when all of the request is out, or the destination itself ended the stream.
	if retry.Status(a.code) == retry.Delivered {
		_, err = io.Copy(io.Discard, response.Body)
		if err != nil && ctx.Err() != nil && !wrote.Load() {
			return a, fmt.Errorf("answered %d without reading the whole request: %w", a.code, ctx.Err())
		}
		return a, nil
	}
	// What it refused may be reset, but many resets look like an attack.
	if !a.whole && response.Body != nethttp.NoBody {
		late := time.AfterFunc(drainTimeout, func() { _ = response.Body.Close() })
		_, _ = io.CopyN(io.Discard, response.Body, answerBodyMax)
		late.Stop()
	}
	return a, nil
}

// headerOf gives the fields with the values of one name together, in their order.
func headerOf(s *scratch) nethttp.Header {
	header := make(nethttp.Header, len(s.fields)+2)
	for _, h := range s.fields {
		name := nethttp.CanonicalHeaderKey(string(h.Name))
		header[name] = append(header[name], string(h.Value))
	}
	header["Idempotency-Key"] = []string{s.id}
	if _, has := header["User-Agent"]; !has {
		header["User-Agent"] = []string{""} // else the transport adds its own
	}
	return header
}

// unprocessed tells whether the destination has said, or the transport knows, that nothing was done
// for the request. The transport's own errors have no types, so their text is all there is: one
// that changed costs an attempt, never a duplicate.
func unprocessed(err error) bool {
	var reset http2.StreamError
	if errors.As(err, &reset) {
		return reset.Code == http2.ErrCodeRefusedStream
	}
	switch err.Error() {
	case "http2: Transport received Server's graceful shutdown GOAWAY", // a stream behind its last
		"http2: client conn not usable", "http2: client conn could not be established":
		return true
	}
	return false
}

// explain gives an error of the transport a cause.
func explain(err error) error {
	var reset http2.StreamError
	switch {
	case errors.As(err, &reset) && reset.Code == http2.ErrCodeHTTP11Required:
		return fmt.Errorf("%w: the destination wants HTTP/1.1 (protocol: http1)", retry.ErrProtocol)
	case errors.As(err, &reset):
		return fmt.Errorf("%w: %v", retry.ErrReset, reset.Code)
	case retry.CauseOf(err) != retry.Unknown:
		return err
	case strings.Contains(err.Error(), "GOAWAY"), strings.Contains(err.Error(), "client conn"):
		return fmt.Errorf("%w: %.200s", io.ErrUnexpectedEOF, err.Error())
	}
	return fmt.Errorf("%w: %.200s", retry.ErrProtocol, err.Error())
}

// lent is a body that its owner takes back: the transport may hold on to a request for a while
// after its exchange has ended.
type lent struct {
	mu   sync.Mutex
	rest []byte
	over bool
}

func (l *lent) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return 0, errors.New("the attempt is over")
	}
	n := copy(p, l.rest)
	if l.rest = l.rest[n:]; len(l.rest) == 0 {
		return n, io.EOF
	}
	return n, nil
}

// Close has nothing to free.
func (l *lent) Close() error { return nil }

func (l *lent) takeBack() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest, l.over = nil, true
}
