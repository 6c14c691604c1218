package http

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"sync"
	"time"

	"sluice/go/internal/retry"
)

// streams keeps the HTTP/2 connections of a destination. Each carries as many requests at once as
// the destination lets it; another is opened only when all are full, so there are never more of
// them than attempts in flight, and mostly one. One at a time is being opened: who waits for it
// hopes for a place on it.
type streams struct {
	destination *Destination
	transport   *nethttp.Transport // makes connections of links; keeps none

	mu    sync.Mutex
	open  []*nethttp.ClientConn
	dial  *dial
	plain time.Time // until when HTTP/1.1 is taken for granted
}

// dial is a connection being opened. The others are set when done is closed.
type dial struct {
	done  chan struct{}
	err   error // why there is none, where that holds for everybody
	plain bool  // HTTP/1.1 was agreed on
}

const (
	// A connection that gives no sign of life for pingAfter is asked for one, and closed when there
	// is none within pingWait: a peer that vanished resets nothing.
	pingAfter = 10 * time.Second
	pingWait  = 5 * time.Second
	// streamWindow is how much of an answer may come unasked.
	streamWindow = 64 << 10
	// plainFor is how long a destination that agreed on HTTP/1.1 is not asked again.
	plainFor = 10 * time.Minute
)

// prefaceKey leads the transport to the stream that is to become a connection.
type prefaceKey struct{}

func newStreams(d *Destination) *streams {
	t := &nethttp.Transport{
		// TLS lies in the stream already; for the transport each is one in clear.
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return ctx.Value(prefaceKey{}).(*preface), nil
		},
		DisableCompression:     true,
		MaxResponseHeaderBytes: answerHeadMax, IdleConnTimeout: d.options.IdleTimeout,
		Protocols: new(nethttp.Protocols),
		HTTP2: &nethttp.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingWait,
			MaxReceiveBufferPerStream: streamWindow},
	}
	t.Protocols.SetUnencryptedHTTP2(true)
	return &streams{destination: d, transport: t}
}

// take gives a connection with a place reserved on it for one RoundTrip, or a fresh link on which
// HTTP/1.1 was agreed, or neither: then HTTP/1.1 is what is spoken.
func (s *streams) take(ctx context.Context) (*nethttp.ClientConn, *link, error) {
	for {
		s.mu.Lock()
		if c := s.reserve(); c != nil {
			s.mu.Unlock()
			return c, nil, nil
		}
		if time.Now().Before(s.plain) {
			s.mu.Unlock()
			return nil, nil, nil
		}
		waited := s.dial
		if waited == nil {
			break
		}
		s.mu.Unlock()
		select {
		case <-waited.done:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
		if waited.err != nil || waited.plain {
			return nil, nil, waited.err
		}
	}
	own := &dial{done: make(chan struct{})}
	s.dial = own
	s.mu.Unlock()

	c, l, err := s.connect(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dial = nil
	switch {
	case err != nil && ctx.Err() == nil: // else the next one has more time
		own.err = err
	case l != nil:
		own.plain, s.plain = true, time.Now().Add(plainFor)
	case c != nil:
		s.open = append(s.open, c)
	}
	close(own.done)
	return c, l, err
}

// reserve finds a place on an open connection, and forgets those that have ended.
func (s *streams) reserve() *nethttp.ClientConn {
	open := s.open[:0]
	var found *nethttp.ClientConn
	for _, c := range s.open {
		if c.Err() != nil {
			continue
		}
		open = append(open, c)
		if found == nil && c.Reserve() == nil {
			found = c
		}
	}
	clear(s.open[len(open):])
	s.open = open
	return found
}

// connect opens a connection and reserves a place on it.
func (s *streams) connect(ctx context.Context) (*nethttp.ClientConn, *link, error) {
	d := s.destination
	protocols := []string{"h2", "http/1.1"}
	if d.options.Protocol == HTTP2 {
		protocols = protocols[:1]
	}
	l, err := d.connect(ctx, protocols...)
	if err != nil {
		return nil, nil, err
	}
	if d.tls != nil && l.protocol != "h2" {
		if d.options.Protocol != HTTP2 {
			return nil, l, nil
		}
		l.abort()
		return nil, nil, fmt.Errorf("%w: TLS did not agree on HTTP/2", retry.ErrProtocol)
	}
	p := &preface{Conn: l.stream, read: make(chan struct{})}
	c, err := s.transport.NewClientConn(context.WithValue(ctx, prefaceKey{}, p), "http", d.address)
	if err == nil {
		select {
		case <-p.read:
			if c.Reserve() != nil {
				err = p.ended()
			}
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		l.abort()
		return nil, nil, err
	}
	return c, nil, nil
}

// preface watches a stream until the destination's first frame, its SETTINGS, has been taken in:
// how many requests it lets come at once is not known before, and what is over it is refused.
type preface struct {
	net.Conn
	head [frameHead]byte
	seen int
	read chan struct{} // closed when nothing is left to wait for
	once sync.Once
}

// frameHead is the length of a frame's header, whose first three bytes are the length of what
// follows (RFC 9113 §4.1).
const frameHead = 9

// Read is called by one goroutine, which takes in all it got before it calls again.
func (p *preface) Read(b []byte) (int, error) {
	length := int(p.head[0])<<16 | int(p.head[1])<<8 | int(p.head[2])
	if p.seen >= frameHead+length {
		p.once.Do(func() { close(p.read) })
		return p.Conn.Read(b)
	}
	n, err := p.Conn.Read(b)
	if p.seen < frameHead {
		copy(p.head[p.seen:], b[:n])
	}
	p.seen += n
	return n, err
}

// ended says why there is no HTTP/2 connection, once read is closed.
func (p *preface) ended() error {
	if bytes.HasPrefix(p.head[:], []byte("HTTP/1")) {
		return fmt.Errorf("%w: it answered HTTP/2 with HTTP/1.1", retry.ErrProtocol)
	}
	return fmt.Errorf("%w before HTTP/2 began", io.ErrUnexpectedEOF)
}

// Close is called by the transport as well when what came was no HTTP/2.
func (p *preface) Close() error {
	p.once.Do(func() { close(p.read) })
	return p.Conn.Close()
}

// close ends all connections. No attempt may run.
func (s *streams) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.open {
		_ = c.Close()
	}
	s.open = nil
}
