package provider

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"
)

// signed is a scheme with one way to sign the body.
func signed(p Proof) *Scheme {
	p.Encoding = Hex
	return &Scheme{AnyOf: []Variant{{
		Legacy: true, Signature: Source{SourceHeader, "X-Sig"}, Proofs: []Proof{p},
		Content: []Part{{Kind: PartLiteral, Literal: "v1:"}, {Kind: PartBody}},
	}}}
}

func TestSignaturesOfPublicKeys(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, rsaBitsMin)
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p256 := newP256(t)
	hashed := func(h crypto.Hash) []byte {
		d := h.New()
		d.Write([]byte("v1:body"))
		return d.Sum(nil)
	}
	must := func(raw []byte, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	salted := &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}
	der := must(ecdsa.SignASN1(rand.Reader, p384, hashed(crypto.SHA384)))
	for _, test := range []struct {
		proof     Proof
		public    crypto.PublicKey
		signature []byte
	}{
		{Proof{Algorithm: RSASHA1}, &key.PublicKey,
			must(rsa.SignPKCS1v15(nil, key, crypto.SHA1, hashed(crypto.SHA1)))},
		{Proof{Algorithm: RSASHA256}, &key.PublicKey,
			must(rsa.SignPKCS1v15(nil, key, crypto.SHA256, hashed(crypto.SHA256)))},
		{Proof{Algorithm: RSAPSSSHA256}, &key.PublicKey,
			must(rsa.SignPSS(rand.Reader, key, crypto.SHA256, hashed(crypto.SHA256), salted))},
		{Proof{Algorithm: RSAPSSSHA512}, &key.PublicKey,
			must(rsa.SignPSS(rand.Reader, key, crypto.SHA512, hashed(crypto.SHA512), salted))},
		{Proof{Algorithm: ECDSAP384}, &p384.PublicKey, der},
		{Proof{Algorithm: ECDSAP384, Raw: true}, &p384.PublicKey,
			rawECDSA(t, p384, hashed(crypto.SHA384))},
		{Proof{Algorithm: ECDSAP256, Raw: true}, &p256.PublicKey,
			rawECDSA(t, p256, hashed(crypto.SHA256))},
	} {
		test.proof.Key.Encoding = KeySPKI
		secret := Secret{Value: publicPEM(t, test.public)}
		v, err := Compile(signed(test.proof), []Secret{secret}, Options{AllowLegacy: true})
		if err != nil {
			t.Fatalf("%s: %v", test.proof.Algorithm, err)
		}
		text := hex.EncodeToString(test.signature)
		for range 2 { // The state that is kept between requests is not left over.
			if got := v.Verify(request("body", "X-Sig", text)); got.Outcome != OK {
				t.Errorf("%s: %s (%s)", test.proof.Algorithm, got.Outcome, got.Detail)
			}
			if got := v.Verify(request("bodY", "X-Sig", text)); got.Outcome != BadSignature {
				t.Errorf("%s, another body: %s", test.proof.Algorithm, got.Outcome)
			}
		}
		for _, other := range []string{text[:len(text)-2], text + "00", text[2:], "00", "3000"} {
			if got := v.Verify(request("body", "X-Sig", other)); got.Outcome == OK {
				t.Errorf("%s: a signature of another length passes", test.proof.Algorithm)
			}
		}
		for _, other := range []Proof{
			{Algorithm: RSASHA1}, {Algorithm: RSASHA256}, {Algorithm: RSAPSSSHA256},
			{Algorithm: ECDSAP384}, {Algorithm: ECDSAP384, Raw: true}, {Algorithm: ECDSAP256},
		} {
			other.Key.Encoding = KeySPKI
			if other.Algorithm == test.proof.Algorithm && other.Raw == test.proof.Raw {
				continue
			}
			v, err := Compile(signed(other), []Secret{secret}, Options{AllowLegacy: true})
			if err != nil {
				continue // a key of another kind
			}
			if got := v.Verify(request("body", "X-Sig", text)); got.Outcome == OK {
				t.Errorf("%s passes as %s", test.proof.Algorithm, other.Algorithm)
			}
		}
	}
}

func TestWeakKeysAndAlgorithmsAreRefused(t *testing.T) {
	small := &rsa.PublicKey{N: new(big.Int).Lsh(big.NewInt(1), rsaBitsMin-2), E: 65537}
	large := &rsa.PublicKey{N: new(big.Int).Lsh(big.NewInt(1), rsaBitsMax), E: 65537}
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		a      Algorithm
		public crypto.PublicKey
	}{
		{RSASHA256, small}, {RSASHA256, large}, {ECDSAP256, &p224.PublicKey},
		{ECDSAP384, &newP256(t).PublicKey}, {RSASHA256, &newP256(t).PublicKey},
		{Ed25519, &newP256(t).PublicKey},
	} {
		s := signed(Proof{Algorithm: test.a, Key: KeyForm{Encoding: KeySPKI}})
		if _, err := Compile(s, []Secret{{Value: publicPEM(t, test.public)}}, Options{}); err == nil {
			t.Errorf("a key of %T is taken for %s", test.public, test.a)
		}
	}
	for _, weak := range []Proof{
		{Algorithm: RSASHA1, Key: KeyForm{Encoding: KeySPKI}}, {Algorithm: KeyedSHA256},
		{Algorithm: HMACSHA1, Key: KeyForm{Encoding: KeySHA1}},
	} {
		s := signed(weak)
		if err := s.Check(); err != nil {
			t.Errorf("legacy: %v", err)
		}
		if _, err := Compile(s, []Secret{{Value: "x"}}, Options{}); err == nil ||
			!strings.Contains(err.Error(), "allow_legacy") {
			t.Errorf("%s without the operator's leave: %v", weak.Algorithm, err)
		}
		s.AnyOf[0].Legacy = false
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), "legacy: true") {
			t.Errorf("%s: %v", weak.Algorithm, err)
		}
	}
}

func TestACertificateIsAKey(t *testing.T) {
	private := newP256(t)
	draft := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "sender"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, draft, draft, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	s := signed(Proof{Algorithm: ECDSAP256, Key: KeyForm{Encoding: KeySPKI}})
	v := compile(t, s, Options{AllowLegacy: true}, text)
	h := crypto.SHA256.New()
	h.Write([]byte("v1:body"))
	raw, err := ecdsa.SignASN1(rand.Reader, private, h.Sum(nil))
	if err != nil {
		t.Fatal(err)
	}
	if got := v.Verify(request("body", "X-Sig", hex.EncodeToString(raw))); got.Outcome != OK {
		t.Errorf("%s", got.Outcome)
	}
}
