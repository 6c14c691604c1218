package breaker

import (
	"cmp"
	"fmt"
	"time"
)

// State is where a breaker stands.
type State uint8

// The states.
const (
	Closed   State = iota // everything passes
	Open                  // queue-only: nothing passes
	HalfOpen              // one probe, then the ramp, until the backlog is gone
)

func (s State) String() string {
	switch s {
	case Closed:
		return "closed"
	case Open:
		return "open"
	case HalfOpen:
		return "half_open"
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// ParseState reads what State.String writes.
func ParseState(text string) (State, error) {
	for s := Closed; s <= HalfOpen; s++ {
		if s.String() == text {
			return s, nil
		}
	}
	return 0, fmt.Errorf("breaker state %q: want closed, open or half_open", text)
}

// Level is what one signal says of a destination, or of what it depends on, at one time.
type Level struct {
	Signal  string  // its name in the config, as "pool" or "locks"
	Value   float64 // in the signal's own unit
	Trip    float64 // at or above it the destination is sick
	Recover float64 // below it the destination is well; between the two it is neither
	// For is how long it must be sick without a break before that trips; 0: at once.
	For time.Duration
	// Pool tells that Value is the used share of a pool, 0 to 1, which also bounds the ramp.
	Pool bool
}

// Note is what hosts that share a breaker tell each other.
type Note struct {
	Breaker string
	Host    string // who says so
	State   State
	// Term orders notes: each transition makes a larger one. See Compare for equal ones.
	Term   uint64
	Reason string
	At     time.Time
	// Until is the end of the cooldown, of Open; with Forced the end of that, zero for none.
	Until time.Time
	// Cooldown is the present one, so that another host doubles from the same.
	Cooldown time.Duration
	// Step is the place in the ramp, of HalfOpen; 0 is the probe.
	Step int
	// Forced tells that an operator holds it there.
	Forced bool
}

// Compare is positive when n counts rather than o: by Term, then the more cautious of the two (what
// an operator forced, OPEN, the lower step, CLOSED), then the later Host in byte order.
func (n Note) Compare(o Note) int {
	return cmp.Or(cmp.Compare(n.Term, o.Term), cmp.Compare(n.caution(), o.caution()),
		cmp.Compare(n.Host, o.Host))
}

func (n Note) caution() int {
	const forced, open = 1 << 30, 1 << 29 // above any step
	switch {
	case n.Forced:
		return forced
	case n.State == Open:
		return open
	case n.State == HalfOpen:
		return open - 1 - max(n.Step, 0)
	}
	return 0
}
