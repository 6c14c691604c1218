package reconcile

import (
	"context"
	"errors"
	"time"

	"sluice/go/internal/gaps"
)

// Run begins what is due, until ctx ends, and waits then for what is under way.
func (s *Service) Run(ctx context.Context) {
	tick := time.NewTicker(tickInterval)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			s.look(ctx, time.Now())
		}
	}
	s.runs.Wait()
}

// look begins the runs that are due.
func (s *Service) look(ctx context.Context, now time.Time) {
	for _, t := range s.o.Targets() {
		s.mu.Lock()
		due := len(s.live) < runsMax && s.live[t.Name] == nil && s.due(&t, s.fileOf(t.Name), now)
		s.mu.Unlock()
		if !due {
			continue
		}
		s.runs.Go(func() {
			_, err := s.Reconcile(ctx, t.Name, Ask{alone: true}, nil)
			if err == nil || errors.Is(err, ErrRunning) {
				return
			}
			s.o.Log.Warn("reconciliation cannot begin", "source", t.Name, "error", err)
			s.mu.Lock()
			defer s.mu.Unlock()
			f := s.fileOf(t.Name)
			f.state.Ended, f.state.Failed, f.state.Run = time.Now().UnixNano(), true, nil
			s.save(t.Name, f)
		})
	}
}

// due tells whether a source is to be reconciled now: it was when the last life ended, its time has
// come, or a gap ended that no run has looked at.
func (s *Service) due(t *Target, f *file, now time.Time) bool {
	switch ended := timeOf(f.state.Ended); {
	case f.state.Run != nil:
		return true
	case t.Config.Every == 0:
		return false
	case f.state.Failed && now.Sub(ended) < againAfter:
		return false
	case ended.IsZero(): // there must be something to ask for
		return min(now.Sub(s.began), now.Sub(timeOf(f.state.Began))) > settleTime+freshTime
	case now.Sub(ended) >= t.Config.Every:
		return true
	}
	gap := false
	for _, g := range s.o.Gaps.List(gaps.Filter{Source: t.Name}) {
		since := now.Sub(g.To)
		if since < settleTime+freshTime {
			return false // it may go on
		}
		gap = gap || g.To.UnixNano() > f.state.Tried
	}
	return gap
}
