package store

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"sluice/go/internal/event"
)

const (
	// recentMax is how many keys are remembered; the last ones count. They take 14 MB.
	recentMax  = 1 << 18
	recentWays = 4
	recentSets = recentMax / recentWays
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
// Entries are written one behind the other, around a ring. A table leads to them: a key belongs to
// one set of recentWays slots, each a tag of the key's hash and a place in the ring. The tags say
// without a lock that a key is not in, which is the answer to nearly all. A slot whose place was
// taken by another key since leads nowhere, which is seen there.
type recent struct {
	table atomic.Pointer[recentTable]
	mu    sync.Mutex // guards the ring, and who writes slots
}

type recentTable struct {
	slots [recentSets][recentWays]atomic.Uint32 // 0: empty
	ring  [recentMax]recentEntry
	next  uint32 // place that is taken next
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

// Foresee begins to fetch what Known will look at, which is some 500 ns away in a table that is
// looked at in no order. Of several in a row the processor fetches many at once.
func (s *Store) Foresee(source uint32, key [16]byte) {
	if t := s.recent.table.Load(); t != nil {
		k := recentKey{source, key}
		set, _ := k.place()
		t.slots[set][0].Load()
	}
}

func (r *recent) known(k recentKey, at int64) (event.ID, bool) {
	t := r.table.Load()
	if t == nil {
		return event.ID{}, false
	}
	set, tag := k.place()
	if !t.mayHold(set, tag) {
		return event.ID{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := t.find(set, tag, &k); e != nil && e.until > at {
		return e.id, true
	}
	return event.ID{}, false
}

// freshKey is the key of an event that becomes durable.
type freshKey struct {
	recentKey
	recentEvent
	received int64
}

// addAll puts durable events in, but for those that an earlier one's window is open for.
func (r *recent) addAll(list []freshKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.writable()
	for i := range list {
		k := &list[i]
		if k.until <= k.received {
			continue
		}
		set, tag := k.place()
		e := t.find(set, tag, &k.recentKey)
		if e == nil {
			e = t.insert(set, tag)
		} else if e.until > k.received {
			continue
		}
		e.recentKey, e.recentEvent = k.recentKey, k.recentEvent
	}
}

// put puts an event in whatever was there before.
func (r *recent) put(k recentKey, event recentEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.writable()
	set, tag := k.place()
	e := t.find(set, tag, &k)
	if e == nil {
		e = t.insert(set, tag)
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

const (
	placeMask = recentMax - 1 // of a slot; above it is the tag
	tagMask   = ^uint32(placeMask)
)

// place gives a key's set and its tag, which is not 0.
func (k *recentKey) place() (set int, tag uint32) {
	low, high := binary.LittleEndian.Uint64(k.key[:]), binary.LittleEndian.Uint64(k.key[8:])
	h := (low ^ uint64(k.source)*0x9fb21c651e98df25) * 0x9e3779b97f4a7c15
	h = (h ^ h>>32 ^ high) * 0xd1342543de82ef95
	h = (h ^ h>>32) * 0xbf58476d1ce4e5b9
	return int(h >> 32 % recentSets), uint32(h>>16)&tagMask | recentMax
}

func (t *recentTable) mayHold(set int, tag uint32) bool {
	for i := range recentWays {
		if t.slots[set][i].Load()&tagMask == tag {
			return true
		}
	}
	return false
}

func (t *recentTable) find(set int, tag uint32, k *recentKey) *recentEntry {
	for i := range recentWays {
		if slot := t.slots[set][i].Load(); slot&tagMask == tag {
			if e := &t.ring[slot&placeMask]; e.recentKey == *k {
				return e
			}
		}
	}
	return nil
}

// insert gives the next place of the ring to a key, and the slot of its set whose place was given
// longest ago.
func (t *recentTable) insert(set int, tag uint32) *recentEntry {
	place := t.next
	t.next = (t.next + 1) & placeMask
	oldest, age := 0, uint32(0)
	for i := range recentWays {
		slot := t.slots[set][i].Load()
		if slot == 0 {
			oldest = i
			break
		}
		if a := (place - slot) & placeMask; a >= age {
			oldest, age = i, a
		}
	}
	t.slots[set][oldest].Store(tag | place)
	return &t.ring[place]
}
