package provider

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"strings"
)

// jsonKind is the kind of a JSON value that a pointer led to.
type jsonKind uint8

const (
	jsonNothing jsonKind = iota
	jsonString
	jsonNumber
	jsonOther // true, false, null, object or array
)

// pointer is a parsed JSON pointer (RFC 6901) with at least one segment.
type pointer []pointerSegment

type pointerSegment struct {
	key string
	// index is the array position that key also stands for, or -1.
	index int
}

func parsePointer(text string) (pointer, error) {
	if !strings.HasPrefix(text, "/") {
		return nil, errors.New("a JSON pointer begins with /")
	}
	if len(text) > pointerTextMax {
		return nil, fmt.Errorf("the JSON pointer is longer than %d bytes", pointerTextMax)
	}
	parts := strings.Split(text[1:], "/")
	if len(parts) > pointerDepthMax {
		return nil, fmt.Errorf("the JSON pointer is deeper than %d", pointerDepthMax)
	}
	var p pointer
	for _, part := range parts {
		plain := strings.ReplaceAll(strings.ReplaceAll(part, "~0", ""), "~1", "")
		if strings.Contains(plain, "~") {
			return nil, errors.New("in a JSON pointer ~ is followed by 0 or 1")
		}
		key := strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		p = append(p, pointerSegment{key: key, index: arrayIndex(key)})
	}
	return p, nil
}

// arrayIndex is the position that key names by the rule of RFC 6901, section 4, or -1.
func arrayIndex(key string) int {
	if key == "" || len(key) > 7 || key[0] == '0' && len(key) > 1 {
		return -1
	}
	n := 0
	for i := range len(key) {
		if key[i] < '0' || key[i] > '9' {
			return -1
		}
		n = n*10 + int(key[i]-'0')
	}
	return n
}

// find walks doc once, without recursion and without memory of its own, and stops at the value. The
// result is a slice of doc: a string with its quotes, a number as its literal text. If an object
// has a key twice the first counts. Text behind the value is not looked at, so find may succeed on
// a document that is broken further on.
func (p pointer) find(doc []byte) ([]byte, jsonKind) {
	s := scanner{doc: doc}
	if s.descend(p, false) != descentOnce {
		return nil, jsonNothing
	}
	return s.value()
}

// descent is how a descent ended.
type descent uint8

const (
	descentNone descent = iota
	descentOnce
	descentTwice // an object on the way has the key twice
)

// descend reads to the value that p leads to. With unique it also looks whether any object on the
// way has the key again: the first counts here, and the last one nearly everywhere else.
func (s *scanner) descend(p pointer, unique bool) descent {
	for _, segment := range p {
		switch s.next() {
		case '{':
			if !s.enterObject(segment.key) {
				return descentNone
			}
			if unique && s.again(segment.key) {
				return descentTwice
			}
		case '[':
			if !s.enterArray(segment.index) {
				return descentNone
			}
		default:
			return descentNone
		}
	}
	return descentOnce
}

// again looks, from the value of key on, whether the rest of the object has key once more.
func (s scanner) again(key string) bool {
	return s.skip() && s.take(',') && s.memberOf(key)
}

// unique is text, but repeated if the way to the value is not the only one.
func (p pointer) unique(doc []byte) ([]byte, presence) {
	s := scanner{doc: doc}
	switch s.descend(p, true) {
	case descentNone:
		return nil, absent
	case descentTwice:
		return nil, repeated
	}
	text := textOf(s.value())
	if text == nil {
		return nil, absent
	}
	return slot{text, 1}.read()
}

// text is the value as text: a string's characters, a number's literal. It is nil for anything
// else. Only a string with escapes is copied.
func (p pointer) text(doc []byte) []byte {
	return textOf(p.find(doc))
}

func textOf(raw []byte, kind jsonKind) []byte {
	switch kind {
	case jsonNumber:
		return raw
	case jsonString:
		return unquote(raw)
	}
	return nil
}

func unquote(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return nil
	}
	return []byte(text)
}

// scanner reads JSON from the front. All methods return a zero value once the text is broken.
type scanner struct {
	doc []byte
	at  int
}

// next skips blanks and is the byte there, which stays unread; 0 at the end.
func (s *scanner) next() byte {
	for s.at < len(s.doc) {
		switch c := s.doc[s.at]; c {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return c
		}
	}
	return 0
}

// take reads c after blanks.
func (s *scanner) take(c byte) bool {
	if s.next() != c {
		return false
	}
	s.at++
	return true
}

// enterObject reads to the value of key.
func (s *scanner) enterObject(key string) bool {
	s.at++
	return s.memberOf(key)
}

// memberOf reads on to the value of key, from a place where a member may begin.
func (s *scanner) memberOf(key string) bool {
	for {
		if s.next() != '"' {
			return false
		}
		name := s.quoted()
		if name == nil || !s.take(':') {
			return false
		}
		if string(name[1:len(name)-1]) == key || bytes.IndexByte(name, '\\') >= 0 &&
			string(unquote(name)) == key {
			return true
		}
		if !s.skip() || !s.take(',') {
			return false
		}
	}
}

// enterArray reads to the element at index.
func (s *scanner) enterArray(index int) bool {
	if index < 0 {
		return false
	}
	s.at++
	for range index {
		if !s.skip() || !s.take(',') {
			return false
		}
	}
	return true
}

// Eight bytes at once: ones has a 1 in each byte, tops the top bit.
const (
	ones = 0x0101010101010101
	tops = 0x8080808080808080
)

// quoted reads a string with its quotes; nil if it does not end or has a raw control byte.
func (s *scanner) quoted() []byte {
	start := s.at
	for at := start + 1; at < len(s.doc); at++ {
		for len(s.doc)-at >= 8 {
			// The first byte whose top bit is set ends the string, escapes or is below a blank: those
			// behind it may be set by a borrow (Warren, Hacker's Delight, section 6-1).
			x := binary.LittleEndian.Uint64(s.doc[at:])
			quote, escape := x^ones*'"', x^ones*'\\'
			found := ((quote - ones) &^ quote) | ((escape - ones) &^ escape) | ((x - ones*' ') &^ x)
			if found &= tops; found != 0 {
				at += bits.TrailingZeros64(found) / 8
				break
			}
			at += 8
		}
		if at >= len(s.doc) {
			return nil
		}
		switch c := s.doc[at]; {
		case c == '"':
			s.at = at + 1
			return s.doc[start:s.at]
		case c == '\\':
			at++
		case c < 0x20:
			return nil
		}
	}
	return nil
}

// value reads the value here.
func (s *scanner) value() ([]byte, jsonKind) {
	switch c := s.next(); {
	case c == '"':
		if raw := s.quoted(); raw != nil {
			return raw, jsonString
		}
		return nil, jsonNothing
	case c == '-' || '0' <= c && c <= '9':
		if raw := s.word(); json.Valid(raw) {
			return raw, jsonNumber
		}
		return nil, jsonNothing
	}
	start := s.at
	if !s.skip() {
		return nil, jsonNothing
	}
	return s.doc[start:s.at], jsonOther
}

// word reads up to what may follow a number, true, false or null.
func (s *scanner) word() []byte {
	start := s.at
	for s.at < len(s.doc) {
		switch s.doc[s.at] {
		case ',', ']', '}', ' ', '\t', '\n', '\r', ':', '"', '[', '{':
			return s.doc[start:s.at]
		}
		s.at++
	}
	return s.doc[start:s.at]
}

// skip reads one value of any kind. It counts brackets and does not hold them against each other:
// a document that mixes them up is broken, and then any answer but a crash is right.
func (s *scanner) skip() bool {
	depth := 0
	for {
		switch c := s.next(); c {
		case 0:
			return false
		case '"':
			if s.quoted() == nil {
				return false
			}
		case '{', '[':
			if depth++; depth > nestingMax {
				return false
			}
			s.at++
			continue
		case '}', ']':
			if depth--; depth < 0 {
				return false
			}
			s.at++
		case ',', ':':
			if depth == 0 {
				return false
			}
			s.at++
			continue
		default:
			if len(s.word()) == 0 {
				return false
			}
		}
		if depth == 0 {
			return true
		}
	}
}
