// Package gameday is the board on which an operator sets faults for a game day: which points there
// are, how each can fail, what is in force and until when.
//
// It makes nothing fail itself: each kind of fault brings the functions that do. It is kept in
// memory only, so a restart begins without any fault.
package gameday

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// SpanMax bounds how long a fault may last that ends by itself.
const SpanMax = 24 * time.Hour

// ErrNotNow is wrapped by an error of a kind that cannot be set in the daemon's present state; all
// other errors are the caller's.
var ErrNotNow = errors.New("not now")

// Point is a place where things can fail.
type Point struct {
	Name  string
	Kinds []Kind
}

// Kind is one way to fail.
type Kind struct {
	Name string
	// Argument is what it takes, in capitals; empty: nothing.
	Argument string
	// Span is how long it lasts where nobody says; 0: until it is cleared.
	Span time.Duration
	// Once tells that it is over when Set returns. It has no span and is never in force.
	Once bool
	// Set makes it fail, in place of what was set before, and gives the argument as it is shown.
	Set func(argument string) (string, error)
	// Clear ends it; not called for what is done once.
	Clear func()
	// Met counts what met the fault; nil: nothing is counted.
	Met func() uint64
}

// Fault is one that is in force.
type Fault struct {
	Point, Kind, Argument string
	Until                 time.Time // zero: until it is cleared
	Met                   uint64
}

// String is the fault as it is set, with its end.
func (f Fault) String() string {
	text := strings.TrimSuffix(f.Point+" "+f.Kind+" "+f.Argument, " ")
	if f.Until.IsZero() {
		return "fault " + text + " is set"
	}
	return "fault " + text + " is set until " + f.Until.UTC().Format(time.RFC3339)
}

// Board holds the faults in force: one for each point and kind. Its methods may be called from any
// goroutine.
type Board struct {
	points []Point

	mu     sync.Mutex
	set    []*armed // in the order of the points
	closed bool
}

type armed struct {
	place    int // in the order of points and kinds
	point    *Point
	kind     *Kind
	argument string
	until    time.Time
	timer    *time.Timer // nil: it does not end by itself
}

// NewBoard makes a board of points, which it keeps.
func NewBoard(points []Point) *Board { return &Board{points: points} }

// Faults are those in force, in the order of the points.
func (b *Board) Faults() []Fault {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]Fault, 0, len(b.set))
	for _, a := range b.set {
		f := Fault{Point: a.point.Name, Kind: a.kind.Name, Argument: a.argument, Until: a.until}
		if a.kind.Met != nil {
			f.Met = a.kind.Met()
		}
		list = append(list, f)
	}
	return list
}

// Set puts a fault in force for a span; 0 is the kind's own. It replaces one of the same kind at
// the same point; kinds of one point hold together.
func (b *Board) Set(point, kind, argument string, span time.Duration) error {
	p, k, place, err := b.find(point, kind)
	if err != nil {
		return err
	}
	if err := k.check(p, argument, span); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return fmt.Errorf("%w: the daemon is stopping", ErrNotNow)
	}
	shown, err := k.Set(argument)
	if err != nil {
		return fmt.Errorf("%s %s: %w", point, kind, err)
	}
	if k.Once {
		return nil
	}
	if span == 0 {
		span = k.Span
	}
	b.drop(place)
	a := &armed{place: place, point: p, kind: k, argument: shown}
	if span > 0 {
		a.until = time.Now().Add(span)
		a.timer = time.AfterFunc(span, func() { b.expire(a) })
	}
	at, _ := slices.BinarySearchFunc(b.set, place, func(a *armed, place int) int {
		return a.place - place
	})
	b.set = slices.Insert(b.set, at, a)
	return nil
}

// check is for what the caller can get wrong before anything is asked of the kind.
func (k *Kind) check(p *Point, argument string, span time.Duration) error {
	name := p.Name + " " + k.Name
	switch {
	case k.Argument == "" && argument != "":
		return fmt.Errorf("%s takes no argument, not %q", name, argument)
	case k.Argument != "" && argument == "":
		return fmt.Errorf("%s takes an argument: %s %s", name, name, k.Argument)
	case span < 0 || span > SpanMax:
		return fmt.Errorf("a fault lasts for up to %v, not for %v", SpanMax, span)
	case k.Once && span != 0:
		return fmt.Errorf("%s is over at once and cannot last for %v", name, span)
	}
	return nil
}

// find names what there is where there is none of that name.
func (b *Board) find(point, kind string) (*Point, *Kind, int, error) {
	place := 0
	var points []string
	for i := range b.points {
		p := &b.points[i]
		if p.Name != point {
			points = append(points, p.Name)
			place += len(p.Kinds)
			continue
		}
		var kinds []string
		for j := range p.Kinds {
			if k := &p.Kinds[j]; k.Name == kind {
				return p, k, place + j, nil
			}
			kinds = append(kinds, strings.TrimSuffix(p.Kinds[j].Name+" "+p.Kinds[j].Argument, " "))
		}
		return nil, nil, 0, fmt.Errorf("%s has no kind of fault %q; it has %s",
			point, kind, strings.Join(kinds, ", "))
	}
	return nil, nil, 0, fmt.Errorf("there is no fault point %q; there are %s",
		point, strings.Join(points, ", "))
}

// Clear ends the faults of a point; "": all. A point without any is no error.
func (b *Board) Clear(point string) error {
	if point != "" && !slices.ContainsFunc(b.points, func(p Point) bool { return p.Name == point }) {
		_, _, _, err := b.find(point, "")
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range slices.Clone(b.set) {
		if point == "" || a.point.Name == point {
			b.drop(a.place)
			a.kind.Clear()
		}
	}
	return nil
}

// Close ends all faults and takes no more.
func (b *Board) Close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	_ = b.Clear("") // all is no unknown point
}

func (b *Board) expire(a *armed) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if slices.Contains(b.set, a) { // not if another took its place meanwhile
		b.drop(a.place)
		a.kind.Clear()
	}
}

// drop takes what is set at a place off the board; it does not end it.
func (b *Board) drop(place int) {
	b.set = slices.DeleteFunc(b.set, func(a *armed) bool {
		if a.place != place {
			return false
		}
		if a.timer != nil {
			a.timer.Stop()
		}
		return true
	})
}
