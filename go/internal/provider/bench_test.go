package provider

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/asn1"
	"encoding/hex"
	"hash"
	"math/big"
	"testing"
)

// usualFields are what comes along with a webhook and is no part of its proof.
var usualFields = []string{
	"Host", "User-Agent", "Accept", "Content-Type", "Content-Length", "X-Request-Id",
	"X-Forwarded-For", "X-Event", "X-Delivery",
}

// BenchmarkVerify is the cost of a verdict of each family over 1 KB beside the bare primitive on
// the same bytes, whose own state is kept as well.
func BenchmarkVerify(b *testing.B) {
	body := make([]byte, 1024)
	for i := range body {
		body[i] = 'x'
	}
	request := func(signature string) *Request {
		r := &Request{Method: []byte("POST"), Target: []byte("/in"), Body: body}
		for _, name := range usualFields {
			r.Headers = append(r.Headers, Field{[]byte(name), []byte("value")})
		}
		r.Headers = append(r.Headers, Field{[]byte("X-Sig"), []byte(signature)})
		return r
	}
	run := func(name string, p Proof, secret Secret, signature []byte, bare func() bool) {
		p.Encoding = Hex
		s := &Scheme{AnyOf: []Variant{{
			Signature: Source{SourceHeader, "X-Sig"}, Proofs: []Proof{p},
			Content: []Part{{Kind: PartBody}},
		}}}
		if p.Algorithm == Token {
			s.AnyOf[0].Content = nil
		}
		v, err := Compile(s, []Secret{secret}, Options{})
		if err != nil {
			b.Fatalf("%s: %v", name, err)
		}
		r := request(hex.EncodeToString(signature))
		b.Run(name+"/verify", func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if v.Verify(r).Outcome != OK {
					b.Fatal("refused")
				}
			}
		})
		b.Run(name+"/bare", func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if !bare() {
					b.Fatal("refused")
				}
			}
		})
	}
	for _, keyed := range []struct {
		name string
		a    Algorithm
		hash func() hash.Hash
	}{
		{"hmac-sha1", HMACSHA1, sha1.New}, {"hmac-sha256", HMACSHA256, sha256.New},
		{"hmac-sha512", HMACSHA512, sha512.New},
	} {
		mac := hmac.New(keyed.hash, []byte("k3y-for-tests"))
		mac.Write(body)
		want := mac.Sum(nil)
		var sum [sha512.Size]byte
		run(keyed.name, Proof{Algorithm: keyed.a}, Secret{Value: "k3y-for-tests"}, want, func() bool {
			mac.Reset()
			mac.Write(body)
			return subtle.ConstantTimeCompare(mac.Sum(sum[:0]), want) == 1
		})
	}
	run("token", Proof{Algorithm: Token}, Secret{Value: "k3y-for-tests"}, []byte("k3y-for-tests"),
		func() bool {
			return subtle.ConstantTimeCompare([]byte("k3y-for-tests"), []byte("k3y-for-tests")) == 1
		})
	spki := KeyForm{Encoding: KeySPKI}
	sum := sha256.Sum256(body)
	for _, signer := range tokenSigners(b) {
		var bare func() bool
		signature := signer.sign(body)
		p := Proof{Algorithm: signer.algorithm, Key: spki, Raw: signer.algorithm == ECDSAP256}
		switch public := parsePEM(b, signer.secret).(type) {
		case *rsa.PublicKey:
			if signer.algorithm != RSASHA256 {
				continue
			}
			bare = func() bool {
				sum = sha256.Sum256(body)
				return rsa.VerifyPKCS1v15(public, crypto.SHA256, sum[:], signature) == nil
			}
		case *ecdsa.PublicKey:
			if signer.algorithm != ECDSAP256 {
				continue
			}
			der := derOf(b, signature)
			bare = func() bool {
				sum = sha256.Sum256(body)
				return ecdsa.VerifyASN1(public, sum[:], der)
			}
		case ed25519.PublicKey:
			bare = func() bool { return ed25519.Verify(public, body, signature) }
		default:
			continue
		}
		run(signer.algorithm.String(), p, Secret{Value: signer.secret}, signature, bare)
	}
}

func parsePEM(b *testing.B, text string) crypto.PublicKey {
	b.Helper()
	der, err := KeySPKI.decode(text)
	if err != nil {
		return nil // a shared secret
	}
	public, err := parsePublic(der)
	if err != nil {
		b.Fatal(err)
	}
	return public
}

// derOf is an ECDSA signature of r and s side by side in DER.
func derOf(b *testing.B, raw []byte) []byte {
	b.Helper()
	half := len(raw) / 2
	der, err := asn1.Marshal([]*big.Int{
		new(big.Int).SetBytes(raw[:half]), new(big.Int).SetBytes(raw[half:]),
	})
	if err != nil {
		b.Fatal(err)
	}
	return der
}
