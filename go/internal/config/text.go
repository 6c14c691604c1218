package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Text is a value that a config may write out or refer to as env:NAME or file:PATH. What is
// written out is shown; what is referred to is a secret and shown as one.
type Text struct {
	plain  string
	secret Secret
}

// NewText is a text that is no secret.
func NewText(plain string) Text { return Text{plain: plain} }

// Reveal gives the text itself, which the caller must not print where it is a secret.
func (t Text) Reveal() string {
	if t.secret.IsZero() {
		return t.plain
	}
	return string(t.secret.Reveal())
}

// IsZero tells whether there is no text.
func (t Text) IsZero() bool { return t.plain == "" && t.secret.IsZero() }

// String hides a secret.
func (t Text) String() string {
	if t.secret.IsZero() {
		return t.plain
	}
	return hidden
}

// MarshalText hides a secret.
func (t Text) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// referred reads a value that may be a reference. No check may repeat what it is given.
func (r *reader) referred(it item, checks ...func(string) error) (Text, bool) {
	written, ok := r.scalar(it)
	if !ok {
		return Text{}, false
	}
	t := Text{plain: written}
	if isReference(written) {
		secret, ok := r.secret(it)
		if !ok {
			return Text{}, false
		}
		t = Text{secret: secret}
	}
	for _, check := range checks {
		if err := check(t.Reveal()); err != nil {
			r.refuse(it.path, err)
			return Text{}, false
		}
	}
	return t, true
}

// place reads a URL of one of the schemes. A password in it is a secret, so the whole URL must be
// referred to then.
func (r *reader) place(it item, example string, schemes ...string) (Text, bool) {
	t, ok := r.referred(it, isURL(example, schemes...))
	if !ok || !t.secret.IsZero() || r.options.Dev {
		return t, ok
	}
	// It was parsed a moment ago.
	if u, _ := url.Parse(t.plain); u.User != nil {
		r.fault(it.path, `write the whole URL as "env:NAME" or "file:PATH"`,
			"a user and password are written out in the file, which only --dev takes")
		return Text{}, false
	}
	return t, true
}

// isURL never repeats the text, which may hold a password.
func isURL(example string, schemes ...string) func(string) error {
	return func(text string) error {
		mend := "write it as " + example
		u, err := url.Parse(text)
		switch {
		case err != nil:
			return wrong(mend, "this is not a URL")
		case !slices.Contains(schemes, u.Scheme):
			return wrong(mend, "the URL begins with none of %s://", strings.Join(schemes, "://, "))
		case u.Hostname() == "":
			return wrong(mend, "the URL names no host")
		case u.Fragment != "":
			return wrong("take out what follows the #", "a fragment is never sent")
		}
		return nil
	}
}

// Header is a field that a destination gets beside the sender's.
type Header struct {
	Name  string
	Value Text
}

// Headers are in the file's order.
type Headers []Header

// MarshalYAML writes the form that a config takes.
func (h Headers) MarshalYAML() (any, error) {
	node := &yaml.Node{Kind: yaml.MappingNode}
	for i := range h {
		if err := add(node, h[i].Name, h[i].Value); err != nil {
			return nil, err
		}
	}
	return node, nil
}

// framing are the fields that say how a request is sent, and the one whose value is the event's id.
var framing = []string{
	"connection", "content-length", "expect", "host", "idempotency-key", "keep-alive",
	"proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
	"transfer-encoding", "upgrade",
}

func (r *reader) headers(t *table, signed bool) Headers {
	if len(t.fields) > headersMax {
		r.fault(t.path, "take some out", "%d headers are more than %d", len(t.fields), headersMax)
	}
	var headers Headers
	lower := map[string]string{}
	for i := range t.fields {
		it, name := t.entry(i), t.fields[i].key
		if err := checkToken(name); err != nil {
			r.refuse(it.path, err)
			continue
		}
		key := strings.ToLower(name)
		switch first, twice := lower[key]; {
		case twice:
			r.fault(it.path, "take one out", "%s and %s are one header", first, name)
		case slices.Contains(framing, key):
			r.fault(it.path, "take it out", "%s is not a config's to set", name)
		case signed && slices.Contains(signing, key):
			r.fault(it.path, "take it out, or take out sign", "%s is set by sign", name)
		}
		lower[key] = name
		if value, ok := r.referred(it, checkFieldValue); ok {
			headers = append(headers, Header{Name: name, Value: value})
		}
	}
	return headers
}

// signing are the fields of Standard Webhooks.
var signing = []string{"webhook-id", "webhook-signature", "webhook-timestamp"}

// checkFieldValue holds a value to RFC 9110 section 5.5 without its obsolete bytes.
func checkFieldValue(text string) error {
	for i := range len(text) {
		if c := text[i]; c < ' ' && c != '\t' || c > '~' {
			return wrong("write printable ASCII", "byte %d (0x%02x) cannot stand in a header", i, c)
		}
	}
	if strings.TrimSpace(text) != text {
		return wrong("take them out", "blanks at the ends of a header are not sent")
	}
	return nil
}

// checkExpression bounds an expression and has it compiled.
func (r *reader) checkExpression(kind string) func(string) error {
	return func(text string) error {
		if strings.TrimSpace(text) == "" {
			return wrong("write one, or take the key out", "the expression is empty")
		}
		if len(text) > expressionMax {
			return wrong("shorten it", "the expression has %d bytes, over %s", len(text),
				Size(expressionMax))
		}
		if r.options.CheckExpression == nil {
			return nil
		}
		if err := r.options.CheckExpression(kind, text); err != nil {
			return wrong("mend the expression", "%s", strings.ReplaceAll(err.Error(), "\n", " "))
		}
		return nil
	}
}

func named(what string) func(string) error {
	return func(text string) error {
		if strings.TrimSpace(text) == "" {
			return wrong(fmt.Sprintf("write a %s, or take the key out", what), "it is empty")
		}
		return nil
	}
}
