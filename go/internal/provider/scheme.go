package provider

import (
	"fmt"
	"slices"
	"time"
)

// Scheme is all that is known about one kind of sender. It is data: the built-in profiles and the
// schemes that operators write have the same form.
type Scheme struct {
	Name, Title string
	// AnyOf are the ways in which this sender may prove itself; one that holds is enough.
	AnyOf []Variant
	// ID and Type are looked up in order; the first that is there counts.
	ID, Type []Source
	// Batch is set if a body holds several events.
	Batch      *Batch
	Handshakes []Handshake
	Contract   Contract
	// Setup tells a person where at the sender the secret is and in which form.
	Setup string
}

// Variant is one way to sign.
type Variant struct {
	// Signature is where the signature is, and Items how the field is split, if it is.
	Signature Source
	Items     Items
	// Proofs has one entry for each label that proves something. Without Items there is exactly one.
	Proofs []Proof
	// Content is the signed text. Empty for Token and None.
	Content []Part
	// Legacy variants are broken in a known way and are judged only with Options.AllowLegacy.
	Legacy bool
	// UnsignedBody says that Content lacks the body on purpose.
	UnsignedBody bool
	Timestamp    Timestamp
	// KeyID is where the request names its key; then only secrets of that id count.
	KeyID Source
	// ID comes before the ids of the scheme: with several ways to sign, it is the id that this one
	// covers and not a header that a stranger added.
	ID []Source
	// BodyHash is where the signed URL holds the hex SHA-256 of a body that is not signed itself.
	BodyHash Source
	// Components must be covered by a MessageSignature, and MaxAge is its tolerance.
	Components []string
	MaxAge     time.Duration
	// ClientNames are those of which a ClientCertificate must have one; empty: any certificate will
	// do. They are lines in the form of Request.Client.
	ClientNames []string
	// Require are fixed values, such as the version of the signature, that the request must have.
	Require []Match
}

// Asymmetric tells whether a proof of this variant is checked with a public key.
func (v *Variant) Asymmetric() bool {
	return slices.ContainsFunc(v.Proofs, func(p Proof) bool { return p.Algorithm.asymmetric() })
}

// Items says how a field is split: "t=1,v1=ab" has Separator ',' and Assign '='.
type Items struct{ Separator, Assign byte }

// Proof is an algorithm with the forms of its signature and its key.
type Proof struct {
	// Label is the item that holds this proof; empty without Items.
	Label     string
	Algorithm Algorithm
	Encoding  Encoding
	// Prefix stands before the encoded signature and is required.
	Prefix string
	// PrefixFold compares Prefix without regard to case.
	PrefixFold bool
	Key        KeyForm
}

// KeyForm says how the text of a secret becomes a key, and which secrets are meant.
type KeyForm struct {
	Prefix string
	// PrefixRequired keeps secrets without Prefix away from this proof; otherwise it is taken off
	// if it is there.
	PrefixRequired bool
	// PrefixRefused keeps secrets with Prefix away.
	PrefixRefused bool
	Encoding      KeyEncoding
	// Role keeps secrets of another role away, if it is set.
	Role string
}

// PartKind says what a Part contributes to the signed text.
type PartKind uint8

// The kinds of parts. PartTimestamp is the text of the time as it was sent.
const (
	PartLiteral PartKind = iota + 1
	PartBody
	PartMethod
	PartURL
	PartTarget
	PartTimestamp
	PartSource
	// PartForm is the parameters of a form body, sorted; the URL parts add or drop a port.
	PartForm
	PartURLWithPort
	PartURLWithoutPort
)

// Part is one piece of the signed text.
type Part struct {
	Kind    PartKind
	Literal string
	Source  Source
}

// TimeFormat is how a time is written. It is typed, since a digit string fits two of them.
type TimeFormat uint8

// The time formats.
const (
	TimeNone TimeFormat = iota
	UnixSeconds
	UnixMillis
	RFC3339
)

var timeWords = map[string]TimeFormat{
	"unix-s": UnixSeconds, "unix-ms": UnixMillis, "rfc3339": RFC3339,
}

// ParseTimeFormat reads unix-s, unix-ms or rfc3339.
func ParseTimeFormat(text string) (TimeFormat, error) {
	return parseWord(timeWords, text, "format")
}

// Timestamp is the signed time. The form is always checked; the distance only with a Tolerance.
type Timestamp struct {
	From   Source
	Format TimeFormat
	// Tolerance is the allowed distance both ways, equal is inside. Zero: no time is judged.
	Tolerance time.Duration
	// JSONString says that a time in the body may be a JSON string; otherwise it is a number.
	JSONString bool
}

// Algorithm is how a proof is computed.
type Algorithm uint8

// The algorithms. KeyedSHA256 is the plain hash of key and text, which anybody can extend, and so
// always Legacy. MessageSignature is RFC 9421, where request and key say how they were signed.
// Token compares the secret itself; None proves nothing and passes everything. ClientCertificate
// looks at what TLS has proved; it has no word, since ClientScheme alone makes it.
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
)

var algorithmWords = map[string]Algorithm{
	"none": None, "hmac-sha1": HMACSHA1, "hmac-sha256": HMACSHA256, "hmac-sha384": HMACSHA384,
	"hmac-sha512": HMACSHA512, "ed25519": Ed25519, "keyed-sha256": KeyedSHA256,
	"ecdsa-p256-sha256": ECDSAP256, "rfc9421": MessageSignature, "token": Token,
}

// ParseAlgorithm reads the word of an algorithm.
func ParseAlgorithm(text string) (Algorithm, error) {
	return parseWord(algorithmWords, text, "algorithm")
}

// signsText tells whether the algorithm covers a signed text.
func (a Algorithm) signsText() bool { return !a.keyless() && a != Token }

// asymmetric tells whether the receiver's key is public, and so a check a hundred times as dear as a
// hash.
func (a Algorithm) asymmetric() bool {
	return a == Ed25519 || a == ECDSAP256 || a == MessageSignature
}

// keyless tells whether the algorithm needs no secret.
func (a Algorithm) keyless() bool { return a == None || a == ClientCertificate }

// Encoding is the text form of a signature.
type Encoding uint8

// The encodings. Hex is lower case only; EncodingText is the bytes as they are, for tokens.
const (
	Hex Encoding = iota + 1
	HexAnyCase
	Base64
	Base64Raw
	Base64URL
	Base64URLRaw
	EncodingText
)

var encodingWords = map[string]Encoding{
	"hex": Hex, "hex-any-case": HexAnyCase, "base64": Base64, "base64-raw": Base64Raw,
	"base64url": Base64URL, "base64url-raw": Base64URLRaw, "text": EncodingText,
}

// ParseEncoding reads the word of an encoding.
func ParseEncoding(text string) (Encoding, error) {
	return parseWord(encodingWords, text, "encoding")
}

// KeyEncoding is the text form of a secret.
type KeyEncoding uint8

// The key encodings. KeyBasic is user:password; KeySPKI is base64 or PEM of a public key.
const (
	KeyText KeyEncoding = iota
	KeyHex
	KeyBase64
	KeyBasic
	KeySPKI
)

var keyEncodingWords = map[string]KeyEncoding{
	"text": KeyText, "hex": KeyHex, "base64": KeyBase64, "basic": KeyBasic, "spki": KeySPKI,
}

// ParseKeyEncoding reads the word of a key encoding.
func ParseKeyEncoding(text string) (KeyEncoding, error) {
	return parseWord(keyEncodingWords, text, "key encoding")
}

func parseWord[T comparable](words map[string]T, text, what string) (T, error) {
	value, known := words[text]
	if !known {
		return value, fmt.Errorf("%s %q is unknown, want %s", what, text, wordList(words))
	}
	return value, nil
}
