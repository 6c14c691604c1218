package http

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"sluice/go/internal/destination"
)

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestASenderWhoWaitsGetsTheWholeAnswer(t *testing.T) {
	const ok, chunked = "HTTP/1.1 200 OK\r\n", "Transfer-Encoding: chunked\r\n"
	sized := func(status, fields, body string) string {
		return fmt.Sprintf("HTTP/1.1 %s\r\n%sContent-Length: %d\r\n\r\n%s", status, fields, len(body),
			body)
	}
	long := strings.Repeat("x", destination.AnswerBodyMax)
	for name, c := range map[string]struct {
		answer string
		want   *destination.Answer
		reused bool
	}{
		"JSON": {sized("200 OK", "Content-Type: application/json; charset=utf-8\r\n", `{"a":1}`),
			&destination.Answer{Status: 200, ContentType: "application/json; charset=utf-8",
				Body: []byte(`{"a":1}`)}, true},
		"no body":    {"HTTP/1.1 204 No Content\r\n\r\n", &destination.Answer{Status: 204}, true},
		"empty body": {sized("200 OK", "", ""), &destination.Answer{Status: 200}, true},
		"a refusal": {sized("404 Not Found", "content-type: text/plain\r\n", "no such hook"),
			&destination.Answer{Status: 404, ContentType: "text/plain", Body: []byte("no such hook")}, true},
		"a failure": {sized("500 Oops", "", "later"),
			&destination.Answer{Status: 500, Body: []byte("later")}, true},
		"chunks with a trailer": {ok + chunked + "\r\n" +
			"3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\nX-Sum: 1\r\n\r\n",
			&destination.Answer{Status: 200, Body: []byte("abcdefg")}, true},
		"until the end": {"HTTP/1.0 200 OK\r\n\r\nabc", &destination.Answer{Status: 200,
			Body: []byte("abc")}, false},
		"chunks and a length": {ok + chunked + "Content-Length: 9\r\n\r\n" +
			"3\r\nabc\r\n0\r\n\r\n", &destination.Answer{Status: 200, Body: []byte("abc")}, false},
		"chunks of HTTP/1.0": {"HTTP/1.0 200 OK\r\n" + chunked + "\r\n0\r\n\r\n",
			&destination.Answer{Status: 200, Body: []byte("0\r\n\r\n")}, false},
		"kept alive by HTTP/1.0": {"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n" +
			"Content-Length: 2\r\n\r\nok",
			&destination.Answer{Status: 200, Body: []byte("ok")}, true},
		"as long as may be": {sized("200 OK", "", long), &destination.Answer{Status: 200,
			Body: []byte(long)}, true},
		"too long":           {sized("200 OK", "", long+"x"), nil, true},
		"too long in chunks": {ok + chunked + "\r\n8001\r\n" + long + "x\r\n0\r\n\r\n", nil, true},
		"cut short":          {ok + "Content-Length: 5\r\nConnection: close\r\n\r\nabc", nil, false},
		"gzip": {sized("200 OK", "Content-Encoding: gzip\r\n", gzipped(t, "plain")),
			&destination.Answer{Status: 200, Body: []byte("plain")}, true},
		"a gzip bomb": {sized("200 OK", "Content-Encoding: gzip\r\n",
			gzipped(t, strings.Repeat("0", 1<<20))), nil, true},
		"an encoding we cannot undo": {sized("200 OK", "Content-Encoding: br\r\n", "??"), nil, true},
		"a type that breaks lines": {sized("200 OK", "Content-Type: text/\x01plain\r\n", "x"),
			&destination.Answer{Status: 200, Body: []byte("x")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := listen(t, func(n int, conn net.Conn) {
				for {
					if _, err := readRequest(conn); err != nil {
						return
					}
					_, _ = io.WriteString(conn, c.answer)
					if !c.reused && !strings.Contains(c.answer, "chunked\r\nContent-Length") {
						return
					}
				}
			})
			d := open(t, Options{URL: p.url()})
			for range 2 {
				r := request("body")
				r.WantAnswer = true
				got := d.Deliver(context.Background(), r)
				if (got.Answer == nil) != (c.want == nil) {
					t.Fatalf("answer %v, want %v (%v)", got.Answer, c.want, got.Err)
				}
				if c.want != nil && (got.Answer.Status != c.want.Status ||
					got.Answer.ContentType != c.want.ContentType ||
					!bytes.Equal(got.Answer.Body, c.want.Body) || got.Code != c.want.Status) {
					t.Errorf("%d %q %.50q", got.Answer.Status, got.Answer.ContentType, got.Answer.Body)
				}
				if r.WantAnswer = false; d.Deliver(context.Background(), r).Answer != nil {
					t.Error("an answer that nobody asked for")
				}
			}
			if n := p.connections(); c.reused != (n == 1) {
				t.Errorf("%d connections", n)
			}
		})
	}
}

func TestAnAnswerWhoseBodyNeverEndsIsGivenUpWithTheAttempt(t *testing.T) {
	hold := make(chan struct{})
	p := listen(t, func(_ int, c net.Conn) {
		_, _ = readRequest(c)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab")
		<-hold
	})
	defer close(hold)
	r := request("x")
	r.WantAnswer = true
	got := open(t, Options{URL: p.url(), Timeout: 100 * time.Millisecond}).Deliver(
		context.Background(), r)
	if got.Kind != destination.Delivered || got.Answer != nil {
		t.Errorf("%v %v: the status was given, the answer was not whole", got.Kind, got.Answer)
	}
}

func TestAnAnswerGivenBeforeALongRequestWasReadIsWhole(t *testing.T) {
	body := strings.Repeat("0123456789abcdef", 1<<20)
	p := listen(t, func(_ int, c net.Conn) {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nearly")
		_, _ = readRequest(c)
	})
	r := request(body)
	r.WantAnswer = true
	got := open(t, Options{URL: p.url()}).Deliver(context.Background(), r)
	if got.Kind != destination.Delivered || got.Answer == nil || string(got.Answer.Body) != "early" {
		t.Errorf("%v %v %v", got.Kind, got.Answer, got.Err)
	}
}
