package provider

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/subtle"
)

// trial tries the candidate signatures of one request against the keys of one variant.
type trial struct {
	v          *Verifier
	c          *variant
	keys       []keyState
	keyID      []byte
	at         int64 // time of receipt
	matched    *keyState
	seen       int
	wellFormed int
	repeated   bool
	tried      bool // a key that counts was held against a signature
	outside    bool // a key was left out for its time
}

func (t *trial) items(field []byte) {
	for rest := field; len(rest) > 0; {
		var label, value []byte
		label, value, rest = t.c.Items.next(rest)
		if t.c.Items.Assign == 0 {
			t.candidate(0, value)
			continue
		}
		for i := range t.c.Proofs {
			if label != nil && string(label) == t.c.Proofs[i].Label {
				t.candidate(i, value)
			}
		}
	}
}

// numbered goes through the fields of the family. A number that comes twice spoils them all.
func (t *trial) numbered(r *Request) {
	var seen [numberedMax + 1]bool
	prefix := t.c.numbered
	for i := range r.Headers {
		field := &r.Headers[i]
		if len(field.Name) <= len(prefix) || !equalFold(field.Name[:len(prefix)], prefix) {
			continue
		}
		n := arrayIndex(string(field.Name[len(prefix):]))
		if n < 1 || n > numberedMax {
			continue
		}
		if seen[n] {
			t.repeated = true
			return
		}
		seen[n] = true
		t.candidate(0, trimBlank(field.Value))
	}
}

// candidate holds one signature against the keys of its proof.
func (t *trial) candidate(proof int, text []byte) {
	if t.seen++; t.matched != nil ||
		t.seen > candidatesMax && t.c.signature.kind != SourceNumbered {
		return
	}
	p := &t.c.Proofs[proof]
	if text = p.cutPrefix(text); text == nil {
		return
	}
	signature, f := p.Encoding.decode(t.v.decoded[:], text)
	if f == formBad {
		return
	}
	t.wellFormed++
	if f == formNever {
		return
	}
	var spare *keyState
	tried := false
	for i := range t.keys {
		k := &t.keys[i]
		switch {
		case k.proof != proof:
			continue
		case t.c.keyID.kind != SourceNone && !bytes.Equal(k.id, t.keyID):
			spare = k
			continue
		case !k.valid.holds(t.at):
			spare, t.outside = k, true
			continue
		}
		tried = true
		if t.v.proves(p.Algorithm, k, signature) {
			t.matched = k
			return
		}
	}
	if !tried && spare != nil {
		// The time of a refusal must not tell which keys there are.
		t.v.proves(p.Algorithm, spare, signature)
	}
	t.tried = t.tried || tried
}

// cutPrefix is what stands behind the prefix, or nil if that is not there.
func (p *Proof) cutPrefix(text []byte) []byte {
	n := len(p.Prefix)
	if n == 0 {
		return text
	}
	if len(text) < n || string(text[:n]) != p.Prefix &&
		!(p.PrefixFold && bytes.EqualFold(text[:n], []byte(p.Prefix))) {
		return nil
	}
	if p.PrefixFold {
		return trimBlank(text[n:])
	}
	return text[n:]
}

func (v *Verifier) proves(a Algorithm, k *keyState, signature []byte) bool {
	switch a {
	case Token:
		// Hashing first hides the length of the token.
		got := sha256.Sum256(signature)
		return subtle.ConstantTimeCompare(got[:], k.token[:]) == 1
	case Ed25519:
		return len(signature) == ed25519.SignatureSize &&
			ed25519.Verify(k.edwards, v.joined(), signature)
	case ECDSAP256:
		v.digest.Reset()
		for _, text := range v.parts {
			v.digest.Write(text)
		}
		return ecdsa.VerifyASN1(k.weierstrass, v.digest.Sum(v.sum[:0]), signature)
	}
	if !k.fresh {
		k.mac.Reset()
		for _, text := range v.parts {
			k.mac.Write(text)
		}
		k.size = len(k.mac.Sum(k.sum[:0]))
		k.fresh = true
	}
	return subtle.ConstantTimeCompare(k.sum[:k.size], signature) == 1
}

// joined is the signed text in one piece, for Ed25519, which reads it twice.
func (v *Verifier) joined() []byte {
	if cap(v.message) > messageKeep {
		v.message = nil
	}
	v.message = v.message[:0]
	for _, text := range v.parts {
		v.message = append(v.message, text...)
	}
	return v.message
}
