package http

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"sync/atomic"
	"time"

	"sluice/go/internal/destination"
	"sluice/go/internal/retry"
)

// conn is one HTTP/1.1 connection to the destination, used for one exchange at a time.
type conn struct {
	*link
	bounded   *boundedReader
	reader    *bufio.Reader
	idleSince time.Time

	// Of the exchange that runs.
	posting *posting
	early   *early // set when a write had to wait

	listen, expire func() // bound once: a closure for each exchange would be garbage
}

// posting is one request as it goes over the wire.
type posting struct {
	method     string
	head, body []byte // in this order; a short body is part of head already
	want       bool   // whether the answer's body is kept
	deadline   time.Time
}

func newConn(l *link) *conn {
	c := &conn{link: l, bounded: &boundedReader{from: l.stream}}
	c.reader = bufio.NewReaderSize(c.bounded, 4<<10)
	c.listen = c.startListening
	c.expire = func() { _ = c.socket.SetDeadline(past) }
	return c
}

// past is a deadline that ends every call at once.
var past = time.Unix(1, 0)

// writeGrace is how long one direction waits for the other after its own last word.
const writeGrace = 50 * time.Millisecond

// exchange writes one request and reads its answer. Nobody touches p or what it points at once it
// returned: that may lie in memory which the caller is about to give away.
//
// Nearly every request fits into the kernel's buffer, so it is written first and the answer read
// after it, by the same goroutine. Only when a write has to wait for the destination, the answer is
// read meanwhile: a destination may refuse a long body early, and one that answers before it reads
// would otherwise wait for us as we for it.
func (c *conn) exchange(ctx context.Context, p *posting) (a answer, err error) {
	c.posting, c.early = p, nil
	_ = c.socket.SetDeadline(p.deadline)
	stop := func() bool { return true }
	if ctx.Done() != nil {
		stop = context.AfterFunc(ctx, c.expire)
	}
	c.bounded.start(answerHeadMax)
	c.socket.full = c.listen
	writeErr := c.write(p)
	c.socket.full = nil

	if e := c.early; e != nil && !e.state.CompareAndSwap(neither, written) {
		a, err = c.answeredFirst(e, writeErr)
	} else {
		a, err = c.answeredAfter(ctx, e, writeErr)
	}
	// Once the end of ctx has fired, its deadline may hit the connection at any later time.
	if !stop() {
		a.reusable = false
	}
	c.posting, c.early = nil, nil
	return a, err
}

func (c *conn) write(p *posting) error {
	_, err := c.stream.Write(p.head)
	if err == nil && len(p.body) > 0 {
		_, err = c.stream.Write(p.body)
	}
	return err
}

// answeredAfter is the ordinary end: the request is out, or broken off, and no answer has begun.
func (c *conn) answeredAfter(ctx context.Context, e *early, writeErr error) (answer, error) {
	p := c.posting
	if writeErr != nil {
		// What the destination said before it hung up may lie there.
		_ = c.socket.SetReadDeadline(sooner(p.deadline, time.Now().Add(writeGrace)))
	}
	var a answer
	var err error
	if e == nil {
		a, err = c.readHead(p.method, p.want)
	} else {
		<-e.done
		a, err = e.answer, e.err
	}
	if err != nil {
		return a, whichEnded(err, writeErr)
	}
	a.reusable = c.take(ctx, &a) && writeErr == nil
	if !a.reusable && retry.Status(a.code) == retry.Delivered {
		c.outlast(ctx)
	}
	return a, nil
}

// whichEnded tells, of the errors of reading an answer and of writing its request, the one that
// says why there is no answer. The kernel reports a reset once: a write that met it leaves a plain
// end of stream to the read.
func whichEnded(readErr, writeErr error) error {
	if writeErr != nil && (errors.Is(readErr, os.ErrDeadlineExceeded) ||
		errors.Is(readErr, io.EOF) || errors.Is(readErr, io.ErrUnexpectedEOF)) {
		return writeErr
	}
	return readErr
}

// outlast waits until the kernel of the destination has the whole of a request that was accepted.
// Closing a connection on which something is, or comes, unread resets it, and drops what is still
// on its way; so the rest of the answer is read, however long it is, and not kept.
func (c *conn) outlast(ctx context.Context) {
	if c.socket.unsent() == 0 {
		return
	}
	_ = c.socket.SetReadDeadline(c.posting.deadline)
	if ctx.Err() != nil {
		return // its deadline may just have been undone
	}
	for rest := make([]byte, 16<<10); c.socket.unsent() > 0; {
		if _, err := c.stream.Read(rest); err != nil {
			return
		}
	}
}

// answeredFirst is the end of a request whose answer was there before the whole of it was taken.
// The destination may be reading still, so the event is handed over only when it read all, or when
// it hung up on the rest itself. The head of e is set.
func (c *conn) answeredFirst(e *early, writeErr error) (answer, error) {
	// What was accepted is read to its end (see outlast), what was refused only where it is wanted.
	if e.err != nil || retry.Status(e.answer.code) != retry.Delivered {
		until := past
		if c.posting.want {
			until = sooner(c.posting.deadline, time.Now().Add(drainTimeout))
		}
		_ = c.socket.SetReadDeadline(until)
	}
	<-e.done
	a, err := e.answer, e.err
	if err != nil {
		return a, whichEnded(err, writeErr)
	}
	if retry.Status(a.code) == retry.Delivered &&
		errors.Is(writeErr, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("answered %d without reading the whole request: %w", a.code, writeErr)
	}
	return a, err
}

// early is an answer that is waited for while the request is still being written.
type early struct {
	state  atomic.Uint32
	done   chan struct{} // closed when answer and err are set
	answer answer
	err    error
}

// What came first: the end of the request, or the end of the answer's fields.
const (
	neither = iota
	written
	answered
)

// startListening reads the answer in a goroutine of its own. A write that has to wait calls it.
func (c *conn) startListening() {
	e, p := &early{done: make(chan struct{})}, c.posting
	c.early = e
	go func() {
		defer close(e.done)
		e.answer, e.err = c.readHead(p.method, p.want)
		if !e.state.CompareAndSwap(neither, answered) {
			return
		}
		if e.err != nil || retry.Status(e.answer.code) != retry.Delivered {
			// Refused, or broken, in the middle of the request: the rest is not wanted.
			_ = c.socket.SetWriteDeadline(time.Now().Add(writeGrace))
		}
		if e.err == nil {
			// The answer must not back up while the request goes out, however long it is. Its own end
			// or the reader's deadline ends this.
			c.bounded.allow(math.MaxInt64)
			_ = c.keep(&e.answer, p.want)
		}
	}()
}

// take reads the body to its end, within bounds, and tells whether the connection stands right
// behind it. The verdict does not depend on it: the status has been given.
func (c *conn) take(ctx context.Context, a *answer) bool {
	p := c.posting
	switch {
	case a.length == 0:
		a.whole = true
	case a.length > answerBodyMax || a.ends && !p.want:
		return false
	case !p.want && a.length > 0 && a.length <= int64(c.reader.Buffered()):
		_, _ = c.reader.Discard(int(a.length))
	default:
		if !p.want {
			_ = c.socket.SetReadDeadline(sooner(p.deadline, time.Now().Add(drainTimeout)))
			if ctx.Err() != nil {
				return false // its deadline may just have been undone
			}
		}
		c.bounded.allow(answerBodyMax)
		if c.keep(a, p.want) != nil {
			return false
		}
	}
	return !a.ends && c.reader.Buffered() == 0
}

// keep reads a body to its end and keeps it where it is wanted and short enough.
func (c *conn) keep(a *answer, want bool) error {
	body := c.bodyOf(a)
	if want {
		kept, err := io.ReadAll(io.LimitReader(body, destination.AnswerBodyMax+1))
		if err != nil {
			return err
		}
		if len(kept) <= destination.AnswerBodyMax {
			a.body, a.whole = kept, true
			return nil
		}
	}
	_, err := io.Copy(io.Discard, body)
	return err
}

// answerStarted tells whether any byte came back in the last exchange.
func (c *conn) answerStarted() bool { return c.bounded.count > 0 }

func sooner(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// boundedReader ends a stream that says too much.
type boundedReader struct {
	from  net.Conn
	left  int64
	count int64 // bytes since start
}

func (b *boundedReader) start(bytesMax int64) { b.left, b.count = bytesMax, 0 }
func (b *boundedReader) allow(bytesMax int64) { b.left = bytesMax }

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("%w: too long", retry.ErrProtocol)
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.from.Read(p)
	b.left -= int64(n)
	b.count += int64(n)
	return n, err
}
