package e2e

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// withClientCA is a TLS listener that asks for certificates of an authority, and sources that want
// them.
func withClientCA(t testing.TB, ca, clients *authority, auth string) *installation {
	t.Helper()
	i := installTLS(t, ca, plainOpen)
	must(t, os.WriteFile(filepath.Join(i.dir, "clients.pem"), clients.pem, 0o600))
	i.configure(i.withTLS("      client_ca: clients.pem\n      client_auth: "+auth+"\n",
		"sources:\n"+
			"  open: {path: /hooks/open, provider: none, deliver: []}\n"+
			"  any: {path: /hooks/any, verify: mtls, deliver: []}\n"+
			"  named: {path: /hooks/named, verify: mtls, deliver: [], "+
			"client_names: [dns:connect.example.com, dns:Other.Example.com]}\n"))
	return i
}

// showing is a sender with a certificate.
func (a *authority) showing(p pair) *tls.Config {
	config := a.trusting()
	config.Certificates = []tls.Certificate{p.tls}
	return config
}

// asks sends one request to each path over one connection.
func (i *installation) asks(t testing.TB, config *tls.Config, paths ...string) (codes []int) {
	t.Helper()
	conn, err := dialTLS(i.secured(), config)
	must(t, err)
	defer conn.Close()
	for _, path := range paths {
		codes = append(codes, posts(conn, path, "{}"))
	}
	return codes
}

// With `client_auth: required` nobody gets in without a certificate of the right authority.
func TestARequiredClientCertificateIsRequired(t *testing.T) {
	t.Parallel()
	ca, clients := newAuthority(t, "senders"), newAuthority(t, "clients")
	i := withClientCA(t, ca, clients, "required")
	i.start()
	forged := newAuthority(t, "clients") // the same name, another key
	for what, config := range map[string]*tls.Config{
		"no certificate":                     ca.trusting(),
		"a certificate of another authority": ca.showing(forged.issue("connect.example.com")),
	} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			config.MinVersion, config.MaxVersion = version, version
			conn, err := dialTLS(i.secured(), config)
			if err == nil { // with 1.3 the sender is done before the server has judged
				var n int
				n, err = conn.Read(make([]byte, 1))
				if n > 0 {
					t.Errorf("%s, %s: it is served", what, tls.VersionName(version))
				}
				_ = conn.Close()
			}
			if err == nil || !strings.Contains(err.Error(), "remote error: tls: ") {
				t.Errorf("%s, %s: want an alert: %v", what, tls.VersionName(version), err)
			}
		}
	}
	if got := i.asks(t, ca.showing(clients.issue("x.example.com")), "/hooks/open", "/hooks/any",
		"/hooks/named"); got[0] != 200 || got[1] != 200 || got[2] != 401 {
		t.Errorf("a certificate of another name: %v, want 200 200 401", got)
	}
	if n := len(i.events(nil)); n != 2 {
		t.Errorf("%d events are stored, want 2", n)
	}
	// The plain listener shows no certificate, so its requests prove nothing.
	a, err := i.send(request{path: "/hooks/any", body: "{}"})
	if err != nil || a.code != 401 {
		t.Errorf("over the plain listener: %v %v", a, err)
	}
}

// With `client_auth: optional` the others come in too, and only sources with `verify: mtls` refuse
// them; names that the config has are compared as names are.
func TestAnOptionalClientCertificateIsForThoseThatWantIt(t *testing.T) {
	t.Parallel()
	ca, clients := newAuthority(t, "senders"), newAuthority(t, "clients")
	i := withClientCA(t, ca, clients, "optional")
	i.start()
	paths := []string{"/hooks/open", "/hooks/any", "/hooks/named"}
	for _, sender := range []struct {
		what   string
		config *tls.Config
		want   [3]int
	}{
		{"no certificate", ca.trusting(), [3]int{200, 401, 401}},
		{"another name", ca.showing(clients.issue("x.example.com")), [3]int{200, 200, 401}},
		{"a name", ca.showing(clients.issue("x.example.com", "connect.example.com")),
			[3]int{200, 200, 200}},
		{"a name in another case", ca.showing(clients.issue("OTHER.example.com")),
			[3]int{200, 200, 200}},
		{"a name as its common name only", ca.showing(clients.issue("x.example.com",
			"127.0.0.1")), [3]int{200, 200, 401}},
		{"two names in one", ca.showing(clients.issue("x.example.com\ndns:connect.example.com")),
			[3]int{200, 200, 401}},
	} {
		sender.config.ClientSessionCache = tls.NewLRUClientSessionCache(8)
		for _, what := range []string{"", ", resumed"} { // the names come with the ticket as well
			if got := [3]int(i.asks(t, sender.config, paths...)); got != sender.want {
				t.Errorf("%s%s: %v, want %v", sender.what, what, got, sender.want)
			}
		}
	}
}
