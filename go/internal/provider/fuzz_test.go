package provider

import (
	"bytes"
	"testing"
)

// FuzzHeaderLines reads any text as header lines: what was read, written again, is the same.
func FuzzHeaderLines(f *testing.F) {
	for _, text := range []string{
		"X-Sig: 1\r\nx-sig:\t2 \n\nA:", "no colon", ": no name", "X Y: 1", "\xff: 1", "A: b\rc: d",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		fields, err := ParseHeaders(text)
		if err != nil {
			return
		}
		var lines []byte
		for _, field := range fields {
			lines = append(append(append(append(lines, field.Name...), ':'), field.Value...), '\n')
		}
		again, err := ParseHeaders(lines)
		if err != nil || len(again) != len(fields) {
			t.Fatalf("%d fields, then %d: %v", len(fields), len(again), err)
		}
		for i, field := range fields {
			same := bytes.Equal(field.Name, again[i].Name) && bytes.Equal(field.Value, again[i].Value)
			if !same || checkName(field.Name) != nil {
				t.Fatalf("field %d is %q, then %q", i, field, again[i])
			}
		}
	})
}

// FuzzStructured reads any text as the dictionaries of message signatures (RFC 9421): it ends, and
// never behind the text.
func FuzzStructured(f *testing.F) {
	for _, text := range []string{
		`sig1=("@method" "@path");created=1;keyid="k"`, `sig1=:dGVzdA==:, sig2=:dGVzdA==:`,
		`a=("x\"y\\" "z");created=999999999999999`, `a=(`, `=`, `a=:`, `a="\`, ``,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s := structured{text: text}
		for first := true; ; first = false {
			before := s.at
			_, more, ok := s.member(first)
			if !ok || !more {
				break
			}
			switch s.peek() {
			case ':':
				_, ok = s.octets()
			case '"':
				_, ok = s.quoted()
			case '(':
				for ok = s.take('('); ok && !s.take(')'); s.blanks() {
					_, ok = s.quoted()
				}
			default:
				_, ok = s.integer()
			}
			ok = ok && s.parameters(func(string) bool {
				if s.peek() == '"' {
					_, ok := s.quoted()
					return ok
				}
				_, ok := s.integer()
				return ok
			})
			if s.at > len(text) || s.at <= before {
				t.Fatalf("at %d of %d, from %d", s.at, len(text), before)
			}
			if !ok {
				break
			}
		}
	})
}
