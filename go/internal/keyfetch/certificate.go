package keyfetch

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"sluice/go/internal/provider"
)

// parseCertificate reads a certificate in PEM with those of its issuers behind it. With a name it
// must be for that host and lead to a root.
func (f *Fetcher) parseCertificate(
	text []byte, name string,
) (map[string]*provider.PublicKey, error) {
	var chain []*x509.Certificate
	for len(text) > 0 && len(chain) <= certificatesMax {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		one, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, errors.New("the answer has a certificate that cannot be read")
		}
		chain = append(chain, one)
	}
	if n := len(chain); n == 0 || n > certificatesMax {
		return nil, fmt.Errorf("the answer is no PEM of 1 to %d certificates", certificatesMax)
	}
	leaf := chain[0]
	if name != "" {
		others := x509.NewCertPool()
		for _, one := range chain[1:] {
			others.AddCert(one)
		}
		_, err := leaf.Verify(x509.VerifyOptions{
			DNSName: name, Roots: f.options.Roots, Intermediates: others,
			CurrentTime: f.options.Now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
		})
		if err != nil {
			return nil, fmt.Errorf("the certificate is not one of %s: %w", name, err)
		}
	}
	return map[string]*provider.PublicKey{"": {
		Key: leaf.PublicKey, NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter,
	}}, nil
}
