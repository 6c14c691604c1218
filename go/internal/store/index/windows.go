package index

import "slices"

// windows holds the dedup windows that are not in rows yet: a list, and a table of places in it
// that is found by hash. It allocates nothing once it has grown to the size of a commit.
type windows struct {
	list  []window
	table []uint32 // place in list, from 1; 0: empty. A power of two, at most half full.
}

type window struct {
	Dedup
	day  uint32
	part uint16
}

const windowsMin = 1 << 10

func (w *windows) slot(hash uint64, day, source uint32, key *[16]byte) (slot int, found bool) {
	mask := len(w.table) - 1
	for slot = int(hash>>32^hash) & mask; w.table[slot] != 0; slot = (slot + 1) & mask {
		d := &w.list[w.table[slot]-1]
		if d.Key == *key && d.Source == source && d.day == day {
			return slot, true
		}
	}
	return slot, false
}

// put adds a window; one of the same key that ends on the same day goes.
func (w *windows) put(hash uint64, day uint32, part uint16, d *Dedup) {
	if 2*(len(w.list)+1) > len(w.table) {
		w.grow()
	}
	slot, found := w.slot(hash, day, d.Source, &d.Key)
	if found {
		w.list[w.table[slot]-1].Dedup = *d
		return
	}
	w.list = append(w.list, window{*d, day, part})
	w.table[slot] = uint32(len(w.list))
}

func (w *windows) get(hash uint64, day, source uint32, key *[16]byte) (Dedup, bool) {
	if len(w.list) == 0 {
		return Dedup{}, false
	}
	slot, found := w.slot(hash, day, source, key)
	if !found {
		return Dedup{}, false
	}
	return w.list[w.table[slot]-1].Dedup, true
}

func (w *windows) grow() {
	w.table = make([]uint32, max(2*len(w.table), windowsMin))
	for i := range w.list {
		d := &w.list[i]
		slot, _ := w.slot(hashKey(d.Source, &d.Key), d.day, d.Source, &d.Key)
		w.table[slot] = uint32(i + 1)
	}
}

func (w *windows) clear() {
	w.list = w.list[:0]
	clear(w.table)
}

// places gives the places of all windows, by and large in the order of their rows' keys: the engine
// finds the place of a key faster near the last one's.
func (w *windows) places(order []uint64) []uint64 {
	order = order[:0]
	for i := range w.list {
		d := &w.list[i]
		k := uint64(d.day&0xf)<<60 | uint64(d.Source&0xff)<<52
		k |= uint64(d.Key[0])<<44 | uint64(d.Key[1])<<36 | uint64(d.Key[2]&0xf0)<<28
		order = append(order, k|uint64(uint32(i)))
	}
	slices.Sort(order)
	return order
}
