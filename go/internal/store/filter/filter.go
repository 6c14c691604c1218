// Package filter answers "was this key ever added?" from memory, with no false "no": blocked Bloom
// filters that grow with what is put in.
//
// It stores no key, removes none and persists nothing. A "maybe" proves nothing: who needs to be
// sure asks the rows that the filter stands before.
//
// # Form
//
// A filter is a row of chunks. Only the last one takes keys; when it is full, a chunk four times
// its size follows, up to chunkBytesMax. A chunk is a row of blocks of 64 bytes, one line of the
// processor's cache; a key belongs to one block and sets one bit in each of its eight words. So a
// look costs one line for each chunk, and 40 million keys lie in six chunks of 85 MiB together:
//
//	64 KiB │ 256 KiB │ 1 MiB │ 4 MiB │ 16 MiB │ 64 MiB │ 64 MiB …
//
// A chunk of the largest size takes one key for 16 bits. Smaller ones take one for 20: that costs
// little, and each chunk adds its own share of false answers.
//
// # Bounds
//
// The memory of all filters that share a Budget is bounded by it. A filter that may not grow puts
// further keys into its last chunk: "maybe" becomes more frequent, and always where there is not
// even a first chunk. Within the budget it says "maybe" to fewer than one of 400 keys that it does
// not hold.
package filter

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	bitsPerKey      = 20 // in a chunk that is full
	bitsPerKeyLarge = 16 // the same of the largest chunks
	blockWords      = 8
	blockBytes      = 8 * blockWords
	firstBytes      = 64 << 10
	growth          = 4
	chunkBytesMax   = 64 << 20
	_               = uint(firstBytes % blockBytes * -1) // chunks are whole blocks
)

// Budget is memory that filters share. Its methods may be called from any goroutine.
type Budget struct{ left atomic.Int64 }

// NewBudget gives a budget of so many bytes.
func NewBudget(bytes int64) *Budget {
	b := new(Budget)
	b.left.Store(bytes)
	return b
}

// Left is what may still be taken.
func (b *Budget) Left() int64 { return b.left.Load() }

func (b *Budget) take(bytes int64) bool {
	for {
		left := b.left.Load()
		if left < bytes {
			return false
		}
		if b.left.CompareAndSwap(left, left-bytes) {
			return true
		}
	}
}

// Filter is a set of hashes that may answer for more than it holds. One goroutine may add; a filter
// that nobody adds to any more may be read by any number. The hashes must be well spread over all
// 64 bits.
type Filter struct {
	budget *Budget
	chunks []chunk
	room   int // keys that the last chunk still takes before the filter grows
	keys   int
	bytes  int64
	blind  bool // there is a key and no chunk
}

type chunk []block

type block [blockWords]uint64

// New gives an empty filter.
func New(b *Budget) *Filter { return &Filter{budget: b} }

// Add puts a hash in.
func (f *Filter) Add(hash uint64) {
	f.keys++
	if f.room == 0 && !f.grow() {
		if len(f.chunks) == 0 {
			f.blind = true
			return
		}
		f.room = keysIn(firstBytes) // ask the budget again after as many
	}
	f.room--
	b, pattern := f.chunks[len(f.chunks)-1].block(hash), bits(hash)
	b[0] |= 1 << (pattern & 63)
	b[1] |= 1 << (pattern >> 6 & 63)
	b[2] |= 1 << (pattern >> 12 & 63)
	b[3] |= 1 << (pattern >> 18 & 63)
	b[4] |= 1 << (pattern >> 24 & 63)
	b[5] |= 1 << (pattern >> 30 & 63)
	b[6] |= 1 << (pattern >> 36 & 63)
	b[7] |= 1 << (pattern >> 42 & 63)
}

// Has tells whether a hash may be in; false is certain.
func (f *Filter) Has(hash uint64) bool {
	pattern := bits(hash)
	for _, c := range f.chunks {
		b := c.block(hash)
		// No branch between the words: half of them would be guessed wrong.
		if b[0]>>(pattern&63)&(b[1]>>(pattern>>6&63))&
			(b[2]>>(pattern>>12&63))&(b[3]>>(pattern>>18&63))&
			(b[4]>>(pattern>>24&63))&(b[5]>>(pattern>>30&63))&
			(b[6]>>(pattern>>36&63))&(b[7]>>(pattern>>42&63))&1 != 0 {
			return true
		}
	}
	return f.blind
}

// Len counts the calls of Add.
func (f *Filter) Len() int { return f.keys }

// Bytes is the memory that it takes.
func (f *Filter) Bytes() int64 { return f.bytes }

// Release gives the memory back to the budget. The filter must not be used any more.
func (f *Filter) Release() {
	f.budget.left.Add(f.bytes)
	*f = Filter{}
}

func keysIn(bytes int64) int {
	if bytes == chunkBytesMax {
		return int(bytes * 8 / bitsPerKeyLarge)
	}
	return int(bytes * 8 / bitsPerKey)
}

func (f *Filter) grow() bool {
	size := int64(firstBytes)
	if n := len(f.chunks); n > 0 {
		size = min(int64(len(f.chunks[n-1]))*blockBytes*growth, chunkBytesMax)
	}
	if !f.budget.take(size) {
		return false
	}
	f.chunks = append(f.chunks, newChunk(size))
	f.room = keysIn(size)
	f.bytes += size
	return true
}

// hugeBytes is from where on larger pages are asked for: a look goes to any place of a chunk, and
// would miss the processor's table of pages each time.
const hugeBytes = 4 << 20

func newChunk(size int64) chunk {
	c := make(chunk, size/blockBytes)
	if size >= hugeBytes {
		// Only a wish: where it is not granted, a look takes a little longer.
		_ = unix.Madvise(unsafe.Slice((*byte)(unsafe.Pointer(&c[0])), size), unix.MADV_HUGEPAGE)
	}
	return c
}

// block picks by the upper half of the hash; the bits come from a product that the lower half
// decides as well.
func (c chunk) block(hash uint64) *block {
	return &c[(hash>>32)*uint64(len(c))>>32]
}

func bits(hash uint64) uint64 { return hash * 0x9e3779b97f4a7c15 >> 16 }
