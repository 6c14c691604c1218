package index

import (
	"slices"

	"sluice/go/internal/event"
)

// orders knows which deliveries hold a place under an ordering key, as far as that is not in the q
// rows yet, and where the first of a key is.
type orders struct {
	changed map[orderID]*orderChange
	// heads are of the keys that were asked for lately, so that most questions cost no read and the
	// others do not walk over the graves of all that were delivered.
	heads map[orderID]head
}

type orderID struct {
	dest uint32
	key  uint64
}

// orderChange is what became of the places of a key since the last Commit.
type orderChange struct {
	added   []event.Seq // not in the rows, in order
	removed map[event.Seq]struct{}
}

// head says that nothing holds a place before first. exact: first itself does, or, if it is maxSeq,
// nothing does.
type head struct {
	first event.Seq
	exact bool
}

// headsMax bounds the heads.
const headsMax = 1 << 16

func newOrders() orders {
	return orders{changed: map[orderID]*orderChange{}, heads: map[orderID]head{}}
}

func (o *orders) change(id orderID) *orderChange {
	c := o.changed[id]
	if c == nil {
		c = new(orderChange)
		o.changed[id] = c
	}
	return c
}

func (o *orders) setHead(id orderID, h head) {
	if _, known := o.heads[id]; !known && len(o.heads) >= headsMax {
		clear(o.heads)
	}
	o.heads[id] = h
}

// AddOrder says that a delivery took a place under an ordering key.
func (x *Index) AddOrder(dest uint32, key uint64, seq event.Seq) {
	id := orderID{dest, key}
	c := x.orders.change(id)
	if _, inRows := c.removed[seq]; inRows {
		delete(c.removed, seq)
	} else if at, ok := slices.BinarySearch(c.added, seq); !ok {
		c.added = slices.Insert(c.added, at, seq)
	}
	if h, ok := x.orders.heads[id]; ok && seq < h.first {
		x.orders.heads[id] = head{seq, true} // nothing was before first
	}
}

// RemoveOrder says that it gave its place up.
func (x *Index) RemoveOrder(dest uint32, key uint64, seq event.Seq) {
	id := orderID{dest, key}
	c := x.orders.change(id)
	switch at, ok := slices.BinarySearch(c.added, seq); {
	case ok && at == 0:
		c.added = c.added[1:]
	case ok:
		c.added = slices.Delete(c.added, at, at+1)
	default:
		if c.removed == nil {
			c.removed = map[event.Seq]struct{}{}
		}
		c.removed[seq] = struct{}{}
	}
	if h, ok := x.orders.heads[id]; ok && h.first == seq {
		x.orders.heads[id] = head{seq, false}
	}
}

// FirstInOrder gives the first delivery that has a place under a key. It belongs to the writer.
func (x *Index) FirstInOrder(dest uint32, key uint64) (first event.Seq, ok bool, err error) {
	id := orderID{dest, key}
	h := x.orders.heads[id]
	if h.exact {
		return h.first, h.first != maxSeq, nil
	}
	first = maxSeq
	c := x.orders.changed[id]
	if c != nil && len(c.added) > 0 {
		first = c.added[0]
	}
	it, err := x.iter(orderKey(dest, key, h.first), orderKey(dest, key, first))
	if err != nil {
		return 0, false, err
	}
	for more := it.First(); more; more = it.Next() {
		seq := seqAt(it.Key())
		if c != nil {
			if _, gone := c.removed[seq]; gone {
				continue
			}
		}
		first = seq
		break
	}
	x.orders.setHead(id, head{first, true})
	return first, first != maxSeq, closeIter(it)
}

// putOrders writes what changed about the q rows.
func (x *Index) putOrders(p *put) {
	for id, c := range x.orders.changed {
		for _, seq := range c.added {
			p.set(orderKey(id.dest, id.key, seq), nil)
		}
		for seq := range c.removed {
			p.delete(orderKey(id.dest, id.key, seq))
		}
	}
}
