package index

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
)

const (
	// typesMax bounds the types that have a number of their own. Senders choose them, so that there
	// may be more; those share TypeOther.
	typesMax = 4096
	// typeNameMax bounds the name of a type in bytes; longer ones are TypeOther.
	typeNameMax = 128
)

// TypeOther is the number of all types that have none of their own.
const TypeOther uint32 = 1

// types are the event types of the senders by number. The writer replaces them whole, readers take
// what is there.
type types struct{ current atomic.Pointer[typeNames] }

type typeNames struct {
	numbers map[string]uint32
	names   []string // by number; those of 0 and of TypeOther are empty
	other   bool     // TypeOther was given
}

func (x *Index) loadTypes() error {
	t := &typeNames{numbers: map[string]uint32{}, names: make([]string, TypeOther+1)}
	it, err := x.iter([]byte{rowTypeName}, []byte{rowTypeName + 1})
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		if key := it.Key(); len(key) != 1+4 || len(t.names) > typesMax {
			return fmt.Errorf("%w: type row %x", ErrDamaged, key)
		}
		switch number := binary.BigEndian.Uint32(it.Key()[1:]); {
		case number == TypeOther:
			t.other = true
		case int(number) == len(t.names):
			t.names = append(t.names, string(it.Value()))
			t.numbers[t.names[number]] = number
		default:
			return fmt.Errorf("%w: type row %d follows %d", ErrDamaged, number, len(t.names)-1)
		}
	}
	x.current.Store(t)
	return closeIter(it)
}

// TypeNumber is the number of a type, a new one if it had none; 0: no type. It belongs to the
// writer and allocates for new ones alone.
func (x *Index) TypeNumber(name []byte) uint32 {
	if len(name) == 0 {
		return 0
	}
	t := x.current.Load()
	if number, known := t.numbers[string(name)]; known {
		return number
	}
	if len(t.names) > typesMax || len(name) > typeNameMax {
		if !t.other {
			x.replaceTypes(TypeOther, func(next *typeNames) { next.other = true })
		}
		return TypeOther
	}
	number := uint32(len(t.names))
	x.replaceTypes(number, func(next *typeNames) {
		next.numbers = maps.Clone(t.numbers)
		next.numbers[string(name)] = number
		next.names = append(slices.Clip(t.names), string(name))
	})
	return number
}

func (x *Index) replaceTypes(number uint32, change func(*typeNames)) {
	next := *x.current.Load()
	change(&next)
	x.current.Store(&next)
	x.newTypes = append(x.newTypes, number)
}

// FindType is the number to look for, of a type with a name; false: there never was such an event.
// Under TypeOther others lie as well.
func (x *Index) FindType(name string) (number uint32, ok bool) {
	t := x.current.Load()
	if number, ok = t.numbers[name]; ok {
		return number, true
	}
	return TypeOther, t.other && name != ""
}

// TypeName is the name of a number; empty where it has none of its own.
func (x *Index) TypeName(number uint32) string {
	t := x.current.Load()
	if int(number) >= len(t.names) {
		return ""
	}
	return t.names[number]
}

func (x *Index) typeCount() int { return len(x.current.Load().names) }

func (x *Index) putTypes(p *put) {
	names := x.current.Load().names
	for _, number := range x.newTypes {
		p.set(typeNameKey(number), []byte(names[number]))
	}
}
