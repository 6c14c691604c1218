package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
)

// Whole is a small file that is written as a whole: whoever reads it, after whatever crash, finds
// what one Write left. It belongs to one goroutine.
type Whole struct {
	fs   FS
	name string
}

// NewWhole names a file; it need not exist.
func NewWhole(f FS, name string) *Whole { return &Whole{f, name} }

// Read gives all bytes; nil where there is no file. One longer than limit is an error.
func (w *Whole) Read(limit int64) ([]byte, error) {
	file, err := w.fs.Open(w.name, ReadOnly)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, fmt.Errorf("%s has %d bytes, more than %d", w.name, size, limit)
	}
	b := make([]byte, size)
	if n, err := file.ReadAt(b, 0); n < len(b) || err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: %w", w.name, err)
	}
	return b, nil
}

// Write replaces the file; its bytes and its name are durable when it returns nil. After an error
// it is as it was, or as it was to be.
func (w *Whole) Write(b []byte) error {
	draft := w.name + ".new"
	if err := w.fs.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := w.fs.Create(draft, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(b, 0)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, w.fs.Remove(draft)) // a full disk has its space back
	}
	if err := w.fs.Rename(draft, w.name); err != nil {
		return err
	}
	return w.fs.SyncDir(path.Dir(w.name))
}

// SetAside gives the file another name, its own with a suffix, for whoever looks into it.
func (w *Whole) SetAside(suffix string) (string, error) {
	aside := w.name + suffix
	if err := w.fs.Rename(w.name, aside); err != nil {
		return "", err
	}
	return aside, w.fs.SyncDir(path.Dir(w.name))
}
