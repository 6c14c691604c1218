package lane

import (
	"fmt"
	"os"
	"runtime/debug"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapping is address space that this process reserved and mapped parts of one file into.
type mapping struct {
	base   unsafe.Pointer
	length int
}

// part is a stretch of the file that is mapped so many times back to back.
type part struct {
	offset int64
	length int
	times  int
}

// mapParts maps the parts one behind the other. A ring is a part mapped twice, so that what wraps
// in the file lies in one piece in memory.
func mapParts(file *os.File, parts ...part) (*mapping, error) {
	length := 0
	for _, p := range parts {
		length += p.length * p.times
	}
	base, err := unix.MmapPtr(-1, 0, nil, uintptr(length), unix.PROT_NONE,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve %d bytes of address space: %w", length, err)
	}
	m := &mapping{base: base, length: length}
	at := 0
	for _, p := range parts {
		for range p.times {
			_, err := unix.MmapPtr(int(file.Fd()), p.offset, unsafe.Add(base, at),
				uintptr(p.length), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED)
			if err != nil {
				m.unmap()
				return nil, fmt.Errorf("map %s: %w", file.Name(), err)
			}
			at += p.length
		}
	}
	return m, nil
}

// bytes is the stretch of the mapping at an offset.
func (m *mapping) bytes(offset, length int) []byte {
	if offset < 0 || length < 0 || offset+length > m.length {
		panic(fmt.Sprintf("[%d, +%d) of a mapping of %d", offset, length, m.length))
	}
	return unsafe.Slice((*byte)(unsafe.Add(m.base, offset)), length)
}

// guard runs f; a fault inside the mapping, whose file somebody cut, is ErrCorrupt instead of the
// end of the process. Other faults stay what they are.
func (m *mapping) guard(f func() error) (err error) {
	before := debug.SetPanicOnFault(true) // for this goroutine alone
	defer func() {
		debug.SetPanicOnFault(before)
		if at := recover(); at != nil {
			fault, ok := at.(interface{ Addr() uintptr })
			if !ok || fault.Addr()-uintptr(m.base) >= uintptr(m.length) {
				panic(at)
			}
			err = corrupt("memory taken away at", uint64(fault.Addr()-uintptr(m.base)))
		}
	}()
	return f()
}

func (m *mapping) unmap() {
	if m.base != nil {
		_ = unix.MunmapPtr(m.base, uintptr(m.length)) // fails only for arguments that we made
		m.base = nil
	}
}
