package config

import (
	"encoding/json"
	"net/netip"

	"go.yaml.in/yaml/v3"
)

// Redacted is the whole config as YAML, every default written out and every secret hidden, for
// people to read. With secrets in their places it gives the same config again.
func (c *Config) Redacted() ([]byte, error) {
	node, err := c.node()
	if err != nil {
		return nil, err
	}
	return yaml.Marshal(node)
}

// RedactedJSON is Redacted as JSON, for scripts.
func (c *Config) RedactedJSON() ([]byte, error) {
	text, err := c.Redacted()
	if err != nil {
		return nil, err
	}
	var tree map[string]any
	if err := yaml.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	return json.Marshal(tree)
}

// MarshalJSON is RedactedJSON, so that a config inside another value hides its secrets too.
func (c *Config) MarshalJSON() ([]byte, error) { return c.RedactedJSON() }

func (c *Config) node() (*yaml.Node, error) {
	var top yaml.Node
	if err := top.Encode((*plain)(c)); err != nil {
		return nil, err
	}
	sources := &yaml.Node{Kind: yaml.MappingNode}
	for i := range c.Sources {
		if err := add(sources, c.Sources[i].Name, &c.Sources[i]); err != nil {
			return nil, err
		}
	}
	destinations := &yaml.Node{Kind: yaml.MappingNode}
	for i := range c.Destinations {
		if err := add(destinations, c.Destinations[i].Name, &c.Destinations[i]); err != nil {
			return nil, err
		}
	}
	groups := &yaml.Node{Kind: yaml.MappingNode}
	for i := range c.Groups {
		if err := add(groups, c.Groups[i].Name, &c.Groups[i]); err != nil {
			return nil, err
		}
	}
	if err := add(&top, "sources", sources); err != nil {
		return nil, err
	}
	if err := add(&top, "destinations", destinations); err != nil {
		return nil, err
	}
	if len(c.Groups) == 0 {
		return &top, nil
	}
	return &top, add(&top, "groups", groups)
}

// plain is a Config without its methods, for the encoder to take field by field.
type plain Config

// add puts a key at the end of a mapping.
func add(mapping *yaml.Node, key string, value any) error {
	var name, node yaml.Node
	if err := name.Encode(key); err != nil {
		return err
	}
	if err := node.Encode(value); err != nil {
		return err
	}
	mapping.Content = append(mapping.Content, &name, &node)
	return nil
}

// MarshalYAML writes the listener in the form that a config takes.
func (l Listener) MarshalYAML() (any, error) {
	type peers struct {
		From []netip.Prefix `yaml:"from,flow"`
	}
	type bare Listener
	type whole struct {
		bare          `yaml:",inline"`
		ProxyProtocol *peers `yaml:"proxy_protocol,omitempty"`
		ForwardedFor  *peers `yaml:"forwarded_for,omitempty"`
	}
	w := whole{bare: bare(l)}
	if len(l.ProxyProtocol) > 0 {
		w.ProxyProtocol = &peers{l.ProxyProtocol}
	}
	if len(l.ForwardedFor) > 0 {
		w.ForwardedFor = &peers{l.ForwardedFor}
	}
	return w, nil
}

// MarshalYAML writes the source in the form that a config takes.
func (s *Source) MarshalYAML() (any, error) {
	type bare Source
	var node yaml.Node
	if err := node.Encode((*bare)(s)); err != nil {
		return nil, err
	}
	switch {
	case s.MutualTLS:
		return &node, add(&node, "verify", "mtls")
	case s.Verify != nil:
		return &node, add(&node, "verify", s.Verify)
	}
	return &node, nil
}
