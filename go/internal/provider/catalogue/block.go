package catalogue

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"golang.org/x/text/unicode/norm"
)

// Fault is one thing wrong in the text, with the line and the key at which it stands.
type Fault struct {
	Line int
	Key  string
	Text string
}

func (f *Fault) Error() string {
	if f.Key == "" {
		return fmt.Sprintf("line %d: %s", f.Line, f.Text)
	}
	return fmt.Sprintf("line %d: %s: %s", f.Line, f.Key, f.Text)
}

// report collects the faults of one text, so that an operator sees all of them at once, and knows
// at which line each key of it stands.
type report struct {
	faults []error
	lines  map[string]int
}

func (r *report) add(line int, key, text string) {
	r.faults = append(r.faults, &Fault{Line: line, Key: key, Text: text})
}

func (r *report) err() error { return errors.Join(r.faults...) }

// place finds where the thing stands that a check of the whole scheme calls path. A scheme with one
// way to sign, or a way with one proof, may have its keys one level higher, which the check does
// not know; a key that is missing stands where it is missing.
func (r *report) place(path string) (key string, line int) {
	if r.lines["any_of"] == 0 {
		path = strings.TrimPrefix(strings.TrimPrefix(path, "any_of[0]"), ".")
	}
	if at := strings.Index(path, "proofs[0]"); at >= 0 && r.lines[path[:at]+"proofs"] == 0 {
		path = path[:at] + strings.TrimPrefix(path[at+len("proofs[0]"):], ".")
	}
	for at := path; at != ""; at = at[:max(0, strings.LastIndexByte(at, '.'))] {
		if line := r.lines[at]; line > 0 {
			return path, line
		}
	}
	return path, r.lines[""]
}

// block is a mapping whose keys are taken one by one; what is left at the end is unknown.
type block struct {
	*report
	line   int
	path   string
	keys   []*yaml.Node
	values map[string]*yaml.Node
	known  []string
}

func (r *report) block(node *yaml.Node, path string) *block {
	b := &block{report: r, line: node.Line, path: path, values: map[string]*yaml.Node{}}
	r.lines[path] = node.Line
	node = follow(node)
	if node.Kind != yaml.MappingNode {
		r.add(node.Line, path, "want a mapping")
		return b
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if b.values[key.Value] != nil {
			r.add(key.Line, b.at(key.Value), "stands twice")
			continue
		}
		r.lines[b.at(key.Value)] = key.Line
		b.keys = append(b.keys, key)
		b.values[key.Value] = value
	}
	return b
}

// follow goes through aliases; YAML refuses circles.
func follow(node *yaml.Node) *yaml.Node {
	for node.Kind == yaml.AliasNode && node.Alias != nil {
		node = node.Alias
	}
	return node
}

func (b *block) at(key string) string {
	if b.path == "" {
		return key
	}
	return b.path + "." + key
}

// take is the value of key, or nil.
func (b *block) take(key string) *yaml.Node {
	b.known = append(b.known, key)
	if node := b.values[key]; node != nil {
		return follow(node)
	}
	return nil
}

// end makes every key that nobody took a fault.
func (b *block) end() {
	for _, key := range b.keys {
		taken := false
		for _, known := range b.known {
			taken = taken || known == key.Value
		}
		if !taken {
			b.add(key.Line, b.at(key.Value), "unknown key, want "+strings.Join(b.known, ", "))
		}
	}
}

func (b *block) text(key string) string {
	node := b.take(key)
	if node == nil {
		return ""
	}
	if node.Kind != yaml.ScalarNode {
		b.add(node.Line, b.at(key), "want a text")
		return ""
	}
	return node.Value
}

func (b *block) list(key string) []*yaml.Node {
	node := b.take(key)
	if node == nil {
		return nil
	}
	if node.Kind != yaml.SequenceNode {
		b.add(node.Line, b.at(key), "want a list")
		return nil
	}
	for i, one := range node.Content {
		b.lines[fmt.Sprintf("%s[%d]", b.at(key), i)] = one.Line
	}
	return node.Content
}

// value reads key with parse, if it is there.
func value[T any](b *block, key string, parse func(string) (T, error)) T {
	var result T
	node := b.take(key)
	if node == nil {
		return result
	}
	if node.Kind != yaml.ScalarNode {
		b.add(node.Line, b.at(key), "want a single value")
		return result
	}
	result, err := parse(node.Value)
	if err != nil {
		b.add(node.Line, b.at(key), err.Error())
	}
	return result
}

func parseBool(text string) (bool, error) {
	switch text {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither true nor false", text)
}

func parseNumber(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is no number", text)
	}
	return n, nil
}

func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is no duration, want for example 300s", text)
	}
	return d, nil
}

func parseDay(text string) (string, error) {
	if _, err := time.Parse(time.DateOnly, text); err != nil {
		return "", fmt.Errorf("%q is no day, want for example 2026-11-30", text)
	}
	return text, nil
}

func parseKeyIDs(text string) (bool, error) {
	if text != "key_id" {
		return false, fmt.Errorf("%q: the label of an item proof stands beside the algorithm; "+
			"here it can only be key_id", text)
	}
	return true, nil
}

func parseNormalize(text string) (func(string) string, error) {
	if text != "nfkd" {
		return nil, fmt.Errorf("normalize %q is unknown, want nfkd", text)
	}
	return norm.NFKD.String, nil
}

func parseByte(text string) (byte, error) {
	if len(text) != 1 || text[0] < ' ' || text[0] > '~' {
		return 0, fmt.Errorf("%q is not a single ASCII character", text)
	}
	return text[0], nil
}
