package http

import (
	"bytes"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/go/internal/destination"
	"sluice/go/internal/event"
)

// peer is a destination at the level of bytes: a script per connection it accepts.
type peer struct {
	listener net.Listener
	mu       sync.Mutex
	accepted int
	open     []net.Conn
	done     sync.WaitGroup
}

// listen runs script for the n-th connection (from 1), each in a goroutine of its own.
func listen(t testing.TB, script func(n int, c net.Conn)) *peer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{listener: l}
	p.done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			p.accepted++
			n := p.accepted
			p.open = append(p.open, c)
			p.mu.Unlock()
			p.done.Go(func() {
				script(n, c)
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		for _, c := range p.open {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.done.Wait()
	})
	return p
}

func (p *peer) url() string { return "http://" + p.listener.Addr().String() + "/hook?a=%20b" }

func (p *peer) connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// readRequest reads one request as bytes: to the end of its head, then its Content-Length.
func readRequest(c net.Conn) (string, error) {
	var got []byte
	one := make([]byte, 1)
	for !bytes.HasSuffix(got, []byte("\r\n\r\n")) {
		if _, err := c.Read(one); err != nil {
			return string(got), err
		}
		got = append(got, one[0])
	}
	length := 0
	for line := range strings.SplitSeq(string(got), "\r\n") {
		if value, ok := strings.CutPrefix(line, "Content-Length: "); ok {
			length, _ = strconv.Atoi(value)
		}
	}
	body := make([]byte, length)
	n, err := io.ReadFull(c, body)
	return string(append(got, body[:n]...)), err
}

const ok200 = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// answering serves every request of a connection with the same bytes.
func answering(answer string) func(int, net.Conn) {
	return func(_ int, c net.Conn) {
		for {
			if _, err := readRequest(c); err != nil {
				return
			}
			if _, err := io.WriteString(c, answer); err != nil {
				return
			}
		}
	}
}

func open(t *testing.T, o Options) *Destination {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func header(name, value string) destination.Header {
	return destination.Header{Name: []byte(name), Value: []byte(value)}
}

func request(body string, headers ...destination.Header) *destination.Request {
	id, err := event.ParseID("01JGFJJZ00ABCDEFGHJKMNPQRS")
	if err != nil {
		panic(err)
	}
	return &destination.Request{
		EventID: id, Source: "github", Attempt: 1, Method: "POST", Target: "/hooks/github?x=1",
		Headers: headers, Body: []byte(body), ReceivedNS: 1735689600000000000,
	}
}

// until polls a condition that another goroutine is about to make true.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

func (p *peer) at(scheme string) string { return scheme + "://" + p.listener.Addr().String() }
