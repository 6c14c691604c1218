package index

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"sync/atomic"

	"sluice/go/internal/store/filter"
)

// FilterBytesMax bounds the memory of the filters before the dedup rows, of all days together. It
// is enough for 100 million keys; beyond that more lookups ask rows.
const FilterBytesMax = 256 << 20

// bucket is the dedup rows of a day, with filters before them: most keys are new, and that is known
// without a read. A filter's "maybe" asks the rows, so that it decides nothing.
type bucket struct {
	day uint32
	*DedupDay
	// added holds the keys that came since Open.
	added *filter.Filter
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

// add counts a key that comes and gives the part that its row belongs to.
func (b *bucket) add(hash uint64, partKeys int) (part uint16) {
	if b.Keys >= partKeys && b.Part < math.MaxUint16 {
		b.Part, b.Keys = b.Part+1, 0
	}
	b.Keys++
	b.added.Add(hash, b.Part)
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
		x.buckets, x.unread = append(x.buckets, b), append(x.unread, b)
	}
}

// loadCheck is how many rows pass between two looks at whether to go on.
const loadCheck = 4096

// LoadFilters reads the dedup keys that were there at Open into the filters. It may run beside the
// writer, once, and must have ended before Close. Until it comes to a day, lookups in that day read
// rows; the same where it fails.
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

func (x *Index) loadFilter(ctx context.Context, b *bucket) error {
	// Keys that come from here on are in b.added before they are in rows.
	it, err := x.iter(dedupDayKey(b.day), dedupDayKey(b.day+1))
	if err != nil {
		return err
	}
	f := filter.New(x.budget)
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		if n++; n%loadCheck == 0 && (ctx.Err() != nil || b.gone.Load()) {
			break
		}
		key := it.Key()
		if len(key) != dedupKeyBytes {
			continue // nobody looks it up
		}
		f.Add(hashKey(binary.BigEndian.Uint32(key[7:]), (*[16]byte)(key[11:])),
			binary.BigEndian.Uint16(key[5:]))
	}
	err = errors.Join(closeIter(it), ctx.Err())
	if err != nil {
		f.Release()
		return err
	}
	b.found.Store(f)
	if b.gone.Load() {
		b.releaseFound()
	}
	return nil
}
