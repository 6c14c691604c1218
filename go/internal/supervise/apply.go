package supervise

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/go/internal/dataplane"
)

// Apply hands the snapshot in force to the data plane; one that is just being started is waited
// for, since it may have begun under the config before. A refusal is dataplane.ErrRefused, and the
// last good one stays; ErrNone says that the next data plane gets it. One that does not answer is
// killed, and the next one asked: only when that fails as well is the config held to be the cause.
// One that goes on with other sockets than the config wants is replaced.
func (s *Supervisor) Apply(ctx context.Context) error {
	err := s.applyToNext(ctx, nil)
	if failed := (*applyError)(nil); errors.As(err, &failed) {
		err = s.applyToNext(ctx, failed.generation)
	}
	return err
}

// applyError is a data plane that did not answer.
type applyError struct {
	error
	generation *generation
}

func (e *applyError) Unwrap() error { return e.error }

// applyToNext hands the snapshot to the first generation that accepts and is not the one before.
func (s *Supervisor) applyToNext(ctx context.Context, before *generation) error {
	for until := time.Now().Add(nonePatience); ; {
		g := s.generation()
		for ; g == nil || g == before; g = s.generation() {
			if time.Now().After(until) || !s.pause(nonePause) || ctx.Err() != nil {
				return ErrNone
			}
		}
		if g.sockets == nil {
			_, err := s.Upgrade(ctx, func(string) {})
			return err
		}
		err := s.hand(ctx, g, s.o.Snapshot(g.sockets.Names))
		s.mu.Lock()
		stays := s.current == g
		if stays && err == nil {
			s.problem = ""
		}
		s.mu.Unlock()
		switch {
		case err == nil:
			return nil
		case !stays && ctx.Err() == nil:
			continue // what it said was of its end; whatever follows it takes the config at its start
		case errors.Is(err, dataplane.ErrRefused):
			return err
		case s.ends():
			return fmt.Errorf("%w: %w", ErrGivenUp, err)
		}
		// It might take the config later, when it is not in force any more.
		s.o.Log.Error("a data plane does not take a config and is killed",
			"generation", g.process.Generation, "error", err)
		g.process.Kill()
		return &applyError{err, g}
	}
}
