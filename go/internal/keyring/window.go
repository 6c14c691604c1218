package keyring

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Window is an operator's leave for a source to take secrets from handshakes.
type Window struct {
	ID    string    `json:"id"`
	Until time.Time `json:"until"`
	// Count is how many it takes.
	Count int `json:"count"`
	// Replace drops the secrets that came before the window once one came in it.
	Replace bool `json:"replace,omitempty"`
}

func (s *Store) windowPath(name string) string { return filepath.Join(s.folder, name+".window") }

// OpenWindow lets a source take count secrets for a while, in place of any other window of it.
func (s *Store) OpenWindow(
	name string, span time.Duration, count int, replace bool,
) (Window, error) {
	if span <= 0 || span > windowMax {
		return Window{}, fmt.Errorf("a window is open for up to %v, not for %v", windowMax, span)
	}
	if count < 1 || count > learnedMax {
		return Window{}, fmt.Errorf("a window takes 1 to %d secrets, not %d", learnedMax, count)
	}
	w := Window{ID: newID(), Until: time.Now().Add(span).UTC(), Count: count, Replace: replace}
	text, err := json.Marshal(w)
	if err != nil {
		return w, err
	}
	unlock, err := s.lock()
	if err != nil {
		return w, err
	}
	defer unlock()
	return w, s.replace(s.windowPath(name), append(text, '\n'))
}

// CloseWindow ends it before its time. One that is not there is closed.
func (s *Store) CloseWindow(name string) error {
	if err := os.Remove(s.windowPath(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Waits tells whether a window still takes secrets: it was neither spent nor closed.
func (s *Store) Waits(name string, w Window) (bool, error) {
	now, open := s.window(name, time.Now())
	if open && now.ID != w.ID {
		return false, fmt.Errorf("another `sluice secrets learn %s` took the place of this one", name)
	}
	return open, nil
}

// window gives the one that is open at a time; false: none is, or what is there is none of ours.
func (s *Store) window(name string, now time.Time) (w Window, open bool) {
	text, err := readBounded(s.windowPath(name), complaintMax)
	if err != nil || json.Unmarshal(text, &w) != nil {
		return Window{}, false
	}
	left := w.Until.Sub(now)
	return w, w.ID != "" && left > 0 && left <= windowMax
}

// spent is how many of a window's secrets have come.
func (w *Window) spent(list []*entry) (n int) {
	for _, e := range list {
		if e.Window == w.ID {
			n++
		}
	}
	return n
}

// Kept is one secret of a handshake that the store has.
type Kept struct {
	ID, Role, From, Window string
	Learned                time.Time
	value                  []byte
}

// Reveal gives the secret itself, for an operator who has to hand it on. It must not be logged.
func (k Kept) Reveal() []byte { return k.value }

// Format hides the secret from every verb.
func (k Kept) Format(f fmt.State, _ rune) { fmt.Fprint(f, "handshake:"+k.ID) }

// Kept lists the secrets of a source, the oldest first.
func (s *Store) Kept(name string) ([]Kept, error) {
	list, _, err := s.read(name)
	var kept []Kept
	for _, e := range list {
		kept = append(kept, Kept{e.ID, e.Role, e.From, e.Window, e.Learned, e.Value})
	}
	return kept, err
}

// ErrUnknown says that a source has no such secret.
var ErrUnknown = errors.New("there is no such secret")

// Forget drops a secret of a source. A daemon that runs does so at its next look.
func (s *Store) Forget(name, id string) error {
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	list, _, err := s.read(name)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(list, func(e *entry) bool { return e.ID == id })
	if at < 0 {
		return fmt.Errorf("source %s, handshake:%s: %w", name, id, ErrUnknown)
	}
	return s.write(name, slices.Delete(list, at, at+1))
}
