package protect

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sluice/go/internal/breaker"
)

// Look is a breaker as people see it.
type Look struct {
	breaker.Look
	Kind    string   // "destination" or "group"
	Members []string // of a group: its destinations; of a destination: its groups; by name
	// Hosts is how many share it, this one included; 0: it is not shared.
	Hosts int
	Alone bool // it is shared, but the others cannot be heard
}

// look shows a circuit whose lock the caller holds.
func (c *circuit) look(now time.Time) Look {
	l := Look{Look: c.breaker.Look(now), Kind: "destination"}
	if c.group {
		l.Kind = "group"
	}
	if board := c.service.options.Board; board != nil {
		l.Hosts, l.Alone = max(board.Hosts(), 1), board.Alone()
	}
	l.Members = c.members
	return l
}

// List gives all breakers, by name.
func (s *Service) List() []Look {
	circuits := s.all()
	looks := make([]Look, 0, len(circuits))
	for _, c := range circuits {
		c.do(func(_ *breaker.Breaker, now time.Time) { looks = append(looks, c.look(now)) })
	}
	return looks
}

// What Set refuses.
var (
	ErrUnknown  = errors.New("there is no such breaker")
	ErrSetState = errors.New("not a state to set")
)

// Set forces a breaker "open" or "closed", for a span (0: without an end), or lets it go with
// "auto". by is who asks.
func (s *Service) Set(name, state string, span time.Duration, by string) (Look, error) {
	s.mu.Lock()
	c := s.circuits[name]
	names := slices.Sorted(maps.Keys(s.circuits))
	s.mu.Unlock()
	if c == nil {
		return Look{}, fmt.Errorf("%w: %q (there are: %s)", ErrUnknown, name,
			strings.Join(names, ", "))
	}
	if span < 0 {
		return Look{}, fmt.Errorf("%w: a span of %v is negative", ErrSetState, span)
	}
	forced := breaker.Closed
	switch state {
	case "open":
		forced = breaker.Open
	case "closed", "auto":
	default:
		return Look{}, fmt.Errorf("%w: %q, want open, closed or auto", ErrSetState, state)
	}
	var look Look
	var err error
	c.do(func(b *breaker.Breaker, now time.Time) {
		if state == "auto" {
			b.Release(now, by)
		} else {
			until := time.Time{}
			if span > 0 {
				until = now.Add(span)
			}
			err = b.Force(now, forced, until, by)
		}
		look = c.look(now)
	})
	return look, err
}
