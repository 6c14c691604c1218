package index

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// patient is the engine's file system: what writes waits while the operating system refuses it, and
// what reads is tried again for a while. A sync that failed is not: nobody knows then what the disk
// holds of the file. The engine writes another table in place of one; its list of files, of which
// it would not take that, is written again here (see list).
type patient struct {
	vfs.FS
	room *room
}

func (p patient) file(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &patientFile{File: f, room: p.room, name: name}, nil
}

// listPrefix begins the names of the files that list the engine's others.
const listPrefix = "MANIFEST-"

func (p patient) Create(name string, c vfs.DiskWriteCategory) (f vfs.File, err error) {
	err = p.room.insist("create "+name, func() (err error) {
		f, err = p.FS.Create(name, c)
		return err
	})
	if err == nil && strings.HasPrefix(filepath.Base(name), listPrefix) {
		return &list{patientFile: patientFile{File: f, room: p.room, name: name}, category: c}, nil
	}
	return p.file(name, f, err)
}

func (p patient) OpenReadWrite(name string, c vfs.DiskWriteCategory,
	o ...vfs.OpenOption) (f vfs.File, err error) {

	err = p.room.insist("open "+name, func() (err error) {
		f, err = p.FS.OpenReadWrite(name, c, o...)
		return err
	})
	return p.file(name, f, err)
}

func (p patient) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (f vfs.File, err error) {
	err = p.room.insist("create "+to, func() (err error) {
		f, err = p.FS.ReuseForWrite(from, to, c)
		return err
	})
	return p.file(to, f, err)
}

func (p patient) Open(name string, o ...vfs.OpenOption) (f vfs.File, err error) {
	err = p.room.retry("open", name, func() (err error) {
		f, err = p.FS.Open(name, o...)
		return err
	})
	return p.file(name, f, err)
}

func (p patient) OpenDir(name string) (f vfs.File, err error) {
	err = p.room.retry("open", name, func() (err error) {
		f, err = p.FS.OpenDir(name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &patientDir{f, p.room, name}, nil
}

func (p patient) List(name string) (names []string, err error) {
	err = p.room.retry("list", name, func() (err error) {
		names, err = p.FS.List(name)
		return err
	})
	return names, err
}

func (p patient) Link(from, to string) error {
	return p.room.insist("create "+to, func() error { return p.FS.Link(from, to) })
}

func (p patient) Remove(name string) error {
	return p.room.insist("remove "+name, func() error { return p.FS.Remove(name) })
}

func (p patient) RemoveAll(name string) error {
	return p.room.insist("remove "+name, func() error { return p.FS.RemoveAll(name) })
}

func (p patient) Rename(from, to string) error {
	return p.room.insist("rename "+from, func() error { return p.FS.Rename(from, to) })
}

func (p patient) MkdirAll(name string, mode os.FileMode) error {
	return p.room.insist("make "+name, func() error { return p.FS.MkdirAll(name, mode) })
}

func (p patient) Unwrap() vfs.FS { return p.FS }

// patientDir is a directory. Its sync is tried again, although what failed may be gone from the
// disk: what a power cut leaves then is no index, at the worst, and is built again.
type patientDir struct {
	vfs.File
	room *room
	name string
}

func (d *patientDir) Sync() error { return d.room.insist("sync "+d.name, d.File.Sync) }

type patientFile struct {
	vfs.File
	room *room
	name string
}

func (f *patientFile) Write(b []byte) (n int, err error) {
	err = f.room.insist("write "+f.name, func() error {
		some, err := f.File.Write(b[n:])
		n += some
		return err
	})
	return n, err
}

func (f *patientFile) WriteAt(b []byte, off int64) (n int, err error) {
	err = f.room.insist("write "+f.name, func() error {
		some, err := f.File.WriteAt(b[n:], off+int64(n))
		n += some
		return err
	})
	return n, err
}

func (f *patientFile) Read(b []byte) (n int, err error) {
	err = f.room.retry("read", f.name, func() (err error) {
		n, err = f.File.Read(b)
		return err
	})
	return n, err
}

func (f *patientFile) ReadAt(b []byte, off int64) (n int, err error) {
	err = f.room.retry("read", f.name, func() (err error) {
		n, err = f.File.ReadAt(b, off)
		return err
	})
	return n, err
}

func (f *patientFile) Sync() error { return f.room.synced(f.File.Sync()) }

func (f *patientFile) SyncData() error { return f.room.synced(f.File.SyncData()) }

func (f *patientFile) SyncTo(length int64) (full bool, err error) {
	full, err = f.File.SyncTo(length)
	return full, f.room.synced(err)
}

// synced has whoever writes another file in place of one whose sync failed do it when there may be
// space.
func (r *room) synced(err error) error {
	if noRoom(err) && !r.giveBallast(err) {
		r.pause(err)
	}
	return err
}

// list is a list of files that is being written. It keeps what is not synced, so that it can be
// written to another file when a sync fails.
type list struct {
	patientFile
	category vfs.DiskWriteCategory
	durable  int64 // bytes
	tail     []byte
}

func (l *list) Write(b []byte) (int, error) {
	n, err := l.patientFile.Write(b)
	l.tail = append(l.tail, b[:n]...)
	return n, err
}

func (l *list) Sync() error {
	sync := l.File.Sync
	err := l.room.insist("sync "+l.name, func() error {
		err := sync()
		sync = l.again
		return err
	})
	if err == nil {
		l.durable, l.tail = l.durable+int64(len(l.tail)), l.tail[:0]
	}
	return err
}

// again puts a file of the same bytes in the place of one whose sync failed.
func (l *list) again() (err error) {
	fs := l.room.fs
	// The engine removes a file of such a name when it opens.
	draft := filepath.Join(filepath.Dir(l.name), "temporary."+
		strings.TrimPrefix(filepath.Base(l.name), listPrefix)+".dbtmp")
	old, err := fs.Open(l.name)
	if err != nil {
		return err
	}
	defer func() { _ = old.Close() }() // only read through
	next, err := fs.Create(draft, l.category)
	if err != nil {
		return err
	}
	n, err := io.Copy(next, io.NewSectionReader(old, 0, l.durable))
	if err == nil && n < l.durable {
		err = fmt.Errorf("%s ends at byte %d, %d were synced", l.name, n, l.durable)
	}
	if err == nil {
		_, err = next.Write(l.tail)
	}
	if err == nil {
		err = next.Sync()
	}
	if err == nil {
		err = fs.Rename(draft, l.name)
	}
	if err != nil {
		return errors.Join(err, next.Close(), fs.Remove(draft))
	}
	_ = l.File.Close() // it has no name any more
	l.File = next
	return syncDir(fs, filepath.Dir(l.name))
}
