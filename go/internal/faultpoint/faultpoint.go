// Package faultpoint names the places between two steps of the protocol where a test may kill the
// process, so that what a crash there leaves can be looked at.
//
// It is off unless Arm was called, and then costs one atomic load a pass.
package faultpoint

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
)

// Point is a place between two steps.
type Point string

// The points, in the order in which an event passes them.
const (
	IntakeJudged    Point = "intake.judged"    // C lines written, `verified` not stored
	IntakeVerified  Point = "intake.verified"  // `verified` stored, no reply written
	CommitGathered  Point = "commit.gathered"  // the group is put together, nothing written
	CommitDurable   Point = "commit.durable"   // the sync returned, nobody was told
	ReplyWritten    Point = "reply.written"    // a reply lies in the ring, `reply_commit` not stored
	ReplyPublished  Point = "reply.published"  // `reply_commit` stored, `consume` not
	ConsumeReleased Point = "consume.released" // `consume` stored
	AttemptLeased   Point = "attempt.leased"   // a delivery is leased, nothing of it sent
	OutcomeMade     Point = "outcome.made"     // the destination answered, nothing recorded
	OutcomeDurable  Point = "outcome.durable"  // the outcome is in the journal, not in the index
	LaneEnded       Point = "lane.ended"       // LANE-END is durable, the file is still there
)

// All is every point.
var All = []Point{
	IntakeJudged, IntakeVerified, CommitGathered, CommitDurable, ReplyWritten, ReplyPublished,
	ConsumeReleased, AttemptLeased, OutcomeMade, OutcomeDurable, LaneEnded,
}

type armed struct {
	point Point
	left  atomic.Int64
	act   func()
}

var current atomic.Pointer[armed]

// Arm makes the nth pass of a point call act. The text is NAME or NAME:N.
func Arm(text string, act func()) error {
	name, count, found := strings.Cut(text, ":")
	n := int64(1)
	if found {
		var err error
		if n, err = strconv.ParseInt(count, 10, 64); err != nil || n < 1 {
			return fmt.Errorf("fault point %q: want NAME or NAME:N with N at least 1", text)
		}
	}
	for _, p := range All {
		if string(p) == name {
			a := &armed{point: p, act: act}
			a.left.Store(n)
			current.Store(a)
			return nil
		}
	}
	return fmt.Errorf("fault point %q: there is none of that name; there are %v", name, All)
}

// Pass is called where the point is.
func Pass(p Point) {
	if a := current.Load(); a != nil && a.point == p && a.left.Add(-1) == 0 {
		a.act()
	}
}
