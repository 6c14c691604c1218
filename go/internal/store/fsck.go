package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"syscall"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"sluice/go/internal/store/index"
	"sluice/go/internal/store/journal"
	"sluice/go/internal/store/vfs"
)

// IndexState says what became of an index. Whatever it is, nothing is lost by it: the journal holds
// all that an index holds.
type IndexState string

// The states of an index. All but the first and the last make the next start build it again.
const (
	IndexWhole   IndexState = "whole"
	IndexMissing IndexState = "missing"
	IndexDamaged IndexState = "damaged"
	IndexOther   IndexState = "other" // of another format, or of another journal
	// IndexUnreadable: the operating system refuses to read it, as it would at a start.
	IndexUnreadable IndexState = "unreadable"
)

// CheckReport is what Check found.
type CheckReport struct {
	Journal     journal.Report
	Index       index.Report
	IndexState  IndexState
	IndexDetail string // why it is not whole
	// Others are the names in the data directory that are neither journal, index nor lock.
	Others []string
}

// Damaged tells whether something acknowledged is lost, or the index cannot be read although a
// start before had left a whole one.
func (r *CheckReport) Damaged() bool {
	return len(r.Journal.Damage) > 0 || r.IndexState == IndexDamaged ||
		r.IndexState == IndexUnreadable
}

// Check reads a whole data directory and changes nothing. It holds the directory's lock meanwhile:
// ErrLocked says that a daemon uses it. fs.ErrNotExist: that is no data directory.
// progress, unless it is nil, is told often how far it is.
func Check(dir string, progress func(CheckProgress)) (*CheckReport, error) {
	return check(vfs.OS(), nil, dir, progress)
}

// CheckProgress is how far Check is: first the index is read, then the journal.
type CheckProgress struct {
	IndexRows                  uint64
	JournalBytes, JournalTotal int64 // read, and to read; 0 while the index is read
}

func check(files vfs.FS, indexFiles pebblevfs.FS, dir string,
	progress func(CheckProgress)) (*CheckReport, error) {

	if progress == nil {
		progress = func(CheckProgress) {}
	}
	unlock, err := lockToRead(files, path.Join(dir, "lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	r := new(CheckReport)
	r.Index, err = index.Check(indexFiles, path.Join(dir, "index"), func(rows uint64) {
		progress(CheckProgress{IndexRows: rows})
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.IndexState, r.IndexDetail = IndexMissing, "there is none"
	case errors.Is(err, index.ErrDamaged):
		r.IndexState, r.IndexDetail = IndexDamaged, err.Error()
	case errors.Is(err, index.ErrRefused):
		r.IndexState, r.IndexDetail = IndexUnreadable, err.Error()
	case err != nil:
		return nil, err
	case r.Index.OtherFormat:
		r.IndexState, r.IndexDetail = IndexOther, "it was written by another version"
	default:
		r.IndexState = IndexWhole
	}
	var witness journal.Witness
	id, err := journal.ReadID(files, path.Join(dir, "journal"))
	if err != nil {
		return nil, err
	}
	switch {
	case r.IndexState != IndexWhole, r.Index.JournalID == [16]byte{}:
	case r.Index.JournalID == id, id == [16]byte{}:
		witness.IndexGroup = r.Index.Applied
	default:
		r.IndexState, r.IndexDetail = IndexOther, "it belongs to another journal"
	}
	found, err := journal.Check(journal.Options{
		FS: files, Dir: path.Join(dir, "journal"), Witness: witness,
	}, func(read, all int64) {
		progress(CheckProgress{r.Index.Rows, read, all})
	})
	if err != nil {
		return nil, err
	}
	r.Journal = *found
	names, err := files.List(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if name != "journal" && name != "index" && name != "lock" {
			r.Others = append(r.Others, name)
		}
	}
	return r, nil
}

// lockToRead keeps daemons out. Where no daemon ever was, and where none could write, there is
// nothing to hold.
func lockToRead(files vfs.FS, name string) (unlock func(), err error) {
	nothing := func() {}
	if _, err := files.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return nothing, nil
	}
	lock, err := files.Lock(name)
	switch {
	case errors.Is(err, vfs.ErrLocked):
		return nil, fmt.Errorf("%w: %s", ErrLocked, path.Dir(name))
	case errors.Is(err, syscall.EROFS):
		return nothing, nil
	case err != nil:
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	return func() { _ = lock.Close() }, nil // nothing was written
}
