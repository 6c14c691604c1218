package config

import (
	_ "embed"
	"path/filepath"
)

//go:embed dev.yaml
var devYAML []byte

// DevSecret is the secret of the built-in config for trying things out.
const DevSecret = "sluice-dev-secret"

// Default is the config of a daemon that was given no file: every key's default, no source yet.
func Default(options Options) (*Config, error) { return builtIn(nil, options) }

// Dev is the config of `run --dev` without a file: a GitHub source with a secret known to all,
// which prints what it is sent, on this host's loopback alone.
func Dev(options Options) (*Config, error) {
	options.Dev = true
	return builtIn(devYAML, options)
}

func builtIn(text []byte, options Options) (*Config, error) {
	options = options.complete()
	c, err := Parse(filepath.Join(options.WorkingFolder, "built-in"), text, options)
	if err != nil {
		return nil, err
	}
	c.File = ""
	return c, nil
}
