package e2e

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// tlsHost is the name that senders use unless a test has its own.
const tlsHost = "hooks.example.test"

// secured is where an installation listens with TLS.
func (i *installation) secured() string { return i.more[0] }

// installTLS has a plain listener and one with TLS, which shows a certificate of the authority.
func installTLS(t testing.TB, ca *authority, text string) *installation {
	t.Helper()
	i := install(t, "")
	i.more = []string{freeAddress(t)}
	ca.issue(tlsHost).write(t, i.dir, "tls")
	i.configure(i.withTLS("", text))
	return i
}

// withTLS is a config with a plain listener and one with TLS; more are lines of its tls block.
func (i *installation) withTLS(more, text string) string {
	return fmt.Sprintf("listeners:\n  - address: %s\n  - address: %s\n    tls:\n"+
		"      certificates: [{cert: tls.crt, key: tls.key}]\n%s%s", i.address, i.secured(), more, text)
}

// trusting is what a sender demands of the certificate that it is shown.
func (a *authority) trusting() *tls.Config {
	return &tls.Config{RootCAs: a.pool(), ServerName: tlsHost}
}

func (i *installation) connectTLS(ca *authority) (net.Conn, error) {
	return dialTLS(i.secured(), ca.trusting())
}

// dialTLS connects and shakes hands.
func dialTLS(address string, config *tls.Config) (*tls.Conn, error) {
	raw, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return nil, err
	}
	return shake(raw, config)
}

func shake(raw net.Conn, config *tls.Config) (*tls.Conn, error) {
	conn := tls.Client(raw, config)
	err := conn.SetDeadline(time.Now().Add(patience))
	if err == nil {
		err = conn.Handshake()
	}
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	return conn, conn.SetDeadline(time.Time{})
}

// leaveTLS is leave with bytes of ciphertext, those of the handshake included.
func (l leaving) leaveTLS(i *installation, ca *authority) (sent, told bool, err error) {
	raw, err := net.DialTimeout("tcp", i.secured(), patience)
	if err != nil {
		return false, false, err
	}
	defer raw.Close()
	end := func(c *net.TCPConn) {
		time.Sleep(l.pause)
		if l.ending == truncated {
			_ = c.CloseWrite() // an error: the server was faster
			return
		}
		_ = c.SetLinger(0)
		_ = c.Close()
	}
	limited := &throttled{TCPConn: raw.(*net.TCPConn), left: l.bytes, end: end}
	conn := tls.Client(limited, ca.trusting())
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return false, false, err
	}
	if _, err = conn.Write([]byte(l.text)); err == nil {
		sent = true
		end(limited.TCPConn)
	} else if !errors.Is(err, errThrottled) {
		return false, false, err
	}
	if l.ending == reset {
		return sent, false, nil
	}
	if !sent { // no more is read by a sender that cannot answer
		return false, false, ends(raw)
	}
	w := &wire{conn, bufio.NewReader(conn)}
	told, err = w.hearsOut()
	return sent, told, err
}

// ends reads up to the end of a connection, however it ends; only one that stays is an error.
func ends(conn net.Conn) error {
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, conn)
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		return errSlow
	}
	return nil
}

// posts sends a request over an open connection and gives the answer's code; 0: none came.
func posts(conn net.Conn, path, body string) int {
	w := &wire{conn, bufio.NewReader(conn)}
	a, err := w.exchange(request{path: path, body: body})
	if err != nil {
		return 0
	}
	return a.code
}

// ticketed sends a request, with whose answer a ticket came in at the latest, and tells whether the
// session was resumed by an earlier one.
func (i *installation) ticketed(t testing.TB, config *tls.Config) (resumed bool) {
	t.Helper()
	conn, err := dialTLS(i.secured(), config)
	must(t, err)
	defer conn.Close()
	if code := posts(conn, "/hooks/open", "{}"); code != 200 {
		t.Fatalf("over TLS: %d", code)
	}
	return conn.ConnectionState().DidResume
}

const plainOpen = "sources:\n  open: {path: /hooks/open, provider: none, deliver: []}\n"

// Senders of TLS 1.2 and 1.3 are served, others told so; of the protocols above it, HTTP/1.1 is
// spoken.
func TestTLSIsAgreedOnAsSendersCan(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "senders")
	i := installTLS(t, ca, plainOpen)
	i.start()
	with := func(change func(*tls.Config)) (*tls.Conn, error) {
		config := ca.trusting()
		change(config)
		return dialTLS(i.secured(), config)
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		conn, err := with(func(c *tls.Config) {
			c.MinVersion, c.MaxVersion, c.NextProtos = version, version, []string{"h2", "http/1.1"}
		})
		must(t, err)
		state := conn.ConnectionState()
		if state.Version != version || state.NegotiatedProtocol != "http/1.1" {
			t.Errorf("agreed on %s and %q", tls.VersionName(state.Version), state.NegotiatedProtocol)
		}
		if version == tls.VersionTLS13 && state.CurveID != tls.X25519MLKEM768 {
			t.Errorf("keys are exchanged by %v, want X25519MLKEM768", state.CurveID)
		}
		if code := posts(conn, "/hooks/open", "{}"); code != 200 {
			t.Errorf("over %s: %d", tls.VersionName(version), code)
		}
		_ = conn.Close()
	}
	for alert, change := range map[string]func(*tls.Config){
		"no application protocol": func(c *tls.Config) { c.NextProtos = []string{"h2"} },
		// Signature algorithms are what an old sender is first seen to lack.
		"handshake failure": func(c *tls.Config) {
			c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
		},
	} {
		conn, err := with(change)
		if err == nil {
			_ = conn.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "remote error: tls: "+alert) {
			t.Errorf("want the alert %q: %v", alert, err)
		}
	}
	// Who speaks no TLS is told so in an alert, and nothing is stored.
	w, err := connect(i.secured())
	must(t, err)
	must(t, w.write(request{path: "/hooks/open", body: "{}"}.bytes()))
	if err := ends(w.conn); err != nil {
		t.Errorf("plain HTTP where TLS is spoken: %v", err)
	}
	if n := len(i.events(nil)); n != 2 {
		t.Errorf("%d events are stored, want 2", n)
	}
	if n := i.total("webhook_dataplane_tls_handshakes_total"); n != 2 {
		t.Errorf("%d handshakes are counted, want 2", n)
	}
	if n := i.total("webhook_dataplane_tls_failed_total"); n < 3 {
		t.Errorf("%d failed handshakes are counted, want 3", n)
	}
}

// dripping is a connection whose bytes travel one by one.
type dripping struct{ net.Conn }

func (c dripping) Write(b []byte) (int, error) {
	for n := range b {
		if _, err := c.Conn.Write(b[n : n+1]); err != nil {
			return n, err
		}
	}
	return len(b), nil
}

// Neither how the bytes of a handshake travel nor how records cut a request makes a difference.
func TestTLSComesInAnyPieces(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "senders")
	onDrivers(t, func(t *testing.T, driver string) {
		i := installTLS(t, ca, "driver: "+driver+"\n"+plainOpen)
		i.start()
		before := i.holdings()
		text := request{path: "/hooks/open", body: `{"in":"pieces"}`}.bytes()
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			config := ca.trusting()
			config.MinVersion, config.MaxVersion = version, version
			raw, err := net.DialTimeout("tcp", i.secured(), patience)
			must(t, err)
			conn, err := shake(dripping{raw}, config)
			must(t, err)
			w := &wire{conn, bufio.NewReader(conn)}
			for n := range len(text) { // a record for each byte
				must(t, w.write(text[n:n+1]))
			}
			must(t, w.write(strings.Repeat(text, 30))) // many requests in one record
			for n := range 31 {
				if a, err := w.read("POST"); err != nil || a.code != 200 {
					t.Fatalf("%s, request %d: %v %v", tls.VersionName(version), n, a, err)
				}
			}
			must(t, halfClose(conn))
			if err := ends(conn); err != nil {
				t.Errorf("%s, after close_notify: %v", tls.VersionName(version), err)
			}
			must(t, conn.Close())
		}
		i.holdsAgain(before)
	})
}

// The name that a sender asks for picks the certificate: the exact one, then a wildcard's, then the
// first of the list.
func TestTheNameAskedForPicksTheCertificate(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "senders")
	i := install(t, "")
	i.more = []string{freeAddress(t)}
	pairs := map[string]pair{
		"first":    ca.issue("first.example.test"),
		"exact":    ca.issue("a.wild.example.test"),
		"wildcard": ca.issue("*.wild.example.test"),
	}
	list := ""
	for _, name := range []string{"first", "exact", "wildcard"} {
		pairs[name].write(t, i.dir, name)
		list += fmt.Sprintf("        - {cert: %s.crt, key: %s.key}\n", name, name)
	}
	i.configure(fmt.Sprintf("listeners:\n  - address: %s\n    tls:\n      certificates:\n%s%s",
		i.secured(), list, plainOpen))
	i.start()
	for host, want := range map[string]string{
		"": "first", "unknown.example.test": "first", "first.example.test": "first",
		"a.wild.example.test": "exact", "A.Wild.Example.TEST": "exact",
		"b.wild.example.test": "wildcard", "x.b.wild.example.test": "first",
		"wild.example.test": "first",
	} {
		conn, err := dialTLS(i.secured(), &tls.Config{ServerName: host, InsecureSkipVerify: true})
		if err != nil {
			t.Errorf("%q: %v", host, err)
			continue
		}
		shown := conn.ConnectionState().PeerCertificates[0]
		if !shown.Equal(pairs[want].tls.Leaf) {
			t.Errorf("%q is shown the certificate of %s, want %s", host, shown.Subject, want)
		}
		_ = conn.Close()
	}
}

// A sender comes back with its ticket on any worker, after a crash of the data plane, and after a
// restart of everything.
func TestSessionsAreResumedAcrossCrashesAndRestarts(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "senders")
	i := installTLS(t, ca, "workers: 2\n"+plainOpen)
	i.start()
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		name := tls.VersionName(version)
		config := ca.trusting()
		config.MinVersion, config.MaxVersion = version, version
		config.ClientSessionCache = tls.NewLRUClientSessionCache(8)
		if i.ticketed(t, config) {
			t.Fatalf("%s: the first session is a resumed one", name)
		}
		for n := range 8 { // whatever worker the kernel picks
			if !i.ticketed(t, config) {
				t.Errorf("%s: connection %d is not resumed", name, n)
			}
		}
		i.replacesPlane()
		if !i.ticketed(t, config) {
			t.Errorf("%s: not resumed after a crash of the data plane", name)
		}
		i.stop()
		i.start()
		if !i.ticketed(t, config) {
			t.Errorf("%s: not resumed after a restart", name)
		}
	}
	if n := i.total("webhook_dataplane_tls_resumed_total"); n < 1 {
		t.Errorf("%d resumed sessions are counted", n)
	}
}

// shown is the certificate that a new connection is shown.
func (i *installation) shown(t testing.TB) *x509.Certificate {
	t.Helper()
	conn, err := dialTLS(i.secured(), &tls.Config{ServerName: tlsHost, InsecureSkipVerify: true})
	must(t, err)
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0]
}

// A certificate that is replaced on the disk is shown to new connections, those that are open go
// on, and none fails; what is no pair is not shown.
func TestACertificateIsReplacedWithoutAFailedRequest(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "senders")
	i := installTLS(t, ca, plainOpen)
	i.start()
	open, err := i.connectTLS(ca)
	must(t, err)
	halt := make(chan struct{})
	var senders sync.WaitGroup
	end := sync.OnceFunc(func() {
		close(halt)
		senders.Wait()
		_ = open.Close()
	})
	defer end()
	var served atomic.Int64
	send := func(fresh bool) {
		conn := open
		for {
			select {
			case <-halt:
				return
			case <-time.After(5 * time.Millisecond):
			}
			if fresh {
				var err error
				if conn, err = i.connectTLS(ca); err != nil {
					t.Errorf("a new connection: %v", err)
					return
				}
			}
			if code := posts(conn, "/hooks/open", "{}"); code != 200 {
				t.Errorf("a request (new connection: %v): %d", fresh, code)
				return
			}
			served.Add(1)
			if fresh {
				_ = conn.Close()
			}
		}
	}
	senders.Go(func() { send(false) })
	senders.Go(func() { send(true) })

	last := ca.issue(tlsHost)
	last.write(t, i.dir, "tls")
	eventually(t, "the new certificate is shown", func() bool {
		return i.shown(t).Equal(last.tls.Leaf)
	})
	// Half of a renewal: the chain of one key, the key of another.
	replace(t, filepath.Join(i.dir, "tls.crt"), ca.issue(tlsHost).chain)
	eventually(t, "that there is no pair is logged", func() bool { return i.logged("tls.crt") })
	if _, _, code := i.run("reload"); code != 2 {
		t.Errorf("a reload with a chain of another key exits with %d, want 2", code)
	}
	if !i.shown(t).Equal(last.tls.Leaf) {
		t.Error("what is no pair is shown")
	}
	last = ca.issue(tlsHost)
	last.write(t, i.dir, "tls")
	if out, errs, code := i.run("reload"); code != 0 {
		t.Errorf("a reload with a good pair: %d %s%s", code, out, errs)
	}
	if !i.shown(t).Equal(last.tls.Leaf) {
		t.Error("a reload that was accepted shows the old certificate")
	}
	end()
	if n := len(i.events(nil)); n != int(served.Load()) {
		t.Errorf("%d events are stored, %d were acknowledged", n, served.Load())
	}
}

// The handshake has its own bound in time, whatever part of it came.
func TestAHandshakeThatTakesTooLongIsEnded(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "senders")
	i := installTLS(t, ca, "http: {handshake_timeout: 2s, idle_timeout: 10m, "+
		"header_timeout: 10m}\n"+plainOpen)
	i.start()
	before := i.holdings()
	parts := []int{1, 5, 100, 600}
	each(parts, func(part int) { // all of them wait at once
		raw, err := net.DialTimeout("tcp", i.secured(), patience)
		if err != nil {
			t.Error(err)
			return
		}
		defer raw.Close()
		limited := &throttled{TCPConn: raw.(*net.TCPConn), left: part}
		if _, err := tls.Client(limited, ca.trusting()).Write(nil); !errors.Is(err, errThrottled) {
			t.Errorf("%d bytes of a handshake: %v", part, err)
		}
		if err := ends(raw); err != nil {
			t.Errorf("behind %d bytes of a handshake: %v", part, err)
		}
	})
	if n := i.total("webhook_dataplane_tls_late_total"); n != len(parts) {
		t.Errorf("%d handshakes are counted as late, want %d", n, len(parts))
	}
	if conn, err := i.connectTLS(ca); err != nil {
		t.Error(err)
	} else {
		_ = conn.Close()
	}
	i.holdsAgain(before)
}

// Handshakes over the rate wait for their turn; none of them is turned away.
func TestHandshakesOverTheirRateWait(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "senders")
	i := installTLS(t, ca, "http: {handshake_rate: 20, handshake_timeout: 30s}\n"+plainOpen)
	i.start()
	numbers := make([]int, count(45, 200))
	each(numbers, func(int) {
		conn, err := i.connectTLS(ca)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		if code := posts(conn, "/hooks/open", "{}"); code != 200 {
			t.Errorf("behind the wait: %d", code)
		}
	})
	if n := i.total("webhook_dataplane_tls_held_total"); n == 0 {
		t.Error("no handshake is counted as held")
	}
}

// A body travels whole through TLS, whatever its size; the answer waits for all of it.
func TestBigBodiesArriveWholeOverTLS(t *testing.T) {
	t.Parallel()
	random := seeded(t)
	ca := newAuthority(t, "senders")
	i := installTLS(t, ca, "ring_size: 128MiB\nsources:\n"+
		"  open: {path: /hooks/open, provider: none, max_body: 20MiB, deliver: []}\n")
	i.start()
	for _, size := range []int{16 << 10, 16<<10 + 1, 1 << 20, 20 << 20} {
		bytes := make([]byte, size)
		for n := range bytes {
			bytes[n] = byte(random.Uint32())
		}
		conn, err := i.connectTLS(ca)
		must(t, err)
		w := &wire{conn, bufio.NewReader(conn)}
		a := w.ask(t, request{path: "/hooks/open", body: string(bytes)})
		if a.code != 200 {
			t.Fatalf("%d bytes: %v", size, a)
		}
		if size <= 1<<20 { // what one message of the admin API holds
			if sha256Hex(string(i.event(a.get("X-Event-Id")).GetBody())) != sha256Hex(string(bytes)) {
				t.Errorf("a body of %d bytes is stored as another one", size)
			}
		}
		_ = conn.Close()
	}
	for _, e := range i.events(nil)[:1] {
		if e.GetSize() != 20<<20 {
			t.Errorf("the last body is stored with %d bytes", e.GetSize())
		}
	}
}
