package store

import (
	"sluice/go/internal/event"
	"sluice/go/internal/store/journal"
	"sluice/shm-abi/shmabi"
)

// layout is a batch as far as its frames are copied into the group that it will be.
type layout struct {
	draft   *journal.Draft
	frames  int        // so many of the batch
	fresh   []freshKey // what the memory set wants of them
	waiting bool       // the sender of one waits for its delivery
}

// Lay copies those frames of a batch that were added to it since the last call. Append needs no
// call of Lay before it, but this one may run while another batch is appended: so the next group
// is laid out while the one before it is written. With an error nothing is copied: ErrBatch, a
// frame is none, or was changed by whom its memory belongs to. A batch that was laid out and will
// not be appended wants a Drop.
func (s *Store) Lay(b *Batch) error {
	if b.laid == nil {
		b.laid = &layout{draft: s.journal.NewDraft()}
	}
	return b.laid.lay(b.Frames)
}

// ErrBatch is wrapped when a frame is not one: the fault of whom its memory belongs to.
var ErrBatch = journal.ErrBatch

// Drop empties a batch that will not be appended.
func (b *Batch) Drop() {
	if b.laid != nil {
		b.laid.drop()
	}
	*b = Batch{Spans: b.Spans[:0], Frames: b.Frames[:0], laid: b.laid}
}

func (l *layout) lay(frames [][]byte) error {
	added := frames[l.frames:]
	if len(added) == 0 {
		return nil
	}
	if err := l.draft.Add(added); err != nil {
		return err
	}
	l.frames = len(frames)
	// While the processor's cache has their lines: after the write it has not.
	fresh, waiting := keysOf(l.fresh, added)
	l.fresh, l.waiting = fresh, l.waiting || waiting
	return nil
}

func (l *layout) drop() {
	l.draft.Drop()
	l.frames, l.fresh, l.waiting = 0, l.fresh[:0], false
}

// handOver gives what the memory set wants of frames that are durable, and takes a list to be
// filled the next time.
func (l *layout) handOver(spare []freshKey) (fresh []freshKey) {
	fresh = l.fresh
	l.frames, l.fresh, l.waiting = 0, spare[:0], false
	return fresh
}

// keysOf adds what the memory set wants of frames once they are durable, and tells whether the
// sender of one waits for its delivery.
func keysOf(list []freshKey, frames [][]byte) (keys []freshKey, waiting bool) {
	for _, f := range frames {
		c, d := shmabi.Frame(f).C(), shmabi.Frame(f).D()
		waiting = waiting || shmabi.Ack(c.Ack()) == shmabi.AckDelivered
		if key := c.DedupKey(); key != [16]byte{} {
			list = append(list, freshKey{
				recentKey{d.SourceID(), key},
				recentEvent{event.ID(c.EventID()), int64(c.DedupUntilNS())}, int64(d.ReceivedNS()),
			})
		}
	}
	return list, waiting
}
