// Package file appends events to a file, one JSON object a line.
//
// It rotates nothing, limits no size and reads no event back. Whoever moves or removes the file (a
// log rotation) is followed: the next event goes into a new file at the same path.
//
// # What a crash leaves
//
// An event counts as delivered once its whole line is synced, so a crash loses none; an event
// whose line was written but not yet counted is appended again under the same id. A line cut short
// is taken out when the file is opened next. Nobody else should append to the file.
package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"sluice/go/internal/destination"
)

// Options describe one file.
type Options struct {
	Path string
}

// Destination is one path.
type Destination struct {
	path string
	open func(path string) (handle, error)

	mu      sync.Mutex
	current *appended // nil until the first event, and after a failure
}

var _ destination.Destination = (*Destination)(nil)

// handle is the part of os.File that is used, so that tests can make it fail.
type handle interface {
	io.ReaderAt
	io.Writer
	io.Closer
	Stat() (os.FileInfo, error)
	Sync() error
	Truncate(size int64) error
}

// appended is one open file. It is closed by the last attempt that uses it once it is no longer
// current, so that a rotation never closes a file under a sync.
type appended struct {
	file    handle
	info    os.FileInfo   // to tell a rotation
	users   int           // under Destination.mu; being current counts as one
	written atomic.Uint64 // lines

	syncing sync.Mutex
	synced  uint64 // lines
	failed  error  // a sync that failed; what the file holds since is unknown
}

// New checks the options. The file is opened with the first event, so that a path that is not there
// yet delays deliveries and not the start.
func New(o Options) (*Destination, error) {
	if o.Path == "" {
		return nil, errors.New("destination file: no path")
	}
	return &Destination{path: o.Path, open: openFile}, nil
}

// Deliver appends one line and syncs it; attempts that wait for the disk at the same time share
// one sync. A disk that hangs is waited for: ctx cannot end a sync.
func (d *Destination) Deliver(ctx context.Context, r *destination.Request) destination.Result {
	if err := ctx.Err(); err != nil {
		return destination.Failure(fmt.Errorf("append: %w", err))
	}
	l, err := format(r)
	if err != nil {
		return destination.Refusal(fmt.Errorf("encode: %w", err))
	}
	f, number, err := d.append(l)
	if err != nil {
		return destination.Failure(err)
	}
	err = f.sync(number)
	d.leave(f, err != nil)
	if err != nil {
		return destination.Failure(fmt.Errorf("sync %s: %w", d.path, err))
	}
	return destination.Delivery(0)
}

// append writes a line to the file that is at the path now, and tells its number there. The caller
// leaves the file afterwards.
func (d *Destination) append(l []byte) (*appended, uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.refresh(); err != nil {
		return nil, 0, err
	}
	f := d.current
	n, err := f.file.Write(l)
	if err == nil {
		f.users++
		return f, f.written.Add(1), nil
	}
	if n > 0 {
		if cut := f.cut(int64(n)); cut != nil {
			// The next open takes the torn line out.
			d.retire(f)
		}
	}
	return nil, 0, fmt.Errorf("append to %s: %w", d.path, err)
}

// cut takes the last n bytes, a part of a line, out again.
func (f *appended) cut(n int64) error {
	info, err := f.file.Stat()
	if err != nil {
		return err
	}
	return f.file.Truncate(info.Size() - n)
}

// refresh opens the file if it is not, or no longer, the one at the path.
func (d *Destination) refresh() error {
	if d.current != nil {
		there, err := os.Stat(d.path)
		if err == nil && os.SameFile(there, d.current.info) {
			return nil
		}
		d.retire(d.current)
	}
	file, err := d.open(d.path)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err == nil {
		err = heal(file, info.Size())
	}
	if err != nil {
		_ = file.Close()
		return fmt.Errorf("open %s: %w", d.path, err)
	}
	d.current = &appended{file: file, info: info, users: 1}
	return nil
}

// sync makes the first n lines durable, unless somebody has meanwhile.
func (f *appended) sync(n uint64) error {
	f.syncing.Lock()
	defer f.syncing.Unlock()
	if f.failed != nil || f.synced >= n {
		return f.failed
	}
	written := f.written.Load()
	if err := f.file.Sync(); err != nil {
		// The kernel may call the lost pages clean now: a second sync would prove nothing.
		f.failed = err
		return err
	}
	f.synced = written
	return nil
}

// leave ends an attempt's use of a file.
func (d *Destination) leave(f *appended, failed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if failed {
		d.retire(f)
	}
	f.release()
}

// retire makes the next event open the path anew. Under mu.
func (d *Destination) retire(f *appended) {
	if d.current == f {
		d.current = nil
		f.release()
	}
}

func (f *appended) release() {
	if f.users--; f.users == 0 {
		_ = f.file.Close() // all that counts was synced
	}
}

// Close closes the file.
func (d *Destination) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current != nil {
		d.retire(d.current)
	}
	return nil
}

// openFile opens or makes the file; a new name is made durable. Bodies hold secrets, so others may
// not read it unless the operator makes it so.
func openFile(path string) (handle, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if !errors.Is(err, os.ErrNotExist) {
		return file, err
	}
	file, err = os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	directory, err := os.Open(filepath.Dir(path))
	if err == nil {
		err = directory.Sync()
		_ = directory.Close()
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// heal makes the file end with a whole line. A torn line of ours, or the zeros that some file
// systems leave in its place, is cut off: it was never counted as delivered. Anything else is
// somebody's and is merely ended.
func heal(file handle, size int64) error {
	torn, zeros, err := lastLine(file, size)
	if err != nil || torn == size {
		return err
	}
	start := make([]byte, min(int64(len(lineStart)), size-torn))
	if _, err := file.ReadAt(start, torn); err != nil {
		return fmt.Errorf("read the last line: %w", err)
	}
	if zeros || string(start) == lineStart[:len(start)] {
		return file.Truncate(torn)
	}
	_, err = file.Write([]byte("\n"))
	return err
}

// lastLine tells where the line begins that no newline ends, and whether it is all zeros. The place
// is the size when there is none.
func lastLine(file handle, size int64) (start int64, zeros bool, err error) {
	chunk := make([]byte, 64<<10)
	zeros = true
	for start = size; start > 0; {
		b := chunk[:min(start, int64(len(chunk)))]
		if _, err := file.ReadAt(b, start-int64(len(b))); err != nil {
			return 0, false, fmt.Errorf("read the last line: %w", err)
		}
		start -= int64(len(b))
		newline := bytes.LastIndexByte(b, '\n')
		zeros = zeros && len(bytes.Trim(b[newline+1:], "\x00")) == 0
		if newline >= 0 {
			return start + int64(newline) + 1, zeros, nil
		}
	}
	return 0, zeros, nil
}
