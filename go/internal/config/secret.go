package config

import (
	"encoding/json"
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

// IsZero tells whether there is no secret.
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

// plainParts are the parts of a secret that are no secret and may stand in the file.
var plainParts = map[string]bool{"key_id": true, "role": true, "url": true, "user": true}

// secret reads one entry of `secrets`: a reference, or a mapping of parts for providers whose key
// has several. Parts become one JSON object, the form that `sluice verify --secret` takes too.
func (r *reader) secret(it item) (Secret, bool) {
	if it.isTable() {
		return r.secretOfParts(it)
	}
	text, ok := r.scalar(it)
	if !ok {
		return Secret{}, false
	}
	return r.resolve(it.path, text)
}

func (r *reader) secretOfParts(it item) (Secret, bool) {
	table := r.table(it)
	if len(table.fields) == 0 {
		r.fault(it.path, `write "env:NAME" or "file:PATH"`, "the secret is empty")
		return Secret{}, false
	}
	parts, origins, good := map[string]string{}, []string{}, true
	for i := range table.fields {
		part := table.entry(i)
		text, ok := r.scalar(part)
		if !ok {
			good = false
			continue
		}
		key := table.fields[i].key
		if plainParts[key] && !isReference(text) {
			parts[key] = text
			continue
		}
		value, ok := r.resolve(part.path, text)
		if !ok {
			good = false
			continue
		}
		parts[key] = string(value.Reveal())
		origins = append(origins, value.origin)
	}
	if !good {
		return Secret{}, false
	}
	origin := strings.Join(origins, "+")
	if value, alone := parts["value"]; alone && len(parts) == 1 {
		return NewSecret(origin, []byte(value)), true
	}
	// A map of strings always encodes.
	object, _ := json.Marshal(parts)
	return NewSecret(origin, object), true
}

func isReference(text string) bool {
	return strings.HasPrefix(text, "env:") || strings.HasPrefix(text, "file:")
}

// resolve turns a reference into the secret it names. No fault repeats the text of a literal.
func (r *reader) resolve(path, text string) (Secret, bool) {
	var value []byte
	var origin string
	switch {
	case strings.HasPrefix(text, "env:"):
		origin = text
		name := strings.TrimPrefix(text, "env:")
		found, ok := r.options.LookupEnv(name)
		if !ok {
			r.fault(path, "set it where sluice starts, or name another",
				"the environment variable %q is not set", name)
			return Secret{}, false
		}
		value = []byte(found)
	case strings.HasPrefix(text, "file:"):
		file := r.inFolder(strings.TrimPrefix(text, "file:"))
		origin = "file:" + file
		read, err := r.options.ReadFile(file)
		if err != nil {
			r.fault(path, "make it readable for sluice, or name another",
				"the secret's file cannot be read: %v", err)
			return Secret{}, false
		}
		value = trimNewline(read)
	case r.options.Dev:
		origin, value = "literal", []byte(text)
	default:
		r.fault(path, `write "env:NAME" or "file:PATH"`,
			"a secret is written out in the file, which only --dev takes")
		return Secret{}, false
	}
	if strings.TrimSpace(string(value)) == "" {
		r.fault(path, "fill it, or name another", "the secret from %s is empty", origin)
		return Secret{}, false
	}
	if len(value) > secretBytesMax {
		r.fault(path, "name the right one", "the secret from %s has %d bytes, over %s",
			origin, len(value), Size(secretBytesMax))
		return Secret{}, false
	}
	return NewSecret(origin, value), true
}

// trimNewline drops the one line end that editors and `echo` leave behind a secret in a file.
func trimNewline(value []byte) []byte {
	text := strings.TrimSuffix(string(value), "\n")
	return []byte(strings.TrimSuffix(text, "\r"))
}

// inFolder makes a path of the file absolute: it is relative to the file's folder.
func (r *reader) inFolder(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(r.folder, path)
}
