package config

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
)

const hidden = "[secret]"

// Secret is a resolved secret. However it is printed, logged or encoded it reads [secret]; only
// Reveal gives the bytes. They sit behind two pointers because fmt calls no methods on what an
// unexported field of another struct holds: it then follows one pointer for some verbs, never two.
type Secret struct {
	origin string
	value  **[]byte
	recipe *recipe // nil: it came from elsewhere than a config
}

// NewSecret wraps bytes that came from elsewhere than a config; origin says where from.
func NewSecret(origin string, value []byte) Secret {
	behind := &value
	return Secret{origin: origin, value: &behind}
}

// Reveal gives the secret itself. The caller must not print or change it.
func (s Secret) Reveal() []byte {
	if s.value == nil {
		return nil
	}
	return **s.value
}

// Origin says where the secret came from (env:NAME, file:PATH, literal) and nothing about it.
func (s Secret) Origin() string { return s.origin }

// IsZero tells whether there is no secret, or none before its command was run.
func (s Secret) IsZero() bool { return s.value == nil }

// String hides the secret.
func (s Secret) String() string { return hidden }

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return hidden }

// Format hides the secret from every verb, also from those that skip String, such as %d.
func (s Secret) Format(state fmt.State, _ rune) {
	// An error of the sink is the printing caller's, who sees it there.
	_, _ = io.WriteString(state, hidden)
}

// MarshalText hides the secret from YAML and every encoder of text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// MarshalJSON hides the secret from JSON.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + hidden + `"`), nil }

// LogValue hides the secret from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// secret reads a secret that is read once: a reference, or a mapping with one under value.
func (r *reader) secret(it item) (Secret, bool) {
	secret, ok := r.secretOf(it, []string{"value"})
	secret.recipe = nil
	return secret, ok
}

// secretOf reads a secret that has some of the parts. One of a command is without its value.
func (r *reader) secretOf(it item, known []string) (Secret, bool) {
	c, ok := r.recipe(it, known)
	if !ok {
		return Secret{}, false
	}
	if c.command != nil {
		return Secret{origin: c.origin(), recipe: c}, true
	}
	secret, err := c.read(nil)
	if err != nil {
		r.refuse(c.blamed(err), err)
		return Secret{}, false
	}
	return secret, true
}

// resolve reads the secret that a reference names. No error repeats the text of a literal.
func (r *reader) resolve(text string) (value []byte, origin string, err error) {
	switch {
	case strings.HasPrefix(text, "env:"):
		origin = text
		name := strings.TrimPrefix(text, "env:")
		found, ok := r.options.LookupEnv(name)
		if !ok {
			return nil, origin, wrong("set it where sluice starts, or name another",
				"the environment variable %q is not set", name)
		}
		value = []byte(found)
	case strings.HasPrefix(text, "file:"):
		file := r.inFolder(strings.TrimPrefix(text, "file:"))
		origin = "file:" + file
		read, err := r.options.ReadFile(file)
		if err != nil {
			return nil, origin, wrong("make it readable for sluice, or name another",
				"the secret's file cannot be read: %v", err)
		}
		value = trimNewline(read)
	case r.options.Dev:
		origin, value = "literal", []byte(text)
	default:
		return nil, "", wrong(`write "env:NAME" or "file:PATH"`,
			"a secret is written out in the file, which only --dev takes")
	}
	if len(bytes.TrimSpace(value)) == 0 {
		return nil, origin, wrong("fill it, or name another", "the secret from %s is empty", origin)
	}
	if len(value) > secretBytesMax {
		return nil, origin, wrong("name the right one", "the secret from %s has %d bytes, over %s",
			origin, len(value), Size(secretBytesMax))
	}
	return value, origin, nil
}

// trimNewline drops the one line end that editors and `echo` leave behind a secret in a file.
func trimNewline(value []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(value, []byte("\n")), []byte("\r"))
}

// inFolder makes a path of the file absolute: it is relative to the file's folder.
func (r *reader) inFolder(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(r.folder, path)
}
