package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/store"
	"sluice/go/storebench/meter"
)

// life is the whole way of events through a store: one goroutine appends, one leases, reads and
// finishes, and the store itself applies and trims. The first one waits when too many are on their
// way.
type life struct {
	store    *store.Store
	feed     *feeder
	backlog  int64
	appended atomic.Int64
	finished atomic.Int64
	worst    atomic.Int64  // ns of a group, since somebody looked
	room     chan struct{} // something was finished

	ctx  context.Context // ends with the life, or with what went wrong
	fail context.CancelCauseFunc
}

// errOver is the cause that ends a life in which nothing went wrong.
var errOver = errors.New("all is delivered")

// measureLife lets c.Events events through a store of a gigabyte, or as many as come in c.Duration,
// and counts until the last one is finished and the store is closed.
func measureLife(c meter.Case) (r meter.Result, err error) {
	f, err := newFrames(c.Size, c.Group, c.Keys)
	if err != nil {
		return r, err
	}
	s, err := openStore(c, retentionBytes)
	if err != nil {
		return r, err
	}
	l := &life{
		store: s, feed: &feeder{s, f, c.Group}, backlog: int64(c.Backlog),
		room: make(chan struct{}, 1),
	}
	l.ctx, l.fail = context.WithCancelCause(context.Background())
	beside := &watch{life: l}
	if c.Subject == "steady" {
		if err := beside.prepare(c); err != nil {
			return r, errors.Join(err, s.Close())
		}
	}
	m, err := meter.Start(c, nil)
	if err == nil {
		err = l.run(m, c, &r, beside)
	}
	used := s.Space().UsedBytes
	if err = errors.Join(err, s.Close()); err != nil {
		return r, err
	}
	if err := m.Stop(&r); err != nil {
		return r, err
	}
	r.Case, r.Bytes = c, int64(r.Events)*int64(f.frameBytes())
	r.Notes = []string{fmt.Sprintf("the journal was trimmed to %d of %d MB", used>>20, r.Bytes>>20)}
	if !trims(&r) {
		r.Notes = []string{"too short for retention to trim anything"}
	}
	return r, nil
}

// trims tells whether each round of a life was long enough for its first segments to go.
func trims(r *meter.Result) bool {
	bytes := int64(r.Case.Events) * int64(r.Case.Frame)
	if bytes == 0 { // by time, and once
		bytes = r.Bytes
	}
	return bytes > retentionBytes/100*store.TrimShare
}

// run lets events through until there were enough, and waits for the last one.
func (l *life) run(m *meter.Meter, c meter.Case, r *meter.Result, beside *watch) error {
	delivered := make(chan struct{})
	go func() {
		defer close(delivered)
		l.deliver()
	}()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		beside.run(r)
	}()
	err := l.intake(func() bool {
		if c.Events > 0 {
			return r.Events >= c.Events
		}
		return m.Elapsed() >= c.Duration
	}, r)
	if err == nil {
		err = l.drain()
	}
	if err == nil {
		r.Figures = stages(l.store, r.Events)
	}
	l.fail(errors.Join(err, errOver))
	<-delivered
	<-watched
	if cause := context.Cause(l.ctx); err == nil && !errors.Is(cause, errOver) {
		err = cause
	}
	return err
}

// intake appends.
func (l *life) intake(enough func() bool, r *meter.Result) error {
	for !enough() {
		if l.appended.Load()-l.finished.Load() > l.backlog || l.store.Space().Full {
			if err := l.pause(); err != nil {
				return err
			}
			continue
		}
		took, err := l.feed.put()
		if err != nil {
			return err
		}
		r.Times.Note(took)
		r.Events += l.feed.group
		l.appended.Add(int64(l.feed.group))
		l.worst.Store(max(l.worst.Load(), int64(took)))
	}
	return nil
}

// pause waits until something is finished or there may be space again, and meanwhile writes what
// the store has queued.
func (l *life) pause() error {
	stalled := time.NewTimer(stallMax)
	defer stalled.Stop()
	var space <-chan time.Time
	if l.store.Space().Full {
		space = time.After(spaceEvery)
	}
	select {
	case <-l.room:
		return nil
	case <-space:
		return nil
	case <-l.store.Work():
		return l.store.Append(store.Batch{})
	case <-l.ctx.Done():
		return context.Cause(l.ctx)
	case <-stalled.C:
		return fmt.Errorf("no delivery for %v; %d of %d events are finished", stallMax,
			l.finished.Load(), l.appended.Load())
	}
}

// drain waits until everything is finished, durable and applied.
func (l *life) drain() error {
	for l.finished.Load() < l.appended.Load() {
		if err := l.pause(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(l.ctx, stallMax)
	defer cancel()
	for l.store.Space().Living > 0 {
		// Durable and applied when it returns, and so are outcomes that were queued before.
		if err := l.store.PutCatalogue(ctx, catalogue); err != nil {
			return err
		}
	}
	return nil
}

// deliver is a destination that takes everything at once.
func (l *life) deliver() {
	due := l.store.Due(destination)
	for {
		list := l.store.Lease(destination, leaseMax, time.Now())
		if len(list) == 0 {
			select {
			case <-due:
				continue
			case <-l.ctx.Done():
				return
			}
		}
		for _, d := range list {
			if err := l.finish(d); err != nil {
				l.fail(err)
				return
			}
		}
		l.finished.Add(int64(len(list)))
		select {
		case l.room <- struct{}{}:
		default:
		}
	}
}

func (l *life) finish(d store.Delivery) error {
	p, err := l.store.Read(d.Seq)
	if err != nil {
		return err
	}
	size := len(p.Body())
	p.Release()
	if size != int(d.Size) {
		return fmt.Errorf("event %d has a body of %d bytes, want %d", d.Seq, size, d.Size)
	}
	l.store.Finish(event.Outcome{
		Seq: d.Seq, Destination: d.Destination, Kind: event.Done, Attempt: d.Attempt, Code: 200,
		At: time.Now().UnixNano(),
	})
	return nil
}
