package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"syscall"

	"sluice/go/internal/store/vfs"
)

const (
	segmentSuffix = ".seg"
	keptSuffix    = ".seg.damaged"
	probeName     = "probe"
	readersMax    = 128 // files kept open for reading
	sparesMax     = 2   // unused files kept for the segments to come
	shortShare    = 16  // a segment on a full disk is this much shorter
)

// file is a segment file of the directory, living or not. Its name says nothing about the segment
// inside: that changes when the file is used again.
type file struct {
	id   uint64
	name string
	size int64
	// reusable: made in this run and never written, or this run has made a first group durable
	// whose table does not name it. Until then nobody knows what an older table needs of it.
	reusable bool
	blank    bool // found at the start without anything ever written to it
	poisoned bool // a write or sync failed; page cache and disk may differ for good
	damaged  bool // kept for good
	living   bool // a segment of the journal lies in it
	pins     int  // reads under way
	used     uint64
	reader   vfs.File
	writer   vfs.File
}

func fileName(id uint64) string { return fmt.Sprintf("%010d%s", id, segmentSuffix) }

func parseFileName(name string) (id uint64, ok bool) {
	digits, found := strings.CutSuffix(name, segmentSuffix)
	if !found || len(digits) < 10 {
		return 0, false
	}
	id, err := strconv.ParseUint(digits, 10, 64)
	return id, err == nil && fileName(id) == name
}

func (j *Journal) path(name string) string { return path.Join(j.o.Dir, name) }

// pin gives a reader of the file that stays open, and the file unused, until unpin. j.mu is held.
func (j *Journal) pin(f *file) (vfs.File, error) {
	if f.reader == nil {
		r, err := j.o.FS.Open(j.path(f.name), vfs.ReadOnly)
		if err != nil {
			return nil, fmt.Errorf("open segment file for reading: %w", err)
		}
		f.reader = r
		j.readers = append(j.readers, f)
		j.closeOldReaders()
	}
	j.uses++
	f.used = j.uses
	f.pins++
	return f.reader, nil
}

func (j *Journal) unpin(f *file) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f.pins--
}

// closeOldReaders keeps the number of open files bounded. j.mu is held.
func (j *Journal) closeOldReaders() {
	for len(j.readers) > readersMax {
		oldest := -1
		for i, f := range j.readers[:len(j.readers)-1] {
			if f.pins == 0 && (oldest < 0 || f.used < j.readers[oldest].used) {
				oldest = i
			}
		}
		if oldest < 0 {
			return
		}
		j.closeReader(oldest)
	}
}

func (j *Journal) closeReader(i int) {
	f := j.readers[i]
	f.reader.Close() // only read through: nothing can be lost
	f.reader = nil
	j.readers = append(j.readers[:i], j.readers[i+1:]...)
}

// forgetReader closes the file's reader, if any, because the file is about to go. j.mu is held.
func (j *Journal) forgetReader(f *file) {
	for i := range j.readers {
		if j.readers[i] == f {
			j.closeReader(i)
			return
		}
	}
}

// createFile makes a file of at least size bytes whose name and size are durable.
func (j *Journal) createFile(size int64) (*file, error) {
	f, err := j.tryCreateFile(size)
	if noRoom(err) && j.makeRoom() {
		return j.tryCreateFile(size)
	}
	return f, err
}

func (j *Journal) tryCreateFile(size int64) (*file, error) {
	j.mu.Lock()
	f := &file{id: j.nextFile, name: fileName(j.nextFile), size: size, reusable: true}
	j.nextFile++
	j.mu.Unlock()
	w, err := j.o.FS.Create(j.path(f.name), j.writeFlags())
	if err != nil {
		return nil, fmt.Errorf("make segment file: %w", err)
	}
	err = w.Preallocate(size)
	if err == nil {
		err = w.Sync()
	}
	if err == nil {
		err = j.o.FS.SyncDir(j.o.Dir)
	}
	if err != nil {
		w.Close()
		// Never written, so no table can name it. If it stays, the next start finds it blank.
		if rmErr := j.o.FS.Remove(j.path(f.name)); rmErr != nil {
			j.o.Log.Warn("an unused segment file stays", "file", f.name, "error", rmErr)
		}
		return nil, fmt.Errorf("make segment file %s: %w", f.name, err)
	}
	f.writer = w
	return f, nil
}

func (j *Journal) writeFlags() vfs.Flag {
	if j.direct {
		return vfs.Direct
	}
	return 0
}

// probeDirect tells whether the directory's file system takes direct writes of a block.
func (j *Journal) probeDirect(buf []byte) bool {
	name := j.path(probeName)
	f, err := j.o.FS.Create(name, vfs.Direct)
	if err != nil {
		if errors.Is(err, syscall.EINVAL) { // it was made before the flag was refused
			err = j.o.FS.Remove(name)
		}
		j.o.Log.Debug("no direct writes here", "error", err)
		return false
	}
	_, err = f.WriteAt(buf, 0)
	f.Close()
	if rmErr := j.o.FS.Remove(name); rmErr != nil && !errors.Is(rmErr, fs.ErrNotExist) {
		j.o.Log.Warn("the probe file stays", "error", rmErr)
	}
	return err == nil
}

// takeFile gives a writable file for a segment of the given size: one that waits unused, or a new
// one.
func (j *Journal) takeFile(size int64) (*file, error) {
	j.mu.Lock()
	for i, f := range j.unused {
		if f.reusable && f.pins == 0 && !f.poisoned && !f.damaged && f.size == size {
			j.unused = append(j.unused[:i:i], j.unused[i+1:]...)
			j.forgetReader(f)
			j.mu.Unlock()
			if err := j.openWriter(f); err != nil {
				j.setAside(f)
				return nil, err
			}
			return f, nil
		}
	}
	j.mu.Unlock()
	return j.createFile(size)
}

func (j *Journal) openWriter(f *file) error {
	if f.writer != nil {
		return nil
	}
	w, err := j.o.FS.Open(j.path(f.name), j.writeFlags())
	if err != nil {
		return fmt.Errorf("open segment file for writing: %w", err)
	}
	f.writer = w
	return nil
}

func closeWriter(f *file) {
	if f.writer != nil {
		f.writer.Close() // what was acknowledged is durable already; an error tells nothing more
		f.writer = nil
	}
}

// setAside puts a file among the unused.
func (j *Journal) setAside(f *file) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f.living = false
	j.unused = append(j.unused, f)
}
