package main

import (
	"bytes"
	"fmt"
	"go/format"
	"strings"
)

const goHeader = `// Code generated from layout.abi by shm-abi/gen. DO NOT EDIT.

package shmabi

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

`

func emitGo(l *layout) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(goHeader)
	fmt.Fprintf(&b, "// LayoutHash names this layout; attach refuses a page with another one.\n")
	fmt.Fprintf(&b, "const LayoutHash uint64 = %#016x\n\n", l.hash)
	b.WriteString("// Sizes, magic numbers and bounds.\nconst (\n")
	for _, c := range l.consts {
		fmt.Fprintf(&b, "%s = %d", camel(c.name), c.value)
		if c.doc != "" {
			fmt.Fprintf(&b, " // %s", c.doc)
		}
		b.WriteByte('\n')
	}
	b.WriteString(")\n\n")
	for _, e := range l.enums {
		name := camel(e.name)
		fmt.Fprintf(&b, "// %s: %s\ntype %s %s\n\n", name, strings.Join(e.doc, "\n// "), name, goType(e.typ))
		fmt.Fprintf(&b, "// The values of %s.\nconst (\n", name)
		for _, v := range e.values {
			fmt.Fprintf(&b, "%s%s %s = %d", name, camel(v.name), name, v.value)
			if v.doc != "" {
				fmt.Fprintf(&b, " // %s", v.doc)
			}
			b.WriteByte('\n')
		}
		b.WriteString(")\n\n")
	}
	for _, s := range l.structs {
		goStruct(&b, s)
	}
	return format.Source(b.Bytes())
}

func goType(t string) string {
	if t[0] == 'u' {
		return "uint" + t[1:]
	}
	return "uint64"
}

func goStruct(b *bytes.Buffer, s structure) {
	fmt.Fprintf(b, "// %sSize is the size of a %s in bytes.\nconst %sSize = %d\n\n", s.name, s.name, s.name, s.size)
	fmt.Fprintf(b, "// Where the fields of a %s are.\nconst (\n", s.name)
	for _, f := range s.fields {
		fmt.Fprintf(b, "%s%sOffset = %d\n", s.name, camel(f.name), f.offset)
	}
	b.WriteString(")\n\n")
	goShape(b, s)
	doc := strings.Join(s.doc, "\n// ")
	if s.shared() {
		goPage(b, s, doc)
	} else {
		goLine(b, s, doc)
	}
}

// goShape writes a struct that the compiler lays out, and lets it check every offset.
func goShape(b *bytes.Buffer, s structure) {
	shape := "shapeOf" + s.name
	fmt.Fprintf(b, "type %s struct {\n", shape)
	end := 0
	for _, f := range s.fields {
		if f.offset > end {
			fmt.Fprintf(b, "_ [%d]byte\n", f.offset-end)
		}
		switch f.kind {
		case "bytes":
			fmt.Fprintf(b, "%s [%d]byte\n", lower(f.name), f.count)
		case "counts":
			fmt.Fprintf(b, "%s [%d]uint64\n", lower(f.name), f.count)
		default:
			fmt.Fprintf(b, "%s %s\n", lower(f.name), goType(f.kind))
		}
		end = f.offset + f.size()
	}
	if s.size > end {
		fmt.Fprintf(b, "_ [%d]byte\n", s.size-end)
	}
	b.WriteString("}\n\n")
	fmt.Fprintf(b, "var (\n_ [%d]byte = [unsafe.Sizeof(%s{})]byte{}\n", s.size, shape)
	for _, f := range s.fields {
		fmt.Fprintf(b, "_ [%d]byte = [unsafe.Offsetof(%s{}.%s)]byte{}\n", f.offset, shape, lower(f.name))
	}
	b.WriteString(")\n\n")
}

func lower(name string) string {
	c := camel(name)
	if strings.ToUpper(c[:2]) == c[:2] {
		return strings.ToLower(c[:2]) + c[2:]
	}
	return strings.ToLower(c[:1]) + c[1:]
}

// goLine is a view of bytes that are not written while they are read.
func goLine(b *bytes.Buffer, s structure, doc string) {
	fmt.Fprintf(b, "// %s: %s\n// A view of %sSize bytes; it owns nothing.\ntype %s []byte\n\n", s.name, doc, s.name, s.name)
	for _, f := range s.fields {
		if f.name == "reserved" {
			continue
		}
		name, at := camel(f.name), fmt.Sprintf("l[%d:%d]", f.offset, f.offset+f.size())
		if f.doc != "" {
			fmt.Fprintf(b, "// %s: %s\n", name, f.doc)
		} else {
			fmt.Fprintf(b, "// %s is the field of that name.\n", name)
		}
		switch f.kind {
		case "bytes":
			fmt.Fprintf(b, "func (l %s) %s() [%d]byte { return [%d]byte(%s) }\n\n", s.name, name, f.count, f.count, at)
		case "u8":
			fmt.Fprintf(b, "func (l %s) %s() uint8 { return l[%d] }\n\n", s.name, name, f.offset)
		default:
			fmt.Fprintf(b, "func (l %s) %s() %s { return binary.LittleEndian.U%s(%s) }\n\n",
				s.name, name, goType(f.kind), goType(f.kind)[1:], at)
		}
		if f.owner != "cp" {
			continue
		}
		fmt.Fprintf(b, "// Set%s stores the field.\n", name)
		switch f.kind {
		case "bytes":
			fmt.Fprintf(b, "func (l %s) Set%s(v [%d]byte) { copy(%s, v[:]) }\n\n", s.name, name, f.count, at)
		case "u8":
			fmt.Fprintf(b, "func (l %s) Set%s(v uint8) { l[%d] = v }\n\n", s.name, name, f.offset)
		default:
			fmt.Fprintf(b, "func (l %s) Set%s(v %s) { binary.LittleEndian.PutU%s(%s, v) }\n\n",
				s.name, name, goType(f.kind), goType(f.kind)[1:], at)
		}
	}
}

// goPage is a view of mapped memory that the other process writes: atomics only.
func goPage(b *bytes.Buffer, s structure, doc string) {
	fmt.Fprintf(b, "// %s: %s\n// A view of mapped memory; it owns nothing. Every load is one atomic load.\n", s.name, doc)
	fmt.Fprintf(b, "type %s struct{ base unsafe.Pointer }\n\n", s.name)
	fmt.Fprintf(b, "// View%s looks at the first %sSize bytes of a mapping, which start on 8.\n", s.name, s.name)
	fmt.Fprintf(b, "func View%s(mapped []byte) %s {\n", s.name, s.name)
	fmt.Fprintf(b, "_ = mapped[%d]\nreturn %s{unsafe.Pointer(&mapped[0])}\n}\n\n", s.size-1, s.name)
	for _, f := range s.fields {
		if f.name == "reserved" {
			continue
		}
		goWord(b, s, f)
	}
}

func goWord(b *bytes.Buffer, s structure, f field) {
	name := camel(f.name)
	at := fmt.Sprintf("unsafe.Add(p.base, %d)", f.offset)
	if f.doc != "" {
		fmt.Fprintf(b, "// %s: %s\n", name, f.doc)
	} else {
		fmt.Fprintf(b, "// %s is the word of that name.\n", name)
	}
	switch f.kind {
	case "bytes":
		fmt.Fprintf(b, "func (p %s) %s() [%d]byte { return *(*[%d]byte)(%s) }\n\n", s.name, name, f.count, f.count, at)
	case "u32":
		fmt.Fprintf(b, "func (p %s) %s() uint32 { return atomic.LoadUint32((*uint32)(%s)) }\n\n", s.name, name, at)
	case "counts":
		fmt.Fprintf(b, "func (p %s) %s(i int) uint64 { _ = [%d]struct{}{}[i]\n return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, %d+8*i))) }\n\n",
			s.name, name, f.count, f.offset)
	default:
		fmt.Fprintf(b, "func (p %s) %s() uint64 { return atomic.LoadUint64((*uint64)(%s)) }\n\n", s.name, name, at)
	}
	if f.owner != "cp" && (f.owner != "once" || s.maker != "cp") {
		return
	}
	fmt.Fprintf(b, "// Store%s publishes the word.\n", name)
	switch f.kind {
	case "bytes":
		fmt.Fprintf(b, "func (p %s) Store%s(v [%d]byte) { *(*[%d]byte)(%s) = v }\n\n", s.name, name, f.count, f.count, at)
	case "u32":
		fmt.Fprintf(b, "func (p %s) Store%s(v uint32) { atomic.StoreUint32((*uint32)(%s), v) }\n\n", s.name, name, at)
	default:
		fmt.Fprintf(b, "func (p %s) Store%s(v uint64) { atomic.StoreUint64((*uint64)(%s), v) }\n\n", s.name, name, at)
	}
}

// emitGoTest writes the test that holds the Go face against the golden images.
func emitGoTest(l *layout) []byte {
	var b bytes.Buffer
	b.WriteString("// Code generated from layout.abi by shm-abi/gen. DO NOT EDIT.\n\npackage shmabi\n\nimport \"testing\"\n\n")
	b.WriteString("func TestGoldenImages(t *testing.T) {\n")
	for _, s := range l.structs {
		view := fmt.Sprintf("%s(b)", s.name)
		if s.shared() {
			view = fmt.Sprintf("View%s(b)", s.name)
		}
		fmt.Fprintf(&b, "t.Run(%q, func(t *testing.T) {\nb := readImage(t, %q, %sSize)\nv := %s\n",
			s.name, snake(s.name), s.name, view)
		for i, f := range s.fields {
			if f.name == "reserved" {
				continue
			}
			switch f.kind {
			case "bytes":
				fmt.Fprintf(&b, "wantBytes(t, %q, v.%s(), %d)\n", f.name, camel(f.name), i+1)
			case "counts":
				fmt.Fprintf(&b, "wantWord(t, %q, v.%s(1), 8, %d)\n", f.name, camel(f.name), i+1+8)
			default:
				fmt.Fprintf(&b, "wantWord(t, %q, uint64(v.%s()), %d, %d)\n", f.name, camel(f.name), f.size(), i+1)
			}
		}
		b.WriteString("})\n")
	}
	b.WriteString("}\n")
	out, err := format.Source(b.Bytes())
	if err != nil {
		panic(err) // our own template
	}
	return out
}
