package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
)

// Batch says where the events are in a body that holds several, and how each is named.
type Batch struct {
	// Items is the JSON array of the events: a pointer, or SourceBody if the body itself is it.
	Items Source
	// ID is what names an item: the values at these pointers into the item, joined by ':'. All must
	// be there, or the item has no id.
	ID []Source
	// Type is looked up in order in the item; the first that is there counts.
	Type []Source
}

// Item is one event of a batch. Raw is a slice of the body; ID and Type are nil if there is none.
type Item struct{ Raw, ID, Type []byte }

// Faults of a body that should be a batch; all of them are the sender's.
var (
	ErrNoBatch    = errors.New("the body is no JSON that has the list of events")
	ErrBatchItems = fmt.Errorf("the body has more than %d events", batchItemsMax)
)

func (b *Batch) check() error {
	if k := b.Items.Kind; k != SourceJSON && k != SourceBody {
		return faultAt("items", "want body or json:/POINTER, the list of the events")
	}
	if err := b.Items.check(); err != nil {
		return under("items", err)
	}
	if err := checkInItem("id", b.ID); err != nil {
		return err
	}
	return checkInItem("type", b.Type)
}

func checkInItem(key string, list []Source) error {
	if len(list) > idPlacesMax {
		return faultAt(key, "%d places are more than %d", len(list), idPlacesMax)
	}
	for i, source := range list {
		if source.Kind != SourceJSON {
			return faultAt(nth(key, i), "want json:/POINTER into the item, not %s", source)
		}
		if err := source.check(); err != nil {
			return under(nth(key, i), err)
		}
	}
	return nil
}

// batch is a compiled Batch.
type batch struct {
	items    pointer // nil: the body
	id, kind []pointer
}

func (b *Batch) compile() *batch {
	// Check has parsed the same texts.
	c := &batch{}
	if b.Items.Kind == SourceJSON {
		c.items, _ = parsePointer(b.Items.Name)
	}
	for _, source := range b.ID {
		p, _ := parsePointer(source.Name)
		c.id = append(c.id, p)
	}
	for _, source := range b.Type {
		p, _ := parsePointer(source.Name)
		c.kind = append(c.kind, p)
	}
	return c
}

// Split walks the items of body in order. After an error, which is ErrNoBatch or ErrBatchItems,
// there is nothing more. An empty list has no items and is no error. The scheme of b must have been
// checked.
func (b *Batch) Split(body []byte) iter.Seq2[Item, error] { return b.compile().split(body) }

// Identify reads id and type out of the text of one item, as Split does.
func (b *Batch) Identify(item []byte) (id, kind []byte) {
	c := b.compile()
	return joinedText(c.id, item), firstText(c.kind, item)
}

func (b *batch) split(body []byte) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for raw, err := range b.each(body) {
			item := Item{Raw: raw}
			if err == nil {
				item.ID, item.Type = joinedText(b.id, raw), firstText(b.kind, raw)
			}
			if !yield(item, err) {
				return
			}
		}
	}
}

// each walks the texts of the items.
func (b *batch) each(body []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		s := scanner{doc: body}
		if !json.Valid(body) || s.descend(b.items, true) != descentOnce || !s.take('[') {
			yield(nil, ErrNoBatch)
			return
		}
		for n := 0; !s.take(']'); n++ {
			if n == batchItemsMax {
				yield(nil, ErrBatchItems)
				return
			}
			if n > 0 && !s.take(',') {
				yield(nil, ErrNoBatch)
				return
			}
			s.next()
			start := s.at
			if !s.skip() {
				yield(nil, ErrNoBatch) // nested too deep
				return
			}
			if !yield(body[start:s.at], nil) {
				return
			}
		}
	}
}

// joinedText is the texts at all pointers with ':' between them, or nil if one is missing.
func joinedText(pointers []pointer, doc []byte) []byte {
	var text []byte
	for i, p := range pointers {
		value := p.text(doc)
		switch {
		case len(value) == 0:
			return nil
		case len(pointers) == 1:
			text = value
		case i > 0:
			text = append(append(text, ':'), value...)
		default:
			text = bytes.Clone(value)
		}
	}
	if len(text) > idMax {
		return nil
	}
	return text
}

func firstText(pointers []pointer, doc []byte) []byte {
	for _, p := range pointers {
		if value := p.text(doc); len(value) > 0 && len(value) <= idMax {
			return value
		}
	}
	return nil
}
