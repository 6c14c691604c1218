package provider

import (
	"bytes"
	"net/url"
)

// presence is how often and how well a value is there.
type presence uint8

const (
	absent presence = iota
	present
	repeated
	blank
)

// gather fills the slots in one pass over the header.
func (v *Verifier) gather(r *Request) {
	clear(v.slots)
	for i := range r.Headers {
		field := &r.Headers[i]
		for j, name := range v.program.names {
			if equalFold(field.Name, name) {
				if v.slots[j].count++; v.slots[j].count == 1 {
					v.slots[j].value = trimBlank(field.Value)
				}
				break
			}
		}
	}
}

// read is the value at a place. A value that comes twice is no value.
func (v *Verifier) read(r *Request, p *place) ([]byte, presence) {
	switch p.kind {
	case SourceHeader:
		return v.slots[p.slot].read()
	case SourceItem:
		return v.items[p.slot].read()
	case SourceBody:
		return slot{r.Body, 1}.read()
	case SourceForm:
		return readForm(r.Body, p.name)
	case SourceClaim:
		return p.pointer.unique(v.token.claims)
	case SourceJOSE:
		return p.pointer.unique(v.token.header)
	case SourceJSON:
		if p.unique {
			return p.pointer.unique(r.Body)
		}
		text := p.pointer.text(r.Body)
		if text == nil {
			return nil, absent
		}
		return slot{text, 1}.read()
	case SourceQuery:
		return readQuery(r.Target, p.name)
	}
	return nil, absent
}

func (s slot) read() ([]byte, presence) {
	switch {
	case s.count == 0:
		return nil, absent
	case s.count > 1:
		return nil, repeated
	case len(s.value) == 0:
		return nil, blank
	}
	return s.value, present
}

func readQuery(target []byte, name string) ([]byte, presence) {
	_, query, found := bytes.Cut(target, []byte{'?'})
	if !found {
		return nil, absent
	}
	return readPairs(query, name)
}

func readForm(body []byte, name string) ([]byte, presence) {
	if len(body) > formBodyMax {
		return nil, absent
	}
	return readPairs(body, name)
}

func readPairs(text []byte, name string) ([]byte, presence) {
	values, err := url.ParseQuery(string(text))
	if err != nil || len(values[name]) == 0 {
		return nil, absent
	}
	return slot{[]byte(values[name][0]), len(values[name])}.read()
}

// need is read for a value that the scheme cannot do without.
func (v *Verifier) need(r *Request, p *place) ([]byte, Outcome, string) {
	value, state := v.read(r, p)
	switch state {
	case present:
		return value, OK, ""
	case repeated:
		return nil, Malformed, p.twice
	case blank:
		return nil, Malformed, p.blank
	}
	if p.kind == SourceItem {
		return nil, Malformed, p.missing
	}
	return nil, MissingHeader, p.missing
}
