package config

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// reader walks the nodes of one file and gathers faults. lines remembers where each key stands, so
// that a later check between two keys can still point at one.
type reader struct {
	file    string // as the operator named it
	folder  string // absolute
	options Options
	text    []byte // the file's text
	faults  Faults
	lines   map[string]int

	warnings Faults
}

// fault adds a fault at a key, or at the nearest key above it that the file has.
func (r *reader) fault(path, mend, format string, args ...any) {
	r.faults = append(r.faults, Fault{
		File: r.file, Line: r.lineOf(path), Path: path,
		Problem: fmt.Sprintf(format, args...), Mend: mend,
	})
}

// warn adds what holds and yet is hardly meant.
func (r *reader) warn(path, mend, format string, args ...any) {
	r.warnings = append(r.warnings, Fault{
		File: r.file, Line: r.lineOf(path), Path: path,
		Problem: fmt.Sprintf(format, args...), Mend: mend,
	})
}

// refuse adds what a parser found wrong.
func (r *reader) refuse(path string, err error) {
	var p problem
	if errors.As(err, &p) {
		r.fault(path, p.mend, "%s", p.what)
		return
	}
	r.fault(path, "", "%v", err)
}

func (r *reader) lineOf(path string) int {
	for path != "" {
		if line, known := r.lines[path]; known {
			return line
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return r.lines[""]
}

// item is one value with the place it has in the file.
type item struct {
	path string
	node *yaml.Node // nil: absent
}

// target is the node behind an alias.
func (it item) target() *yaml.Node {
	if it.node != nil && it.node.Kind == yaml.AliasNode {
		return it.node.Alias
	}
	return it.node
}

func (it item) isTable() bool {
	return it.node != nil && it.target().Kind == yaml.MappingNode
}

func isList(it item) bool { return it.node != nil && it.target().Kind == yaml.SequenceNode }

func isNull(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null"
}

func kindOf(node *yaml.Node) string {
	switch {
	case node.Kind == yaml.MappingNode:
		return "a mapping"
	case node.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(node):
		return "nothing"
	default:
		return "a single value"
	}
}

// scalar is the text of a single value; anything else is a fault.
func (r *reader) scalar(it item) (string, bool) {
	node := it.target()
	if node.Kind != yaml.ScalarNode || isNull(node) {
		r.fault(it.path, "write one value or take the key out", "want a single value, found %s",
			kindOf(node))
		return "", false
	}
	return node.Value, true
}

// list is the items of a list; anything else is a fault. An absent list has no items.
func (r *reader) list(it item) []item {
	if it.node == nil {
		return nil
	}
	node := it.target()
	if node.Kind != yaml.SequenceNode {
		r.fault(it.path, "write [one, two], or [] for none", "want a list, found %s", kindOf(node))
		return nil
	}
	items := make([]item, len(node.Content))
	for i, child := range node.Content {
		items[i] = item{path: fmt.Sprintf("%s[%d]", it.path, i), node: child}
		r.lines[items[i].path] = child.Line
	}
	return items
}

// field is one key of a mapping.
type field struct {
	key   string
	value *yaml.Node
	asked bool
}

// table is one mapping while it is read. What the file has and nobody asks for is unknown.
type table struct {
	*reader
	path    string
	present bool
	fields  []field
	known   []string // every key asked for
}

// table opens a mapping; an absent or empty one has no fields.
func (r *reader) table(it item) *table {
	t := &table{reader: r, path: it.path}
	if it.node == nil {
		return t
	}
	t.present = true
	node := it.target()
	switch {
	case isNull(node):
	case node.Kind != yaml.MappingNode:
		r.fault(it.path, "write `key: value` lines under it", "want a mapping, found %s", kindOf(node))
	default:
		t.gather(node, false, map[*yaml.Node]bool{})
	}
	return t
}

// gather takes in the fields of a mapping, then those of the mappings merged into it, which never
// replace a field that is there. No mapping is entered twice, so that merges of merges stay cheap.
func (t *table) gather(node *yaml.Node, merged bool, entered map[*yaml.Node]bool) {
	if entered[node] {
		return
	}
	entered[node] = true
	own := map[string]int{}
	var merges []*yaml.Node
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := item{node: node.Content[i]}.target(), node.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			t.lines[t.join("?")] = node.Content[i].Line
			t.fault(t.join("?"), "write a single word as key", "a key is %s", kindOf(key))
			continue
		}
		if key.ShortTag() == "!!merge" {
			merges = append(merges, value)
			continue
		}
		if first, twice := own[key.Value]; twice {
			t.faults = append(t.faults, Fault{
				File: t.file, Line: key.Line, Path: t.join(key.Value),
				Problem: fmt.Sprintf("the key is there twice, first in line %d", first),
				Mend:    "take one out",
			})
			continue
		}
		own[key.Value] = key.Line
		if merged && t.index(key.Value) >= 0 {
			continue
		}
		t.fields = append(t.fields, field{key: key.Value, value: value})
		t.lines[t.join(key.Value)] = key.Line
	}
	for _, merge := range merges {
		t.merge(merge, entered)
	}
}

func (t *table) merge(value *yaml.Node, entered map[*yaml.Node]bool) {
	target := item{node: value}.target()
	switch target.Kind {
	case yaml.MappingNode:
		t.gather(target, true, entered)
	case yaml.SequenceNode:
		if entered[target] {
			return
		}
		entered[target] = true
		for _, child := range target.Content {
			t.merge(child, entered)
		}
	default:
		t.fault(t.path, "write `<<: *anchor` of a mapping", "a merge takes in %s", kindOf(target))
	}
}

func (t *table) join(key string) string {
	if t.path == "" {
		return key
	}
	return t.path + "." + key
}

func (t *table) index(key string) int {
	for i := range t.fields {
		if t.fields[i].key == key {
			return i
		}
	}
	return -1
}

// entry is the i-th field as an item, for mappings whose keys are names.
func (t *table) entry(i int) item {
	t.fields[i].asked = true
	return item{path: t.join(t.fields[i].key), node: t.fields[i].value}
}

// get asks for a key; the node is nil when the file does not have it.
func (t *table) get(key string) item {
	t.known = append(t.known, key)
	if i := t.index(key); i >= 0 {
		return t.entry(i)
	}
	return item{path: t.join(key)}
}

// has tells whether the file has a key, without asking for it.
func (t *table) has(key string) bool { return t.index(key) >= 0 }

// end faults what nobody asked for.
func (t *table) end() {
	for _, f := range t.fields {
		if f.asked {
			continue
		}
		mend := "take it out"
		if close, found := suggest(f.key, t.known); found {
			mend = "did you mean " + close + "?"
		} else if len(t.known) == 0 {
			mend = "it takes no keys"
		} else if len(t.known) <= suggestedMax {
			mend = "known here: " + strings.Join(t.known, ", ")
		}
		t.fault(t.join(f.key), mend, "unknown key")
	}
}

// value reads a single value by its parser and checks, or gives the default.
func value[T any](
	t *table, key string, otherwise T, parse func(string) (T, error), checks ...func(T) error,
) T {
	it := t.get(key)
	if it.node == nil {
		return otherwise
	}
	parsed, ok := one(t.reader, it, parse, checks...)
	if !ok {
		return otherwise
	}
	return parsed
}

func one[T any](
	r *reader, it item, parse func(string) (T, error), checks ...func(T) error,
) (parsed T, ok bool) {
	text, ok := r.scalar(it)
	if !ok {
		return parsed, false
	}
	parsed, err := parse(text)
	for i := 0; err == nil && i < len(checks); i++ {
		err = checks[i](parsed)
	}
	if err != nil {
		r.refuse(it.path, err)
		return parsed, false
	}
	return parsed, true
}

// values reads a list of single values, each at most once, or gives the default.
func values[T comparable](
	t *table, key string, otherwise []T, parse func(string) (T, error), checks ...func(T) error,
) []T {
	it := t.get(key)
	if it.node == nil {
		return otherwise
	}
	found := []T{}
	seen := map[T]bool{}
	for _, entry := range t.list(it) {
		parsed, ok := one(t.reader, entry, parse, checks...)
		if !ok {
			continue
		}
		if seen[parsed] {
			t.fault(entry.path, "take one out", "%v is there twice", parsed)
			continue
		}
		seen[parsed] = true
		found = append(found, parsed)
	}
	return found
}
