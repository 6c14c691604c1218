package index

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"sync/atomic"

	"sluice/go/internal/store/filter"
)

// FilterBytes is what the filters before the dedup rows may take, of all days together, where the
// options say nothing. It is enough for 70 million keys; beyond that more lookups ask rows.
const FilterBytes = 256 << 20

// bucket is the dedup rows of a day, with filters before them: most keys are new, and that is known
// without a read. A filter's "maybe" asks the rows, so that it decides nothing.
type bucket struct {
	day uint32
	*DedupDay
	// added holds the keys that came since Open; its last chunk those from began on.
	added *filter.Filter
	began Place
	// opened is the place up to which rows were there at Open, kept what filters there were.
	opened Place
	kept   []KeptFilter
	// found holds those that were in the rows at Open; nil while they are not all in: then every
	// lookup asks the rows. Nobody changes it any more.
	found atomic.Pointer[filter.Filter]
	gone  atomic.Bool // the day is past
}

func (b *bucket) has(hash uint64) bool {
	found := b.found.Load()
	return found == nil || b.added.Has(hash) || found.Has(hash)
}

// parts gives the parts whose rows may hold a key that has tells of, the newest first.
func (b *bucket) parts(hash uint64) iter.Seq[uint16] {
	return func(yield func(uint16) bool) {
		var stretches [][2]uint16
		if found := b.found.Load(); found == nil {
			stretches = append(stretches, [2]uint16{0, b.Part})
		} else {
			for _, f := range []*filter.Filter{b.added, found} {
				for first, last := range f.Stretches(hash) {
					stretches = append(stretches, [2]uint16{first, last})
				}
			}
		}
		for part := int(b.Part); part >= 0; part-- {
			in := func(s [2]uint16) bool { return int(s[0]) <= part && part <= int(s[1]) }
			if slices.ContainsFunc(stretches, in) && !yield(uint16(part)) {
				return
			}
		}
	}
}

// release gives the filters' memory back.
func (b *bucket) release() {
	b.gone.Store(true)
	b.added.Release()
	b.releaseFound()
}

// releaseFound may meet itself: whoever takes the filter out releases it.
func (b *bucket) releaseFound() {
	if found := b.found.Swap(nil); found != nil {
		found.Release()
	}
}

// hashKey spreads a dedup key and its source over 64 bits.
func hashKey(source uint32, key *[16]byte) uint64 {
	low, high := binary.LittleEndian.Uint64(key[:]), binary.LittleEndian.Uint64(key[8:])
	h := (low ^ uint64(source)*0x9fb21c651e98df25) * 0x9e3779b97f4a7c15
	h = (h ^ h>>32 ^ high) * 0xd1342543de82ef95
	h = (h ^ h>>32) * 0xbf58476d1ce4e5b9
	return h ^ h>>32
}

// partKeysMax is how many keys a part takes. Rows of a part that is full are never overlapped
// again, so that the engine does not sort the whole day's keys anew with each thousand that come.
const partKeysMax = 1 << 21

// place is where the next key comes.
func (b *bucket) place() Place { return Place{b.Part, b.Keys} }

// addKey counts a key that comes and gives the part that its row belongs to.
func (x *Index) addKey(b *bucket, hash uint64) (part uint16) {
	if b.Keys >= x.partKeys && b.Part < math.MaxUint16 {
		b.Part, b.Keys = b.Part+1, 0
	}
	if b.added.Add(hash, b.Part) {
		x.keepFilled(b, b.place())
	}
	b.Keys++
	return b.Part
}

// bucketOf gives the bucket of a day, a new one if there is none: it has no rows, so its filters
// are complete.
func (x *Index) bucketOf(day uint32) *bucket {
	i, ok := slices.BinarySearchFunc(x.buckets, day, func(b *bucket, day uint32) int {
		return cmp.Compare(b.day, day)
	})
	if ok {
		return x.buckets[i]
	}
	b := &bucket{day: day, DedupDay: new(DedupDay), added: filter.New(x.budget)}
	b.found.Store(filter.New(x.budget))
	x.meta.Dedup[day] = b.DedupDay
	x.buckets = slices.Insert(x.buckets, i, b)
	return b
}

// openBuckets makes the buckets of the days that have rows.
func (x *Index) openBuckets() {
	for _, day := range slices.Sorted(maps.Keys(x.meta.Dedup)) {
		b := &bucket{day: day, DedupDay: x.meta.Dedup[day], added: filter.New(x.budget)}
		b.opened, b.kept = b.place(), slices.Clone(b.Kept)
		x.buckets, x.unread = append(x.buckets, b), append(x.unread, b)
	}
}

// loadCheck is how many rows pass between two looks at whether to go on.
const loadCheck = 4096

// LoadFilters brings the dedup keys that were there at Open into the filters: from files where they
// were kept, else from the rows. It may run beside the writer, once, and must have ended before
// Close. Until it comes to a day, lookups in that day read rows; the same where it fails.
func (x *Index) LoadFilters(ctx context.Context) error {
	unread := x.unread
	x.unread = nil
	for _, b := range unread {
		if err := x.loadFilter(ctx, b); err != nil {
			return fmt.Errorf("read dedup keys of day %d: %w", b.day, err)
		}
	}
	return nil
}

// filterLoad fills a day's filter. Keys that come meanwhile are in bucket.added before they are in
// rows.
type filterLoad struct {
	*Index
	bucket *bucket
	filter *filter.Filter
	at     Place // up to here all keys are in
	read   []readChunk
}

// readChunk is one that was filled from rows, with the keys between two places.
type readChunk struct {
	bytes    []byte
	from, to Place
}

func (x *Index) loadFilter(ctx context.Context, b *bucket) error {
	l := filterLoad{Index: x, bucket: b, filter: filter.New(x.budget)}
	if err := cmp.Or(l.load(ctx), ctx.Err()); err != nil {
		l.filter.Release()
		return err
	}
	b.found.Store(l.filter)
	for _, c := range l.read {
		x.keepChunk(b, c.bytes, c.from, c.to)
	}
	if b.gone.Load() {
		x.keeper.mu.Lock()
		defer x.keeper.mu.Unlock()
		b.releaseFound()
	}
	return nil
}

func (l *filterLoad) load(ctx context.Context) error {
	b := l.bucket
	slices.SortFunc(b.kept, func(a, b KeptFilter) int { return a.From.compare(b.From) })
	for i := range b.kept {
		kept := &b.kept[i]
		if kept.To.compare(l.at) > 0 {
			if err := l.rows(ctx, kept.From); err != nil {
				return err
			}
			err := l.keeper.read(l.filter, b.day, kept)
			if err == nil {
				l.at = kept.To
				continue
			}
			l.log.Warn("kept filter of dedup keys is of no use; their rows are read", "day", b.day,
				"file", kept.name(b.day), "err", err)
		} // else others have its keys
		l.keeper.tell(keptChange{day: b.day, kept: *kept, gone: true})
	}
	return l.rows(ctx, b.opened)
}

// loadParts is how many parts go into one chunk: a "maybe" of it is asked in each of them.
const loadParts = 8

// rows brings in the keys up to a place, and those of the same parts that lie around them.
func (l *filterLoad) rows(ctx context.Context, to Place) error {
	opened := l.bucket.opened
	for l.at.compare(to) < 0 {
		first := l.at.Part
		last := uint16(min(int(to.last()), int(first)+loadParts-1))
		keys, end := (int(last-first)+1)*l.partKeys, Place{Part: last + 1}
		if last == opened.Part {
			keys, end = keys-l.partKeys+opened.Keys, opened
		}
		if l.filter.Reserve(max(keys, 1), first, last) {
			if err := l.rowsOf(ctx, first, last); err != nil {
				return err
			}
			chunk := l.filter.Chunk(l.filter.Chunks() - 1)
			l.read = append(l.read, readChunk{chunk, Place{Part: first}, end})
		}
		l.at = end
	}
	return nil
}

func (l *filterLoad) rowsOf(ctx context.Context, first, last uint16) error {
	it, err := l.iter(dedupPartKey(l.bucket.day, first), dedupPartEnd(l.bucket.day, last))
	if err != nil {
		return err
	}
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		if n++; n%loadCheck == 0 && (ctx.Err() != nil || l.bucket.gone.Load()) {
			break
		}
		key := it.Key()
		if len(key) != dedupKeyBytes {
			continue // nobody looks it up
		}
		l.filter.Add(hashKey(binary.BigEndian.Uint32(key[7:]), (*[16]byte)(key[11:])),
			binary.BigEndian.Uint16(key[5:]))
	}
	return cmp.Or(closeIter(it), ctx.Err())
}
