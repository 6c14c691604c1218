package destination

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"sluice/go/internal/retry"
)

func headers(lines ...string) []Header {
	var list []Header
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		list = append(list, Header{Name: []byte(name), Value: []byte(value)})
	}
	return list
}

func text(list []Header) string {
	var b strings.Builder
	for _, h := range list {
		fmt.Fprintf(&b, "%s: %s\n", h.Name, h.Value)
	}
	return b.String()
}

func TestHopByHopHeadersEndHereAndOthersGoOnInOrder(t *testing.T) {
	in := headers("x-b: 2", "Connection: close, X-Private", "X-PRIVATE: gone", "keep-alive: 5",
		"TE: trailers", "Trailer: X-Sum", "Upgrade: h2c", "transfer-encoding: chunked",
		"Proxy-Connection: x", "Proxy-Authorization: Basic eA==", "X-A: 1", "X-B: 3", "x-b: 4",
		"connection:  ,X-Other ,", "X-Other: gone", "Connection-Id: stays", "X-Empty: ")
	before := text(in)
	want := "x-b: 2\nX-A: 1\nX-B: 3\nx-b: 4\nConnection-Id: stays\nX-Empty: \n"
	if got := text(EndToEnd(in)); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if text(in) != before {
		t.Error("the headers handed in were changed")
	}
}

func TestAHeaderThatWouldBreakTheFramingIsFound(t *testing.T) {
	for _, good := range headers("X-A: obs\xfftext", "a!#$%&'*+-.^_`|~9: tab\there", "X: ") {
		if err := good.Check(); err != nil {
			t.Errorf("%q: %v", good.Name, err)
		}
	}
	for _, bad := range []Header{
		{nil, []byte("v")},
		{[]byte("X A"), nil},
		{[]byte("X:"), nil},
		{[]byte("X\xff"), nil},
		{[]byte("X"), []byte("a\rb")},
		{[]byte("X"), []byte("a\nb")},
		{[]byte("X"), []byte("a\x00b")},
	} {
		if bad.Check() == nil {
			t.Errorf("%q: %q is let through", bad.Name, bad.Value)
		}
	}
}

func TestResultsNameTheirCause(t *testing.T) {
	r := Failure(fmt.Errorf("read answer: %w", io.ErrUnexpectedEOF))
	if r.Kind != Retry || r.Cause() != retry.Closed {
		t.Errorf("%v, cause %v", r.Kind, r.Cause())
	}
	if Delivery(204).Cause() != retry.Unknown || Refusal(io.EOF).Kind != Permanent {
		t.Error("delivered has no cause, a refusal is permanent")
	}
}
