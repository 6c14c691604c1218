package index

import (
	"time"

	"sluice/go/internal/event"
)

const (
	// waysRemembered bounds the memory of rows just written.
	waysRemembered = 1 << 13
	// Late is how long before the horizon an event may have been received without being late. Who
	// looks for what came until a time finds those by the horizon alone.
	Late   = time.Minute
	lateNS = int64(Late)
)

// way is a row that leads to the events of a chunk: from their source, destination or type, or from
// when they were received.
type way struct {
	row  byte
	from uint64
	to   uint64 // chunk
}

func (w *way) key() []byte {
	switch w.row {
	case rowTick:
		return tickKey(int64(w.from)*tickNS, w.to)
	case rowLate:
		return lateKey(w.to, w.from)
	}
	return wayKey(w.row, uint32(w.from), w.to)
}

// ways spares rows that were just written.
type ways struct {
	written map[way]struct{}
	last    struct { // the ways to the last event
		chunk, tick         uint64
		source, route, kind uint32
	}
}

func newWays() ways { return ways{written: map[way]struct{}{}} }

// waysTo appends the ways to an event.
func waysTo(list []way, r *Record) []way {
	chunk := chunkOf(r.Seq)
	list = append(list, way{rowSource, uint64(r.Source), chunk},
		way{rowTick, tickOf(idTime(r.ID)), chunk})
	if r.Type != 0 {
		list = append(list, way{rowType, uint64(r.Type), chunk})
	}
	if r.Horizon-r.Received > lateNS {
		list = append(list, way{rowLate, minuteOf(r.Received), chunk})
	}
	for i := range r.Deliveries {
		list = append(list, way{rowGoesTo, uint64(r.Deliveries[i].Destination), chunk})
	}
	return list
}

// addWays adds the rows that lead to a new event. Events of one route go to the same destinations.
func (x *Index) addWays(r *Record) {
	chunk, tick, last := chunkOf(r.Seq)+1, tickOf(idTime(r.ID)), &x.ways.last
	if chunk == last.chunk && tick == last.tick && r.Source == last.source &&
		r.Route == last.route && r.Type == last.kind && r.Horizon-r.Received <= lateNS {
		return
	}
	last.chunk, last.tick, last.source, last.route, last.kind = chunk, tick, r.Source, r.Route, r.Type
	from := len(x.newWays)
	x.newWays = waysTo(x.newWays, r)
	kept := x.newWays[:from]
	for _, w := range x.newWays[from:] {
		if x.isNew(w) {
			kept = append(kept, w)
		}
	}
	x.newWays = kept
}

// AddDestination notes that an event has a delivery more than it came with.
func (x *Index) AddDestination(seq event.Seq, dest uint32) {
	if w := (way{rowGoesTo, uint64(dest), chunkOf(seq)}); x.isNew(w) {
		x.newWays = append(x.newWays, w)
	}
}

func (x *Index) isNew(w way) bool {
	if _, written := x.written[w]; written {
		return false
	}
	if len(x.written) >= waysRemembered {
		clear(x.written)
	}
	x.written[w] = struct{}{}
	return true
}

// trimWays removes the rows that lead to chunks before end.
func (x *Index) trimWays(p *put, end uint64) {
	trim := func(row byte, from uint32) { p.deleteRange(wayKey(row, from, 0), wayKey(row, from, end)) }
	for source := range x.meta.Counts.Sources {
		trim(rowSource, source)
	}
	for dest := range x.meta.Counts.Destinations {
		trim(rowGoesTo, dest)
	}
	for number := range x.typeCount() {
		trim(rowType, uint32(number))
	}
	p.deleteRange(lateKey(0, 0), lateKey(end, 0))
	x.trimSenderIDs(p, chunkStart(end))
	clear(x.written)
}

func minuteOf(ns int64) uint64 { return uint64(max(ns, 0) / int64(time.Minute)) }

func idTime(id event.ID) int64 { return id.Time().UnixNano() }
