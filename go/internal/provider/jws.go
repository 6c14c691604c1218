package provider

import (
	"bytes"
	"encoding/base64"
	"time"
)

// webToken is the JSON Web Signature of the request at hand. The slices are good until the next
// request.
type webToken struct {
	signed         []byte // header and payload as they were sent, which is what is signed
	header, claims []byte // decoded
}

var tokenEncoding = base64.RawURLEncoding.Strict()

// openToken takes a token apart (RFC 7515, section 3.1) and gives the text of its signature. What
// it leaves in v.token is proven by nothing yet.
func (v *Verifier) openToken(c *variant, field []byte) ([]byte, Outcome, string) {
	text := c.Proofs[0].cutPrefix(field)
	first, last := bytes.IndexByte(text, '.'), bytes.LastIndexByte(text, '.')
	if len(text) > tokenMax || first < 1 || last == first ||
		bytes.IndexByte(text[first+1:last], '.') >= 0 {
		return nil, Malformed, c.badForm
	}
	var ok bool
	if v.token.header, ok = decodeToken(v.token.header, text[:first]); !ok {
		return nil, Malformed, c.badForm
	}
	if v.token.claims, ok = decodeToken(v.token.claims, text[first+1:last]); !ok {
		return nil, Malformed, c.badForm
	}
	v.token.signed = text[:last]
	// The proof alone says how the token must be signed; one that says anything else is not ours.
	if got := textOf(claim("alg").find(v.token.header)); string(got) !=
		algorithms[c.Proofs[0].Algorithm].jose {
		return nil, Malformed, "the token is signed in another way than " +
			c.Proofs[0].Algorithm.String()
	}
	// What a token says must be understood is not understood here (RFC 7515, section 4.1.11).
	if _, kind := claim("crit").find(v.token.header); kind != jsonNothing {
		return nil, Malformed, "the token has extensions that must be understood"
	}
	return text[last+1:], OK, ""
}

func decodeToken(dst, text []byte) ([]byte, bool) {
	// The decoder of the standard library skips line ends.
	if bytes.ContainsAny(text, "\r\n") {
		return dst, false
	}
	out, err := tokenEncoding.AppendDecode(dst[:0], text)
	return out, err == nil
}

// claim is the pointer to a member of the header or of the claims.
func claim(name string) pointer { return pointer{{key: name, index: -1}} }

// judgeClaims holds exp and nbf (RFC 7519, section 4.1) against the time of receipt.
func (v *Verifier) judgeClaims(c *variant, receivedNS int64) (Outcome, string) {
	now, leeway := receivedNS/int64(time.Second), int64(c.JWS.Leeway/time.Second)
	exp, state := numericDate(v.token.claims, "exp")
	switch {
	case state == repeated || state == absent && c.JWS.Expires:
		return Malformed, "the token has no exp, or none that is a time"
	case state == present && now >= exp+leeway:
		return Expired, "the token has expired"
	}
	nbf, state := numericDate(v.token.claims, "nbf")
	switch {
	case state == repeated:
		return Malformed, "the token's nbf is no time"
	case state == present && now < nbf-leeway:
		return Expired, "the token is not valid yet"
	}
	return OK, ""
}

// numericDate reads a time of RFC 7519, section 2, in whole seconds; repeated: it is no such time.
func numericDate(claims []byte, name string) (int64, presence) {
	raw, kind := claim(name).find(claims)
	if kind == jsonNothing {
		return 0, absent
	}
	n, ok := UnixSeconds.parse(wholeSeconds(raw))
	if kind != jsonNumber || !ok {
		return 0, repeated
	}
	return n, present
}

// wholeSeconds takes the fraction off that a NumericDate may have.
func wholeSeconds(text []byte) []byte {
	whole, _, _ := bytes.Cut(text, []byte{'.'})
	return whole
}
