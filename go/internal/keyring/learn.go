package keyring

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"sluice/go/internal/provider"
)

// ErrUnasked says that nobody has asked for a secret of that source now, so its handshake is a
// stranger's. Learn's other errors are ours: the sender may try again.
var ErrUnasked = errors.New("nobody asked for a secret")

var errTooSoon = errors.New("a moment ago a secret could not be kept")

// learned is what handshakes have brought for one source.
type learned struct {
	entries []*entry
	version uint64 // counts changes of entries
	watch   watch  // of the file; Run's, once it was loaded
	problem string

	closed  time.Time // until then no window is looked for
	failed  time.Time // when the last one could not be kept
	unasked time.Time // the last handshake that was refused
	from    netip.Addr
	told    time.Time // when the log was told of one
}

// load reads what earlier lives have learned.
func (r *Ring) load(name string) error {
	if r.learned[name] != nil {
		return nil
	}
	l := &learned{version: 1}
	l.watch.begin([]string{r.store.path(name)})
	list, fresh, err := r.store.read(name)
	if err != nil {
		return err
	}
	r.adopt(name, list)
	l.entries, r.learned[name] = list, l
	if len(list) == 0 {
		return nil
	}
	if len(r.store.keys) == 0 {
		r.o.Log.Info("secrets of handshakes are not encrypted on disk: set secrets_key for that",
			"source", name, "file", r.store.path(name))
	}
	if fresh {
		return nil
	}
	unlock, err := r.store.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := r.store.write(name, list); err != nil {
		return err
	}
	r.o.Log.Info("secrets of handshakes were sealed with the first of secrets_key", "source", name)
	return nil
}

// adopt gives entries their counts.
func (r *Ring) adopt(name string, list []*entry) {
	for _, e := range list {
		e.use = r.useOf(name, "handshake:"+e.ID, &provider.Secret{Role: e.Role})
	}
}

// entries are the learned secrets of a source, and the version of them.
func (r *Ring) entries(s *source) ([]*entry, uint64) {
	if l := r.learned[s.want.Name]; l != nil && s.want.Learns {
		return l.entries, l.version
	}
	return nil, 0
}

// Learn takes a secret that a handshake brought, from an address (the zero one: not known). When it
// returns nil the secret is on the disk and requests are judged by it. A secret that is there
// already is none to take. The value is copied.
func (r *Ring) Learn(id uint32, role string, value []byte, from netip.Addr) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var sources []*source
	for _, set := range r.sets {
		if s := set.sources[id]; s != nil {
			sources = append(sources, s)
		}
	}
	if len(sources) == 0 || len(value) == 0 || len(value) > learnedBytesMax {
		return ErrUnasked
	}
	s := sources[len(sources)-1]
	l := r.learned[s.want.Name]
	if l == nil || !s.want.Learns {
		return ErrUnasked
	}
	if r.has(s, l, role, value) {
		return nil
	}
	w, err := r.leave(s, l, from)
	if err != nil {
		return err
	}
	e := &entry{
		ID: newID(), Role: role, Value: slices.Clone(value), Window: w.ID,
		Learned: r.o.Now().UTC().Truncate(time.Second),
	}
	if from.IsValid() {
		e.From = from.String()
	}
	if err := r.keep(sources, l, e, &w); err != nil {
		clear(e.Value)
		l.failed = r.o.Now()
		r.o.Log.Error("a secret of a handshake cannot be kept, so the handshake was refused",
			"source", s.want.Name, "error", err)
		return err
	}
	r.o.Log.Info("a handshake brought a secret, which is in force",
		"source", s.want.Name, "secret", "handshake:"+e.ID, "role", role, "from", e.From)
	return nil
}

// has tells whether a source has that very secret.
func (r *Ring) has(s *source, l *learned, role string, value []byte) bool {
	equal := 0
	for _, e := range l.entries {
		if e.Role == role {
			equal |= subtle.ConstantTimeCompare(e.Value, value)
		}
	}
	for _, slot := range s.slots {
		if parsed, err := provider.ParseSecret(string(slot.text)); err == nil {
			equal |= subtle.ConstantTimeCompare([]byte(parsed.Value), value)
		}
	}
	return equal == 1
}

// leave finds the window in which a secret may come, unless the disk has refused one just now: a
// flood of handshakes would go on trying. The zero one is for a source that takes its
// first secret unasked.
func (r *Ring) leave(s *source, l *learned, from netip.Addr) (Window, error) {
	now := r.o.Now()
	if since := now.Sub(l.failed); since >= 0 && since < windowAgain {
		return Window{}, errTooSoon
	}
	if s.want.First && len(s.slots)+len(l.entries) == 0 {
		return Window{}, nil
	}
	if now.After(l.closed) || l.closed.Sub(now) > windowAgain {
		w, open := r.store.window(s.want.Name, now)
		if open && w.spent(l.entries) < w.Count {
			return w, nil
		}
		l.closed = now.Add(windowAgain)
	}
	l.unasked, l.from = now, from
	if now.Sub(l.told) >= unaskedAgain || l.told.After(now) {
		l.told = now
		r.o.Log.Warn("a handshake brought a secret that nobody asked for, and was refused",
			"source", s.want.Name, "from", from, "mend", "if it is yours, run `sluice secrets learn "+
				s.want.Name+"` and have the sender make the handshake again")
	}
	return Window{}, ErrUnasked
}

// keep writes a secret down, then puts it in force.
func (r *Ring) keep(sources []*source, l *learned, e *entry, w *Window) error {
	name := sources[0].want.Name
	unlock, err := r.store.lock()
	if err != nil {
		return err
	}
	defer unlock()
	list, _, err := r.store.read(name) // the command line may have dropped some
	if err != nil {
		return err
	}
	if w.Replace {
		list = slices.DeleteFunc(list, func(old *entry) bool { return old.Window != w.ID })
	}
	if len(list) >= learnedMax {
		return fmt.Errorf("source %s has %d of them: drop old ones with `sluice secrets forget`",
			name, learnedMax)
	}
	list = append(list, e)
	r.adopt(name, list)
	var puts []func()
	for _, s := range sources {
		put, err := r.compiled(s, list, l.version+1, e.ID)
		if err != nil {
			return err
		}
		puts = append(puts, put)
	}
	if err := r.store.write(name, list); err != nil {
		return err
	}
	r.changed(l, list)
	for _, put := range puts {
		put()
	}
	if w.ID != "" && w.spent(list) >= w.Count {
		if err := r.store.CloseWindow(name); err != nil {
			r.o.Log.Warn("a window that is spent stays on disk until its time is over",
				"source", name, "error", err)
		}
	}
	return nil
}

// changed puts other entries in the place of those that were.
func (r *Ring) changed(l *learned, list []*entry) {
	for _, old := range l.entries {
		clear(old.Value)
	}
	l.entries, l.version, l.problem = list, l.version+1, ""
	l.unasked = time.Time{}
}

// lookAtLearned takes up what the command line has done to the files.
func (r *Ring) lookAtLearned() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, l := range r.learned {
		if l.watch.quiet() {
			continue
		}
		list, _, err := r.store.read(name)
		if err != nil {
			l.problem = err.Error()
			continue
		}
		l.problem = ""
		if slices.EqualFunc(list, l.entries, func(a, b *entry) bool { return a.ID == b.ID }) {
			continue
		}
		r.adopt(name, list)
		r.changed(l, list)
		for _, set := range r.sets {
			for _, s := range set.sources {
				if s.want.Name == name {
					r.refresh(s)
				}
			}
		}
	}
}
