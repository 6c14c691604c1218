package index

import (
	"encoding/binary"
	"errors"
	"slices"
	"sort"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"sluice/go/internal/event"
)

// Query narrows a listing down as far as rows can. The reader filters the rest.
type Query struct {
	Source, Destination uint32      // 0: all
	Type                uint32      // see FindType; 0: all
	SenderID            uint64      // see HashSenderID; 0: all
	State               event.State // 0: all but duplicates
	Since, Until        int64       // received times, Until exclusive; 0: all
	After               event.Seq   // exclusive; 0: from the oldest
	Before              event.Seq   // exclusive; 0: from the newest
	Oldest              bool        // the oldest first, not the newest
}

// Events calls yield with the events that match, but for those of the same sender's id hash and of
// TypeOther, which are the reader's to tell apart: newest first unless the query says otherwise,
// until it returns false.
func (x *Index) Events(q Query, yield func(*Record) bool) error {
	if q.Before == 0 {
		q.Before = maxSeq
	}
	if q.Oldest && q.Since > 0 {
		after, err := x.reaching(q.Since, q.Before)
		if err != nil {
			return err
		}
		q.After = max(q.After, after)
	}
	filtered := func(r *Record) bool {
		if !q.Oldest && r.Horizon < q.Since {
			return false // nothing older was received later
		}
		return !q.matches(r) || yield(r)
	}
	if q.SenderID != 0 {
		return x.bySenderID(&q, filtered)
	}
	parts, err := x.stretches(&q)
	if err != nil {
		return err
	}
	for _, part := range parts {
		more, err := x.walk(&q, part, filtered)
		if !more || err != nil {
			return err
		}
	}
	return nil
}

func (q *Query) matches(r *Record) bool {
	state := r.State()
	return (state == q.State || q.State == 0 && state != event.Duplicate) &&
		(q.Source == 0 || q.Source == r.Source) && (q.Type == 0 || q.Type == r.Type) &&
		(q.Destination == 0 || r.Delivery(q.Destination) != nil) &&
		r.Received >= q.Since && (q.Until == 0 || r.Received < q.Until)
}

// reaching gives a place that all events with a horizon of at least ns lie behind, but for those
// from end on. From the next group on, all have one.
func (x *Index) reaching(ns int64, end event.Seq) (event.Seq, error) {
	var err error
	group := sort.Search(int(end.Group())+1, func(group int) (found bool) {
		found = true // no event follows
		_, fault := x.records(event.NewSeq(uint64(group), 0), maxSeq, false,
			func(r *Record) bool {
				found = r.Horizon >= ns
				return false
			})
		err = errors.Join(err, fault)
		return found
	})
	// The events of the group before may reach it, all but the first.
	return event.NewSeq(uint64(max(group-1, 0)), 0), err
}

// stretch is the places [from, end).
type stretch struct{ from, end event.Seq }

// stretches are where events of a query may lie, in its order. What came behind the end of its time
// lies in chunks that have an o row, or was received until lateNS later.
func (x *Index) stretches(q *Query) (list []stretch, err error) {
	all := stretch{q.After + 1, q.Before}
	if q.Until == 0 {
		return []stretch{all}, nil
	}
	end, err := x.reaching(q.Until+lateNS, q.Before)
	if err != nil {
		return nil, err
	}
	end = max(min(event.NewSeq(end.Group()+1, 0), q.Before), all.from)
	list = []stretch{{all.from, end}}
	it, err := x.iter(lateKey(chunkOf(end), 0), lateKey(chunkOf(q.Before)+1, 0))
	if err != nil {
		return nil, err
	}
	for ok := it.First(); ok; ok = it.Next() {
		x.read.Add(1)
		key := it.Key()
		chunk, minute := binary.BigEndian.Uint64(key[1:]), binary.BigEndian.Uint64(key[9:])
		late := stretch{max(chunkStart(chunk), end), min(chunkStart(chunk+1), q.Before)}
		if int64(minute)*int64(time.Minute) < q.Until && late != list[len(list)-1] {
			list = append(list, late)
		}
	}
	if !q.Oldest {
		slices.Reverse(list)
	}
	return list, closeIter(it)
}

// direction is how an iterator goes through its rows.
func direction(it *pebble.Iterator, backwards bool) (begin, step func() bool) {
	if backwards {
		return it.Last, it.Prev
	}
	return it.First, it.Next
}

// Forwards calls yield with the events of (after, last], oldest first, duplicates included.
func (x *Index) Forwards(after, last event.Seq, yield func(*Record) bool) error {
	_, err := x.records(after+1, last+1, false, yield)
	return err
}

// Dead calls yield with the dead letters that match, of events that match: those of the newest
// event first, and of one event the highest destination's. dest goes with q.Before: it begins
// behind the dead letter of that event there. State and times are not looked at: they are the
// event's.
func (x *Index) Dead(q Query, dest uint32, yield func(*Record, *Delivery) bool) error {
	q.State, q.Since, q.Until = event.DeadLetter, 0, 0
	if q.Before == 0 {
		q.Before = maxSeq
	} else if !q.Oldest {
		q.Before++ // its own lower destinations follow
	}
	_, err := x.walkDead(&q, func(r *Record, d *Delivery) bool {
		if !q.Oldest && r.Seq+1 == q.Before && d.Destination >= dest ||
			q.Destination != 0 && q.Destination != d.Destination ||
			q.Source != 0 && q.Source != r.Source || q.Type != 0 && q.Type != r.Type {
			return true
		}
		return yield(r, d)
	})
	return err
}

// FirstFresh gives the first event from seq on that is due at dest since it came; nil: none.
func (x *Index) FirstFresh(dest uint32, from event.Seq) (*Record, error) {
	seqs, _, err := x.Fresh(dest, from, 1)
	if err != nil || len(seqs) == 0 {
		return nil, err
	}
	return x.Get(seqs[0])
}

// Oldest gives the first event that is kept; nil: none.
func (x *Index) Oldest() (first *Record, err error) {
	err = x.Forwards(0, maxSeq-1, func(r *Record) bool { first = r; return false })
	return first, err
}
