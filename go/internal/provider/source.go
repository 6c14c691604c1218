package provider

import (
	"fmt"
	"strings"
)

// SourceKind says what part of a request a Source reads.
type SourceKind uint8

// The kinds of sources. SourceItem is a labelled item of the signature field; SourceNumbered is a
// header family with numeric suffixes, which only a signature may come from; SourceBody is the
// whole body and has no name; SourceForm is a parameter of a form body; SourceClaim and SourceJOSE
// are members of the payload and of the header of a JSON Web Signature.
const (
	SourceNone SourceKind = iota
	SourceHeader
	SourceNumbered
	SourceJSON
	SourceQuery
	SourceItem
	SourceBody
	SourceForm
	SourceClaim
	SourceJOSE
)

var sourceWords = map[string]SourceKind{
	"header":   SourceHeader,
	"numbered": SourceNumbered,
	"json":     SourceJSON,
	"query":    SourceQuery,
	"item":     SourceItem,
	"body":     SourceBody,
	"form":     SourceForm,
	"claim":    SourceClaim,
	"jose":     SourceJOSE,
}

// Source names one place in a request, in text as kind:name, for example header:X-Event-Id.
type Source struct {
	Kind SourceKind
	Name string
}

// ParseSource reads the text form.
func ParseSource(text string) (Source, error) {
	word, name, found := strings.Cut(text, ":")
	kind := sourceWords[word]
	if kind == SourceNone || found == (kind == SourceBody) {
		return Source{}, fmt.Errorf("%q is no source, want header:NAME, numbered:PREFIX, "+
			"json:/POINTER, query:NAME, form:NAME, item:LABEL, claim:NAME, jose:NAME or body", text)
	}
	source := Source{Kind: kind, Name: name}
	return source, source.check()
}

func (s Source) String() string {
	for word, kind := range sourceWords {
		if kind == s.Kind && kind == SourceBody {
			return word
		}
		if kind == s.Kind {
			return word + ":" + s.Name
		}
	}
	return "none"
}

func (s Source) check() error {
	switch s.Kind {
	case SourceHeader, SourceNumbered:
		if err := checkName(s.Name); err != nil {
			return fmt.Errorf("source %s: %w", s, err)
		}
	case SourceJSON:
		if _, err := parsePointer(s.Name); err != nil {
			return fmt.Errorf("source %s: %w", s, err)
		}
	case SourceQuery, SourceItem, SourceForm, SourceClaim, SourceJOSE:
		if s.Name == "" {
			return fmt.Errorf("source %s has no name", s)
		}
	case SourceNone:
		return fmt.Errorf("source is not set")
	}
	return nil
}
