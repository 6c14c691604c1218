package journal

import "sort"

// cache holds the most recent groups so that delivery reads fresh frames from memory. Its groups
// are in the order they were written, which is the order of (segment, offset).
type cache struct {
	groups []cached // from the oldest
	bytes  int64
	max    int64
}

type cached struct {
	segment    uint64
	begin, end int64
	buf        *Buf
}

// add takes a hold of its own on the buffer.
func (c *cache) add(segment uint64, begin, length int64, buf *Buf) {
	size := int64(len(buf.data))
	if size > c.max {
		return
	}
	buf.Retain()
	c.groups = append(c.groups, cached{segment, begin, begin + length, buf})
	c.bytes += size
	drop := 0
	for ; c.bytes > c.max; drop++ {
		c.bytes -= int64(len(c.groups[drop].buf.data))
		c.groups[drop].buf.Release()
		c.groups[drop].buf = nil
	}
	c.groups = c.groups[drop:]
}

// find gives the bytes of a frame with a hold on their buffer, or nil.
func (c *cache) find(loc Loc) ([]byte, *Buf) {
	i := sort.Search(len(c.groups), func(i int) bool {
		g := &c.groups[i]
		return g.segment > loc.Segment || (g.segment == loc.Segment && g.end > loc.Offset)
	})
	if i == len(c.groups) || c.groups[i].segment != loc.Segment {
		return nil, nil
	}
	g := &c.groups[i]
	if loc.Offset < g.begin || loc.Offset+int64(loc.Length) > g.end {
		return nil, nil
	}
	g.buf.Retain()
	at := loc.Offset - g.begin
	return g.buf.data[at : at+int64(loc.Length) : at+int64(loc.Length)], g.buf
}

func (c *cache) clear() {
	for _, g := range c.groups {
		g.buf.Release()
	}
	c.groups, c.bytes = nil, 0
}
