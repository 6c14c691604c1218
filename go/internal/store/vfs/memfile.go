package vfs

import (
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
)

const (
	memBlock  = 4096
	memSector = 512
)

type block = [memBlock]byte

// inode is a file's bytes twice: what processes read and what the disk holds. Blocks are never
// changed in place, so that copies of an inode may share them; a missing one is zeroes.
type inode struct {
	cache, disk    map[int64]*block
	dirty          map[int64]bool // a sync would write it
	stale          map[int64]bool // its sync failed: counts as clean, is not on the disk
	size, diskSize int64
	alloc          int64 // preallocated bytes
}

func newInode() *inode {
	return &inode{
		cache: map[int64]*block{}, disk: map[int64]*block{},
		dirty: map[int64]bool{}, stale: map[int64]bool{},
	}
}

func (n *inode) used() int64 {
	return max(n.alloc, int64(len(n.cache))*memBlock)
}

func (n *inode) read(b []byte, off int64) {
	for len(b) > 0 {
		at := off % memBlock
		c := min(int64(len(b)), memBlock-at)
		if p := n.cache[off/memBlock]; p != nil {
			copy(b[:c], p[at:])
		} else {
			clear(b[:c])
		}
		b, off = b[c:], off+c
	}
}

func (n *inode) write(b []byte, off int64) {
	n.size = max(n.size, off+int64(len(b)))
	for len(b) > 0 {
		i, at := off/memBlock, off%memBlock
		c := min(int64(len(b)), memBlock-at)
		fresh := new(block)
		if p := n.cache[i]; p != nil {
			*fresh = *p
		}
		copy(fresh[at:], b[:c])
		n.cache[i] = fresh
		n.dirty[i] = true
		delete(n.stale, i)
		b, off = b[c:], off+c
	}
}

func (n *inode) sync() {
	for i := range n.dirty {
		n.disk[i] = n.cache[i]
	}
	clear(n.dirty)
	n.diskSize = n.size
	maps.DeleteFunc(n.disk, n.beyond)
}

// beyond tells of a block whether it lies behind the end.
func (n *inode) beyond(i int64, _ *block) bool { return i*memBlock >= n.size }

func (n *inode) truncate(size int64) {
	n.size, n.alloc = size, min(n.alloc, size)
	maps.DeleteFunc(n.cache, n.beyond)
	maps.DeleteFunc(n.dirty, func(i int64, _ bool) bool { return i*memBlock >= size })
	maps.DeleteFunc(n.stale, func(i int64, _ bool) bool { return i*memBlock >= size })
	if at := size % memBlock; at != 0 && n.cache[size/memBlock] != nil {
		n.write(make([]byte, memBlock-at), size)
		n.size = size
	}
}

// failSync is what a sync leaves that met an error: any part of the blocks on the disk, and all of
// them clean.
func (n *inode) failSync(rng *rand.Rand) {
	for _, i := range slices.Sorted(maps.Keys(n.dirty)) {
		n.disk[i] = tear(n.disk[i], n.cache[i], rng.IntN)
		if n.disk[i] != n.cache[i] {
			n.stale[i] = true
		}
	}
	clear(n.dirty)
	if rng.IntN(2) == 0 {
		n.diskSize = n.size
	}
}

// pick decides between n outcomes of something that was under way: 0 is that it did not happen, 1
// that it did, and what is above is something between.
type pick func(n int) int

// tear decides what the disk has of a block whose write was under way.
func tear(old, fresh *block, pick pick) *block {
	switch pick(4) {
	case 0:
		return old
	case 1:
		return fresh
	}
	torn := new(block)
	if old != nil {
		*torn = *old
	}
	for at := 0; at < memBlock; at += memSector {
		if pick(2) == 1 {
			copy(torn[at:at+memSector], fresh[at:])
		}
	}
	return torn
}

func (n *inode) afterPowerCut(pick pick) *inode {
	next := newInode()
	next.disk = maps.Clone(n.disk)
	for _, i := range slices.Sorted(maps.Keys(n.dirty)) {
		next.disk[i] = tear(n.disk[i], n.cache[i], pick)
	}
	next.diskSize = n.diskSize
	if n.size != n.diskSize && pick(2) == 1 {
		next.diskSize = n.size
	}
	maps.DeleteFunc(next.disk, func(i int64, b *block) bool {
		return b == nil || i*memBlock >= next.diskSize
	})
	next.cache = maps.Clone(next.disk)
	next.size = next.diskSize
	next.alloc = min(n.alloc, next.size)
	return next
}

func (n *inode) afterKill(rng *rand.Rand) *inode {
	next := &inode{
		cache: maps.Clone(n.cache), disk: maps.Clone(n.disk),
		dirty: maps.Clone(n.dirty), stale: maps.Clone(n.stale),
		size: n.size, diskSize: n.diskSize, alloc: n.alloc,
	}
	for _, i := range slices.Sorted(maps.Keys(n.stale)) {
		if rng != nil && rng.IntN(3) == 0 {
			delete(next.stale, i)
			delete(next.cache, i)
			if n.disk[i] != nil {
				next.cache[i] = n.disk[i]
			}
		}
	}
	return next
}

type memFile struct {
	fs     *Mem
	node   *inode
	name   string
	flags  Flag
	closed bool
}

func (f *memFile) usable() error {
	if f.closed {
		return pathError("use", f.name, fs.ErrClosed)
	}
	if f.fs.halted {
		return ErrHalted
	}
	return nil
}

func (f *memFile) aligned(b []byte, off int64) error {
	if f.flags&Direct != 0 && (off%memSector != 0 || len(b)%memSector != 0) {
		return pathError("direct i/o", f.name, syscall.EINVAL)
	}
	return nil
}

func (f *memFile) ReadAt(b []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.usable(); err != nil {
		return 0, err
	}
	if err := f.aligned(b, off); err != nil {
		return 0, err
	}
	n := max(0, min(int64(len(b)), f.node.size-off))
	f.node.read(b[:n], off)
	if n < int64(len(b)) {
		return int(n), io.EOF
	}
	return int(n), nil
}

func (f *memFile) WriteAt(b []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.usable(); err != nil {
		return 0, err
	}
	if f.flags&ReadOnly != 0 {
		return 0, pathError("write", f.name, syscall.EBADF)
	}
	if err := f.aligned(b, off); err != nil {
		return 0, err
	}
	if err := f.fs.step(); err != nil {
		f.writePart(b, off)
		return 0, err
	}
	if err := f.fs.room(off + int64(len(b)) - max(f.node.used(), f.node.size)); err != nil {
		f.writePart(b, off)
		return 0, pathError("write", f.name, err)
	}
	f.node.write(b, off)
	if f.flags&Direct == 0 {
		return len(b), nil
	}
	if err := f.fs.step(); err != nil {
		return 0, err
	}
	f.node.sync()
	return len(b), nil
}

// writePart lets a failed write change what lies inside the file already, up to any sector.
func (f *memFile) writePart(b []byte, off int64) {
	n := f.fs.rng.IntN(len(b)/memSector+1) * memSector
	n = max(0, min(n, int(f.node.size-off)))
	f.node.write(b[:n], off)
}

func (f *memFile) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.usable(); err != nil {
		return err
	}
	if err := f.fs.step(); err != nil {
		return err
	}
	f.node.sync()
	return nil
}

// FailSync does to the disk what a sync does that returns an error.
func (f *memFile) FailSync() {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.usable() == nil {
		f.node.failSync(f.fs.rng)
	}
}

// FailWrite does to the disk what a write of b does that returns an error.
func (f *memFile) FailWrite(b []byte, off int64) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.usable() != nil {
		return
	}
	f.writePart(b, off)
	if f.flags&Direct != 0 {
		f.node.failSync(f.fs.rng)
	}
}

func (f *memFile) Size() (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.usable(); err != nil {
		return 0, err
	}
	return f.node.size, nil
}

func (f *memFile) Preallocate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.usable(); err != nil {
		return err
	}
	if err := f.fs.step(); err != nil {
		return err
	}
	if err := f.fs.room(size - f.node.used()); err != nil {
		return pathError("preallocate", f.name, err)
	}
	f.node.size = max(f.node.size, size)
	f.node.alloc = max(f.node.alloc, size)
	return nil
}

func (f *memFile) Truncate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.usable(); err != nil {
		return err
	}
	if err := f.fs.step(); err != nil {
		return err
	}
	f.node.truncate(size)
	return nil
}

func (f *memFile) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.closed = true
	return nil
}
