package event

import "fmt"

// OutcomeKind is what an attempt, or an operator, made of a delivery.
type OutcomeKind uint8

// The kinds. Done, Dead, Drop and Skip end a delivery; Replay begins it anew.
const (
	Done   OutcomeKind = 1 + iota // the destination took it
	Retry                         // this attempt failed; Next says when the next one is due
	Dead                          // given up: a dead letter
	Replay                        // an operator asked for a new delivery; Next says from when
	Drop                          // an operator gave the dead letter up
	Skip                          // the destination's filter does not want it; ends as Delivered
)

func (k OutcomeKind) String() string {
	switch k {
	case Done:
		return "done"
	case Retry:
		return "retry"
	case Dead:
		return "dead"
	case Replay:
		return "replay"
	case Drop:
		return "drop"
	case Skip:
		return "skip"
	}
	return fmt.Sprintf("outcome(%d)", uint8(k))
}

// Outcome is one recorded fact about the delivery of an event to a destination. Outcomes are
// appended to the journal like events; the index is built from both.
type Outcome struct {
	Seq         Seq
	Destination uint32
	Kind        OutcomeKind
	Attempt     uint16 // 1 for the first; of Replay: 0
	Code        uint16 // the destination's HTTP status; 0 where there was none
	At          int64  // ns since 1970
	Next        int64  // ns since 1970; Retry and Replay only
	Err         string // one line, no body, no secret; cut to ErrMax bytes
	By          string // Replay and Drop: who asked
	// Blocks, of Dead only: what comes later under the same ordering key waits until an operator
	// replays or drops this one.
	Blocks bool
	// Copied tells that it was recorded before, and comes again with its event, which was copied
	// forward in the same group: it counts only where the event is known by that copy alone.
	Copied bool
}

// ErrMax bounds Outcome.Err and Outcome.By in bytes.
const ErrMax = 256

// State is where a delivery, or a whole event, stands.
type State uint8

// The states, from least to most finished; an event's is its least finished destination's.
const (
	Pending State = 1 + iota
	Retrying
	DeadLetter
	Delivered
	Duplicate
)

func (s State) String() string {
	switch s {
	case Pending:
		return "pending"
	case Retrying:
		return "retrying"
	case DeadLetter:
		return "dead"
	case Delivered:
		return "delivered"
	case Duplicate:
		return "duplicate"
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// ParseState reads what State.String writes.
func ParseState(text string) (State, error) {
	for s := Pending; s <= Duplicate; s++ {
		if s.String() == text {
			return s, nil
		}
	}
	return 0, fmt.Errorf("state %q: want pending, retrying, delivered, dead or duplicate", text)
}

// Route says where events of a source go. Versions only grow; one is never changed once used.
type Route struct {
	Version      uint32   `json:"version"`
	Source       uint32   `json:"source"`
	Destinations []uint32 `json:"destinations"`
}

// Named is a name with the number that frames and outcomes carry. Numbers are assigned once and
// never used again, even when the name is gone from the config.
type Named struct {
	ID   uint32 `json:"id"`
	Name string `json:"name"`
}

// Catalogue is every name that a durable record may mention. A CONFIG record holds it whole, so
// that the journal alone can rebuild everything.
type Catalogue struct {
	ConfigVersion uint32  `json:"config_version"`
	Sources       []Named `json:"sources"`
	Destinations  []Named `json:"destinations"`
	Routes        []Route `json:"routes"`
}

// Route finds a route version.
func (c *Catalogue) Route(version uint32) (Route, bool) {
	for _, r := range c.Routes {
		if r.Version == version {
			return r, true
		}
	}
	return Route{}, false
}

// SourceName is the name of a source id, or "source-N" for one that no config named.
func (c *Catalogue) SourceName(id uint32) string { return nameOf(c.Sources, id, "source") }

// DestinationName is the name of a destination id, or "destination-N".
func (c *Catalogue) DestinationName(id uint32) string {
	return nameOf(c.Destinations, id, "destination")
}

func nameOf(list []Named, id uint32, kind string) string {
	for _, n := range list {
		if n.ID == id {
			return n.Name
		}
	}
	return fmt.Sprintf("%s-%d", kind, id)
}
