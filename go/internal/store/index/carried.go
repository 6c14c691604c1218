package index

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"sluice/go/internal/event"
)

// Repeat is an event that repeats another.
type Repeat struct {
	Seq   event.Seq
	First event.ID
}

// carried is what changed since the last Commit about what must be carried forward when segments
// go.
type carried struct {
	newRepeats, goneRepeats []Repeat
	newCarried              []uint64
}

const repeatKeyBytes = 1 + 16 + 8

func repeatKey(first event.ID, seq event.Seq) []byte {
	k := append(append(make([]byte, 0, repeatKeyBytes), rowRepeat), first[:]...)
	return binary.BigEndian.AppendUint64(k, uint64(seq))
}

func carriedKey(group uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{rowCarried}, group)
}

// AddRepeat notes which event a new one repeats, for as long as the groups of the first are kept.
func (x *Index) AddRepeat(r Repeat) {
	x.carried.newRepeats = append(x.carried.newRepeats, r)
}

// ForgetRepeats takes back what AddRepeat noted.
func (x *Index) ForgetRepeats(list []Repeat) {
	x.carried.goneRepeats = append(x.carried.goneRepeats, list...)
}

// AddCarried notes that a group tells of groups that are gone.
func (x *Index) AddCarried(group uint64) {
	x.carried.newCarried = append(x.carried.newCarried, group)
}

func (x *Index) putCarried(p *put) {
	for i := range x.carried.newRepeats {
		p.set(repeatKey(x.carried.newRepeats[i].First, x.carried.newRepeats[i].Seq), nil)
	}
	for i := range x.carried.goneRepeats {
		p.delete(repeatKey(x.carried.goneRepeats[i].First, x.carried.goneRepeats[i].Seq))
	}
	for _, group := range x.carried.newCarried {
		p.set(carriedKey(group), nil)
	}
}

func (c *carried) clear() {
	c.newRepeats, c.goneRepeats = c.newRepeats[:0], c.goneRepeats[:0]
	c.newCarried = c.newCarried[:0]
}

// CarriedIn tells whether a group of [first, last] tells of groups that are gone.
func (x *Index) CarriedIn(first, last uint64) (some bool, err error) {
	it, err := x.iter(carriedKey(first), carriedKey(last+1))
	if err != nil {
		return false, err
	}
	some = it.First()
	return some, closeIter(it)
}

// Stretch is what all events of a row of groups have in common.
type Stretch struct {
	Horizon  int64 // latest received time up to its end; 0: there are no events
	from, to event.ID
	first    event.Seq
	last     event.Seq
	repeats  map[event.Seq]bool
}

// Repeats tells whether an event of the stretch repeats another.
func (s *Stretch) Repeats(seq event.Seq) bool { return s.repeats[seq] }

// Stretch reads the events of the groups [first, last]. They must be committed.
func (x *Index) Stretch(first, last uint64) (*Stretch, error) {
	s := &Stretch{
		first: event.NewSeq(first, 0), last: event.NewSeq(last+1, 0) - 1,
		repeats: map[event.Seq]bool{},
	}
	some := false
	_, err := x.records(s.first, s.last+1, false, func(r *Record) bool {
		s.Horizon = max(s.Horizon, r.Horizon)
		if !r.First.IsZero() {
			s.repeats[r.Seq] = true
		}
		if !some || bytes.Compare(r.ID[:], s.from[:]) < 0 {
			s.from, some = r.ID, true
		}
		if bytes.Compare(r.ID[:], s.to[:]) > 0 {
			s.to = r.ID
		}
		return true
	})
	return s, err
}

// Implied tells whether the first event behind the stretch came at its horizon or later, so that
// nobody needs to know the horizon who reads on from there.
func (x *Index) Implied(s *Stretch) (implied bool, err error) {
	_, err = x.records(s.last+1, maxSeq, false, func(r *Record) bool {
		implied = r.Received >= s.Horizon
		return false
	})
	return implied || s.Horizon == 0, err
}

// RepeatsOf gives the events that repeat one of the stretch. IDs sort by time, so that few others
// are looked at.
func (x *Index) RepeatsOf(s *Stretch) (list []Repeat, err error) {
	if s.Horizon == 0 {
		return nil, nil
	}
	all, err := x.repeats(repeatKey(s.from, 0), append(repeatKey(s.to, maxSeq), 0))
	if err != nil {
		return nil, err
	}
	for _, r := range all {
		first, err := x.Find(r.First)
		if err != nil {
			return nil, err
		}
		if first != nil && s.first <= first.Seq && first.Seq <= s.last {
			list = append(list, r)
		}
	}
	return list, nil
}

// RepeatsOfID gives the events that repeat the one with an ID.
func (x *Index) RepeatsOfID(first event.ID) ([]Repeat, error) {
	return x.repeats(repeatKey(first, 0), append(repeatKey(first, maxSeq), 0))
}

func (x *Index) repeats(from, to []byte) (list []Repeat, err error) {
	it, err := x.iter(from, to)
	if err != nil {
		return nil, err
	}
	for ok := it.First(); ok; ok = it.Next() {
		key := it.Key()
		if len(key) != repeatKeyBytes {
			return nil, errors.Join(fmt.Errorf("%w: repeat row %x", ErrDamaged, key), it.Close())
		}
		list = append(list, Repeat{First: event.ID(key[1:17]), Seq: seqAt(key)})
	}
	return list, closeIter(it)
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
			if known, ok, err = x.readDedup(b, d.Source, &d.Key); err != nil {
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

func (p *put) trimCarried(last uint64) { p.deleteRange(carriedKey(0), carriedKey(last+1)) }
