package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/store/index"
	"sluice/go/internal/store/journal"
	"sluice/shm-abi/shmabi"
)

// What a segment that goes has decided must be known to a start without an index, which has nothing
// but the segments that are left. Before a segment is dropped, there are written to the end of the
// journal, under the names they have (see recall.go):
//
//   - events that somebody still needs, with what became of them: rescue;
//   - dedup keys whose windows are open: carry;
//   - which events of later segments repeat one that goes: carry;
//   - the latest received time, where the events behind do not tell it: carry.

// carryShare is the part of the journal's space that open dedup keys may take: with each turn of the
// journal they are written again, and each segment that goes is read for them. Where they are more
// they are left behind, see Stats.KeysLeft: a start without an index then takes a repeat of what
// is gone for new.
const carryShare = 16

// keysFit tells whether the keys whose windows are open are few enough to be carried forward, and
// says so when that changes. s.mu is held.
func (s *Store) keysFit() bool {
	keys, total := s.index.DedupKeys(), s.journalSpace().Total
	fit := keys <= uint64(total/s.opt.carryShare/journal.CarriedKeyBytes)
	if s.keysLeft.Swap(!fit) != fit {
		return fit
	}
	if fit {
		s.opt.Log.Info("dedup keys are few enough again to be carried forward", "keys", keys)
	} else {
		s.opt.Log.Warn("the open dedup windows hold more keys than are carried forward when "+
			"segments go: should the index be lost as well, what repeats a dropped event is "+
			"delivered again",
			"keys", keys, "journal_bytes", total,
			"mend", "shorten dedup, or give the journal more space")
	}
	return fit
}

// carryWait is how long a trim waits until what it carries forward is durable, where space is
// short. Beyond it, room for new events counts more than that a repeat is known as one after the
// index was lost, too.
const carryWait = 5 * time.Second

// carry makes durable what must be known of the events of a segment. false: it could not, and the
// segment must stay.
func (s *Store) carry(ctx context.Context, segment journal.SegmentInfo, short bool) (bool, error) {
	w := carrier{s: s, at: journal.Carried{Last: segment.LastGroup}}
	if err := w.gather(segment); err != nil {
		return false, s.readFault(err)
	}
	if len(w.list) == 0 {
		return true, nil
	}
	err := ErrNotSettled
	if s.settled.Load() {
		limit := ctx
		if short {
			var cancel context.CancelFunc
			limit, cancel = context.WithTimeout(ctx, carryWait)
			defer cancel()
		}
		err = s.submit(limit, func(t *ticket) { s.outbox.addCarried(w.list, t) })
	}
	switch {
	case err == nil:
	case ctx.Err() != nil || s.Err() != nil:
		return false, fmt.Errorf("carry dedup keys of segment %d forward: %w", segment.Number, err)
	case !short:
		return false, nil
	default:
		s.opt.Log.Warn("dedup keys are not carried forward for want of space: should the index be "+
			"lost as well, what repeats their events is delivered again",
			"segment", segment.Number, "err", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index.ForgetRepeats(w.repeats)
	return true, nil
}

// carrier gathers what is carried forward for one segment.
type carrier struct {
	s       *Store
	list    []*journal.Carried
	at      journal.Carried // what every record of the list begins with
	repeats []index.Repeat
	keys    bool // are carried
	living  func(until int64) bool
}

func (c *carrier) gather(segment journal.SegmentInfo) error {
	x := c.s.index
	c.s.mu.Lock()
	err := c.s.commit()
	meta := *x.Meta()
	c.keys = c.s.keysFit()
	c.s.mu.Unlock()
	if segment.LastGroup <= meta.Trimmed || err != nil {
		return err // it was dropped before, and a crash came before that was on the disk
	}
	c.living = meta.DedupLives
	stretch, err := x.Stretch(segment.FirstGroup, segment.LastGroup)
	if err != nil {
		return err
	}
	c.at.Horizon = stretch.Horizon
	before, err := x.CarriedIn(segment.FirstGroup, segment.LastGroup)
	if err != nil {
		return err
	}
	repeats, err := x.RepeatsOf(stretch)
	if err != nil {
		return err
	}
	for _, r := range repeats {
		c.addRepeat(r)
	}
	if before || c.keys && meta.Window > 0 && c.living(stretch.Horizon+meta.Window) {
		if err := c.scan(segment, stretch); err != nil {
			return err
		}
	}
	implied, err := x.Implied(stretch)
	if len(c.list) == 0 && !implied {
		c.record()
	}
	return err
}

// record is the one that takes the next key or repeat.
func (c *carrier) record() *journal.Carried {
	if n := len(c.list); n > 0 {
		if last := c.list[n-1]; len(last.Keys)+len(last.Repeats) < journal.CarriedMax {
			return last
		}
	}
	next := c.at
	c.list = append(c.list, &next)
	return &next
}

func (c *carrier) addRepeat(r index.Repeat) {
	to := c.record()
	to.Repeats = append(to.Repeats, journal.CarriedRepeat{Seq: r.Seq, First: r.First})
	c.repeats = append(c.repeats, r)
}

func (c *carrier) addKey(k journal.CarriedKey) {
	if c.keys && c.living(k.Until) {
		to := c.record()
		to.Keys = append(to.Keys, k)
	}
}

var errScanned = errors.New("segment is read")

// scan reads the segment for the keys of its events, and for what it carries of older ones.
func (c *carrier) scan(segment journal.SegmentInfo, stretch *index.Stretch) error {
	err := c.s.journal.Replay(segment.FirstGroup, func(g *journal.Group) error {
		if g.Number > segment.LastGroup {
			return errScanned
		}
		for i := range g.Frames {
			f := &g.Frames[i]
			switch {
			case f.Damaged, f.Rescued: // the keys of rescued ones are carried
			case f.Kind == journal.KindCarried:
				if err := c.again(f); err != nil {
					return err
				}
			case f.Kind == journal.KindEvent && !stretch.Repeats(f.Seq):
				d, l := shmabi.Frame(f.Bytes).D(), shmabi.Frame(f.Bytes).C()
				until := int64(l.DedupUntilNS())
				if key := l.DedupKey(); key != [16]byte{} && until > int64(d.ReceivedNS()) {
					c.addKey(journal.CarriedKey{
						Source: d.SourceID(), Until: until, Key: key, First: event.ID(l.EventID()),
					})
				}
			}
		}
		return nil
	})
	if errors.Is(err, errScanned) {
		return nil
	}
	return err
}

// again carries forward what had been carried forward before. Repeats need not be: they lie before
// the record that tells of them, and went.
func (c *carrier) again(f *journal.Frame) error {
	old, err := f.Carried()
	if err != nil {
		c.s.opt.Log.Error("what was carried forward is unreadable", "err", err)
		return nil
	}
	c.at.Horizon = max(c.at.Horizon, old.Horizon)
	for _, k := range old.Keys {
		repeats, err := c.s.index.RepeatsOfID(k.First)
		if err != nil {
			return err
		}
		for _, r := range repeats {
			c.addRepeat(r)
		}
		c.addKey(k)
	}
	return nil
}
