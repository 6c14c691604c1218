package share

import (
	"bytes"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"sluice/go/internal/breaker"
	"sluice/go/internal/testserver"
)

// relay stands between a board and Redis and can swallow what Redis sends to subscribers, as a
// network does that has forgotten one connection.
type relay struct {
	swallow atomic.Bool
}

func (r *relay) listen(t *testing.T, target string) (url string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", target)
			if err != nil {
				near.Close()
				continue
			}
			r.join(near, far)
		}
	}()
	return "redis://" + listener.Addr().String()
}

func (r *relay) join(near, far net.Conn) {
	var subscriber atomic.Bool
	copyTo := func(to io.Writer, from io.Reader, see func([]byte) bool) {
		defer near.Close()
		defer far.Close()
		buffer := make([]byte, 64<<10)
		for {
			n, err := from.Read(buffer)
			if err != nil {
				return
			}
			if !see(buffer[:n]) {
				continue
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
	}
	go copyTo(far, near, func(sent []byte) bool {
		if bytes.Contains(sent, []byte("subscribe")) {
			subscriber.Store(true)
		}
		return true
	})
	go copyTo(near, far, func([]byte) bool { return !r.swallow.Load() || !subscriber.Load() })
}

func TestASubscriptionThatHearsNothingIsFoundOutAndMadeAgain(t *testing.T) {
	server := testserver.Redis(t)
	var r relay
	var log logs
	a, b := joined(t, server.URL, "a"), board(t, r.listen(t, server.Addr), "b", &log)
	until(t, "b has joined", func() bool { return !b.Alone() })
	r.swallow.Store(true)
	publish(t, a, note("x", "a", 1, breaker.Open)) // b cannot hear it
	until(t, "b has found out", func() bool { return log.count(errSilent.Error()) > 0 })
	r.swallow.Store(false)
	if got := next(t, b); got.Term != 1 {
		t.Errorf("b learnt %+v", got)
	}
}
