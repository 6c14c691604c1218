package config

import (
	"bytes"
	"errors"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Scheme is a source's own `verify:` block as it stands in the file, for the provider catalogue to
// read.
type Scheme struct {
	Source string
	// YAML is the block as a document of its own, with aliases expanded where it has any.
	YAML []byte
	// Line is the file's line that the first line of YAML stands on.
	Line int
	// Exact tells whether line n of YAML is line Line+n-1 of the file.
	Exact bool
}

// SchemeFault is one thing wrong inside a Scheme.
type SchemeFault struct {
	Line    int    // in Scheme.YAML, from 1; 0: not known
	Path    string // below verify, such as signature.header; may be empty
	Problem string
	Mend    string
}

// MarshalYAML writes the block as it was read.
func (s *Scheme) MarshalYAML() (any, error) {
	var node yaml.Node
	if err := yaml.Unmarshal(s.YAML, &node); err != nil {
		return nil, err
	}
	return node.Content[0], nil
}

// verify reads `verify: mtls` or hands a block of the operator's own to the catalogue.
func (r *reader) verify(it item, s *Source) Provider {
	if !it.isTable() {
		if text, ok := r.scalar(it); ok && text == "mtls" {
			s.MutualTLS = true
		} else if ok {
			r.fault(it.path, "write mtls or a scheme's block", "%q is no scheme", text)
		}
		return Provider{}
	}
	scheme, err := r.scheme(it, s.Name)
	if err != nil {
		r.fault(it.path, "write it without anchors that hold themselves", "%v", err)
		return Provider{NeedsSecret: true}
	}
	s.Verify = scheme
	if r.options.CheckScheme == nil {
		return Provider{NeedsSecret: true}
	}
	facts, faults := r.options.CheckScheme(*scheme)
	for _, f := range faults {
		line := scheme.Line
		if f.Line > 0 && scheme.Exact {
			line += f.Line - 1
		}
		path := it.path
		if f.Path != "" {
			path += "." + f.Path
		}
		r.faults = append(r.faults, Fault{
			File: r.file, Line: line, Path: path, Problem: f.Problem, Mend: f.Mend,
		})
	}
	return facts
}

// scheme cuts the block out of the file's text, so that its lines stay what they are. A block in
// braces, or one that needs an anchor from elsewhere, is written anew.
func (r *reader) scheme(it item, source string) (*Scheme, error) {
	node := it.target()
	s := &Scheme{Source: source, Line: node.Line, YAML: r.cut(node), Exact: true}
	expanded, err := expand(node, 0, new(int))
	if err != nil {
		return nil, err
	}
	written, err := yaml.Marshal(expanded)
	if err != nil {
		return nil, err
	}
	if !sameYAML(s.YAML, written) {
		s.YAML, s.Exact = written, false
	}
	return s, nil
}

// cut takes the lines from a node's first to the last that is indented as much, less that indent.
func (r *reader) cut(node *yaml.Node) []byte {
	lines := strings.Split(string(r.text), "\n")
	indent := node.Column - 1
	var block strings.Builder
	for i := node.Line - 1; i >= 0 && i < len(lines); i++ {
		line := strings.TrimSuffix(lines[i], "\r")
		text := strings.TrimLeft(line, " ")
		inside := len(line)-len(text) >= indent
		switch {
		case i == node.Line-1 && !inside:
			return nil
		case inside:
			block.WriteString(line[indent:] + "\n")
		case text == "" || text[0] == '#':
			block.WriteString(text + "\n")
		default:
			return []byte(block.String())
		}
	}
	return []byte(block.String())
}

// sameYAML compares two documents by what they say, not by how.
func sameYAML(a, b []byte) bool {
	normal := func(text []byte) []byte {
		var node yaml.Node
		if yaml.Unmarshal(text, &node) != nil {
			return nil
		}
		expanded, err := expand(&node, 0, new(int))
		if err != nil {
			return nil
		}
		out, err := yaml.Marshal(expanded)
		if err != nil {
			return nil
		}
		return out
	}
	left := normal(a)
	return left != nil && bytes.Equal(left, normal(b))
}

// expansionMax bounds the nodes of a block with its aliases written out.
const expansionMax = 10000

var errExpansion = errors.New("the block is too large with its aliases written out")

// expand copies a node with every alias replaced by what it names, without comments and anchors.
func expand(node *yaml.Node, depth int, count *int) (*yaml.Node, error) {
	*count++
	if *count > expansionMax || depth > 100 {
		return nil, errExpansion
	}
	if node.Kind == yaml.AliasNode {
		return expand(node.Alias, depth+1, count)
	}
	copied := &yaml.Node{Kind: node.Kind, Tag: node.Tag, Value: node.Value}
	if node.Kind == yaml.ScalarNode {
		copied.Style = node.Style & (yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle)
	}
	for _, child := range node.Content {
		expanded, err := expand(child, depth+1, count)
		if err != nil {
			return nil, err
		}
		copied.Content = append(copied.Content, expanded)
	}
	return copied, nil
}
