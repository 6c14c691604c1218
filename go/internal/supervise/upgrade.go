package supervise

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"sluice/go/internal/dataplane"
)

// ErrGivenUp says that an upgrade was given up, since the daemon stops.
var ErrGivenUp = errors.New("the daemon stops")

// Upgrade replaces the data plane: it takes the program and the sockets anew, starts a generation
// beside the one that accepts, and has that one end once the new one accepts. It gives the new
// one's number then; AwaitElders waits for the old one's end. say is called as each step begins.
//
// On an error the old one never noticed anything, and its program, settings and sockets stay those
// by which a crash is mended. One that dies meanwhile is replaced as after any crash, at once, and
// the upgrade fails: its successor may be a program that never comes up.
func (s *Supervisor) Upgrade(ctx context.Context, say func(step string)) (uint32, error) {
	ctx, cancel := s.untilTheEnd(ctx)
	defer cancel()
	err := s.beginAlone(ctx, say)
	if err != nil {
		return 0, s.ended(err)
	}
	defer func() { <-s.starting }()
	before := s.generation()
	if before != nil {
		ctx, cancel = before.whileAlive(ctx)
		defer cancel()
	}
	number, err := s.replace(ctx, say)
	switch {
	case err == nil:
		return number, nil
	case before != nil && before.process.Exit() != "":
		err = fmt.Errorf("data plane %d died before its successor accepted: %w",
			before.process.Generation, err)
	}
	return 0, s.ended(err)
}

// beginAlone waits until no older generation is left, and for the right to start one.
func (s *Supervisor) beginAlone(ctx context.Context, say func(step string)) error {
	for {
		if elders := s.eldersNow(); len(elders) >= eldersMax {
			say(fmt.Sprintf("data plane %d finishes what it has", elders[0].process.Generation))
			if err := s.AwaitElders(ctx); err != nil {
				return err
			}
		}
		if !s.begins(ctx) {
			return ctx.Err()
		}
		if len(s.eldersNow()) < eldersMax {
			return nil
		}
		<-s.starting
	}
}

// ended puts the daemon's end in the place of what it caused.
func (s *Supervisor) ended(err error) error {
	if s.ends() {
		return fmt.Errorf("%w: %w", ErrGivenUp, err)
	}
	return err
}

// ends tells that Stop or Drain was called.
func (s *Supervisor) ends() bool {
	select {
	case <-s.stop:
		return true
	case <-s.drain:
		return true
	default:
		return false
	}
}

// replace starts the next generation of the config in force; the caller may start one.
func (s *Supervisor) replace(ctx context.Context, say func(step string)) (uint32, error) {
	if s.o.Lanes.Orphans() >= orphansMax {
		return 0, errors.New(tooManyOrphans)
	}
	say("look at " + s.o.Binary)
	program, err := dataplane.OpenProgram(s.o.Binary)
	if err != nil {
		return 0, err
	}
	version, err := program.Check(ctx)
	if err != nil {
		program.Close()
		return 0, fmt.Errorf("%w (this is sluice %s)", err, s.o.Version)
	}
	sockets, err := s.o.Open(ctx, s.outfit.rows())
	if err != nil {
		program.Close()
		return 0, err
	}
	next := outfit{program: program, settings: s.o.Settings(), sockets: sockets}
	number := s.number()
	say(fmt.Sprintf("start data plane %d, version %s", number, version))
	before, err := s.launch(ctx, &next, number, say)
	if err != nil {
		sockets.Abandon()
		program.Close()
		return 0, err
	}
	s.outfit.program.Close()
	s.use(next)
	sockets.Settle()
	say(fmt.Sprintf("data plane %d accepts", number))
	if before != nil {
		say(fmt.Sprintf("data plane %d finishes what it has", before.process.Generation))
		s.retire(before)
	}
	return number, nil
}

// AwaitElders waits until no older generation is left. Each is killed when its time is over.
func (s *Supervisor) AwaitElders(ctx context.Context) error {
	for _, g := range s.eldersNow() {
		select {
		case <-g.buried:
		case <-s.stop:
			return ErrGivenUp
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (s *Supervisor) eldersNow() []*generation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.elders)
}
