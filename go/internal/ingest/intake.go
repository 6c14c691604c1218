package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/faultpoint"
	"sluice/go/internal/lane"
	"sluice/shm-abi/shmabi"
)

const (
	// batchFrames bounds what is judged before `verified` moves, so that first replies do not wait
	// for a whole ring.
	batchFrames = 64
	// sleepMax is the belt of the doorbell; wake-ups that only it found are counted.
	sleepMax = time.Second
)

// feed is one lane at work. Its goroutine judges; the mutex lets the committer answer as well.
type feed struct {
	service *Service
	lane    *lane.Lane
	wake    *lane.Bell // the data plane rings it
	peer    *lane.Bell // wakes the data plane; nil for an orphan
	judge   judge
	log     *slog.Logger

	mu        sync.Mutex
	queue     queue
	gathered  uint64 // lane position up to which the committer took frames
	wantsRoom bool
	broken    error

	suspect  atomic.Bool // somebody says that the producer is dead; its lock tells
	orphaned atomic.Bool // it is: nobody reads replies any more
	done     chan struct{}
}

// restore takes up what an earlier life decided: replies for everything in [consume, verified), and
// the position up to which the journal reaches.
func (f *feed) restore(durable uint64) error {
	l := f.lane
	f.queue.durableTo = max(l.Consume(), durable)
	f.gathered = f.queue.durableTo
	if f.gathered > l.Verified() {
		return fmt.Errorf("%w: the journal reaches %d, verified is %d",
			lane.ErrCorrupt, f.gathered, l.Verified())
	}
	for at := l.Consume(); at < l.Verified(); {
		frame, err := l.Frame(at, l.Verified())
		if err != nil {
			return err
		}
		v := readVerdict(frame.C())
		if v.state == shmabi.StateAnswered {
			if again, err := f.judge.frame(l.ID(), frame); err == nil {
				v.response = again.response
			}
		}
		e := newEntry(frame, at, v)
		f.queue.push(e)
		if e.to <= f.gathered {
			f.queue.written = f.queue.end()
		}
		at = e.to
	}
	return nil
}

func newEntry(frame shmabi.Frame, at uint64, v verdict) entry {
	d := frame.D()
	return entry{
		from: at, to: at + uint64(len(frame)), frame: frame,
		token: d.Token(), seq: d.Seq(), verdict: v,
	}
}

// run judges until the lane has ended. A broken lane is retired and served to the end of what was
// verified.
func (f *feed) run(ctx context.Context) {
	defer close(f.done)
	f.ring(f.flush())
	f.ringAlways()
	for ctx.Err() == nil {
		judged, err := f.intake()
		if err != nil {
			f.retire(err)
		}
		if judged > 0 {
			f.service.nudge()
		}
		f.ring(f.flush())
		if judged > 0 {
			continue
		}
		if f.ended() {
			if err := f.end(ctx); err != nil {
				f.log.Warn("end of lane not recorded", "error", err)
			}
			return
		}
		f.sleep()
	}
}

// intake judges one batch and makes its verdicts final.
func (f *feed) intake() (int, error) {
	f.mu.Lock()
	broken := f.broken != nil
	f.mu.Unlock()
	if broken {
		return 0, nil
	}
	commit, err := f.lane.Commit()
	if err != nil {
		return 0, err
	}
	f.judge.use(f.service.table.Load())
	batch := f.service.batches.Get().(*[]entry)
	defer f.service.batches.Put(batch)
	*batch = (*batch)[:0]
	at := f.lane.Verified()
	for at < commit && len(*batch) < batchFrames && err == nil {
		var frame shmabi.Frame
		if frame, err = f.lane.Frame(at, commit); err != nil {
			break
		}
		var v verdict
		if v, err = f.judge.frame(f.lane.ID(), frame); err != nil {
			err = fmt.Errorf("%w: at %d: %w", lane.ErrCorrupt, at, err)
			break
		}
		v.write(frame.C())
		*batch = append(*batch, newEntry(frame, at, v))
		at += uint64(len(frame))
	}
	if len(*batch) == 0 {
		return 0, err
	}
	faultpoint.Pass(faultpoint.IntakeJudged)
	f.lane.PublishVerified(at)
	faultpoint.Pass(faultpoint.IntakeVerified)
	f.mu.Lock()
	for _, e := range *batch {
		f.queue.push(e)
	}
	f.mu.Unlock()
	return len(*batch), err
}

// flush writes the replies that may leave and gives room back. It tells whether the data plane is to
// be woken.
func (f *feed) flush() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.flushLocked()
}

func (f *feed) flushLocked() bool {
	published := false
	nobodyReads := f.orphaned.Load()
	if !nobodyReads {
		var err error
		published, f.wantsRoom, err = f.queue.reply(f.lane)
		if err != nil && f.broken == nil {
			f.broken = err
			f.lane.Retire()
			f.log.Error("lane retired", "error", err)
		}
		if published {
			faultpoint.Pass(faultpoint.ReplyWritten)
			f.lane.PublishReplies()
			faultpoint.Pass(faultpoint.ReplyPublished)
		}
	}
	before := f.lane.Consume()
	released := f.queue.settle(nobodyReads || f.broken != nil, before)
	f.lane.Release(released)
	if released != before {
		faultpoint.Pass(faultpoint.ConsumeReleased)
	}
	return f.lane.RingDue(published, released != before)
}

// advance is the committer's: everything below to is durable now.
func (f *feed) advance(to uint64) {
	f.mu.Lock()
	if to > f.queue.durableTo {
		f.queue.durableTo = to
	}
	due := f.flushLocked()
	f.mu.Unlock()
	f.ring(due)
}

func (f *feed) ring(due bool) {
	if !due || f.peer == nil {
		return
	}
	if err := f.peer.Ring(); err != nil {
		f.log.Warn("doorbell of the data plane", "error", err)
	}
}

// ringAlways wakes both sides once whatever the tickets say: an earlier life may have died between a
// store and its doorbell.
func (f *feed) ringAlways() {
	f.ring(true)
	if err := f.wake.Ring(); err != nil {
		f.log.Warn("own doorbell", "error", err)
	}
}

func (f *feed) sleep() {
	f.mu.Lock()
	sleeping := f.lane.Sleep(f.lane.Verified(), f.wantsRoom)
	broken := f.broken != nil
	f.mu.Unlock()
	if !sleeping && !broken {
		return
	}
	rung, err := f.wake.Wait(sleepMax)
	if err != nil {
		f.log.Error("own doorbell", "error", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if sleeping {
		f.lane.Wake()
	}
	if !rung && err == nil && !broken {
		if commit, err := f.lane.Commit(); err == nil && commit > f.lane.Verified() {
			f.service.beltWakes.Add(1)
		}
	}
	if (!rung || f.suspect.Swap(false)) && f.lane.ProducerGone() {
		f.orphaned.Store(true)
	}
}

// retire gives the lane up: nothing new is read from it, what was verified is finished.
func (f *feed) retire(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken == nil {
		f.broken = err
		f.lane.Retire()
		f.log.Error("lane retired", "error", err)
		f.service.retired.Add(1)
	}
}

// ended tells whether nothing will come any more and nothing is left.
func (f *feed) ended() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.queue.len() > 0 {
		return false
	}
	if !f.lane.Closed() && !f.orphaned.Load() {
		return false
	}
	commit, err := f.lane.Commit()
	return f.broken != nil || (err == nil && commit == f.lane.Consume())
}

// end records the end and removes the file. A crash before the record drains an empty lane again; a
// crash behind it finds a file whose end is recorded, and removes that.
func (f *feed) end(ctx context.Context) error {
	f.service.leave(f)
	if f.broken != nil { // the committer no longer knows this feed, so nobody else writes it
		f.lane.Close()
		return f.service.aside(f.lane, f.broken)
	}
	if err := f.service.store.EndLane(ctx, f.lane.ID()); err != nil {
		return err
	}
	faultpoint.Pass(faultpoint.LaneEnded)
	err := f.lane.Unlink()
	f.lane.Close()
	f.service.laneEnded(f)
	return err
}

// Lane is a look at one lane.
type Lane struct {
	ID         event.LaneID
	Generation uint32
	Used       uint64
	Capacity   uint64
	Orphan     bool
}
