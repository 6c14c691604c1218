package http

import (
	"bufio"
	"bytes"
	"io"
	"net"
	nethttp "net/http"
	"strings"
	"testing"
	"time"
)

// Our reading of an answer and the library's agree wherever both read one: the same status, the
// same body, and the same bytes left behind it.
func FuzzAnswersAreReadAsTheLibraryReadsThem(f *testing.F) {
	for _, seed := range []string{
		ok200, ok200 + ok200, "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\nrest",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
		"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\nContent-Length: 1\n\nxy", "HTTP/1.1 304 x\r\nContent-Length: 5\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX: a\r\n folded\r\nContent-Length: 1\r\n\r\nx",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n 2\r\n\r\nx", "HTTP/1.1  200  OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nConnection: close, x\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\nx",
		"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\nx",
		"HTTP/1.1 200 OK\r\nContent-Length : 1\r\n\r\nx",
		"HTTP/1.1 200 OK\r\nContent-Length:\t1 \r\n\r\nx",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 01\r\n\r\nx",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ours, theirs := net.Pipe()
		defer ours.Close()
		c := newConn(over(ours))
		c.posting = &posting{method: "POST", want: true, deadline: time.Now().Add(time.Minute)}
		go func() {
			_, _ = io.WriteString(theirs, text)
			_ = theirs.Close()
		}()
		_ = ours.SetDeadline(c.posting.deadline)
		c.bounded.start(answerHeadMax)
		a, err := c.readFields(true)
		if err != nil || a.code < 200 {
			return
		}
		a.frame("POST")
		library := bufio.NewReader(strings.NewReader(text))
		response, err := nethttp.ReadResponse(library, &nethttp.Request{Method: "POST"})
		if err != nil {
			t.Skip("the library is stricter: ", err)
		}
		if response.StatusCode != a.code {
			t.Fatalf("%q: status %d, the library reads %d", text, a.code, response.StatusCode)
		}
		if !c.take(t.Context(), &a) {
			return // not used again, so its end is nothing that matters
		}
		if response.Close {
			t.Errorf("%q: the library closes here", text)
		}
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Skip("the library is stricter: ", err)
		}
		if a.whole && !bytes.Equal(body, a.body) {
			t.Errorf("%q: body %q, the library reads %q", text, a.body, body)
		}
	})
}
