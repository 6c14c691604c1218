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

// piece is a group that is laid out.
type piece struct {
	draft *journal.Draft
	span  event.Span
	err   error
}

// layer lays groups out while others are written, as those who judge events do for the committer.
type layer struct {
	frames *frames
	free   chan *journal.Draft
	ready  chan piece
	done   chan struct{}
}

// drafts is how many groups there are at once: one is written, one is laid out.
const drafts = 2

func newLayer(j *journal.Journal, f *frames, sizes []int) *layer {
	l := &layer{
		frames: f, free: make(chan *journal.Draft, drafts), ready: make(chan piece, drafts),
		done: make(chan struct{}),
	}
	for range drafts {
		l.free <- j.NewDraft()
	}
	go l.run(sizes)
	return l
}

// run lays out groups of these sizes, over and over again.
func (l *layer) run(sizes []int) {
	defer close(l.ready)
	for n := 0; ; n++ {
		select {
		case d := <-l.free:
			list, span := l.frames.group(sizes[n%len(sizes)])
			l.ready <- piece{d, span, d.Add(list)}
		case <-l.done:
			return
		}
	}
}

func (l *layer) Close() {
	close(l.done)
	for p := range l.ready {
		p.draft.Drop()
	}
}

// inTurn lays a group out when the one before it is durable: nobody comes while that is written,
// or so few that the committer does not notice.
func inTurn(j *journal.Journal, f *frames, size int) (next func() piece) {
	d := j.NewDraft()
	return func() piece {
		list, span := f.group(size)
		return piece{d, span, d.Add(list)}
	}
}

// measureJournal appends to a journal alone, whose files have been used before. The time of a group
// is the one from the group before it to its own sync.
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
	put := func(p piece) error {
		if p.err != nil {
			return p.err
		}
		g, err := j.Append(&journal.Batch{Spans: []event.Span{p.span}, Draft: p.draft})
		if err != nil {
			return err
		}
		roll.appended(g)
		j.Forget(g) // nobody reads it: its memory takes the next one
		g.Release()
		return nil
	}
	warm := j.NewDraft()
	for roll.rolls < warmSegments {
		list, span := f.group(max((1<<20)/f.frameBytes(), 1))
		if err := put(piece{warm, span, warm.Add(list)}); err != nil {
			return r, err
		}
	}
	sizes := cut(c.Group, pieces(c.Group, f.frameBytes(), journalPiece))
	next, given := inTurn(j, f, sizes[0]), func(*journal.Draft) {}
	if sizes[0]*f.frameBytes() >= aheadLeast {
		l := newLayer(j, f, sizes)
		defer l.Close()
		next, given = func() piece { return <-l.ready }, func(d *journal.Draft) { l.free <- d }
	}
	m, err := meter.Start(c, nil)
	if err != nil {
		return r, err
	}
	for m.Elapsed() < c.Duration {
		began := time.Now()
		for range sizes {
			p := next()
			if err := put(p); err != nil {
				return r, err
			}
			given(p.draft)
		}
		r.Times.Note(time.Since(began))
		r.Events += c.Group
		r.Bytes += int64(c.Group) * int64(f.frameBytes())
	}
	return r, m.Stop(&r)
}
