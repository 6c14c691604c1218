package config

import "strings"

// Selector says where in a request a key is found: the event's id, or what orders it.
type Selector struct {
	Kind SelectorKind
	Name string // of the header, or the JSON pointer; empty for the other kinds
}

// SelectorKind is the first word of a Selector.
type SelectorKind string

// The kinds of selectors. ByProvider and ByBody are for ids, BySource is for order.
const (
	ByBody     SelectorKind = "body-sha256"
	ByHeader   SelectorKind = "header"
	ByJSON     SelectorKind = "json"
	ByNothing  SelectorKind = "none"
	ByProvider SelectorKind = "provider"
	BySource   SelectorKind = "source"
)

// String is the form that a config takes.
func (s Selector) String() string {
	if s.Kind == ByHeader || s.Kind == ByJSON {
		return string(s.Kind) + ":" + s.Name
	}
	return string(s.Kind)
}

// MarshalText writes the form that a config takes.
func (s Selector) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func parseIDFrom(text string) (Selector, error) {
	return parseSelector(text, ByProvider, ByBody, ByNothing)
}

func parseOrderBy(text string) (Selector, error) {
	return parseSelector(text, ByNothing, BySource)
}

func parseSelector(text string, words ...SelectorKind) (Selector, error) {
	names := make([]string, len(words))
	for i, word := range words {
		if text == string(word) {
			return Selector{Kind: word}, nil
		}
		names[i] = string(word)
	}
	if name, found := strings.CutPrefix(text, "header:"); found {
		if err := checkToken(name); err != nil {
			return Selector{}, err
		}
		return Selector{Kind: ByHeader, Name: name}, nil
	}
	if pointer, found := strings.CutPrefix(text, "json:"); found {
		if err := checkPointer(pointer); err != nil {
			return Selector{}, err
		}
		return Selector{Kind: ByJSON, Name: pointer}, nil
	}
	mend := "write " + strings.Join(names, ", ") + ", header:NAME or json:/pointer"
	return Selector{}, wrong(mend, "%q says no place in a request", text)
}

// checkToken holds a name to RFC 9110 section 5.6.2.
func checkToken(text string) error {
	bad := strings.IndexFunc(text, func(c rune) bool {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		digit := c >= '0' && c <= '9'
		return c > 127 || !letter && !digit && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	})
	if text == "" || bad >= 0 {
		return wrong("write a name as X-Request-Id", "%q is not a header's name", text)
	}
	return nil
}

func parsePointer(text string) (string, error) {
	if checkPointer(text) != nil {
		return "", wrong("write it as /pool/used_ratio", "%q is not a JSON pointer", text)
	}
	return text, nil
}

// checkPointer holds a pointer to RFC 6901: it begins with a slash, and a tilde is ~0 or ~1.
func checkPointer(text string) error {
	rest := strings.NewReplacer("~0", "", "~1", "").Replace(text)
	if !strings.HasPrefix(text, "/") || strings.Contains(rest, "~") {
		return wrong("write it as json:/data/id", "%q is not a JSON pointer", text)
	}
	return nil
}
