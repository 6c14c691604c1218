package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
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
	// sleepMax is the belt of the doorbell; work that only it found is counted.
	sleepMax = time.Second
)

// feed is one lane at work. Its goroutine judges; the mutex lets the committer answer as well.
type feed struct {
	service    *Service
	lane       *lane.Lane
	generation uint32
	bells      atomic.Pointer[Bells]
	judge      judge
	log        *slog.Logger

	mu        sync.Mutex
	queue     queue
	gathered  uint64 // lane position up to which the committer took frames
	wantsRoom bool
	unmapped  bool
	broken    error // why nothing new is read from the lane
	mute      bool  // its reply ring cannot be written any more

	suspect  atomic.Bool // somebody says that the producer is dead; its lock tells
	orphaned atomic.Bool // it is: nobody reads replies any more
	byBelt   bool        // the last sleep ended without the doorbell
	done     chan struct{}
}

// restore takes up what an earlier life decided: replies for everything in [consume, verified), and
// the position up to which the journal reaches. Where a frame is damaged since, the lane is retired
// and what lies before it is served.
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
			f.retire(err)
			return nil
		}
		v := readVerdict(frame.C())
		if v.state == shmabi.StateAnswered {
			if again, err := f.judge.frame(l.ID(), frame); err == nil {
				v.response = again.response
			}
		}
		e := newEntry(frame, at, v)
		if e.from < f.gathered && f.gathered < e.to {
			return fmt.Errorf("%w: the journal ends at %d, inside the frame at %d",
				lane.ErrCorrupt, f.gathered, at)
		}
		if e.wait = f.waitFor(&e); e.wait != nil && !f.service.begin(e.wait) {
			e.wait = nil
		}
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

// waitFor is the wait of a frame's sender, which has not begun; nil where the sender waits for no
// delivery, or for one that went to other destinations than the source has now.
func (f *feed) waitFor(e *entry) *wait {
	if !e.verdict.waitsForDelivery() || f.deaf() {
		return nil
	}
	d := e.frame.D()
	source := f.judge.table.Sources[d.SourceID()]
	if source == nil || source.Route != e.verdict.route || len(source.Destinations) == 0 {
		return nil
	}
	w := &wait{
		feed: f, id: e.verdict.id, token: e.token, seq: e.seq, position: e.from, until: d.UntilNS(),
		degraded: source.Degraded, open: slices.Clone(source.Destinations),
	}
	if source.Respond {
		w.passes = w.open[0]
	}
	return w
}

// run judges until the lane has ended. A broken lane is retired and served to the end of what was
// verified.
func (f *feed) run(ctx context.Context) {
	defer close(f.done)
	f.flush()
	f.ringAlways()
	for ctx.Err() == nil {
		judged := 0
		err := f.lane.Guard(func() (err error) {
			judged, err = f.intake()
			return err
		})
		if err != nil {
			f.retire(err)
		}
		if judged > 0 {
			f.service.nudge()
		}
		published, due := f.flush()
		f.ring(due)
		if f.byBelt && (judged > 0 || published) {
			f.service.beltWakes.Add(1)
		}
		if judged > 0 {
			f.service.committer.layAhead(f)
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
	at, err := f.judgeBatch(batch, commit)
	if len(*batch) == 0 {
		return 0, err
	}
	faultpoint.Pass(faultpoint.IntakeJudged)
	f.lane.PublishVerified(at)
	faultpoint.Pass(faultpoint.IntakeVerified)
	f.enterStation(*batch)
	f.service.await(*batch)
	f.mu.Lock()
	for _, e := range *batch {
		f.queue.push(e)
	}
	f.mu.Unlock()
	return len(*batch), err
}

// judgeBatch judges the next frames, and gives the position behind them. An error is about the
// frame there; those before it are judged.
func (f *feed) judgeBatch(batch *[]entry, commit uint64) (at uint64, err error) {
	var jobs []*job // of the batch's places; nil: judged here
	defer func() {
		for _, t := range jobs {
			if t != nil {
				t.done.Wait() // it looks at the lane
			}
		}
	}()
	for at = f.lane.Verified(); at < commit && len(*batch) < batchFrames; {
		frame, fault := f.lane.Frame(at, commit)
		if fault != nil {
			err = fault
			break
		}
		heavy := f.judge.isHeavy(frame)
		if heavy && len(*batch) > 0 && jobs == nil {
			break // what lies before it need not wait for it
		}
		e := entry{from: at, to: at + uint64(len(frame)), frame: frame}
		switch {
		case heavy:
			for len(jobs) < len(*batch) {
				jobs = append(jobs, nil)
			}
			t := &job{feed: f, frame: frame}
			t.done.Add(1)
			f.service.heavy.jobs <- t.run
			jobs = append(jobs, t)
		default: // while it is in the processor's cache
			e.verdict, fault = f.judge.frame(f.lane.ID(), frame)
		}
		if fault != nil {
			err = f.unbelievable(at, fault)
			break
		}
		*batch = append(*batch, e)
		at = e.to
	}
	for i, t := range jobs {
		if t == nil {
			continue
		}
		t.done.Wait()
		e := &(*batch)[i]
		if e.verdict = t.verdict; t.err != nil {
			at, err = e.from, f.unbelievable(e.from, t.err)
			*batch = (*batch)[:i]
			break
		}
	}
	f.settle(*batch)
	return at, err
}

func (f *feed) unbelievable(at uint64, fault error) error {
	return fmt.Errorf("%w: at %d: %w", lane.ErrCorrupt, at, fault)
}

// settle makes the verdicts of a batch final.
func (f *feed) settle(batch []entry) {
	for i := range batch {
		if e := &batch[i]; e.verdict.of != nil {
			f.service.store.Foresee(e.verdict.of.source.ID, e.verdict.dedup)
		}
	}
	for i := range batch {
		e := &batch[i]
		f.judge.settle(e.frame, &e.verdict)
		e.verdict.write(e.frame.C())
		d := e.frame.D()
		e.token, e.seq = d.Token(), d.Seq()
		e.wait = f.waitFor(e)
	}
}

// enterStation has the frames that are to be stored pass the station, where there is one.
func (f *feed) enterStation(batch []entry) {
	station := f.service.station.Load()
	if station == nil {
		return
	}
	now := f.service.clock()
	for i := range batch {
		if batch[i].stored() {
			batch[i].leaves = station.enter(now)
		}
	}
}

// flush writes the replies that may leave and gives room back. It tells whether there were any, and
// whether the data plane is to be woken.
func (f *feed) flush() (published, due bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.flushLocked()
}

func (f *feed) flushLocked() (published, due bool) {
	err := f.lane.Guard(func() (err error) {
		if !f.deaf() {
			published, f.wantsRoom, err = f.queue.reply(f.lane)
		}
		if published {
			faultpoint.Pass(faultpoint.ReplyWritten)
			f.lane.PublishReplies()
			faultpoint.Pass(faultpoint.ReplyPublished)
		}
		return err
	})
	if err != nil {
		f.mute = true
		f.retireLocked(err)
	}
	if f.deaf() {
		f.wantsRoom = false
	}
	before := f.lane.Consume()
	released := f.queue.settle(f.deaf(), before)
	err = f.lane.Guard(func() error {
		f.lane.Release(released)
		if released != before {
			faultpoint.Pass(faultpoint.ConsumeReleased)
		}
		due = f.lane.RingDue(published, released != before)
		return nil
	})
	if err != nil {
		f.retireLocked(err)
	}
	return published, due
}

// deaf tells that replies count as written: nobody is left to read them.
func (f *feed) deaf() bool { return f.mute || f.orphaned.Load() }

// advance is the committer's: everything below to is durable now.
func (f *feed) advance(to uint64) {
	f.turn(func() { f.queue.durableTo = max(f.queue.durableTo, to) })
}

// answer writes what senders waited for that a delivery has decided.
func (f *feed) answer(ready ...*wait) {
	f.turn(func() { f.queue.late = append(f.queue.late, ready...) })
}

// turn changes the queue from outside of the lane's own goroutine, and writes what may leave since.
func (f *feed) turn(change func()) {
	f.mu.Lock()
	change()
	if f.unmapped {
		f.queue.dropLate()
		f.mu.Unlock()
		return
	}
	waited := f.wantsRoom
	_, due := f.flushLocked()
	// The lane's own goroutine sleeps: it must do so anew to be told of room, and it must see that
	// the last frame of a lane without a producer is done with.
	awake := f.wantsRoom && !waited || f.queue.len() == 0 && f.finishing()
	f.mu.Unlock()
	f.ring(due)
	if awake {
		f.nudge()
	}
}

// finishing tells that nothing new will be read from the lane.
func (f *feed) finishing() bool {
	yes := f.broken != nil || f.orphaned.Load()
	err := f.lane.Guard(func() error {
		yes = yes || f.lane.Closed()
		return nil
	})
	return yes || err != nil
}

func (f *feed) ring(due bool) {
	peer := f.bells.Load().Peer
	if !due || peer == nil {
		return
	}
	if err := peer.Ring(); err != nil && !errors.Is(err, os.ErrClosed) {
		f.log.Warn("doorbell of the data plane", "error", err)
	}
}

// ringAlways wakes both sides once whatever the tickets say: an earlier life may have died between
// a store and its doorbell.
func (f *feed) ringAlways() {
	f.ring(true)
	f.nudge()
}

// nudge wakes our own side.
func (f *feed) nudge() {
	if err := f.bells.Load().Wake.Ring(); err != nil && !errors.Is(err, os.ErrClosed) {
		f.log.Warn("own doorbell", "error", err)
	}
}

// sleep waits for the doorbell, and looks after the producer where the bell stays silent.
func (f *feed) sleep() {
	bells := f.bells.Load()
	f.byBelt = false
	f.mu.Lock()
	sleeping := f.announce()
	broken := f.broken != nil
	f.mu.Unlock()
	if !sleeping && !broken {
		return
	}
	rung, err := bells.Wake.Wait(f.service.belt)
	switch {
	case errors.Is(err, os.ErrClosed):
		rung = true // there are others now
	case err != nil:
		f.log.Error("own doorbell", "error", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if sleeping {
		f.wake()
		f.byBelt = !rung && bells.Peer != nil
	}
	if (!rung || f.suspect.Swap(false)) && !f.orphaned.Load() && f.lane.ProducerGone() {
		f.orphan()
	}
}

// announce takes a sleep ticket; false: there is work.
func (f *feed) announce() (sleeping bool) {
	err := f.lane.Guard(func() error {
		sleeping = f.lane.Sleep(f.lane.Verified(), f.wantsRoom)
		return nil
	})
	if err != nil {
		f.retireLocked(err)
	}
	return sleeping
}

func (f *feed) wake() {
	if err := f.lane.Guard(func() error { f.lane.Wake(); return nil }); err != nil {
		f.retireLocked(err)
	}
}

// orphan begins to drain a lane without replies; what it does not hold goes back to the host.
func (f *feed) orphan() {
	f.orphaned.Store(true)
	if err := f.lane.Guard(f.lane.Punch); err != nil {
		f.log.Warn("memory of a dead data plane's lane", "error", err)
	}
}

// retire gives the lane up: nothing new is read from it, what was verified is finished.
func (f *feed) retire(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.retireLocked(err)
}

func (f *feed) retireLocked(why error) {
	if f.broken != nil {
		return
	}
	f.broken = why
	f.log.Error("lane retired", "error", why)
	if err := f.lane.Guard(func() error { f.lane.Retire(); return nil }); err != nil {
		f.mute = true // its memory is gone
	}
}

// ended tells whether nothing will come any more and nothing is left.
func (f *feed) ended() (yes bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.lane.Guard(func() error {
		if f.queue.len() > 0 || !f.orphaned.Load() && !f.lane.Closed() {
			return nil
		}
		if yes = f.broken != nil; yes {
			return nil
		}
		commit, err := f.lane.Commit()
		yes = err == nil && commit == f.lane.Consume()
		return err
	})
	if err != nil {
		f.retireLocked(err)
	}
	return yes
}

// end records the end and removes the file. A crash before the record drains an empty lane again; a
// crash behind it finds a file whose end is recorded, and removes that.
func (f *feed) end(ctx context.Context) error {
	defer f.unmap()
	defer f.service.leave(f)
	if f.broken != nil { // its file is kept, under a name that no start takes up
		if err := f.service.aside(f.lane, f.broken); err != nil {
			return err
		}
		return f.service.store.EndLane(ctx, f.lane.ID())
	}
	if err := f.service.store.EndLane(ctx, f.lane.ID()); err != nil {
		return err
	}
	faultpoint.Pass(faultpoint.LaneEnded)
	return f.lane.Unlink()
}

// unmap ends all use of the lane's memory and of its doorbells.
func (f *feed) unmap() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.unmapped {
		return
	}
	f.unmapped = true
	f.queue.abandon()
	f.lane.Close()
	f.bells.Load().close()
}

// Lane is a look at one lane.
type Lane struct {
	ID         event.LaneID
	Generation uint32
	Used       uint64
	Capacity   uint64
	Orphan     bool
}

// look is false for a lane that has ended.
func (f *feed) look() (Lane, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.unmapped {
		return Lane{}, false
	}
	l := Lane{
		ID: f.lane.ID(), Generation: f.generation, Capacity: f.lane.Capacity(),
		Orphan: f.orphaned.Load(),
	}
	_ = f.lane.Guard(func() error { // memory that is gone holds nothing
		l.Used = f.lane.Used()
		return nil
	})
	return l, true
}
