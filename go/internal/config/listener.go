package config

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// collide tells whether two addresses cannot both be bound. Port 0 is another port each time.
func collide(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil {
		return a == b
	}
	// parseHostPort has bounded the ports.
	numberA, _ := strconv.Atoi(portA)
	numberB, _ := strconv.Atoi(portB)
	return numberA == numberB && numberA != 0 &&
		(hostA == hostB || isEveryHost(hostA) || isEveryHost(hostB))
}

func isEveryHost(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "" || err == nil && addr.IsUnspecified()
}

func (r *reader) listeners(it item) []Listener {
	if it.node == nil {
		return []Listener{{Address: Address{Network: "tcp", Target: defaultListener}}}
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
		if parsed.Network == "unix" {
			r.needs(UnixListener, address.path, "a listener on a Unix socket")
		}
	}
	if block := t.get("tls"); block.node != nil {
		r.needs(TLS, block.path, "tls")
		l.TLS = r.listenerTLS(r.table(block))
	}
	if block := t.get("proxy_protocol"); block.node != nil {
		r.needs(ProxyProtocol, block.path, "proxy_protocol")
		from := r.table(block)
		before := len(r.faults)
		l.ProxyProtocol = values(from, "from", nil, parsePrefix)
		if len(l.ProxyProtocol) == 0 && len(r.faults) == before {
			r.fault(from.join("from"), "write from: [10.0.0.0/8]",
				"no peer may send a PROXY header")
		}
		from.end()
	}
	t.end()
	return l
}

func (r *reader) parseAddress(text string) (Address, error) {
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

func (r *reader) listenerTLS(t *table) *ListenerTLS {
	l := &ListenerTLS{}
	for _, entry := range r.list(t.get("certificates")) {
		pair := r.table(entry)
		l.Certificates = append(l.Certificates, r.certificate(pair))
		pair.end()
	}
	if !t.has("certificates") {
		r.fault(t.path, "write certificates: [{cert: tls.crt, key: tls.key}]",
			"tls has no certificates")
	} else if len(l.Certificates) == 0 {
		r.fault(t.join("certificates"), "write [{cert: tls.crt, key: tls.key}]",
			"tls has no certificates")
	}
	if t.has("client_ca") {
		l.ClientAuth = "required"
		l.ClientCA = r.inFolder(value(t, "client_ca", "", parseText, filled))
		r.needs(MutualTLS, t.join("client_ca"), "asking for client certificates")
		r.clientCA(t.join("client_ca"), l.ClientCA)
	} else {
		t.get("client_ca")
	}
	l.ClientAuth = value(t, "client_auth", l.ClientAuth, oneOf("required", "optional"))
	if t.has("client_auth") && !t.has("client_ca") {
		r.fault(t.join("client_auth"), "set client_ca or take it out",
			"it says nothing without client_ca")
	}
	t.end()
	return l
}

// certificate reads a pair and proves that the two belong together.
func (r *reader) certificate(t *table) Certificate {
	for _, key := range []string{"cert", "key"} {
		if !t.has(key) {
			r.fault(t.path, "write {cert: tls.crt, key: tls.key}", "the certificate has no %s file", key)
		}
	}
	pair := Certificate{
		Cert: r.inFolder(value(t, "cert", "", parseText, filled)),
		Key:  r.inFolder(value(t, "key", "", parseText, filled)),
	}
	if !t.has("cert") || !t.has("key") {
		return pair
	}
	cert, ok := r.pem(t.join("cert"), pair.Cert)
	if !ok {
		return pair
	}
	key, ok := r.pem(t.join("key"), pair.Key)
	if !ok {
		return pair
	}
	if _, err := tls.X509KeyPair(cert, key); err != nil {
		r.fault(t.path, "name a certificate chain and its own key, both PEM",
			"%s and %s are no pair: %v", pair.Cert, pair.Key, err)
	}
	return pair
}

func (r *reader) clientCA(path, file string) {
	if pem, ok := r.pem(path, file); ok && !x509.NewCertPool().AppendCertsFromPEM(pem) {
		r.fault(path, "name a file of PEM certificates", "%s holds no certificate", file)
	}
}

func (r *reader) pem(path, file string) ([]byte, bool) {
	text, err := r.options.ReadFile(file)
	if err != nil {
		r.fault(path, "make it readable for sluice, or name another", "the file cannot be read: %v", err)
		return nil, false
	}
	return text, true
}
