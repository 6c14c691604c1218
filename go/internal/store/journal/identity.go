package journal

import (
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"sluice/go/internal/store/vfs"
)

const (
	identityName = "JOURNAL"
	identityTemp = "JOURNAL.tmp"
	identityMax  = 4096
)

// errNoIdentity means that the JOURNAL file is missing or is not what was written.
var errNoIdentity = errors.New("no identity")

func encodeIdentity(id [16]byte, format int) []byte {
	text := fmt.Sprintf("sluice journal\nformat %d\nid %x\n", format, id)
	sum := crc32.Checksum([]byte(text), castagnoli)
	return fmt.Appendf(nil, "%scrc32c %08x\n", text, sum)
}

func parseIdentity(b []byte) (id [16]byte, err error) {
	bad := func(why string) ([16]byte, error) {
		return id, fmt.Errorf("%w: %s: %s", errNoIdentity, identityName, why)
	}
	text, sum, ok := strings.Cut(string(b), "crc32c ")
	if !ok {
		return bad("no checksum")
	}
	if sum != fmt.Sprintf("%08x\n", crc32.Checksum([]byte(text), castagnoli)) {
		return bad("checksum")
	}
	lines := strings.Split(text, "\n")
	if len(lines) < 3 || lines[0] != "sluice journal" {
		return bad("first line")
	}
	number, _ := strings.CutPrefix(lines[1], "format ")
	format, err := strconv.Atoi(number)
	if err != nil {
		return bad("format")
	}
	if format > formatVersion {
		return id, fmt.Errorf("journal of format %d, this version reads up to %d: %w",
			format, formatVersion, ErrNewer)
	}
	digits, _ := strings.CutPrefix(lines[2], "id ")
	raw, err := hex.DecodeString(digits)
	if err != nil || len(raw) != len(id) {
		return bad("id")
	}
	return [16]byte(raw), nil
}

// readIdentity gives the journal's id. errNoIdentity: there is none to read.
func (j *Journal) readIdentity() (id [16]byte, err error) {
	f, err := j.o.FS.Open(j.path(identityName), vfs.ReadOnly)
	if errors.Is(err, fs.ErrNotExist) {
		return id, fmt.Errorf("%w: %w", errNoIdentity, err)
	}
	if err != nil {
		return id, err
	}
	defer f.Close()
	b := make([]byte, identityMax)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return id, fmt.Errorf("read %s: %w", identityName, err)
	}
	return parseIdentity(b[:n])
}

// writeIdentity makes the id durable before any group can carry it.
func (j *Journal) writeIdentity() error {
	temp := j.path(identityTemp)
	if err := j.o.FS.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := j.o.FS.Create(temp, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(encodeIdentity(j.id, formatVersion), 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := j.o.FS.Rename(temp, j.path(identityName)); err != nil {
		return err
	}
	return errors.Join(j.o.FS.SyncDir(j.o.Dir), j.o.FS.SyncDir(path.Dir(j.o.Dir)))
}
