package config

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Command prints a secret, or a part of one, on its standard output. A config does not run it.
type Command struct {
	Run     []string // the program and its arguments; no shell
	Every   time.Duration
	Timeout time.Duration // below Every
}

// recipe says how a secret is read, and read again.
type recipe struct {
	reader  *reader
	path    string
	parts   []part
	command *Command // gives the part value
}

// part is one of the things that a secret consists of.
type part struct {
	path, name, text string
	plain            bool // it may stand in the file, and does
}

// sourceParts are what a source's secret may consist of, in the names of provider.ParseSecret, and
// what says how to come by it.
var sourceParts = []string{
	"value", "command", "key_id", "role", "url", "user", "password", "type", "not_before",
	"not_after",
}

// plainParts are no secret and may stand in the file.
var plainParts = map[string]bool{
	"key_id": true, "role": true, "url": true, "user": true, "type": true,
	"not_before": true, "not_after": true,
}

// recipe reads what one entry says: a reference, or a mapping of parts for providers whose key has
// several and for secrets that hold for a time.
func (r *reader) recipe(it item, known []string) (*recipe, bool) {
	c := &recipe{reader: r, path: it.path}
	if !it.isTable() {
		text, ok := r.scalar(it)
		c.parts = []part{{path: it.path, name: "value", text: text}}
		return c, ok
	}
	before := len(r.faults)
	t := r.table(it)
	for _, name := range known {
		it := t.get(name)
		switch {
		case it.node == nil:
		case name == "command":
			c.command = r.command(it)
		default:
			text, ok := r.scalar(it)
			if ok && strings.HasPrefix(name, "not_") {
				ok = r.moment(it.path, text)
			}
			if ok {
				plain := plainParts[name] && !isReference(text)
				c.parts = append(c.parts, part{it.path, name, text, plain})
			}
		}
	}
	t.end()
	switch {
	case len(r.faults) > before:
	case c.command != nil && t.has("value"):
		r.fault(t.join("command"), "keep one", "value and command both give the secret")
	case c.command == nil && !slices.ContainsFunc(c.parts, func(p part) bool { return !p.plain }):
		r.fault(it.path, `write value: "env:NAME" or "file:PATH"`, "the secret is empty")
	}
	return c, len(r.faults) == before
}

func isReference(text string) bool {
	return strings.HasPrefix(text, "env:") || strings.HasPrefix(text, "file:")
}

func (r *reader) moment(path, text string) bool {
	if _, err := time.Parse(time.RFC3339, text); err != nil {
		r.fault(path, "write it as 2027-01-31T00:00:00Z", "%q is no time in RFC 3339", text)
		return false
	}
	return true
}

// command reads what is to be run.
func (r *reader) command(it item) *Command {
	t := r.table(it)
	c := &Command{}
	run := t.get("run")
	for _, entry := range r.list(run) {
		// An argument may be empty and may be there twice.
		if text, ok := r.scalar(entry); ok {
			c.Run = append(c.Run, text)
		}
	}
	c.Every = value(t, "every", 5*time.Minute, parseDuration,
		between(commandEveryMin, commandEveryMax))
	c.Timeout = value(t, "timeout", min(10*time.Second, c.Every/2), parseDuration,
		between(commandTimeoutMin, commandTimeoutMax))
	t.end()
	switch {
	case run.node == nil || isList(run) && (len(c.Run) == 0 || c.Run[0] == ""):
		r.fault(it.path, `write run: [vault, kv, get, -field=secret, secret/hooks]`,
			"no program is named")
	case len(c.Run) > commandArgsMax:
		r.fault(run.path, "write a script and run that", "%d arguments are more than %d", len(c.Run),
			commandArgsMax)
	case c.Timeout >= c.Every:
		r.fault(t.join("timeout"), "write a fraction of it",
			"%v is not below the %v after which it is run again", c.Timeout, c.Every)
	}
	return c
}

// blamed is where in the file an error of read belongs.
func (c *recipe) blamed(err error) string {
	if of := (partError{}); errors.As(err, &of) {
		return of.path
	}
	return c.path
}

// partError is an error of one part.
type partError struct {
	path string
	error
}

func (e partError) Unwrap() error { return e.error }

// read gives the secret as it is now. output is what the command has printed.
func (c *recipe) read(output []byte) (Secret, error) {
	values, origins := map[string]string{}, []string{}
	if c.command != nil {
		values["value"], origins = string(output), append(origins, c.programName())
	}
	for _, p := range c.parts {
		if p.plain {
			values[p.name] = p.text
			continue
		}
		value, origin, err := c.reader.resolve(p.text)
		if err != nil {
			return Secret{}, partError{p.path, err}
		}
		values[p.name], origins = string(value), append(origins, origin)
		clear(value)
	}
	secret := Secret{}
	if value, has := values["value"]; has && len(values) == 1 {
		secret = NewSecret(strings.Join(origins, "+"), []byte(value))
	} else {
		// The form that `sluice verify --secret` takes too. A map of strings always encodes.
		object, _ := json.Marshal(values)
		secret = NewSecret(strings.Join(origins, "+"), object)
	}
	secret.recipe = c
	return secret, nil
}

// origin is what read gives its secret.
func (c *recipe) origin() string {
	var origins []string
	if c.command != nil {
		origins = append(origins, c.programName())
	}
	for _, p := range c.parts {
		if file, is := strings.CutPrefix(p.text, "file:"); is && !p.plain {
			origins = append(origins, "file:"+c.reader.inFolder(file))
		} else if !p.plain {
			origins = append(origins, p.text)
		}
	}
	return strings.Join(origins, "+")
}

// programName says no argument: they may be secret.
func (c *recipe) programName() string { return "command:" + filepath.Base(c.command.Run[0]) }

// Command is what has to be run for the secret; nil: nothing.
func (s Secret) Command() *Command {
	if s.recipe == nil {
		return nil
	}
	return s.recipe.command
}

// Files are those that it is read from.
func (s Secret) Files() (files []string) {
	if s.recipe == nil {
		return nil
	}
	for _, p := range s.recipe.parts {
		if file, is := strings.CutPrefix(p.text, "file:"); is && !p.plain {
			files = append(files, s.recipe.reader.inFolder(file))
		}
	}
	return files
}

// Again reads it once more, with what its command has printed, if it has one. No error repeats the
// secret.
func (s Secret) Again(output []byte) (Secret, error) { return s.recipe.read(output) }

// Fault blames the secret for something, by its place in the file.
func (s Secret) Fault(problem, mend string) Fault {
	r, path := s.recipe.reader, s.recipe.path
	return Fault{File: r.file, Line: r.lineOf(path), Path: path, Problem: problem, Mend: mend}
}

// learn reads when a handshake may bring the source a secret. A provider that brings none has no
// such key.
func (r *reader) learn(t *table, s *Source, facts Provider) {
	it := t.get("learn")
	switch {
	case facts.Learns:
		s.Learn = value(t, "learn", "ask", oneOf("ask", "first"))
	case it.node != nil:
		r.fault(it.path, "take it out", "%s brings no secret in a handshake",
			cmp.Or(s.Provider, "the source's scheme"))
	}
}

// sealKeys reads what seals the secrets that handshakes bring: one key, or a list of which the
// first one seals.
func (r *reader) sealKeys(it item) (keys []Secret) {
	entries := []item{it}
	switch {
	case it.node == nil:
		return nil
	case isList(it):
		entries = r.list(it)
	}
	if len(entries) > sealKeysMax {
		r.fault(it.path, "drop old ones", "%d keys are more than %d", len(entries), sealKeysMax)
	}
	for _, entry := range entries {
		secret, ok := r.secret(entry)
		if !ok {
			continue
		}
		key := decodeSealKey(string(secret.Reveal()))
		if key == nil {
			r.fault(entry.path, "make one with `openssl rand -base64 32`",
				"the key from %s is not 32 bytes in base64 or hex", secret.Origin())
			continue
		}
		keys = append(keys, NewSecret(secret.Origin(), key))
	}
	return keys
}

// decodeSealKey gives nil for what is no key.
func decodeSealKey(text string) []byte {
	key, err := hex.DecodeString(text)
	if err != nil {
		standard := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
		key, err = base64.RawStdEncoding.DecodeString(standard)
	}
	if err != nil || len(key) != sealKeyBytes {
		return nil
	}
	return key
}
