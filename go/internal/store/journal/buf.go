package journal

import (
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
	"syscall"
)

// Buf is page-aligned memory outside the Go heap, shared by count. The last Release gives it back;
// its bytes must not be touched afterwards.
type Buf struct {
	data    []byte
	holders atomic.Int32
	pool    *bufPool
	frames  []Frame // of the group in it; used again like the bytes
}

// frameList gives an empty list for so many frames, which lives as long as the bytes.
func (b *Buf) frameList(frames int) []Frame {
	if cap(b.frames) < frames {
		b.frames = make([]Frame, 0, frames)
	}
	return b.frames[:0]
}

// Retain adds a holder. The caller must be one.
func (b *Buf) Retain() {
	if b.holders.Add(1) <= 1 {
		panic("journal: retain of a released buffer")
	}
}

// Release takes a holder away.
func (b *Buf) Release() {
	switch n := b.holders.Add(-1); {
	case n == 0:
		b.pool.put(b)
	case n < 0:
		panic("journal: release of a released buffer")
	}
}

// poolBytes is what is kept of buffers that nobody holds: those of four of the largest groups.
const poolBytes = 4 * GroupBytesMax

// bufPool hands out buffers by powers of two and keeps some of those that come back, so that
// steady traffic maps no memory.
type bufPool struct {
	mu       sync.Mutex
	free     [48][]*Buf // by class: 4096 << class bytes
	freeSize int64
	keep     int64
	mapped   int // buffers that exist, in use or not
}

func sizeClass(size int64) int {
	return bits.Len64(uint64((max(size, 1) - 1) >> 12))
}

// get gives a buffer of at least size bytes with one holder; its content is arbitrary.
func (p *bufPool) get(size int64) (*Buf, error) {
	class := sizeClass(size)
	p.mu.Lock()
	if len(p.free[class]) > 0 {
		b := p.pop(class)
		p.mu.Unlock()
		b.holders.Store(1)
		return b, nil
	}
	p.mu.Unlock()
	data, err := syscall.Mmap(-1, 0, BlockSize<<class, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("map a buffer of %d bytes: %w", BlockSize<<class, err)
	}
	b := &Buf{data: data, pool: p}
	b.holders.Store(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mapped++
	return b, nil
}

// put takes a buffer back. Where that is more than what is kept, buffers of other sizes go first:
// what comes back is what traffic needs now.
func (p *bufPool) put(b *Buf) {
	class, size := sizeClass(int64(len(b.data))), int64(len(b.data))
	p.mu.Lock()
	var gone []*Buf
	for other := 0; other < len(p.free) && p.freeSize+size > p.keep; other++ {
		for other != class && len(p.free[other]) > 0 && p.freeSize+size > p.keep {
			gone = append(gone, p.pop(other))
		}
	}
	if p.freeSize+size <= p.keep {
		p.free[class] = append(p.free[class], b)
		p.freeSize += size
	} else {
		gone = append(gone, b)
	}
	p.mapped -= len(gone)
	p.mu.Unlock()
	for _, b := range gone {
		unmap(b)
	}
}

// pop takes the last one of a class, which the processor's cache knows best. p.mu is held.
func (p *bufPool) pop(class int) *Buf {
	list := p.free[class]
	b := list[len(list)-1]
	list[len(list)-1] = nil
	p.free[class] = list[:len(list)-1]
	p.freeSize -= int64(len(b.data))
	return b
}

// close unmaps what is idle; buffers still held are unmapped when they come back.
func (p *bufPool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keep, p.freeSize = 0, 0
	for class := range p.free {
		for _, b := range p.free[class] {
			p.mapped--
			unmap(b)
		}
		p.free[class] = nil
	}
}

func unmap(b *Buf) {
	if err := syscall.Munmap(b.data); err != nil {
		// Not ours to unmap: our own count of holders is broken.
		panic(fmt.Sprintf("journal: unmap a buffer: %v", err))
	}
	b.data = nil
}
