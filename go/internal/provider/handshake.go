package provider

import (
	"bytes"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// Handshake is a rule for a request that is not an event but a question of the sender.
type Handshake struct {
	Name string
	// Method is required if set, and is then taken by the source next to its own methods.
	Method string
	// Signed rules are looked at only after the proof held; the others before.
	Signed bool
	// Match must hold as a whole.
	Match []Match
	// Status, ContentType, Headers and Body are the answer.
	Status      int
	ContentType string
	Headers     []AnswerField
	Body        []AnswerPart
	// Store is set if the sender hands a secret over. Such a rule is only looked at with
	// Options.Learn: whoever may answer it decides what the source believes from then on.
	Store *Store
}

// Store says which value of a handshake becomes a secret of the source, and of which role.
type Store struct {
	Role string
	From Source
}

// Match is a condition on one value. At most one of Equals, Media, Absent and Secret is used; with
// none of them the value must be there.
type Match struct {
	From   Source
	Equals string
	// Media compares a media type without its parameters and without regard to case.
	Media  string
	Absent bool
	// Secret names the role of a configured secret that the value must equal.
	Secret string
}

// AnswerKind says what an AnswerPart writes.
type AnswerKind uint8

// The kinds of answer parts: EchoJSON is a quoted JSON string, EchoHMAC the hex HMAC-SHA256 of the
// value under the secret that matched.
const (
	AnswerLiteral AnswerKind = iota + 1
	Echo
	EchoJSON
	EchoHMAC
)

// AnswerPart is one piece of the body of an answer.
type AnswerPart struct {
	Kind    AnswerKind
	Literal string
	From    Source
}

// AnswerField is a header field of an answer.
type AnswerField struct {
	Name  string
	Value AnswerPart
}

type handshakeRule struct {
	*Handshake
	match   []matchRule
	body    []place
	headers []place
	store   place
}

type matchRule struct {
	Match
	from place
}

// answer runs the rules of one kind. matched is the key of the proof, or nil.
func (v *Verifier) answer(r *Request, signed bool, matched *keyState) *Response {
	if len(r.Body) > handshakeBodyMax {
		return nil
	}
	for i := range v.program.handshakes {
		rule := &v.program.handshakes[i]
		if rule.Signed != signed || rule.Method != "" && rule.Method != string(r.Method) {
			continue
		}
		if !v.matchAll(r, rule.match) {
			continue
		}
		if response, ok := v.respond(r, rule, matched); ok {
			return response
		}
	}
	return nil
}

// respond is false if a value to be repeated is not there or too long to be an honest one.
func (v *Verifier) respond(r *Request, rule *handshakeRule, matched *keyState) (*Response, bool) {
	response := &Response{Status: rule.Status, ContentType: rule.ContentType}
	var body bytes.Buffer
	for i, part := range rule.Body {
		if !v.write(&body, r, part, &rule.body[i], matched) {
			return nil, false
		}
	}
	response.Body = body.Bytes()
	for i, field := range rule.Headers {
		var value bytes.Buffer
		if !v.write(&value, r, field.Value, &rule.headers[i], matched) ||
			bytes.ContainsFunc(value.Bytes(), endsField) {
			return nil, false
		}
		response.Headers = append(response.Headers, Field{[]byte(field.Name), value.Bytes()})
	}
	if rule.Store != nil {
		value, state := v.read(r, &rule.store)
		if state != present || len(value) > learnedMax {
			return nil, false
		}
		response.Learned = []Learned{{Role: rule.Store.Role, Value: value}}
	}
	return response, true
}

// endsField tells whether a character may not stand in a field value (RFC 9110, section 5.5): what
// is repeated comes from a stranger, who must not write header lines of ours.
func endsField(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

func (v *Verifier) matchAll(r *Request, rules []matchRule) bool {
	for i := range rules {
		if !v.matches(r, &rules[i]) {
			return false
		}
	}
	return true
}

func (v *Verifier) matches(r *Request, rule *matchRule) bool {
	value, state := v.read(r, &rule.from)
	switch {
	case rule.Absent:
		return state == absent
	case state != present:
		return false
	case rule.Secret != "":
		equal := 0
		for _, role := range v.program.roles {
			if role.name == rule.Secret && role.valid.holds(r.ReceivedNS) {
				equal |= subtle.ConstantTimeCompare(role.value, value)
			}
		}
		return equal == 1
	case rule.Media != "":
		return bytes.EqualFold(mediaType(value), []byte(rule.Media))
	case rule.Equals != "":
		return string(value) == rule.Equals
	}
	return true
}

// write adds one part of an answer; false if its value is not there or too long.
func (v *Verifier) write(
	to *bytes.Buffer, r *Request, part AnswerPart, from *place, matched *keyState,
) bool {
	if part.Kind == AnswerLiteral {
		to.WriteString(part.Literal)
		return true
	}
	value, state := v.read(r, from)
	if state != present || len(value) > echoMax {
		return false
	}
	switch part.Kind {
	case EchoJSON:
		quoted, err := json.Marshal(string(value))
		if err != nil {
			return false
		}
		to.Write(quoted)
	case EchoHMAC:
		if matched == nil || matched.mac == nil {
			return false
		}
		matched.mac.Reset()
		matched.mac.Write(value)
		to.WriteString(hex.EncodeToString(matched.mac.Sum(nil)))
	default:
		to.Write(value)
	}
	return true
}

func (h *Handshake) check() error {
	if h.Status < 200 || h.Status > 299 {
		return faultAt("status", "%d is not between 200 and 299", h.Status)
	}
	if h.Method != "" {
		if err := checkName(h.Method); err != nil {
			return under("method", err)
		}
	}
	if len(h.Match) == 0 && (h.Method == "" || h.Method == "POST") {
		return faultAt("match", "is missing, so every event would be taken for the handshake")
	}
	if n := len(h.Match); n > matchesMax {
		return faultAt("match", "%d conditions are more than %d", n, matchesMax)
	}
	for i := range h.Match {
		err := h.Match[i].check()
		if err == nil {
			err = checkAsked(h.Match[i].From)
		}
		if err != nil {
			return under(nth("match", i), err)
		}
	}
	for _, field := range h.Headers {
		err := checkName(field.Name)
		if err == nil {
			err = field.Value.check(h.Signed)
		}
		if err != nil {
			return under("headers."+field.Name, err)
		}
	}
	for i := range h.Body {
		if err := h.Body[i].check(h.Signed); err != nil {
			return under(nth("body", i), err)
		}
	}
	if h.Store == nil {
		return nil
	}
	if h.Store.Role == "" {
		return faultAt("store.role", "is missing")
	}
	return under("store.from", checkAsked(h.Store.From))
}

// checkAsked is for what a handshake reads: it is looked at without a signature field.
func checkAsked(s Source) error {
	switch s.Kind {
	case SourceHeader, SourceJSON, SourceQuery, SourceForm:
		return s.check()
	}
	return fmt.Errorf("want header, json, query or form, not %s", s)
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
	return checkAsked(p.From)
}
