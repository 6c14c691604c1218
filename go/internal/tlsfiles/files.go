package tlsfiles

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Wanted is what one listener needs; the zero value is a plain one.
type Wanted struct {
	Pairs    []Pair
	ClientCA string // empty: no client certificate is asked for
}

// Material is what one listener has.
type Material struct {
	Certificates []Certificate // in the order of Wanted.Pairs
	ClientCA     []byte        // PEM
}

// Files are the certificates and authorities of one config. They are in one of two states: as they
// were loaded, or as somebody has changed them since; only look moves them on.
type Files struct {
	wanted []Wanted
	log    *slog.Logger
	now    func() time.Time

	mu      sync.Mutex
	pairs   map[Pair]*pair
	bundles map[string]*watched
}

// pair is one certificate with how long it is good for.
type pair struct {
	watched
	parsed Certificate
	warned slog.Level // what was said of its end
}

// Load reads everything that the listeners want. All that is wrong is in the error.
func Load(wanted []Wanted, log *slog.Logger, now func() time.Time) (*Files, error) {
	f := &Files{
		wanted: wanted, log: log, now: now, pairs: map[Pair]*pair{}, bundles: map[string]*watched{},
	}
	var problems []error
	for _, w := range wanted {
		for _, p := range w.Pairs {
			if f.pairs[p] != nil {
				continue
			}
			added := &pair{watched: watched{paths: []string{p.Cert, p.Key}}}
			f.pairs[p] = added
			problems = append(problems, added.begin(func(parts [][]byte) error {
				parsed, err := parsePair(p, parts[0], parts[1])
				if err == nil {
					added.parsed = parsed
				}
				return err
			}))
		}
		if path := w.ClientCA; path != "" && f.bundles[path] == nil {
			added := &watched{paths: []string{path}}
			f.bundles[path] = added
			problems = append(problems, added.begin(func(parts [][]byte) error {
				return checkAuthorities(path, parts[0])
			}))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	f.warnOfExpiry()
	return f, nil
}

// Material is what each listener has now, in the order in which they were wanted. What it holds is
// not changed any more.
func (f *Files) Material() []Material {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]Material, len(f.wanted))
	for i, w := range f.wanted {
		for _, p := range w.Pairs {
			list[i].Certificates = append(list[i].Certificates, f.pairs[p].parsed)
		}
		if w.ClientCA != "" {
			list[i].ClientCA = f.bundles[w.ClientCA].parts[0]
		}
	}
	return list
}

// Certificates are all of them, each once, for those who want to know when they expire.
func (f *Files) Certificates() []Certificate {
	seen := map[Pair]bool{}
	var list []Certificate
	for _, m := range f.Material() {
		for _, c := range m.Certificates {
			if !seen[c.Pair] {
				seen[c.Pair], list = true, append(list, c)
			}
		}
	}
	return list
}

// look takes up what has changed, and gives the files and how to take it back.
func (f *Files) look() (replaced []string, undo func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var undos []func()
	for _, p := range f.pairs {
		before := p.parsed
		if back := p.look(f.log, f.now()); back != nil {
			undos = append(undos, func() { p.parsed = before; back() })
			replaced, p.warned = append(replaced, p.parsed.Cert), 0
		}
	}
	for _, b := range f.bundles {
		if back := b.look(f.log, f.now()); back != nil {
			undos, replaced = append(undos, back), append(replaced, b.paths[0])
		}
	}
	f.warnOfExpiry()
	return replaced, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, back := range undos {
			back()
		}
	}
}

// warnOfExpiry says once of each certificate that it ends soon, and once that it has ended.
func (f *Files) warnOfExpiry() {
	for _, p := range f.pairs {
		left := p.parsed.NotAfter.Sub(f.now())
		switch {
		case left <= 0 && p.warned < slog.LevelError:
			p.warned = slog.LevelError
			f.log.Error("a certificate has expired: senders refuse it", "file", p.parsed.Cert,
				"since", p.parsed.NotAfter)
		case left > 0 && left <= expiresSoon && p.warned < slog.LevelWarn:
			p.warned = slog.LevelWarn
			f.log.Warn(fmt.Sprintf("a certificate expires in %d days: renew it",
				int(left.Hours()/24)), "file", p.parsed.Cert, "at", p.parsed.NotAfter)
		}
	}
}
