package provider

import (
	"bytes"
	"encoding/json"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// tree is a JSON value that keeps the order of its keys and the spelling of its numbers, which the
// decoders of the standard library do not.
type tree struct {
	open   byte // '{' or '['; 0 for a value without parts
	text   string
	quoted bool // text is the characters of a string, otherwise the literal
	keys   []string
	items  []*tree
}

// parseTree reads one whole JSON text.
func parseTree(body []byte) (*tree, bool) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	t, ok := readTree(decoder, 0)
	return t, ok && !decoder.More()
}

func readTree(d *json.Decoder, depth int) (*tree, bool) {
	token, err := d.Token()
	if err != nil || depth > nestingMax {
		return nil, false
	}
	switch token := token.(type) {
	case json.Delim:
		t := &tree{open: byte(token)}
		for d.More() {
			if token == '{' {
				key, err := d.Token()
				name, isText := key.(string)
				if err != nil || !isText {
					return nil, false
				}
				t.keys = append(t.keys, name)
			}
			item, ok := readTree(d, depth+1)
			if !ok {
				return nil, false
			}
			t.items = append(t.items, item)
		}
		_, err := d.Token()
		return t, err == nil
	case string:
		return &tree{text: token, quoted: true}, true
	case json.Number:
		return &tree{text: token.String()}, true
	case bool:
		return &tree{text: strconv.FormatBool(token)}, true
	}
	return &tree{text: "null"}, true
}

// sorted is t with the keys of every object in order.
func (t *tree) sorted() *tree {
	copied := *t
	order := make([]int, len(t.items))
	for i := range order {
		order[i] = i
	}
	if t.open == '{' {
		slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(t.keys[a], t.keys[b]) })
		copied.keys = make([]string, len(order))
	}
	copied.items = make([]*tree, len(order))
	for to, from := range order {
		copied.items[to] = t.items[from].sorted()
		if t.open == '{' {
			copied.keys[to] = t.keys[from]
		}
	}
	return &copied
}

// at is the value that a pointer leads to, or nil.
func (t *tree) at(p pointer) *tree {
	for _, segment := range p {
		i := segment.index
		if t.open == '{' {
			i = slices.Index(t.keys, segment.key)
		}
		if t.open == 0 || i < 0 || i >= len(t.items) {
			return nil
		}
		t = t.items[i]
	}
	return t
}

// plant puts a string where a pointer leads, and makes the objects on the way; false: there is
// something else on it.
func (t *tree) plant(p pointer, value string) bool {
	for _, segment := range p {
		next := t.at(pointer{segment})
		if next == nil {
			if t.open != '{' {
				return false
			}
			next = &tree{open: '{'}
			t.keys, t.items = append(t.keys, segment.key), append(t.items, next)
		}
		t = next
	}
	*t = tree{text: value, quoted: true}
	return true
}

// compact is t as the bytes of a body.
func (t *tree) compact() []byte {
	style := jsonStyle{layout: jsonLayouts[0], escape: jsonEscapes[0], html: jsonHTML[0]}
	return t.write(nil, &style, 0)
}

// jsonStyle is how a library writes JSON.
type jsonStyle struct {
	layout  jsonLayout
	escape  jsonEscape
	html    jsonEscape
	slashes bool // PHP writes \/
	numbers bool // as JavaScript writes them
}

type jsonLayout struct{ name, comma, colon, indent string }

var jsonLayouts = []jsonLayout{
	{"compact", ",", ":", ""},
	{"with blanks as Python writes them", ", ", ": ", ""},
	{"indented by 2", ",", ": ", "  "},
	{"indented by 4", ",", ": ", "    "},
	{"indented by tabs", ",", ": ", "\t"},
}

// jsonEscape is a set of characters that a writer escapes although it need not.
type jsonEscape struct {
	name string
	has  func(rune) bool
	// upper writes the digits in upper case.
	upper bool
}

var (
	jsonEscapes = []jsonEscape{
		{"", func(rune) bool { return false }, false},
		{`non-ASCII as \u00e9`, func(r rune) bool { return r >= utf8.RuneSelf }, false},
		{`non-ASCII as \u00E9`, func(r rune) bool { return r >= utf8.RuneSelf }, true},
	}
	jsonHTML = []jsonEscape{
		{"", func(rune) bool { return false }, false},
		{`<, > and & escaped`, func(r rune) bool {
			return strings.ContainsRune("<>&\u2028\u2029", r)
		}, false},
		{`<, >, &, = and ' escaped`, func(r rune) bool {
			return strings.ContainsRune("<>&='\u2028\u2029", r)
		}, false},
	}
)

func (s jsonStyle) name(sorted, lineEnd bool) string {
	words := []string{s.layout.name, s.escape.name, s.html.name}
	for _, one := range []struct {
		on   bool
		name string
	}{
		{s.slashes, `slashes as \/`}, {s.numbers, "numbers as JavaScript writes them"},
		{sorted, "keys in order"}, {lineEnd, "with a line end"},
	} {
		if one.on {
			words = append(words, one.name)
		}
	}
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), ", ")
}

// jsonForms are the forms that the libraries of many languages would give the body, the usual ones
// first.
func jsonForms(a attempt) iter.Seq[attempt] {
	return func(yield func(attempt) bool) {
		body := bytes.TrimPrefix(a.request.Body, []byte(byteOrderMark))
		if len(body) > explainBodyMax {
			return
		}
		plain, ok := parseTree(body)
		if !ok {
			return
		}
		had := seen{}
		had.first(a.request.Body)
		give := func(t *tree, style jsonStyle, sorted bool) bool {
			text := t.write(nil, &style, 0)
			for _, lineEnd := range []bool{false, true} {
				if lineEnd {
					text = append(text, '\n')
				}
				if had.first(text) &&
					!yield(a.withBody(bytes.Clone(text), style.name(sorted, lineEnd))) {
					return false
				}
			}
			return true
		}
		for _, sorted := range []bool{false, true} {
			t := plain
			if sorted {
				t = plain.sorted()
			}
			for style := range jsonStyles {
				if !give(t, style, sorted) {
					return
				}
			}
		}
	}
}

func jsonStyles(yield func(jsonStyle) bool) {
	for _, numbers := range []bool{false, true} {
		for _, html := range jsonHTML {
			for _, slashes := range []bool{false, true} {
				for _, escape := range jsonEscapes {
					for _, layout := range jsonLayouts {
						if !yield(jsonStyle{layout, escape, html, slashes, numbers}) {
							return
						}
					}
				}
			}
		}
	}
}

func (t *tree) write(dst []byte, s *jsonStyle, depth int) []byte {
	switch {
	case t.open == 0 && t.quoted:
		return s.quote(dst, t.text)
	case t.open == 0 && s.numbers:
		return append(dst, javaScriptNumber(t.text)...)
	case t.open == 0:
		return append(dst, t.text...)
	}
	dst = append(dst, t.open)
	for i, item := range t.items {
		if i > 0 {
			dst = append(dst, s.layout.comma...)
		}
		dst = s.lineEnd(dst, depth+1)
		if t.open == '{' {
			dst = append(s.quote(dst, t.keys[i]), s.layout.colon...)
		}
		dst = item.write(dst, s, depth+1)
	}
	if len(t.items) > 0 {
		dst = s.lineEnd(dst, depth)
	}
	return append(dst, t.open+2) // '{' and '}', '[' and ']' are two apart.
}

func (s *jsonStyle) lineEnd(dst []byte, depth int) []byte {
	if s.layout.indent == "" {
		return dst
	}
	dst = append(dst, '\n')
	for range depth {
		dst = append(dst, s.layout.indent...)
	}
	return dst
}

var shortEscapes = map[rune]byte{
	'"': '"', '\\': '\\', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't',
}

func (s *jsonStyle) quote(dst []byte, text string) []byte {
	dst = append(dst, '"')
	for _, r := range text {
		switch short := shortEscapes[r]; {
		case short != 0:
			dst = append(dst, '\\', short)
		case r == '/' && s.slashes:
			dst = append(dst, `\/`...)
		case r < ' ' || s.html.has(r):
			dst = unicodeEscape(dst, r, false)
		case s.escape.has(r):
			dst = unicodeEscape(dst, r, s.escape.upper)
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}

// unicodeEscape writes r as one or two UTF-16 units (RFC 8259, section 7).
func unicodeEscape(dst []byte, r rune, upper bool) []byte {
	digits := "0123456789abcdef"
	if upper {
		digits = "0123456789ABCDEF"
	}
	units := []rune{r}
	if r > 0xffff {
		r -= 0x10000
		units = []rune{0xd800 + r>>10, 0xdc00 + r&0x3ff}
	}
	for _, u := range units {
		dst = append(dst, '\\', 'u', digits[u>>12], digits[u>>8&15], digits[u>>4&15], digits[u&15])
	}
	return dst
}

// javaScriptNumber is a number as JavaScript writes it, without exponents it would not use.
func javaScriptNumber(literal string) string {
	value, err := strconv.ParseFloat(literal, 64)
	if err != nil {
		return literal
	}
	text, err := json.Marshal(value) // encoding/json follows ECMAScript's Number::toString.
	if err != nil {
		return literal
	}
	return string(text)
}
