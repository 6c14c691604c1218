package journal

import (
	"errors"
	"io/fs"
	"path"

	"sluice/go/internal/store/vfs"
)

// ReadID reads the id of the journal in dir without opening it; the zero id: none is legible
// there.
func ReadID(files vfs.FS, dir string) ([16]byte, error) {
	j := &Journal{o: Options{FS: files, Dir: path.Clean(dir)}}
	id, err := j.readIdentity()
	if errors.Is(err, errNoIdentity) || errors.Is(err, fs.ErrNotExist) {
		return [16]byte{}, nil
	}
	return id, err
}
