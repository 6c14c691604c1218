package keyring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice/go/internal/provider"
)

// Wanted is what one source of a config needs. It is not changed once it is in a Set.
type Wanted struct {
	ID      uint32 // the source's number
	Name    string
	Secrets []Secret
	// Learns tells that a handshake may bring secrets, and First that one may do so unasked while the
	// source has none at all.
	Learns, First bool
	// Compile makes what proves the source's requests of the secrets, and gives how to put it in
	// force. Each event that it proves is to be told to the function, by the index of the secret.
	// Compile is called with the ring locked and calls nothing of it.
	Compile func([]provider.Secret, func(secret int, atNS int64)) (put func(), err error)
}

// Secret says how one secret of a config is come by.
type Secret struct {
	// Origin is env:NAME, file:PATH, command:PROGRAM or the like: what people see of it.
	Origin string
	// Files are looked at for changes.
	Files []string
	// Command is run for a part of it; nil: none is.
	Command *Command
	// Read gives the secret's text as it is now, in the form of provider.ParseSecret, and fresh bytes
	// each time. output is what Command printed. No error repeats a secret.
	Read func(output []byte) ([]byte, error)
}

// key tells one secret of a source from another, over reloads.
func (s *Secret) key() string {
	if s.Command == nil {
		return s.Origin
	}
	return s.Origin + "\x00" + strings.Join(s.Command.Args, "\x00")
}

// Fault is one secret that a source cannot do without: the operator's to mend.
type Fault struct {
	Source        string
	Index         int // of the secret in Wanted.Secrets; -1: all of them, or those of handshakes
	Problem, Mend string
}

func (f *Fault) Error() string {
	if f.Index < 0 {
		return fmt.Sprintf("the secrets of source %s: %s; %s", f.Source, f.Problem, f.Mend)
	}
	return fmt.Sprintf("secret %d of source %s: %s; %s", f.Index, f.Source, f.Problem, f.Mend)
}

// Options of Open.
type Options struct {
	// Store keeps the secrets of handshakes.
	Store *Store
	Log   *slog.Logger
	Now   func() time.Time // nil: time.Now
}

// Ring keeps the secrets of a daemon. All its methods may be called from any goroutine, Run once.
type Ring struct {
	o     Options
	store *Store

	mu      sync.Mutex
	sets    []*Set // by which requests are judged
	uses    map[string]*use
	learned map[string]*learned // by the names of sources

	ended chan ended // commands that Run has started
}

// Set is the secrets of one config.
type Set struct {
	sources map[uint32]*source
}

// source is one source of a Set, under the lock of the ring.
type source struct {
	want  *Wanted
	slots []*slot
	// version is that of the learned secrets in force.
	version uint64
	// unfit are the ids of learned secrets that are none for the source's provider.
	unfit []string
}

// slot is one secret of a config. What begins with watch is Run's alone once the slot is in a Set.
type slot struct {
	want *Secret
	use  *use

	text    []byte // as Read gave it; overwritten when another takes its place
	face    face
	problem string // why the text is not what it should be now

	watch watch
}

// face is what may be seen of a secret.
type face struct {
	keyID, role         string
	notBefore, notAfter time.Time
}

func faceOf(s *provider.Secret) face { return face{s.KeyID, s.Role, s.NotBefore, s.NotAfter} }

// Open makes a ring without sources.
func Open(o Options) *Ring {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Ring{
		o: o, store: o.Store, uses: map[string]*use{}, learned: map[string]*learned{},
		ended: make(chan ended, commandsMax),
	}
}

// Prepare reads the secrets of a config and puts them in force where its sources are judged. A
// secret that cannot be read now and that another set has stays as it is there. Commands are run
// again where fresh is set, else only those whose secret nobody has. Its errors are of *Fault.
func (r *Ring) Prepare(ctx context.Context, wanted []Wanted, fresh bool) (*Set, error) {
	set := &Set{sources: make(map[uint32]*source, len(wanted))}
	outputs := r.runAll(ctx, wanted, fresh)
	r.mu.Lock()
	defer r.mu.Unlock()
	var faults []error
	for i := range wanted {
		s, err := r.source(&wanted[i], outputs)
		if err == nil {
			err = r.compile(s)
		}
		set.sources[wanted[i].ID] = s
		faults = append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		set.clear()
		return nil, err
	}
	return set, nil
}

// source reads the secrets of one source.
func (r *Ring) source(w *Wanted, outputs map[*Secret]result) (*source, error) {
	s := &source{want: w}
	var faults []error
	for i := range w.Secrets {
		want := &w.Secrets[i]
		l := &slot{want: want}
		s.slots = append(s.slots, l)
		output := outputs[want]
		before := r.inForce(w.Name, want, i)
		l.watch.begin(want.Files)
		text, err := output.text, output.err
		if err == nil && output.known && before != nil {
			text = slices.Clone(before.text)
		} else if err == nil {
			text, err = want.Read(output.text)
		}
		if err != nil && before != nil {
			text, l.problem = slices.Clone(before.text), err.Error()
		} else if err != nil {
			faults = append(faults, &Fault{w.Name, i, err.Error(), want.mend()})
			continue
		}
		if want.Command != nil {
			l.watch.due = r.o.Now().Add(want.Command.again(err))
		}
		parsed, err := provider.ParseSecret(string(text))
		if err != nil {
			faults = append(faults, &Fault{w.Name, i, err.Error(), want.mend()})
		}
		l.text, l.face = text, faceOf(&parsed)
		l.use = r.useOf(w.Name, want.key(), &parsed)
	}
	if w.Learns {
		if err := r.load(w.Name); err != nil {
			faults = append(faults, &Fault{w.Name, -1, err.Error(),
				"put secrets_key or the file back as it was, or move the file away and have the sender " +
					"hand its secret over again (`sluice secrets learn`)"})
		}
	}
	return s, errors.Join(faults...)
}

func (s *Secret) mend() string {
	if s.Command != nil {
		return "have the command print the secret, or give the source one by env: or file:"
	}
	return "put it right where it comes from"
}

// inForce finds the same secret in a set in force; nil: there is none.
func (r *Ring) inForce(name string, want *Secret, index int) *slot {
	for _, set := range slices.Backward(r.sets) {
		for _, s := range set.sources {
			if s.want.Name != name {
				continue
			}
			same := func(l *slot) bool { return l.want.key() == want.key() && l.text != nil }
			if index < len(s.slots) && same(s.slots[index]) {
				return s.slots[index]
			}
			if at := slices.IndexFunc(s.slots, same); at >= 0 {
				return s.slots[at]
			}
		}
	}
	return nil
}

// compile puts the source's secrets of now in force. One of a handshake that does not serve is left
// out: it is of another provider, and no reason for the source not to be served.
func (r *Ring) compile(s *source) error {
	entries, version := r.entries(s)
	put, err := r.compiled(s, entries, version, "")
	if err != nil {
		return err
	}
	put()
	return nil
}

// compiled does all of it but putting it in force. must is the id of an entry that may not be left
// out; empty: none.
func (r *Ring) compiled(s *source, entries []*entry, version uint64, must string) (func(), error) {
	var list []provider.Secret
	var uses []*use
	for i, l := range s.slots {
		parsed, err := provider.ParseSecret(string(l.text))
		if err != nil {
			return nil, &Fault{s.want.Name, i, err.Error(), l.want.mend()}
		}
		list, uses = append(list, parsed), append(uses, l.use)
	}
	var ids, unfit []string
	for _, e := range entries {
		list, uses, ids = append(list, e.secret()), append(uses, e.use), append(ids, e.ID)
	}
	for {
		counts := slices.Clone(uses)
		put, err := s.want.Compile(list, func(secret int, atNS int64) {
			if secret >= 0 && secret < len(counts) {
				counts[secret].count(atNS)
			}
		})
		fault := (*provider.SecretError)(nil)
		switch {
		case err == nil:
			return func() { put(); s.version, s.unfit = version, unfit }, nil
		case !errors.As(err, &fault) || fault.Index < 0 || fault.Index >= len(list):
			return nil, &Fault{s.want.Name, -1, err.Error(), "see `sluice check`"}
		case fault.Index < len(s.slots):
			return nil, &Fault{s.want.Name, fault.Index, "it " + fault.Reason,
				s.slots[fault.Index].want.mend()}
		}
		at := fault.Index - len(s.slots)
		if ids[at] == must {
			return nil, fmt.Errorf("it is none for the source's provider: it %s", fault.Reason)
		}
		unfit = append(unfit, ids[at])
		ids = slices.Delete(ids, at, at+1)
		list = slices.Delete(list, fault.Index, fault.Index+1)
		uses = slices.Delete(uses, fault.Index, fault.Index+1)
	}
}

// Use tells by which sets requests are judged from now on: one, or during a reload two. What was
// learned since a set was prepared counts for it, too. Other sets are forgotten.
func (r *Ring) Use(sets ...*Set) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, old := range r.sets {
		if !slices.Contains(sets, old) {
			old.clear()
		}
	}
	r.sets = sets
	names := map[string]bool{}
	for _, set := range sets {
		for _, s := range set.sources {
			names[s.want.Name] = true
			r.refresh(s)
		}
	}
	for key := range r.uses {
		if name, _, _ := strings.Cut(key, "\x00"); !names[name] {
			delete(r.uses, key)
		}
	}
}

// refresh brings a source to the learned secrets of now.
func (r *Ring) refresh(s *source) {
	if _, version := r.entries(s); version == s.version {
		return
	}
	if err := r.compile(s); err != nil {
		r.o.Log.Error("secrets are not in force", "source", s.want.Name, "error", err)
	}
}

// clear overwrites what nobody is judged by any more.
func (s *Set) clear() {
	for _, source := range s.sources {
		for _, l := range source.slots {
			clear(l.text)
			l.text = nil
		}
	}
}

// sorted are the sources of all sets in force by name, each once: the newest set's.
func (r *Ring) sorted() []*source {
	byName := map[string]*source{}
	for _, set := range r.sets {
		for _, s := range set.sources {
			byName[s.want.Name] = s
		}
	}
	list := make([]*source, 0, len(byName))
	for _, s := range byName {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *source) int { return cmp.Compare(a.want.Name, b.want.Name) })
	return list
}
