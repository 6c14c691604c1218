package provider

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Explanation is how a request came to its verdict. It holds no secret and no signature that the
// request did not bring: whoever could have one made for a body that does not verify could sign.
type Explanation struct {
	Verdict Verdict
	// Ways are the ways to sign of the scheme in their order, and Best is the index of the one that
	// came furthest.
	Ways []Way
	Best int
	// Secrets has one entry for each secret.
	Secrets []SecretUse
	// Findings are mistakes with which the request would hold, or what they leave behind. Empty: none
	// is known.
	Findings []Finding
	// Tried is how many changed requests were judged in search of them; Exhausted says that the
	// search ended at its bound.
	Tried     int
	Exhausted bool
}

// Way is what one way to sign made of the request.
type Way struct {
	Outcome Outcome
	Detail  string
	// Algorithm is its word in a profile, Signature the place of the signature.
	Algorithm, Signature string
	Legacy               bool
	// Signed is the exact signed text; nil if the request lacks a part of it, or if nothing is signed.
	Signed []byte
	// Candidates are the signatures that the request offers.
	Candidates []Candidate
	Time       *SignedTime
	// Notes say what was trimmed or made anew before anything was compared.
	Notes []string
}

// Candidate is one signature or token of a request.
type Candidate struct {
	// Label is the item or the field that holds it; empty if the field is the signature.
	Label string
	// Text is the signature as it was sent, and empty for a token, which is a secret itself.
	Text string
	// Fault is why it can prove nothing; empty if it was held against the secrets.
	Fault string
}

// SignedTime is the time in a request.
type SignedTime struct {
	Text string
	// Sent is zero if Text is no time of the scheme's form.
	Sent time.Time
	// Skew is the time of receipt less Sent: above zero the request is old.
	Skew time.Duration
	// Tolerance is the allowed distance; below zero none is judged.
	Tolerance time.Duration
}

// SecretUse says what a secret is good for, without a word about its value.
type SecretUse struct {
	KeyID, Role string
	// Fault is why it can never match; empty if it can.
	Fault   string
	Matched bool
}

// Explain judges r like a Verifier and says how it came to the verdict. If no signature holds it
// looks for the mistake by undoing it: with a proven Finding the signature holds. others are the
// schemes of other senders, which the request may fit. The work is bounded.
func Explain(
	s *Scheme, secrets []Secret, r *Request, o Options, others []*Scheme,
) (*Explanation, error) {
	v, err := Compile(s, secrets, o)
	if err != nil {
		return nil, err
	}
	e := &Explanation{Verdict: v.Verify(r)}
	trace := v.Clone()
	for i := range v.program.variants {
		way := trace.way(r, i)
		if i == 0 || rankOfAll(way.Outcome) > rankOfAll(e.Ways[e.Best].Outcome) {
			e.Best = i
		}
		e.Ways = append(e.Ways, way)
	}
	for i, secret := range secrets {
		e.Secrets = append(e.Secrets, SecretUse{KeyID: secret.KeyID, Role: secret.Role,
			Fault: secretFault(s, secret), Matched: i == e.Verdict.Secret})
	}
	if e.Verdict.Outcome != OK {
		e.diagnose(s, secrets, r, o, others)
	}
	return e, nil
}

func rankOfAll(o Outcome) int {
	if o == OK {
		return 4
	}
	return rank(o)
}

// secretFault is why a secret can match nothing in the scheme, or "".
func secretFault(s *Scheme, secret Secret) string {
	_, err := Compile(s, []Secret{secret}, Options{AllowLegacy: true})
	if fault := (*SecretError)(nil); errors.As(err, &fault) {
		return fault.Reason
	}
	return ""
}

// way runs one variant and keeps what a verdict does not tell.
func (v *Verifier) way(r *Request, i int) Way {
	c, span := &v.program.variants[i], v.program.keysOf[i]
	v.gather(r)
	v.parts = v.parts[:0]
	a := c.Proofs[0].Algorithm
	w := Way{Algorithm: a.String(), Legacy: c.Legacy}
	w.Outcome, _, w.Detail = v.judge(r, c, v.keys[span[0]:span[1]])
	if c.Signature.Kind != SourceNone {
		w.Signature = c.Signature.String()
	}
	whole := w.Outcome != MissingHeader && w.Outcome != Malformed ||
		w.Detail == c.badForm || w.Detail == c.signature.twice
	if a.signsText() && whole && len(v.parts) > 0 {
		w.Signed = slices.Concat(v.withoutSecrets(c)...)
	}
	one := r
	if c.Each != EachNone {
		one = &v.item // the item that was judged last
	}
	w.Candidates = v.candidates(one, c)
	w.Time = v.signedTime(one, c)
	w.Notes = v.notes(r, c)
	return w
}

// withoutSecrets are the parts of the signed text, with a word for what only the two sides know.
func (v *Verifier) withoutSecrets(c *variant) [][]byte {
	parts := slices.Clone(v.parts)
	for _, part := range c.Content {
		if part.Kind != PartSecret {
			continue
		}
		for _, role := range v.program.roles {
			for i := range parts {
				if role.name == part.Role && bytes.Equal(parts[i], role.value) {
					parts[i] = []byte(redacted)
				}
			}
		}
	}
	return parts
}

func wordOf[T comparable](words map[string]T, value T) string {
	for word, have := range words {
		if have == value {
			return word
		}
	}
	return "unknown"
}

// candidates lists the signatures that the request offers, good and bad.
func (v *Verifier) candidates(r *Request, c *variant) []Candidate {
	var list []Candidate
	add := func(label string, proof int, text []byte) {
		if len(list) < explainShown {
			one := Candidate{Label: label, Text: string(text), Fault: "its label proves nothing here"}
			if proof >= 0 {
				one.Fault = c.Proofs[proof].fault(text)
				if c.Proofs[proof].Algorithm == Token {
					one.Text = ""
				}
			}
			list = append(list, one)
		}
	}
	switch {
	case c.Proofs[0].Algorithm.keyless() || c.Proofs[0].Algorithm == MessageSignature:
		return nil
	case c.signature.kind == SourceNumbered:
		for i := range r.Headers {
			name := r.Headers[i].Name
			if n := len(c.numbered); len(name) > n && equalFold(name[:n], c.numbered) {
				add(string(name), 0, trimBlank(r.Headers[i].Value))
			}
		}
		return list
	}
	field, state := v.read(r, &c.signature)
	if state != present {
		return nil
	}
	if c.JWS != nil {
		// What stands before the last dot is the signed text.
		return []Candidate{{Text: string(field[bytes.LastIndexByte(field, '.')+1:])}}
	}
	if c.Items.Separator == 0 {
		add("", 0, field)
		return list
	}
	for rest := field; len(rest) > 0; {
		var label, value []byte
		label, value, rest = c.Items.next(rest)
		if slices.Contains(c.items, string(label)) && label != nil {
			continue // It is a part of the signed text or its time.
		}
		proof := slices.IndexFunc(c.Proofs, func(p Proof) bool {
			return c.Items.Assign == 0 || p.Label == string(label)
		})
		add(string(label), proof, value)
	}
	return list
}

// fault is why text is no signature of this proof, or "".
func (p *Proof) fault(text []byte) string {
	behind := p.cutPrefix(text)
	if behind == nil {
		return fmt.Sprintf("the prefix %q is missing", p.Prefix)
	}
	var room [signatureTextMax]byte
	raw, f := p.Encoding.decode(room[:], behind)
	word := wordOf(encodingWords, p.Encoding)
	switch want := p.Algorithm.signatureSize(); {
	case f == formBad:
		return "it is no " + word
	case f == formNever:
		return "it is " + word + " in a spelling that no sender uses"
	case want > 0 && len(raw) != want:
		return fmt.Sprintf("%d bytes as %s, where this algorithm has %d", len(raw), word, want)
	}
	return ""
}

// signatureSize is the size in bytes of every signature of the algorithm; 0: it varies.
func (a Algorithm) signatureSize() int {
	switch {
	case a.kind() == kindShared:
		return a.digest().Size()
	case a == Ed25519:
		return 64
	}
	return 0
}

// signedTime reads the time of the request once more. v.items are those of the variant.
func (v *Verifier) signedTime(r *Request, c *variant) *SignedTime {
	if !c.timed {
		return nil
	}
	text, state := v.read(r, &c.time)
	if state != present {
		return nil
	}
	t := &SignedTime{Text: string(text), Tolerance: c.tolerance}
	if sent, ok := c.Timestamp.Format.parse(text); ok {
		if t.Sent = time.Unix(sent, 0); c.Timestamp.Format == UnixMillis {
			t.Sent = time.UnixMilli(sent)
		}
		t.Skew = time.Unix(0, r.ReceivedNS).Sub(t.Sent)
	}
	return t
}

// notes say what happens to the bytes of a request and of the secrets before they meet.
func (v *Verifier) notes(r *Request, c *variant) []string {
	var list []string
	for i := range r.Headers {
		field := &r.Headers[i]
		// One blank behind the colon is how everybody writes a field.
		value := bytes.TrimPrefix(field.Value, []byte{' '})
		if slices.Contains(v.program.names, strings.ToLower(string(field.Name))) &&
			len(trimBlank(value)) != len(value) {
			list = append(list, "blanks around the value of "+string(field.Name)+" were taken off")
		}
	}
	for i := range c.Proofs {
		list = append(list, c.Proofs[i].notes()...)
	}
	for i := range c.Content {
		if text := partNotes[c.Content[i].Kind]; text != "" {
			list = append(list, text)
		}
		if c.Content[i].Kind == PartSecret {
			list = append(list, "the secret with the role "+c.Content[i].Role+
				", which is part of the signed text, is written as "+redacted)
		}
		if s := c.Content[i].Source; s.Kind == SourceJSON {
			list = append(list, "the value at "+s.String()+" was signed without quotes and escapes")
		}
	}
	return list
}

var partNotes = map[PartKind]string{
	PartForm: "the parameters of the form were decoded, sorted by name and value, and joined " +
		"without separators; repeated ones count once",
	PartURLWithPort:    "the default port was added to the URL",
	PartURLWithoutPort: "the port was taken off the URL",
}

func (p *Proof) notes() []string {
	var list []string
	of := ""
	if p.Label != "" {
		of = " of " + p.Label
	}
	if p.Prefix != "" {
		list = append(list, fmt.Sprintf("%q was taken off the signature%s", p.Prefix, of))
	}
	if p.Encoding != EncodingText && p.Encoding != 0 {
		list = append(list, "the signature"+of+" was decoded from "+wordOf(encodingWords, p.Encoding))
	}
	if p.Key.Prefix != "" {
		list = append(list, fmt.Sprintf(
			"%q was taken off the secret for the signature%s, if it was there", p.Key.Prefix, of))
	}
	if p.Key.Encoding != KeyText && p.Key.Encoding != KeyBasic {
		list = append(list, "the secret for the signature"+of+" was decoded from "+
			wordOf(keyEncodingWords, p.Key.Encoding))
	}
	return list
}
