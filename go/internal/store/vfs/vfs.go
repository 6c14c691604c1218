// Package vfs is the small file system that the journal lives on, so that crashes and faults can
// be put under it: the real one, one in memory that can lose power, one that fails on demand, and
// one that remembers every change and shows what each moment could leave on a disk.
//
// It does not buffer, retry, or know what a segment is, and it has no directories to walk.
package vfs

import (
	"errors"
	"io"
)

// Flag says how a file is opened.
type Flag uint8

// The flags. Without any, a file is opened for reading and buffered writing.
const (
	// ReadOnly refuses writes.
	ReadOnly Flag = 1 << iota
	// Direct is O_DIRECT|O_DSYNC: buffer, offset and length must be multiples of the block, and a
	// write that returns without error is durable. Reads through such a file must be aligned too.
	Direct
)

// ErrLocked means that another open file, most likely another process, holds the lock.
var ErrLocked = errors.New("locked by another process")

// File is an open file. WriteAt is all or error; after an error of WriteAt or Sync nothing is
// known about what the disk holds of the bytes since the last successful Sync.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Sync is fdatasync: when it returns nil, all bytes written before are durable, and the size.
	Sync() error
	// Size is the size in bytes now.
	Size() (int64, error)
	// Preallocate makes the file size bytes long with disk space behind every byte.
	Preallocate(size int64) error
	// Truncate cuts the file and gives the space behind size back.
	Truncate(size int64) error
}

// Info is what Stat tells of a name.
type Info struct {
	Size int64
	Dir  bool
}

// Space is the size of a file system and what an unprivileged process may still use of it.
type Space struct {
	Total, Free int64
}

// FS names files with slash-separated paths. A created, renamed or removed name is durable after
// SyncDir of its directory, not before.
type FS interface {
	// Create makes a new file; it fails with fs.ErrExist when the name is taken.
	Create(name string, flags Flag) (File, error)
	// Open opens a file that exists.
	Open(name string, flags Flag) (File, error)
	// Rename moves a name, replacing the target, in one step.
	Rename(from, to string) error
	Remove(name string) error
	// List is the sorted names inside dir, without the path.
	List(dir string) ([]string, error)
	Stat(name string) (Info, error)
	// MkdirAll makes dir and its parents; each new name is durable when it returns.
	MkdirAll(dir string) error
	SyncDir(dir string) error
	// Lock takes an exclusive lock on a file, which it makes if need be, without waiting. The lock
	// ends with Close or with the process. ErrLocked: somebody else has it.
	Lock(name string) (io.Closer, error)
	// Space asks the file system that holds dir.
	Space(dir string) (Space, error)
}
