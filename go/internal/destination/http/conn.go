package http

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	nethttp "net/http"
	"syscall"
	"time"

	"sluice/go/internal/retry"
)

// conn is one connection to the destination, used for one exchange at a time.
type conn struct {
	stream    net.Conn // what is written to: raw, or TLS over it
	raw       net.Conn
	bounded   *boundedReader
	reader    *bufio.Reader
	idleSince time.Time
}

// answer is what is kept of the destination's answer.
type answer struct {
	code       int
	retryAfter string
	location   string
	reusable   bool // the connection may serve another exchange
}

func newConn(stream, raw net.Conn) *conn {
	bounded := &boundedReader{from: stream}
	return &conn{
		stream: stream, raw: raw, bounded: bounded, reader: bufio.NewReaderSize(bounded, 4<<10),
	}
}

// past is a deadline that ends every call at once.
var past = time.Unix(1, 0)

// exchange writes one request and reads its answer. Nobody touches head or body once it returned:
// they may lie in memory that the caller is about to give away.
func (c *conn) exchange(ctx context.Context, method string, head, body []byte) (answer, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.raw.SetDeadline(past) })
	defer stop()

	// The answer is read while the request is written: a destination may refuse a long body early,
	// and one that answers before it reads would otherwise wait for us as we for it.
	c.bounded.start(answerHeadMax)
	written := make(chan error, 1)
	go func() { written <- c.write(head, body) }()

	a, response, err := c.readHead(method)
	writeErr, whole := wait(written, writeGrace)
	switch {
	case err != nil || !whole && retry.Status(a.code) != retry.Delivered:
		// Refused, or broken, in the middle of the request: the rest is not wanted.
		_ = c.raw.SetWriteDeadline(past)
		if !whole {
			<-written
		}
	case !whole:
		err = c.outlast(ctx, response, written)
	default:
		a.reusable = writeErr == nil && c.drain(response)
	}
	// Once the end of ctx has fired, its deadline may hit the connection at any later time.
	if !stop() {
		a.reusable = false
	}
	return a, err
}

// writeGrace lets the writer report what the answer already shows to be done.
const writeGrace = 50 * time.Millisecond

func wait(written <-chan error, grace time.Duration) (err error, whole bool) {
	select {
	case err := <-written:
		return err, true
	default:
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case err := <-written:
		return err, true
	case <-timer.C:
		return nil, false
	}
}

// outlast finishes a request that the destination accepted before it had read all of it. It may
// be reading still, so the event is handed over only when the whole of it was taken, or when the
// destination itself hung up on the rest.
func (c *conn) outlast(ctx context.Context, r *nethttp.Response, written <-chan error) error {
	discarded := make(chan struct{})
	c.bounded.start(math.MaxInt64)
	go func() {
		_, _ = io.Copy(io.Discard, r.Body)
		close(discarded)
	}()
	err := <-written // the end of ctx ends it too
	_ = c.raw.SetReadDeadline(past)
	<-discarded
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("answered %d without reading the whole request: %w", r.StatusCode, err)
	}
	return nil
}

func (c *conn) write(head, body []byte) error {
	const joined = 16 << 10 // one TLS record at most
	if c.stream != c.raw && len(head)+len(body) <= joined {
		_, err := c.stream.Write(append(head, body...))
		return err
	}
	parts := net.Buffers{head}
	if len(body) > 0 {
		parts = append(parts, body)
	}
	_, err := parts.WriteTo(c.stream)
	return err
}

// readHead reads up to the end of the final answer's fields.
func (c *conn) readHead(method string) (answer, *nethttp.Response, error) {
	request := &nethttp.Request{Method: method}
	for range interimMax {
		response, err := nethttp.ReadResponse(c.reader, request)
		if err != nil {
			return answer{}, nil, c.blame(err)
		}
		if response.ProtoMajor != 1 {
			return answer{}, nil, fmt.Errorf("%w: version %.20q", retry.ErrProtocol, response.Proto)
		}
		// 101 is final: nothing of ours asks for another protocol.
		if response.StatusCode >= 200 || response.StatusCode == nethttp.StatusSwitchingProtocols {
			return answer{
				code:       response.StatusCode,
				retryAfter: response.Header.Get("Retry-After"),
				location:   response.Header.Get("Location"),
			}, response, nil
		}
	}
	return answer{}, nil, fmt.Errorf("%w: %d interim answers and no final one", retry.ErrProtocol,
		interimMax)
}

// drain reads the body to its end, within bounds, and tells whether the connection stands right
// behind it. The verdict does not depend on it: the status has been given.
func (c *conn) drain(response *nethttp.Response) bool {
	defer func() { _ = response.Body.Close() }()
	if response.Close || response.StatusCode < 200 || response.ContentLength > answerBodyMax {
		return false
	}
	if response.ContentLength != 0 && response.Body != nethttp.NoBody {
		// The end of the attempt may have come first; its deadline must not be pushed out, but all
		// that is lost then is the connection.
		_ = c.raw.SetReadDeadline(time.Now().Add(drainTimeout))
		c.bounded.start(answerBodyMax)
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			return false
		}
		_ = c.raw.SetReadDeadline(time.Time{})
	}
	return c.reader.Buffered() == 0
}

// answerStarted tells whether any byte came back in the last exchange.
func (c *conn) answerStarted() bool { return c.bounded.count > 0 }

// quiet tells whether an idle connection is open with nothing to read. A stream that cannot be
// asked is not trusted.
func (c *conn) quiet() bool {
	asked, ok := c.raw.(syscall.Conn)
	if !ok {
		return false
	}
	control, err := asked.SyscallConn()
	if err != nil {
		return false
	}
	nothing := false
	err = control.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		nothing = errors.Is(err, syscall.EAGAIN)
		return true
	})
	return err == nil && nothing
}

// abort ends the connection without ceremony: a TLS farewell could wait for a peer that reads
// nothing.
func (c *conn) abort() { _ = c.raw.Close() }

// blame tells a broken stream from an answer that is not HTTP. Of the latter's text only the
// beginning is shown.
func (c *conn) blame(err error) error {
	switch {
	case c.bounded.err == io.EOF:
		return io.ErrUnexpectedEOF
	case c.bounded.err != nil:
		return c.bounded.err
	}
	return fmt.Errorf("%w: %.100s", retry.ErrProtocol, err.Error())
}

// boundedReader ends a stream that says too much.
type boundedReader struct {
	from  net.Conn
	left  int64
	count int64 // bytes since start
	err   error // what ended it
}

func (b *boundedReader) start(bytesMax int64) { b.left, b.count = bytesMax, 0 }

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		b.err = fmt.Errorf("%w: too long", retry.ErrProtocol)
		return 0, b.err
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.from.Read(p)
	b.left -= int64(n)
	b.count += int64(n)
	if err != nil {
		b.err = err
	}
	return n, err
}
