package http

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/go/internal/destination"
	"sluice/go/internal/destination/egress"
	"sluice/go/internal/retry"
)

// between is a real little proxy. It notes what it was asked for.
type between struct {
	*peer
	mu    sync.Mutex
	asked []string
}

func (b *between) note(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, text)
}

func (b *between) last() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.asked) == 0 {
		return ""
	}
	return b.asked[len(b.asked)-1]
}

// splice passes bytes in both directions until both have ended.
func splice(a, b net.Conn) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(a, b)
		_ = a.Close()
	}()
	_, _ = io.Copy(b, a)
	_ = b.Close()
	<-done
}

// connecting serves CONNECT, with the certificate of an https proxy where there is one. A refusal
// is said instead of opening the tunnel.
func connecting(t *testing.T, certificate *tls.Certificate, refusal string) *between {
	b := &between{}
	b.peer = listen(t, func(_ int, c net.Conn) {
		if certificate != nil {
			c = tls.Server(c, &tls.Config{Certificates: []tls.Certificate{*certificate}})
		}
		r, err := nethttp.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		b.note(r.Method + " " + r.RequestURI + " " + r.Header.Get("Proxy-Authorization"))
		if refusal != "" {
			_, _ = io.WriteString(c, refusal)
			return
		}
		to, err := net.Dial("tcp", r.RequestURI)
		if err != nil {
			_, _ = io.WriteString(c, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n")
		splice(c, to)
	})
	return b
}

// socks5 serves RFC 1928 with or without a password (RFC 1929).
func socks5(t *testing.T, password string, reply byte) *between {
	b := &between{}
	b.peer = listen(t, func(_ int, c net.Conn) {
		read := func(n int) []byte {
			p := make([]byte, n)
			_, _ = io.ReadFull(c, p)
			return p
		}
		methods := read(int(read(2)[1]))
		if password == "" {
			_, _ = c.Write([]byte{5, 0})
		} else {
			_, _ = c.Write([]byte{5, 2})
			_ = methods
			user := read(int(read(2)[1]))
			if given := read(int(read(1)[0])); string(given) != password {
				_, _ = c.Write([]byte{1, 1})
				return
			}
			b.note("user " + string(user))
			_, _ = c.Write([]byte{1, 0})
		}
		head := read(4)
		var host string
		switch head[3] {
		case 1:
			host = net.IP(read(4)).String()
		case 3:
			host = "name " + string(read(int(read(1)[0])))
		case 4:
			host = net.IP(read(16)).String()
		}
		target := net.JoinHostPort(host, fmt.Sprint(binary.BigEndian.Uint16(read(2))))
		b.note(target)
		to, err := net.Dial("tcp", target)
		if err != nil && reply == 0 {
			reply = 5 // connection refused
		}
		_, _ = c.Write([]byte{5, reply, 0, 1, 0, 0, 0, 0, 0, 0})
		if reply == 0 {
			splice(c, to)
		}
	})
	return b
}

func (b *between) at(scheme, user string) string {
	return scheme + "://" + user + b.listener.Addr().String()
}

func TestEventsGoThroughTheProxy(t *testing.T) {
	secure := httptest.NewTLSServer(nethttp.HandlerFunc(func(nethttp.ResponseWriter,
		*nethttp.Request) {
	}))
	defer secure.Close()
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	trust := &tls.Config{RootCAs: roots}
	clear := listen(t, answering(ok200))
	_, h2c := serve2(t, false, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		if r.ProtoMajor != 2 {
			w.WriteHeader(500)
		}
	})
	_, h2 := serve2(t, true, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		if r.ProtoMajor != 2 {
			w.WriteHeader(500)
		}
	})
	for name, o := range map[string]Options{
		"http": {URL: clear.url()}, "https": {URL: secure.URL, TLS: trust}, "h2c": h2c, "h2": h2,
	} {
		for _, scheme := range []string{"http", "https", "socks5"} {
			t.Run(name+" through "+scheme, func(t *testing.T) {
				var b *between
				switch scheme {
				case "http":
					b = connecting(t, nil, "")
				case "https":
					b = connecting(t, &secure.TLS.Certificates[0], "")
					o.ProxyTLS = trust
				case "socks5":
					b = socks5(t, "hunter2", 0)
				}
				o.Proxy = b.at(scheme, "ann:hunter2@")
				d := open(t, o)
				for i := range 3 {
					body := strings.Repeat("x", i*100<<10)
					got := d.Deliver(context.Background(), request(body))
					if got.Kind != destination.Delivered {
						t.Fatalf("event %d: %v, cause %v", i, got.Err, got.Cause())
					}
				}
				want := "CONNECT " + d.address + " Basic YW5uOmh1bnRlcjI="
				if scheme == "socks5" {
					want = d.address
				}
				if b.last() != want || b.connections() != 1 {
					t.Errorf("asked for %q over %d connections, want %q", b.last(), b.connections(), want)
				}
			})
		}
	}
}

func TestAProxyIsGivenAnAddressThatTheRulesAllow(t *testing.T) {
	p := listen(t, answering(ok200))
	_, port, _ := net.SplitHostPort(p.listener.Addr().String())
	for _, scheme := range []string{"http", "socks5"} {
		b := connecting(t, nil, "")
		if scheme == "socks5" {
			b = socks5(t, "", 0)
		}
		deny, err := egress.Parse(nil, []string{"::1", "169.254.0.0/16"})
		if err != nil {
			t.Fatal(err)
		}
		d := open(t, Options{URL: "http://localhost:" + port + "/", Proxy: b.at(scheme, ""), Egress: deny})
		if got := d.Deliver(context.Background(), request("x")); got.Kind != destination.Delivered {
			t.Fatalf("%s: %v", scheme, got.Err)
		}
		if !strings.Contains(b.last(), "127.0.0.1:"+port) {
			t.Errorf("%s was asked for %q", scheme, b.last())
		}
		for _, url := range []string{"http://169.254.169.254/latest", "http://[fd00:ec2::254]/"} {
			got := open(t, Options{URL: url, Proxy: b.at(scheme, "")}).Deliver(context.Background(),
				request("x"))
			if got.Kind != destination.Retry || got.Cause() != retry.Denied || b.connections() != 1 {
				t.Errorf("%s %s: %v, cause %v: %v", scheme, url, got.Kind, got.Cause(), got.Err)
			}
		}
		// The proxy's own address is judged as well.
		deny, _ = egress.Parse(nil, []string{"127.0.0.0/8"})
		got := open(t, Options{URL: "http://10.0.0.1/", Proxy: b.at(scheme, ""), Egress: deny}).Deliver(
			context.Background(), request("x"))
		if got.Cause() != retry.Denied || b.connections() != 1 {
			t.Errorf("%s itself: cause %v: %v", scheme, got.Cause(), got.Err)
		}
	}
}

func TestWhatTheProxySaysIsToldFromWhatTheDestinationSays(t *testing.T) {
	answer := func(code int) string {
		return fmt.Sprintf("HTTP/1.1 %d x\r\nContent-Length: 0\r\n\r\n", code)
	}
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = nobody.Close()
	dead := nobody.Addr().String()
	good := listen(t, answering(ok200)).url()
	for name, c := range map[string]struct {
		proxy, url string
		kind       retry.Verdict
		cause      retry.Cause
		code       int
		says       string
	}{
		"the proxy's 407": {connecting(t, nil, answer(407)).at("http", "u:hunter2@"), good,
			retry.Retry, retry.Proxy, 0, "407"},
		"the destination's 407": {connecting(t, nil, "").at("http", ""),
			listen(t, answering(answer(407))).url(), retry.Permanent, retry.Unknown, 407, "answered 407"},
		"the proxy's 502": {connecting(t, nil, answer(502)).at("http", ""), good,
			retry.Retry, retry.Proxy, 0, "answered 502"},
		"the destination's 502": {connecting(t, nil, "").at("http", ""),
			listen(t, answering(answer(502))).url(), retry.Retry, retry.Unknown, 502, "answered 502"},
		"the proxy's 403": {connecting(t, nil, answer(403)).at("http", ""), good,
			retry.Retry, retry.Proxy, 0, "answered 403"},
		"no proxy": {"http://u:hunter2@" + dead, good, retry.Retry, retry.Proxy, 0, "refused"},
		"no socks": {"socks5://u:hunter2@" + dead, good, retry.Retry, retry.Proxy, 0, "refused"},
		"socks refuses": {socks5(t, "", 2).at("socks5", ""), good,
			retry.Retry, retry.Proxy, 0, "not allowed"},
		"socks wants another password": {socks5(t, "other", 0).at("socks5", "u:hunter2@"), good,
			retry.Retry, retry.Proxy, 0, "authentication failed"},
		"socks finds nobody": {socks5(t, "", 0).at("socks5", ""), "http://" + dead,
			retry.Retry, retry.Proxy, 0, "connection refused"},
		"no proxy at all": {listen(t, answering("SSH-2.0-x\r\n")).at("http"), good,
			retry.Retry, retry.Proxy, 0, "not understood"},
		"an untrusted proxy": {connecting(t, selfSigned(t), "").at("https", ""), good,
			retry.Retry, retry.Proxy, 0, "certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			got := open(t, Options{URL: c.url, Proxy: c.proxy}).Deliver(context.Background(), request("x"))
			if got.Kind != c.kind || got.Code != c.code || got.Cause() != c.cause {
				t.Errorf("%v %d, cause %v: %v", got.Kind, got.Code, got.Cause(), got.Err)
			}
			if got.Err != nil && (!strings.Contains(got.Err.Error(), c.says) ||
				strings.Contains(got.Err.Error(), "hunter2")) {
				t.Errorf("says %q", got.Err)
			}
		})
	}
}

func TestAProxyThatHangsEndsWithTheAttempt(t *testing.T) {
	for _, scheme := range []string{"http", "https", "socks5"} {
		hold := make(chan struct{})
		p := listen(t, func(int, net.Conn) { <-hold })
		o := Options{URL: "http://127.0.0.1:9/", Proxy: p.at(scheme), Timeout: 100 * time.Millisecond}
		if got := open(t, o).Deliver(context.Background(), request("x")); got.Kind != retry.Retry ||
			got.Cause() != retry.Proxy && got.Cause() != retry.Timeout {
			t.Errorf("%s: %v, cause %v: %v", scheme, got.Kind, got.Cause(), got.Err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		o.Timeout = time.Minute
		time.AfterFunc(20*time.Millisecond, cancel)
		if got := open(t, o).Deliver(ctx, request("x")); got.Cause() != retry.Cancelled {
			t.Errorf("%s: cause %v: %v", scheme, got.Cause(), got.Err)
		}
		close(hold)
	}
}

func TestProxyURLs(t *testing.T) {
	for _, good := range []string{"http://h", "https://h:3128/", "socks5://u:p@[::1]:1"} {
		if _, err := New(Options{URL: "http://d/", Proxy: good}); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"h:3128", "socks4://u:hunter2@h", "http://", "http://u:hunter2@h/path",
		"http://u:hunter2@h\x7f", "http://u:hunter2@h?x"} {
		_, err := New(Options{URL: "http://d/", Proxy: bad})
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
