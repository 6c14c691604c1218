package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// everyone is all peers there are.
var everyone = []netip.Prefix{
	netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0),
}

// collide tells whether two addresses cannot both be bound. Port 0 is another port each time.
func collide(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	numberA, noPortA := strconv.Atoi(portA)
	numberB, noPortB := strconv.Atoi(portB)
	if errors.Join(errA, errB, noPortA, noPortB) != nil {
		return a == b
	}
	return numberA == numberB && numberA != 0 &&
		(hostA == hostB || isEveryHost(hostA) || isEveryHost(hostB))
}

func isEveryHost(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "" || err == nil && addr.IsUnspecified()
}

func (r *reader) listeners(it item) []Listener {
	if it.node == nil {
		return []Listener{{
			Address: Address{Network: "tcp", Target: defaultListener}, Backlog: defaultBacklog,
			KeepAlive: defaultKeepAlive,
		}}
	}
	entries := r.list(it)
	if len(entries) == 0 && isList(it) {
		r.fault(it.path, "write [{address: 0.0.0.0:8080}] or take the key out",
			"no sender could connect")
	}
	listeners := make([]Listener, 0, len(entries))
	for _, entry := range entries {
		listeners = append(listeners, r.listener(entry))
	}
	return listeners
}

func (r *reader) listener(it item) Listener {
	t := r.table(it)
	var l Listener
	if address := t.get("address"); address.node == nil {
		r.fault(t.path, "write address: 0.0.0.0:8080", "the listener has no address")
	} else if parsed, ok := one(r, address, r.parseAddress); ok {
		l.Address = parsed
	}
	if block := t.get("tls"); block.node != nil {
		l.TLS = r.listenerTLS(r.table(block))
	}
	isUnix := l.Address.Network == "unix"
	if block := t.get("proxy_protocol"); block.node != nil {
		from := r.table(block)
		if isUnix && !from.has("from") {
			// Its peers have no address by which some could be told from others.
			from.get("from")
			l.ProxyProtocol = everyone
		} else {
			l.ProxyProtocol = r.peers(from, "no peer may send a PROXY header")
		}
		from.end()
	}
	if block := t.get("forwarded_for"); block.node != nil {
		from := r.table(block)
		l.ForwardedFor = r.peers(from, "no peer's X-Forwarded-For would be believed")
		from.end()
	}
	r.socket(t, &l)
	t.end()
	return l
}

// peers reads a list of networks that may not be empty.
func (r *reader) peers(t *table, empty string) []netip.Prefix {
	before := len(r.faults)
	list := values(t, "from", nil, parsePrefix)
	if len(list) == 0 && len(r.faults) == before {
		r.fault(t.join("from"), "write from: [10.0.0.0/8]", "%s", empty)
	}
	return list
}

// socket reads what the kernel is told about the listening sockets.
func (r *reader) socket(t *table, l *Listener) {
	l.Backlog = value(t, "backlog", defaultBacklog, parseCount, between(1, backlogMax))
	keepAlive, mode := defaultKeepAlive, Mode(0)
	isUnix := l.Address.Network == "unix"
	if isUnix {
		keepAlive, mode = 0, defaultMode
	}
	l.DeferAccept = value(t, "defer_accept", 0, parseDuration, between(0, deferAcceptMax),
		wholeSeconds)
	l.KeepAlive = value(t, "keepalive", keepAlive, parseDuration, between(0, keepAliveMax),
		wholeSeconds)
	l.Mode = value(t, "mode", mode, parseMode)
	switch {
	case isUnix && l.DeferAccept != 0:
		r.fault(t.join("defer_accept"), "take it out", "a Unix socket has none")
	case isUnix && l.KeepAlive != 0:
		r.fault(t.join("keepalive"), "take it out", "a Unix socket has none")
	case !isUnix && t.has("mode"):
		r.fault(t.join("mode"), "take it out, or listen on unix:PATH",
			"only the path of a Unix socket has a mode")
	}
}

func wholeSeconds(d time.Duration) error {
	if d%time.Second != 0 {
		return wrong("write it as 30s", "the kernel counts whole seconds, and %v are none", d)
	}
	return nil
}

// Mode says who may connect to a Unix socket, in the file system's permission bits.
type Mode fs.FileMode

// String is the form that a config takes.
func (m Mode) String() string { return fmt.Sprintf("%#o", uint32(m)) }

// MarshalText writes the form that a config takes.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

func parseMode(text string) (Mode, error) {
	const mend = `write it in octal digits, as "0660"`
	bits, err := strconv.ParseUint(strings.TrimPrefix(text, "0o"), 8, 32)
	if err != nil || bits > 0o777 {
		return 0, wrong(mend, "%q is no mode of a file", text)
	}
	if bits&0o222 == 0 {
		return 0, wrong(mend, "under mode %s nobody may connect: that takes the right to write", text)
	}
	return Mode(bits), nil
}

func (r *reader) parseAddress(text string) (Address, error) {
	if name, is := strings.CutPrefix(text, "systemd:"); is {
		return Address{Network: "systemd", Target: name}, checkSocketName(name)
	}
	path, isUnix := strings.CutPrefix(text, "unix:")
	if !isUnix {
		target, err := parseHostPort(text)
		return Address{Network: "tcp", Target: target}, err
	}
	if path == "" {
		return Address{}, wrong("write it as unix:/run/sluice/in.sock", "the path is empty")
	}
	path = r.inFolder(path)
	if len(path) > unixPathMax {
		return Address{}, wrong("name a shorter path",
			"the socket's path has %d bytes; the kernel takes %d", len(path), unixPathMax)
	}
	return Address{Network: "unix", Target: path}, nil
}

// checkSocketName holds a name to what FileDescriptorName= takes (systemd.socket(5)).
func checkSocketName(name string) error {
	bad := strings.IndexFunc(name, func(c rune) bool { return c <= ' ' || c > '~' || c == ':' })
	if name == "" || len(name) > socketNameMax || bad >= 0 {
		return wrong("write the FileDescriptorName= of its .socket unit, as systemd:web",
			"%q is no name of a socket", name)
	}
	return nil
}
