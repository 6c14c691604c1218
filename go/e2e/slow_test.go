package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	// perConnection is what a connection may cost in the data plane's own memory, in bytes.
	perConnection = 8 << 10
	// memorySlack is what a data plane may take besides, under load: buffers and tables.
	memorySlack = 64 << 20
)

// lingers is how long a refused sender may at least go on writing.
const lingers = time.Second

// needDescriptors skips a test where a process may not have so many open. Each process of a test
// raises its own limit to that; Go programs do so at their start.
func needDescriptors(t testing.TB, count int) {
	t.Helper()
	var limit syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	if limit.Max < uint64(count) {
		t.Skipf("the hard limit on open files is %d, this test needs %d: raise it with ulimit -Hn",
			limit.Max, count)
	}
}

// steady is a load at a fixed rate: a request is due whether or not the ones before were answered.
type steady struct {
	mu    sync.Mutex
	took  []time.Duration // from when it was due to its answer
	codes map[int]int     // 0: none came
}

// press sends so many requests, at a rate a second, over connections that are kept.
func press(address string, requests, rate int) *steady {
	s := &steady{codes: map[int]int{}}
	idle := make(chan *wire, requests)
	var senders sync.WaitGroup
	began := time.Now()
	for n := range requests {
		due := began.Add(time.Duration(n) * time.Second / time.Duration(rate))
		time.Sleep(time.Until(due))
		senders.Go(func() {
			code := 0
			var w *wire
			select {
			case w = <-idle:
			default:
				if fresh, err := connect(address); err == nil {
					w = fresh
				}
			}
			if w != nil {
				if a, err := w.exchange(request{path: "/hooks/open", body: `{"normal":1}`}); err == nil {
					code = a.code
					idle <- w
				} else {
					_ = w.conn.Close()
				}
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.took = append(s.took, time.Since(due))
			s.codes[code]++
		})
	}
	senders.Wait()
	close(idle)
	for w := range idle {
		_ = w.conn.Close()
	}
	slices.Sort(s.took)
	return s
}

// quietest is the load of several that had the least p99: what else the machine did disturbed it
// least.
func quietest(address string, rounds, requests, rate int) *steady {
	var best *steady
	for range rounds {
		s := press(address, requests, rate)
		if s.codes[200] != requests {
			return s
		}
		if best == nil || s.quantile(0.99) < best.quantile(0.99) {
			best = s
		}
	}
	return best
}

func (s *steady) quantile(q float64) time.Duration { return s.took[int(q*float64(len(s.took)-1))] }

func (s *steady) String() string {
	return fmt.Sprintf("p50 %v, p99 %v, answers %v", s.quantile(0.5), s.quantile(0.99), s.codes)
}

// Who keeps a connection and says little takes nothing from the others: their requests are
// answered as before, the memory has its bound, and who is too slow hears 408.
func TestIdleAndSlowSendersTakeNothingFromTheOthers(t *testing.T) {
	needDescriptors(t, count(2_048, 16_384))
	idle, slow := count(500, 10_000), count(200, 2_000)
	rate, requests, rounds := count(100, 200), count(300, 2_000), count(1, 3)
	timeout := time.Duration(count(2, 5)) * time.Second
	onDrivers(t, func(t *testing.T, driver string) {
		if !soak {
			t.Parallel() // nothing is compared
		}
		i := install(t, "driver: "+driver+"\n"+roomy+
			fmt.Sprintf("http: {header_timeout: %v, body_timeout: %[1]v, idle_timeout: 10m}\n", timeout)+
			"sources:\n"+
			"  open: {path: /hooks/open, provider: none, deliver: []}\n"+
			"  ring: {path: /hooks/ring, provider: none, acknowledge: ring, deliver: []}\n")
		i.start()
		i.runsOn(driver)
		before, memory := i.holdings(), i.ownMemory()
		alone := quietest(i.address, rounds, requests, rate)

		c := gather(t, &crowd{Address: i.address, Idle: idle, Slow: slow, Spread: timeout})
		eventually(t, "the crowd is there", func() bool {
			return i.total("webhook_ingress_connections") >= idle+slow/2
		})
		beside := quietest(i.address, rounds, requests, rate)
		eventually(t, "slow senders are told so", func() bool {
			return i.total("webhook_dataplane_too_slow_total") >= slow
		})
		now := i.holdings()
		grown := i.ownMemory() - memory
		if bound := (idle+slow)*perConnection + memorySlack; grown > bound {
			t.Errorf("%d idle and %d slow connections took %d bytes, over %d", idle, slow, grown, bound)
		}
		told := c.disperse()

		t.Logf("alone:  %v", alone)
		t.Logf("beside: %v", beside)
		t.Logf("%d connections: own memory %.1f MiB, of which they and the load took %.1f MiB; "+
			"%d bytes kept; %d answers of 408", now.connections, float64(memory+grown)/(1<<20),
			float64(grown)/(1<<20), now.kept, told)
		for _, s := range []*steady{alone, beside} {
			if s.codes[200] != requests {
				t.Errorf("of %d requests: %v", requests, s)
			}
		}
		if soak && beside.quantile(0.99) > 2*alone.quantile(0.99) {
			t.Errorf("p99 is %v, and %v without the crowd", beside.quantile(0.99), alone.quantile(0.99))
		}
		i.holdsAgain(before)
	})
}

// A rate that the operator asks for ends a body that trickles, however far its timeout is put off.
func TestABodyBelowTheLeastRateIsToldSo(t *testing.T) {
	t.Parallel()
	i := install(t, "http: {body_timeout: 1s, min_body_rate: 1KiB, max_body: 64KiB}\nsources:\n"+
		"  open: {path: /hooks/open, provider: none, deliver: []}\n")
	i.start()
	const piece = 512
	body := strings.Repeat("x", 16*piece)
	text := request{path: "/hooks/open", body: body}.bytes()
	head := len(text) - len(body)
	trickle := func(each time.Duration) *answer {
		w := i.dial(t)
		must(t, w.write(text[:head]))
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			_, _ = w.reader.Peek(1)
		}()
		tick := time.NewTicker(each)
		defer tick.Stop()
		for at := head; at < len(text); at += piece {
			if w.write(text[at:at+piece]) != nil {
				break
			}
			select {
			case <-answered:
				at = len(text)
			case <-tick.C:
			}
		}
		a, err := w.read("")
		must(t, err)
		return a
	}
	// Four times the least rate takes two seconds, twice body_timeout alone.
	if a := trickle(125 * time.Millisecond); a.code != 200 {
		t.Errorf("a body above the least rate: %v", a)
	}
	if a := trickle(time.Second); a.code != 408 || !a.closes() {
		t.Errorf("a body below the least rate: %v", a)
	}
	if n := i.total("webhook_dataplane_too_slow_total"); n != 1 {
		t.Errorf("%d requests are counted as too slow, want 1", n)
	}
}

// An answer before the body is whole reaches a sender that goes on writing.
func TestAnEarlyRefusalReachesASenderThatStillWrites(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "senders")
	i := installTLS(t, ca, "http: {max_body: 64KiB}\nsources:\n"+
		"  open: {path: /hooks/open, provider: none, allow_from: [127.0.0.1/32], deliver: []}\n")
	i.start()
	dials := map[string]func() (net.Conn, error){
		"plain": i.connectPlain, "TLS": func() (net.Conn, error) { return i.connectTLS(ca) },
	}
	for name, dial := range dials {
		for _, refused := range []struct {
			head string
			code int
		}{
			{"POST /hooks/open HTTP/1.1\r\nHost: x\r\nContent-Length: 16777216\r\n\r\n", 413},
			{"POST /hooks/open HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1000000\r\n", 413},
			{"POST /hooks/open HTTP/1.1\r\nHost: x\r\nContent-Length: +16777216\r\n\r\n", 400},
			{"POST /hooks/open HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501},
		} {
			conn, err := dial()
			must(t, err)
			w := &wire{conn, bufio.NewReader(conn)}
			// A sender that looks for an answer only when all is written. A reset would end its
			// writing early, and on other systems than Linux take the answer away as well.
			began := time.Now()
			err = w.write(refused.head)
			piece := strings.Repeat("x", 64<<10)
			for n := 0; err == nil && n < 256; n++ {
				err = w.write(piece)
			}
			took := time.Since(began)
			a, readErr := w.read("")
			if readErr != nil || a.code != refused.code || err != nil && took < lingers {
				t.Errorf("%s, %.70q: %v, %v (writing: %v after %v)", name, refused.head, a, readErr,
					err, took)
			}
			_ = conn.Close()
		}
	}
	if n := len(i.events(nil)); n != 0 {
		t.Errorf("%d events are stored", n)
	}
}

// A connection over the bounds hears 503 and when to come again, instead of a reset.
func TestConnectionsOverTheBoundsAreToldSo(t *testing.T) {
	t.Parallel()
	i := install(t, "http: {max_connections: 20, max_connections_per_ip: 4}\nsources:\n"+
		"  open: {path: /hooks/open, provider: none, deliver: []}\n")
	i.start()
	from := func(host byte) (*wire, *answer) {
		d := net.Dialer{Timeout: patience,
			LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 2, host)}}
		conn, err := d.Dial("tcp", i.address)
		must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		w := &wire{conn, bufio.NewReader(conn)}
		return w, w.ask(t, request{path: "/hooks/open", body: "{}"})
	}
	isTurnedAway := func(w *wire, a *answer) {
		t.Helper()
		if a.code != 503 || !a.closes() || a.get("Retry-After") == "" ||
			a.get("X-Backpressure-Reason") != "Overloaded" {
			t.Errorf("over the bound: %v", a)
		}
		w.isClosed(t)
	}
	var first *wire
	for n := range 4 {
		w, a := from(1)
		if a.code != 200 {
			t.Fatalf("connection %d of an address: %v", n, a)
		}
		first = w
	}
	w, a := from(1)
	isTurnedAway(w, a)
	for n := range 16 {
		if _, a := from(byte(2 + n/4)); a.code != 200 {
			t.Fatalf("connection %d: %v", n+5, a)
		}
	}
	w, a = from(9)
	isTurnedAway(w, a)
	if n := i.total("webhook_dataplane_connections_refused_total"); n != 2 {
		t.Errorf("%d connections are counted as refused, want 2", n)
	}
	must(t, first.conn.Close())
	eventually(t, "a connection that ended makes room for another", func() bool {
		_, a := from(1)
		return a.code == 200
	})
}

// Who takes all the memory for requests that are not whole is refused; the others are not.
func TestUnfinishedRequestsShareABoundedMemory(t *testing.T) {
	t.Parallel()
	i := install(t, "ring_size: 32MiB\nhttp: {receive_memory: 4MiB, max_body: 1MiB, "+
		"body_timeout: 1m}\nsources:\n"+
		"  greedy: {path: /hooks/greedy, provider: none, deliver: []}\n"+
		"  open: {path: /hooks/open, provider: none, deliver: []}\n")
	i.start()
	before := i.holdings()
	text := request{path: "/hooks/greedy", body: strings.Repeat("x", 1<<20)}.bytes()
	var wires []*wire
	refused := atomic.Int64{}
	var hearing sync.WaitGroup
	for range 24 {
		w := i.dial(t)
		wires = append(wires, w)
		must(t, w.write(text[:len(text)-1]))
		hearing.Go(func() {
			a, err := w.read("")
			switch {
			case errors.Is(err, errEnd):
			case err != nil || a.code != 503 || a.get("Retry-After") == "":
				t.Errorf("without its last byte: %v %v", a, err)
			default:
				refused.Add(1)
			}
		})
	}
	eventually(t, "those over the bound are refused", func() bool { return refused.Load() >= 24-4 })
	if kept := i.holdings().kept; kept > 4<<20 {
		t.Errorf("%d bytes are kept, over receive_memory", kept)
	}
	if a, err := i.send(request{path: "/hooks/open", body: "{}"}); err != nil || a.code != 200 {
		t.Errorf("another source beside it: %v %v", a, err)
	}
	for _, w := range wires {
		_ = w.conn.(*net.TCPConn).CloseWrite()
	}
	hearing.Wait()
	for _, w := range wires {
		_ = w.conn.Close()
	}
	i.holdsAgain(before)
}

// Who sends and reads nothing is kept within bounds and let go; who reads late gets every answer.
func TestSendersThatDoNotReadAreBounded(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "senders")
	onDrivers(t, func(t *testing.T, driver string) {
		const eachTook = 1 << 20
		i := installTLS(t, ca, "driver: "+driver+"\n"+roomy+"http: {idle_timeout: 3s}\nsources:\n"+
			"  ring: {path: /hooks/ring, provider: none, acknowledge: ring, deliver: []}\n")
		i.start()
		before, memory := i.holdings(), i.ownMemory()
		dials := []func() (net.Conn, error){
			i.connectPlain, func() (net.Conn, error) { return i.connectTLS(ca) },
		}
		var senders sync.WaitGroup
		never := count(2, 10)
		for _, dial := range dials {
			for range never {
				senders.Go(func() { neverReads(t, dial) })
			}
		}
		most := 0
		for _, dial := range dials {
			most = max(most, i.readsLate(t, dial)-memory)
		}
		senders.Wait()
		i.holdsAgain(before)
		if most > 2*never*eachTook+memorySlack {
			t.Errorf("%d senders that do not read took %d bytes", 2*never, most)
		}
		t.Logf("%d senders that do not read: %.1f MiB at most", 2*never, float64(most)/(1<<20))
	})
}

// neverReads asks for more answers than any buffer holds, until it is let go.
func neverReads(t testing.TB, dial func() (net.Conn, error)) {
	conn, err := dial()
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	if plain, ok := conn.(*net.TCPConn); ok {
		_ = plain.SetReadBuffer(4 << 10) // the sooner the buffers are full; more does no harm
	}
	nowhere := []byte(strings.Repeat(request{method: "GET", path: "/nowhere"}.bytes(), 1000))
	for err == nil {
		if err = conn.SetWriteDeadline(time.Now().Add(patience)); err == nil {
			_, err = conn.Write(nowhere)
		}
	}
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		t.Error("a sender that never reads is never let go")
	}
}

// readsLate sends many requests before it reads any answer, and gets them all. It gives the most
// memory that the data plane had meanwhile.
func (i *installation) readsLate(t testing.TB, dial func() (net.Conn, error)) (most int) {
	t.Helper()
	const pipelined = 2000
	conn, err := dial()
	must(t, err)
	defer conn.Close()
	w := &wire{conn, bufio.NewReader(conn)}
	written := make(chan error, 1)
	go func() {
		written <- w.write(strings.Repeat(request{path: "/hooks/ring", body: "{}"}.bytes(), pipelined))
	}()
	ids := map[string]bool{}
	for n := range pipelined {
		if n%100 == 0 {
			most = max(most, i.ownMemory())
		}
		a, err := w.read("POST")
		if err != nil || a.code != 200 {
			t.Fatalf("answer %d to one that reads late: %v %v", n, a, err)
		}
		ids[a.get("X-Event-Id")] = true
	}
	must(t, <-written)
	if len(ids) != pipelined {
		t.Errorf("%d events are named in %d answers", len(ids), pipelined)
	}
	return most
}
