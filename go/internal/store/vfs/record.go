package vfs

import (
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"path"
	"strings"
	"sync"
)

// Recorder remembers every change that goes through it to another file system, and builds from that
// what a disk may hold when the power goes at any moment (Cuts). It holds one call up until the one
// before has returned, so that the record has one order.
//
// It keeps all written bytes in memory: it is for tests, on a Mem or on a disk.
type Recorder struct {
	inner FS
	base  *Mem // the file system as it was before the first change

	mu    sync.Mutex
	ops   []recorded
	files int
}

// recorded is a change, or a note.
type recorded struct {
	text string
	note any
	do   func(*rerun) // nil: a note
}

// rerun makes recorded changes again, on a Mem.
type rerun struct {
	fs    *Mem
	files map[int]File
}

// Record begins a record. What inner holds by then is known if it is a Mem, and nothing otherwise.
func Record(inner FS) *Recorder {
	r := &Recorder{inner: inner, base: NewMem()}
	if m, ok := inner.(*Mem); ok {
		r.base = m.fork()
	}
	return r
}

// Note puts something that the test has to know at a cut into the record: a promise that was made
// by now.
func (r *Recorder) Note(note any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, recorded{text: fmt.Sprintf("-- %v", note), note: note})
}

// change makes one change and remembers it, whether it succeeds or not: one that fails may have
// changed bytes all the same. Again it fails in the same way, since what a Mem draws is the same.
func (r *Recorder) change(text string, call func() error, again func(*rerun)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := call()
	if err != nil {
		text += ": " + err.Error()
	}
	r.ops = append(r.ops, recorded{text: text, do: again})
	return err
}

// Cut is a moment between two changes. It is valid until the next one of its Cuts.
type Cut struct {
	At    int // changes and notes before it
	r     *Recorder
	fs    *Mem
	notes []any
}

// Cuts goes through all moments of the record, the one before the first change included. No change
// may be made meanwhile.
func (r *Recorder) Cuts() iter.Seq[*Cut] {
	return func(yield func(*Cut) bool) {
		again := &rerun{fs: r.base.fork(), files: map[int]File{}}
		c := &Cut{r: r, fs: again.fs}
		if !yield(c) {
			return
		}
		for i, op := range r.ops {
			if c.At = i + 1; op.do == nil {
				c.notes = append(c.notes, op.note)
			} else {
				op.do(again)
			}
			if !yield(c) {
				return
			}
		}
	}
}

// End is the moment behind the last change.
func (r *Recorder) End() (last *Cut) {
	for last = range r.Cuts() {
		continue
	}
	return last
}

// Notes are what was noted before the cut.
func (c *Cut) Notes() []any { return c.notes }

// String is the record's last lines before the cut, and the next one.
func (c *Cut) String() string {
	var b strings.Builder
	for i := max(0, c.At-12); i < min(c.At+1, len(c.r.ops)); i++ {
		if i == c.At {
			fmt.Fprintf(&b, "====== the power goes\n")
		}
		fmt.Fprintf(&b, "%5d %s\n", i, c.r.ops[i].text)
	}
	return b.String()
}

// Killed is the file system after the death of the process alone.
func (c *Cut) Killed() *Mem { return c.fs.fork() }

// States gives file systems that a disk may show after a power cut here: of what was not synced,
// any part is there, in any order. Where whole blocks, sizes and names make up to `most`
// combinations, all of them come; otherwise none, all, each one alone, all but each one, and random
// ones. In a quarter of all, at least one, blocks are torn as well.
func (c *Cut) States(rng *rand.Rand, most int) iter.Seq[*Mem] {
	return func(yield func(*Mem) bool) {
		open := 0 // decisions
		none := c.fs.afterPowerCut(func(int) int { open++; return 0 })
		if !yield(none) || open == 0 {
			return
		}
		// chosen gives the state in which the decisions in order fall as told.
		chosen := func(choose func(i int) bool) *Mem {
			i := -1
			return c.fs.afterPowerCut(func(int) int {
				if i++; choose(i) {
					return 1
				}
				return 0
			})
		}
		if open < 16 && 1<<open <= most {
			// A name that is there may bring decisions about its file: more than were counted.
			for set := 1; set < 1<<open; set++ {
				if !yield(chosen(func(i int) bool { return i >= open || set>>i&1 == 1 })) {
					return
				}
			}
		} else {
			if !yield(chosen(func(int) bool { return true })) {
				return
			}
			for range most / 4 {
				one := rng.IntN(open)
				if !yield(chosen(func(i int) bool { return i == one })) ||
					!yield(chosen(func(i int) bool { return i != one })) ||
					!yield(chosen(func(int) bool { return rng.IntN(2) == 1 })) {
					return
				}
			}
		}
		for range max(1, most/4) {
			if !yield(c.fs.afterPowerCut(rng.IntN)) {
				return
			}
		}
	}
}

// Create implements FS.
func (r *Recorder) Create(name string, flags Flag) (File, error) {
	return r.open("create", name, flags, r.inner.Create, (*Mem).Create)
}

// Open implements FS.
func (r *Recorder) Open(name string, flags Flag) (File, error) {
	if flags&ReadOnly != 0 {
		return r.inner.Open(name, flags)
	}
	return r.open("open", name, flags, r.inner.Open, (*Mem).Open)
}

func (r *Recorder) open(verb, name string, flags Flag, call func(string, Flag) (File, error),
	again func(*Mem, string, Flag) (File, error)) (File, error) {

	f := &recordedFile{r: r, name: name, direct: flags&Direct != 0}
	err := r.change(verb+" "+path.Base(name), func() (err error) {
		f.id = r.files
		r.files++
		f.File, err = call(name, flags)
		return err
	}, func(a *rerun) {
		// A direct write is recorded as a write and a sync.
		if file, err := again(a.fs, name, 0); err == nil {
			a.files[f.id] = file
		}
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Rename implements FS.
func (r *Recorder) Rename(from, to string) error {
	return r.change(fmt.Sprintf("rename %s to %s", path.Base(from), path.Base(to)),
		func() error { return r.inner.Rename(from, to) },
		func(a *rerun) { _ = a.fs.Rename(from, to) })
}

// Remove implements FS.
func (r *Recorder) Remove(name string) error {
	return r.change("remove "+path.Base(name), func() error { return r.inner.Remove(name) },
		func(a *rerun) { _ = a.fs.Remove(name) })
}

// List implements FS.
func (r *Recorder) List(dir string) ([]string, error) { return r.inner.List(dir) }

// Stat implements FS.
func (r *Recorder) Stat(name string) (Info, error) { return r.inner.Stat(name) }

// MkdirAll implements FS.
func (r *Recorder) MkdirAll(dir string) error {
	return r.change("mkdir "+dir, func() error { return r.inner.MkdirAll(dir) },
		func(a *rerun) { _ = a.fs.MkdirAll(dir) })
}

// SyncDir implements FS.
func (r *Recorder) SyncDir(dir string) error {
	return r.change("sync directory "+dir, func() error { return r.inner.SyncDir(dir) },
		func(a *rerun) { _ = a.fs.SyncDir(dir) })
}

// Lock implements FS.
func (r *Recorder) Lock(name string) (lock io.Closer, err error) {
	err = r.change("lock "+path.Base(name), func() (err error) {
		lock, err = r.inner.Lock(name)
		return err
	}, func(a *rerun) { _, _ = a.fs.Lock(name) })
	return lock, err
}

// Space implements FS.
func (r *Recorder) Space(dir string) (Space, error) { return r.inner.Space(dir) }

type recordedFile struct {
	File
	r      *Recorder
	id     int
	name   string
	direct bool
}

func (f *recordedFile) change(text string, call func() error, again func(File) error) error {
	return f.r.change(text+" "+path.Base(f.name), call, func(a *rerun) {
		if file := a.files[f.id]; file != nil {
			_ = again(file) // what failed then fails now
		}
	})
}

func (f *recordedFile) WriteAt(b []byte, off int64) (n int, err error) {
	b = append([]byte(nil), b...)
	err = f.change(fmt.Sprintf("write [%d, %d) of", off, off+int64(len(b))), func() (err error) {
		n, err = f.File.WriteAt(b, off)
		return err
	}, func(file File) error {
		_, err := file.WriteAt(b, off)
		return err
	})
	if f.direct && err == nil {
		err = f.change("  which is durable:", func() error { return nil }, File.Sync)
	}
	return n, err
}

func (f *recordedFile) Sync() error { return f.change("sync", f.File.Sync, File.Sync) }

func (f *recordedFile) Preallocate(size int64) error {
	return f.change(fmt.Sprintf("preallocate %d for", size),
		func() error { return f.File.Preallocate(size) },
		func(file File) error { return file.Preallocate(size) })
}

func (f *recordedFile) Truncate(size int64) error {
	return f.change(fmt.Sprintf("truncate to %d", size),
		func() error { return f.File.Truncate(size) },
		func(file File) error { return file.Truncate(size) })
}

// FailSync and FailWrite keep what a Faulty above does to the disk in the record.
func (f *recordedFile) FailSync() {
	if d, ok := f.File.(damaging); ok {
		_ = f.change("failed sync of", func() error { d.FailSync(); return nil },
			func(file File) error { file.(damaging).FailSync(); return nil })
	}
}

func (f *recordedFile) FailWrite(b []byte, off int64) {
	d, ok := f.File.(damaging)
	if !ok {
		return
	}
	b = append([]byte(nil), b...)
	direct := f.direct
	_ = f.change(fmt.Sprintf("failed write [%d, %d) of", off, off+int64(len(b))),
		func() error { d.FailWrite(b, off); return nil },
		func(file File) error {
			m := file.(*memFile)
			if direct {
				m.flags |= Direct
				defer func() { m.flags &^= Direct }()
			}
			m.FailWrite(b, off)
			return nil
		})
}
