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
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"sluice/go/internal/destination"
	"sluice/go/internal/retry"
)

// serve2 runs a real HTTP/2 server: over TLS, or in clear by prior knowledge.
func serve2(t *testing.T, secure bool, handler nethttp.HandlerFunc) (*httptest.Server, Options) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	o := Options{}
	if secure {
		server.EnableHTTP2 = true
		server.StartTLS()
		roots := x509.NewCertPool()
		roots.AddCert(server.Certificate())
		o.TLS = &tls.Config{RootCAs: roots}
	} else {
		server.Config.Protocols = new(nethttp.Protocols)
		server.Config.Protocols.SetUnencryptedHTTP2(true)
		server.Config.Protocols.SetHTTP1(true)
		server.Start()
		o.Protocol = HTTP2
	}
	t.Cleanup(server.Close)
	o.URL = strings.Replace(server.URL, "://", "://ann:p@", 1) + "/hook?a=%20b"
	return server, o
}

func TestHTTP2CarriesTheSendersRequest(t *testing.T) {
	for _, secure := range []bool{true, false} {
		t.Run(fmt.Sprint("TLS ", secure), func(t *testing.T) {
			var seen *nethttp.Request
			var body []byte
			server, o := serve2(t, secure, func(w nethttp.ResponseWriter, r *nethttp.Request) {
				seen = r
				body, _ = io.ReadAll(r.Body)
				w.Header().Set("Content-Type", "text/plain")
				w.WriteHeader(201)
				_, _ = io.WriteString(w, "thanks")
			})
			o.Headers = []Header{{"X-Env", "prod"}}
			o.Secrets = []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
			d := open(t, o)
			r := request("\x00\xff{}\r\n", header("X-Rep", "1"), header("x-rep", "2"), header("X-REP", ""),
				header("X-Rep", "3"), header("X-Obs", "caf\xe9 \xff"), header("x-env", "theirs"),
				header("Cookie", "a=b; c=d"), header("Connection", "x-hop"), header("X-Hop", "gone"),
				header("Host", "sluice.example"), header("Content-Length", "999"), header("TE", "trailers"),
				header("Authorization", "theirs"), header("Accept-Encoding", "zstd"))
			r.WantAnswer = true
			got := d.Deliver(context.Background(), r)
			if got.Kind != destination.Delivered || got.Code != 201 || got.Answer == nil ||
				string(got.Answer.Body) != "thanks" || got.Answer.ContentType != "text/plain" {
				t.Fatalf("%v %d %v %v", got.Kind, got.Code, got.Answer, got.Err)
			}
			if seen.ProtoMajor != 2 || seen.Method != "POST" || seen.RequestURI != "/hook?a=%20b" ||
				seen.Host != server.Listener.Addr().String() || !bytes.Equal(body, r.Body) ||
				seen.ContentLength != int64(len(r.Body)) {
				t.Errorf("%s %s %s %s %q", seen.Proto, seen.Method, seen.RequestURI, seen.Host, body)
			}
			for name, want := range map[string][]string{
				"X-Rep": {"1", "2", "", "3"}, "X-Obs": {"caf\xe9 \xff"}, "X-Env": {"prod"},
				"Cookie": {"a=b; c=d"}, "X-Hop": nil, "Te": nil, "User-Agent": nil,
				"Accept-Encoding": {"zstd"}, "Authorization": {"Basic YW5uOnA="},
				"Idempotency-Key": {r.EventID.String()}, "Webhook-Id": {r.EventID.String()},
			} {
				if !slices.Equal(seen.Header[name], want) {
					t.Errorf("%s: %q, want %q", name, seen.Header[name], want)
				}
			}
			r.Body, r.WantAnswer = nil, false
			if got := d.Deliver(context.Background(), r); got.Kind != destination.Delivered ||
				len(body) != 0 || seen.ContentLength != 0 || got.Answer != nil {
				t.Errorf("without a body: %v %v %d", got.Kind, got.Err, seen.ContentLength)
			}
		})
	}
}

func TestManyEventsShareOneHTTP2Connection(t *testing.T) {
	var connections, most, now atomic.Int32
	server := httptest.NewUnstartedServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter,
		r *nethttp.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		got, err := io.ReadAll(r.Body)
		if err != nil || len(got) == 0 || bytes.Count(got, got[:1]) != len(got) {
			w.WriteHeader(500)
		}
	}))
	server.EnableHTTP2 = true
	server.Config.ConnState = func(_ net.Conn, s nethttp.ConnState) {
		if s == nethttp.StateNew {
			connections.Add(1)
		}
	}
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	d := open(t, Options{URL: server.URL, TLS: &tls.Config{RootCAs: roots}})
	var all sync.WaitGroup
	for w := range 16 {
		all.Go(func() {
			for i := range 20 {
				body := bytes.Repeat([]byte{byte('a' + w)}, 1+i*5000)
				r := request("")
				r.Body = body
				if got := d.Deliver(context.Background(), r); got.Kind != destination.Delivered {
					t.Errorf("worker %d event %d: %v", w, i, got.Err)
				}
				clear(body) // ours again
			}
		})
	}
	all.Wait()
	if connections.Load() != 1 || most.Load() < 2 {
		t.Errorf("%d connections, %d at once", connections.Load(), most.Load())
	}
}

func TestADestinationThatTakesFewStreamsGetsMoreConnections(t *testing.T) {
	var refused, now, most atomic.Int32
	server, o := serve2(t, false, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		for end := time.Now().Add(10 * time.Second); now.Load() < 6 && most.Load() < 6; {
			if time.Now().After(end) {
				break
			}
			time.Sleep(time.Millisecond)
		}
		now.Add(-1)
	})
	server.Config.HTTP2 = &nethttp.HTTP2Config{MaxConcurrentStreams: 2,
		CountError: func(kind string) {
			if strings.Contains(kind, "over_max_streams") {
				refused.Add(1)
			}
		}}
	d := open(t, o)
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			if got := d.Deliver(context.Background(), request("x")); got.Kind != destination.Delivered {
				t.Error(got.Err)
			}
		})
	}
	all.Wait()
	if most.Load() != 6 || refused.Load() != 0 {
		t.Errorf("%d at once, %d refused", most.Load(), refused.Load())
	}
}

func TestAControlByteGoesOverHTTP1OrIsRefusedForGood(t *testing.T) {
	protocols := make(chan string, 1)
	_, o := serve2(t, true, func(_ nethttp.ResponseWriter, r *nethttp.Request) {
		protocols <- r.Proto
	})
	// The standard library's server refuses such a value too, so a byte-level one takes it.
	r := request("x", header("X-Control", "a\x01b"))
	o.Protocol = HTTP2
	got := open(t, o).Deliver(context.Background(), r)
	if got.Kind != destination.Permanent || !strings.Contains(got.Err.Error(), `"X-Control"`) ||
		!strings.Contains(got.Err.Error(), "RFC 9113") || strings.Contains(got.Err.Error(), "a\x01b") {
		t.Errorf("%v %v", got.Kind, got.Err)
	}
	o.Protocol = Auto
	d := open(t, o)
	if got := d.Deliver(context.Background(), request("x")); <-protocols != "HTTP/2.0" {
		t.Errorf("auto: %v", got.Err)
	}
	got = d.Deliver(context.Background(), r)
	if got.Code != 400 || got.Kind != destination.Permanent {
		t.Errorf("over HTTP/1.1 the destination refuses it: %v %d %v", got.Kind, got.Code, got.Err)
	}
}

func TestTwoUserAgentsArriveBoth(t *testing.T) {
	seen := make(chan *nethttp.Request, 1)
	_, o := serve2(t, true, func(_ nethttp.ResponseWriter, r *nethttp.Request) { seen <- r })
	o.Protocol = Auto
	r := request("x", header("User-Agent", "one"), header("user-agent", "two"))
	if got := open(t, o).Deliver(context.Background(), r); got.Kind != destination.Delivered {
		t.Fatal(got.Err)
	}
	got := <-seen
	if agents := got.Header["User-Agent"]; got.ProtoMajor != 1 || len(agents) != 2 {
		t.Errorf("%s with %q", got.Proto, agents)
	}
}

func TestAutoSpeaksWhatTheDestinationAgreesTo(t *testing.T) {
	connections := atomic.Int32{}
	server := httptest.NewUnstartedServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter,
		r *nethttp.Request) {
		if r.Proto != "HTTP/1.1" {
			w.WriteHeader(500)
		}
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Config.ConnState = func(_ net.Conn, s nethttp.ConnState) {
		if s == nethttp.StateNew {
			connections.Add(1)
		}
	}
	server.StartTLS() // HTTP/1.1 alone
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	o := Options{URL: server.URL, TLS: &tls.Config{RootCAs: roots}}
	d := open(t, o)
	for range 5 {
		if got := d.Deliver(context.Background(), request("x")); got.Kind != destination.Delivered {
			t.Fatal(got.Err)
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
	o.Protocol = HTTP2
	if got := open(t, o).Deliver(context.Background(), request("x")); got.Kind != destination.Retry ||
		got.Cause() != retry.TLS && got.Cause() != retry.Protocol {
		t.Errorf("HTTP/2 alone: %v, cause %v: %v", got.Kind, got.Cause(), got.Err)
	}
}

// frames is a destination at the level of frames: script is run for each request of the n-th
// connection.
type frames struct {
	*http2.Framer
	conn net.Conn
}

func listen2(t *testing.T, settings []http2.Setting,
	script func(n int, f *frames, stream uint32, end bool) bool) *peer {
	t.Helper()
	return listen(t, func(n int, c net.Conn) {
		preface := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(c, preface); err != nil || string(preface) != http2.ClientPreface {
			return
		}
		f := &frames{Framer: http2.NewFramer(c, c), conn: c}
		f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		if f.WriteSettings(settings...) != nil {
			return
		}
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			switch frame := frame.(type) {
			case *http2.SettingsFrame:
				if !frame.IsAck() {
					_ = f.WriteSettingsAck()
				}
			case *http2.PingFrame:
				_ = f.WritePing(true, frame.Data)
			case *http2.MetaHeadersFrame:
				if !script(n, f, frame.StreamID, frame.StreamEnded()) {
					return
				}
			case *http2.DataFrame:
				if frame.StreamEnded() && !script(n, f, frame.StreamID, true) {
					return
				}
			}
		}
	})
}

func (f *frames) answer(stream uint32, status string) {
	var b bytes.Buffer
	_ = hpack.NewEncoder(&b).WriteField(hpack.HeaderField{Name: ":status", Value: status})
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: b.Bytes(),
		EndHeaders: true, EndStream: true})
}

func TestARequestIsSentAgainOnlyWhenItWasNotProcessed(t *testing.T) {
	for name, c := range map[string]struct {
		script func(times int, f *frames, stream uint32) bool
		kind   retry.Verdict
		cause  retry.Cause
		times  int // that the request is seen
	}{
		"refused once": {func(times int, f *frames, stream uint32) bool {
			if times == 1 {
				return f.WriteRSTStream(stream, http2.ErrCodeRefusedStream) == nil
			}
			f.answer(stream, "200")
			return true
		}, destination.Delivered, 0, 2},
		"refused for ever": {func(_ int, f *frames, stream uint32) bool {
			return f.WriteRSTStream(stream, http2.ErrCodeRefusedStream) == nil
		}, destination.Retry, retry.Reset, unprocessedMax},
		"going away before it": {func(times int, f *frames, stream uint32) bool {
			if times == 1 {
				_ = f.WriteGoAway(0, http2.ErrCodeNo, nil)
				_, _ = io.Copy(io.Discard, f.conn)
				return false
			}
			f.answer(stream, "200")
			return true
		}, destination.Delivered, 0, 2},
		"going away behind it": {func(times int, f *frames, stream uint32) bool {
			_ = f.WriteGoAway(stream, http2.ErrCodeNo, nil)
			f.answer(stream, "200")
			return true
		}, destination.Delivered, 0, 1},
		"going away behind it without an answer": {func(times int, f *frames, stream uint32) bool {
			_ = f.WriteGoAway(stream, http2.ErrCodeNo, []byte("bye"))
			return false
		}, destination.Retry, retry.Closed, 1},
		"reset": {func(_ int, f *frames, stream uint32) bool {
			return f.WriteRSTStream(stream, http2.ErrCodeInternal) == nil
		}, destination.Retry, retry.Reset, 1},
		"wants HTTP/1.1": {func(_ int, f *frames, stream uint32) bool {
			return f.WriteRSTStream(stream, http2.ErrCodeHTTP11Required) == nil
		}, destination.Retry, retry.Protocol, 1},
		"hangs up": {func(int, *frames, uint32) bool { return false },
			destination.Retry, retry.Closed, 1},
		"breaks the rules": {func(_ int, f *frames, stream uint32) bool {
			return f.WriteRawFrame(http2.FrameSettings, 0, stream, nil) == nil // of a stream
		}, destination.Retry, retry.Protocol, 1},
		"interim answers first": {func(_ int, f *frames, stream uint32) bool {
			var b bytes.Buffer
			_ = hpack.NewEncoder(&b).WriteField(hpack.HeaderField{Name: ":status", Value: "103"})
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: b.Bytes(),
				EndHeaders: true})
			f.answer(stream, "204")
			return true
		}, destination.Delivered, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var times atomic.Int32
			p := listen2(t, nil, func(_ int, f *frames, stream uint32, end bool) bool {
				return !end || c.script(int(times.Add(1)), f, stream)
			})
			d := open(t, Options{URL: p.url(), Protocol: HTTP2})
			got := d.Deliver(context.Background(), request("body"))
			if got.Kind != c.kind || got.Cause() != c.cause || int(times.Load()) != c.times {
				t.Errorf("%v, cause %v, sent %d times: %v", got.Kind, got.Cause(), times.Load(), got.Err)
			}
		})
	}
}

func TestAnHTTP2DestinationThatHangsEndsWithTheTimeout(t *testing.T) {
	p := listen2(t, nil, func(int, *frames, uint32, bool) bool { return true })
	body := bytes.Repeat([]byte("b"), 1<<20) // over its window
	r := request("")
	r.Body = body
	got := open(t, Options{URL: p.url(), Protocol: HTTP2, Timeout: 100 * time.Millisecond}).Deliver(
		context.Background(), r)
	if got.Kind != destination.Retry || got.Cause() != retry.Timeout {
		t.Errorf("%v, cause %v: %v", got.Kind, got.Cause(), got.Err)
	}
	p = listen2(t, nil, func(_ int, f *frames, stream uint32, _ bool) bool {
		var b bytes.Buffer
		_ = hpack.NewEncoder(&b).WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: b.Bytes(),
			EndHeaders: true}) == nil
	})
	got = open(t, Options{URL: p.url(), Protocol: HTTP2, Timeout: 100 * time.Millisecond}).Deliver(
		context.Background(), r)
	if got.Kind != destination.Retry || got.Cause() != retry.Timeout {
		t.Errorf("accepted and not read: %v, cause %v: %v", got.Kind, got.Cause(), got.Err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p = listen2(t, nil, func(int, *frames, uint32, bool) bool {
		cancel()
		return true
	})
	got = open(t, Options{URL: p.url(), Protocol: HTTP2}).Deliver(ctx, request("x"))
	if got.Kind != destination.Retry || got.Cause() != retry.Cancelled {
		t.Errorf("%v, cause %v: %v", got.Kind, got.Cause(), got.Err)
	}
}

func TestHTTP2ThatIsNoneIsToldAsSuch(t *testing.T) {
	for name, script := range map[string]func(int, net.Conn){
		"HTTP/1.1": answering("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"),
		"silence":  func(_ int, c net.Conn) { _, _ = io.Copy(io.Discard, c) },
		"the end":  func(_ int, c net.Conn) { _, _ = io.ReadFull(c, make([]byte, 24)) },
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, Options{URL: listen(t, script).url(), Protocol: HTTP2,
				Timeout: 300 * time.Millisecond})
			got := d.Deliver(context.Background(), request("x"))
			want := map[string][]retry.Cause{"HTTP/1.1": {retry.Protocol}, "silence": {retry.Timeout},
				"the end": {retry.Closed, retry.Reset}}[name]
			if got.Kind != destination.Retry || !slices.Contains(want, got.Cause()) {
				t.Errorf("%v, cause %v: %v", got.Kind, got.Cause(), got.Err)
			}
		})
	}
}

func TestALongHTTP2BodyAcceptedEarlyStillArrivesWhole(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 1<<17)
	for _, want := range []bool{false, true} {
		release, arrived := make(chan struct{}), make(chan int64, 1)
		_, o := serve2(t, false, func(w nethttp.ResponseWriter, r *nethttp.Request) {
			rc := nethttp.NewResponseController(w)
			w.WriteHeader(200)
			_ = rc.Flush()
			<-release
			n, _ := io.Copy(w, r.Body) // the answer is as long as the request
			arrived <- n
		})
		r := request("")
		r.Body, r.WantAnswer = body, want
		result := make(chan destination.Result, 1)
		d := open(t, o)
		go func() { result <- d.Deliver(context.Background(), r) }()
		select {
		case got := <-result:
			t.Fatalf("ended before the body was taken: %v %v", got.Kind, got.Err)
		case <-time.After(50 * time.Millisecond):
		}
		close(release)
		if got := <-result; got.Kind != destination.Delivered || got.Answer != nil {
			t.Errorf("%v %v", got.Kind, got.Err)
		}
		if n := <-arrived; n != int64(len(body)) {
			t.Errorf("%d of %d bytes arrived", n, len(body))
		}
	}
}

func TestALongHTTP2BodyRefusedEarlyIsHeard(t *testing.T) {
	_, o := serve2(t, true, func(w nethttp.ResponseWriter, _ *nethttp.Request) { w.WriteHeader(413) })
	r := request(strings.Repeat("b", 8<<20))
	if got := open(t, o).Deliver(context.Background(), r); got.Code != 413 ||
		got.Kind != destination.Permanent {
		t.Errorf("%v %d %v", got.Kind, got.Code, got.Err)
	}
}

func TestABodyIsItsOwnersAgainWhenTheAttemptIsOver(t *testing.T) {
	l := &lent{rest: []byte("secret of the next event")}
	if _, err := l.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	l.takeBack()
	if n, err := l.Read(make([]byte, 3)); n != 0 || err == nil || errors.Is(err, io.EOF) {
		t.Errorf("%d bytes more, %v", n, err)
	}
}
