package ingest

import (
	"context"
	"math"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/faultpoint"
	"sluice/go/internal/store"
)

const (
	groupBytes = store.BatchBytesMax // of frames, unless it is one frame
	idleAfter  = time.Second
	backoffMin = 50 * time.Millisecond
	backoffMax = 2 * time.Second
)

// share is what one feed contributed to a group.
type share struct {
	feed *feed
	to   uint64
}

// committer makes groups durable, one at a time: the next one is what arrived while the last sync
// ran. A group that failed is tried again as it is until it is durable; meanwhile `writable` is 0
// and senders are told so.
type committer struct {
	service *Service
	frames  [][]byte
	spans   []event.Span
	shares  []share
	turn    int
	wait    time.Duration // until the next frame leaves the station; 0: none is in it
}

func (c *committer) run(ctx context.Context) {
	idle := time.NewTimer(idleAfter)
	defer idle.Stop()
	leaves := time.NewTimer(idleAfter)
	defer leaves.Stop()
	marked := true
	for ctx.Err() == nil {
		c.gather()
		own := false
		if len(c.frames) == 0 {
			var left <-chan time.Time
			if c.wait > 0 {
				leaves.Reset(c.wait)
				left = leaves.C
			}
			select {
			case <-ctx.Done():
				return
			case <-c.service.work:
				continue
			case <-left:
				continue
			case <-c.service.store.Work():
				own = true
			case <-idle.C:
				if !marked {
					marked = true
					c.mark()
				}
				c.service.publishSpace()
				idle.Reset(idleAfter)
				continue
			}
		}
		if own {
			c.gather() // what came meanwhile goes along
		}
		if !c.commit(ctx) {
			return
		}
		marked = false
		idle.Reset(idleAfter)
	}
}

// gather collects the next group from all lanes. A stretch without a frame to store needs no write:
// everything before it is durable, since no group is in flight here.
func (c *committer) gather() {
	clear(c.frames)
	c.frames, c.spans, c.shares = c.frames[:0], c.spans[:0], c.shares[:0]
	feeds := c.service.feedList()
	room := groupBytes
	now := time.Duration(math.MaxInt64)
	if c.service.station.Load() != nil {
		now = c.service.clock()
	}
	c.wait = 0
	c.turn++
	for i := range feeds {
		f := feeds[(i+c.turn)%len(feeds)]
		f.mu.Lock()
		from, before := f.gathered, len(c.frames)
		frames, to, used, due := f.queue.take(from, c.frames, room, now)
		c.frames = frames
		f.gathered = to
		f.mu.Unlock()
		room -= used
		if due > 0 && (c.wait == 0 || due-now < c.wait) {
			c.wait = due - now
		}
		switch {
		case to == from:
		case len(c.frames) == before:
			f.advance(to)
		default:
			c.spans = append(c.spans, event.Span{Lane: f.lane.ID(), From: from, To: to})
			c.shares = append(c.shares, share{f, to})
		}
		if room <= 0 {
			break
		}
	}
}

// commit tries until the group is durable; false when the service ends before that.
func (c *committer) commit(ctx context.Context) bool {
	faultpoint.Pass(faultpoint.CommitGathered)
	s := c.service
	backoff := backoffMin
	for {
		began := time.Now()
		err := s.store.Append(store.Batch{Spans: c.spans, Frames: c.frames})
		if err == nil {
			s.observe.Committed(time.Since(began), len(c.frames))
			break
		}
		if s.control.Writable() != 0 {
			s.downNS.Store(s.boot())
			s.control.StoreWritable(0)
			s.log.Error("journal is not writable; senders get 503 until it is", "error", err)
		}
		s.publishSpace()
		select {
		case <-ctx.Done():
			return false
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, backoffMax)
	}
	faultpoint.Pass(faultpoint.CommitDurable)
	if s.control.Writable() == 0 {
		s.control.StoreWritable(1)
		s.downNS.Store(0)
		s.log.Info("journal is writable")
	}
	s.control.StoreDurableGroup(s.store.Durable())
	for _, share := range c.shares {
		share.feed.advance(share.to)
	}
	s.publishSpace()
	return true
}

// mark writes the idle mark: the witness that the last group was acknowledged.
func (c *committer) mark() {
	if err := c.service.store.Idle(); err != nil {
		c.service.log.Warn("idle mark", "error", err)
		return
	}
	c.service.control.StoreDurableGroup(c.service.store.Durable())
}
