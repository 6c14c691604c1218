package e2e

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
)

// proxied has a listener behind a proxy at 127.0.0.1, which no other address is, and one with TLS
// behind the same.
func proxied(t testing.TB, ca *authority, more, text string) *installation {
	t.Helper()
	i := install(t, "")
	i.more = []string{freeAddress(t)}
	ca.issue(tlsHost).write(t, i.dir, "tls")
	const behind = "    proxy_protocol: {from: [127.0.0.1/32]}\n"
	i.configure(fmt.Sprintf("listeners:\n  - address: %s\n%s  - address: %s\n%s    tls:\n"+
		"      certificates: [{cert: tls.crt, key: tls.key}]\n%s%s",
		i.address, behind, i.secured(), behind, more, text))
	return i
}

// behindProxy has sources for everybody and for one network.
const behindProxy = "sources:\n" +
	"  open: {path: /hooks/open, provider: none, methods: [POST], deliver: []}\n" +
	"  inside: {path: /hooks/inside, provider: none, allow_from: [203.0.113.0/24, " +
	"'2001:db8::/32'], deliver: []}\n"

// from connects from one loopback address.
func (i *installation) from(t testing.TB, ip string) *wire {
	t.Helper()
	d := net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
	conn, err := d.Dial("tcp", i.address)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &wire{conn, bufio.NewReader(conn)}
}

// v1 is a PROXY header as text.
func v1(family, source, to string, sourcePort, toPort int) string {
	return fmt.Sprintf("PROXY %s %s %s %d %d\r\n", family, source, to, sourcePort, toPort)
}

// v2 is a binary PROXY header of a TCP connection, with TLVs behind the addresses; without a source
// it is the proxy's own connection (LOCAL).
func v2(source netip.AddrPort, tlvs string) string {
	b := []byte("\r\n\r\n\x00\r\nQUIT\n")
	if !source.IsValid() {
		return string(b) + "\x20\x00" + string(binary.BigEndian.AppendUint16(nil,
			uint16(len(tlvs)))) + tlvs
	}
	family, addresses := byte(0x11), source.Addr().AsSlice()
	to := netip.MustParseAddr("192.0.2.1")
	if source.Addr().Is6() {
		family, to = 0x21, netip.MustParseAddr("2001:db8::1")
	}
	addresses = append(addresses, to.AsSlice()...)
	addresses = binary.BigEndian.AppendUint16(addresses, source.Port())
	addresses = binary.BigEndian.AppendUint16(addresses, 443)
	b = append(b, 0x21, family)
	b = binary.BigEndian.AppendUint16(b, uint16(len(addresses)+len(tlvs)))
	return string(append(b, addresses...)) + tlvs
}

// peerOf is the address that a stored event came from.
func (i *installation) peerOf(id string) string { return i.event(id).GetPeer() }

// The address that a proxy gives is the one that allow_from goes by and that is stored.
func TestTheAddressThatAProxyGivesIsTheSenders(t *testing.T) {
	t.Parallel()
	random := seeded(t)
	ca := newAuthority(t, "senders")
	i := proxied(t, ca, "", behindProxy)
	i.start()
	address := netip.MustParseAddrPort
	tlvs := "\x01\x00\x08http/1.1\x04\x00\x00\x02\x00\x05hooks"
	for _, c := range []struct {
		header, peer string // peer "": the proxy's own
		inside       int
	}{
		{v1("TCP4", "203.0.113.7", "192.0.2.1", 4711, 443), "203.0.113.7:4711", 200},
		{v1("TCP4", "198.51.100.7", "192.0.2.1", 4711, 443), "198.51.100.7:4711", 403},
		{v1("TCP6", "2001:db8::7", "2001:db8::1", 4711, 443), "[2001:db8::7]:4711", 200},
		{"PROXY UNKNOWN\r\n", "", 403},
		{"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", "", 403},
		{v2(address("203.0.113.7:4711"), ""), "203.0.113.7:4711", 200},
		{v2(address("203.0.113.7:4711"), tlvs), "203.0.113.7:4711", 200},
		{v2(address("[2001:db8::7]:4711"), tlvs), "[2001:db8::7]:4711", 200},
		{v2(netip.AddrPort{}, ""), "", 403},
		{v2(netip.AddrPort{}, tlvs), "", 403},
	} {
		text := request{path: "/hooks/open", body: `{"behind":"a proxy"}`}.bytes()
		for _, way := range [][]string{
			{c.header + text}, {c.header, text}, split(random, c.header+text),
			strings.Split(c.header+text, ""), // each byte on its own
		} {
			w := i.from(t, "127.0.0.1")
			for _, piece := range way {
				must(t, w.write(piece))
			}
			a, err := w.read("POST")
			if err != nil || a.code != 200 {
				t.Errorf("%q in %d pieces: %v %v", c.header, len(way), a, err)
				continue
			}
			want := c.peer
			if want == "" {
				want = w.conn.LocalAddr().String()
			}
			if got := i.peerOf(a.get("X-Event-Id")); got != want {
				t.Errorf("%q: the event's peer is %s, want %s", c.header, got, want)
			}
			// The connection goes on without another header.
			b := w.ask(t, request{path: "/hooks/inside", body: "{}"})
			if b.code != c.inside || (b.code == 403) != b.closes() {
				t.Errorf("%q: the source for one network says %v, want %d", c.header, b, c.inside)
			}
		}
	}
	// The header stands in front of the TLS handshake.
	raw, err := net.Dial("tcp", i.secured())
	must(t, err)
	defer raw.Close()
	_, err = raw.Write([]byte(v2(address("203.0.113.7:4711"), tlvs)))
	must(t, err)
	conn, err := shake(raw, ca.trusting())
	must(t, err)
	w := &wire{conn, bufio.NewReader(conn)}
	a := w.ask(t, request{path: "/hooks/inside", body: "{}"})
	if a.code != 200 {
		t.Fatalf("through TLS behind a proxy: %v", a)
	}
	type shown struct{ Peer string }
	list := jsonOf[shown](i, "events", "show", a.get("X-Event-Id"))
	if list[0].Peer != "203.0.113.7:4711" {
		t.Errorf("through TLS behind a proxy, `events show` has %+v", list)
	}
	if n := i.total("webhook_dataplane_proxy_refused_total"); n != 0 {
		t.Errorf("%d PROXY headers are counted as refused", n)
	}
}

// A listed peer must send the header, and a right one; from all others it is no HTTP.
func TestAProxyHeaderIsRequiredFromThoseListedAndRefusedFromOthers(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "senders")
	i := proxied(t, ca, "http: {header_timeout: 2s}\n", behindProxy)
	i.start()
	before := i.holdings()
	text := request{path: "/hooks/open", body: "{}"}.bytes()

	good := v1("TCP4", "203.0.113.7", "192.0.2.1", 4711, 443)
	binaryGood := v2(netip.MustParseAddrPort("203.0.113.7:4711"), "")
	wrong := []string{
		"", "PROXY TCP4 203.0.113.7 192.0.2.1 04711 443\r\n", "PROXY TCP4 203.0.113.7 192.0.2.1 1 2\n",
		"PROXY  TCP4 203.0.113.7 192.0.2.1 1 2\r\n", "PROXY TCP4 203.0.113.700 192.0.2.1 1 2\r\n",
		"PROXY TCP6 203.0.113.7 192.0.2.1 1 2\r\n", "proxy TCP4 203.0.113.7 192.0.2.1 1 2\r\n",
		"PROXY TCP4 203.0.113.7 192.0.2.1 1 65536\r\n", "PROXY UDP4 203.0.113.7 192.0.2.1 1 2\r\n",
		"PROXY UNKNOWN " + strings.Repeat("x", 100) + "\r\n",
		strings.Replace(binaryGood, "QUIT", "QUIX", 1), // signature
		binaryGood[:12] + "\x31" + binaryGood[13:],     // version
		binaryGood[:12] + "\x2f" + binaryGood[13:],     // command
		binaryGood[:14] + "\x00\x04" + "\x01\x02\x03\x04",
		binaryGood[:14] + "\xff\xff" + binaryGood[16:],
	}
	for _, header := range wrong {
		w := i.from(t, "127.0.0.1")
		must(t, w.write(header+text))
		if told, err := w.hearsOut(); told || err != nil {
			t.Errorf("from the proxy %q: 2xx %v, %v", header, told, err)
		}
	}
	if n := i.total("webhook_dataplane_proxy_refused_total"); n != len(wrong) {
		t.Errorf("%d PROXY headers are counted as refused, want %d", n, len(wrong))
	}
	for _, header := range []string{good, binaryGood} {
		w := i.from(t, "127.0.0.3")
		if a := w.raw(t, header+text); a.code != 400 || !a.closes() {
			t.Errorf("%q of somebody else: %v", header, a)
		}
		w.isClosed(t)
		// Twice is once too often, too.
		w = i.from(t, "127.0.0.1")
		if a := w.raw(t, good+header+text); a.code != 400 || !a.closes() {
			t.Errorf("%q behind a PROXY header: %v", header, a)
		}
		w.isClosed(t)
	}
	if n := len(i.events(nil)); n != 0 {
		t.Errorf("%d events are stored", n)
	}
	w := i.from(t, "127.0.0.3")
	if a := w.raw(t, text); a.code != 200 {
		t.Errorf("somebody else without a header: %v", a)
	}
	must(t, w.conn.Close())
	// A proxy that says nothing at all is let go after header_timeout.
	if err := ends(i.from(t, "127.0.0.1").conn); err != nil {
		t.Errorf("a proxy that is silent: %v", err)
	}
	i.holdsAgain(before)
}

// The bound for each address counts senders, not the proxy that brings them.
func TestTheBoundForAnAddressCountsSendersBehindAProxy(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "senders")
	i := proxied(t, ca, "http: {max_connections_per_ip: 2}\n", behindProxy)
	i.start()
	text := request{path: "/hooks/open", body: "{}"}.bytes()
	connect := func(ip string) (*wire, *answer) {
		w := i.from(t, "127.0.0.1")
		return w, w.raw(t, v1("TCP4", ip, "192.0.2.1", 4711, 443)+text)
	}
	var last *wire
	for _, ip := range []string{"203.0.113.1", "203.0.113.1", "203.0.113.2", "203.0.113.2",
		"203.0.113.3"} {
		w, a := connect(ip)
		if a.code != 200 {
			t.Fatalf("%s: %v", ip, a)
		}
		if ip == "203.0.113.1" {
			last = w
		}
	}
	w, a := connect("203.0.113.1")
	if a.code != 503 || !a.closes() || a.get("Retry-After") == "" {
		t.Errorf("a third connection of a sender: %v", a)
	}
	w.isClosed(t)
	must(t, last.conn.Close())
	eventually(t, "a connection that ended makes room for the next", func() bool {
		_, a := connect("203.0.113.1")
		return a.code == 200
	})
}

// X-Forwarded-For counts from the right, up to the first address that is not a trusted proxy's, and
// only where the peer is one.
func TestForwardedForIsBelievedOfTrustedPeersOnly(t *testing.T) {
	t.Parallel()
	i := install(t, "")
	i.configure(fmt.Sprintf("listeners:\n  - address: %s\n    forwarded_for: {from: [127.0.0.1/32, "+
		"10.0.0.0/8]}\n%s", i.address, behindProxy))
	i.start()
	for _, c := range []struct {
		from   string
		values []string
		ip     string // "": the peer's own
		inside int
	}{
		{"127.0.0.1", []string{"203.0.113.7"}, "203.0.113.7", 200},
		{"127.0.0.1", []string{"203.0.113.7, 10.1.2.3"}, "203.0.113.7", 200},
		{"127.0.0.1", []string{"203.0.113.7", "10.1.2.3, 10.9.9.9"}, "203.0.113.7", 200},
		{"127.0.0.1", []string{"203.0.113.7, 198.51.100.1"}, "198.51.100.1", 403}, // the left is forged
		{"127.0.0.1", []string{"203.0.113.7", "198.51.100.1"}, "198.51.100.1", 403},
		{"127.0.0.1", []string{"2001:db8::9"}, "2001:db8::9", 200},
		{"127.0.0.1", []string{"[2001:db8::9]:4711"}, "2001:db8::9", 200},
		{"127.0.0.1", []string{"203.0.113.7:4711"}, "203.0.113.7", 200},
		{"127.0.0.1", []string{"::ffff:203.0.113.7"}, "203.0.113.7", 200},
		{"127.0.0.1", []string{"203.0.113.7, unknown"}, "", 403},
		{"127.0.0.1", []string{"203.0.113.7, 10.1.2.3;evil"}, "", 403},
		{"127.0.0.1", []string{""}, "", 403},
		{"127.0.0.1", nil, "", 403},
		{"127.0.0.5", []string{"203.0.113.7"}, "", 403}, // nobody's proxy
	} {
		w := i.from(t, c.from)
		ask := func(path string) *answer {
			r := request{path: path, body: "{}"}
			for _, v := range c.values {
				r.fields = append(r.fields, field{"X-Forwarded-For", v})
			}
			return w.ask(t, r)
		}
		a := ask("/hooks/open")
		if a.code != 200 {
			t.Fatalf("%+v: %v", c, a)
		}
		peer, err := netip.ParseAddrPort(i.peerOf(a.get("X-Event-Id")))
		must(t, err)
		want := c.ip
		if want == "" {
			want = c.from
		}
		if peer.Addr().Unmap().String() != want {
			t.Errorf("%+v: the event's peer is %v, want %s", c, peer, want)
		}
		if a := ask("/hooks/inside"); a.code != c.inside {
			t.Errorf("%+v: the source for one network says %v", c, a)
		}
	}
	// It is read for each request, not once for a connection.
	w := i.from(t, "127.0.0.1")
	for _, ip := range []string{"203.0.113.7", "203.0.113.8"} {
		a := w.ask(t, request{path: "/hooks/inside", body: "{}",
			fields: []field{{"X-Forwarded-For", ip}}})
		if a.code != 200 || !strings.HasPrefix(i.peerOf(a.get("X-Event-Id")), ip) {
			t.Errorf("%s: %v from %s", ip, a, i.peerOf(a.get("X-Event-Id")))
		}
	}
}

// On a Unix socket nobody has an address, so everybody there is the proxy.
func TestAProxyMayComeOverAUnixSocket(t *testing.T) {
	t.Parallel()
	i := install(t, "")
	path := filepath.Join(i.shm, "in.sock")
	i.configure(fmt.Sprintf("listeners:\n  - address: unix:%s\n    proxy_protocol: {}\n%s", path,
		behindProxy))
	i.start()
	says := func(header string) *answer {
		conn, err := net.Dial("unix", path)
		must(t, err)
		defer conn.Close()
		w := &wire{conn, bufio.NewReader(conn)}
		must(t, w.write(header+request{path: "/hooks/inside", body: "{}"}.bytes()))
		a, err := w.read("POST")
		if err != nil {
			return nil // it ended
		}
		return a
	}
	if a := says(""); a != nil && a.code < 400 {
		t.Errorf("without a header: %v", a)
	}
	a := says(v1("TCP4", "203.0.113.7", "192.0.2.1", 4711, 443))
	if a == nil || a.code != 200 || i.peerOf(a.get("X-Event-Id")) != "203.0.113.7:4711" {
		t.Errorf("with a header: %v", a)
	}
	if a := says(v1("TCP4", "198.51.100.7", "192.0.2.1", 4711, 443)); a == nil || a.code != 403 {
		t.Errorf("with the header of somebody outside: %v", a)
	}
}
