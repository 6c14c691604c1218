package provider

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/subtle"
	"hash"
	"math/big"
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
	late       bool // a key fits, outside of its time
	pending    bool // a key is not here yet
}

func (t *trial) items(field []byte) {
	for rest := field; len(rest) > 0; {
		var label, value []byte
		label, value, rest = t.c.Items.next(rest)
		if t.c.Items.KeyIDs && label != nil {
			t.keyID = label
		}
		if t.c.Items.Assign == 0 || t.c.Items.KeyIDs && label != nil {
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

// candidate holds one signature, with its prefix, against the keys of its proof.
func (t *trial) candidate(proof int, text []byte) {
	if t.seen++; t.matched != nil ||
		t.seen > candidatesMax && t.c.signature.kind != SourceNumbered {
		return
	}
	p := &t.c.Proofs[proof]
	if text = p.cutPrefix(text); text != nil {
		t.encoded(proof, text)
	}
}

// encoded holds the text of one signature against the keys of its proof.
func (t *trial) encoded(proof int, text []byte) {
	p := &t.c.Proofs[proof]
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
		case t.c.byID && !bytes.Equal(k.id, t.keyID):
			spare = k
			continue
		}
		// One outside of its time is tried all the same: for our log, and because the time that a
		// refusal takes must not tell which keys there are.
		tried = true
		switch holds := t.v.proves(p, k, signature); {
		case holds && k.valid.holds(t.at):
			t.matched = k
			return
		case holds:
			t.late = true
		}
	}
	if tried || p.Key.Remote != nil && t.published(p, signature) {
		return
	}
	if spare != nil {
		t.v.proves(p, spare, signature)
	}
}

// cutPrefix is what stands behind the prefix, or nil if that is not there.
func (p *Proof) cutPrefix(text []byte) []byte {
	n := len(p.Prefix)
	if n == 0 {
		return text
	}
	if len(text) < n || string(text[:n]) != p.Prefix &&
		!(p.PrefixFold && bytes.EqualFold(text[:n], []byte(p.Prefix))) {
		if p.PrefixOptional {
			return text
		}
		return nil
	}
	if p.PrefixFold {
		return trimBlank(text[n:])
	}
	return text[n:]
}

// proves tells whether the signature is the one of the signed text in v.parts under the key.
func (v *Verifier) proves(p *Proof, k *keyState, signature []byte) bool {
	v.checks++
	switch p.Algorithm {
	case Token:
		// Hashing first hides the length of the token.
		got := sha256.Sum256(signature)
		return subtle.ConstantTimeCompare(got[:], k.token[:]) == 1
	case Ed25519:
		return len(signature) == ed25519.SignatureSize &&
			ed25519.Verify(k.edwards, v.joined(), signature)
	case ECDSAP256, ECDSAP384:
		sum := v.digest(p.Algorithm.digest())
		if !p.Raw {
			return ecdsa.VerifyASN1(k.weierstrass, sum, signature)
		}
		half := (k.weierstrass.Params().BitSize + 7) / 8
		return len(signature) == 2*half && ecdsa.Verify(k.weierstrass, sum,
			new(big.Int).SetBytes(signature[:half]), new(big.Int).SetBytes(signature[half:]))
	case RSASHA1, RSASHA256:
		of := p.Algorithm.digest()
		return rsa.VerifyPKCS1v15(k.rsa, of, v.digest(of), signature) == nil
	case RSAPSSSHA256, RSAPSSSHA512:
		// The salt is as long as the hash (RFC 7518, section 3.5; RFC 9421, section 3.3.1).
		of := p.Algorithm.digest()
		return rsa.VerifyPSS(k.rsa, of, v.digest(of), signature,
			&rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}) == nil
	}
	if !k.fresh {
		k.mac.Reset()
		v.feed(k.mac)
		k.size = len(k.mac.Sum(k.sum[:0]))
		k.fresh = true
	}
	return subtle.ConstantTimeCompare(k.sum[:k.size], signature) == 1
}

// digest is the hash of the signed text, made once for all keys and candidates.
func (v *Verifier) digest(of crypto.Hash) []byte {
	if v.digested == of {
		return v.sum[:of.Size()]
	}
	h := v.hashes[of]
	if h == nil {
		h = of.New()
		v.hashes[of] = h
	}
	h.Reset()
	v.feed(h)
	v.digested = of
	return h.Sum(v.sum[:0])
}

// feed hashes the signed text. What stands before a long part goes along with as much of it as
// fills blocks of the hash: a hash that keeps no beginning of a block copies nothing and is
// called less.
func (v *Verifier) feed(h hash.Hash) {
	block := h.BlockSize()
	short := v.short[:0]
	for _, text := range v.parts {
		if len(short)+len(text) > len(v.short)-block {
			if fill := (block - len(short)%block) % block; len(short) > 0 && len(text) > fill {
				short = append(short, text[:fill]...)
				text = text[fill:]
			}
			h.Write(short)
			short = short[:0]
			if len(text) > len(v.short)-block {
				h.Write(text)
				continue
			}
		}
		short = append(short, text...)
	}
	h.Write(short)
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
