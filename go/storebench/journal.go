package main

import (
	"errors"
	"path/filepath"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/store/journal"
	"sluice/go/internal/store/vfs"
	"sluice/go/storebench/meter"
)

// roller keeps a journal's files going round, as the store does: it makes segments ahead and drops
// all but the last few.
type roller struct {
	journal *journal.Journal
	rolled  chan struct{}
	done    chan error
	segment uint64
	rolls   int
}

func newRoller(j *journal.Journal) *roller {
	r := &roller{journal: j, rolled: make(chan struct{}, 1), done: make(chan error, 1)}
	go func() { r.done <- r.run() }()
	return r
}

func (r *roller) run() error {
	for range r.rolled {
		segments := r.journal.Segments()
		for _, s := range segments[:max(len(segments)-keptSegments, 0)] {
			if err := r.journal.Drop(s.Number); err != nil {
				return err
			}
		}
		if err := r.journal.Prepare(); err != nil {
			return err
		}
	}
	return nil
}

// appended is told of every durable group.
func (r *roller) appended(g *journal.Group) {
	if g.Segment != r.segment {
		r.segment = g.Segment
		r.rolls++
		select {
		case r.rolled <- struct{}{}:
		default:
		}
	}
}

func (r *roller) Close() error {
	close(r.rolled)
	return <-r.done
}

// measureJournal appends to a journal alone, whose files have been used before.
func measureJournal(c meter.Case) (r meter.Result, err error) {
	f, err := newFrames(c.Size, c.Group, c.Keys)
	if err != nil {
		return r, err
	}
	j, _, err := journal.Open(journal.Options{
		FS: vfs.OS(), Dir: filepath.Join(c.Dir, "journal"), SegmentSize: c.Segment,
	})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	if err := j.Settle(); err != nil {
		return r, err
	}
	roll := newRoller(j)
	defer func() { err = errors.Join(err, roll.Close()) }()
	put := func(n int) error {
		list, span := f.group(n)
		g, err := j.Append(&journal.Batch{Spans: []event.Span{span}, Frames: list})
		if err != nil {
			return err
		}
		roll.appended(g)
		j.Forget(g) // nobody reads it: its memory takes the next one
		g.Release()
		return nil
	}
	for roll.rolls < warmSegments {
		if err := put(max((1<<20)/f.frameBytes(), 1)); err != nil {
			return r, err
		}
	}
	m, err := meter.Start(c, nil)
	if err != nil {
		return r, err
	}
	parts := pieces(c.Group, f.frameBytes(), journalPiece)
	for m.Elapsed() < c.Duration {
		began := time.Now()
		for left, n := parts, 0; left > 0; left-- {
			some := (c.Group - n) / left
			if err := put(some); err != nil {
				return r, err
			}
			n += some
		}
		r.Times.Note(time.Since(began))
		r.Events += c.Group
		r.Bytes += int64(c.Group) * int64(f.frameBytes())
	}
	return r, m.Stop(&r)
}
