package provider

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"net/url"
	"strings"
	"time"
)

// SignRequest is what a test webhook says, before it is signed.
type SignRequest struct {
	Method, Target, URL string
	Body                []byte
	Now                 time.Time
	// ID and Type go into the header fields in which this sender has them, if it has.
	ID, Type string
}

// ErrNotSignable says that this sender's requests cannot be made here, because only the sender has
// the key or because its proof is not in the request.
var ErrNotSignable = errors.New("requests of this sender cannot be signed here")

// Sign makes the header fields with which the sender would send r. Where its signature is in the
// body or in the URL it replaces those of r. For a public key the secret is the private one: for
// Ed25519 a seed or a whole key, for ECDSA PKCS #8, in the text form of the public key.
func Sign(s *Scheme, secret Secret, r *SignRequest) ([]Field, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	var reasons error
	for i := range s.AnyOf {
		c := &s.AnyOf[i]
		for j := range c.Proofs {
			made := *r
			b := signer{scheme: s, variant: c, proof: &c.Proofs[j], request: &made}
			fields, err := b.sign(secret)
			if err == nil {
				*r = made
				return fields, nil
			}
			if reasons == nil || errors.Is(reasons, ErrNotSignable) {
				reasons = err
			}
		}
	}
	return nil, reasons
}

type signer struct {
	scheme  *Scheme
	variant *Variant
	proof   *Proof
	request *SignRequest
	fields  []Field
	time    string
}

func (b *signer) sign(secret Secret) ([]Field, error) {
	c := b.variant
	if f := c.Timestamp.Format; f != TimeNone {
		b.time = f.format(b.request.Now)
	}
	b.addIdentity()
	switch {
	case b.proof.Algorithm == None:
		return b.fields, nil
	case b.proof.Algorithm == ClientCertificate:
		return nil, fmt.Errorf("%w: the certificate is shown in the TLS handshake", ErrNotSignable)
	case b.proof.Algorithm == MessageSignature || c.JWS != nil:
		return nil, fmt.Errorf("%w: such signatures are only verified", ErrNotSignable)
	case b.proof.Key.Remote != nil:
		return nil, fmt.Errorf("%w: the sender publishes its key", ErrNotSignable)
	}
	if c.Timestamp.From.Kind == SourceHeader {
		b.set(c.Timestamp.From.Name, b.time)
	}
	if c.KeyID.Kind == SourceHeader {
		b.set(c.KeyID.Name, secret.KeyID)
	}
	for _, match := range c.Require {
		if value := match.Equals + match.Media; match.From.Kind == SourceHeader && value != "" {
			b.set(match.From.Name, value)
		}
	}
	if c.Each != EachNone {
		return b.fields, b.signItems(secret)
	}
	return b.fields, b.signOne(secret)
}

// signOne signs the request, or the item that stands for it.
func (b *signer) signOne(secret Secret) error {
	text, err := b.content()
	if err != nil {
		return err
	}
	signature, err := b.signature(secret, text)
	if err != nil {
		return err
	}
	value := b.proof.Prefix + b.proof.Encoding.encode(signature)
	if it := b.variant.Items; it.Assign != 0 {
		label := b.proof.Label
		if it.KeyIDs {
			label = secret.KeyID
		}
		value = label + string(it.Assign) + value
		if from := b.variant.Timestamp.From; from.Kind == SourceItem {
			value = from.Name + string(it.Assign) + b.time + string(it.Separator) + value
		}
	}
	return b.place(value)
}

// signItems signs each event of the batch by itself.
func (b *signer) signItems(secret Secret) error {
	whole, ok := parseTree(b.request.Body)
	list := whole
	if from := b.scheme.Batch.Items; ok && from.Kind == SourceJSON {
		pointer, _ := parsePointer(from.Name) // Check has parsed the same text.
		list = whole.at(pointer)
	}
	if !ok || list == nil || list.open != '[' {
		return fmt.Errorf("the sender signs each item of %s and the body has no such list",
			b.scheme.Batch.Items)
	}
	body := b.request
	defer func() { b.request = body }()
	for i, item := range list.items {
		one := *body
		one.Body = item.compact()
		b.request = &one
		if err := b.signOne(secret); err != nil {
			return err
		}
		signed, ok := parseTree(one.Body)
		if !ok {
			return errors.New("an item of the batch is no JSON")
		}
		list.items[i] = signed
	}
	body.Body = whole.compact()
	return nil
}

// place puts a signature where the sender has it.
func (b *signer) place(value string) error {
	r := b.request
	switch s := b.variant.Signature; s.Kind {
	case SourceHeader:
		b.set(s.Name, value)
	case SourceNumbered:
		b.set(s.Name+"1", value)
	case SourceJSON:
		pointer, _ := parsePointer(s.Name) // Check has parsed the same text.
		object, ok := parseTree(r.Body)
		if !ok || !object.plant(pointer, value) {
			return fmt.Errorf("the signature belongs to %s and the body has no place for it", s)
		}
		r.Body = object.compact()
	case SourceForm:
		form, err := url.ParseQuery(string(r.Body))
		if err != nil {
			return fmt.Errorf("the signature belongs to %s and the body is no form", s)
		}
		form.Set(s.Name, value)
		r.Body = []byte(form.Encode())
	case SourceQuery:
		r.URL, r.Target = withParameter(r.URL, s.Name, value), withParameter(r.Target, s.Name, value)
	default:
		return fmt.Errorf("%w: the signature is in %s", ErrNotSignable, s)
	}
	return nil
}

// withParameter adds a parameter to the query of a URL or a request target, or replaces it.
func withParameter(text, name, value string) string {
	path, query, _ := strings.Cut(text, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		values = url.Values{}
	}
	values.Set(name, value)
	return path + "?" + values.Encode()
}

// addIdentity writes the id and the type into the first header that the scheme looks them up in. A
// header that the signed text needs comes first, for the id is what such a header holds.
func (b *signer) addIdentity() {
	for _, part := range b.variant.Content {
		if part.Kind == PartSource && part.Source.Kind == SourceHeader &&
			part.Source != b.variant.Timestamp.From && b.request.ID != "" {
			b.set(part.Source.Name, b.request.ID)
			break
		}
	}
	ids := b.variant.ID
	if len(ids) == 0 {
		ids = b.scheme.ID
	}
	for _, source := range ids {
		if source.Kind == SourceHeader && b.request.ID != "" {
			b.set(source.Name, b.request.ID)
			break
		}
	}
	for _, source := range b.scheme.Type {
		if source.Kind == SourceHeader && b.request.Type != "" {
			b.set(source.Name, b.request.Type)
			break
		}
	}
}

func (b *signer) set(name, value string) {
	if _, have := b.header(name); !have {
		b.fields = append(b.fields, Field{[]byte(name), []byte(value)})
	}
}

func (b *signer) header(name string) ([]byte, bool) {
	for _, field := range b.fields {
		if strings.EqualFold(string(field.Name), name) {
			return field.Value, true
		}
	}
	return nil, false
}

func (b *signer) content() ([]byte, error) {
	var text bytes.Buffer
	for _, part := range b.variant.Content {
		switch part.Kind {
		case PartLiteral:
			text.WriteString(part.Literal)
		case PartBody:
			text.Write(b.request.Body)
		case PartMethod:
			text.WriteString(b.request.Method)
		case PartTarget:
			text.WriteString(b.request.Target)
		case PartURL:
			if b.request.URL == "" {
				return nil, errors.New("the scheme signs the URL and none is given")
			}
			text.WriteString(b.request.URL)
		case PartForm, PartURLWithPort, PartURLWithoutPort:
			value, ok := part.Kind.derived(b.request.URL, b.request.Body)
			if !ok {
				return nil, errors.New("URL or body have not the form that is signed")
			}
			text.Write(value)
		case PartTimestamp:
			value, err := b.source(b.variant.Timestamp.From)
			if err != nil {
				return nil, err
			}
			text.Write(value)
		case PartSource:
			value, err := b.source(part.Source)
			if err != nil && part.Optional {
				continue
			}
			if err != nil {
				return nil, err
			}
			text.WriteString(part.Before)
			text.Write(value)
			text.WriteString(part.After)
		case PartBodyCRC32:
			text.WriteString(decimal(int64(crc32.ChecksumIEEE(b.request.Body))))
		case PartBodySHA256:
			sum := sha256.Sum256(b.request.Body)
			text.WriteString(hex.EncodeToString(sum[:]))
		case PartSecret, PartHeaders:
			return nil, fmt.Errorf("%w: the signed text is not made of the request alone",
				ErrNotSignable)
		}
	}
	return text.Bytes(), nil
}

func (b *signer) source(s Source) ([]byte, error) {
	switch {
	case s == b.variant.Timestamp.From && s.Kind != SourceJSON:
		return []byte(b.time), nil
	case s.Kind == SourceHeader:
		if value, have := b.header(s.Name); have {
			return value, nil
		}
	case s.Kind == SourceJSON:
		p, err := parsePointer(s.Name)
		if err != nil {
			return nil, err
		}
		if value := p.text(b.request.Body); value != nil {
			return value, nil
		}
	case s.Kind == SourceForm:
		if form, err := url.ParseQuery(string(b.request.Body)); err == nil && form.Has(s.Name) {
			return []byte(form.Get(s.Name)), nil
		}
	case s.Kind == SourceQuery:
		if value, state := readQuery([]byte(b.request.Target), s.Name); state == present {
			return value, nil
		}
	}
	return nil, fmt.Errorf("the scheme signs %s and the request has none", s)
}

// privatePrefix replaces a public prefix of a key form in a private key (Standard Webhooks).
var privatePrefix = map[string]string{"whpk_": "whsk_"}

func (b *signer) signature(secret Secret, text []byte) ([]byte, error) {
	form := b.proof.Key
	switch a := b.proof.Algorithm; {
	case a == ECDSAP256 || a == ECDSAP384:
		return b.curveSignature(secret, text)
	case a != Ed25519 && a.kind() == kindPublic:
		return nil, fmt.Errorf("%w: only the sender has the private key", ErrNotSignable)
	case a == Ed25519:
		if private, has := privatePrefix[form.Prefix]; has {
			form.Prefix = private
		}
		raw, err := form.bytes(secret)
		if err != nil {
			return nil, fmt.Errorf("the secret %w", err)
		}
		switch len(raw) {
		case ed25519.SeedSize:
			return ed25519.Sign(ed25519.NewKeyFromSeed(raw), text), nil
		case ed25519.PrivateKeySize:
			return ed25519.Sign(ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize]), text), nil
		}
		return nil, fmt.Errorf("the secret is no Ed25519 private key: %d bytes, want 32 or 64",
			len(raw))
	}
	raw, err := form.bytes(secret)
	if err != nil {
		return nil, fmt.Errorf("the secret %w", err)
	}
	if b.proof.Algorithm == Token {
		return raw, nil
	}
	if b.proof.Algorithm == KeyedSHA256 {
		sum := sha256.Sum256(append(raw, text...))
		return sum[:], nil
	}
	mac := hmac.New(b.proof.Algorithm.hash(), raw)
	mac.Write(text)
	return mac.Sum(nil), nil
}

// curveSignature signs with the private key of an ECDSA scheme, in PKCS #8.
func (b *signer) curveSignature(secret Secret, text []byte) ([]byte, error) {
	raw, err := b.proof.Key.bytes(secret)
	if err != nil {
		return nil, fmt.Errorf("the secret %w", err)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(raw)
	private, ok := parsed.(*ecdsa.PrivateKey)
	if err != nil || !ok {
		return nil, errors.New("the secret is no private key in PKCS #8, as only the sender has")
	}
	h := b.proof.Algorithm.hash()()
	h.Write(text)
	sum := h.Sum(nil)
	if !b.proof.Raw {
		return ecdsa.SignASN1(rand.Reader, private, sum)
	}
	r, s, err := ecdsa.Sign(rand.Reader, private, sum)
	if err != nil {
		return nil, err
	}
	size := (private.Curve.Params().BitSize + 7) / 8
	return append(r.FillBytes(make([]byte, size)), s.FillBytes(make([]byte, size))...), nil
}
