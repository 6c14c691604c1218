package tune

import (
	"time"

	"sluice/go/internal/admission"
)

// State is a look at the limit.
type State struct {
	Algorithm       string
	Limit, Min, Max uint64
	// Numbers are those of the last tick.
	Numbers     admission.Numbers
	PinnedUntil time.Time // zero: not pinned
	MaxHeld     uint64
	HoldBudget  time.Duration
	// Changes are the last moves of the limit, newest first, and Decisions counts all by reason.
	Changes   []Change
	Decisions map[admission.Reason]uint64
}

// State looks at the limit.
func (s *Service) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return State{
		Algorithm: s.config.Algorithm, Limit: s.numbers.Limit,
		Min: uint64(s.config.MinLimit), Max: uint64(s.config.MaxLimit),
		Numbers: s.numbers, PinnedUntil: s.pinWall,
		MaxHeld: uint64(s.config.MaxHeld), HoldBudget: s.config.HoldBudget,
		Changes: s.changes.newestFirst(), Decisions: s.changes.byReason(),
	}
}
