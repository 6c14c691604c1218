package http

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/go/internal/destination"
	"sluice/go/internal/retry"
)

func TestAnswersBecomeResults(t *testing.T) {
	now := time.Date(2026, 1, 1, 3, 25, 45, 0, time.UTC)
	head := func(status string, fields ...string) string {
		return "HTTP/1.1 " + status + "\r\n" + strings.Join(append(fields, "Content-Length: 0"), "\r\n") +
			"\r\n\r\n"
	}
	for _, c := range []struct {
		answer string
		kind   retry.Verdict
		code   int
		after  time.Duration
		says   string
	}{
		{head("200 OK"), destination.Delivered, 200, 0, ""},
		{head("200 OK", "Retry-After: 5"), destination.Delivered, 200, 0, ""},
		{"HTTP/1.1 204 No Content\r\n\r\n", destination.Delivered, 204, 0, ""},
		{"HTTP/1.0 200 OK\r\n\r\nuntil the end", destination.Delivered, 200, 0, ""},
		{head("100 Continue") + head("103 Early Hints") + head("202 Accepted"),
			destination.Delivered, 202, 0, ""},
		{head("301 Moved", "Location: https://u:hunter2@else.example/p?token=hunter2"),
			destination.Retry, 301, 0, "redirect to https://else.example is not followed"},
		{head("302 Found", "Location: /login"), destination.Retry, 302, 0, "redirect is not followed"},
		{head("400 Bad Request"), destination.Permanent, 400, 0, "answered 400 Bad Request"},
		{head("410 Gone", "Retry-After: 5"), destination.Permanent, 410, 0, "answered 410 Gone"},
		{head("408 x"), destination.Retry, 408, 0, "answered 408"},
		{head("429 x", "Retry-After: 7"), destination.Retry, 429, 7 * time.Second, "answered 429"},
		{head("503 x", "retry-after: Thu, 01 Jan 2026 03:30:00 GMT"), destination.Retry, 503,
			4*time.Minute + 15*time.Second, "answered 503"},
		{head("503 x", "Retry-After: Wed, 31 Dec 2025 03:30:00 GMT"), destination.Retry, 503, 0, "503"},
		{head("503 x", "Retry-After: -1"), destination.Retry, 503, 0, "503"},
		{head("503 x", "Retry-After: 99999999999"), destination.Retry, 503, time.Hour, "503"},
		{head("500 x"), destination.Retry, 500, 0, "500"},
		{head("101 Switching Protocols", "Upgrade: x"), destination.Retry, 101, 0, "101"},
	} {
		p := listen(t, func(n int, conn net.Conn) {
			if _, err := readRequest(conn); err == nil {
				_, _ = io.WriteString(conn, c.answer)
			}
		})
		d := open(t, Options{URL: p.url(), Now: func() time.Time { return now }})
		r := d.Deliver(context.Background(), request("body"))
		if r.Kind != c.kind || r.Code != c.code || r.RetryAfter != c.after {
			t.Errorf("%q: %v %d after %v (%v)", c.answer, r.Kind, r.Code, r.RetryAfter, r.Err)
		}
		if (r.Err == nil) != (c.kind == destination.Delivered) {
			t.Errorf("%q: error %v", c.answer, r.Err)
		}
		if r.Err != nil && (!strings.Contains(r.Err.Error(), c.says) ||
			strings.Contains(r.Err.Error(), "hunter2")) {
			t.Errorf("%q says %q", c.answer, r.Err)
		}
	}
}

func TestADestinationThatMisbehavesIsTriedAgain(t *testing.T) {
	reset := func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) }
	for name, c := range map[string]struct {
		script func(n int, c net.Conn)
		causes []retry.Cause
	}{
		"closes at once": {func(int, net.Conn) {}, []retry.Cause{retry.Closed, retry.Reset}},
		"resets at once": {func(_ int, c net.Conn) { reset(c) }, []retry.Cause{retry.Reset}},
		"resets after reading": {func(_ int, c net.Conn) {
			_, _ = readRequest(c)
			reset(c)
		}, []retry.Cause{retry.Reset}},
		"closes after reading": {func(_ int, c net.Conn) {
			_, _ = readRequest(c)
		}, []retry.Cause{retry.Closed}},
		"closes inside the status line": {func(_ int, c net.Conn) {
			_, _ = readRequest(c)
			_, _ = io.WriteString(c, "HTTP/1.1 20")
		}, []retry.Cause{retry.Closed}},
		"closes inside the fields": {func(_ int, c net.Conn) {
			_, _ = readRequest(c)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX-A: b\r\n")
		}, []retry.Cause{retry.Closed}},
		"speaks SSH":    {answering("SSH-2.0-OpenSSH_9.9\r\n"), []retry.Cause{retry.Protocol}},
		"answers noise": {answering("\x00\xff\x16\x03\x01\r\n\r\n"), []retry.Cause{retry.Protocol}},
		"speaks another version": {answering("HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n"),
			[]retry.Cause{retry.Protocol}},
		"gives two lengths": {answering("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n" +
			"Content-Length: 2\r\n\r\nxx"), []retry.Cause{retry.Protocol}},
		"answers endless fields": {func(_ int, c net.Conn) {
			_, _ = readRequest(c)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			for {
				if _, err := io.WriteString(c, "X-Padding: "+strings.Repeat("x", 1000)+"\r\n"); err != nil {
					return
				}
			}
		}, []retry.Cause{retry.Protocol}},
		"answers one endless line": {func(_ int, c net.Conn) {
			_, _ = readRequest(c)
			for {
				if _, err := io.WriteString(c, strings.Repeat("x", 1000)); err != nil {
					return
				}
			}
		}, []retry.Cause{retry.Protocol}},
		"never ends with 1xx": {answering(strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 50)),
			[]retry.Cause{retry.Protocol}},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, Options{URL: listen(t, c.script).url()})
			r := d.Deliver(context.Background(), request(strings.Repeat("b", 1000)))
			if r.Kind != destination.Retry || r.Code != 0 || r.Err == nil {
				t.Fatalf("%v %d %v", r.Kind, r.Code, r.Err)
			}
			for _, cause := range c.causes {
				if r.Cause() == cause {
					return
				}
			}
			t.Errorf("cause %v of %v", r.Cause(), r.Err)
		})
	}
}

func TestADestinationThatHangsEndsWithTheTimeout(t *testing.T) {
	for name, before := range map[string]func(net.Conn){
		"before reading": func(net.Conn) {},
		"after reading":  func(c net.Conn) { _, _ = readRequest(c) },
		"inside the answer": func(c net.Conn) {
			_, _ = readRequest(c)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n")
		},
		"answered but reads nothing": func(c net.Conn) { _, _ = io.WriteString(c, ok200) },
	} {
		t.Run(name, func(t *testing.T) {
			hold := make(chan struct{})
			p := listen(t, func(_ int, c net.Conn) {
				before(c)
				<-hold
			})
			defer close(hold)
			d := open(t, Options{URL: p.url(), Timeout: 200 * time.Millisecond})
			r := d.Deliver(context.Background(), request(strings.Repeat("b", 8<<20)))
			if r.Kind != destination.Retry || r.Cause() != retry.Timeout {
				t.Errorf("%v, cause %v: %v", r.Kind, r.Cause(), r.Err)
			}
		})
	}
}

func TestABodyThatNeverEndsDoesNotChangeTheAnswer(t *testing.T) {
	for name, answer := range map[string]string{
		"hangs":       "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
		"bad chunk":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"cut chunks":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhal",
		"empty chunk": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hold := make(chan struct{})
			p := listen(t, func(_ int, c net.Conn) {
				_, _ = readRequest(c)
				_, _ = io.WriteString(c, answer)
				<-hold
			})
			t.Cleanup(func() { close(hold) })
			d := open(t, Options{URL: p.url()})
			for range 2 {
				if r := d.Deliver(context.Background(), request("x")); r.Kind != destination.Delivered {
					t.Errorf("%v %v", r.Kind, r.Err)
				}
			}
			if n := p.connections(); n != 2 {
				t.Errorf("%d connections: one stood inside a body", n)
			}
		})
	}
}

func TestEndingTheContextEndsTheAttempt(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	p := listen(t, func(_ int, c net.Conn) {
		_, _ = readRequest(c)
		cancel()
		_, _ = io.Copy(io.Discard, c)
	})
	r := open(t, Options{URL: p.url()}).Deliver(ctx, request("x"))
	if r.Kind != destination.Retry || r.Cause() != retry.Cancelled {
		t.Errorf("%v, cause %v: %v", r.Kind, r.Cause(), r.Err)
	}
}

func TestNobodyListening(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	d := open(t, Options{URL: "http://" + l.Addr().String()})
	r := d.Deliver(context.Background(), request("x"))
	if r.Kind != destination.Retry || r.Cause() != retry.Refused {
		t.Errorf("%v, cause %v: %v", r.Kind, r.Cause(), r.Err)
	}
}

func TestANameThatDoesNotResolve(t *testing.T) {
	d := open(t, Options{URL: "http://nowhere.invalid/", Dial: func(context.Context, string, string) (
		net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}
	}})
	if r := d.Deliver(context.Background(), request("x")); r.Kind != destination.Retry ||
		r.Cause() != retry.DNS {
		t.Errorf("%v, cause %v: %v", r.Kind, r.Cause(), r.Err)
	}
}

func TestAnAnswerOfAGigabyteIsNotRead(t *testing.T) {
	for name, answer := range map[string]string{
		"with a length": "HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n",
		"without one":   "HTTP/1.1 200 OK\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			wrote := make(chan int, 1)
			p := listen(t, func(_ int, c net.Conn) {
				total := 0
				if _, err := readRequest(c); err == nil {
					_, err = io.WriteString(c, answer)
					for chunk := make([]byte, 1<<20); err == nil && total < 1<<30; {
						var n int
						n, err = c.Write(chunk)
						total += n
					}
				}
				wrote <- total
			})
			r := open(t, Options{URL: p.url()}).Deliver(context.Background(), request("x"))
			if r.Kind != destination.Delivered || r.Code != 200 {
				t.Errorf("%v %d %v", r.Kind, r.Code, r.Err)
			}
			if total := <-wrote; total >= 1<<29 {
				t.Errorf("the destination got rid of %d bytes", total)
			}
		})
	}
}

func TestARefusalInTheMiddleOfALongBodyIsHeard(t *testing.T) {
	heard := make(chan struct{})
	p := listen(t, func(_ int, c net.Conn) {
		_, _ = io.WriteString(c, "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\n"+
			"Content-Length: 0\r\n\r\n")
		<-heard
	})
	r := open(t, Options{URL: p.url()}).Deliver(context.Background(),
		request(strings.Repeat("b", 32<<20)))
	close(heard)
	if r.Kind != destination.Permanent || r.Code != 413 {
		t.Errorf("%v %d %v", r.Kind, r.Code, r.Err)
	}
}

func TestABodyAcceptedBeforeItWasReadStillArrivesWhole(t *testing.T) {
	body := strings.Repeat("0123456789abcdef", 1<<20)
	got := make(chan string, 1)
	release := make(chan struct{})
	p := listen(t, func(_ int, c net.Conn) {
		_, _ = io.WriteString(c, ok200)
		<-release // until long after the answer was seen
		text, _ := readRequest(c)
		_, text, _ = strings.Cut(text, "\r\n\r\n")
		got <- text
	})
	result := make(chan destination.Result, 1)
	d := open(t, Options{URL: p.url()})
	go func() { result <- d.Deliver(context.Background(), request(body)) }()
	select {
	case r := <-result:
		t.Fatalf("ended before the body was taken: %v %v", r.Kind, r.Err)
	case <-time.After(4 * writeGrace):
	}
	close(release)
	if r := <-result; r.Kind != destination.Delivered {
		t.Errorf("%v %v", r.Kind, r.Err)
	}
	if text := <-got; text != body {
		t.Errorf("%d of %d bytes arrived", len(text), len(body))
	}
}

func TestADestinationThatEchoesWhileItReadsIsServed(t *testing.T) {
	for _, size := range []int{100 << 10, 1 << 20, 8 << 20} {
		read := make(chan int64, 1)
		p := listen(t, func(_ int, c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
			total := int64(0)
			for chunk := make([]byte, 64<<10); total < int64(size); {
				n, err := c.Read(chunk)
				if total += int64(n); err != nil {
					break
				}
				_, _ = c.Write(chunk[:n]) // whether anybody hears it or not
			}
			read <- min(total, int64(size))
		})
		r := open(t, Options{URL: p.url()}).Deliver(context.Background(),
			request(strings.Repeat("x", size)))
		if r.Kind != destination.Delivered {
			t.Errorf("%v %v", r.Kind, r.Err)
		}
		// A connection that is closed too early takes the rest of the request with it.
		if n := <-read; n != int64(size) {
			t.Errorf("%d of %d bytes arrived", n, size)
		}
	}
}

func TestConnectionsAreReused(t *testing.T) {
	p := listen(t, answering(ok200))
	d := open(t, Options{URL: p.url()})
	for i := range 20 {
		if r := d.Deliver(context.Background(), request(fmt.Sprint(i))); r.Kind != destination.Delivered {
			t.Fatal(r.Err)
		}
	}
	if n := p.connections(); n != 1 {
		t.Errorf("%d connections for 20 events in a row", n)
	}
}

func TestARefusingDestinationKeepsItsConnectionToo(t *testing.T) {
	p := listen(t, answering("HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n"+
		"2\r\nno\r\n0\r\n\r\n"))
	d := open(t, Options{URL: p.url()})
	for range 5 {
		if r := d.Deliver(context.Background(), request("x")); r.Code != 500 {
			t.Fatal(r.Err)
		}
	}
	if n := p.connections(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

func TestAConnectionThatDiedIdleIsNoFailure(t *testing.T) {
	p := listen(t, func(_ int, c net.Conn) {
		_, _ = readRequest(c)
		_, _ = io.WriteString(c, ok200)
	})
	d := open(t, Options{URL: p.url()})
	for i := range 20 {
		if r := d.Deliver(context.Background(), request("x")); r.Kind != destination.Delivered {
			t.Fatalf("event %d: %v", i, r.Err)
		}
	}
}

func TestAReusedConnectionThatBreaksIsReplacedOnce(t *testing.T) {
	p := listen(t, func(n int, c net.Conn) {
		_, _ = readRequest(c)
		_, _ = io.WriteString(c, ok200)
		_, _ = readRequest(c) // takes the second one in, and dies over it
		if n > 1 {
			_, _ = io.WriteString(c, ok200)
		}
	})
	d := open(t, Options{URL: p.url()})
	for range 2 {
		if r := d.Deliver(context.Background(), request("x")); r.Kind != destination.Delivered {
			t.Fatal(r.Err)
		}
	}
	if n := p.connections(); n != 2 {
		t.Errorf("%d connections", n)
	}
}

func TestALeftoverAnswerIsNeverTakenForTheNextOne(t *testing.T) {
	told := make(chan struct{})
	p := listen(t, func(n int, c net.Conn) {
		_, _ = readRequest(c)
		_, _ = io.WriteString(c, ok200)
		if n == 1 {
			<-told
			_, _ = io.WriteString(c, ok200) // nobody asked
			told <- struct{}{}
			_, _ = io.Copy(io.Discard, c)
			return
		}
	})
	d := open(t, Options{URL: p.url()})
	if r := d.Deliver(context.Background(), request("first")); r.Kind != destination.Delivered {
		t.Fatal(r.Err)
	}
	told <- struct{}{}
	<-told
	until(t, "the stray answer is seen", func() bool {
		d.idle.mu.Lock()
		defer d.idle.mu.Unlock()
		return !d.idle.idle[0].quiet()
	})
	if r := d.Deliver(context.Background(), request("second")); r.Kind != destination.Delivered {
		t.Fatal(r.Err)
	}
	if n := p.connections(); n != 2 {
		t.Errorf("the connection with a stray answer was used again")
	}
}

func TestAnswersThatRunOnSpoilTheConnection(t *testing.T) {
	p := listen(t, answering(ok200+"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
	d := open(t, Options{URL: p.url()})
	for range 3 {
		if r := d.Deliver(context.Background(), request("x")); r.Kind != destination.Delivered {
			t.Fatal(r.Err)
		}
	}
	if n := p.connections(); n != 3 {
		t.Errorf("%d connections", n)
	}
}

func TestIdleConnectionsEnd(t *testing.T) {
	gone := make(chan error, 1)
	p := listen(t, func(_ int, c net.Conn) {
		_, _ = readRequest(c)
		_, _ = io.WriteString(c, ok200)
		_, err := c.Read(make([]byte, 1))
		gone <- err
	})
	d := open(t, Options{URL: p.url(), IdleTimeout: time.Millisecond})
	if r := d.Deliver(context.Background(), request("x")); r.Kind != destination.Delivered {
		t.Fatal(r.Err)
	}
	if err := <-gone; err == nil {
		t.Error("bytes on an idle connection")
	}
	until(t, "the pool is empty", func() bool {
		d.idle.mu.Lock()
		defer d.idle.mu.Unlock()
		return len(d.idle.idle) == 0
	})
}

func TestManyAtOnceAgainstARealServer(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	server := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter,
		r *nethttp.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Proto != "HTTP/1.1" {
			w.WriteHeader(500)
			return
		}
		mu.Lock()
		seen[fmt.Sprintf("%x", body[:8])]++
		mu.Unlock()
	}))
	defer server.Close()
	d := open(t, Options{URL: server.URL, IdleCount: 4})
	var all sync.WaitGroup
	const workers, each = 16, 25
	for w := range workers {
		all.Go(func() {
			for i := range each {
				body := bytes.Repeat([]byte{byte(w), byte(i), 0, 1, 2, 3, 4, 5}, 1+i*1000)
				r := request("")
				r.Body = body
				if result := d.Deliver(context.Background(), r); result.Kind != destination.Delivered {
					t.Errorf("worker %d event %d: %v", w, i, result.Err)
				}
			}
		})
	}
	all.Wait()
	if len(seen) != workers*each {
		t.Errorf("%d of %d bodies arrived", len(seen), workers*each)
	}
}

func TestTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter,
		r *nethttp.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		if r.Proto != "HTTP/1.1" || n != r.ContentLength {
			w.WriteHeader(500)
		}
	}))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that fail on purpose
	connections := 0
	server.Config.ConnState = func(_ net.Conn, s nethttp.ConnState) {
		if s == nethttp.StateNew {
			connections++ // one accept loop
		}
	}
	server.StartTLS()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	good := open(t, Options{URL: server.URL, Protocol: HTTP1, TLS: &tls.Config{RootCAs: roots}})
	for _, size := range []int{0, 10, 100 << 10, 10} {
		r := good.Deliver(context.Background(), request(strings.Repeat("x", size)))
		if r.Kind != destination.Delivered {
			t.Errorf("%d bytes: %v %d %v", size, r.Kind, r.Code, r.Err)
		}
	}
	for name, o := range map[string]Options{
		"unknown authority": {URL: server.URL},
		"wrong name": {URL: server.URL,
			TLS: &tls.Config{RootCAs: roots, ServerName: "other.example"}},
		"too old": {URL: server.URL, TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS10,
			MaxVersion: tls.VersionTLS11}},
		"plain text": {URL: strings.Replace(listen(t, answering(ok200)).url(), "http:", "https:", 1),
			Timeout: 200 * time.Millisecond},
	} {
		r := open(t, o).Deliver(context.Background(), request("x"))
		if r.Kind != destination.Retry || (r.Cause() != retry.TLS && name != "plain text") {
			t.Errorf("%s: %v, cause %v: %v", name, r.Kind, r.Cause(), r.Err)
		}
	}
	_ = good.Close()
	server.Close()
	if connections != 1+3 {
		t.Errorf("%d connections, want one for all events and one per failed handshake", connections)
	}
}

func TestTheEnvironmentNamesNoProxy(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, "http://127.0.0.1:1")
	}
	var dialled string
	d := open(t, Options{URL: "http://destination.example/x", Dial: func(_ context.Context, _,
		address string) (net.Conn, error) {
		dialled = address
		return nil, errors.New("far enough")
	}})
	d.Deliver(context.Background(), request("x"))
	if dialled != "destination.example:80" {
		t.Errorf("dialled %q", dialled)
	}
}
