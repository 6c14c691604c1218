package tlsfiles

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// Pair names the PEM files of a certificate chain, the leaf first, and of its key.
type Pair struct{ Cert, Key string }

// Certificate is a pair that was read and holds together.
type Certificate struct {
	Pair
	Chain, PrivateKey []byte // PEM, as the files have it
	// Names are the host names and addresses that it is for; empty: none, so that it is shown only
	// where no other fits.
	Names               []string
	NotBefore, NotAfter time.Time
}

// Format shows the files and never the key.
func (c Certificate) Format(f fmt.State, _ rune) {
	// An error of the sink is the printing caller's, who sees it there.
	_, _ = fmt.Fprintf(f, "certificate %s", c.Cert)
}

// MarshalText shows the files and never the key.
func (c Certificate) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%v", c), nil }

// Inspect reads a pair. The error says what is wrong with which file, and never quotes the key.
func Inspect(pair Pair) (Certificate, error) {
	chain, err := read(pair.Cert)
	if err != nil {
		return Certificate{}, err
	}
	key, err := read(pair.Key)
	if err != nil {
		return Certificate{}, err
	}
	return parsePair(pair, chain, key)
}

func parsePair(pair Pair, chain, key []byte) (Certificate, error) {
	for _, part := range []struct {
		path string
		text []byte
	}{{pair.Cert, chain}, {pair.Key, key}} {
		if err := wholePEM(part.text); err != nil {
			return Certificate{}, fmt.Errorf("%s: %w", part.path, err)
		}
	}
	both, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return Certificate{}, fmt.Errorf("%s and %s are no pair: %w", pair.Cert, pair.Key, err)
	}
	c := Certificate{
		Pair: pair, Chain: chain, PrivateKey: key, Names: slices.Clone(both.Leaf.DNSNames),
		NotBefore: both.Leaf.NotBefore, NotAfter: both.Leaf.NotAfter,
	}
	for _, ip := range both.Leaf.IPAddresses {
		c.Names = append(c.Names, ip.String())
	}
	return c, nil
}

func checkAuthorities(path string, text []byte) error {
	if err := wholePEM(text); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(text) {
		return fmt.Errorf("%s holds no certificate", path)
	}
	return nil
}

// wholePEM refuses a text that ends inside a block, as a file does that is still being written.
func wholePEM(text []byte) error {
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		text = rest
	}
	if bytes.Contains(text, []byte("-----BEGIN")) {
		return errors.New("a PEM block is cut off or damaged")
	}
	return nil
}

func read(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, fileBytesMax+1))
	if err == nil && len(text) > fileBytesMax {
		err = fmt.Errorf("%s is larger than %d bytes", path, fileBytesMax)
	}
	return text, err
}
