package provider

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

type idKind uint8

const (
	idProvider idKind = iota
	idSource
	idBody
	idNone
)

// IDFrom says where the id of an event comes from. The zero value is the provider's own id.
type IDFrom struct {
	kind   idKind
	source Source
}

// ParseIDFrom reads provider, header:NAME, json:/POINTER, body-sha256 or none.
func ParseIDFrom(text string) (IDFrom, error) {
	switch text {
	case "provider":
		return IDFrom{}, nil
	case "body-sha256":
		return IDFrom{kind: idBody}, nil
	case "none":
		return IDFrom{kind: idNone}, nil
	}
	if strings.HasPrefix(text, "header:") || strings.HasPrefix(text, "json:") {
		source, err := ParseSource(text)
		return IDFrom{kind: idSource, source: source}, err
	}
	return IDFrom{}, fmt.Errorf(
		"%q is no place of an id, want provider, header:NAME, json:/POINTER, body-sha256 or none", text)
}

func (f IDFrom) String() string {
	switch f.kind {
	case idSource:
		return f.source.String()
	case idBody:
		return "body-sha256"
	case idNone:
		return "none"
	}
	return "provider"
}

// Places are where the id may be, the first that has one counts: of the provider, first the ids
// that a way to sign brings along. There are none where there is no id, or where no place has it as
// it is.
func (f IDFrom) Places(s *Scheme) []Source {
	var list []Source
	switch f.kind {
	case idSource:
		return []Source{f.source}
	case idProvider:
		for i := range s.AnyOf {
			list = append(list, s.AnyOf[i].ID...)
		}
		list = append(list, s.ID...)
	}
	unique := list[:0]
	for _, source := range list {
		if !slices.Contains(unique, source) {
			unique = append(unique, source)
		}
	}
	return unique
}

func (b *builder) identity(s *Scheme, from IDFrom) {
	switch from.kind {
	case idProvider:
		for _, source := range s.ID {
			b.id = append(b.id, b.place(source, nil))
		}
		if s.Batch != nil && len(s.Batch.ID) > 0 {
			b.batch = s.Batch.compile()
		}
	case idSource:
		b.id = append(b.id, b.place(from.source, nil))
	case idBody:
		b.hashBody = true
	}
	for _, source := range s.Type {
		b.kinds = append(b.kinds, b.place(source, nil))
	}
}

// identify reads the id and the type of an event. If own is not empty the id is there or nowhere.
func (v *Verifier) identify(r *Request, own []place) (id, kind []byte) {
	switch {
	case v.program.hashBody:
		sum := sha256.Sum256(r.Body)
		hex.Encode(v.idText[:], sum[:])
		id = v.idText[:]
	case len(own) > 0:
		id = v.first(r, own)
	default:
		id = v.first(r, v.program.id)
	}
	if id == nil && v.program.batch != nil {
		id = v.batchID(r)
	}
	return id, v.first(r, v.program.kinds)
}

// batchID names a body of several events by the ids of all of them, so that it is the same when the
// sender repeats the body and never that of an item. It is nil if an item has none.
func (v *Verifier) batchID(r *Request) []byte {
	hash, any := sha256.New(), false
	for item, err := range v.program.batch.split(r.Body) {
		if err != nil || item.ID == nil {
			return nil
		}
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(item.ID)))
		hash.Write(size[:])
		hash.Write(item.ID)
		any = true
	}
	if !any {
		return nil
	}
	hex.Encode(v.idText[:], hash.Sum(v.sum[:0]))
	return v.idText[:]
}

// first is the first value that is there. One that comes twice or is too long ends the search: two
// senders' ideas of the id differ, and taking the wrong one would drop an event as a duplicate.
func (v *Verifier) first(r *Request, places []place) []byte {
	for i := range places {
		value, state := v.read(r, &places[i])
		switch {
		case state == present && len(value) <= idMax:
			return value
		case state == present, state == repeated:
			return nil
		}
	}
	return nil
}

// Identifier reads ids and values out of requests without judging them, for requests that are
// trusted already. It belongs to one goroutine.
type Identifier struct{ v *Verifier }

// NewIdentifier makes an Identifier for a scheme, which may be nil if from is not the provider.
func NewIdentifier(s *Scheme, from IDFrom) (*Identifier, error) {
	if s == nil {
		s = &Scheme{}
	}
	if err := errors.Join(checkIdentities("id", s.ID), checkIdentities("type", s.Type)); err != nil {
		return nil, err
	}
	b := builder{program: &program{}}
	b.identity(s, from)
	return &Identifier{newVerifier(b.program)}, nil
}

// Clone makes an Identifier for another goroutine.
func (i *Identifier) Clone() *Identifier { return &Identifier{i.v.Clone()} }

// Identify reads the id and the type; nil is none. Both are good until the memory of the request
// goes or the Identifier is used again.
func (i *Identifier) Identify(r *Request) (id, kind []byte) {
	i.v.gather(r)
	return i.v.identify(r, nil)
}
