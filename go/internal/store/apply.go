package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/faultpoint"
	"sluice/go/internal/store/index"
	"sluice/go/internal/store/journal"
	"sluice/go/internal/store/thread"
	"sluice/shm-abi/shmabi"
)

const (
	// commitAfter is how late the index may be written.
	commitAfter = time.Second
	// pendingMax is how many changed events make a commit due before its time.
	pendingMax = 8192
)

// start runs the applier, and what keeps house.
func (s *Store) start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	s.stopped.Go(func() { s.runApplier(ctx) })
	s.stopped.Go(func() { s.runPreparer(ctx) })
	s.stopped.Go(func() { s.runKeeper(ctx) })
}

// loadFilters begins to go through the dedup rows of before the start, which spares the applier, a
// replay most of all, its reads of them. It must be ended before the index is closed. loaded is
// closed when it is over.
func (s *Store) loadFilters() (loaded <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	s.stopLoading = cancel
	over := make(chan struct{})
	s.loading.Go(func() {
		defer close(over)
		err := s.index.LoadFilters(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		s.opt.Log.Warn("dedup reads the disk until the next start", "err", err)
		if s.running.Load() {
			_ = s.readFault(err) // it is logged and told to everyone there
		}
	})
	return over
}

const (
	// filterWait bounds how long a replay waits for the filters: what is replayed without them costs
	// a read or more for each event.
	filterWait = 3 * time.Second
	// filterWaitGroups is from how many groups on that is worth it.
	filterWaitGroups = 32
)

// awaitFilters waits for them if there is much to replay.
func (s *Store) awaitFilters(ctx context.Context, loaded <-chan struct{}, groups uint64) {
	if groups < filterWaitGroups {
		return
	}
	select {
	case <-loaded:
	case <-time.After(filterWait):
	case <-ctx.Done():
	}
}

func (s *Store) endLoading() {
	if s.stopLoading != nil {
		s.stopLoading()
	}
	s.loading.Wait()
}

// applyPause is the least time from one look at the handoff to the next, so that under load the
// applier is not woken, and the lock of the queues not taken, for each group. A group that comes
// alone, or that somebody waits for, is applied at once.
const applyPause = 2 * time.Millisecond

func (s *Store) runApplier(ctx context.Context) {
	thread.Own("applier")
	commits := time.NewTicker(commitAfter)
	defer commits.Stop()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-s.handoff.arrive:
			select {
			case <-pause.C:
			case <-s.handoff.hurry:
			case <-s.failed:
				continue // to its own case, which takes what is there
			case <-ctx.Done():
				continue
			}
			pause.Reset(applyPause)
			s.applyItems(s.handoff.take())
			s.applier.Store(int64(thread.Used()))
		case <-commits.C:
			s.mu.Lock()
			err := s.commit()
			s.mu.Unlock()
			if err != nil {
				_ = s.fail(err) // it is logged and told to everyone there
			}
		case <-s.failed:
			s.drop(s.handoff.take())
			return
		case <-ctx.Done():
			s.applyItems(s.handoff.take())
			return
		}
	}
}

func (s *Store) drop(items []item) {
	for _, i := range items {
		i.group.Release()
	}
}

func (s *Store) applyItems(items []item) {
	for n, i := range items {
		s.mu.Lock()
		s.index.Hold()
		err := s.apply(i.group)
		s.index.Release()
		read, repeats := s.delivers, s.repeats
		if err == nil && s.index.Pending() >= pendingMax {
			err = s.commit()
		}
		s.mu.Unlock()
		if err != nil {
			_ = s.fail(err) // it is logged and told to everyone there
			s.drop(items[n:])
			return
		}
		s.tellRepeats(repeats)
		if !read {
			s.journal.Forget(i.group)
		}
		i.group.Release()
		for _, t := range i.tickets {
			close(t.done)
		}
	}
}

// commit writes what is pending and its watermark into the index.
func (s *Store) commit() error {
	if s.index.Pending() == 0 && s.index.Meta().Applied == s.committed {
		return nil
	}
	running := s.running.Load() // before, whoever starts is told of what is refused
	if running {
		s.index.Hold()
	}
	err := s.index.Commit()
	if running {
		s.index.Release()
	}
	if err != nil {
		return err
	}
	s.committed = s.index.Meta().Applied
	return nil
}

// apply moves the state on by one group. It looks at nothing but the group and the state, so that a
// replay decides the same.
func (s *Store) apply(g *journal.Group) error {
	s.delivers, s.repeats = false, nil
	clear(s.revived)
	meta := s.index.Meta()
	if g.Number <= meta.Applied {
		return s.relocate(g)
	}
	for i := range g.Frames {
		f := &g.Frames[i]
		if f.Kind != journal.KindEvent {
			continue
		}
		if err := s.applyEvent(f); err != nil {
			return fmt.Errorf("apply event %d: %w", f.Seq, err)
		}
	}
	outcomes, err := g.Outcomes()
	if err != nil {
		s.opt.Log.Error("outcomes are unreadable; their deliveries are made again",
			"group", g.Number, "err", err)
	}
	if len(outcomes) > 0 {
		faultpoint.Pass(faultpoint.OutcomeDurable)
	}
	if err := s.revive(outcomes); err != nil {
		return err
	}
	for i := range outcomes {
		o := &outcomes[i]
		if o.Copied || g.Number <= s.recalled.asOf[o.Seq] {
			continue // its event came with it
		}
		if err := s.applyOutcome(o, g.Number); err != nil {
			return fmt.Errorf("apply outcome of %d: %w", o.Seq, err)
		}
	}
	if text := g.Config(); text != nil && !bytes.Equal(text, s.index.Catalogue()) {
		c := new(event.Catalogue)
		if err := json.Unmarshal(text, c); err != nil {
			s.opt.Log.Error("catalogue is unreadable", "group", g.Number, "err", err)
		} else {
			s.useCatalogue(c)
			s.index.SetCatalogue(append([]byte(nil), text...))
		}
	}
	meta.Applied = g.Number
	s.applied.Store(g.Number)
	if s.moved != nil {
		close(s.moved)
		s.moved = nil
	}
	return nil
}

// relocate notes where the events of a group lie that was written again at a start.
func (s *Store) relocate(g *journal.Group) error {
	for i := range g.Frames {
		f := &g.Frames[i]
		if f.Kind != journal.KindEvent || f.Damaged {
			continue
		}
		r, err := s.index.Load(f.Seq)
		if err != nil {
			return err
		}
		if r != nil && r.Loc != f.Loc {
			r.Loc = f.Loc
			s.index.Change(r)
		}
	}
	return nil
}

func (s *Store) applyEvent(f *journal.Frame) error {
	if f.Damaged {
		s.opt.Log.Error("acknowledged event is damaged on disk", "seq", uint64(f.Seq))
		return nil
	}
	frame := shmabi.Frame(f.Bytes)
	d, c := frame.D(), frame.C()
	if f.Rescued {
		if r, err := s.index.Load(f.Seq); r != nil || err != nil {
			if r != nil {
				r.Loc = f.Loc
				s.index.Change(r)
			}
			return err
		}
		s.revived[f.Seq] = f.AsOf // its own group is gone, or damaged
	}
	meta := s.index.Meta()
	r := &s.scratch
	*r = index.Record{
		Seq: f.Seq, ID: event.ID(c.EventID()), Loc: f.Loc, Source: d.SourceID(),
		Route: c.RouteVersion(), Received: int64(d.ReceivedNS()), OrderKey: c.OrderKey(),
		Deliveries: r.Deliveries[:0],
	}
	if len(frame) >= shmabi.FrameHeader+shmabi.PayloadHeadSize {
		r.Size = shmabi.PayloadHead(frame[shmabi.FrameHeader:][:shmabi.PayloadHeadSize]).BodyLength()
	}
	first, repeated, err := s.dedup(r, f, c)
	if err != nil {
		return err
	}
	meta.Horizon = max(meta.Horizon, r.Received)
	r.Horizon = meta.Horizon
	if f.Rescued { // the index was lost, and with it the horizon of then
		r.Horizon = min(r.Horizon, r.Received+int64(index.Late))
	}
	if s.opt.Describe != nil {
		s.opt.Describe(s.Catalogue().SourceName(r.Source), frame, func(id, kind []byte) {
			r.Type = s.index.TypeNumber(kind)
			if len(id) > 0 {
				s.index.AddSenderID(r.Seq, index.HashSenderID(id))
			}
		})
	}
	sums := meta.Counts.Sources[r.Source]
	if sums == nil {
		sums = new(index.SourceCounts)
		meta.Counts.Sources[r.Source] = sums
	}
	waits := shmabi.Ack(c.Ack()) == shmabi.AckDelivered
	if repeated {
		if waits && s.opt.Repeated != nil {
			s.repeats = append(s.repeats, repeat{r.ID, first})
		}
		r.First = first
		sums.Duplicates++
	} else {
		sums.Accepted++
		meta.Counts.Events++
		if err := s.route(r, f.Rescued); err != nil {
			return err
		}
	}
	if waits && !repeated {
		s.standings.put(r.ID, r.State())
	}
	if s.oldest.Load() == 0 {
		s.oldest.Store(r.Received)
	}
	if len(r.Deliveries) == 0 {
		s.index.AddEnded(r)
		return nil
	}
	r = &index.Record{}
	*r = s.scratch
	s.scratch.Deliveries = nil // they are the record's now
	s.index.Change(r)
	s.delivers = true
	for i := range r.Deliveries {
		del := &r.Deliveries[i]
		s.sums(del.Destination).Backlog++
		s.living.Add(1)
		s.queue(del.Destination).update(r, del, true)
	}
	return nil
}

// dedup tells whether an event repeats another. The first one's window counts, as of the received
// time of the repeat. What was copied forward repeats none, and its window is carried apart.
func (s *Store) dedup(r *index.Record, f *journal.Frame, c shmabi.CLine) (first event.ID,
	repeated bool, err error) {
	key := c.DedupKey()
	if key == [16]byte{} || f.Rescued {
		return first, false, nil
	}
	if first, repeated = s.recalled.repeats[r.Seq]; repeated {
		return first, true, nil
	}
	known, ok, err := s.index.LookupDedup(r.Source, key, r.Received)
	if err != nil {
		return first, false, err
	}
	if ok {
		s.recent.put(recentKey{r.Source, key}, recentEvent{id: known.First, until: known.Until})
		s.index.AddRepeat(index.Repeat{Seq: r.Seq, FirstSeq: known.Seq, First: known.First})
		return known.First, true, nil
	}
	if until := int64(c.DedupUntilNS()); until > r.Received {
		meta := s.index.Meta()
		meta.Window = max(meta.Window, until-r.Received)
		s.index.AddDedup(index.Dedup{
			Source: r.Source, Key: key, First: r.ID, Seq: r.Seq, Until: until,
		})
	}
	return first, false, nil
}

// route makes the deliveries of a new event. rescued tells that the index was lost and that what is
// known of the event is a copy that came after younger ones.
func (s *Store) route(r *index.Record, rescued bool) error {
	destinations, ok := s.routes[r.Route]
	if !ok && r.Route != RouteImported {
		s.opt.Log.Error("event names a route that no catalogue has; it is stored and goes nowhere",
			"id", r.ID, "route", r.Route)
	}
	for _, dest := range destinations {
		d := index.Delivery{Destination: dest, State: event.Pending}
		if r.OrderKey != 0 {
			if err := s.enterOrder(r, &d, rescued); err != nil {
				return err
			}
		}
		r.Deliveries = append(r.Deliveries, d)
	}
	return nil
}

func (s *Store) sums(dest uint32) *index.DestinationCounts {
	all := s.index.Meta().Counts.Destinations
	if all[dest] == nil {
		all[dest] = new(index.DestinationCounts)
	}
	return all[dest]
}

func (s *Store) queue(dest uint32) *queue {
	q := s.queues[dest]
	if q == nil {
		q = newQueue(dest, s.opt.window)
		s.queues[dest] = q
	}
	return q
}

// applyOutcome moves a delivery on by an outcome of a group.
func (s *Store) applyOutcome(o *event.Outcome, group uint64) error {
	delete(s.deferred, deliveryID{o.Seq, o.Destination})
	r, err := s.index.Load(o.Seq)
	if err != nil {
		return err
	}
	if r == nil {
		s.orphan(o, group)
		return nil
	}
	d := r.Delivery(o.Destination)
	if d == nil {
		if o.Kind != event.Replay || !r.First.IsZero() {
			return nil
		}
		r.Deliveries = append(r.Deliveries, index.Delivery{Destination: o.Destination})
		d = &r.Deliveries[len(r.Deliveries)-1]
		s.index.AddDestination(r.Seq, o.Destination)
	}
	wasLiving, wasLetter, held := d.Living(), d.Letter(), d.Holds()
	if !s.move(r, d, o) {
		return nil
	}
	sums := s.sums(o.Destination)
	sums.Backlog += count(d.Living()) - count(wasLiving)
	s.living.Add(int64(count(d.Living()) - count(wasLiving)))
	sums.Dead += count(d.Letter()) - count(wasLetter)
	if r.OrderKey != 0 && (wasLiving != d.Living() || held != d.Holds()) {
		if err := s.reorder(r, d, held); err != nil {
			return err
		}
	}
	s.index.Change(r)
	s.standings.move(r.ID, r.State())
	q := s.queue(o.Destination)
	q.update(r, d, false)
	switch {
	case d.Living() && !wasLiving:
		s.needFrom = min(s.needFrom, r.Seq)
	case wasLiving && !d.Living() && s.running.Load():
		q.ended.add(s.opt.elapsed())
	}
	return nil
}

func count(is bool) uint64 {
	if is {
		return 1
	}
	return 0
}

// move is the state machine of a delivery. It tells whether the outcome has any effect.
func (s *Store) move(r *index.Record, d *index.Delivery, o *event.Outcome) bool {
	switch o.Kind {
	case event.Done, event.Retry, event.Dead, event.Skip:
		if !d.Living() {
			return false
		}
		d.Plain = o.Kind == event.Done && d.At == 0
		d.Blocks = o.Kind == event.Dead && o.Blocks && r.OrderKey != 0
		if o.Kind != event.Skip { // which is no attempt
			d.Attempts = cmp.Or(o.Attempt, d.Attempts+1)
		}
		d.Code, d.Err, d.Next = o.Code, o.Err, 0
	case event.Replay:
		if d.Plain {
			d.Plain = false
			s.index.AddAttempt(r, plainAttempt(r.Seq, d))
		}
		d.Attempts, d.Dropped, d.Blocks, d.Next = 0, false, false, max(o.Next, 1)
	case event.Drop:
		if !d.Letter() {
			return false
		}
		d.Dropped = true
	default:
		return false
	}
	switch o.Kind {
	case event.Done, event.Skip:
		d.State = event.Delivered
	case event.Retry:
		d.State, d.Next = event.Retrying, max(o.Next, 1)
	case event.Dead:
		d.State = event.DeadLetter
	case event.Replay:
		d.State = event.Pending
	}
	d.At = max(o.At, 1)
	if !d.Plain {
		s.index.AddAttempt(r, *o)
	}
	return true
}

// plainAttempt is the history of a delivery that its first attempt made.
func plainAttempt(seq event.Seq, d *index.Delivery) event.Outcome {
	return event.Outcome{
		Seq: seq, Destination: d.Destination, Kind: event.Done, Attempt: d.Attempts, Code: d.Code,
		At: d.At,
	}
}
