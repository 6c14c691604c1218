package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"sluice/go/storebench/meter"
)

// raws are the ways to have bytes on the disk, by subject.
var raws = map[string]func(meter.Case) (rawDisk, error){
	"raw-grow":      func(c meter.Case) (rawDisk, error) { return newGrowing(c, 0) },
	"raw-fallocate": func(c meter.Case) (rawDisk, error) { return newGrowing(c, c.Segment) },
	"raw-recycled":  func(c meter.Case) (rawDisk, error) { return newRecycled(c, 0) },
	"raw-direct": func(c meter.Case) (rawDisk, error) {
		return newRecycled(c, syscall.O_DIRECT)
	},
	bareDisk: func(c meter.Case) (rawDisk, error) {
		return newRecycled(c, syscall.O_DIRECT|syscall.O_DSYNC)
	},
}

// rawDisk makes bytes durable in one way; the bytes lie on a page.
type rawDisk interface {
	write(b []byte) error
	Close() error
}

// measureRaw writes what the journal would for such a group, and no more than that.
func measureRaw(c meter.Case) (r meter.Result, err error) {
	d, err := raws[c.Subject](c)
	if errors.Is(err, syscall.EINVAL) { // open(2) on O_DIRECT
		r.Notes = []string{"this file system takes no direct writes"}
		return r, nil
	}
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	b, err := pageMemory(c.Stored)
	if err != nil {
		return r, err
	}
	m, err := meter.Start(c, nil)
	if err != nil {
		return r, err
	}
	for m.Elapsed() < c.Duration {
		began := time.Now()
		if err := d.write(b); err != nil {
			return r, err
		}
		r.Times.Note(time.Since(began))
		r.Events += c.Group
		r.Bytes += int64(c.Group) * int64(c.Frame)
	}
	return r, m.Stop(&r)
}

// pageMemory is memory that direct writes take, full of noise.
func pageMemory(size int) ([]byte, error) {
	b, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", size, err)
	}
	copy(b, meter.Noise(size, 1))
	return b, nil
}

// growing writes behind the last bytes of a file, whose space was asked for before or was not.
type growing struct {
	dir   string
	ahead int64
	file  *os.File
	end   int64
}

func newGrowing(c meter.Case, ahead int64) (*growing, error) {
	g := &growing{dir: c.Dir, ahead: ahead}
	return g, g.renew()
}

// renew goes on with a new file; the old one is gone.
func (g *growing) renew() error {
	name := filepath.Join(g.dir, "growing")
	if g.file != nil {
		if err := errors.Join(g.file.Close(), os.Remove(name)); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	g.file, g.end = f, 0
	if g.ahead > 0 {
		err = syscall.Fallocate(int(f.Fd()), 0, 0, g.ahead)
	}
	if err != nil {
		return fmt.Errorf("allocate %d bytes: %w", g.ahead, err)
	}
	return f.Sync()
}

func (g *growing) write(b []byte) error {
	limit := int64(growMax)
	if g.ahead > 0 {
		limit = g.ahead
	}
	if g.end+int64(len(b)) > limit {
		if err := g.renew(); err != nil {
			return err
		}
	}
	if _, err := g.file.WriteAt(b, g.end); err != nil {
		return err
	}
	g.end += int64(len(b))
	return syscall.Fdatasync(int(g.file.Fd()))
}

func (g *growing) Close() error { return g.file.Close() }

// recycled writes over files that have been written from end to end before.
type recycled struct {
	files [poolFiles]*os.File
	size  int64 // of a file
	sync  bool  // a write does not do that itself
	file  int
	end   int64
}

func newRecycled(c meter.Case, flags int) (*recycled, error) {
	if err := fillPool(c.Pool, c.Segment); err != nil {
		return nil, err
	}
	r := &recycled{size: c.Segment, sync: flags&syscall.O_DSYNC == 0}
	for i := range r.files {
		f, err := os.OpenFile(poolFile(c.Pool, i), os.O_RDWR|flags, 0)
		if err != nil {
			return nil, err
		}
		r.files[i] = f
	}
	return r, nil
}

func poolFile(pool string, i int) string { return filepath.Join(pool, fmt.Sprintf("%d", i)) }

// fillPool writes the files that are not there yet.
func fillPool(pool string, size int64) error {
	for i := range poolFiles {
		name := poolFile(pool, i)
		if _, err := os.Stat(name); err == nil {
			continue
		}
		if err := os.WriteFile(name+".part", meter.Noise(int(size), uint64(i)), 0o600); err != nil {
			return err
		}
		f, err := os.Open(name + ".part")
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close(), os.Rename(name+".part", name)); err != nil {
			return err
		}
	}
	return nil
}

func (r *recycled) write(b []byte) error {
	if r.end+int64(len(b)) > r.size {
		r.file, r.end = (r.file+1)%poolFiles, 0
	}
	f := r.files[r.file]
	if _, err := f.WriteAt(b, r.end); err != nil {
		return err
	}
	r.end += int64(len(b))
	if !r.sync {
		return nil
	}
	return syscall.Fdatasync(int(f.Fd()))
}

func (r *recycled) Close() error {
	var errs []error
	for _, f := range r.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
