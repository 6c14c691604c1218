package http

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"sluice/go/internal/destination"
	"sluice/go/internal/destination/egress"
	"sluice/go/internal/retry"
)

// The classification, cause by cause and status by status, each met with real sockets.
func TestClassificationTable(t *testing.T) {
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = nobody.Close()
	hold := make(chan struct{})
	defer close(hold)
	silent := listen(t, func(int, net.Conn) { <-hold })
	good := listen(t, answering(ok200))
	denied, err := egress.Parse(nil, []string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	foreign := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}} // TEST-NET-1
	for _, c := range []struct {
		cause   retry.Cause
		options Options
		ctx     context.Context
	}{
		{retry.Local, Options{URL: good.url(), Dial: foreign.DialContext}, nil},
		{retry.DNS, Options{URL: "http://no..name/"}, nil},
		{retry.DNS, Options{URL: "http://no..name/", Proxy: good.at("http")}, nil},
		{retry.Denied, Options{URL: good.url(), Egress: denied}, nil},
		{retry.Denied, Options{URL: "http://169.254.169.254/"}, nil},
		{retry.Proxy, Options{URL: good.url(), Proxy: "http://" + nobody.Addr().String()}, nil},
		{retry.Refused, Options{URL: "http://" + nobody.Addr().String()}, nil},
		// The kernel has no way to connect to a group (multicast).
		{retry.Unreachable, Options{URL: "http://224.0.0.1/"}, nil},
		{retry.TLS, Options{URL: listen(t, func(_ int, c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
			_, _ = io.Copy(io.Discard, c)
		}).at("https")}, nil},
		{retry.Timeout, Options{URL: silent.url(), Timeout: 50 * time.Millisecond}, nil},
		{retry.Timeout, Options{URL: silent.at("https"), Timeout: 50 * time.Millisecond}, nil},
		{retry.Reset, Options{URL: listen(t, func(_ int, c net.Conn) {
			_, _ = readRequest(c)
			_ = c.(*net.TCPConn).SetLinger(0)
		}).url()}, nil},
		{retry.Closed, Options{URL: listen(t, func(_ int, c net.Conn) {
			_, _ = readRequest(c)
		}).url()}, nil},
		{retry.Protocol, Options{URL: listen(t, answering("220 mail ESMTP\r\n")).url()}, nil},
		{retry.Cancelled, Options{URL: good.url()}, over},
	} {
		t.Run(c.cause.String(), func(t *testing.T) {
			ctx := c.ctx
			if ctx == nil {
				ctx = context.Background()
			}
			got := open(t, c.options).Deliver(ctx, request("x"))
			if got.Kind != destination.Retry || got.Code != 0 || got.Cause() != c.cause {
				t.Errorf("%v %d, cause %v: %v", got.Kind, got.Code, got.Cause(), got.Err)
			}
		})
	}
	code := 0
	p := listen(t, func(_ int, c net.Conn) {
		for {
			if _, err := readRequest(c); err != nil {
				return
			}
			_, _ = fmt.Fprintf(c, "HTTP/1.1 %d x\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n", code)
		}
	})
	d := open(t, Options{URL: p.url()})
	for code = 200; code < 600; code++ {
		want := retry.Retry // 3xx and 5xx among them: no redirect is followed, and they pass
		switch {
		case code < 300:
			want = retry.Delivered
		case code >= 400 && code < 500 && code != 408 && code != 425 && code != 429:
			want = retry.Permanent
		}
		if code == 204 || code == 304 {
			continue // said with a length of 0, which they have not
		}
		if got := d.Deliver(context.Background(), request("x")); got.Kind != want || got.Code != code {
			t.Errorf("status %d: %v %d %v", code, got.Kind, got.Code, got.Err)
		}
	}
}
