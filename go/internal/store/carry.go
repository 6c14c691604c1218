package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/go/internal/store/index"
	"sluice/go/internal/store/journal"
)

// What a segment that goes has decided must be known to a start without an index, which has nothing
// but the segments that are left. Before a segment is dropped, there are written to the end of the
// journal, under the names they have (see recall.go):
//
//   - events that somebody still needs, with what became of them: rescue;
//   - dedup keys whose windows are open: keyDump;
//   - which events of later segments repeat one that goes: carry;
//   - the latest received time, where the events behind do not tell it: carry.

// carryShare is the part of the journal's space that open dedup keys may take: they are written
// again with each turn of the journal. Where they are more they are left behind, see
// Stats.KeysLeft: a start without an index then takes a repeat of what is gone for new.
const carryShare = 64

// carryWait is how long a trim waits until one record is durable, where space is short. Beyond it,
// room for new events counts more than that a repeat is known as one after the index was lost, too.
const carryWait = 5 * time.Second

// carry makes durable what must be known of a segment. false: it could not, and the segment must
// stay.
func (s *Store) carry(ctx context.Context, segment journal.SegmentInfo, short bool) (bool, error) {
	s.mu.Lock()
	err := s.commit()
	trimmed, latest := s.index.Meta().Trimmed, s.index.Meta().Horizon
	s.mu.Unlock()
	if err != nil {
		return false, s.fail(err)
	}
	if segment.LastGroup <= trimmed { // a crash came before the drop was on the disk
		return true, nil
	}
	horizon, implied, err := s.index.Horizon(segment.LastGroup, latest)
	if err != nil {
		return false, s.readFault(err)
	}
	repeats, err := s.index.Repeats(segment.LastGroup)
	if err != nil {
		return false, s.readFault(err)
	}
	submit := func(list ...*journal.Carried) error {
		limit, cancel := ctx, func() {}
		if short {
			limit, cancel = context.WithTimeout(ctx, carryWait)
		}
		defer cancel()
		return s.submit(limit, func(t *ticket) { s.outbox.addCarried(list, t) })
	}
	told := horizon
	if implied {
		told = 0
	}
	if told > 0 || len(repeats) > 0 {
		err = submit(carriedRepeats(segment.LastGroup, told, repeats)...)
	}
	if err == nil {
		err = s.keys.carry(s, segment.LastGroup, horizon, submit)
	}
	switch {
	case err == nil:
	case ctx.Err() != nil || s.Err() != nil || errors.Is(err, index.ErrDamaged):
		return false, fmt.Errorf("carry what segment %d has decided forward: %w", segment.Number,
			s.readFault(err))
	case !short:
		return false, nil
	default:
		s.opt.Log.Warn("dedup keys are not carried forward for want of space: should the index be "+
			"lost as well, what repeats their events is delivered again",
			"segment", segment.Number, "err", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index.ForgetRepeats(repeats)
	return true, nil
}

// carriedRepeats makes one record at least, for the horizon.
func carriedRepeats(last uint64, horizon int64, repeats []index.Repeat) (list []*journal.Carried) {
	for i := 0; i == 0 || i < len(repeats); i += journal.CarriedMax {
		next := &journal.Carried{Last: last, Horizon: horizon}
		for _, r := range repeats[i:min(i+journal.CarriedMax, len(repeats))] {
			next.Repeats = append(next.Repeats, journal.CarriedRepeat{Seq: r.Seq, First: r.First})
		}
		list = append(list, next)
	}
	return list
}

// submitCarried makes records durable.
type submitCarried func(...*journal.Carried) error

// keyDump writes all open dedup keys to the end of the journal, a part with each segment that goes.
// One that is whole holds all keys of the groups up to where the index was when it began
// (index.Meta.Carried): the segments up to there may go, and take only older dumps with them.
type keyDump struct {
	began uint64 // where the index was; 0: none is under way
	next  []byte // the row to go on behind
}

// carry has the keys of the groups up to last carried forward, as far as they may still decide.
func (d *keyDump) carry(s *Store, last uint64, horizon int64, submit submitCarried) error {
	s.mu.Lock()
	meta, keys, committed := *s.index.Meta(), s.index.DedupKeys(), s.committed
	s.mu.Unlock()
	if !meta.DedupLives(horizon + meta.Window) {
		return nil
	}
	if !s.keysFit(keys) {
		*d = keyDump{}
		return nil
	}
	// So many with each segment that a dump is whole before the journal has turned once.
	part := int(keys) * 5 / 4 / max(len(s.journal.Segments()), 1)
	for more := part; more > 0 || meta.Carried < last; more -= s.opt.keyPart {
		if d.began < last && meta.Carried < last || d.began == 0 {
			*d = keyDump{began: committed}
		}
		whole, err := d.advance(s, meta.LivingDay(), submit)
		if err != nil {
			return err
		}
		if whole {
			meta.Carried = d.began
			s.mu.Lock()
			s.index.Meta().Carried = d.began
			s.mu.Unlock()
			*d = keyDump{}
			return nil
		}
	}
	return nil
}

// advance writes a part of the keys, and tells whether it was the last one.
func (d *keyDump) advance(s *Store, living uint32, submit submitCarried) (whole bool, err error) {
	list, next, err := s.index.DedupAfter(d.next, living, s.opt.keyPart)
	if err != nil {
		return false, err
	}
	c := new(journal.Carried)
	for i := range list {
		k := &list[i]
		c.Keys = append(c.Keys, journal.CarriedKey{
			Source: k.Source, Until: k.Until, Seq: k.Seq, Key: k.Key, First: k.First,
		})
	}
	if len(c.Keys) > 0 {
		if err := submit(c); err != nil {
			return false, err
		}
	}
	d.next = next
	return next == nil, nil
}

// keysFit tells whether open keys are few enough to be carried forward, and says so when that
// changes.
func (s *Store) keysFit(keys uint64) bool {
	total := s.journalSpace().Total
	fit := keys <= uint64(total/s.opt.carryShare/journal.CarriedKeyBytes)
	switch changed := s.keysLeft.Swap(!fit) == fit; {
	case changed && fit:
		s.opt.Log.Info("dedup keys are few enough again to be carried forward", "keys", keys)
	case changed:
		s.opt.Log.Warn("the open dedup windows hold more keys than are carried forward when "+
			"segments go: should the index be lost as well, what repeats a dropped event is "+
			"delivered again", "keys", keys, "journal_bytes", total,
			"mend", "shorten dedup, or give the journal more space")
	}
	return fit
}
