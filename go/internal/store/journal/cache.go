package journal

import (
	"slices"
	"sort"
)

// cache holds the most recent groups so that delivery reads fresh frames from memory. Its groups
// are in the order they were written, which is the order of (segment, offset).
type cache struct {
	groups    []cached // from the oldest
	bytes     int64
	max       int64
	forgotten int // of groups
}

type cached struct {
	segment    uint64
	begin, end int64
	buf        *Buf // nil: forgotten
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
	for i := 0; c.bytes > c.max; i++ {
		c.release(&c.groups[i])
	}
	c.tidy()
}

// release lets a group's memory go and leaves its place empty.
func (c *cache) release(g *cached) {
	if g.buf == nil {
		return
	}
	c.bytes -= int64(len(g.buf.data))
	g.buf.Release()
	g.buf = nil
	c.forgotten++
}

// tidy takes empty places out: at the front, and all once they are most.
func (c *cache) tidy() {
	drop := 0
	for drop < len(c.groups) && c.groups[drop].buf == nil {
		drop++
	}
	c.groups, c.forgotten = c.groups[drop:], c.forgotten-drop
	if c.forgotten > len(c.groups)/2 {
		c.groups = slices.DeleteFunc(c.groups, func(g cached) bool { return g.buf == nil })
		c.forgotten = 0
	}
}

// forget lets the group at a place go, if it is there.
func (c *cache) forget(segment uint64, begin int64) {
	if g := c.at(segment, begin); g != nil && g.begin == begin {
		c.release(g)
		c.tidy()
	}
}

// at gives the group that an offset lies in or, if none does, perhaps another of the segment.
func (c *cache) at(segment uint64, offset int64) *cached {
	i := sort.Search(len(c.groups), func(i int) bool {
		g := &c.groups[i]
		return g.segment > segment || (g.segment == segment && g.end > offset)
	})
	if i == len(c.groups) || c.groups[i].segment != segment {
		return nil
	}
	return &c.groups[i]
}

// find gives the bytes of a frame with a hold on their buffer, or nil.
func (c *cache) find(loc Loc) ([]byte, *Buf) {
	g := c.at(loc.Segment, loc.Offset)
	if g == nil || g.buf == nil || loc.Offset < g.begin ||
		loc.Offset+int64(loc.Length) > g.end {
		return nil, nil
	}
	g.buf.Retain()
	at := loc.Offset - g.begin
	return g.buf.data[at : at+int64(loc.Length) : at+int64(loc.Length)], g.buf
}

func (c *cache) clear() {
	for i := range c.groups {
		c.release(&c.groups[i])
	}
	c.groups, c.forgotten = nil, 0
}
