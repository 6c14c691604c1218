package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// testFolder is where the configs of these tests pretend to lie.
const testFolder = "/etc/sluice"

// testOptions is a small catalogue and a world made of maps. A file's name is relative to
// testFolder.
func testOptions(env, files map[string]string) Options {
	return Options{
		Provider:  testProvider,
		Providers: []string{"github", "slack", "discord", "strict"},
		CheckScheme: func(s Scheme) (Provider, []SchemeFault) {
			if line := lineWith(s.YAML, "sha0"); line > 0 {
				return Provider{}, []SchemeFault{{
					Line: line, Path: "algorithm", Problem: "sha0 is no algorithm",
					Mend: "write hmac-sha256",
				}}
			}
			return Provider{NeedsSecret: true}, nil
		},
		CheckExpression: func(kind, text string) error {
			if strings.Contains(text, "((") {
				return errors.New("1:1: no " + kind + ":\na bracket too many")
			}
			return nil
		},
		LookupEnv: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		ReadFile: func(path string) ([]byte, error) {
			name, err := filepath.Rel(testFolder, path)
			if text, ok := files[name]; ok && err == nil {
				return []byte(text), nil
			}
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		},
		LookupUser: func(name string) error {
			if name == "nobody" || name == "sluice" || name == "root" || name == "990" {
				return nil
			}
			return errors.New("user: unknown")
		},
		Cores:         4,
		WorkingFolder: "/srv",
	}
}

func lineWith(text []byte, word string) int {
	for i, line := range strings.Split(string(text), "\n") {
		if strings.Contains(line, word) {
			return i + 1
		}
	}
	return 0
}

func testProvider(name string) (Provider, bool) {
	switch name {
	case "github":
		return Provider{Deadline: 10 * time.Second, NeedsSecret: true}, true
	case "slack":
		return Provider{Deadline: 3 * time.Second, NeedsSecret: true}, true
	case "discord":
		return Provider{Deadline: 3 * time.Second, NeedsSecret: true, Methods: []string{"POST", "GET"},
			ShedStatus: 429}, true
	case "asana":
		return Provider{NeedsSecret: true, Learns: true}, true
	case "sendgrid":
		return Provider{NeedsSecret: true, Batches: true}, true
	case "twilio":
		return Provider{NeedsSecret: true, SignsURL: true}, true
	case "strict":
		p := Provider{NeedsSecret: true}
		p.CheckSecrets = func(secrets []Secret, _ bool) (faults []SecretFault) {
			for i, secret := range secrets {
				if !strings.HasPrefix(string(secret.Reveal()), "whsec_") {
					faults = append(faults, SecretFault{i, "it does not begin with whsec_"})
				}
			}
			if len(secrets) > 2 {
				faults = append(faults, SecretFault{-1, "at most two keys"})
			}
			return faults
		}
		return p, true
	}
	return Provider{}, false
}

// testPair is a certificate and its key as PEM, made anew for each run.
func testPair(t testing.TB) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", keyDER)
}

const (
	currentSecret = "hunter2-current"
	oldSecret     = "hunter2-old"
	ordersSecret  = "hunter2-orders"
	databaseURL   = "postgres://u:hunter2-pg@127.0.0.1/db"
	adminToken    = "hunter2-token"
	billingKey    = "hunter2-key"
	proxyURL      = "http://u:hunter2-proxy@127.0.0.1:3128"
	githubToken   = "hunter2-github"
	openToken     = "Bearer hunter2-open"
	stripeKey     = "sk_hunter2"
	sealKey       = "aHVudGVyMi1zZWFsLWh1bnRlcjItc2VhbC1odW50ZXI="
	shopifyToken  = "shpat_hunter2"
	redisURL      = "redis://:hunter2-redis@127.0.0.1:6379/1"
	// The base64 of "hunter2-billing", "hunter2-former" and "hunter2-alerts".
	billingSecret = "whsec_aHVudGVyMi1iaWxsaW5n"
	formerSecret  = "whsec_aHVudGVyMi1mb3JtZXI="
	alertSecret   = "whsec_aHVudGVyMi1hbGVydHM="
)

// exampleOptions is the world in which testdata/example.yaml holds.
func exampleOptions(t testing.TB) Options {
	t.Helper()
	cert, key := testPair(t)
	return testOptions(
		map[string]string{
			"GITHUB_SECRET": currentSecret, "ORDERS_SECRET": ordersSecret,
			"DATABASE_URL": databaseURL, "ADMIN_TOKEN": adminToken, "BILLING_KEY": billingKey,
			"BILLING_SECRET": billingSecret, "BILLING_PROXY": proxyURL, "REDIS_URL": redisURL,
			"ALERT_SECRET": alertSecret, "GITHUB_TOKEN": githubToken, "OPEN_TOKEN": openToken,
			"SECRETS_KEY": sealKey,
			"STRIPE_KEY":  stripeKey, "SHOPIFY_TOKEN": shopifyToken,
		},
		map[string]string{
			"tls.crt": cert, "tls.key": key, "ca.pem": cert, "github-old.secret": oldSecret + "\n",
			"billing-old.secret": formerSecret,
		},
	)
}
