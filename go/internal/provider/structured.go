package provider

import (
	"bytes"
	"encoding/base64"
	"strconv"
)

// structured reads the part of structured fields (RFC 8941) that message signatures use. Every
// method is false once the text has not the form.
type structured struct {
	text []byte
	at   int
}

func (s *structured) peek() byte {
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

func (s *structured) take(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.at++
	return true
}

func (s *structured) blanks() {
	for s.peek() == ' ' || s.peek() == '\t' {
		s.at++
	}
}

// member reads the key of the next member of a dictionary with its equals sign. more is false at
// the end. A dictionary without members is refused.
func (s *structured) member(first bool) (key string, more, ok bool) {
	s.blanks()
	if s.at == len(s.text) {
		return "", false, !first
	}
	if !first {
		if !s.take(',') {
			return "", false, false
		}
		s.blanks()
	}
	key, ok = s.key()
	return key, true, ok && s.take('=')
}

func (s *structured) key() (string, bool) {
	start := s.at
	for ; s.at < len(s.text); s.at++ {
		c := s.text[s.at]
		letter := 'a' <= c && c <= 'z' || c == '*'
		if !letter && (s.at == start || (c < '0' || c > '9') && c != '_' && c != '-' && c != '.') {
			break
		}
	}
	return string(s.text[start:s.at]), s.at > start
}

func (s *structured) quoted() (string, bool) {
	if !s.take('"') {
		return "", false
	}
	var text []byte
	for s.at < len(s.text) {
		c := s.text[s.at]
		s.at++
		switch {
		case c == '"':
			return string(text), true
		case c == '\\':
			if c = s.peek(); c != '"' && c != '\\' {
				return "", false
			}
			s.at++
		case c < ' ' || c > '~':
			return "", false
		}
		text = append(text, c)
	}
	return "", false
}

func (s *structured) integer() (int64, bool) {
	start := s.at
	for '0' <= s.peek() && s.peek() <= '9' && s.at-start < 15 {
		s.at++
	}
	n, err := strconv.ParseInt(string(s.text[start:s.at]), 10, 64)
	return n, err == nil
}

func (s *structured) octets() ([]byte, bool) {
	if !s.take(':') {
		return nil, false
	}
	end := bytes.IndexByte(s.text[s.at:], ':')
	if end < 0 || end > signatureTextMax {
		return nil, false
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(string(s.text[s.at : s.at+end]))
	s.at += end + 1
	return raw, err == nil && len(raw) > 0
}

// parameters calls each for every parameter, which reads the value behind the equals sign.
func (s *structured) parameters(each func(key string) bool) bool {
	for s.take(';') {
		s.blanks()
		key, ok := s.key()
		if !ok || !s.take('=') || !each(key) {
			return false
		}
	}
	return true
}
