// Package filter answers "was this key ever added, and to which part?" from memory, with no false
// "no": blocked Bloom filters that grow with what is put in.
//
// It stores no key, removes none and writes no file, but a chunk's bytes may be kept and read back.
// A "maybe" proves nothing: who needs to be sure asks the rows that the filter stands before.
//
// # Form
//
// A filter is a row of chunks. Only the last one takes keys; when it is full, a chunk four times
// its size follows, up to chunkBytesMax. A chunk is a row of blocks of 64 bytes, one line of the
// processor's cache; a key belongs to one block and sets one bit in each of its eight words. So a
// look costs one line for each chunk, and 50 million keys lie in seven chunks of 149 MiB together:
//
//	64 KiB │ 256 KiB │ 1 MiB │ 4 MiB │ 16 MiB │ 64 MiB │ 64 MiB …
//
// Keys come with the number of the part that their rows lie in, which never falls. A chunk knows
// the first and the last of its parts, so that a "maybe" need not be asked in all of them: else one
// would cost the more the more keys there are, and come the more often. Where it is known how many
// keys will come, Reserve makes one chunk for all of them.
//
// # Bounds
//
// The memory of all filters that share a Budget is bounded by it. A filter that may not grow puts
// further keys into its last chunk: "maybe" becomes more frequent, and always where there is not
// even a first chunk. Within the budget it says "maybe" to fewer than one of 2,000 keys that it
// does not hold.
package filter

import (
	"fmt"
	"io"
	"iter"
	"math"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	bitsPerKey    = 24 // in a chunk that is full
	blockWords    = 8
	blockBytes    = 8 * blockWords
	firstBytes    = 64 << 10
	growth        = 4
	chunkBytesMax = 64 << 20
	_             = uint(firstBytes % blockBytes * -1) // chunks are whole blocks
)

// Budget is memory that filters share. Its methods may be called from any goroutine.
type Budget struct {
	left  atomic.Int64
	short atomic.Bool
}

// NewBudget gives a budget of so many bytes.
func NewBudget(bytes int64) *Budget {
	b := new(Budget)
	b.left.Store(bytes)
	return b
}

// Left is what may still be taken.
func (b *Budget) Left() int64 { return b.left.Load() }

// Short tells whether a filter wanted more than was left, since the last one gave memory back.
func (b *Budget) Short() bool { return b.short.Load() }

func (b *Budget) give(bytes int64) {
	b.left.Add(bytes)
	b.short.Store(false)
}

func (b *Budget) take(bytes int64) bool {
	for {
		left := b.left.Load()
		if left < bytes {
			b.short.Store(true)
			return false
		}
		if b.left.CompareAndSwap(left, left-bytes) {
			return true
		}
	}
}

// Filter is a set of hashes that may answer for more than it holds. One goroutine may add; a filter
// that nobody adds to any more may be read by any number. The hashes must be well spread over all
// 64 bits. It owns memory outside the Go heap: see Release.
type Filter struct {
	budget *Budget
	chunks []chunk
	room   int   // keys that the last chunk still takes before the filter grows
	next   int64 // bytes of the chunk that it grows by
	keys   int
	bytes  int64
	blind  bool // there is a key and no chunk
}

type chunk struct {
	blocks      []block
	first, last uint16 // parts of its keys
}

type block [blockWords]uint64

// New gives an empty filter.
func New(b *Budget) *Filter { return &Filter{budget: b, next: firstBytes} }

// Add puts a hash in whose row lies in a part. It tells whether a chunk begins with it: those
// before take no more.
func (f *Filter) Add(hash uint64, part uint16) (begins bool) {
	f.keys++
	if f.room == 0 {
		if begins = f.grow(part); !begins && len(f.chunks) == 0 {
			f.blind = true
			return false
		}
		if !begins {
			f.room = KeysIn(firstBytes) // ask the budget again after as many
		}
	}
	f.room--
	c := &f.chunks[len(f.chunks)-1]
	c.last = max(c.last, part)
	b, pattern := c.block(hash), bits(hash)
	b[0] |= 1 << (pattern & 63)
	b[1] |= 1 << (pattern >> 6 & 63)
	b[2] |= 1 << (pattern >> 12 & 63)
	b[3] |= 1 << (pattern >> 18 & 63)
	b[4] |= 1 << (pattern >> 24 & 63)
	b[5] |= 1 << (pattern >> 30 & 63)
	b[6] |= 1 << (pattern >> 36 & 63)
	b[7] |= 1 << (pattern >> 42 & 63)
	return begins
}

// Reserve begins a chunk that is made for so many keys of the parts from first to last, and takes
// all that come until the next call of Reserve or Adopt. false: there is no memory for it, and the
// filter says "maybe" to everything.
func (f *Filter) Reserve(keys int, first, last uint16) bool {
	if !f.extend(bytesFor(keys), first, last) {
		f.blind = true
		return false
	}
	f.room = math.MaxInt
	return true
}

// Adopt takes in a chunk whose bytes read brings back; they were those of a chunk of the parts from
// first to last. After an error the filter is as it was. io.ErrShortBuffer: there is no memory.
func (f *Filter) Adopt(bytes int64, first, last uint16, read func([]byte) error) error {
	if bytes < blockBytes || bytes%blockBytes != 0 {
		return fmt.Errorf("a chunk of %d bytes is none", bytes)
	}
	if !f.extend(bytes, first, last) {
		return io.ErrShortBuffer
	}
	f.room = 0 // the next key begins a chunk
	n := len(f.chunks) - 1
	if err := read(f.chunks[n].raw()); err != nil {
		f.bytes -= bytes
		f.budget.give(bytes)
		f.chunks[n].free()
		f.chunks = f.chunks[:n]
		return err
	}
	return nil
}

// Chunks is how many there are.
func (f *Filter) Chunks() int { return len(f.chunks) }

// Chunk gives the bytes of a chunk, which are valid until Release and must not be written. They are
// final for all chunks but the last.
func (f *Filter) Chunk(n int) []byte { return f.chunks[n].raw() }

// Room is how many keys the last chunk still takes.
func (f *Filter) Room() int { return f.room }

// Has tells whether a hash may be in; false is certain.
func (f *Filter) Has(hash uint64) bool {
	pattern := bits(hash)
	for i := range f.chunks {
		if f.chunks[i].has(hash, pattern) {
			return true
		}
	}
	return f.blind
}

// Stretches gives the parts that may hold a hash, as the first and the last of a stretch. Stretches
// may meet, and come in no order.
func (f *Filter) Stretches(hash uint64) iter.Seq2[uint16, uint16] {
	return func(yield func(first, last uint16) bool) {
		if f.blind {
			yield(0, math.MaxUint16)
			return
		}
		pattern := bits(hash)
		for i := range f.chunks {
			c := &f.chunks[i]
			if c.has(hash, pattern) && !yield(c.first, c.last) {
				return
			}
		}
	}
}

// Len counts the calls of Add.
func (f *Filter) Len() int { return f.keys }

// Bytes is the memory that it takes.
func (f *Filter) Bytes() int64 { return f.bytes }

// Release gives the memory back to the budget and to the system. The filter must not be used any
// more, by anybody.
func (f *Filter) Release() {
	f.budget.give(f.bytes)
	for _, c := range f.chunks {
		c.free()
	}
	*f = Filter{}
}

// KeysIn is how many keys a chunk of so many bytes takes.
func KeysIn(bytes int64) int { return int(bytes * 8 / bitsPerKey) }

func bytesFor(keys int) int64 {
	blocks := (int64(keys)*bitsPerKey + 8*blockBytes - 1) / (8 * blockBytes)
	return max(blocks, 1) * blockBytes
}

func (f *Filter) grow(part uint16) bool {
	size := f.next
	if !f.extend(size, part, part) {
		return false
	}
	f.room = KeysIn(size)
	f.next = min(size*growth, chunkBytesMax)
	return true
}

// extend adds an empty chunk.
func (f *Filter) extend(size int64, first, last uint16) bool {
	if !f.budget.take(size) {
		return false
	}
	blocks, err := makeBlocks(size)
	if err != nil {
		f.budget.give(size)
		return false // as if there were no budget
	}
	f.chunks = append(f.chunks, chunk{blocks, first, last})
	f.bytes += size
	return true
}

// mappedBytes is from where on a chunk lies outside the Go heap: there it would have the collector
// wait for as much garbage. Such a chunk asks for larger pages, since a look goes to any place of
// it and would miss the processor's table of pages each time.
const mappedBytes = 4 << 20

func makeBlocks(size int64) ([]block, error) {
	if size < mappedBytes {
		return make([]block, size/blockBytes), nil
	}
	mapped, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	// Only a wish: where it is not granted, a look takes a little longer.
	_ = unix.Madvise(mapped, unix.MADV_HUGEPAGE)
	return unsafe.Slice((*block)(unsafe.Pointer(&mapped[0])), size/blockBytes), nil
}

func (c *chunk) free() {
	if c.bytes() < mappedBytes {
		return
	}
	if err := unix.Munmap(c.raw()); err != nil {
		panic("filter: unmap a chunk: " + err.Error()) // not mapped by makeBlocks
	}
}

func (c *chunk) bytes() int64 { return int64(len(c.blocks)) * blockBytes }

func (c *chunk) raw() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&c.blocks[0])), c.bytes())
}

// has has no branch between the words: half of them would be guessed wrong.
func (c *chunk) has(hash, pattern uint64) bool {
	b := c.block(hash)
	return b[0]>>(pattern&63)&(b[1]>>(pattern>>6&63))&
		(b[2]>>(pattern>>12&63))&(b[3]>>(pattern>>18&63))&
		(b[4]>>(pattern>>24&63))&(b[5]>>(pattern>>30&63))&
		(b[6]>>(pattern>>36&63))&(b[7]>>(pattern>>42&63))&1 != 0
}

// block picks by the upper half of the hash; the bits come from a product that the lower half
// decides as well.
func (c *chunk) block(hash uint64) *block {
	return &c.blocks[(hash>>32)*uint64(len(c.blocks))>>32]
}

func bits(hash uint64) uint64 { return hash * 0x9e3779b97f4a7c15 >> 16 }
