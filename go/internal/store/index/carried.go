package index

import (
	"encoding/binary"
	"errors"
	"fmt"

	"sluice/go/internal/event"
)

// Repeat is an event that repeats another.
type Repeat struct {
	Seq      event.Seq
	FirstSeq event.Seq
	First    event.ID
}

// repeats is what changed about r rows since the last Commit.
type repeats struct{ added, gone []Repeat }

const repeatKeyBytes = 1 + 8 + 8

func repeatKey(first, seq event.Seq) []byte {
	return binary.BigEndian.AppendUint64(seqKey(rowRepeat, first), uint64(seq))
}

// AddRepeat notes which event a new one repeats, for those who drop the first one's group.
func (x *Index) AddRepeat(r Repeat) { x.repeats.added = append(x.repeats.added, r) }

// ForgetRepeats takes back what AddRepeat noted.
func (x *Index) ForgetRepeats(list []Repeat) { x.repeats.gone = append(x.repeats.gone, list...) }

func (x *Index) putRepeats(p *put) {
	for i := range x.repeats.added {
		r := &x.repeats.added[i]
		p.set(repeatKey(r.FirstSeq, r.Seq), r.First[:])
	}
	for i := range x.repeats.gone {
		p.delete(repeatKey(x.repeats.gone[i].FirstSeq, x.repeats.gone[i].Seq))
	}
}

func (r *repeats) clear() { r.added, r.gone = r.added[:0], r.gone[:0] }

// Repeats gives the events that were noted to repeat one of the groups up to last.
func (x *Index) Repeats(last uint64) (list []Repeat, err error) {
	it, err := x.iter(repeatKey(0, 0), repeatKey(event.NewSeq(last+1, 0), 0))
	if err != nil {
		return nil, err
	}
	for ok := it.First(); ok; ok = it.Next() {
		key, value := it.Key(), it.Value()
		if len(key) != repeatKeyBytes || len(value) != len(event.ID{}) {
			err = fmt.Errorf("%w: repeat row %x of %d bytes", ErrDamaged, key, len(value))
			break
		}
		list = append(list, Repeat{
			FirstSeq: event.Seq(binary.BigEndian.Uint64(key[1:])), Seq: seqAt(key),
			First: event.ID(value),
		})
	}
	return list, errors.Join(err, closeIter(it))
}

// Horizon is the latest received time of the groups up to last, or more than that where implied
// tells that the first event behind came then or later: who reads on from there need not be told.
// latest is that of all groups that are committed.
func (x *Index) Horizon(last uint64, latest int64) (horizon int64, implied bool, err error) {
	horizon = latest
	_, err = x.records(event.NewSeq(last+1, 0), maxSeq, false, func(r *Record) bool {
		horizon, implied = r.Horizon, r.Received == r.Horizon
		return false
	})
	return horizon, implied || horizon == 0, err
}

// RestoreDedup opens a window that is known from elsewhere, in any order with others: of those of
// one key that end on the same day the one counts that ends last, as it was opened last.
func (x *Index) RestoreDedup(d Dedup) error {
	hash, day := hashKey(d.Source, &d.Key), dayOf(d.Until)
	b := x.bucketOf(day)
	if b.has(hash) {
		known, ok := x.windows.get(hash, day, d.Source, &d.Key)
		if !ok {
			var err error
			if known, ok, err = x.readDedup(b, hash, d.Source, &d.Key); err != nil {
				return err
			}
		}
		if ok && known.Until >= d.Until {
			return nil
		}
	}
	x.AddDedup(d)
	return nil
}

// DedupAfter gives up to count windows that may still decide, in the order of their rows, from
// behind the row of a key on; nil: from the first. What comes meanwhile may be left out. next is
// for the call that follows; nil: those were all.
func (x *Index) DedupAfter(after []byte, living uint32, count int) (list []Dedup, next []byte,
	err error) {
	from := dedupDayKey(living)
	if after != nil {
		from = append(after, 0)
	}
	it, err := x.iter(from, []byte{rowDedup + 1})
	if err != nil {
		return nil, nil, err
	}
	for ok := it.First(); ok; ok = it.Next() {
		key := it.Key()
		if len(list) == count {
			break
		}
		next = append(next[:0], key...)
		if len(key) != dedupKeyBytes {
			continue // nobody looks it up
		}
		d, ok := parseDedup(it.Value())
		if !ok {
			return nil, nil, errors.Join(fmt.Errorf("%w: dedup row %x", ErrDamaged, key), it.Close())
		}
		d.Source, d.Key = binary.BigEndian.Uint32(key[7:]), [16]byte(key[11:])
		list = append(list, d)
	}
	if !it.Valid() {
		next = nil
	}
	return list, next, closeIter(it)
}

// DedupKeys is how many keys the days hold that may still decide. It belongs to the writer.
func (x *Index) DedupKeys() (keys uint64) {
	for _, b := range x.buckets {
		if b.day >= x.meta.LivingDay() {
			keys += uint64(b.Part)*uint64(x.partKeys) + uint64(b.Keys)
		}
	}
	return keys
}

// DedupLives tells whether a window that ends at until may still decide.
func (m *Meta) DedupLives(until int64) bool { return dayOf(until) >= m.LivingDay() }
