package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// OS is the operating system's file system.
func OS() FS { return osFS{} }

type osFS struct{}

func (osFS) Create(name string, flags Flag) (File, error) {
	return openOS(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, flags)
}

func (osFS) Open(name string, flags Flag) (File, error) {
	if flags&ReadOnly != 0 {
		return openOS(name, os.O_RDONLY, flags)
	}
	return openOS(name, os.O_RDWR, flags)
}

func openOS(name string, mode int, flags Flag) (File, error) {
	if flags&Direct != 0 {
		mode |= syscall.O_DIRECT | syscall.O_DSYNC
	}
	f, err := os.OpenFile(name, mode, 0o600)
	if err != nil {
		return nil, err
	}
	return &osFile{f}, nil
}

func (osFS) Rename(from, to string) error { return os.Rename(from, to) }
func (osFS) Remove(name string) error     { return os.Remove(name) }

func (osFS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

func (osFS) Stat(name string) (Info, error) {
	info, err := os.Stat(name)
	if err != nil {
		return Info{}, err
	}
	return Info{Size: info.Size(), Dir: info.IsDir()}, nil
}

func (o osFS) MkdirAll(dir string) error {
	if info, err := os.Stat(dir); err == nil {
		if !info.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
		}
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := o.MkdirAll(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return o.SyncDir(parent)
}

func (osFS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Lock uses flock, which the kernel ends with the last descriptor of the open file: os.OpenFile
// sets close-on-exec, so that no child keeps it alive.
func (osFS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = onDescriptor(f, func(fd int) error {
		return syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB)
	})
	if err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrLocked
		}
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return f, nil
}

func (osFS) Space(dir string) (Space, error) {
	var st syscall.Statfs_t
	if err := retryEINTR(func() error { return syscall.Statfs(dir, &st) }); err != nil {
		return Space{}, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	size := st.Bsize
	return Space{Total: int64(st.Blocks) * size, Free: int64(st.Bavail) * size}, nil
}

type osFile struct{ f *os.File }

func (o *osFile) ReadAt(b []byte, off int64) (int, error)  { return o.f.ReadAt(b, off) }
func (o *osFile) WriteAt(b []byte, off int64) (int, error) { return o.f.WriteAt(b, off) }
func (o *osFile) Truncate(size int64) error                { return o.f.Truncate(size) }
func (o *osFile) Close() error                             { return o.f.Close() }

func (o *osFile) Sync() error {
	err := onDescriptor(o.f, syscall.Fdatasync)
	if err != nil {
		return &fs.PathError{Op: "fdatasync", Path: o.f.Name(), Err: err}
	}
	return nil
}

func (o *osFile) Size() (int64, error) {
	info, err := o.f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Preallocate falls back to writing zeroes where the file system has no fallocate: what counts is
// that no later write inside the size meets ENOSPC.
func (o *osFile) Preallocate(size int64) error {
	err := onDescriptor(o.f, func(fd int) error { return syscall.Fallocate(fd, 0, 0, size) })
	if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) {
		return o.writeZeroes(size)
	}
	if err != nil {
		return &fs.PathError{Op: "fallocate", Path: o.f.Name(), Err: err}
	}
	return nil
}

func (o *osFile) writeZeroes(size int64) error {
	at, err := o.Size()
	if err != nil {
		return err
	}
	zeroes := make([]byte, 1<<20)
	for at < size {
		n := min(size-at, int64(len(zeroes)))
		if _, err := o.f.WriteAt(zeroes[:n], at); err != nil {
			return err
		}
		at += n
	}
	return nil
}

func onDescriptor(f *os.File, call func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var callErr error
	err = raw.Control(func(fd uintptr) {
		callErr = retryEINTR(func() error { return call(int(fd)) })
	})
	return errors.Join(err, callErr)
}

func retryEINTR(call func() error) error {
	for {
		if err := call(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
