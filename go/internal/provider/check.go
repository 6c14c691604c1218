package provider

import (
	"errors"
	"fmt"
	"slices"
)

// SchemeError is one thing that is wrong with a scheme. Path is the key at which it stands in the
// form of package catalogue, such as any_of[1].content[2], and empty for the scheme as a whole.
type SchemeError struct{ Path, Reason string }

func (e *SchemeError) Error() string {
	if e.Path == "" {
		return e.Reason
	}
	return e.Path + ": " + e.Reason
}

func faultAt(path, format string, args ...any) error {
	return &SchemeError{path, fmt.Sprintf(format, args...)}
}

// under puts the path of an error under a key.
func under(key string, err error) error {
	if err == nil {
		return nil
	}
	var fault *SchemeError
	switch {
	case !errors.As(err, &fault):
		return &SchemeError{key, err.Error()}
	case fault.Path == "":
		return &SchemeError{key, fault.Reason}
	}
	return &SchemeError{key + "." + fault.Path, fault.Reason}
}

func nth(key string, i int) string { return fmt.Sprintf("%s[%d]", key, i) }

// Check finds what is wrong with a scheme before any request meets it: fields that contradict each
// other, and forms that would protect less than they seem to. The error is a *SchemeError.
func (s *Scheme) Check() error {
	if len(s.AnyOf) == 0 {
		return faultAt("", "the scheme has no way to verify")
	}
	for i := range s.AnyOf {
		err := s.AnyOf[i].check()
		if err == nil && s.AnyOf[i].Each != EachNone && s.Batch == nil {
			err = faultAt("each", "needs batch, which says where the items are")
		}
		if err != nil {
			return under(nth("any_of", i), err)
		}
	}
	if err := checkIdentities("id", s.ID); err != nil {
		return err
	}
	if err := checkIdentities("type", s.Type); err != nil {
		return err
	}
	if n := len((IDFrom{}).Places(s)); n > idPlacesMax {
		return faultAt("id", "an id in one of %d places; %d are the most", n, idPlacesMax)
	}
	if s.Batch != nil {
		if err := s.Batch.check(); err != nil {
			return under("batch", err)
		}
	}
	if n := len(s.Contract.RetryHeaders.Value); n > retryHeadersMax {
		return faultAt("contract.retry_headers", "%d are more than %d", n, retryHeadersMax)
	}
	if n := len(s.Handshakes); n > handshakesMax {
		return faultAt("handshakes", "%d are more than %d", n, handshakesMax)
	}
	for i := range s.Handshakes {
		if err := s.Handshakes[i].check(); err != nil {
			return under(nth("handshakes", i), err)
		}
	}
	return nil
}

func checkIdentities(key string, list []Source) error {
	for i, source := range list {
		err := source.check()
		switch source.Kind {
		case SourceHeader, SourceJSON, SourceQuery, SourceForm, SourceClaim:
		default:
			err = fmt.Errorf("want header, json, query, form or claim, not %s", source)
		}
		if err != nil {
			return under(nth(key, i), err)
		}
	}
	return nil
}

func (v *Variant) check() error {
	if err := checkIdentities("id", v.ID); err != nil {
		return err
	}
	if err := v.checkProofs(); err != nil {
		return err
	}
	if a := v.Proofs[0].Algorithm; a.keyless() || a == MessageSignature {
		return nil
	}
	if err := v.checkSignature(); err != nil {
		return err
	}
	if v.KeyID.Kind != SourceNone {
		if err := v.checkSource(v.KeyID); err != nil {
			return under("key_id", err)
		}
	}
	for i := range v.Require {
		m := &v.Require[i]
		err := m.check()
		if err == nil {
			err = v.checkSource(m.From)
		}
		if err == nil && m.Secret != "" {
			err = errors.New("a secret is for handshakes only")
		}
		if err != nil {
			return under(nth("require", i), err)
		}
	}
	if err := v.checkTimestamp(); err != nil {
		return under("timestamp", err)
	}
	return v.checkContent()
}

func (v *Variant) checkSignature() error {
	if err := v.Signature.check(); err != nil {
		return under("signature", err)
	}
	switch v.Signature.Kind {
	case SourceItem, SourceClaim, SourceJOSE:
		return faultAt("signature", "%s is a part of the signature field, not its place", v.Signature)
	case SourceNumbered:
		if v.Items != (Items{}) || v.JWS != nil {
			return faultAt("items", "a numbered family has one signature a field")
		}
	}
	if v.JWS != nil {
		return v.checkJWS()
	}
	return nil
}

func (v *Variant) checkJWS() error {
	p := &v.Proofs[0]
	switch {
	case algorithms[p.Algorithm].jose == "":
		return faultAt("algorithm", "a JSON Web Signature is not made with %s", p.Algorithm)
	case v.Items != (Items{}):
		return faultAt("items", "a JSON Web Signature is one field")
	case len(v.Content) > 0:
		return faultAt("content", "a JSON Web Signature carries what it signs")
	case v.JWS.Leeway < 0:
		return faultAt("jws.leeway", "is negative")
	case v.Each != EachNone:
		return faultAt("each", "a JSON Web Signature is not made for an item")
	}
	return nil
}

func (v *Variant) checkProofs() error {
	if len(v.Proofs) == 0 {
		return faultAt("algorithm", "is missing")
	}
	labels := map[string]bool{}
	for i := range v.Proofs {
		p := &v.Proofs[i]
		err := v.checkProof(p)
		if err == nil && labels[p.Label] {
			err = faultAt("label", "%q stands twice", p.Label)
		}
		if err != nil {
			return under(nth("proofs", i), err)
		}
		labels[p.Label] = true
	}
	if kind := v.Proofs[0].Algorithm.kind(); kind == kindKeyless || kind == kindMessage {
		return nil
	}
	named := v.Items.Assign != 0 && !v.Items.KeyIDs
	switch {
	case v.Items.Assign != 0 && v.Items.Separator == 0:
		return faultAt("items", "assign needs a separator")
	case v.Items.Assign != 0 && v.Items.Assign == v.Items.Separator:
		return faultAt("items", "assign and separator are the same")
	case v.Items.KeyIDs && v.Items.Assign == 0:
		return faultAt("items", "label needs assign")
	case v.Items.KeyIDs && v.KeyID.Kind != SourceNone:
		return faultAt("key_id", "the labels of the items are the key ids")
	case named && labels[""]:
		return faultAt("label", "is missing: with labelled items each proof has one")
	case !named && (len(v.Proofs) > 1 || !labels[""]):
		return faultAt("label", "needs items with assign")
	}
	return nil
}

func (v *Variant) checkProof(p *Proof) error {
	kind := p.Algorithm.kind()
	if kind == kindUnknown {
		return faultAt("algorithm", "is missing")
	}
	if kind == kindKeyless {
		switch {
		case len(v.Proofs) > 1 || v.Signature.Kind != SourceNone || v.JWS != nil:
			return faultAt("algorithm", "one without a key stands alone")
		case p.Algorithm == ClientCertificate:
			return checkClientNames(v.ClientNames)
		}
		return nil
	}
	if kind == kindMessage {
		if len(v.Proofs) > 1 || v.Signature.Kind != SourceNone || len(v.Content) > 0 || v.JWS != nil {
			return faultAt("algorithm", "rfc9421 stands alone, with components and max_age")
		}
		return nil
	}
	if len(v.Components) > 0 || v.MaxAge != 0 {
		return faultAt("algorithm", "components and max_age are for rfc9421")
	}
	if p.Algorithm.signsText() != v.Proofs[0].Algorithm.signsText() {
		return faultAt("algorithm", "a token and a signature do not share one field")
	}
	if weak := algorithms[p.Algorithm].weak; weak != "" && !v.Legacy {
		return faultAt("algorithm", "%s is weak: %s; say legacy: true, and the source allow_legacy",
			p.Algorithm, weak)
	}
	if kind == kindPublic && v.Each != EachNone {
		return faultAt("algorithm", "%s costs too much for each of many items", p.Algorithm)
	}
	if err := v.checkForms(p); err != nil {
		return err
	}
	return under("key", v.checkKey(p))
}

// checkForms holds the forms of the signature against the algorithm.
func (v *Variant) checkForms(p *Proof) error {
	switch {
	case v.JWS != nil && p.Encoding != 0:
		return faultAt("encoding", "a JSON Web Signature has its own")
	case v.JWS == nil && (p.Encoding < Hex || p.Encoding > EncodingText):
		return faultAt("encoding", "is missing")
	case p.Encoding == EncodingText && p.Algorithm != Token:
		return faultAt("encoding", "text is for tokens only")
	case p.PrefixOptional && p.Prefix == "":
		return faultAt("prefix_optional", "there is no prefix")
	case v.JWS != nil && p.Raw:
		return faultAt("raw", "a JSON Web Signature is always so")
	case p.Raw && p.Algorithm != ECDSAP256 && p.Algorithm != ECDSAP384:
		return faultAt("raw", "is for ECDSA")
	}
	return nil
}

func (v *Variant) checkKey(p *Proof) error {
	public := p.Algorithm.kind() == kindPublic
	switch f := &p.Key; {
	case public && p.Algorithm != Ed25519 && f.Encoding != KeySPKI:
		return faultAt("encoding", "%s needs a public key: say spki", p.Algorithm)
	case !public && f.Encoding == KeySPKI:
		return faultAt("encoding", "spki is a public key, which %s does not use", p.Algorithm)
	case f.Encoding == KeySHA1 && !v.Legacy:
		return faultAt("encoding", "sha1 takes the strength of SHA-1 from the key; say legacy: true, "+
			"and the source allow_legacy")
	case f.Remote == nil:
		return nil
	case !public:
		return faultAt("remote", "only public keys are published")
	case v.Items.KeyIDs || len(v.Proofs) > 1:
		return faultAt("remote", "goes with a single proof")
	}
	return under("remote", p.Key.Remote.check(v))
}

func (v *Variant) checkTimestamp() error {
	t := v.Timestamp
	if t.From.Kind == SourceNone {
		if t.Format != TimeNone || t.Tolerance != 0 {
			return faultAt("from", "is missing")
		}
		return nil
	}
	if err := v.checkSource(t.From); err != nil {
		return under("from", err)
	}
	switch {
	case t.Format < UnixSeconds || t.Format > HTTPDate:
		return faultAt("format", "is missing")
	case t.Tolerance < 0:
		return faultAt("tolerance", "is negative")
	case t.Future < 0 || t.Future > 0 && t.Tolerance == 0:
		return faultAt("future", "stands beside a tolerance, and is not negative")
	case t.JSONString && t.From.Kind != SourceJSON && t.From.Kind != SourceClaim:
		return faultAt("json_string", "is for a time in the body or in a claim")
	case t.Optional && t.From.Kind != SourceClaim && (t.From.Kind != SourceJSON || v.UnsignedBody):
		return faultAt("optional", "anybody could take the time away: it has to be in a signed "+
			"body or in a claim")
	}
	return nil
}

// checkSource is for what a variant reads.
func (v *Variant) checkSource(s Source) error {
	if err := s.check(); err != nil {
		return err
	}
	switch s.Kind {
	case SourceItem:
		if v.Items.Assign == 0 {
			return fmt.Errorf("%s needs items with assign", s)
		}
	case SourceNumbered, SourceBody:
		return fmt.Errorf("%s: only a signature comes from there", s)
	case SourceClaim, SourceJOSE:
		if v.JWS == nil {
			return fmt.Errorf("%s needs jws", s)
		}
	}
	return nil
}

func (v *Variant) checkContent() error {
	if !v.Proofs[0].Algorithm.signsText() {
		if len(v.Content) > 0 || v.Timestamp.From.Kind != SourceNone {
			return faultAt("content", "a token signs nothing, so neither content nor timestamp "+
				"would be protected")
		}
		return nil
	}
	signs := signedText{claims: v.JWS != nil}
	for i := range v.Content {
		if err := v.checkPart(&v.Content[i], &signs); err != nil {
			return under(nth("content", i), err)
		}
	}
	if err := v.checkBodyHash(&signs); err != nil {
		return under("body_hash", err)
	}
	if !signs.body && !v.UnsignedBody {
		return faultAt("content", "body is missing; "+
			"if the sender does not sign it say unsigned_body: true")
	}
	from := v.Timestamp.From.Kind
	timed := signs.time || signs.body && from == SourceJSON || from == SourceClaim
	if v.Timestamp.Tolerance > 0 && !timed {
		return faultAt("timestamp", "it is not part of the content, so anybody could change it")
	}
	return nil
}

// signedText is what a content covers.
type signedText struct {
	body, time, url, claims bool
	headers                 []Source
}

func (v *Variant) checkPart(p *Part, signs *signedText) error {
	switch p.Kind {
	case PartBody, PartForm, PartBodyCRC32, PartBodySHA256:
		signs.body = true
	case PartURL, PartURLWithPort, PartURLWithoutPort:
		signs.url = true
	case PartTimestamp:
		if v.Timestamp.From.Kind == SourceNone {
			return errors.New("timestamp is not configured")
		}
		signs.time = true
	case PartSource:
		if err := v.checkSource(p.Source); err != nil {
			return err
		}
		if p.Optional && p.Source == v.Timestamp.From {
			return errors.New("the time is not optional")
		}
		signs.time = signs.time || p.Source == v.Timestamp.From
		signs.headers = append(signs.headers, p.Source)
	case PartSecret:
		if p.Role == "" {
			return errors.New("secret: role is missing")
		}
		if p.Source.Kind != SourceNone {
			return v.checkSource(p.Source)
		}
	case PartHeaders:
		if err := v.checkSource(p.Source); err != nil {
			return err
		}
		if p.List.Separator == 0 || p.List.Assign == 0 || p.List.Join == 0 {
			return errors.New("headers: separator, assign and join are needed")
		}
		// The time's field has to be in the list, which is looked at in each request.
		signs.time = true
	case PartLiteral, PartMethod, PartTarget:
	default:
		return errors.New("part is not set")
	}
	return nil
}

func (v *Variant) checkBodyHash(signs *signedText) error {
	switch from := v.BodyHash; {
	case from.Kind == SourceNone:
		return nil
	case from.Kind == SourceQuery && from.Name != "" && signs.url,
		from.Kind == SourceClaim && signs.claims,
		from.Kind == SourceHeader && slices.Contains(signs.headers, from):
		signs.body = true
		return v.BodyHash.check()
	}
	return errors.New("it is a parameter of the query of a signed URL, a header field in the " +
		"content, or a claim")
}

func (m *Match) check() error {
	if err := m.From.check(); err != nil {
		return under("from", err)
	}
	switch m.From.Kind {
	case SourceItem, SourceNumbered, SourceBody:
		return faultAt("from", "%s cannot be matched", m.From)
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
