package index

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"

	"sluice/go/internal/event"
)

// SenderIDPart is a stretch of the journal whose p rows lie together. Like those of k rows, parts
// are of a bounded size, so that what is written once is not sorted again with all that follows.
// Who looks for an id asks each part once.
type SenderIDPart struct {
	Number uint32    `json:"number"`
	From   event.Seq `json:"from"` // of its first row
	Keys   int       `json:"keys"`
}

type senderID struct {
	part uint32
	hash uint64
	seq  event.Seq
}

// HashSenderID spreads the id that a sender gave its event over 64 bits, never 0. Several ids may
// share one: who finds an event by it compares the ids.
func HashSenderID(id []byte) uint64 {
	h := uint64(14695981039346656037) // FNV-1a
	for _, b := range id {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return max(h^h>>32, 1)
}

// AddSenderID notes the hash of the id that a new event has from its sender.
func (x *Index) AddSenderID(seq event.Seq, hash uint64) {
	parts := &x.meta.SenderIDs
	if n := len(*parts); n == 0 || (*parts)[n-1].Keys >= x.partKeys {
		next := SenderIDPart{Number: 1, From: seq}
		if n > 0 {
			next.Number = (*parts)[n-1].Number + 1
		}
		*parts = append(*parts, next)
	}
	part := &(*parts)[len(*parts)-1]
	part.Keys++
	x.senderIDs = append(x.senderIDs, senderID{part.Number, hash, seq})
}

func (x *Index) putSenderIDs(p *put) {
	slices.SortFunc(x.senderIDs, func(a, b senderID) int {
		return cmp.Or(cmp.Compare(a.part, b.part), cmp.Compare(a.hash, b.hash),
			cmp.Compare(a.seq, b.seq))
	})
	for _, id := range x.senderIDs {
		key, _ := p.setDeferred(senderIDKeyBytes, 0)
		key[0] = rowSenderID
		binary.BigEndian.PutUint32(key[1:], id.part)
		binary.BigEndian.PutUint64(key[5:], id.hash)
		binary.BigEndian.PutUint64(key[13:], uint64(id.seq))
		p.finish()
	}
}

// trimSenderIDs removes the parts that end before a place. The last one stays: it goes on.
func (x *Index) trimSenderIDs(p *put, end event.Seq) {
	parts := &x.meta.SenderIDs
	for len(*parts) > 1 && (*parts)[1].From < end {
		number := (*parts)[0].Number
		p.deleteRange(senderIDKey(number, 0, 0), senderIDKey(number+1, 0, 0))
		*parts = (*parts)[1:]
	}
}

// bySenderID goes through the events of a hash.
func (x *Index) bySenderID(q *Query, yield func(*Record) bool) error {
	meta, err := x.readMeta()
	if err != nil {
		return err
	}
	// What retention kept of what it trimmed has no rows: it is looked through.
	kept := min(event.NewSeq(meta.Trimmed+1, 0), q.Before)
	old := func() (more bool, err error) {
		if q.After+1 >= kept {
			return true, nil
		}
		return x.records(q.After+1, kept, !q.Oldest, yield)
	}
	if q.Oldest {
		if more, err := old(); !more || err != nil {
			return err
		}
	}
	parts := meta.SenderIDs
	if !q.Oldest {
		slices.Reverse(parts)
	}
	for _, part := range parts {
		more, err := x.bySenderIDIn(part.Number, q, max(q.After+1, kept), yield)
		if !more || err != nil {
			return err
		}
	}
	if !q.Oldest {
		_, err = old()
	}
	return err
}

func (x *Index) bySenderIDIn(part uint32, q *Query, from event.Seq,
	yield func(*Record) bool) (more bool, err error) {
	it, err := x.iter(senderIDKey(part, q.SenderID, from), senderIDKey(part, q.SenderID, q.Before))
	if err != nil {
		return false, err
	}
	begin, step := direction(it, !q.Oldest)
	for ok := begin(); ok; ok = step() {
		x.read.Add(1)
		r, err := x.Get(seqAt(it.Key()))
		if err != nil {
			return false, errors.Join(err, it.Close())
		}
		if r != nil && !yield(r) {
			return false, closeIter(it)
		}
	}
	return true, closeIter(it)
}
