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
	// Content is the signed text. Empty for Token, None and JWS.
	Content []Part
	// JWS is set if the signature field is a JSON Web Signature, which carries its own signed text.
	JWS *JWS
	// Each judges the items of Scheme.Batch one by one: the item then stands for the body, in JSON
	// sources and in Content.
	Each Each
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
	// BodyHash is where the signed text holds the hex SHA-256 of a body that is not signed itself: a
	// parameter of the query of a signed URL, a signed header field, or a claim.
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
	return slices.ContainsFunc(v.Proofs, func(p Proof) bool {
		return p.Algorithm.kind() == kindPublic || p.Algorithm.kind() == kindMessage
	})
}

// Items says how a field is split: "t=1,v1=ab" has Separator ',' and Assign '='.
type Items struct {
	Separator, Assign byte
	// KeyIDs says that the label of an item is the id of the key that made it.
	KeyIDs bool
}

// Each says how the items of a batch make the verdict over the request.
type Each uint8

// The policies. With EachAny the others of the batch come along unproven.
const (
	EachNone Each = iota
	EachAll
	EachAny
)

var eachWords = map[string]Each{"all": EachAll, "any": EachAny}

// ParseEach reads all or any.
func ParseEach(text string) (Each, error) { return parseWord(eachWords, text, "each") }

// JWS is a JSON Web Signature in compact form (RFC 7515) whose payload is claims (RFC 7519). The
// algorithm is the one of the proof, whatever the token says. The claims exp and nbf are judged if
// they are there, at the time of receipt.
type JWS struct {
	// Leeway is how far exp and nbf may be off.
	Leeway time.Duration
	// Expires says that a token without exp is refused.
	Expires bool
}

// Proof is an algorithm with the forms of its signature and its key.
type Proof struct {
	// Label is the item that holds this proof; empty without Items.
	Label     string
	Algorithm Algorithm
	Encoding  Encoding
	// Raw says that an ECDSA signature is r and s side by side and not DER.
	Raw bool
	// Prefix stands before the encoded signature and is required, unless PrefixOptional.
	Prefix         string
	PrefixOptional bool
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
	// Normalize is applied to the text first, if it is set.
	Normalize func(string) string
	// Role keeps secrets of another role away, if it is set.
	Role string
	// Remote is set if the sender publishes the key.
	Remote *Remote
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
	// PartBodyCRC32 is the CRC-32 (IEEE) of the body in decimal, PartBodySHA256 its hash in hex.
	PartBodyCRC32
	PartBodySHA256
	// PartSecret is the value of the configured secret with the role Role: what both sides know and
	// the sender signs without sending it. With a Source it is the value there, which must then be one
	// of the configured ones, if there are any: where a sender signs for everybody with one key, that
	// tells whose event it is.
	PartSecret
	// PartHeaders is a list of header fields that the request itself names, in List form.
	PartHeaders
)

// Part is one piece of the signed text.
type Part struct {
	Kind    PartKind
	Literal string
	Source  Source
	// Optional says that Source may be missing; Before and After stand around it when it is there.
	Optional      bool
	Before, After string
	// Role is for PartSecret.
	Role string
	// List is for PartHeaders.
	List List
}

// List is the form of a PartHeaders: Separator stands between the names in the request, the text is
// NAME Assign VALUE for each in that order with Join between them, names in lower case.
type List struct{ Separator, Assign, Join byte }

// TimeFormat is how a time is written. It is typed, since a digit string fits two of them.
type TimeFormat uint8

// The time formats.
const (
	TimeNone TimeFormat = iota
	UnixSeconds
	UnixMillis
	RFC3339
	// HTTPDate is IMF-fixdate of RFC 9110, section 5.6.7.
	HTTPDate
)

var timeWords = map[string]TimeFormat{
	"unix-s": UnixSeconds, "unix-ms": UnixMillis, "rfc3339": RFC3339, "http-date": HTTPDate,
}

// ParseTimeFormat reads unix-s, unix-ms, rfc3339 or http-date.
func ParseTimeFormat(text string) (TimeFormat, error) {
	return parseWord(timeWords, text, "format")
}

// Timestamp is the signed time. The form is always checked; the distance only with a Tolerance.
type Timestamp struct {
	From   Source
	Format TimeFormat
	// Tolerance is the allowed distance both ways, equal is inside. Zero: no time is judged.
	Tolerance time.Duration
	// Future is the allowed distance ahead of us, if it differs; zero: as Tolerance.
	Future time.Duration
	// Optional lets a request pass that has no time. Only where whoever takes the time away breaks
	// the signature: in a signed body, or in a claim.
	Optional bool
	// JSONString says that a time in the body may be a JSON string; otherwise it is a number.
	JSONString bool
}

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

// The key encodings. KeyBasic is user:password; KeySPKI is base64 or PEM of a public key, or PEM of
// a certificate that has it; KeySHA1 is the SHA-1 of the text.
const (
	KeyText KeyEncoding = iota
	KeyHex
	KeyBase64
	KeyBasic
	KeySPKI
	KeySHA1
)

var keyEncodingWords = map[string]KeyEncoding{
	"text": KeyText, "hex": KeyHex, "base64": KeyBase64, "basic": KeyBasic, "spki": KeySPKI,
	"sha1": KeySHA1,
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
