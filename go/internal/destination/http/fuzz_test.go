package http

import (
	"context"
	"net"
	"regexp"
	"testing"
	"time"

	"sluice/go/internal/destination"
)

var success = regexp.MustCompile(`HTTP/1\.[0-9] +2[0-9][0-9]`)

// Whatever a destination answers, an event counts as delivered only when there is a 2xx status line
// of HTTP/1.x in it.
func FuzzOnlyASuccessDelivers(f *testing.F) {
	for _, seed := range []string{
		ok200, "", "\r\n", "HTTP/1.1 200", "HTTP/1.1 200 \r\n\r\n", "HTTP/1.1 500 200\r\n\r\n",
		"HTTP/1.1 100 x\r\n\r\n" + ok200, "HTTP/2.0 200 OK\r\n\r\n", "ICY 200 OK\r\n\r\n",
		"HTTP/1.1 +200 OK\r\n\r\n", "HTTP/1.1 0200 OK\r\n\r\n", "HTTP/1.1 2000 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\n folded\r\n\r\n", "HTTP/0.9 200 OK\r\n\r\n", "HTTP/9.9 204 x\r\n\r\n",
		"HTTP/1.1 429 x\r\nRetry-After: 99999999999999999999\r\n\r\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := New(Options{URL: "http://h/", Timeout: time.Minute, Dial: func(context.Context, string,
			string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() {
				_, _ = readRequest(theirs)
				_, _ = theirs.Write([]byte(text))
				_ = theirs.Close()
			}()
			return ours, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		r := d.Deliver(context.Background(), request("x"))
		if r.Kind == destination.Delivered && !success.MatchString(text) {
			t.Errorf("%q counts as delivered (%d)", text, r.Code)
		}
		if r.RetryAfter < 0 || r.RetryAfter > time.Hour {
			t.Errorf("%q asks for %v", text, r.RetryAfter)
		}
	})
}
