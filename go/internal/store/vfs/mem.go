package vfs

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// ErrHalted is what every call on a Mem returns once it was halted, crashed or killed: to the code
// under test the process is gone.
var ErrHalted = errors.New("file system is halted")

// Mem is a file system in memory that knows what a disk would still hold: bytes are durable per
// block of 4096 after Sync, names after SyncDir. Crash and Kill give what the next start finds.
//
// It is more hostile than most disks: unsynced blocks survive in any subset, torn at 512 bytes,
// and unsynced directory changes survive in any subset too. A failed sync leaves pages that read
// back as written, count as clean, and are not on the disk (Linux since 4.13).
type Mem struct {
	mu       sync.Mutex
	names    map[string]*inode // as processes see it
	durable  map[string]*inode // as the disk has it
	changes  []change          // of names since the last SyncDir, in order
	dirs     map[string]bool
	locks    map[string]*memLock
	capacity int64
	source   *rand.PCG
	rng      *rand.Rand // draws from source
	halted   bool
	steps    int
	haltAt   int
}

type change struct {
	dir      string
	node     *inode // what gets the name `to`; nil: nothing does
	from, to string // `from` loses its name; either may be empty
}

// NewMem makes an empty file system without a bound on its size.
func NewMem() *Mem {
	m := &Mem{
		names:   map[string]*inode{},
		durable: map[string]*inode{},
		dirs:    map[string]bool{"/": true, ".": true},
		locks:   map[string]*memLock{},
	}
	m.Seed(1)
	return m
}

// Seed fixes what failed writes and syncs leave behind.
func (m *Mem) Seed(seed uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.draw(rand.NewPCG(seed, 0x6d656d))
}

func (m *Mem) draw(source *rand.PCG) { m.source, m.rng = source, rand.New(source) }

// SetCapacity bounds the bytes of all files; 0: no bound.
func (m *Mem) SetCapacity(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.capacity = bytes
}

// Steps counts the steps so far: one before each change, and one inside each direct write, between
// its bytes being under way and their being durable.
func (m *Mem) Steps() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.steps
}

// HaltAt halts the file system at the given step, counted like Steps; 0: never. A write halted
// there may have changed a part of its bytes.
func (m *Mem) HaltAt(step int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.haltAt = step
}

// Halted tells whether HaltAt was reached.
func (m *Mem) Halted() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.halted
}

// Crash is a power cut: it halts m and gives a file system as the disk might show it then.
func (m *Mem) Crash(rng *rand.Rand) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.halted = true
	next := m.afterPowerCut(rng.IntN)
	next.draw(rand.NewPCG(rng.Uint64(), rng.Uint64()))
	return next
}

// afterPowerCut is what the disk shows if everything under way goes as picked.
func (m *Mem) afterPowerCut(pick pick) *Mem {
	names := maps.Clone(m.durable)
	for _, c := range m.changes {
		if pick(2) == 1 {
			c.apply(names)
		}
	}
	next := m.successor()
	cut := map[*inode]*inode{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		node := names[name]
		if cut[node] == nil {
			cut[node] = node.afterPowerCut(pick)
		}
		next.names[name] = cut[node]
	}
	next.durable = maps.Clone(next.names)
	return next
}

// Kill is the death of the process: it halts m and gives the same file system with the page cache
// as it was, except that pages of failed syncs may have been evicted. A nil rng evicts none.
func (m *Mem) Kill(rng *rand.Rand) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.halted = true
	next := m.afterKill(rng)
	if rng != nil {
		next.draw(rand.NewPCG(rng.Uint64(), rng.Uint64()))
	}
	return next
}

// fork is a copy that goes on where m is.
func (m *Mem) fork() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := m.afterKill(nil)
	source := *m.source
	next.draw(&source)
	return next
}

func (m *Mem) afterKill(rng *rand.Rand) *Mem {
	next := m.successor()
	copies := map[*inode]*inode{}
	copied := func(node *inode) *inode {
		if node != nil && copies[node] == nil {
			copies[node] = node.afterKill(rng)
		}
		return copies[node]
	}
	for _, name := range slices.Sorted(maps.Keys(m.names)) {
		next.names[name] = copied(m.names[name])
	}
	for _, name := range slices.Sorted(maps.Keys(m.durable)) {
		next.durable[name] = copied(m.durable[name])
	}
	for _, c := range m.changes {
		c.node = copied(c.node)
		next.changes = append(next.changes, c)
	}
	return next
}

func (m *Mem) successor() *Mem {
	next := NewMem()
	next.dirs = maps.Clone(m.dirs)
	next.capacity = m.capacity
	return next
}

func (c change) apply(names map[string]*inode) {
	if c.from != "" {
		delete(names, c.from)
	}
	if c.node != nil {
		names[c.to] = c.node
	}
}

// step counts a step and tells whether the file system is halted from here on.
func (m *Mem) step() error {
	if m.halted {
		return ErrHalted
	}
	m.steps++
	if m.steps == m.haltAt {
		m.halted = true
		return ErrHalted
	}
	return nil
}

func (m *Mem) change(c change) {
	c.dir = path.Dir(c.to + c.from)
	if c.to != "" {
		c.dir = path.Dir(c.to)
	}
	c.apply(m.names)
	m.changes = append(m.changes, c)
}

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// Create implements FS.
func (m *Mem) Create(name string, flags Flag) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = path.Clean(name)
	if err := m.step(); err != nil {
		return nil, err
	}
	if m.names[name] != nil || m.dirs[name] {
		return nil, pathError("create", name, fs.ErrExist)
	}
	if !m.dirs[path.Dir(name)] {
		return nil, pathError("create", name, fs.ErrNotExist)
	}
	node := newInode()
	m.change(change{node: node, to: name})
	return &memFile{fs: m, node: node, name: name, flags: flags}, nil
}

// Open implements FS.
func (m *Mem) Open(name string, flags Flag) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = path.Clean(name)
	if m.halted {
		return nil, ErrHalted
	}
	node := m.names[name]
	if node == nil {
		return nil, pathError("open", name, fs.ErrNotExist)
	}
	return &memFile{fs: m, node: node, name: name, flags: flags}, nil
}

// Rename implements FS.
func (m *Mem) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	from, to = path.Clean(from), path.Clean(to)
	if err := m.step(); err != nil {
		return err
	}
	node := m.names[from]
	if node == nil {
		return pathError("rename", from, fs.ErrNotExist)
	}
	m.change(change{node: node, from: from, to: to})
	return nil
}

// Remove implements FS.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = path.Clean(name)
	if err := m.step(); err != nil {
		return err
	}
	if m.names[name] == nil {
		return pathError("remove", name, fs.ErrNotExist)
	}
	m.change(change{from: name})
	return nil
}

// List implements FS.
func (m *Mem) List(dir string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir = path.Clean(dir)
	if m.halted {
		return nil, ErrHalted
	}
	if !m.dirs[dir] {
		return nil, pathError("list", dir, fs.ErrNotExist)
	}
	var list []string
	for name := range m.names {
		if path.Dir(name) == dir {
			list = append(list, path.Base(name))
		}
	}
	for name := range m.dirs {
		if path.Dir(name) == dir && name != dir {
			list = append(list, path.Base(name))
		}
	}
	slices.Sort(list)
	return list, nil
}

// Stat implements FS.
func (m *Mem) Stat(name string) (Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = path.Clean(name)
	if m.halted {
		return Info{}, ErrHalted
	}
	if m.dirs[name] {
		return Info{Dir: true}, nil
	}
	if node := m.names[name]; node != nil {
		return Info{Size: node.size}, nil
	}
	return Info{}, pathError("stat", name, fs.ErrNotExist)
}

// MkdirAll implements FS.
func (m *Mem) MkdirAll(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.step(); err != nil {
		return err
	}
	for dir = path.Clean(dir); !m.dirs[dir]; dir = path.Dir(dir) {
		m.dirs[dir] = true
	}
	return nil
}

// SyncDir implements FS.
func (m *Mem) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir = path.Clean(dir)
	if err := m.step(); err != nil {
		return err
	}
	m.changes = slices.DeleteFunc(m.changes, func(c change) bool {
		if c.dir != dir {
			return false
		}
		c.apply(m.durable)
		return true
	})
	return nil
}

type memLock struct {
	fs   *Mem
	name string
}

// Lock implements FS.
func (m *Mem) Lock(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = path.Clean(name)
	if m.halted {
		return nil, ErrHalted
	}
	if m.locks[name] != nil {
		return nil, pathError("lock", name, ErrLocked)
	}
	if m.names[name] == nil {
		m.change(change{node: newInode(), to: name})
	}
	m.locks[name] = &memLock{m, name}
	return m.locks[name], nil
}

func (l *memLock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	if l.fs.locks[l.name] == l {
		delete(l.fs.locks, l.name)
	}
	return nil
}

// Space implements FS. Without a capacity the file system has one TiB.
func (m *Mem) Space(string) (Space, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.halted {
		return Space{}, ErrHalted
	}
	total := m.capacity
	if total == 0 {
		total = 1 << 40
	}
	return Space{Total: total, Free: max(0, total-m.used())}, nil
}

func (m *Mem) used() int64 {
	var sum int64
	for _, node := range m.names {
		sum += node.used()
	}
	return sum
}

// room tells whether bytes more fit.
func (m *Mem) room(bytes int64) error {
	if m.capacity > 0 && bytes > 0 && m.used()+bytes > m.capacity {
		return syscall.ENOSPC
	}
	return nil
}

// Dump gives the bytes of a file as a process would read them.
func (m *Mem) Dump(name string) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	node := m.names[path.Clean(name)]
	if node == nil {
		return nil
	}
	b := make([]byte, node.size)
	node.read(b, 0)
	return b
}

// Put makes or replaces a file with the given bytes, durably: for tests that damage a file.
func (m *Mem) Put(name string, b []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = path.Clean(name)
	for dir := path.Dir(name); !m.dirs[dir]; dir = path.Dir(dir) {
		m.dirs[dir] = true
	}
	node := newInode()
	node.write(b, 0)
	node.sync()
	m.names[name], m.durable[name] = node, node
}

// Names are all files, sorted, whose path begins with prefix.
func (m *Mem) Names(prefix string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []string
	for name := range m.names {
		if strings.HasPrefix(name, prefix) {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}
