package supervise

import (
	"context"
	"fmt"
	"time"
)

// watch replaces generations that die.
func (s *Supervisor) watch() {
	defer close(s.done)
	backoff := time.Duration(0)
	for {
		if g := s.generation(); g != nil {
			select {
			case <-s.stop:
				return
			case <-g.replaced: // by an upgrade, which buries it
				continue
			case <-g.process.Done():
			}
			if !s.bury(g) {
				continue
			}
			if s.isDraining() {
				return
			}
			s.o.Log.Error("the data plane died; a new one is started",
				"generation", g.process.Generation, "exit", g.process.Exit())
			if time.Since(g.born) > steadyAfter {
				backoff = 0
			}
		}
		if !s.pause(backoff) {
			if s.isDraining() && s.generation() != nil {
				continue // an upgrade was faster, and what it started is to be buried
			}
			return
		}
		for s.o.Lanes.Orphans() >= orphansMax {
			s.complain(tooManyOrphans)
			if !s.pause(orphansPause) {
				return
			}
		}
		if err := s.relaunch(); err != nil {
			s.complain(err.Error())
			s.o.Log.Error("no data plane", "error", err)
		}
		backoff = min(max(2*backoff, backoffMin), backoffMax)
	}
}

var tooManyOrphans = fmt.Sprintf("%d dead data planes are not drained yet", orphansMax)

// bury lays the current generation to rest; false: it is not the current one any more.
func (s *Supervisor) bury(g *generation) bool {
	s.mu.Lock()
	if s.current != g {
		s.mu.Unlock()
		return false
	}
	s.current, s.problem = nil, "the data plane ended: "+g.process.Exit()
	if !s.draining {
		s.restarts++
	}
	s.mu.Unlock()
	s.lay(g)
	return true
}

// relaunch mends a death with what the dead one had, unless an upgrade did meanwhile.
func (s *Supervisor) relaunch() error {
	ctx, cancel := s.untilTheEnd(context.Background())
	defer cancel()
	if !s.begins(ctx) {
		return nil // the next pause ends the watch
	}
	defer func() { <-s.starting }()
	if s.generation() != nil {
		return nil
	}
	if s.outfit.sockets == nil {
		if err := s.openSockets(ctx); err != nil {
			return err
		}
	}
	_, err := s.launch(ctx, &s.outfit, s.number(), func(string) {})
	return err
}

// begins waits for the right to start a generation; false: ctx ended first.
func (s *Supervisor) begins(ctx context.Context) bool {
	select {
	case s.starting <- struct{}{}:
		if ctx.Err() == nil {
			return true
		}
		<-s.starting
	case <-ctx.Done():
	}
	return false
}

// untilTheEnd is a context that ends with Stop and Drain as well.
func (s *Supervisor) untilTheEnd(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		select {
		case <-s.stop:
		case <-s.drain:
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// pause is false when there is nothing to wait for any more.
func (s *Supervisor) pause(d time.Duration) bool {
	select {
	case <-s.stop:
		return false
	case <-s.drain:
		return false
	default:
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-s.stop:
		return false
	case <-s.drain:
		return false
	case <-timer.C:
		return true
	}
}
