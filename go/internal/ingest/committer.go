package ingest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/faultpoint"
	"sluice/go/internal/lane"
	"sluice/go/internal/store"
)

const (
	groupBytes = store.BatchBytesMax // of frames, unless it is one frame
	idleAfter  = time.Second
	backoffMin = 50 * time.Millisecond
	backoffMax = 2 * time.Second
)

// share is what one feed contributes to a group.
type share struct {
	feed     *feed
	from, to uint64
	bytes    int // of frames; 0: there is nothing to store in the stretch
}

// group is what becomes durable together.
type group struct {
	batch  store.Batch
	shares []share
	bytes  int // of frames
}

// of gives a feed's part of the group, nil: there is none.
func (g *group) of(f *feed) *share {
	i := slices.IndexFunc(g.shares, func(s share) bool { return s.feed == f })
	if i < 0 {
		return nil
	}
	return &g.shares[i]
}

// add takes account of a stretch of a feed.
func (g *group) add(f *feed, from, to uint64, bytes int) {
	s := g.of(f)
	if s == nil {
		g.shares = append(g.shares, share{feed: f, from: from})
		s = &g.shares[len(g.shares)-1]
	}
	s.to, s.bytes = to, s.bytes+bytes
	g.bytes += bytes
}

// clear makes a group that is durable the next one but one.
func (g *group) clear() {
	clear(g.batch.Frames)
	clear(g.shares)
	g.batch.Frames, g.batch.Spans = g.batch.Frames[:0], g.batch.Spans[:0]
	g.shares, g.bytes = g.shares[:0], 0
}

// committer makes groups durable, one at a time: the next one is what arrived while the last sync
// ran. It is laid out meanwhile by those who judge it, so that it can be written at once. A group
// that failed is tried again as it is until it is durable; meanwhile `writable` is 0 and senders
// are told so.
type committer struct {
	service *Service
	wait    time.Duration // until the next frame leaves the station; 0: none is in it
	away    *group        // the one on its way, or empty
	writing atomic.Bool   // there is one on its way, and a processor to use meanwhile
	spare   bool          // there is more than one processor: see layAhead

	mu   sync.Mutex
	next *group // nil: the committer has ended
	turn int
	bad  map[*feed]bool // whose memory holds no frames any more
}

func newCommitter(s *Service) *committer {
	return &committer{
		service: s, next: new(group), away: new(group), bad: map[*feed]bool{},
		spare: runtime.NumCPU() > 1,
	}
}

func (c *committer) run(ctx context.Context) {
	idle := time.NewTimer(idleAfter)
	defer idle.Stop()
	leaves := time.NewTimer(idleAfter)
	defer leaves.Stop()
	marked := true
	defer c.end()
	for ctx.Err() == nil {
		g := c.gather(false)
		if g == nil {
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
				g = c.gather(true) // what came meanwhile goes along
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
		if !c.commit(ctx, g) {
			return
		}
		marked = false
		idle.Reset(idleAfter)
	}
}

// gather puts the next group together, from what is laid out and from what else all lanes have;
// nil: there is nothing to store. own asks for a group in any case. A stretch without a frame to
// store needs no write: everything before it is durable, since no group is in flight here.
func (c *committer) gather(own bool) *group {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writing.Store(false)
	g := c.next
	feeds := c.service.feedList()
	now := c.now()
	c.wait = 0
	c.turn++
	for i := range feeds {
		due := c.take(feeds[(i+c.turn)%len(feeds)], groupBytes-g.bytes, now)
		if due > 0 && (c.wait == 0 || due-now < c.wait) {
			c.wait = due - now
		}
	}
	g.shares = slices.DeleteFunc(g.shares, func(s share) bool {
		if s.bytes == 0 {
			s.feed.advance(s.to)
		}
		return s.bytes == 0
	})
	if g.bytes == 0 && !own {
		return nil
	}
	for _, s := range g.shares {
		g.batch.Spans = append(g.batch.Spans,
			event.Span{Lane: s.feed.lane.ID(), From: s.from, To: s.to})
	}
	c.next, c.away = c.away, g
	c.writing.Store(c.spare)
	return g
}

// layAhead lays into the next group what a feed has, while another group is written. On a single
// processor it does not: there the time of the write is the others', and the committer copies many
// frames in one go cheaper than the feeds do in turns. Who comes
// while somebody else does that does not wait: the committer takes what is left. Nor does a feed
// take the place of others.
func (c *committer) layAhead(f *feed) {
	if !c.writing.Load() || !c.mu.TryLock() {
		return
	}
	defer c.mu.Unlock()
	if c.next == nil {
		return
	}
	room := groupBytes / max(len(c.service.feedList()), 1)
	if s := c.next.of(f); s != nil {
		room -= s.bytes
	}
	c.take(f, min(room, groupBytes-c.next.bytes), c.now())
}

// now is by the station's clock, where there is a station.
func (c *committer) now() time.Duration {
	if c.service.station.Load() == nil {
		return math.MaxInt64
	}
	return c.service.clock()
}

// take lays frames of a feed, of at most room bytes, into the next group. due is when the next one
// leaves the station, or 0. c.mu is held.
func (c *committer) take(f *feed, room int, now time.Duration) (due time.Duration) {
	if c.bad[f] {
		return 0
	}
	b := &c.next.batch
	before := len(b.Frames)
	f.mu.Lock()
	from := f.gathered
	frames, to, used, due := f.queue.take(from, b.Frames, room, now)
	f.gathered = to
	f.mu.Unlock()
	if to == from {
		return due
	}
	b.Frames = frames
	// What else may fail is tried again by Append.
	if err := c.service.store.Lay(b); errors.Is(err, store.ErrBatch) {
		b.Frames = b.Frames[:before]
		c.giveUp(f, from, err)
		return 0
	}
	c.next.add(f, from, to, used)
	return due
}

// giveUp is for a lane whose frames are not any more what they were judged for. Nobody was told of
// those that wait for the sync, and nobody is; the next start looks at the lane anew.
func (c *committer) giveUp(f *feed, from uint64, err error) {
	c.bad[f] = true
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gathered = from
	f.retireLocked(fmt.Errorf("%w: %w", lane.ErrCorrupt, err))
}

// end gives back what was laid out and is not written: it stays in its lanes.
func (c *committer) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next.batch.Drop()
	c.away.batch.Drop()
	c.next = nil
}

// commit tries until the group is durable; false when the service ends before that.
func (c *committer) commit(ctx context.Context, g *group) bool {
	faultpoint.Pass(faultpoint.CommitGathered)
	s := c.service
	backoff := backoffMin
	for {
		began := time.Now()
		err := s.store.Append(g.batch)
		if err == nil {
			s.observe.Committed(time.Since(began), len(g.batch.Frames))
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
	for _, share := range g.shares {
		share.feed.advance(share.to)
	}
	g.clear()
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
