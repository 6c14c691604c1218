package provider

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
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
// the key or because the signature is not in the header.
var ErrNotSignable = errors.New("requests of this sender cannot be signed here")

// Sign makes the header fields with which the sender would send r. For Ed25519 the secret is the
// private key: a seed or a whole key, in the text form of the public one.
func Sign(s *Scheme, secret Secret, r *SignRequest) ([]Field, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	var reasons error
	for i := range s.AnyOf {
		c := &s.AnyOf[i]
		for j := range c.Proofs {
			b := signer{scheme: s, variant: c, proof: &c.Proofs[j], request: r}
			fields, err := b.sign(secret)
			if err == nil {
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
	if b.proof.Algorithm == None {
		return b.fields, nil
	}
	if b.proof.Algorithm == ClientCertificate {
		return nil, fmt.Errorf("%w: the certificate is shown in the TLS handshake", ErrNotSignable)
	}
	if b.proof.Algorithm == MessageSignature || c.JWS != nil {
		return nil, fmt.Errorf("%w: such signatures are only verified", ErrNotSignable)
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
	text, err := b.content()
	if err != nil {
		return nil, err
	}
	signature, err := b.signature(secret, text)
	if err != nil {
		return nil, err
	}
	value := b.proof.Prefix + b.proof.Encoding.encode(signature)
	if it := c.Items; it.Assign != 0 {
		value = b.proof.Label + string(it.Assign) + value
		if c.Timestamp.From.Kind == SourceItem {
			value = c.Timestamp.From.Name + string(it.Assign) + b.time + string(it.Separator) + value
		}
	}
	switch c.Signature.Kind {
	case SourceHeader:
		b.set(c.Signature.Name, value)
	case SourceNumbered:
		b.set(c.Signature.Name+"1", value)
	default:
		return nil, fmt.Errorf("%w: the signature is in %s", ErrNotSignable, c.Signature)
	}
	return b.fields, nil
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
