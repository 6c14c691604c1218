package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Options says what a config may ask for and where its references are looked up. The zero value
// takes every provider's name.
type Options struct {
	// Dev takes secrets that are written out in the file.
	Dev bool
	// Provider tells what the catalogue knows of a provider; nil takes every name.
	Provider func(name string) (Provider, bool)
	// Providers lists the catalogue's names, for the mend of a mistyped one.
	Providers []string
	// CheckScheme judges a source's own `verify:` block; nil takes every mapping.
	CheckScheme func(scheme Scheme) (Provider, []SchemeFault)
	// CheckExpression compiles the text of a filter (kind "filter") or of a transform (kind "cel" or
	// "jq"); nil takes every text.
	CheckExpression func(kind, text string) error

	LookupEnv     func(name string) (string, bool)  // nil: os.LookupEnv
	ReadFile      func(path string) ([]byte, error) // nil: os.ReadFile
	LookupUser    func(name string) error           // by name or number; nil: the host's users
	Cores         int                               // 0: runtime.NumCPU
	WorkingFolder string                            // empty: os.Getwd
}

// Provider is what a config needs to know of a provider or of an own scheme.
type Provider struct {
	Deadline    time.Duration // 0: not known
	Methods     []string      // what its handshake needs beside POST
	NeedsSecret bool
	Learns      bool // a handshake may bring a secret
	ShedStatus  int  // 0: no preference
	// CheckSecrets says which of a source's secrets cannot be keys of this provider; nil takes all.
	// What it says must not repeat a secret.
	CheckSecrets func(secrets []Secret, allowLegacy bool) []SecretFault
	// Unbound gives the role of a secret that lacks and without which any other customer of the
	// sender can send here; empty: none does. nil: never.
	Unbound func(secrets []Secret) (role string)
	// Batches: it sends several events in one body. SignsURL: what it signs begins with the URL that
	// it was given.
	Batches, SignsURL bool
}

// SecretFault is one thing wrong with the secrets of a source.
type SecretFault struct {
	Index   int // of the secret; -1: all of them together
	Problem string
}

// Load reads a config file. The error of a config that is wrong is a Faults with everything found.
func Load(path string, options Options) (*Config, error) {
	text, err := readBounded(path)
	if err != nil {
		return nil, Faults{{
			File: path, Problem: fmt.Sprintf("the config cannot be read: %v", err),
			Mend: "name a file that sluice may read",
		}}
	}
	return Parse(path, text, options)
}

// Check gives every fault of a config file; none means that Load takes it.
func Check(path string, options Options) []Fault {
	_, err := Load(path, options)
	var faults Faults
	if errors.As(err, &faults) {
		return faults
	}
	return nil
}

func readBounded(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, fileBytesMax+1))
	if err == nil && len(text) > fileBytesMax {
		err = fmt.Errorf("it is larger than %s", Size(fileBytesMax))
	}
	return text, err
}

// Parse reads the text of a config. name is how faults call it; its folder is where relative paths
// in it begin.
func Parse(name string, text []byte, options Options) (*Config, error) {
	options = options.complete()
	file := name
	if !filepath.IsAbs(file) {
		file = filepath.Join(options.WorkingFolder, file)
	}
	r := &reader{
		file: name, folder: filepath.Dir(file), options: options, text: text,
		lines: map[string]int{"": 1},
	}
	config := r.config(item{node: r.document()})
	if len(r.faults) > 0 {
		return nil, r.faults.sorted()
	}
	config.File, config.Dev, config.Warnings = file, options.Dev, r.warnings.sorted()
	return config, nil
}

func (o Options) complete() Options {
	if o.LookupEnv == nil {
		o.LookupEnv = os.LookupEnv
	}
	if o.ReadFile == nil {
		o.ReadFile = os.ReadFile
	}
	if o.LookupUser == nil {
		o.LookupUser = lookupUser
	}
	if o.Cores == 0 {
		o.Cores = runtime.NumCPU()
	}
	if o.WorkingFolder == "" {
		// Without a working folder relative paths stay relative to /, which is what the shell of
		// such a process would show too.
		o.WorkingFolder, _ = os.Getwd()
		if o.WorkingFolder == "" {
			o.WorkingFolder = "/"
		}
	}
	return o
}

func lookupUser(name string) error {
	_, err := user.Lookup(name)
	if _, notNumber := strconv.ParseUint(name, 10, 32); err != nil && notNumber == nil {
		_, err = user.LookupId(name)
	}
	return err
}

// document is the top node of the file; nil when it holds nothing or is not YAML.
func (r *reader) document() *yaml.Node {
	decoder := yaml.NewDecoder(strings.NewReader(string(r.text)))
	var document yaml.Node
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		r.notYAML(err)
		return nil
	}
	var second yaml.Node
	if err := decoder.Decode(&second); err == nil {
		r.faults = append(r.faults, Fault{
			File: r.file, Line: second.Line, Problem: "a second document begins here",
			Mend: "keep one document in a config",
		})
	} else if !errors.Is(err, io.EOF) {
		r.notYAML(err)
	}
	if len(document.Content) == 0 {
		return nil
	}
	return document.Content[0]
}

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): (.*)$`)

// notYAML turns the parser's message, which says its line inside the text, into a fault.
func (r *reader) notYAML(err error) {
	fault := Fault{File: r.file, Line: 1, Problem: "this is not YAML: " + err.Error()}
	if found := yamlLine.FindStringSubmatch(err.Error()); found != nil {
		// The pattern has digits only.
		fault.Line, _ = strconv.Atoi(found[1])
		fault.Problem = "this is not YAML: " + found[2]
	} else if rest, found := strings.CutPrefix(err.Error(), "yaml: "); found {
		fault.Problem = "this is not YAML: " + rest
	}
	fault.Mend = "mind the indentation, which is of spaces, and the quotes around special characters"
	r.faults = append(r.faults, fault)
}
