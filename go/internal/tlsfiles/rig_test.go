package tlsfiles

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// start is when every test begins.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// rig is a folder of files, a log and a clock.
type rig struct {
	t      testing.TB
	folder string
	said   bytes.Buffer
	log    *slog.Logger
	now    time.Time
}

func newRig(t testing.TB) *rig {
	r := &rig{t: t, folder: t.TempDir(), now: start}
	r.log = slog.New(slog.NewTextHandler(&r.said, nil))
	return r
}

func (r *rig) clock() time.Time { return r.now }

func (r *rig) path(name string) string { return filepath.Join(r.folder, name) }

func (r *rig) write(name string, text []byte) {
	r.t.Helper()
	must(r.t, os.WriteFile(r.path(name), text, 0o600))
}

// heard is how often something was logged.
func (r *rig) heard(what string) int { return strings.Count(r.said.String(), what) }

// issue makes a certificate for a name and its key, both PEM, good for a while from start on.
func issue(t testing.TB, name string, good time.Duration) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		IPAddresses: []net.IP{net.IPv4(192, 0, 2, 1)}, NotBefore: start.Add(-time.Hour),
		NotAfter: start.Add(good),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	must(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

const year = 365 * 24 * time.Hour

// pair writes a certificate for a name as tls.crt and tls.key.
func (r *rig) pair(name string) Pair {
	r.t.Helper()
	cert, key := issue(r.t, name, year)
	r.write("tls.crt", cert)
	r.write("tls.key", key)
	return Pair{r.path("tls.crt"), r.path("tls.key")}
}

func (r *rig) load(wanted ...Wanted) *Files {
	r.t.Helper()
	files, err := Load(wanted, r.log, r.clock)
	must(r.t, err)
	return files
}

// name is whom the first certificate of the first listener is for.
func name(t testing.TB, files *Files) string {
	t.Helper()
	c := files.Material()[0].Certificates[0]
	if _, err := parsePair(c.Pair, c.Chain, c.PrivateKey); err != nil {
		t.Fatalf("what is in force is no pair: %v", err)
	}
	return c.Names[0]
}
