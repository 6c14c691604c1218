package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/go/internal/config"
)

func TestTheGreetingNamesEachListenerAsASenderWould(t *testing.T) {
	const text = `
data_dir: /d
listeners:
  - address: 127.0.0.1:8443
    tls: {certificates: [{cert: c, key: k}]}
  - address: unix:/run/in.sock
  - address: 127.0.0.1:0
sources:
  github: {path: /hooks/github, provider: github, secrets: [s], deliver: []}
`
	o := configOptions(true)
	pair := newPair(t)
	o.ReadFile = func(path string) ([]byte, error) { return pair[filepath.Base(path)], nil }
	c, err := config.Parse("sluice.yaml", []byte(text), o)
	if err != nil {
		t.Fatal(err)
	}
	got := greeting(c, []string{"127.0.0.1:8443", "unix:/run/in.sock", "127.0.0.1:4711"})
	for _, line := range []string{
		"listening on https://127.0.0.1:8443\n", "listening on unix:/run/in.sock\n",
		"listening on http://127.0.0.1:4711\n", "curl -i http://127.0.0.1:4711/hooks/github ",
	} {
		if !strings.Contains(got, line) {
			t.Errorf("no %q in\n%s", line, got)
		}
	}
}

// newPair is a certificate `c` and its key `k`.
func newPair(t *testing.T) map[string][]byte {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotBefore: time.Now(),
		NotAfter: time.Now().Add(90 * 24 * time.Hour),
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{
		"c": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		"k": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}
}
