package journal

import (
	"errors"
	"fmt"

	"sluice/go/internal/event"
)

// lanesEnded are the lanes whose end the group in doubt records.
func (d *doubt) lanesEnded() []event.LaneID {
	var lanes []event.LaneID
	for _, f := range d.group.frames {
		if f.Kind() == KindLaneEnd && f.CheckCRC() == nil && len(f) >= frameHeader+lineSize {
			lanes = append(lanes, event.LaneID(f[frameHeader:frameHeader+16]))
		}
	}
	return lanes
}

// layOut puts the same group, number and time included, into a draft.
func (d *doubt) layOut(next *Draft) error {
	g := d.group
	next.number, next.time, next.idle = g.group, g.time, g.flags&flagIdle != 0
	next.spans, next.ended = g.spans, d.lanesEnded()
	for _, f := range g.frames {
		if f.Kind() == KindConfig && f.CheckCRC() == nil {
			next.config = configText(f)
		}
	}
	return next.addOwn(g.frames...)
}

// Settle writes the group in doubt again and waits until it is durable: it may be in the page
// cache alone, and a sync that succeeds now would prove nothing. It goes into a new file, whose
// table ends the old segment before it. Append and Idle refuse before this succeeded once; then it
// does nothing. After an error, ErrUnwritable, it may be called again, with backoff.
func (j *Journal) Settle() error {
	j.write.Lock()
	defer j.write.Unlock()
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return ErrClosed
	}
	doubtful := j.doubt
	j.mu.Unlock()
	if doubtful == nil {
		return nil
	}
	d := &j.own
	defer d.Drop()
	if err := doubtful.layOut(d); err != nil {
		return fmt.Errorf("group %d in doubt: %w: %w", d.number, ErrUnwritable, err)
	}
	j.mu.Lock()
	next := j.nextGroup // above every witness
	j.mu.Unlock()
	g, err := j.begin(d)
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		j.writable = false
		return fmt.Errorf("group %d in doubt: %w: %w", d.number, ErrUnwritable, err)
	}
	g.Release()
	j.nextGroup = max(next, j.nextGroup)
	doubtful.buf.Release()
	j.doubt = nil
	return nil
}

// Reclaim begins a new segment now, with an idle mark, so that the files of dropped segments
// become usable. Call it when space is short and Space().Waiting is not 0.
func (j *Journal) Reclaim() error {
	j.write.Lock()
	defer j.write.Unlock()
	j.mu.Lock()
	err := j.usable()
	seg := j.current
	empty := j.durable == 0
	j.mu.Unlock()
	if err != nil || empty {
		return err
	}
	if seg != nil {
		j.leave(seg, false)
	}
	if err := j.writeIdleMark(); err != nil {
		return errors.Join(errors.New("reclaim dropped segments"), err)
	}
	return nil
}
