package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// parallel is how many connections a hostile test has at once.
const parallel = 32

// roomy admits all that a hostile test has at once: none is shed, however slow the machine is.
const roomy = "workers: 2\nring_size: 64MiB\nadmission: {algorithm: fixed, initial_limit: 512}\n"

// shortRaw is the length up to which a request is cut at every byte.
const shortRaw = 1200

// each does the jobs, some at once.
func each[T any](jobs []T, do func(T)) {
	var workers sync.WaitGroup
	next := atomic.Int64{}
	for range parallel {
		workers.Go(func() {
			for n := next.Add(1) - 1; n < int64(len(jobs)); n = next.Add(1) - 1 {
				do(jobs[n])
			}
		})
	}
	workers.Wait()
}

// cutCase is a case of the corpus as one connection sends it.
type cutCase struct {
	corpusCase
	way   []string
	glued bool // a good request follows at once
}

// gluedBody is the body of the good request behind a case.
const gluedBody = `{"glued":true}`

func gluedRequest() string { return request{path: "/in/t", body: gluedBody}.bytes() }

// cuts are the ways in which a case is sent: cut in two at each byte, or at seeded places where it
// is long, with a good request glued to it where that is not part of it.
func cuts(t testing.TB, random *rand.Rand, c corpusCase) []cutCase {
	t.Helper()
	raw := joined(t, c.Raw, c.RawGen)
	glued := !c.EOF && !c.Expect.Incomplete
	if glued {
		raw += gluedRequest()
	}
	if len(raw) > shortRaw+len(gluedRequest()) {
		var some []cutCase
		for range count(1, 50) {
			some = append(some, cutCase{c, split(random, raw), glued})
		}
		return some
	}
	all := []cutCase{{c, []string{raw}, glued}}
	for at := 1; at < len(raw); at++ {
		all = append(all, cutCase{c, []string{raw[:at], raw[at:]}, glued})
	}
	if !soak {
		random.Shuffle(len(all), func(a, b int) { all[a], all[b] = all[b], all[a] })
		all = all[:min(12, len(all))]
	}
	return all
}

// What a sender sees does not depend on how its bytes are cut; what a refused request leaves behind
// is never read as another one.
func TestEveryCaseEndsAsItShouldWhereverItIsCut(t *testing.T) {
	cases := corpus(t)
	ca := newAuthority(t, "senders")
	onDrivers(t, func(t *testing.T, driver string) {
		random := seeded(t)
		i := installTLS(t, ca, "driver: "+driver+"\n"+roomy+corpusConfig(cases))
		i.start()
		i.runsOn(driver)
		before := i.holdings()
		dials := []func() (net.Conn, error){
			i.connectPlain,
			func() (net.Conn, error) { return i.connectTLS(ca) },
		}
		var stored atomic.Int64
		for n, dial := range dials {
			var jobs []cutCase
			for _, c := range cases {
				ways := cuts(t, random, c)
				if n > 0 { // a handshake costs more than all the rest
					random.Shuffle(len(ways), func(a, b int) { ways[a], ways[b] = ways[b], ways[a] })
					ways = ways[:min(len(ways), count(1, 12))]
				}
				jobs = append(jobs, ways...)
			}
			each(jobs, func(c cutCase) {
				s, err := c.talk(dial)
				if err != nil {
					t.Errorf("%s in pieces %.200q: %v", c.Name, c.way, err)
					return
				}
				if fault := i.judgeCut(t, c, s); fault != "" {
					t.Errorf("%s in pieces %.200q: %s", c.Name, c.way, fault)
				}
				for _, a := range s.answers {
					if a.get("X-Event-Id") != "" {
						stored.Add(1)
					}
				}
			})
			t.Logf("%d connections", len(jobs))
		}
		if list := i.events(nil); len(list) != int(stored.Load()) {
			t.Errorf("%d events are stored, %d were acknowledged", len(list), stored.Load())
		}
		i.holdsAgain(before)
	})
}

func (i *installation) connectPlain() (net.Conn, error) {
	return net.DialTimeout("tcp", i.address, patience)
}

// halfClose ends what a sender says, not what it hears.
func halfClose(conn net.Conn) error {
	return conn.(interface{ CloseWrite() error }).CloseWrite()
}

// talk sends a case and takes all answers up to the end that the case has.
func (c cutCase) talk(dial func() (net.Conn, error)) (*seen, error) {
	conn, err := dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	w := &wire{conn, bufio.NewReader(conn)}
	go func() {
		for n, piece := range c.way {
			if n > 0 {
				time.Sleep(200 * time.Microsecond) // lets the pieces travel apart
			}
			if w.write(piece) != nil {
				return // an early answer ended it
			}
		}
		if !c.glued {
			_ = halfClose(conn)
		}
	}()
	most := 0
	for _, alternative := range c.Expect.alternatives() {
		most = max(most, len(alternative)+1)
	}
	s := &seen{}
	for len(s.answers) < most {
		method := ""
		if len(s.answers) == 0 {
			method = methodOf(c.way)
		}
		a, err := w.read(method)
		if errors.Is(err, errEnd) {
			s.closed = true
			break
		}
		if err != nil {
			return nil, err
		}
		if a.code < 200 {
			continue
		}
		s.answers, s.interim = append(s.answers, a), append(s.interim, nil)
	}
	return s, nil
}

// judgeCut tells what differs from every right outcome of a case that was cut, and perhaps glued.
func (i *installation) judgeCut(t testing.TB, c cutCase, s *seen) string {
	t.Helper()
	var faults []string
	for _, want := range c.Expect.alternatives() {
		fault := i.judgeGlued(t, want, s, c.glued)
		if fault == "" {
			return ""
		}
		faults = append(faults, fault)
	}
	return strings.Join(faults, "; nor ")
}

func (i *installation) judgeGlued(t testing.TB, want []outcome, s *seen, glued bool) string {
	t.Helper()
	own := *s
	if glued && len(s.answers) == len(want)+1 {
		last, follower := s.answers[len(want)-1], s.answers[len(want)]
		if last.closes() {
			return fmt.Sprintf("%v behind an announced end", follower)
		}
		if follower.code != 200 {
			return fmt.Sprintf("the request behind it got %v", follower)
		}
		if got := i.event(follower.get("X-Event-Id")); string(got.GetBody()) != gluedBody {
			return fmt.Sprintf("the request behind it is stored as %.60q", got.GetBody())
		}
		own.answers, own.closed = s.answers[:len(want)], false
	} else if glued && len(want) > 0 && want[len(want)-1].Accept != nil && !want[len(want)-1].Close {
		return fmt.Sprintf("%v: no answer to the good request behind it", s.answers)
	}
	return i.judge(t, want, &own, false)
}

// framings are whole requests of the source `open`, framed in both ways; %s is the sender's id.
var framings = []string{
	"POST /hooks/open HTTP/1.1\r\nHost: hooks.example.test\r\nX-Id: %s\r\n" +
		"Content-Type: application/json\r\nContent-Length: 31\r\n\r\n" +
		`{"hello":"world","list":[1,23]}`,
	"POST /hooks/open HTTP/1.1\r\nHost: hooks.example.test\r\nX-Id: %s\r\n" +
		"Transfer-Encoding: chunked\r\n\r\n" +
		"11\r\n{\"hello\":\"world\",\r\ne\r\n\"list\":[1,23]}\r\n0\r\nX-Trailer: 1\r\n\r\n",
}

// openSource takes everything, under ids of the sender.
const openSource = "  open: {path: /hooks/open, provider: none, id_from: header:X-Id, " +
	"deliver: []}\n"

// ending is one way in which a sender leaves.
type ending int

const (
	reset     ending = iota // RST
	halfEnd                 // FIN; over TLS close_notify before it
	truncated               // over TLS: FIN without close_notify
)

// leaving is one sender that leaves behind so many of its bytes.
type leaving struct {
	id     string
	text   string
	bytes  int
	ending ending
	pause  time.Duration // between its last byte and its end
}

// Nothing else than a whole request is stored, and what a sender that left had begun is let go; a
// sender that only says that it is done gets its answer.
func TestASenderThatLeavesAtAnyByteLeavesNothing(t *testing.T) {
	ca := newAuthority(t, "senders")
	onDrivers(t, func(t *testing.T, driver string) {
		random := seeded(t)
		i := installTLS(t, ca, "driver: "+driver+"\n"+roomy+"sources:\n"+openSource)
		i.start()
		for _, transport := range []string{"plain", "TLS"} {
			t.Run(transport, func(t *testing.T) {
				i.leaveEverywhere(t, random, ca, transport == "TLS")
			})
		}
	})
}

func (i *installation) leaveEverywhere(t *testing.T, random *rand.Rand, ca *authority,
	secure bool) {
	before := i.holdings()
	var jobs []leaving
	for form, text := range framings {
		for _, end := range []ending{reset, halfEnd, truncated} {
			if end == truncated && !secure {
				continue
			}
			length := len(text) - len("%s") + len("12345678")
			if secure && end != halfEnd { // bytes of the connection, of which the request is a part
				length += 2500
			}
			step := 1
			if secure {
				step = count(25, 1) // each costs a handshake
			}
			for n := random.IntN(step); n <= length; n += step {
				jobs = append(jobs, i.leaver(random, text, form, n, end, secure))
			}
			jobs = append(jobs, i.leaver(random, text, form, length, end, secure))
		}
	}
	var mu sync.Mutex
	whole, answered := map[string]bool{}, map[string]bool{}
	each(jobs, func(l leaving) {
		var sent, told bool
		var err error
		if secure && l.ending != halfEnd {
			sent, told, err = l.leaveTLS(i, ca)
		} else {
			sent, told, err = l.leave(i, ca, secure)
		}
		if err != nil {
			t.Errorf("%+v: %v", l, err)
		}
		if told && !sent {
			t.Errorf("%+v: 2xx for a part of a request", l)
		}
		if l.ending == halfEnd && sent && !told {
			t.Errorf("%+v: no 2xx although all was sent", l)
		}
		mu.Lock()
		defer mu.Unlock()
		whole[l.id], answered[l.id] = sent, told
	})
	i.holdsAgain(before)
	eventually(t, "the lanes are drained", i.drained)
	stored := map[string]bool{}
	for _, e := range i.events(nil) {
		id := e.GetProviderId()
		stored[id] = true
		if sent, ours := whole[id]; ours && !sent {
			t.Errorf("%s is stored, and was never sent whole", id)
		}
		if e.GetSize() != 31 {
			t.Errorf("%s is stored with %d bytes", id, e.GetSize())
		}
	}
	for id, told := range answered {
		if told && !stored[id] {
			t.Errorf("%s got a 2xx and is not stored", id)
		}
	}
	t.Logf("%d connections, %d stored", len(jobs), len(stored))
}

func (i *installation) leaver(random *rand.Rand, text string, form, n int, end ending,
	secure bool) leaving {
	id := fmt.Sprintf("%d%d%d-%04d", form, end, map[bool]int{true: 1}[secure], n)
	text = fmt.Sprintf(text, id)
	return leaving{id, text, n, end, time.Duration(random.IntN(500)) * time.Microsecond}
}

// leave sends the first bytes of the request and ends. It tells whether all was sent, and whether a
// 2xx came.
func (l leaving) leave(i *installation, ca *authority, secure bool) (sent, told bool, err error) {
	var conn net.Conn
	if secure {
		conn, err = i.connectTLS(ca)
	} else {
		conn, err = i.connectPlain()
	}
	if err != nil {
		return false, false, err
	}
	defer conn.Close()
	n := min(l.bytes, len(l.text))
	w := &wire{conn, bufio.NewReader(conn)}
	if err := w.write(l.text[:n]); err != nil {
		return false, false, err
	}
	sent = n == len(l.text)
	if l.ending == reset {
		time.Sleep(l.pause)
		return sent, false, conn.(*net.TCPConn).SetLinger(0)
	}
	if err := halfClose(conn); err != nil {
		return sent, false, err
	}
	told, err = w.hearsOut()
	return sent, told, err
}

// hearsOut reads up to the connection's end and tells whether a 2xx came.
func (w *wire) hearsOut() (told bool, err error) {
	for {
		a, err := w.read("")
		switch {
		case errors.Is(err, errSlow):
			return told, err
		case err != nil:
			return told, nil // however it ended
		case a.code >= 200 && a.code < 300:
			told = true
		}
	}
}

// throttled is a connection that sends so many bytes and then ends, whatever is written.
type throttled struct {
	*net.TCPConn
	mu   sync.Mutex
	left int
	end  func(*net.TCPConn)
}

var errThrottled = errors.New("the sender has left")

func (c *throttled) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(b), c.left)
	c.left -= n
	if n > 0 {
		if _, err := c.TCPConn.Write(b[:n]); err != nil {
			return 0, err
		}
	}
	if n == len(b) {
		return n, nil
	}
	if c.end != nil {
		c.end(c.TCPConn)
		c.end = nil
	}
	return n, errThrottled
}

// What a sender puts where others have text is kept and shown, whatever bytes it is; one such event
// hides no other.
func TestBytesThatAreNoTextAreListedAndShown(t *testing.T) {
	t.Parallel()
	i := install(t, "sources:\n"+openSource)
	i.start()
	id := i.accepted(request{path: "/hooks/open", body: "{}",
		fields: []field{{"X-Id", "caf\xe9 \xff\xfe"}, {"X-Latin", "\xe9"}}})
	other := i.accepted(request{path: "/hooks/open?q=%ff", body: "\xff"})
	if list := i.events(nil); len(list) != 2 {
		t.Errorf("%d events are listed, want 2", len(list))
	}
	for _, id := range []string{id, other} {
		if got := i.event(id).GetEvent().GetId(); got != id {
			t.Errorf("shown: %q, want %q", got, id)
		}
	}
	i.mustRun("events", "list", "--json")
	i.mustRun("events", "show", id)
}
