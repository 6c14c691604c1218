package tlsfiles

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// TicketKey is what session tickets are sealed with.
type TicketKey struct {
	Name [16]byte // shown in each ticket
	Key  [32]byte // secret
	born time.Time
}

// Format shows the name and never the key.
func (k TicketKey) Format(f fmt.State, _ rune) {
	// An error of the sink is the printing caller's, who sees it there.
	_, _ = fmt.Fprintf(f, "ticket key %x", k.Name)
}

// MarshalText shows the name and never the key.
func (k TicketKey) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%v", k), nil }

// Tickets are the keys of a daemon. They live in one file, see the package's doc.
type Tickets struct {
	path string
	log  *slog.Logger
	now  func() time.Time

	mu   sync.Mutex
	keys []TicketKey // the newest first
	lame bool        // that the file could not be written has been told
}

// OpenTickets takes the keys of an earlier life up, or makes new ones. A file that cannot be used
// or written is a warning: then senders make full handshakes after a restart.
func OpenTickets(path string, log *slog.Logger, now func() time.Time) *Tickets {
	t := &Tickets{path: path, log: log, now: now}
	keys, err := readKeys(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		log.Warn("the keys of session tickets are made anew: senders begin with full handshakes",
			"error", err, "aside", t.putAside())
	}
	t.keys = keys
	t.turn()
	return t
}

// Keys are those that open tickets; the first one seals.
func (t *Tickets) Keys() []TicketKey {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.keys)
}

// turn makes a new key where the newest has sealed for long enough, and drops those that have
// opened for long enough. It tells whether anything changed.
func (t *Tickets) turn() (changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	kept := slices.Clone(t.keys)
	for i := range kept {
		// Born in the time to come: the clock was set back. It would seal until then.
		if kept[i].born.After(now) {
			kept[i].born = now.Add(-ticketSeals)
		}
	}
	kept = slices.DeleteFunc(kept, func(k TicketKey) bool { return now.Sub(k.born) >= ticketOpens })
	if len(kept) == 0 || now.Sub(kept[0].born) >= ticketSeals {
		kept = slices.Insert(kept, 0, newKey(now))
		kept = kept[:min(len(kept), ticketKeysMax)]
	}
	if slices.Equal(kept, t.keys) {
		return false
	}
	t.keys = kept
	if err := writeKeys(t.path, kept); err == nil {
		t.lame = false
	} else if !t.lame {
		t.lame = true
		t.log.Warn("the keys of session tickets are not on disk: after a restart senders begin with "+
			"full handshakes", "error", err)
	}
	return true
}

func newKey(born time.Time) TicketKey {
	k := TicketKey{born: born.UTC().Round(0)}
	// It never fails (crypto/rand, Go 1.24).
	_, _ = rand.Read(k.Name[:])
	_, _ = rand.Read(k.Key[:])
	return k
}

// putAside keeps a file that is not ours for its owner to look at.
func (t *Tickets) putAside() string {
	aside := t.path + ".aside"
	if err := os.Rename(t.path, aside); err != nil {
		return "it stays where it is: " + err.Error()
	}
	return aside
}

// ticketFile is the form on disk.
type ticketFile struct {
	Keys []ticketEntry `json:"keys"`
}

type ticketEntry struct {
	Born time.Time `json:"born"`
	Name string    `json:"name"`
	Key  string    `json:"key"`
}

// readKeys never quotes the file in its error.
func readKeys(path string) ([]TicketKey, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s has mode %v: want a file that its owner alone may read", path,
			info.Mode())
	}
	text, err := read(path)
	if err != nil {
		return nil, err
	}
	var file ticketFile
	if json.Unmarshal(text, &file) != nil || len(file.Keys) == 0 || len(file.Keys) > ticketKeysMax {
		return nil, fmt.Errorf("%s is no file of ticket keys", path)
	}
	keys := make([]TicketKey, len(file.Keys))
	for i, entry := range file.Keys {
		name, errName := hex.DecodeString(entry.Name)
		key, errKey := hex.DecodeString(entry.Key)
		if errName != nil || errKey != nil || len(name) != 16 || len(key) != 32 || entry.Born.IsZero() {
			return nil, fmt.Errorf("%s: key %d has not its form", path, i+1)
		}
		keys[i] = TicketKey{[16]byte(name), [32]byte(key), entry.Born.UTC()}
	}
	slices.SortStableFunc(keys, func(a, b TicketKey) int { return b.born.Compare(a.born) })
	return keys, nil
}

// writeKeys replaces the file as a whole.
func writeKeys(path string, keys []TicketKey) error {
	var content ticketFile
	for _, k := range keys {
		content.Keys = append(content.Keys, ticketEntry{
			k.born, hex.EncodeToString(k.Name[:]), hex.EncodeToString(k.Key[:]),
		})
	}
	text, err := json.Marshal(content)
	if err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer folder.Close()
	next := path + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(next))
	}
	return folder.Sync()
}
