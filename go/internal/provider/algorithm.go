package provider

import (
	"crypto"
	_ "crypto/sha1" // For crypto.SHA1.New, as the others.
	_ "crypto/sha256"
	_ "crypto/sha512"
	"hash"
)

// Algorithm is how a proof is computed.
type Algorithm uint8

// The algorithms. KeyedSHA256 is the plain hash of key and text, which anybody can extend, and so
// always Legacy, as is RSA over SHA-1, for which a sender's text can be swapped for another one
// with the same hash. MessageSignature is RFC 9421, where request and key say how they were signed.
// Token compares the secret itself; None proves nothing and passes everything. ClientCertificate
// looks at what TLS has proved; it has no word, since ClientScheme alone makes it. RSA is PKCS #1
// v1.5 unless it says PSS.
const (
	None Algorithm = iota + 1
	HMACSHA1
	HMACSHA256
	HMACSHA384
	HMACSHA512
	KeyedSHA256
	Ed25519
	ECDSAP256
	MessageSignature
	Token
	ClientCertificate
	ECDSAP384
	RSASHA1
	RSASHA256
	RSAPSSSHA256
	RSAPSSSHA512
)

type algorithmKind uint8

const (
	kindUnknown algorithmKind = iota
	kindKeyless               // needs no secret
	kindToken                 // signs no text
	kindShared                // a keyed hash
	kindPublic                // checked with a public key, a hundred times as dear as a hash
	kindMessage               // RFC 9421
)

var algorithms = [...]struct {
	word string // in a scheme
	jose string // the alg of a JWS (RFC 7518); empty: not used there
	kind algorithmKind
	hash crypto.Hash
	weak string // why it is for legacy variants only
}{
	None:              {word: "none", kind: kindKeyless},
	HMACSHA1:          {word: "hmac-sha1", kind: kindShared, hash: crypto.SHA1},
	HMACSHA256:        {word: "hmac-sha256", jose: "HS256", kind: kindShared, hash: crypto.SHA256},
	HMACSHA384:        {word: "hmac-sha384", jose: "HS384", kind: kindShared, hash: crypto.SHA384},
	HMACSHA512:        {word: "hmac-sha512", jose: "HS512", kind: kindShared, hash: crypto.SHA512},
	Ed25519:           {word: "ed25519", jose: "EdDSA", kind: kindPublic},
	MessageSignature:  {word: "rfc9421", kind: kindMessage},
	Token:             {word: "token", kind: kindToken},
	ClientCertificate: {kind: kindKeyless},
	RSASHA256:         {word: "rsa-sha256", jose: "RS256", kind: kindPublic, hash: crypto.SHA256},
	RSAPSSSHA256:      {word: "rsa-pss-sha256", jose: "PS256", kind: kindPublic, hash: crypto.SHA256},
	RSAPSSSHA512:      {word: "rsa-pss-sha512", jose: "PS512", kind: kindPublic, hash: crypto.SHA512},
	ECDSAP256: {word: "ecdsa-p256-sha256", jose: "ES256", kind: kindPublic,
		hash: crypto.SHA256},
	ECDSAP384: {word: "ecdsa-p384-sha384", jose: "ES384", kind: kindPublic,
		hash: crypto.SHA384},
	RSASHA1: {word: "rsa-sha1", kind: kindPublic, hash: crypto.SHA1,
		weak: "collisions of SHA-1 can be made"},
	KeyedSHA256: {word: "keyed-sha256", kind: kindShared, hash: crypto.SHA256,
		weak: "it can be forged by extension"},
}

var algorithmWords = func() map[string]Algorithm {
	words := map[string]Algorithm{}
	for a, facts := range algorithms {
		if facts.word != "" {
			words[facts.word] = Algorithm(a)
		}
	}
	return words
}()

// ParseAlgorithm reads the word of an algorithm.
func ParseAlgorithm(text string) (Algorithm, error) {
	return parseWord(algorithmWords, text, "algorithm")
}

func (a Algorithm) String() string {
	if int(a) < len(algorithms) && algorithms[a].word != "" {
		return algorithms[a].word
	}
	return "client certificate"
}

func (a Algorithm) kind() algorithmKind {
	if int(a) < len(algorithms) {
		return algorithms[a].kind
	}
	return kindUnknown
}

// signsText tells whether the algorithm covers a signed text.
func (a Algorithm) signsText() bool { return a.kind() >= kindShared }

// keyless tells whether the algorithm needs no secret.
func (a Algorithm) keyless() bool { return a.kind() == kindKeyless }

// digest is the hash of the signed text; 0: there is none.
func (a Algorithm) digest() crypto.Hash { return algorithms[a].hash }

func (a Algorithm) hash() func() hash.Hash { return a.digest().New }
