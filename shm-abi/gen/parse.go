package main

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

type layout struct {
	consts  []constant
	enums   []enum
	structs []structure
	hash    uint64
}

type constant struct {
	name, typ string
	value     uint64
	doc       string
}

type enum struct {
	name, typ string
	values    []constant
	doc       []string
}

type structure struct {
	name   string
	size   int
	maker  string // who writes the `once` fields
	fields []field
	doc    []string
}

type field struct {
	name, kind string // kind: u8 u16 u32 u64 bytes word count counts tally
	offset     int
	count      int // of bytesN and countsN
	owner, doc string
}

func (f field) size() int {
	switch f.kind {
	case "u8":
		return 1
	case "u16":
		return 2
	case "u32":
		return 4
	case "bytes":
		return f.count
	case "counts":
		return 8 * f.count
	}
	return 8
}

func (f field) align() int {
	switch f.kind {
	case "bytes":
		return 1
	case "counts":
		return 8
	}
	return f.size()
}

// shared tells whether the other process reads the field while its owner writes it.
func (s structure) shared() bool {
	for _, f := range s.fields {
		switch f.kind {
		case "word", "count", "counts", "tally":
			return true
		}
	}
	return false
}

func parse(text string) (*layout, error) {
	l := &layout{}
	hash := fnv.New64a()
	var doc []string
	section := ""
	for i, raw := range strings.Split(text, "\n") {
		code, comment, _ := strings.Cut(raw, "#")
		comment = strings.TrimSpace(comment)
		words := strings.Fields(code)
		if len(words) == 0 {
			if strings.HasPrefix(strings.TrimSpace(raw), "#") {
				doc = append(doc, comment)
			} else {
				doc = nil
			}
			continue
		}
		fmt.Fprintln(hash, strings.Join(words, " "))
		err := l.line(words, comment, doc, &section)
		if err != nil {
			return nil, fmt.Errorf("layout.abi:%d: %w", i+1, err)
		}
		doc = nil
	}
	l.hash = hash.Sum64()
	return l, l.check()
}

func (l *layout) line(words []string, comment string, doc []string, section *string) error {
	switch {
	case words[0] == "const" && len(words) == 4:
		v, err := strconv.ParseUint(words[3], 0, 64)
		if err != nil {
			return err
		}
		l.consts = append(l.consts, constant{words[1], words[2], v, comment})
	case words[0] == "enum" && len(words) == 3:
		*section = "enum"
		l.enums = append(l.enums, enum{name: words[1], typ: words[2], doc: doc})
	case words[0] == "value" && len(words) == 3 && *section == "enum":
		v, err := strconv.ParseUint(words[2], 0, 64)
		if err != nil {
			return err
		}
		e := &l.enums[len(l.enums)-1]
		e.values = append(e.values, constant{words[1], e.typ, v, comment})
	case words[0] == "struct" && len(words) == 4:
		*section = "struct"
		size, err := strconv.Atoi(words[2])
		if err != nil {
			return err
		}
		l.structs = append(l.structs,
			structure{name: words[1], size: size, maker: words[3], doc: doc})
	case *section == "struct" && len(words) == 4:
		f, err := parseField(words)
		if err != nil {
			return err
		}
		f.doc = comment
		s := &l.structs[len(l.structs)-1]
		s.fields = append(s.fields, f)
	default:
		return fmt.Errorf("no such form: %q", strings.Join(words, " "))
	}
	return nil
}

func parseField(words []string) (field, error) {
	offset, err := strconv.Atoi(words[0])
	if err != nil {
		return field{}, err
	}
	f := field{name: words[1], offset: offset, owner: words[3], kind: words[2]}
	if f.owner != "dp" && f.owner != "cp" && f.owner != "once" {
		return f, fmt.Errorf("field %s: owner %q: want dp, cp or once", f.name, f.owner)
	}
	for _, array := range []string{"bytes", "counts"} {
		if rest, ok := strings.CutPrefix(f.kind, array); ok {
			f.kind = array
			f.count, err = strconv.Atoi(rest)
			return f, err
		}
	}
	switch f.kind {
	case "u8", "u16", "u32", "u64", "word", "count", "tally":
		return f, nil
	}
	return f, fmt.Errorf("field %s: no type %q", f.name, f.kind)
}

// check refuses what two compilers would lay out differently.
func (l *layout) check() error {
	for _, s := range l.structs {
		end, covered := 0, 0
		for _, f := range s.fields {
			if f.offset < end {
				return fmt.Errorf("%s.%s at %d overlaps what ends at %d", s.name, f.name, f.offset, end)
			}
			if f.offset%f.align() != 0 {
				return fmt.Errorf("%s.%s at %d is not aligned to %d", s.name, f.name, f.offset, f.align())
			}
			end = f.offset + f.size()
			covered += f.size()
		}
		if !s.shared() && covered != s.size {
			return fmt.Errorf("%s: a line has no holes; its fields cover %d of %d bytes",
				s.name, covered, s.size)
		}
		if end > s.size || s.size%64 != 0 {
			return fmt.Errorf("%s: size %d: fields end at %d; a multiple of 64 is wanted",
				s.name, s.size, end)
		}
	}
	return nil
}

// image is the golden image of a struct: byte n of field i is i+1+n, modulo 251; the rest is zero.
func image(s structure) []byte {
	b := make([]byte, s.size)
	for i, f := range s.fields {
		for n := range f.size() {
			b[f.offset+n] = byte((i + 1 + n) % 251)
		}
	}
	var out strings.Builder
	for at := 0; at < len(b); at += 32 {
		row := b[at:min(at+32, len(b))]
		if strings.Trim(string(row), "\x00") != "" {
			fmt.Fprintf(&out, "%d %x\n", at, row)
		}
	}
	return []byte(out.String())
}

// snake turns DLine into d_line.
func snake(name string) string {
	var out strings.Builder
	for i, r := range name {
		if r >= 'A' && r <= 'Z' {
			if i > 0 {
				out.WriteByte('_')
			}
			r += 'a' - 'A'
		}
		out.WriteRune(r)
	}
	return out.String()
}

// camel turns reply_commit and LANE_MAGIC into ReplyCommit and LaneMagic.
func camel(name string) string {
	var out strings.Builder
	for _, part := range strings.Split(strings.ToLower(name), "_") {
		switch part {
		case "ns", "tls", "ms", "dp", "cp", "ip", "id", "http":
			out.WriteString(strings.ToUpper(part))
		case "":
		default:
			out.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return out.String()
}
