package keyring

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"sluice/go/internal/provider"
)

// Store is the folder in which secrets of handshakes lie. It has no state of its own: the daemon
// and the command line may each have one of the same folder.
type Store struct {
	folder string
	keys   []cipher.AEAD // the first one seals, all of them open; none: nothing is sealed
}

// entry is one secret of a handshake as it lies in its file.
type entry struct {
	ID      string    `json:"id"`
	Role    string    `json:"role,omitempty"`
	Value   []byte    `json:"value"`
	Learned time.Time `json:"learned"`
	From    string    `json:"from,omitempty"`
	Window  string    `json:"window,omitempty"` // in which it came; empty: unasked

	use *use
}

// Format hides the secret from every verb.
func (e *entry) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "handshake:"+e.ID) }

func (e *entry) secret() provider.Secret {
	return provider.Secret{Value: string(e.Value), Role: e.Role}
}

// content is a file of the store.
type content struct {
	Source  string          `json:"source"`
	Secrets json.RawMessage `json:"secrets,omitempty"` // a list of entries
	Sealed  string          `json:"sealed,omitempty"`  // the same, see the package's doc
}

var (
	// ErrKey says that a file cannot be opened with the keys that there are.
	ErrKey = errors.New("the secrets that handshakes brought are sealed with another key")
	// ErrForeign says that a file is none of ours.
	ErrForeign = errors.New("the file is none of sluice, or it was damaged")
)

// NewStore makes a store of a folder, which need not be there. Keys have 32 bytes each.
func NewStore(folder string, keys [][]byte) (*Store, error) {
	s := &Store{folder: folder}
	for _, key := range keys {
		if len(key) != 32 {
			return nil, fmt.Errorf("a key that seals secrets has %d bytes: want 32", len(key))
		}
		// Neither fails with 32 bytes.
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, err
		}
		sealer, err := cipher.NewGCM(block)
		if err != nil {
			return nil, err
		}
		s.keys = append(s.keys, sealer)
	}
	return s, nil
}

func (s *Store) path(name string) string { return filepath.Join(s.folder, name+".json") }

// read gives the secrets of a source, none where it has no file. fresh is false for a file that
// would be written otherwise now: not sealed though there is a key, or by a former one.
func (s *Store) read(name string) (list []*entry, fresh bool, err error) {
	text, err := readBounded(s.path(name), learnedFileMax)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, true, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer clear(text)
	var c content
	// The errors of the decoder may quote the file, so they are not passed on.
	if json.Unmarshal(text, &c) != nil || c.Source != name {
		return nil, false, fmt.Errorf("%s: %w", s.path(name), ErrForeign)
	}
	fresh = len(s.keys) == 0
	if c.Sealed != "" {
		by := 0
		if c.Secrets, by, err = s.open(name, c.Sealed); err != nil {
			return nil, false, fmt.Errorf("%s: %w", s.path(name), err)
		}
		fresh = by == 0
	}
	defer clear(c.Secrets)
	if json.Unmarshal(c.Secrets, &list) != nil || len(list) > learnedMax {
		return nil, false, fmt.Errorf("%s: %w", s.path(name), ErrForeign)
	}
	for _, e := range list {
		if e == nil || e.ID == "" || len(e.Value) == 0 || len(e.Value) > learnedBytesMax {
			return nil, false, fmt.Errorf("%s: %w", s.path(name), ErrForeign)
		}
	}
	return list, fresh, nil
}

// open unseals by whichever key fits.
func (s *Store) open(name, sealed string) (plain []byte, by int, err error) {
	raw, err := base64.StdEncoding.DecodeString(sealed)
	if err != nil {
		return nil, 0, ErrForeign
	}
	for i, key := range s.keys {
		if len(raw) < key.NonceSize() {
			return nil, 0, ErrForeign
		}
		nonce, text := raw[:key.NonceSize()], raw[key.NonceSize():]
		if plain, err := key.Open(nil, nonce, text, []byte(name)); err == nil {
			return plain, i, nil
		}
	}
	if len(s.keys) == 0 {
		return nil, 0, fmt.Errorf("%w, and secrets_key is not set", ErrKey)
	}
	return nil, 0, ErrKey
}

// write replaces the secrets of a source. When it returns nil they are on the disk. The store must
// be locked.
func (s *Store) write(name string, list []*entry) error {
	plain, err := json.Marshal(list)
	if err != nil {
		return err
	}
	defer clear(plain)
	c := content{Source: name, Secrets: plain}
	if len(s.keys) > 0 {
		nonce := make([]byte, s.keys[0].NonceSize())
		_, _ = rand.Read(nonce) // it never fails (crypto/rand, Go 1.24)
		sealed := s.keys[0].Seal(nonce, nonce, plain, []byte(name))
		c.Secrets, c.Sealed = nil, base64.StdEncoding.EncodeToString(sealed)
	}
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	defer clear(text)
	return s.replace(s.path(name), append(text, '\n'))
}

// replace puts a file in the place of another, on the disk.
func (s *Store) replace(path string, text []byte) error {
	folder, err := os.Open(s.folder)
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
	_, err = file.Write(text)
	err = errors.Join(err, asFolder(file, folder), file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(next))
	}
	return folder.Sync()
}

// asFolder gives a file to the owner of its folder: the command line may be root's and the daemon
// not.
func asFolder(file, folder *os.File) error {
	info, err := folder.Stat()
	if err != nil || os.Geteuid() != 0 {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t)
	return file.Chown(int(owner.Uid), int(owner.Gid))
}

// prepare makes the folder, for its owner alone.
func (s *Store) prepare() error {
	parent, err := os.Open(filepath.Dir(s.folder))
	if err != nil {
		return err
	}
	defer parent.Close()
	if err := os.Mkdir(s.folder, 0o700); errors.Is(err, fs.ErrExist) {
		return os.Chmod(s.folder, 0o700)
	} else if err != nil {
		return err
	}
	folder, err := os.Open(s.folder)
	if err != nil {
		return err
	}
	defer folder.Close()
	return errors.Join(asFolder(folder, parent), parent.Sync())
}

// lock keeps other processes from writing until unlock, and makes the folder if need be.
func (s *Store) lock() (unlock func(), err error) {
	if err := s.prepare(); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(s.folder, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	until := time.Now().Add(lockPatience)
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil // which unlocks; nothing was written to it
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(until) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", s.folder, err), file.Close())
		}
		time.Sleep(lockPause)
	}
}

// newID is a name for a secret or a window. It says nothing of the secret.
func newID() string {
	var id [4]byte
	_, _ = rand.Read(id[:]) // it never fails (crypto/rand, Go 1.24)
	return hex.EncodeToString(id[:])
}

func readBounded(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(text)) > most {
		return nil, fmt.Errorf("%s: %w", path, ErrForeign)
	}
	return text, err
}
