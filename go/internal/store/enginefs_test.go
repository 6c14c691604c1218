package store

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"sluice/go/internal/store/vfs"
)

// engineFS is the index engine's view of a file system of ours, so that journal and index lie on
// one disk and lose its power at one moment.
type engineFS struct{ on vfs.FS }

func (e engineFS) Create(name string, _ pebblevfs.DiskWriteCategory) (pebblevfs.File, error) {
	if err := e.on.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := e.on.Create(name, 0)
	return e.file(name, f, err)
}

func (e engineFS) file(name string, f vfs.File, err error) (pebblevfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &engineFile{e: e, name: name, f: f}, nil
}

func (e engineFS) Link(string, string) error { return errors.ErrUnsupported }

func (e engineFS) Open(name string, _ ...pebblevfs.OpenOption) (pebblevfs.File, error) {
	f, err := e.on.Open(name, vfs.ReadOnly)
	return e.file(name, f, err)
}

func (e engineFS) OpenReadWrite(name string, _ pebblevfs.DiskWriteCategory,
	_ ...pebblevfs.OpenOption) (pebblevfs.File, error) {

	f, err := e.on.Open(name, 0)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = e.on.Create(name, 0)
	}
	return e.file(name, f, err)
}

func (e engineFS) OpenDir(name string) (pebblevfs.File, error) {
	if info, err := e.on.Stat(name); err != nil || !info.Dir {
		return nil, errors.Join(err, fs.ErrNotExist)
	}
	return &engineFile{e: e, name: name}, nil
}

func (e engineFS) Remove(name string) error { return e.on.Remove(name) }

func (e engineFS) RemoveAll(dir string) error {
	names, err := e.on.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range names {
		err = errors.Join(err, e.on.Remove(path.Join(dir, name)))
	}
	return err
}

func (e engineFS) Rename(from, to string) error { return e.on.Rename(from, to) }

func (e engineFS) ReuseForWrite(from, to string,
	c pebblevfs.DiskWriteCategory) (pebblevfs.File, error) {

	if err := e.on.Rename(from, to); err != nil {
		return nil, err
	}
	return e.OpenReadWrite(to, c)
}

func (e engineFS) MkdirAll(dir string, _ os.FileMode) error { return e.on.MkdirAll(dir) }
func (e engineFS) Lock(name string) (io.Closer, error)      { return e.on.Lock(name) }
func (e engineFS) List(dir string) ([]string, error)        { return e.on.List(dir) }

func (e engineFS) Stat(name string) (pebblevfs.FileInfo, error) {
	info, err := e.on.Stat(name)
	return engineInfo{path.Base(name), info}, err
}

func (engineFS) PathBase(p string) string        { return path.Base(p) }
func (engineFS) PathJoin(parts ...string) string { return path.Join(parts...) }
func (engineFS) PathDir(p string) string         { return path.Dir(p) }
func (engineFS) Unwrap() pebblevfs.FS            { return nil }

func (e engineFS) GetDiskUsage(dir string) (pebblevfs.DiskUsage, error) {
	s, err := e.on.Space(dir)
	return pebblevfs.DiskUsage{AvailBytes: uint64(s.Free), TotalBytes: uint64(s.Total),
		UsedBytes: uint64(s.Total - s.Free)}, err
}

// engineFile is a file with a place to go on at, or, without one, a directory.
type engineFile struct {
	e    engineFS
	name string
	f    vfs.File
	at   int64
}

func (f *engineFile) Close() error {
	if f.f == nil {
		return nil
	}
	return f.f.Close()
}

func (f *engineFile) Read(b []byte) (int, error) {
	n, err := f.f.ReadAt(b, f.at)
	f.at += int64(n)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func (f *engineFile) Write(b []byte) (int, error) {
	n, err := f.f.WriteAt(b, f.at)
	f.at += int64(n)
	return n, err
}

func (f *engineFile) Sync() error {
	if f.f == nil {
		return f.e.on.SyncDir(f.name)
	}
	return f.f.Sync()
}

func (f *engineFile) ReadAt(b []byte, off int64) (int, error)  { return f.f.ReadAt(b, off) }
func (f *engineFile) WriteAt(b []byte, off int64) (int, error) { return f.f.WriteAt(b, off) }
func (f *engineFile) Stat() (pebblevfs.FileInfo, error)        { return f.e.Stat(f.name) }
func (f *engineFile) SyncData() error                          { return f.Sync() }
func (f *engineFile) SyncTo(int64) (bool, error)               { return f.f != nil, f.Sync() }
func (f *engineFile) Preallocate(int64, int64) error           { return nil }
func (f *engineFile) Prefetch(int64, int64) error              { return nil }
func (f *engineFile) Fd() uintptr                              { return pebblevfs.InvalidFd }

type engineInfo struct {
	name string
	info vfs.Info
}

func (i engineInfo) Name() string                 { return i.name }
func (i engineInfo) Size() int64                  { return i.info.Size }
func (i engineInfo) IsDir() bool                  { return i.info.Dir }
func (i engineInfo) ModTime() time.Time           { return time.Time{} }
func (i engineInfo) Sys() any                     { return nil }
func (i engineInfo) DeviceID() pebblevfs.DeviceID { return pebblevfs.DeviceID{} }
func (i engineInfo) Mode() (m fs.FileMode) {
	if i.info.Dir {
		m = fs.ModeDir
	}
	return m | 0o600
}
