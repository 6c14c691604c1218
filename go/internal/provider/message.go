package provider

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"net/url"
	"slices"
	"strings"
)

// HTTP message signatures (RFC 9421). The sender says itself what it covers, so what has to be
// covered is the receiver's to insist on.

// messageInput is one member of Signature-Input.
type messageInput struct {
	label      string
	components []string
	params     []byte // the inner list with its parameters, as it was sent
	keyID      string
	algorithm  string
	created    int64
	expires    int64
	hasCreated bool
	hasExpires bool
	hasKeyID   bool
}

// messageKeyType guesses what a secret is where the operator does not say so.
func messageKeyType(secret Secret) string {
	switch {
	case secret.Type != "" && secret.Type != "keyed" && secret.Type != "shared":
		return secret.Type
	case strings.Contains(secret.Value, "-----BEGIN"):
		return "spki-pem"
	}
	if raw, err := hex.DecodeString(secret.Value); err == nil && len(raw) == ed25519.PublicKeySize {
		return "ed25519-public"
	}
	return "hmac-b64"
}

// messageForm is an algorithm of RFC 9421, section 3.3, by its name.
type messageForm struct {
	name  string
	proof Proof
}

// The algorithms of message signatures. An RSA key is used with PSS unless the secret's type says
// rsa-v1_5-sha256; a sender may name the algorithm, but does not choose it.
var messageForms = []messageForm{
	{"hmac-sha256", Proof{Algorithm: HMACSHA256}},
	{"ed25519", Proof{Algorithm: Ed25519}},
	{"ecdsa-p256-sha256", Proof{Algorithm: ECDSAP256, Raw: true}},
	{"ecdsa-p384-sha384", Proof{Algorithm: ECDSAP384, Raw: true}},
	{"rsa-pss-sha512", Proof{Algorithm: RSAPSSSHA512}},
	{"rsa-v1_5-sha256", Proof{Algorithm: RSASHA256}},
}

// setMessage takes the algorithm up for which the key is.
func (k *key) setMessage(a Algorithm) {
	for i := range messageForms {
		if messageForms[i].proof.Algorithm == a {
			k.message = &messageForms[i]
		}
	}
}

// newMessageKey makes a key of the kind that the secret is.
func newMessageKey(secret Secret) (key, error) {
	form := KeyForm{Encoding: KeyBase64}
	algorithm := HMACSHA256
	switch messageKeyType(secret) {
	case "ed25519-public":
		form, algorithm = KeyForm{Encoding: KeyHex}, Ed25519
	case "hmac-hex":
		form.Encoding = KeyHex
	case "hmac-b64":
	default:
		return publicMessageKey(secret)
	}
	k, err := newKey(&Proof{Algorithm: algorithm, Key: form}, secret)
	k.setMessage(algorithm)
	return k, err
}

func publicMessageKey(secret Secret) (key, error) {
	block, _ := pem.Decode([]byte(secret.Value))
	if block == nil {
		return key{}, errors.New("is no public key in PEM")
	}
	public, err := parsePublic(block.Bytes)
	if err != nil {
		return key{}, err
	}
	algorithm := Ed25519
	switch public := public.(type) {
	case *rsa.PublicKey:
		if algorithm = RSAPSSSHA512; secret.Type == "rsa-v1_5-sha256" {
			algorithm = RSASHA256
		}
	case *ecdsa.PublicKey:
		if algorithm = ECDSAP256; public.Curve == elliptic.P384() {
			algorithm = ECDSAP384
		}
	}
	k := key{id: []byte(secret.KeyID)}
	k.setMessage(algorithm)
	return k, k.setPublic(algorithm, public)
}

// judgeMessage holds every signature of the request against the keys; one that holds is enough.
func (v *Verifier) judgeMessage(
	r *Request, c *variant, keys []keyState,
) (Outcome, *keyState, string) {
	inputText, outcome, detail := joinedField(r, "signature-input")
	if outcome != OK {
		return outcome, nil, detail
	}
	signatureText, outcome, detail := joinedField(r, "signature")
	if outcome != OK {
		return outcome, nil, detail
	}
	inputs, ok := parseInputs(inputText)
	if !ok {
		return Malformed, nil, "Signature-Input is no dictionary of inner lists"
	}
	signatures, ok := parseOctets(signatureText)
	if !ok {
		return Malformed, nil, "Signature is no dictionary of byte sequences"
	}
	best, why := Malformed, "no label is in both Signature and Signature-Input"
	for i := range inputs {
		signature, found := signatures[inputs[i].label]
		if !found {
			continue
		}
		outcome, key, detail := v.judgeInput(r, c, keys, &inputs[i], signature)
		if outcome == OK {
			return OK, key, ""
		}
		if rank(outcome) >= rank(best) {
			best, why = outcome, detail
		}
	}
	return best, nil, why
}

// judgeInput holds one signature against the keys, then against body and time.
func (v *Verifier) judgeInput(
	r *Request, c *variant, keys []keyState, in *messageInput, signature []byte,
) (Outcome, *keyState, string) {
	for _, name := range c.components {
		if !slices.Contains(in.components, name) {
			return Malformed, nil, "the signature does not cover " + name
		}
	}
	base, ok := in.base(r)
	if !ok {
		return Malformed, nil, "a covered component is missing or unknown"
	}
	if c.tolerance >= 0 && !in.hasCreated {
		return Malformed, nil, "the signature has no time of creation"
	}
	v.parts, v.digested = append(v.parts[:0], base), 0
	var matched, spare *keyState
	tried, late := false, false
	for i := range keys {
		k := &keys[i]
		k.fresh = false
		if len(k.id) > 0 && in.hasKeyID && string(k.id) != in.keyID ||
			in.algorithm != "" && in.algorithm != k.message.name {
			spare = k
			continue
		}
		tried = true
		if !v.proves(&k.message.proof, k, signature) {
			continue
		}
		if k.valid.holds(r.ReceivedNS) {
			matched = k
			break
		}
		late = true
	}
	if !tried && spare != nil {
		// The time of a refusal must not tell which keys there are.
		v.proves(&spare.message.proof, spare, signature)
	}
	if late && matched == nil {
		return BadSignature, nil, "the secret that fits has expired or is not valid yet"
	}
	if matched == nil {
		return BadSignature, nil, "no configured secret fits the signature"
	}
	if slices.Contains(in.components, "content-digest") {
		if outcome, detail := checkDigest(r); outcome != OK {
			return outcome, nil, detail
		}
	}
	if in.hasExpires && r.ReceivedNS/1e9 > in.expires {
		return Expired, nil, "the signature has expired"
	}
	if c.tolerance >= 0 && !UnixSeconds.within(in.created, r.ReceivedNS, c.tolerance, c.future) {
		return Expired, nil, "the signature was made further from now than the tolerance"
	}
	return OK, matched, ""
}

// base is the signature base of RFC 9421, section 2.5.
func (in *messageInput) base(r *Request) ([]byte, bool) {
	var text bytes.Buffer
	for _, name := range in.components {
		value, ok := component(r, name)
		if !ok {
			return nil, false
		}
		text.WriteString(`"` + name + `": `)
		text.Write(value)
		text.WriteByte('\n')
	}
	text.WriteString(`"@signature-params": `)
	text.Write(in.params)
	return text.Bytes(), true
}

func component(r *Request, name string) ([]byte, bool) {
	if !strings.HasPrefix(name, "@") {
		value, outcome, _ := joinedField(r, name)
		return value, outcome == OK || outcome == Malformed // A covered field may be empty.
	}
	public, err := url.Parse(string(r.URL))
	if err != nil || len(r.URL) == 0 {
		public = nil
	}
	path, query, hasQuery := bytes.Cut(r.Target, []byte{'?'})
	switch {
	case name == "@method":
		return r.Method, true
	case name == "@request-target":
		return r.Target, true
	case name == "@path":
		if len(path) == 0 {
			path = []byte("/")
		}
		return path, true
	case name == "@query":
		if !hasQuery {
			return []byte("?"), true
		}
		return append([]byte("?"), query...), true
	case public == nil:
		return nil, false
	case name == "@target-uri":
		return r.URL, true
	case name == "@scheme":
		return []byte(strings.ToLower(public.Scheme)), true
	case name == "@authority":
		host := strings.ToLower(public.Host)
		if port := defaultPorts[public.Scheme]; port != "" {
			host = strings.TrimSuffix(host, ":"+port)
		}
		return []byte(host), true
	}
	return nil, false
}

// joinedField is all fields of a name as one list, as RFC 9421, section 2.1 has it.
func joinedField(r *Request, lower string) ([]byte, Outcome, string) {
	var text []byte
	count := 0
	for i := range r.Headers {
		if !equalFold(r.Headers[i].Name, lower) {
			continue
		}
		if count++; count > 1 {
			text = append(text, ", "...)
		}
		text = append(text, trimBlank(r.Headers[i].Value)...)
	}
	switch {
	case count == 0:
		return nil, MissingHeader, "header:" + lower + " is missing"
	case len(text) == 0:
		return nil, Malformed, "header:" + lower + " is blank"
	}
	return text, OK, ""
}

func parseInputs(text []byte) ([]messageInput, bool) {
	s := structured{text: text}
	var inputs []messageInput
	for {
		label, more, ok := s.member(len(inputs) == 0)
		if !ok || !more {
			return inputs, ok
		}
		in := messageInput{label: label}
		start := s.at
		if !s.components(&in) || !s.parameters(func(key string) bool {
			return s.inputParameter(&in, key)
		}) {
			return nil, false
		}
		in.params = text[start:s.at]
		twice := slices.ContainsFunc(inputs, func(o messageInput) bool { return o.label == label })
		if inputs = append(inputs, in); twice || len(inputs) > candidatesMax {
			return nil, false
		}
	}
}

// components reads the inner list. Parameters of components are not supported, and a component that
// stands twice is against the RFC.
func (s *structured) components(in *messageInput) bool {
	if !s.take('(') {
		return false
	}
	for {
		s.blanks()
		if s.take(')') {
			return true
		}
		name, ok := s.quoted()
		if !ok || slices.Contains(in.components, name) || name == "@signature-params" ||
			name != strings.ToLower(name) || len(in.components) == componentsMax {
			return false
		}
		if c := s.peek(); c != ' ' && c != ')' {
			return false
		}
		in.components = append(in.components, name)
	}
}

func (s *structured) inputParameter(in *messageInput, key string) (ok bool) {
	switch key {
	case "created":
		in.created, ok = s.integer()
		in.hasCreated = true
	case "expires":
		in.expires, ok = s.integer()
		in.hasExpires = true
	case "keyid":
		in.keyID, ok = s.quoted()
		in.hasKeyID = true
	case "alg":
		in.algorithm, ok = s.quoted()
	default:
		_, ok = s.quoted() // nonce, tag, and what others may add
	}
	return ok
}

func parseOctets(text []byte) (map[string][]byte, bool) {
	s := structured{text: text}
	members := map[string][]byte{}
	for {
		key, more, ok := s.member(len(members) == 0)
		if !ok || !more {
			return members, ok
		}
		raw, ok := s.octets()
		if _, twice := members[key]; !ok || twice || len(members) == candidatesMax {
			return nil, false
		}
		members[key] = raw
	}
}

// checkDigest holds the body against Content-Digest (RFC 9530). All digests that are known must
// fit, and one must be known.
func checkDigest(r *Request) (Outcome, string) {
	text, outcome, detail := joinedField(r, "content-digest")
	if outcome != OK {
		return outcome, detail
	}
	digests, ok := parseOctets(text)
	if !ok {
		return Malformed, "Content-Digest is no dictionary of byte sequences"
	}
	known := 0
	for name, digest := range digests {
		var sum []byte
		switch name {
		case "sha-256":
			s := sha256.Sum256(r.Body)
			sum = s[:]
		case "sha-512":
			s := sha512.Sum512(r.Body)
			sum = s[:]
		default:
			continue
		}
		if known++; subtle.ConstantTimeCompare(sum, digest) != 1 {
			return BadSignature, "the body has not its Content-Digest"
		}
	}
	if known == 0 {
		return Malformed, "Content-Digest has neither sha-256 nor sha-512"
	}
	return OK, ""
}
