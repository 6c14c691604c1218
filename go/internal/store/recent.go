package store

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"sluice/go/internal/event"
)

// The set of recent keys has recentSets sets of recentWays places each, 27 MB in all.
const (
	recentSets = 1 << 17
	recentWays = 4
)

type recentKey struct {
	source uint32
	key    [16]byte
}

type recentEvent struct {
	id    event.ID
	until int64
}

// recent is the memory set of dedup keys whose first copy is durable. It answers storms of repeats
// before they cost a write; what it does not know, the applier finds.
//
// A key belongs to one set and takes the place of the oldest there. Tags of 16 bits of each place's
// hash say without a lock that a key is not in, which is the answer to nearly all.
type recent struct {
	table atomic.Pointer[recentTable]
	mu    sync.Mutex // guards the entries and turns of the table, and who writes its tags
}

type recentTable struct {
	tags    [recentSets]atomic.Uint64 // recentWays tags; 0 of one is an empty place
	entries [recentSets][recentWays]recentEntry
	turns   [recentSets]uint8 // the place to take next
}

type recentEntry struct {
	recentKey
	recentEvent
}

// Known tells whether an event with the key is durable and its window is open for a request
// received at at (ns since 1970). id is the first one's. Safe from any goroutine; it
// allocates nothing.
func (s *Store) Known(source uint32, key [16]byte, at int64) (id event.ID, ok bool) {
	return s.recent.known(recentKey{source, key}, at)
}

func (r *recent) known(k recentKey, at int64) (event.ID, bool) {
	t := r.table.Load()
	if t == nil {
		return event.ID{}, false
	}
	set, tag := k.place()
	if !holdsTag(t.tags[set].Load(), tag) {
		return event.ID{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := t.find(set, tag, &k); e != nil && e.until > at {
		return e.id, true
	}
	return event.ID{}, false
}

// add puts a durable event in, unless an earlier one's window is open for it. r.mu is held.
func (r *recent) add(k recentKey, id event.ID, until, received int64) {
	if until <= received {
		return
	}
	t := r.writable()
	set, tag := k.place()
	e := t.find(set, tag, &k)
	if e == nil {
		e = t.replace(set, tag)
	} else if e.until > received {
		return
	}
	e.recentKey, e.id, e.until = k, id, until
}

// put puts an event in whatever was there before.
func (r *recent) put(k recentKey, event recentEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.writable()
	set, tag := k.place()
	e := t.find(set, tag, &k)
	if e == nil {
		e = t.replace(set, tag)
	}
	e.recentKey, e.recentEvent = k, event
}

// writable makes the table when it is first needed. r.mu is held.
func (r *recent) writable() *recentTable {
	t := r.table.Load()
	if t == nil {
		t = new(recentTable)
		r.table.Store(t)
	}
	return t
}

// place gives a key's set and its tag, which is not 0.
func (k *recentKey) place() (set int, tag uint16) {
	low, high := binary.LittleEndian.Uint64(k.key[:]), binary.LittleEndian.Uint64(k.key[8:])
	h := (low ^ uint64(k.source)*0x9fb21c651e98df25) * 0x9e3779b97f4a7c15
	h = (h ^ h>>32 ^ high) * 0xd1342543de82ef95
	h = (h ^ h>>32) * 0xbf58476d1ce4e5b9
	return int(h >> 32 % recentSets), uint16(h>>16) | 1
}

// holdsTag tells whether one of four tags is the one looked for: the product repeats it, and a
// 16-bit lane of the difference that is 0 borrows. A borrow may also reach the lane above; that
// costs a look, no wrong answer.
func holdsTag(tags uint64, tag uint16) bool {
	const ones, tops = 0x0001_0001_0001_0001, 0x8000_8000_8000_8000
	d := tags ^ uint64(tag)*ones
	return (d-ones)&^d&tops != 0
}

func (t *recentTable) find(set int, tag uint16, k *recentKey) *recentEntry {
	tags := t.tags[set].Load()
	for i := range recentWays {
		if e := &t.entries[set][i]; uint16(tags>>(16*i)) == tag && e.recentKey == *k {
			return e
		}
	}
	return nil
}

// replace gives the place of the oldest of a set.
func (t *recentTable) replace(set int, tag uint16) *recentEntry {
	i := t.turns[set] % recentWays
	t.turns[set] = i + 1
	tags := t.tags[set].Load()
	t.tags[set].Store(tags&^(0xffff<<(16*i)) | uint64(tag)<<(16*i))
	return &t.entries[set][i]
}
