package index

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Report is what Check found in an index that is whole.
type Report struct {
	JournalID [16]byte
	Applied   uint64 // last group that is in it
	Rows      uint64
	Events    uint64
	// OtherFormat: it is another version's, and the next Open refuses it. Nothing more is known.
	OtherFormat bool
}

// progressRows are read between two words about progress.
const progressRows = 1 << 16

// Check reads all of an index and changes nothing. Nobody may have it open. fs.ErrNotExist: there
// is none; ErrDamaged: it would be built again; ErrRefused: it cannot be read now. progress, unless
// it is nil, is told now and then how many rows are read.
func Check(files vfs.FS, dir string, progress func(rows uint64)) (r Report, err error) {
	if files == nil {
		files = vfs.Default
	}
	if _, err := files.Stat(dir); err != nil {
		return r, fmt.Errorf("no index: %w", err)
	}
	if _, err := files.Stat(filepath.Join(dir, suspectFile)); err == nil {
		return r, fmt.Errorf("%w: the last run met a bad row", ErrDamaged)
	}
	o := Options{FS: frozen{files}, Log: slog.New(slog.DiscardHandler)}
	room := newRoom(o, dir)
	po := engineOptions(o)
	po.FS, po.ReadOnly = patient{o.FS, room}, true
	db, err := pebble.Open(dir, po)
	if errors.Is(err, pebble.ErrDBDoesNotExist) {
		return r, fmt.Errorf("no index: %w", fs.ErrNotExist)
	}
	if err := openFault(dir, err, room.refused.Load()); err != nil {
		if db != nil {
			err = errors.Join(err, db.Close())
		}
		return r, err
	}
	x := &Index{db: db}
	defer func() { err = errors.Join(err, db.Close()) }()
	if x.meta, err = x.readMeta(); err != nil {
		return r, err
	}
	r.JournalID, r.Applied = x.meta.JournalID, x.meta.Applied
	if x.meta.Format != formatVersion {
		r.OtherFormat = true
		return r, nil
	}
	if err := db.CheckLevels(nil); err != nil {
		return r, readFault("check index "+dir, err)
	}
	it, err := x.iter(nil, nil)
	if err != nil {
		return r, err
	}
	for ok := it.First(); ok; ok = it.Next() {
		if _, err := it.ValueAndErr(); err != nil {
			break // closeIter tells it too
		}
		if r.Rows++; r.Rows%progressRows == 0 && progress != nil {
			progress(r.Rows)
		}
	}
	if err := closeIter(it); err != nil {
		return r, err
	}
	_, err = x.records(0, maxSeq, false, func(*Record) bool { r.Events++; return true })
	return r, err
}

// frozen is a file system that refuses every change. A lock would be one, and is not taken.
type frozen struct{ vfs.FS }

func refuse(op, name string) error {
	return &os.PathError{Op: op, Path: name, Err: syscall.EROFS}
}

func (frozen) Create(name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, refuse("create", name)
}

func (frozen) OpenReadWrite(name string, _ vfs.DiskWriteCategory,
	_ ...vfs.OpenOption) (vfs.File, error) {

	return nil, refuse("open", name)
}

func (frozen) ReuseForWrite(_, to string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, refuse("create", to)
}

func (frozen) Link(_, to string) error                  { return refuse("link", to) }
func (frozen) Remove(name string) error                 { return refuse("remove", name) }
func (frozen) RemoveAll(name string) error              { return refuse("remove", name) }
func (frozen) Rename(_, to string) error                { return refuse("rename", to) }
func (frozen) MkdirAll(dir string, _ os.FileMode) error { return refuse("mkdir", dir) }
func (frozen) Lock(string) (io.Closer, error)           { return io.NopCloser(nil), nil }
func (frozen) Unwrap() vfs.FS                           { return nil }
