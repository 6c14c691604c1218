package tune

import (
	"maps"
	"math"
	"slices"
	"time"

	"sluice/go/internal/admission"
)

const (
	// changesMax is how many changes of the limit are kept.
	changesMax = 64
	// mergeWithin joins moves in one direction for one reason: a controller that climbs moves several
	// times a second.
	mergeWithin = time.Second
	// A move by less than the lesser of these, in slots and of the limit, is not listed until it has
	// added up with those that follow.
	moveMin      = 0.5
	moveShareMin = 0.01
)

// Change is one move of the limit, or several that followed each other for one reason.
type Change struct {
	At       time.Time // of the last of them
	From, To float64
	Reason   admission.Reason
}

// changes keeps the last moves, and counts all decisions by reason.
type changes struct {
	list    []Change // oldest first
	counted map[admission.Reason]uint64
	shown   float64 // the limit as the list has it
}

// told is whether somebody asked for a move: such a one is always listed, and alone.
func told(reason admission.Reason) bool {
	switch reason {
	case admission.ReasonPinned, admission.ReasonReleased, admission.ReasonConfig,
		admission.ReasonRestart:
		return true
	}
	return false
}

// moved notes a decision, after which the limit is base.
func (c *changes) moved(now time.Time, base float64, reason admission.Reason) {
	if c.counted == nil {
		c.counted = make(map[admission.Reason]uint64)
	}
	c.counted[reason]++
	far := math.Abs(base-c.shown) >= min(moveMin, moveShareMin*c.shown)
	if !told(reason) && !far {
		return
	}
	if n := len(c.list); n > 0 && !told(reason) {
		last := &c.list[n-1]
		if last.Reason == reason && now.Sub(last.At) < mergeWithin &&
			(base > c.shown) == (last.To > last.From) {
			last.At, last.To, c.shown = now, base, base
			return
		}
	}
	c.add(now, base, reason)
}

func (c *changes) add(now time.Time, limit float64, reason admission.Reason) {
	if len(c.list) == changesMax {
		c.list = slices.Delete(c.list, 0, 1)
	}
	c.list = append(c.list, Change{At: now, From: c.shown, To: limit, Reason: reason})
	c.shown = limit
}

func (c *changes) newestFirst() []Change {
	list := slices.Clone(c.list)
	slices.Reverse(list)
	return list
}

func (c *changes) byReason() map[admission.Reason]uint64 { return maps.Clone(c.counted) }
