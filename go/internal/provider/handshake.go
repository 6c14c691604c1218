package provider

import (
	"bytes"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
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
	Headers     [][2]string
	Body        []AnswerPart
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

type handshakeRule struct {
	*Handshake
	match []matchRule
	body  []place
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
		if body, ok := v.answerBody(r, rule, matched); ok {
			response := &Response{Status: rule.Status, ContentType: rule.ContentType, Body: body}
			for _, pair := range rule.Headers {
				response.Headers = append(response.Headers, Field{[]byte(pair[0]), []byte(pair[1])})
			}
			return response
		}
	}
	return nil
}

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
			if role.name == rule.Secret {
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

// answerBody is false if a value to be repeated is not there or too long to be an honest one.
func (v *Verifier) answerBody(r *Request, rule *handshakeRule, matched *keyState) ([]byte, bool) {
	var body bytes.Buffer
	for i, part := range rule.Body {
		if part.Kind == AnswerLiteral {
			body.WriteString(part.Literal)
			continue
		}
		value, state := v.read(r, &rule.body[i])
		if state != present || len(value) > echoMax {
			return nil, false
		}
		switch part.Kind {
		case EchoJSON:
			quoted, err := json.Marshal(string(value))
			if err != nil {
				return nil, false
			}
			body.Write(quoted)
		case EchoHMAC:
			if matched == nil || matched.mac == nil {
				return nil, false
			}
			matched.mac.Reset()
			matched.mac.Write(value)
			body.WriteString(hex.EncodeToString(matched.mac.Sum(nil)))
		default:
			body.Write(value)
		}
	}
	return body.Bytes(), true
}
