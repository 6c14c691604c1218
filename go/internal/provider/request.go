package provider

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// Field is one header field as it came: the name's case kept, blanks around the value allowed.
type Field struct{ Name, Value []byte }

// Request is what is judged. All slices are read only and none is kept after a call.
type Request struct {
	Method, Target []byte
	// URL is the public URL that the sender called, for the schemes that sign it. It may be empty.
	URL     []byte
	Body    []byte
	Headers []Field
	// Client is the names in the client certificate that TLS has verified, one a line, in the form
	// kind:name; empty: the sender showed none.
	Client []byte
	// ReceivedNS is when the request was whole, in ns since 1970. Tolerances are judged at this
	// time, so that judging again later gives the same outcome.
	ReceivedNS int64
}

// Outcome is the judgement over one request.
type Outcome uint8

// The outcomes. MissingHeader: something that the scheme needs is not there at all. Malformed: it
// is there, but not in the form of the scheme. BadSignature: the form is right, the proof fits no
// secret. Expired: the proof fits, the time does not. Unavailable: the key that the request names
// is published somewhere and not here yet, so nobody can tell; the sender may ask again.
const (
	OK Outcome = iota
	BadSignature
	Expired
	MissingHeader
	Malformed
	Unavailable
)

func (o Outcome) String() string {
	switch o {
	case OK:
		return "ok"
	case BadSignature:
		return "bad-signature"
	case Expired:
		return "expired"
	case MissingHeader:
		return "missing-header"
	case Malformed:
		return "malformed"
	case Unavailable:
		return "unavailable"
	}
	return fmt.Sprintf("outcome(%d)", uint8(o))
}

// Response answers a handshake. The request behind it is not an event and is not stored.
type Response struct {
	Status      int
	ContentType string
	Headers     []Field
	Body        []byte
	// Learned are secrets that the sender handed over. They must be kept before the answer leaves.
	Learned []Learned
}

// Learned is a secret that came in a handshake. Value may alias the request. It never prints.
type Learned struct {
	Role  string
	Value []byte
}

// String hides the secret.
func (Learned) String() string { return redacted }

// Format hides the secret from every verb.
func (Learned) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue hides the secret from slog.
func (Learned) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText hides the secret from encoders.
func (Learned) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Verdict is what Verify found. EventID and EventType may alias the request.
type Verdict struct {
	Outcome Outcome
	// Secret is the index of the secret that matched, or -1.
	Secret int
	// EventID is the sender's id of the event; nil if there is none or the outcome is not OK, since
	// an id without a proof could push out the genuine event.
	EventID, EventType []byte
	// Response is set if the request is a handshake.
	Response *Response
	// Detail says which check failed, for our log only. It holds no part of the request and nothing
	// derived from a secret.
	Detail string
}

// ParseHeaders reads "Name: value" lines. Empty lines are skipped; there is no line folding.
func ParseHeaders(text []byte) ([]Field, error) {
	var fields []Field
	number := 0
	for line := range bytes.Lines(text) {
		number++
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			continue
		}
		name, value, found := bytes.Cut(line, []byte{':'})
		if !found {
			return nil, fmt.Errorf("line %d: no colon, want `Name: value`", number)
		}
		if err := checkName(name); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		fields = append(fields, Field{Name: name, Value: value})
	}
	return fields, nil
}

var errName = errors.New("header name is empty or has a byte that no header name may have")

// checkName holds name against the token rule of RFC 9110, section 5.6.2.
func checkName[T string | []byte](name T) error {
	if len(name) == 0 {
		return errName
	}
	for i := range len(name) {
		c := name[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), c) >= 0:
		default:
			return errName
		}
	}
	return nil
}

// ParseFieldName takes the name of a header field.
func ParseFieldName(text string) (string, error) { return text, checkName(text) }

// trimBlank takes the blanks off that may stand around a field value (RFC 9110, section 5.5).
func trimBlank(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// equalFold compares name with lower, which is in lower case already, without regard to ASCII case.
func equalFold(name []byte, lower string) bool {
	if len(name) != len(lower) {
		return false
	}
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}
