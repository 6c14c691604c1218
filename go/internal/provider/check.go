package provider

import (
	"errors"
	"fmt"
	"slices"
)

// Check finds what is wrong with a scheme before any request meets it: fields that contradict each
// other, and forms that would protect less than they seem to.
func (s *Scheme) Check() error {
	if len(s.AnyOf) == 0 {
		return errors.New("the scheme has no way to verify")
	}
	for i := range s.AnyOf {
		if err := s.AnyOf[i].check(); err != nil {
			if len(s.AnyOf) > 1 {
				return fmt.Errorf("any_of[%d]: %w", i, err)
			}
			return err
		}
	}
	for _, source := range slices.Concat(s.ID, s.Type) {
		if err := source.checkIdentity(); err != nil {
			return err
		}
	}
	if s.Batch != nil {
		if err := s.Batch.check(); err != nil {
			return fmt.Errorf("batch: %w", err)
		}
	}
	if n := len(s.Handshakes); n > handshakesMax {
		return fmt.Errorf("%d handshakes are more than %d", n, handshakesMax)
	}
	if n := len((IDFrom{}).Places(s)); n > idPlacesMax {
		return fmt.Errorf("an id in one of %d places; %d are the most", n, idPlacesMax)
	}
	if n := len(s.Contract.RetryHeaders.Value); n > retryHeadersMax {
		return fmt.Errorf("%d retry headers are more than %d", n, retryHeadersMax)
	}
	for i := range s.Handshakes {
		if n := len(s.Handshakes[i].Match); n > matchesMax {
			return fmt.Errorf("handshake %q: %d conditions are more than %d", s.Handshakes[i].Name,
				n, matchesMax)
		}
		if err := s.Handshakes[i].check(); err != nil {
			return fmt.Errorf("handshake %q: %w", s.Handshakes[i].Name, err)
		}
	}
	return nil
}

func (s Source) checkIdentity() error {
	if err := s.check(); err != nil {
		return err
	}
	if s.Kind != SourceHeader && s.Kind != SourceJSON && s.Kind != SourceQuery {
		return fmt.Errorf("an id or type comes from header, json or query, not from %s", s)
	}
	return nil
}

func (v *Variant) check() error {
	for _, source := range v.ID {
		if err := source.checkIdentity(); err != nil {
			return err
		}
	}
	if err := v.checkProofs(); err != nil {
		return err
	}
	if a := v.Proofs[0].Algorithm; a.keyless() || a == MessageSignature {
		return nil
	}
	if err := v.Signature.check(); err != nil {
		return fmt.Errorf("signature: %w", err)
	}
	if v.Signature.Kind == SourceItem {
		return errors.New("signature: an item is a part of the signature field, not its place")
	}
	if v.Signature.Kind == SourceNumbered && v.Items != (Items{}) {
		return errors.New("items: a numbered family has one signature a field")
	}
	if v.KeyID.Kind != SourceNone {
		if err := v.KeyID.check(); err != nil {
			return fmt.Errorf("key_id: %w", err)
		}
	}
	for _, match := range v.Require {
		if err := match.check(); err != nil {
			return fmt.Errorf("require: %w", err)
		}
		if match.Secret != "" {
			return errors.New("require: a secret is for handshakes only")
		}
	}
	if err := v.checkTimestamp(); err != nil {
		return fmt.Errorf("timestamp: %w", err)
	}
	return v.checkContent()
}

func (v *Variant) checkProofs() error {
	if len(v.Proofs) == 0 {
		return errors.New("algorithm is missing")
	}
	labels := map[string]bool{}
	signs := v.Proofs[0].Algorithm.signsText()
	for i := range v.Proofs {
		p := &v.Proofs[i]
		if p.Algorithm < None || p.Algorithm > ClientCertificate {
			return errors.New("algorithm is missing")
		}
		if p.Algorithm.keyless() && (len(v.Proofs) > 1 || v.Signature.Kind != SourceNone) {
			return errors.New("an algorithm without a key stands alone")
		}
		if p.Algorithm == ClientCertificate {
			return checkClientNames(v.ClientNames)
		}
		if p.Algorithm == None {
			return nil
		}
		if p.Algorithm == MessageSignature {
			if len(v.Proofs) > 1 || v.Signature.Kind != SourceNone || len(v.Content) > 0 {
				return errors.New("algorithm rfc9421 stands alone, with components and max_age")
			}
			return nil
		}
		if len(v.Components) > 0 || v.MaxAge != 0 {
			return errors.New("components and max_age are for rfc9421")
		}
		if p.Algorithm.signsText() != signs {
			return errors.New("a token and a signature do not share one field")
		}
		if p.Algorithm == KeyedSHA256 && !v.Legacy {
			return errors.New("algorithm keyed-sha256 can be forged by extension, say legacy: true")
		}
		if p.Encoding < Hex || p.Encoding > EncodingText {
			return errors.New("encoding is missing")
		}
		if p.Encoding == EncodingText && p.Algorithm != Token {
			return errors.New("encoding text is for tokens only")
		}
		if (p.Algorithm == ECDSAP256) != (p.Key.Encoding == KeySPKI) {
			return errors.New("key encoding spki belongs to ecdsa-p256-sha256")
		}
		if labels[p.Label] {
			return fmt.Errorf("label %q stands twice", p.Label)
		}
		labels[p.Label] = true
	}
	switch {
	case v.Items.Assign != 0 && v.Items.Separator == 0:
		return errors.New("items: assign needs a separator")
	case v.Items.Assign != 0 && v.Items.Assign == v.Items.Separator:
		return errors.New("items: assign and separator are the same")
	case v.Items.Assign != 0 && labels[""]:
		return errors.New("label is missing: with labelled items each proof has one")
	case v.Items.Assign == 0 && (len(v.Proofs) > 1 || !labels[""]):
		return errors.New("label needs items with assign")
	}
	return nil
}

func (v *Variant) checkTimestamp() error {
	t := v.Timestamp
	if t.From.Kind == SourceNone {
		if t.Format != TimeNone || t.Tolerance != 0 {
			return errors.New("from is missing")
		}
		return nil
	}
	if err := v.checkSource(t.From); err != nil {
		return err
	}
	switch {
	case t.Format < UnixSeconds || t.Format > RFC3339:
		return errors.New("format is missing")
	case t.Tolerance < 0:
		return errors.New("tolerance is negative")
	case t.JSONString && t.From.Kind != SourceJSON:
		return errors.New("json_string is for a time in the body")
	}
	return nil
}

func (v *Variant) checkSource(s Source) error {
	if err := s.check(); err != nil {
		return err
	}
	if s.Kind == SourceItem && v.Items.Assign == 0 {
		return fmt.Errorf("%s needs items with assign", s)
	}
	if s.Kind == SourceNumbered {
		return fmt.Errorf("%s: only a signature comes from a numbered family", s)
	}
	return nil
}

func (v *Variant) checkContent() error {
	if !v.Proofs[0].Algorithm.signsText() {
		if len(v.Content) > 0 || v.Timestamp.From.Kind != SourceNone {
			return errors.New("content: a token signs nothing, so neither content nor timestamp " +
				"would be protected")
		}
		return nil
	}
	body, timed, signsURL := false, false, false
	for i, part := range v.Content {
		switch part.Kind {
		case PartBody, PartForm:
			body = true
		case PartURL, PartURLWithPort, PartURLWithoutPort:
			signsURL = true
		case PartTimestamp:
			if v.Timestamp.From.Kind == SourceNone {
				return errors.New("content: timestamp is not configured")
			}
			timed = true
		case PartSource:
			if err := v.checkSource(part.Source); err != nil {
				return fmt.Errorf("content[%d]: %w", i, err)
			}
			timed = timed || part.Source == v.Timestamp.From
		case PartLiteral, PartMethod, PartTarget:
		default:
			return fmt.Errorf("content[%d]: part is not set", i)
		}
	}
	if v.BodyHash.Kind != SourceNone {
		if v.BodyHash.Kind != SourceQuery || v.BodyHash.Name == "" || !signsURL {
			return errors.New("body_hash: it is a parameter of the query of a signed URL")
		}
		body = true
	}
	if !body && !v.UnsignedBody {
		return errors.New("content: body is missing; " +
			"if the sender does not sign it say unsigned_body: true")
	}
	timed = timed || body && v.Timestamp.From.Kind == SourceJSON
	if v.Timestamp.Tolerance > 0 && !timed {
		return errors.New("timestamp: it is not part of the content, so anybody could change it")
	}
	return nil
}

func (m *Match) check() error {
	if err := m.From.check(); err != nil {
		return err
	}
	if m.From.Kind == SourceItem || m.From.Kind == SourceNumbered {
		return fmt.Errorf("%s cannot be matched", m.From)
	}
	used := 0
	for _, set := range []bool{m.Absent, m.Equals != "", m.Media != "", m.Secret != ""} {
		if set {
			used++
		}
	}
	if used > 1 {
		return errors.New("equals, media, absent and secret exclude each other")
	}
	return nil
}

func (h *Handshake) check() error {
	if h.Status < 200 || h.Status > 299 {
		return errors.New("status is not between 200 and 299")
	}
	if h.Method != "" {
		if err := checkName(h.Method); err != nil {
			return fmt.Errorf("method: %w", err)
		}
	}
	if len(h.Match) == 0 && (h.Method == "" || h.Method == "POST") {
		return errors.New("match is missing, so every event would be taken for the handshake")
	}
	for i := range h.Match {
		if err := h.Match[i].check(); err != nil {
			return fmt.Errorf("match[%d]: %w", i, err)
		}
	}
	for _, field := range h.Headers {
		if err := checkName(field.Name); err != nil {
			return fmt.Errorf("headers: %w", err)
		}
		if err := field.Value.check(h.Signed); err != nil {
			return fmt.Errorf("headers.%s: %w", field.Name, err)
		}
	}
	for i := range h.Body {
		if err := h.Body[i].check(h.Signed); err != nil {
			return fmt.Errorf("body[%d]: %w", i, err)
		}
	}
	return h.checkStore()
}

func (h *Handshake) checkStore() error {
	switch {
	case h.Store == nil:
		return nil
	case h.Store.Role == "":
		return errors.New("store: role is missing")
	}
	if err := h.Store.From.check(); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if k := h.Store.From.Kind; k != SourceHeader && k != SourceJSON && k != SourceQuery {
		return fmt.Errorf("store: a secret comes from header, json or query, not from %s",
			h.Store.From)
	}
	return nil
}

func (p *AnswerPart) check(signed bool) error {
	switch p.Kind {
	case AnswerLiteral:
		return nil
	case EchoHMAC:
		if !signed {
			return errors.New("an HMAC is given to signed requests only")
		}
	case Echo, EchoJSON:
	default:
		return errors.New("part is not set")
	}
	if err := p.From.check(); err != nil {
		return err
	}
	if p.From.Kind == SourceItem || p.From.Kind == SourceNumbered {
		return fmt.Errorf("%s cannot be repeated", p.From)
	}
	return nil
}
