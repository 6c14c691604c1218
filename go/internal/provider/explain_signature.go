package provider

import (
	"bytes"
	"crypto/hmac"
	"encoding/hex"
	"iter"
	"net/url"
	"slices"
	"strings"
)

const useOwnScheme = "write a scheme of your own under verify, as found here, or mend the sender"

var signatureMistakes = []mistake{
	{
		name: "signature-encoding", facet: facetSignature, fault: faultSender,
		says: "the signature is encoded in another way than this sender's: hex for base64, the URL " +
			"alphabet, padding or upper case",
		mend: useOwnScheme,
		try: func(a attempt) iter.Seq[attempt] {
			return func(yield func(attempt) bool) {
				if !a.signs() {
					return
				}
				for e := Hex; e <= Base64URLRaw; e++ {
					word := "the signature read as " + wordOf(encodingWords, e)
					if !yield(a.withProofs(word, func(p *Proof) { p.Encoding = e })) {
						return
					}
				}
			}
		},
	}, {
		name: "signature-text", facet: facetSignature, fault: faultProxy,
		says: "the text of the signature was changed on its way: blanks, quotes, escapes or its case",
		mend: "hand the field on as it came",
		try: signatureTexts(func(text string, give func(string, string) bool) {
			_ = give(strings.Join(strings.Fields(text), ""), "the field without blanks in it") &&
				give(strings.ReplaceAll(text, " ", "+"), "blanks as +, which a form parser made of it") &&
				give(strings.Trim(text, `"'`), "the field without quotes") &&
				give(strings.ToLower(text), "the field in lower case")
			if plain, err := url.PathUnescape(text); err == nil {
				give(plain, "the field without percent escapes")
			}
		}),
	}, {
		name: "signature-list", facet: facetSignature, fault: faultSender,
		says: "the items of the signature field are separated in another way than this sender's, or " +
			"have no label",
		mend: useOwnScheme,
		try:  lists,
	}, {
		name: "signature-encoded-twice", facet: facetSignature, fault: faultSender,
		says: "the sender encodes its signature twice: the base64 text is that of the hex text",
		mend: "let the sender encode the bytes of the signature, not their hex text",
		try: func(a attempt) iter.Seq[attempt] {
			twice := signatureTexts(func(text string, give func(string, string) bool) {
				if raw, ok := anyBase64(text); ok && isHex(raw) {
					give(string(raw), "the hex text inside the base64 text")
				}
			})
			return twice(a.withProofs("", func(p *Proof) { p.Encoding = HexAnyCase }))
		},
	}, {
		name: "signature-prefix", facet: facetSignature, fault: faultSender,
		says: "the signature lacks the prefix that this sender writes before it, or has another one",
		mend: useOwnScheme,
		try: func(a attempt) iter.Seq[attempt] {
			return func(yield func(attempt) bool) {
				if !a.signs() {
					return
				}
				bare := a.withProofs("no prefix", func(p *Proof) { p.Prefix = "" })
				if !yield(bare) {
					return
				}
				cut := signatureTexts(func(text string, give func(string, string) bool) {
					for _, mark := range []string{"=", " ", ":", ","} {
						if before, rest, found := strings.Cut(text, mark); found && len(before) < 24 &&
							!give(rest, "what stands behind "+before+mark) {
							return
						}
					}
				})
				cut(bare)(yield)
			}
		},
	}, {
		name: "wrong-algorithm", facet: facetSignature, fault: faultSender,
		says: "the sender signs with another algorithm than this profile has",
		mend: useOwnScheme,
		try: func(a attempt) iter.Seq[attempt] {
			return func(yield func(attempt) bool) {
				for _, algorithm := range []Algorithm{
					HMACSHA256, HMACSHA1, HMACSHA512, HMACSHA384, KeyedSHA256,
				} {
					word := algorithm.String()
					b := a.withScheme(word, func(v *Variant) {
						for i := range v.Proofs {
							if v.Proofs[i].Algorithm.kind() == kindShared {
								v.Proofs[i].Algorithm = algorithm
								v.Legacy = v.Legacy || algorithm == KeyedSHA256
							}
						}
					})
					bare := b.withProofs(word+" without a prefix", func(p *Proof) { p.Prefix = "" })
					if !yield(b) || !yield(bare) {
						return
					}
				}
			}
		},
	}, {
		name: "signed-text", facet: facetSignature, fault: faultSender,
		says: "the sender signs another text than this profile has: the body alone, or with the time",
		mend: useOwnScheme,
		try: func(a attempt) iter.Seq[attempt] {
			return func(yield func(attempt) bool) {
				for _, one := range signedTexts {
					b := a.withScheme(one.with, func(v *Variant) {
						if v.Proofs[0].Algorithm.signsText() &&
							v.Proofs[0].Algorithm != MessageSignature {
							if v.Content = one.parts; len(one.parts) == 1 {
								v.Timestamp = Timestamp{}
							}
						}
					})
					if !yield(b) {
						return
					}
				}
			}
		},
	}, {
		name: "time-form", facet: facetSignature, fault: faultSender,
		says: "the sender writes its time in another form than this profile has",
		mend: useOwnScheme,
		try: func(a attempt) iter.Seq[attempt] {
			return func(yield func(attempt) bool) {
				for word, format := range timeWords {
					b := a.withScheme("the time as "+word, func(v *Variant) {
						if v.Timestamp.Format != TimeNone {
							v.Timestamp.Format = format
						}
					})
					if !yield(b) {
						return
					}
				}
			}
		},
	}, {
		name: "signature-truncated", facet: facetSignature, fault: faultProxy,
		says: "the signature was cut off: what is there is the beginning of the right one",
		mend: "look for a bound on the length of a field or of a column on the way",
		try:  truncated,
	},
}

var signedTexts = []struct {
	with  string
	parts []Part
}{
	{"the body alone", []Part{{Kind: PartBody}}},
	{"time, a dot and the body", []Part{
		{Kind: PartTimestamp}, {Kind: PartLiteral, Literal: "."}, {Kind: PartBody},
	}},
	{"time, a colon and the body", []Part{
		{Kind: PartTimestamp}, {Kind: PartLiteral, Literal: ":"}, {Kind: PartBody},
	}},
	{"time and body", []Part{{Kind: PartTimestamp}, {Kind: PartBody}}},
	{"body and time", []Part{{Kind: PartBody}, {Kind: PartTimestamp}}},
}

// lists undoes other separators, and a label that is missing.
func lists(a attempt) iter.Seq[attempt] {
	return func(yield func(attempt) bool) {
		bare := a.withScheme("a signature without a label", func(v *Variant) {
			if v.Items.Assign != 0 {
				v.Items, v.Proofs = Items{}, v.Proofs[:1]
				v.Proofs[0].Label = ""
			}
		})
		if !yield(bare) {
			return
		}
		for i := range a.scheme.AnyOf {
			v := &a.scheme.AnyOf[i]
			if v.Items.Assign == 0 {
				continue
			}
			labels := []string{v.Timestamp.From.Name}
			for _, p := range v.Proofs {
				labels = append(labels, p.Label)
			}
			var pairs []string
			for _, label := range slices.DeleteFunc(labels, func(l string) bool { return l == "" }) {
				item := label + string(v.Items.Assign)
				for _, by := range []string{", ", "; ", ",", ";", " ", "&"} {
					pairs = append(pairs, by+item, string(v.Items.Separator)+item)
				}
			}
			replacer := strings.NewReplacer(pairs...)
			again := signatureTexts(func(text string, give func(string, string) bool) {
				give(replacer.Replace(text), "items separated by "+string(v.Items.Separator))
			})
			for next := range again(a) {
				if !yield(next) {
					return
				}
			}
		}
	}
}

func isHex(text []byte) bool {
	_, err := hex.DecodeString(string(text))
	return err == nil && len(text) > 0
}

// signatureTexts makes the attempts that rewrite the fields which a signature comes from.
func signatureTexts(
	make func(text string, give func(string, string) bool),
) func(attempt) iter.Seq[attempt] {
	return func(a attempt) iter.Seq[attempt] {
		return func(yield func(attempt) bool) {
			if !a.signs() {
				return
			}
			for i := range a.request.Headers {
				field := a.request.Headers[i]
				if !a.signatureField(field.Name) {
					continue
				}
				more, was := true, string(trimBlank(field.Value))
				make(was, func(text, with string) bool {
					if text != was && text != "" {
						fields := slices.Clone(a.request.Headers)
						fields[i].Value = []byte(text)
						more = yield(a.withHeaders(fields, with))
					}
					return more
				})
				if !more {
					return
				}
			}
		}
	}
}

// signatureField tells whether a signature of the scheme comes from the field. One that may hold a
// token is none, so that no part of a token is ever told.
func (a attempt) signatureField(name []byte) bool {
	return slices.ContainsFunc(a.scheme.AnyOf, func(v Variant) bool {
		lower := strings.ToLower(v.Signature.Name)
		if !v.Proofs[0].Algorithm.signsText() {
			return false
		}
		switch v.Signature.Kind {
		case SourceHeader:
			return equalFold(name, lower)
		case SourceNumbered:
			return len(name) > len(lower) && equalFold(name[:len(lower)], lower)
		}
		return false
	})
}

// truncated completes a signature whose beginning is right. At least half of it must be there, or
// one could find a signature piece by piece.
func truncated(a attempt) iter.Seq[attempt] {
	return func(yield func(attempt) bool) {
		if a.compiled == nil {
			return
		}
		v := a.compiled.Clone()
		for i := range v.program.variants {
			c, span := &v.program.variants[i], v.program.keysOf[i]
			p := &c.Proofs[0]
			if p.Algorithm.kind() != kindShared {
				continue
			}
			way := v.way(&a.request, i)
			for _, candidate := range way.Candidates {
				begin := p.begin([]byte(candidate.Text))
				if way.Signed == nil || 2*len(begin) < p.Algorithm.signatureSize() {
					continue
				}
				for k := span[0]; k < span[1]; k++ {
					if v.keys[k].proof != 0 || v.keys[k].mac == nil {
						continue
					}
					whole := v.keys[k].mac
					whole.Reset()
					whole.Write(way.Signed)
					sum := whole.Sum(nil)
					if len(begin) >= len(sum) || !hmac.Equal(begin, sum[:len(begin)]) {
						continue
					}
					full := p.Prefix + p.Encoding.encode(sum)
					fields := slices.Clone(a.request.Headers)
					for j := range fields {
						if a.signatureField(fields[j].Name) {
							fields[j].Value = bytes.Replace(fields[j].Value,
								[]byte(candidate.Text), []byte(full), 1)
						}
					}
					if !yield(a.withHeaders(fields, "")) {
						return
					}
				}
			}
		}
	}
}

// begin decodes as much of a signature as has its form.
func (p *Proof) begin(text []byte) []byte {
	behind := p.cutPrefix(text)
	var room [signatureTextMax]byte
	for cut := 0; cut < 4 && len(behind) > cut; cut++ {
		part := behind[:len(behind)-cut]
		encoding := p.Encoding
		switch encoding {
		case Base64:
			encoding, part = Base64Raw, bytes.TrimRight(part, "=")
		case Base64URL:
			encoding, part = Base64URLRaw, bytes.TrimRight(part, "=")
		}
		if raw, f := encoding.decode(room[:], part); f == formGood {
			return bytes.Clone(raw)
		}
	}
	return nil
}
