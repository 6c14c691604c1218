package provider

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"hash/crc32"
	"strconv"
)

// Verify judges one request. It allocates nothing for HMAC and token schemes unless the request is
// a handshake or an id in the body has escapes. The slices of the verdict are good until the memory
// of the request goes or the Verifier is used again.
func (v *Verifier) Verify(r *Request) Verdict {
	v.gather(r)
	v.token = webToken{header: v.token.header[:0], claims: v.token.claims[:0]}
	if v.program.unsigned {
		if response := v.answer(r, false, nil); response != nil {
			return Verdict{Outcome: OK, Secret: -1, Response: response}
		}
	}
	best := Verdict{Outcome: MissingHeader, Secret: -1}
	for i := range v.program.variants {
		c, span := &v.program.variants[i], v.program.keysOf[i]
		keys := v.keys[span[0]:span[1]]
		if len(keys) == 0 && len(v.keys) > 0 {
			continue // No secret is of this kind.
		}
		outcome, matched, detail := v.judge(r, c, keys)
		if outcome == OK {
			return v.accept(r, c, matched)
		}
		if best.Detail == "" || rank(outcome) > rank(best.Outcome) {
			best.Outcome, best.Detail = outcome, detail
		}
	}
	return best
}

// rank orders the outcomes of alternatives: the one that came furthest is the one to tell.
func rank(o Outcome) int {
	switch o {
	case Unavailable:
		return 4
	case Expired:
		return 3
	case BadSignature:
		return 2
	case Malformed:
		return 1
	}
	return 0
}

func (v *Verifier) accept(r *Request, c *variant, matched *keyState) Verdict {
	verdict := Verdict{Outcome: OK, Secret: -1}
	if matched != nil {
		verdict.Secret = matched.secret
	}
	if v.program.signed {
		if verdict.Response = v.answer(r, true, matched); verdict.Response != nil {
			return verdict
		}
	}
	verdict.EventID, verdict.EventType = v.identify(r, c.id)
	return verdict
}

// judge holds one variant against the request, or against each item of its batch.
func (v *Verifier) judge(r *Request, c *variant, keys []keyState) (Outcome, *keyState, string) {
	if c.Each == EachNone {
		return v.judgeOne(r, c, keys)
	}
	v.item = *r
	var first *keyState
	var best Outcome
	why := ""
	for raw, err := range c.batch.each(r.Body) {
		if err != nil {
			return Malformed, nil, err.Error()
		}
		v.item.Body = raw
		outcome, matched, detail := v.judgeOne(&v.item, c, keys)
		switch {
		case outcome == OK && c.Each == EachAny:
			return OK, matched, ""
		case outcome != OK && c.Each == EachAll:
			return outcome, nil, detail
		case outcome == OK && first == nil:
			first = matched
		case outcome != OK && (why == "" || rank(outcome) > rank(best)):
			best, why = outcome, detail
		}
	}
	switch {
	case first != nil:
		return OK, first, ""
	case why != "":
		return best, nil, why
	}
	return Malformed, nil, "the batch is empty, so nothing in it proves anything"
}

// judgeOne holds one variant against a request, or an item that stands for it.
func (v *Verifier) judgeOne(
	r *Request, c *variant, keys []keyState,
) (Outcome, *keyState, string) {
	switch c.Proofs[0].Algorithm {
	case None:
		return OK, nil, ""
	case ClientCertificate:
		outcome, detail := judgeClient(r.Client, c.ClientNames)
		return outcome, nil, detail
	case MessageSignature:
		return v.judgeMessage(r, c, keys)
	}
	var field []byte
	if c.signature.kind != SourceNumbered {
		value, outcome, detail := v.need(r, &c.signature)
		if outcome != OK {
			return outcome, nil, detail
		}
		field = value
	}
	if c.JWS != nil {
		signature, outcome, detail := v.openToken(c, field)
		if outcome != OK {
			return outcome, nil, detail
		}
		field = signature
	}
	clear(v.items)
	if c.Items.Assign != 0 {
		v.splitItems(c, field)
	}
	var timeText, keyID []byte
	if outcome, detail := v.prepare(r, c, &timeText, &keyID); outcome != OK {
		return outcome, nil, detail
	}
	t := trial{v: v, c: c, keys: keys, keyID: keyID, at: r.ReceivedNS}
	switch {
	case c.JWS != nil:
		t.seen = 1
		t.encoded(0, field)
	case c.signature.kind == SourceNumbered:
		t.numbered(r)
	case c.Items.Separator != 0:
		t.items(field)
	default:
		t.candidate(0, field)
	}
	switch {
	case t.repeated:
		return Malformed, nil, c.signature.twice
	case t.matched != nil && !v.bodyFits(r, c):
		return BadSignature, nil, "the body has not the hash in " + c.BodyHash.Name
	case t.matched != nil:
		outcome, detail := v.judgeTime(r, c, timeText)
		return outcome, t.matched, detail
	case t.seen == 0 && c.signature.kind == SourceNumbered:
		return MissingHeader, nil, c.signature.missing
	case t.wellFormed == 0 || t.seen > candidatesMax && c.signature.kind != SourceNumbered:
		return Malformed, nil, c.badForm
	case t.pending && v.program.published == nil:
		return Unavailable, nil, "the key " + errNoKeys.Error()
	case t.pending:
		return Unavailable, nil, "the key that the request names is not here yet"
	case t.late:
		return BadSignature, nil, "the secret that fits has expired or is not valid yet"
	}
	return BadSignature, nil, c.noProof
}

// splitItems fills the item slots of the variant from the labels of the signature field.
func (v *Verifier) splitItems(c *variant, field []byte) {
	if len(c.items) == 0 {
		return
	}
	for rest := field; len(rest) > 0; {
		var label, value []byte
		label, value, rest = c.Items.next(rest)
		for i, name := range c.items {
			if string(label) == name {
				if v.items[i].count++; v.items[i].count == 1 {
					v.items[i].value = value
				}
			}
		}
	}
}

// next cuts the first item off. An item without Assign has no label.
func (it Items) next(field []byte) (label, value, rest []byte) {
	item := field
	if at := bytes.IndexByte(field, it.Separator); at >= 0 {
		item, rest = field[:at], field[at+1:]
	}
	item = trimBlank(item)
	if it.Assign == 0 {
		return nil, item, rest
	}
	at := bytes.IndexByte(item, it.Assign)
	if at < 0 {
		return nil, nil, rest
	}
	return item[:at], item[at+1:], rest
}

// prepare reads everything but the signature and leaves the signed text in v.parts.
func (v *Verifier) prepare(r *Request, c *variant, timeText, keyID *[]byte) (Outcome, string) {
	for i := range v.keys {
		v.keys[i].fresh = false
	}
	v.digested = 0
	for i := range c.require {
		if !v.matches(r, &c.require[i]) {
			if _, outcome, detail := v.need(r, &c.require[i].from); outcome != OK &&
				!c.require[i].Absent {
				return outcome, detail
			}
			return Malformed, c.require[i].from.name + " has not the required value"
		}
	}
	var outcome Outcome
	var detail string
	// A time in the body is read after the proof: the body of a stranger is not parsed.
	if c.timed && c.time.kind != SourceJSON && c.time.kind != SourceClaim {
		if *timeText, outcome, detail = v.need(r, &c.time); outcome != OK {
			return outcome, detail
		}
		if _, ok := c.Timestamp.Format.parse(*timeText); !ok {
			return Malformed, "the timestamp has not its form"
		}
	}
	if c.keyID.kind != SourceNone {
		if *keyID, outcome, detail = v.need(r, &c.keyID); outcome != OK {
			return outcome, detail
		}
		if c.allows != nil && !c.allows.Allows(string(*keyID)) {
			return Malformed, "the URL of the key is none of the sender's"
		}
	}
	if v.parts = v.parts[:0]; c.JWS != nil {
		v.parts = append(v.parts, v.token.signed)
	}
	for i := range c.parts {
		p := &c.parts[i]
		var text []byte
		switch p.kind {
		case PartBody:
			text = r.Body
		case PartMethod:
			text = r.Method
		case PartTarget:
			text = r.Target
		case PartURL:
			if text = r.URL; len(text) == 0 {
				return Malformed, "the scheme signs the URL and the public URL is not known"
			}
		case PartForm, PartURLWithPort, PartURLWithoutPort:
			made, ok := p.kind.derived(string(r.URL), r.Body)
			if !ok {
				return Malformed, "URL or body have not the form that is signed"
			}
			text = made
		case PartTimestamp:
			if text = *timeText; c.time.kind == SourceJSON {
				text, outcome, detail = v.need(r, &c.time)
			}
		case PartSource:
			if p.optional {
				value, state := v.read(r, &p.from)
				switch state {
				case absent:
					continue
				case repeated:
					return Malformed, p.from.twice
				}
				v.parts = append(v.parts, p.before, value, p.after)
				continue
			}
			text, outcome, detail = v.need(r, &p.from)
		default:
			text, outcome, detail = v.made(r, p)
		}
		if outcome != OK {
			return outcome, detail
		}
		v.parts = append(v.parts, text)
	}
	return OK, ""
}

// made is the text of a part that is no slice of the request.
func (v *Verifier) made(r *Request, p *part) ([]byte, Outcome, string) {
	switch p.kind {
	case PartBodyCRC32:
		return strconv.AppendUint(v.crcText[:0], uint64(crc32.ChecksumIEEE(r.Body)), 10), OK, ""
	case PartBodySHA256:
		sum := sha256.Sum256(r.Body)
		hex.Encode(v.hashText[:], sum[:])
		return v.hashText[:], OK, ""
	case PartSecret:
		return v.known(r, p)
	case PartHeaders:
		names, outcome, detail := v.need(r, &p.from)
		if outcome != OK {
			return nil, outcome, detail
		}
		var ok bool
		if v.listed, ok = p.list.appendListed(v.listed[:0], r, names, p.must); !ok {
			return nil, Malformed, "a header field that is signed, or has to be, is missing"
		}
		return v.listed, OK, ""
	}
	return p.literal, OK, ""
}

// known is the text of a PartSecret.
func (v *Verifier) known(r *Request, p *part) ([]byte, Outcome, string) {
	var sent []byte
	if p.from.kind != SourceNone {
		value, outcome, detail := v.need(r, &p.from)
		if outcome != OK {
			return nil, outcome, detail
		}
		sent = value
	}
	configured := false
	for _, role := range v.program.roles {
		if role.name != string(p.literal) {
			continue
		}
		configured = true
		if role.valid.holds(r.ReceivedNS) && (sent == nil || bytes.Equal(role.value, sent)) {
			return role.value, OK, ""
		}
	}
	if sent != nil && !configured {
		return sent, OK, ""
	}
	return nil, BadSignature, "no secret of the role " + string(p.literal) + " fits now"
}

// bodyFits holds the body against the hash that is signed in its place, if the scheme has one.
func (v *Verifier) bodyFits(r *Request, c *variant) bool {
	var text []byte
	var state presence
	switch c.BodyHash.Kind {
	case SourceNone:
		return true
	case SourceQuery:
		text, state = readQuery(r.URL, c.BodyHash.Name)
	default:
		text, state = v.read(r, &c.bodyHash)
	}
	sum := sha256.Sum256(r.Body)
	var want [2 * sha256.Size]byte
	hex.Encode(want[:], sum[:])
	return state == present && subtle.ConstantTimeCompare(want[:], text) == 1
}

// judgeTime holds the signed time against the time of receipt, after the proof.
func (v *Verifier) judgeTime(r *Request, c *variant, text []byte) (Outcome, string) {
	if c.JWS != nil && !c.timeless {
		if outcome, detail := v.judgeClaims(c, r.ReceivedNS); outcome != OK {
			return outcome, detail
		}
	}
	if !c.timed {
		return OK, ""
	}
	if in := c.time.kind; in == SourceJSON || in == SourceClaim {
		doc := r.Body
		if in == SourceClaim {
			doc = v.token.claims
		}
		raw, kind := c.time.pointer.find(doc)
		if kind == jsonNothing && c.Timestamp.Optional {
			return OK, ""
		}
		if kind != jsonNumber && !(kind == jsonString && c.Timestamp.JSONString) {
			return Malformed, "the timestamp in the body is missing or of another kind"
		}
		switch text = raw; {
		case kind == jsonString:
			text = unquote(raw)
		case in == SourceClaim:
			text = wholeSeconds(raw)
		}
	}
	sent, ok := c.Timestamp.Format.parse(text)
	if !ok {
		return Malformed, "the timestamp has not its form"
	}
	if c.tolerance >= 0 && !c.Timestamp.Format.within(sent, r.ReceivedNS, c.tolerance, c.future) {
		return Expired, "the timestamp is further from now than the tolerance"
	}
	return OK, ""
}
