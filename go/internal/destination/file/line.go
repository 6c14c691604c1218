package file

import (
	"bytes"
	"encoding/json"
	"time"
	"unicode/utf8"

	"sluice/go/internal/destination"
)

// line is one event in the file. ID comes first: torn tells our own lines by it.
type line struct {
	ID         string    `json:"id"`
	Source     string    `json:"source"`
	ReceivedAt time.Time `json:"received_at"`
	Method     string    `json:"method"`
	Target     text      `json:"target"`
	Headers    [][2]text `json:"headers"` // in wire order
	Body       []byte    `json:"body"`    // base64
}

// lineStart begins every line of ours.
const lineStart = `{"id":"`

// text is a JSON string, or {"base64":"…"} where the bytes are not UTF-8: JSON has no bytes, and
// replacing what does not fit would lose what the sender signed.
type text string

func (t text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return encode(string(t))
	}
	return encode(map[string][]byte{"base64": []byte(t)})
}

// encode is json.Marshal without the escapes that only HTML needs.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}

// format gives the line of an event, the newline included.
func format(r *destination.Request) ([]byte, error) {
	l := line{
		ID: r.EventID.String(), Source: r.Source, ReceivedAt: time.Unix(0, r.ReceivedNS).UTC(),
		Method: r.Method, Target: text(r.Target), Headers: make([][2]text, 0, len(r.Headers)),
		Body: r.Body,
	}
	if l.Body == nil {
		l.Body = []byte{}
	}
	for _, h := range r.Headers {
		l.Headers = append(l.Headers, [2]text{text(h.Name), text(h.Value)})
	}
	return encode(l)
}
