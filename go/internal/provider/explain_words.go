package provider

import (
	"fmt"
	"strconv"
	"strings"
)

// How a scheme is told to people. The words of a profile are used where it has some.

var partTexts = map[PartKind]string{
	PartBody: "body", PartMethod: "method", PartURL: "url", PartTarget: "target",
	PartTimestamp: "timestamp", PartForm: "form (sorted)", PartURLWithPort: "url-with-port",
	PartURLWithoutPort: "url-without-port", PartBodyCRC32: "CRC-32 of the body",
	PartBodySHA256: "SHA-256 of the body", PartHeaders: "the fields that the request lists",
}

// String is the part in the words of a profile.
func (p Part) String() string {
	switch {
	case p.Kind == PartLiteral:
		return strconv.Quote(p.Literal)
	case p.Kind == PartSecret:
		return "the secret with the role " + p.Role
	case p.Kind == PartSource && p.Optional:
		return p.Source.String() + " (if it is there)"
	case p.Kind == PartSource:
		return p.Source.String()
	}
	return partTexts[p.Kind]
}

// Signs tells what the variant signs, in order.
func (v *Variant) Signs() []string {
	var list []string
	if v.JWS != nil {
		list = append(list, "the token's header and claims")
	}
	for _, part := range v.Content {
		list = append(list, part.String())
	}
	if v.Proofs[0].Algorithm == MessageSignature {
		list = append(list, "what the request lists")
	}
	if v.BodyHash.Kind != SourceNone {
		list = append(list, "the hash of the body in "+v.BodyHash.String())
	}
	return list
}

// Proves tells where a signature is and how it is made, for each proof.
func (v *Variant) Proves() []string {
	var list []string
	for i := range v.Proofs {
		p := &v.Proofs[i]
		words := []string{p.Algorithm.String()}
		if v.Signature.Kind != SourceNone {
			words = append([]string{v.Signature.String()}, words...)
		}
		if p.Encoding != 0 && p.Encoding != EncodingText {
			words = append(words, wordOf(encodingWords, p.Encoding))
		}
		if p.Prefix != "" {
			words = append(words, fmt.Sprintf("behind %q", p.Prefix))
		}
		if v.Items.Separator != 0 {
			items := "a list separated by " + strconv.QuoteRune(rune(v.Items.Separator))
			if p.Label != "" {
				items += ", item " + p.Label
			}
			words = append(words, items)
		}
		if v.Each != EachNone {
			words = append(words, wordOf(eachWords, v.Each)+" of the items of a batch")
		}
		list = append(list, strings.Join(words, ", "))
	}
	return list
}

// Describe says what kind of secret the proof takes; empty: none.
func (p *Proof) Describe() string {
	var words []string
	switch k := &p.Key; {
	case p.Algorithm.keyless():
		return ""
	case k.Remote != nil:
		return "the sender publishes its key"
	case k.Encoding == KeyBasic:
		words = append(words, "user and password")
	case p.Algorithm.kind() == kindPublic:
		words = append(words, "public key, "+wordOf(keyEncodingWords, k.Encoding))
	case k.Encoding == KeyText || p.Algorithm == MessageSignature:
		words = append(words, "text as it is shown")
	default:
		words = append(words, wordOf(keyEncodingWords, k.Encoding))
	}
	if p.Key.Prefix != "" {
		words = append(words, "behind "+p.Key.Prefix)
	}
	if p.Key.Role != "" {
		words = append(words, "role "+p.Key.Role)
	}
	return strings.Join(words, ", ")
}
