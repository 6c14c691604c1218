package main

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/store"
	"sluice/go/storebench/meter"
)

// dedupMemory is what the daemon lets dedup take on a host of 16 GiB; ten minutes at full speed
// open more keys than the store's own default holds.
const dedupMemory = 1 << 30

// openStore opens a store that may take so many bytes.
func openStore(c meter.Case, bytesMax int64) (*store.Store, error) {
	ctx := context.Background()
	s, err := store.Open(ctx, store.Options{
		Dir:         filepath.Join(c.Dir, "store"),
		Log:         slog.New(slog.DiscardHandler),
		Retention:   store.Retention{MaxAge: -1, MaxBytes: bytesMax},
		DedupMemory: dedupMemory,
	})
	if err != nil {
		return nil, err
	}
	if err := s.Settle(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	// It is durable and applied when this returns, and so is all that came before it.
	if err := s.PutCatalogue(ctx, catalogue); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// feeder appends groups to a store.
type feeder struct {
	store  *store.Store
	frames *frames
	group  int
}

// put appends a group, in as many pieces as it takes, and gives the time that it took.
func (f *feeder) put() (took time.Duration, err error) {
	left := pieces(f.group, f.frames.frameBytes(), storePiece)
	for n := 0; left > 0; left-- {
		some := (f.group - n) / left
		list, span := f.frames.group(some)
		began := time.Now()
		err := f.store.Append(store.Batch{Spans: []event.Span{span}, Frames: list})
		if err != nil {
			return 0, err
		}
		took += time.Since(began)
		n += some
	}
	return took, nil
}

// measureStore appends events that nobody fetches, until the last one is applied and the index on
// the disk.
func measureStore(c meter.Case) (r meter.Result, err error) {
	f, err := newFrames(c.Size, c.Group, c.Keys)
	if err != nil {
		return r, err
	}
	s, err := openStore(c, diskMax/2)
	if err != nil {
		return r, err
	}
	m, err := meter.Start(c, nil)
	if err != nil {
		return r, errors.Join(err, s.Close())
	}
	feed := &feeder{s, f, c.Group}
	for m.Elapsed() < c.Duration && !s.Space().Full {
		took, err := feed.put()
		if err != nil {
			return r, errors.Join(err, s.Close())
		}
		r.Times.Note(took)
		r.Events += c.Group
		r.Bytes += int64(c.Group) * int64(f.frameBytes())
	}
	if err := s.PutCatalogue(context.Background(), catalogue); err != nil {
		return r, errors.Join(err, s.Close())
	}
	r.Figures = stages(s, r.Events)
	if err := s.Close(); err != nil {
		return r, err
	}
	return r, m.Stop(&r)
}

// stages tells what the store says of its CPU time, in microseconds an event.
func stages(s *store.Store, events int) map[string]float64 {
	cpu := s.Stats().CPU
	micros := func(d time.Duration) float64 { return float64(d) / 1e3 / float64(max(events, 1)) }
	return map[string]float64{
		"committer": micros(cpu.Committer), "applier": micros(cpu.Applier),
		"engine": micros(cpu.Engine),
	}
}
