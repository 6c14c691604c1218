package vfs

import (
	"fmt"
	"io"
	"maps"
	"path"
	"strings"
	"sync"
	"time"
)

// Op is a set of calls.
type Op uint16

// The calls that a fault can meet. A write through a Direct file is both OpWrite and OpSync.
const (
	OpCreate Op = 1 << iota
	OpOpen
	OpRename
	OpRemove
	OpList
	OpSyncDir
	OpSpace
	OpRead
	OpWrite
	OpSync
	OpPreallocate
	OpTruncate

	OpAll Op = 1<<12 - 1
)

// Fault is what happens to matching calls.
type Fault struct {
	Op      Op
	Pattern string // path.Match on the last part of the name; "": every name
	After   int    // matching calls that pass before the first that does not
	Times   int    // calls that meet the fault then; 0: all
	// Err is returned, wrapped with the name. Nil: the call is only slow. The call does not reach
	// the file system, except for the bytes that a real disk might have changed all the same.
	Err   error
	Delay time.Duration
	Until time.Time // the fault ends by itself; zero: it does not
}

// points are the faults that have a name of their own.
var points = map[string]Fault{
	"journal.write": {Op: OpWrite, Pattern: "*.seg"},
	"journal.sync":  {Op: OpSync, Pattern: "*.seg"},
}

// Faulty is a file system that fails or is slow on demand.
type Faulty struct {
	inner FS
	now   func() time.Time
	sleep func(time.Duration) // nil: real time, cut short when the fault ends

	mu     sync.Mutex
	faults map[string]*armed
}

type armed struct {
	Fault
	met   int
	ended chan struct{}
}

// wait lasts as long as the fault delays a call; its end ends it.
func (a *armed) wait() {
	timer := time.NewTimer(a.Delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-a.ended:
	}
}

// NewFaulty puts faults above inner. now and sleep are the clock for Until and Delay; nil: the
// real one, under which a call that is being delayed goes on when its fault is cleared.
func NewFaulty(inner FS, now func() time.Time, sleep func(time.Duration)) *Faulty {
	if now == nil {
		now = time.Now
	}
	return &Faulty{inner: inner, now: now, sleep: sleep, faults: map[string]*armed{}}
}

// Set arms a fault under a name, in place of one of that name. For the points `journal.write` and
// `journal.sync`, alone or followed by a blank and more, Op and Pattern are given; any other name
// needs an Op.
func (f *Faulty) Set(name string, fault Fault) error {
	first, _, _ := strings.Cut(name, " ")
	if point, ok := points[first]; ok {
		fault.Op, fault.Pattern = point.Op, point.Pattern
	}
	if fault.Op == 0 {
		return fmt.Errorf("fault %q: no such point, and no calls given", name)
	}
	if _, err := path.Match(fault.Pattern, ""); err != nil {
		return fmt.Errorf("fault %q: pattern %q: %w", name, fault.Pattern, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end(name)
	f.faults[name] = &armed{Fault: fault, ended: make(chan struct{})}
	return nil
}

// Clear disarms a fault; "": all of them.
func (f *Faulty) Clear(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for armed := range f.faults {
		if name == "" || name == armed {
			f.end(armed)
		}
	}
}

func (f *Faulty) end(name string) {
	if a := f.faults[name]; a != nil {
		close(a.ended)
		delete(f.faults, name)
	}
}

// Met is how many calls a fault that is armed has met.
func (f *Faulty) Met(name string) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a := f.faults[name]; a != nil {
		return uint64(a.met)
	}
	return 0
}

// Faults lists what is armed.
func (f *Faulty) Faults() map[string]Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := map[string]Fault{}
	for name, a := range f.faults {
		list[name] = a.Fault
	}
	return list
}

// meet waits and fails as the armed faults want for one call.
func (f *Faulty) meet(op Op, name string) error {
	f.mu.Lock()
	var slow []*armed
	var err error
	now := f.now()
	maps.DeleteFunc(f.faults, func(_ string, a *armed) bool {
		return !a.Until.IsZero() && !now.Before(a.Until)
	})
	for _, a := range f.faults {
		if a.Op&op == 0 {
			continue
		}
		if ok, _ := path.Match(a.Pattern, path.Base(name)); !ok && a.Pattern != "" {
			continue
		}
		a.met++
		if a.met <= a.After || (a.Times > 0 && a.met > a.After+a.Times) {
			continue
		}
		if a.Delay > 0 {
			slow = append(slow, a)
		}
		if a.Err != nil && err == nil {
			err = pathError("injected fault", name, a.Err)
		}
	}
	f.mu.Unlock()
	for _, a := range slow {
		if f.sleep != nil {
			f.sleep(a.Delay)
		} else {
			a.wait()
		}
	}
	return err
}

// Create implements FS.
func (f *Faulty) Create(name string, flags Flag) (File, error) {
	if err := f.meet(OpCreate, name); err != nil {
		return nil, err
	}
	return f.wrap(name, flags)(f.inner.Create(name, flags))
}

// Open implements FS.
func (f *Faulty) Open(name string, flags Flag) (File, error) {
	if err := f.meet(OpOpen, name); err != nil {
		return nil, err
	}
	return f.wrap(name, flags)(f.inner.Open(name, flags))
}

func (f *Faulty) wrap(name string, flags Flag) func(File, error) (File, error) {
	return func(file File, err error) (File, error) {
		if err != nil {
			return nil, err
		}
		return &faultyFile{File: file, fs: f, name: name, direct: flags&Direct != 0}, nil
	}
}

// Rename implements FS.
func (f *Faulty) Rename(from, to string) error {
	if err := f.meet(OpRename, from); err != nil {
		return err
	}
	return f.inner.Rename(from, to)
}

// Remove implements FS.
func (f *Faulty) Remove(name string) error {
	if err := f.meet(OpRemove, name); err != nil {
		return err
	}
	return f.inner.Remove(name)
}

// List implements FS.
func (f *Faulty) List(dir string) ([]string, error) {
	if err := f.meet(OpList, dir); err != nil {
		return nil, err
	}
	return f.inner.List(dir)
}

// Stat implements FS.
func (f *Faulty) Stat(name string) (Info, error) { return f.inner.Stat(name) }

// MkdirAll implements FS.
func (f *Faulty) MkdirAll(dir string) error { return f.inner.MkdirAll(dir) }

// SyncDir implements FS.
func (f *Faulty) SyncDir(dir string) error {
	if err := f.meet(OpSyncDir, dir); err != nil {
		return err
	}
	return f.inner.SyncDir(dir)
}

// Lock implements FS.
func (f *Faulty) Lock(name string) (io.Closer, error) { return f.inner.Lock(name) }

// Space implements FS.
func (f *Faulty) Space(dir string) (Space, error) {
	if err := f.meet(OpSpace, dir); err != nil {
		return Space{}, err
	}
	return f.inner.Space(dir)
}

type faultyFile struct {
	File
	fs     *Faulty
	name   string
	direct bool
}

// damaging is a File that can do to its disk what failing calls do.
type damaging interface {
	FailSync()
	FailWrite(b []byte, off int64)
}

func (f *faultyFile) ReadAt(b []byte, off int64) (int, error) {
	if err := f.fs.meet(OpRead, f.name); err != nil {
		return 0, err
	}
	return f.File.ReadAt(b, off)
}

func (f *faultyFile) WriteAt(b []byte, off int64) (int, error) {
	op := OpWrite
	if f.direct {
		op |= OpSync
	}
	if err := f.fs.meet(op, f.name); err != nil {
		if d, ok := f.File.(damaging); ok {
			d.FailWrite(b, off)
		}
		return 0, err
	}
	return f.File.WriteAt(b, off)
}

func (f *faultyFile) Sync() error {
	if err := f.fs.meet(OpSync, f.name); err != nil {
		if d, ok := f.File.(damaging); ok {
			d.FailSync()
		}
		return err
	}
	return f.File.Sync()
}

func (f *faultyFile) Preallocate(size int64) error {
	if err := f.fs.meet(OpPreallocate, f.name); err != nil {
		return err
	}
	return f.File.Preallocate(size)
}

func (f *faultyFile) Truncate(size int64) error {
	if err := f.fs.meet(OpTruncate, f.name); err != nil {
		return err
	}
	return f.File.Truncate(size)
}
