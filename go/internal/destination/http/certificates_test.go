package http

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/go/internal/destination"
	"sluice/go/internal/retry"
)

// issue makes a certificate and its key in PEM form, signed by itself.
func issue(t *testing.T, name string) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{name},
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: text})
}

func selfSigned(t *testing.T) *tls.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(issue(t, "other.example"))
	if err != nil {
		t.Fatal(err)
	}
	return &pair
}

func write(t *testing.T, path string, text []byte) string {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheClientCertificateIsReadAgainWhenItChanges(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	server := httptest.NewUnstartedServer(nethttp.HandlerFunc(func(_ nethttp.ResponseWriter,
		r *nethttp.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.Config.SetKeepAlivesEnabled(false) // a connection for each event
	server.StartTLS()
	defer server.Close()

	dir := t.TempDir()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	cert, key := issue(t, "first")
	now := time.Now()
	o := Options{URL: server.URL, Protocol: HTTP1, Now: func() time.Time { return now }}
	o.TLSFiles = TLSFiles{
		CA:   write(t, filepath.Join(dir, "ca.pem"), authority),
		Cert: write(t, filepath.Join(dir, "client.crt"), cert),
		Key:  write(t, filepath.Join(dir, "client.key"), key),
	}
	d := open(t, o)
	deliver := func() destination.Result {
		t.Helper()
		return d.Deliver(context.Background(), request("x"))
	}
	if got := deliver(); got.Kind != destination.Delivered {
		t.Fatal(got.Err)
	}
	next, nextKey := issue(t, "second")
	write(t, o.TLSFiles.Cert, append(next, '\n'))
	if got := deliver(); got.Kind != destination.Delivered {
		t.Errorf("within the second: %v", got.Err)
	}
	now = now.Add(certificateCheck)
	if got := deliver(); got.Kind != destination.Delivered { // certificate and key do not fit yet
		t.Errorf("half written: %v", got.Err)
	}
	write(t, o.TLSFiles.CA, []byte("nothing"))
	write(t, o.TLSFiles.Key, append(nextKey, '\n'))
	now = now.Add(certificateCheck)
	if got := deliver(); got.Kind != destination.Delivered {
		t.Errorf("broken authorities: %v", got.Err)
	}
	write(t, o.TLSFiles.CA, authority)
	now = now.Add(certificateCheck)
	if got := deliver(); got.Kind != destination.Delivered {
		t.Error(got.Err)
	}
	if got := strings.Join(seen, " "); got != "first first first first second" {
		t.Errorf("the destination saw %s", got)
	}
	// Another authority takes effect too, and what is wrong with it is said where it fails.
	other, _ := issue(t, "other")
	write(t, o.TLSFiles.CA, other)
	now = now.Add(certificateCheck)
	if got := deliver(); got.Cause() != retry.TLS {
		t.Errorf("cause %v: %v", got.Cause(), got.Err)
	}
	write(t, o.TLSFiles.CA, []byte("nothing at all"))
	now = now.Add(certificateCheck)
	if got := deliver(); got.Cause() != retry.TLS ||
		!strings.Contains(got.Err.Error(), "ca.pem holds no") {
		t.Errorf("cause %v: %v", got.Cause(), got.Err)
	}
}

func TestTLSFilesThatCannotWorkAreNamed(t *testing.T) {
	dir := t.TempDir()
	cert, _ := issue(t, "a")
	_, otherKey := issue(t, "b")
	good := write(t, filepath.Join(dir, "a.crt"), cert)
	other := write(t, filepath.Join(dir, "b.key"), otherKey)
	junk := write(t, filepath.Join(dir, "junk.pem"), []byte("hunter2"))
	for says, files := range map[string]TLSFiles{
		"both cert and key": {Cert: good},
		"no such file":      {CA: filepath.Join(dir, "none.pem")},
		"junk.pem holds no": {CA: junk},
		"b.key":             {Cert: good, Key: other},
		"key " + junk:       {Cert: good, Key: junk},
	} {
		_, err := New(Options{URL: "https://h/", TLSFiles: files})
		if err == nil || !strings.Contains(err.Error(), says) ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("want %q: %v", says, err)
		}
	}
	if _, err := New(Options{URL: "http://h/", TLSFiles: TLSFiles{CA: good}}); err == nil {
		t.Error("TLS files for http://")
	}
}

func TestAServerNameIsWhatTheDestinationHasToProve(t *testing.T) {
	certificate, key := issue(t, "inside.example")
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	p := listen(t, func(n int, c net.Conn) {
		answering(ok200)(n, tls.Server(c, &tls.Config{Certificates: []tls.Certificate{pair}}))
	})
	ca := write(t, filepath.Join(t.TempDir(), "ca.pem"), certificate)
	for name, cause := range map[string]retry.Cause{
		"inside.example": retry.Unknown, "outside.example": retry.TLS,
	} {
		d := open(t, Options{URL: p.at("https"), TLSFiles: TLSFiles{CA: ca, ServerName: name}})
		if got := d.Deliver(context.Background(), request("x")); got.Cause() != cause {
			t.Errorf("%s: cause %v: %v", name, got.Cause(), got.Err)
		}
	}
}

// A TLS connection reads ahead: an answer that nobody asked for may lie in its buffer, where the
// kernel does not see it.
func TestALeftoverAnswerInsideTLSIsNeverTakenForTheNextOne(t *testing.T) {
	certificate, key := issue(t, "h")
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	p := listen(t, func(n int, c net.Conn) {
		held := &holding{Conn: c}
		secure := tls.Server(held, &tls.Config{Certificates: []tls.Certificate{pair},
			SessionTicketsDisabled: true})
		for reader := bufio.NewReader(secure); ; {
			r, err := nethttp.ReadRequest(reader)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			held.hold = true // two records in one segment
			_, _ = io.WriteString(secure, ok200)
			_, _ = io.WriteString(secure, "HTTP/1.1 500 Stray\r\nContent-Length: 0\r\n\r\n")
			held.flush()
		}
	})
	ca := write(t, filepath.Join(t.TempDir(), "ca.pem"), certificate)
	d := open(t, Options{URL: p.at("https"), TLSFiles: TLSFiles{CA: ca}})
	for range 3 {
		if got := d.Deliver(context.Background(), request("x")); got.Kind != destination.Delivered {
			t.Fatal(got.Err)
		}
	}
	if n := p.connections(); n != 3 {
		t.Errorf("%d connections: one with an answer left over was used again", n)
	}
}

// holding gathers writes while hold is set.
type holding struct {
	net.Conn
	hold bool
	held []byte
}

func (h *holding) Write(p []byte) (int, error) {
	if h.hold {
		h.held = append(h.held, p...)
		return len(p), nil
	}
	return h.Conn.Write(p)
}

func (h *holding) flush() {
	_, _ = h.Conn.Write(h.held)
	h.hold, h.held = false, nil
}
