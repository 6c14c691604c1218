// Package index keeps what changes about events in Pebble: states, due times, dedup keys and the
// ways to find an event.
//
// It is a view of the journal and no truth: it runs without a log of its own, so a crash leaves it
// at an exact prefix of what was written, and the number of the last group in it comes back with
// it (Applied). It decides nothing: which state follows which is the caller's. It is not safe for
// several writers; readers may run beside one writer.
//
// # Rows
//
// Keys are one letter, then big-endian numbers, so that they sort like the numbers.
//
//	e seq                       Record: an event and the state of its deliveries
//	u seq                       the event must be kept: a delivery lives, or blocks others
//	v seq                       the event is dead, and blocks nothing
//	y seq                       the event is a duplicate
//	x seq dest                  dead letter
//	f dest seq                  delivery that is due since it came
//	d dest due seq              delivery that is due at a time
//	q dest key seq              delivery that lives, or blocks, under an ordering key
//	a seq n                     outcome n of an event that was not delivered at once
//	k day part source key       dedup key of a window that ends on that day
//	t tick chunk                an event received in that tick lies in that chunk
//	l source chunk              an event of that source lies in that chunk
//	g dest chunk                an event that goes there lies in that chunk
//	w type chunk                an event of that type lies in that chunk
//	o chunk minute              an event of that chunk came late, received in that minute
//	p part bucket seq           hashes of senders' ids, from that event on
//	n type                      name of a type
//	r seq seq                   the second event repeats the first, whose group is not dropped yet
//	m                           Meta
//
// A chunk is 16 groups in a row: t, l, g and w cost one row for many events, and the reader looks
// through the events of the chunk; where several of them lead to what is asked for, through the
// chunks alone that all lead to (see walk.go). An event that was delivered before it was first
// written costs its e row (and k and p, where it has a key and an id). Those that ended when they
// came share e rows, see packed.go.
//
// # What is written once
//
// Nearly all rows come once, and their kinds in the order of time: e rows by their seqs, k rows
// into parts of a bounded number of keys. Tables of the engine hold rows of one kind and one part
// alone (regionOf), so that new ones lie behind all older ones, and what was written is not sorted
// and written again with each table that follows.
//
// # Dedup
//
// A key that is looked up is new, nearly always. Filters in memory, bounded by their budget, say
// so; where they cannot, and until LoadFilters knows the keys of before Open, the rows are asked.
// They decide alone, so that a replay decides the same. A filter that is full is kept in a file
// (see KeptFilter), so that a start reads three bytes a key in place of its row. Such a file is
// never needed: what is missing or damaged is made of the rows again.
package index
