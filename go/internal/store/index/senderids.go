package index

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"sluice/go/internal/event"
)

// SenderIDPart is a stretch of the journal whose p rows lie together. Like those of k rows, parts
// are of a bounded size, so that what is written once is not sorted again with all that follows.
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

// The hashes of a part are spread over buckets. One row holds those of a bucket
// that were written together, so that an event costs the engine a fraction of a row; who looks for
// one reads the rows of one bucket. A row's key ends with the seq of its first event; its value is
// for each event
//
//	seq less the first's (uvarint) │ end of the hash, 6 bytes
const (
	senderIDBits     = 9 // of a bucket
	senderIDRest     = 6
	senderIDRestMask = 1<<(8*senderIDRest) - 1
)

func (id *senderID) bucket() uint16 { return bucketOfHash(id.hash) }

// bucketOfHash multiplies first, since ids that differ at their end alone have the same bits in
// front.
func bucketOfHash(hash uint64) uint16 {
	return uint16(hash * 0x9e3779b97f4a7c15 >> (64 - senderIDBits))
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
		return cmp.Or(cmp.Compare(a.part, b.part), cmp.Compare(a.bucket(), b.bucket()),
			cmp.Compare(a.seq, b.seq))
	})
	for from := 0; from < len(x.senderIDs); {
		first := &x.senderIDs[from]
		p.value = p.value[:0]
		for ; from < len(x.senderIDs); from++ {
			id := &x.senderIDs[from]
			if id.part != first.part || id.bucket() != first.bucket() {
				break
			}
			p.value = binary.AppendUvarint(p.value, uint64(id.seq-first.seq))
			var rest [8]byte
			binary.BigEndian.PutUint64(rest[:], id.hash)
			p.value = append(p.value, rest[8-senderIDRest:]...)
		}
		p.set(senderIDKey(first.part, first.bucket(), first.seq), p.value)
	}
}

// trimSenderIDs removes the parts that end before a place. The last one stays: it goes on.
func (x *Index) trimSenderIDs(p *put, end event.Seq) {
	parts := &x.meta.SenderIDs
	for len(*parts) > 1 && (*parts)[1].From < end {
		number := (*parts)[0].Number
		p.deleteRange(senderIDPartKey(number), senderIDPartKey(number+1))
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
	bucket := bucketOfHash(q.SenderID)
	it, err := x.iter(senderIDKey(part, bucket, 0), senderIDKey(part, bucket, q.Before))
	if err != nil {
		return false, err
	}
	var seqs []event.Seq
	for ok := it.First(); ok; ok = it.Next() {
		x.read.Add(1)
		if seqs, err = appendSenders(seqs, seqAt(it.Key()), it.Value(), q.SenderID); err != nil {
			return false, errors.Join(err, it.Close())
		}
	}
	if err := closeIter(it); err != nil {
		return false, err
	}
	slices.Sort(seqs)
	if !q.Oldest {
		slices.Reverse(seqs)
	}
	for _, seq := range seqs {
		if seq < from || seq >= q.Before {
			continue
		}
		r, err := x.Get(seq)
		if err != nil {
			return false, err
		}
		if r != nil && !yield(r) {
			return false, nil
		}
	}
	return true, nil
}

// appendSenders appends the events of a p row whose id has a hash.
func appendSenders(
	seqs []event.Seq, first event.Seq, row []byte, hash uint64,
) ([]event.Seq, error) {
	c := cursor{b: row}
	for len(c.b) > 0 {
		seq := first + event.Seq(c.uvarint())
		rest := c.bytes(senderIDRest)
		if c.bad {
			return nil, fmt.Errorf("%w: row of senders' ids at event %d: %w", ErrDamaged, first, errShort)
		}
		var b [8]byte
		copy(b[8-senderIDRest:], rest)
		if binary.BigEndian.Uint64(b[:]) == hash&senderIDRestMask {
			seqs = append(seqs, seq)
		}
	}
	return seqs, nil
}
