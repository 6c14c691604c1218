package store

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/store/index"
	"sluice/go/internal/store/journal"
)

// spaceAge is how old an answer of the file system may be.
const spaceAge = 200 * time.Millisecond

// spaceGauge keeps the last answer of the file system.
type spaceGauge struct {
	mu   sync.Mutex
	last journal.Space
	at   time.Time
}

func (s *Store) journalSpace() journal.Space {
	g := &s.space
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := time.Now(); g.at.IsZero() || now.Sub(g.at) > spaceAge {
		if space, err := s.journal.Space(); err != nil {
			s.opt.Log.Warn("space of the data directory is unknown", "err", err)
		} else {
			g.last, g.at = space, now
			if space.Full(s.living.Load()) {
				notify(s.rolled)
			}
		}
	}
	return g.last
}

func (s *Store) underFloor() bool {
	space := s.journalSpace()
	return space.Free < space.Floor(s.living.Load())
}

// Space tells how much room is left. It is cheap enough to ask many times a second.
func (s *Store) Space() Space {
	living := s.living.Load()
	space := s.journalSpace()
	return Space{
		Headroom: space.Headroom(living),
		Oldest:   timeOf(s.oldest.Load()),
		Writable: s.settled.Load() && !s.failing.Load() && s.Err() == nil &&
			s.journal.Writable() && !s.index.Full(),
		Full:      space.Full(living),
		UsedBytes: space.Used, TotalBytes: space.Total,
		Living: uint64(max(living, 0)),
	}
}

// houseEvery is how often the index goes to the disk, which bounds what a start has to replay, and
// how often retention is looked at.
const houseEvery = 10 * time.Second

// houseSegments is after how many new segments that is done before its time: what a start has to
// replay is bounded in bytes as well. Less would have the engine write and merge small tables.
const houseSegments = 8

// runPreparer makes segments ahead, so that no group waits for a file.
func (s *Store) runPreparer(ctx context.Context) {
	for segments := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-s.failed:
			return
		case <-s.rolled:
		}
		if err := s.journal.Prepare(); err != nil {
			s.opt.Log.Warn("next segment cannot be made ahead", "err", err)
		}
		if segments++; segments >= houseSegments {
			segments = 0
			notify(s.flushDue)
		} else if s.spaceShort() || s.journalSpace().Full(s.living.Load()) {
			notify(s.trimDue)
		}
	}
}

// runKeeper moves the index to the disk and drops old segments.
func (s *Store) runKeeper(ctx context.Context) {
	tick := time.NewTicker(houseEvery)
	defer tick.Stop()
	for {
		due := true
		select {
		case <-ctx.Done():
			return
		case <-s.failed:
			return
		case <-s.trimDue:
			due = false
		case <-s.flushDue:
		case <-tick.C:
		}
		if err := s.keepHouse(ctx, due); err != nil && ctx.Err() == nil {
			s.opt.Log.Error("retention", "err", err)
		}
	}
}

// keepHouse drops what nobody needs. Without flush it moves the index to the disk only where that
// is what a segment waits for: each flush is a table for each kind of row, and a sync for each
// table, which the journal's own syncs wait behind.
func (s *Store) keepHouse(ctx context.Context, flush bool) error {
	s.houseMu.Lock()
	defer s.houseMu.Unlock()
	if err := s.index.Reserve(); err != nil {
		s.opt.Log.Warn("index has no ballast", "err", err)
	}
	s.lookAtFilters()
	if !flush {
		waits, err := s.trim(ctx)
		if err != nil {
			return err
		}
		if !waits {
			return s.reclaim()
		}
	}
	if err := s.flush(ctx); err != nil {
		return err
	}
	if _, err := s.trim(ctx); err != nil {
		return err
	}
	return s.reclaim()
}

// lookAtFilters says when dedup begins to read the disk for want of memory, and when that ends.
func (s *Store) lookAtFilters() {
	bytes, short := s.index.FilterBytes()
	switch {
	case short && !s.filtersShort:
		s.opt.Log.Warn("dedup keys are more than the memory for them holds: lookups read the disk, "+
			"and the index may fall behind", "bytes", bytes,
			"mend", "shorten dedup, or give the host or the control group more memory")
	case !short && s.filtersShort:
		s.opt.Log.Info("dedup keys have memory enough again", "bytes", bytes)
	}
	s.filtersShort = short
}

// reclaim begins a new segment when space is short, so that the files of dropped ones become free.
func (s *Store) reclaim() error {
	space := s.journalSpace()
	if space.Waiting == 0 || !s.settled.Load() || s.failing.Load() ||
		!space.Full(s.living.Load()) {
		return nil
	}
	s.appendMu.Lock()
	defer s.appendMu.Unlock()
	if err := s.journal.Reclaim(); err != nil {
		return fmt.Errorf("reclaim dropped segments: %w", err)
	}
	s.space.forget()
	return s.journal.Prepare()
}

// flush moves the index to the disk and notes up to where.
func (s *Store) flush(ctx context.Context) error {
	s.mu.Lock()
	err := s.commit()
	group, idle := s.committed, s.committed == s.flushed
	s.mu.Unlock()
	if err != nil {
		return s.fail(err)
	}
	if idle {
		return nil // an engine that is asked writes a file, whether there is anything or not
	}
	done, err := s.index.Flush()
	if err != nil {
		return fmt.Errorf("flush index: %w", err)
	}
	select {
	case <-done:
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	s.flushed = max(s.flushed, group)
	s.mu.Unlock()
	return nil
}

// trim drops the oldest segments that nobody needs: past their age, or because space runs short,
// what must be kept copied forward, and with the index on disk behind them. It tells whether the
// index is what the next one waits for.
func (s *Store) trim(ctx context.Context) (waits bool, err error) {
	for _, segment := range s.journal.Segments() {
		if segment.Current {
			return false, nil
		}
		age := s.opt.Now().Sub(segment.LastTime)
		old := s.opt.Retention.MaxAge > 0 && age > s.opt.Retention.MaxAge
		short := s.spaceShort()
		if !old && !short {
			return false, nil
		}
		if segment.LastGroup > s.onDisk() {
			return true, nil
		}
		ok, err := s.trimOne(ctx, segment, short)
		if err != nil || !ok {
			return false, err
		}
	}
	return false, nil
}

func (s *Store) trimOne(
	ctx context.Context, segment journal.SegmentInfo, short bool,
) (bool, error) {
	// Dead letters go with their segment only for want of space, and only where they are many.
	keep := s.keepsLetter
	survivors, err := s.survivors(segment, keep)
	if err == nil && short && !s.few(segment, survivors) {
		keep = nil
		survivors, err = s.survivors(segment, nil)
	}
	if err != nil {
		return false, err
	}
	if len(survivors) > 0 {
		if !s.settled.Load() || !s.few(segment, survivors) {
			return false, nil
		}
		if err := s.rescue(ctx, survivors); err != nil {
			return false, err
		}
	}
	if ok, err := s.carry(ctx, segment, short); err != nil || !ok {
		return false, err
	}
	return s.dropSegment(segment, keep)
}

// onDisk is the last group that the index has on disk.
func (s *Store) onDisk() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flushed
}

// keepsLetter tells whether a dead letter is kept, as far as its age goes.
func (s *Store) keepsLetter(_ *index.Record, d *index.Delivery) bool {
	age := s.opt.Retention.DeadAge
	return age < 0 || s.opt.Now().Sub(time.Unix(0, d.At)) < age
}

// survivors are the events that still need a segment, one more than may be rescued at the most.
func (s *Store) survivors(segment journal.SegmentInfo, keep index.Keep) ([]index.Survivor, error) {
	s.mu.Lock()
	err := s.commit()
	s.mu.Unlock()
	if err != nil {
		return nil, s.fail(err)
	}
	list, err := s.index.Survivors(segment.Number, segment.LastGroup, rescueMax+1, keep)
	return list, s.readFault(err)
}

const (
	// rescueMax and rescueBytesMax bound the few that are copied forward for one segment, and a
	// quarter of it does. More would win no space: intake stops, and delivering makes room.
	rescueMax      = 1024
	rescueBytesMax = 2 << 20
	// carriedMax bounds the events of trimmed groups: their rows are written again with each trim,
	// and a search by the sender's id goes through them.
	carriedMax = 16 << 10
)

// few tells whether survivors may be copied forward.
func (s *Store) few(segment journal.SegmentInfo, survivors []index.Survivor) bool {
	s.mu.Lock()
	trimmed, carried := event.NewSeq(s.index.Meta().Trimmed+1, 0), s.carried
	s.mu.Unlock()
	size := int64(0)
	for _, v := range survivors {
		size += int64(v.Loc.Length)
		if v.Seq >= trimmed {
			carried++
		}
	}
	return len(survivors) <= rescueMax && size <= min(rescueBytesMax, segment.End/4) &&
		carried <= carriedMax
}

// rescue copies events to the end of the journal under their old names.
func (s *Store) rescue(ctx context.Context, survivors []index.Survivor) error {
	list, err := s.copies(survivors)
	if err != nil {
		return err
	}
	err = s.submit(ctx, func(t *ticket) { s.outbox.addRescues(list, t) })
	if err != nil {
		return fmt.Errorf("rescue %d events: %w", len(list), err)
	}
	return nil
}

func (s *Store) copies(survivors []index.Survivor) (list []rescue, err error) {
	for _, v := range survivors {
		lease, err := s.journal.Read(v.Loc)
		if err != nil {
			return nil, fmt.Errorf("rescue event %d: %w", v.Seq, err)
		}
		// A copy, because it stays queued should the wait for it end early.
		one := rescue{Rescue: journal.Rescue{Seq: v.Seq, Frame: bytes.Clone(lease.Bytes)}}
		lease.Release()
		if one.AsOf, one.history, err = s.history(v.Seq); err != nil {
			return nil, err
		}
		for i := range one.history {
			one.history[i].Copied = true
		}
		list = append(list, one)
	}
	return list, nil
}

func (s *Store) dropSegment(segment journal.SegmentInfo, keep index.Keep) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if segment.LastGroup > s.flushed {
		return false, nil
	}
	if err := s.commit(); err != nil {
		return false, s.fail(err)
	}
	// A replay may have given an event back its life since it was looked at.
	needed, err := s.index.Survivors(segment.Number, segment.LastGroup, 1, keep)
	if len(needed) > 0 || err != nil {
		return false, s.readFault(err)
	}
	s.index.Hold()
	dead, carried, err := s.index.Trim(segment.LastGroup, keep)
	if err == nil {
		err = s.findOldest()
	}
	s.index.Release()
	if err != nil {
		return false, s.fail(err)
	}
	s.carried = carried
	if err := s.journal.Drop(segment.Number); err != nil {
		return false, fmt.Errorf("drop segment %d: %w", segment.Number, err)
	}
	s.space.forget()
	if dead > 0 {
		s.deadGone += uint64(dead)
		s.opt.Log.Warn("retention dropped dead letters", "segment", segment.Number,
			"dead_letters", dead, "for_space", keep == nil)
	}
	s.opt.Log.Info("segment dropped", "segment", segment.Number, "last_group", segment.LastGroup,
		"carried_forward", carried)
	return true, nil
}

func (s *Store) spaceShort() bool {
	space := s.journalSpace()
	// What was dropped is free with the next segment; to drop more would not make that sooner.
	return space.Total > 0 && (space.Used > space.Total/100*TrimShare ||
		space.Free+space.Waiting < 2*space.Floor(s.living.Load()))
}

func (g *spaceGauge) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at = time.Time{}
}

// trimBehind takes out of the index what the journal does not hold any more: a crash came between
// the two halves of a trim.
func (s *Store) trimBehind() error {
	segments := s.journal.Segments()
	if len(segments) == 0 || segments[0].FirstGroup < 2 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	last := min(segments[0].FirstGroup-1, s.index.Meta().Applied)
	if last <= s.index.Meta().Trimmed {
		return nil
	}
	// Only damage takes a segment with living deliveries. They stay, to be named one by one when
	// they cannot be read. So do dead letters whose frames were copied forward.
	first := segments[0].Number
	_, carried, err := s.index.Trim(last, func(r *index.Record, _ *index.Delivery) bool {
		return r.Loc.Segment >= first
	})
	s.carried = carried
	return err
}
