package breaker

import "time"

// Change is one transition.
type Change struct {
	Breaker  string
	From, To State // equal where only the step of HALF_OPEN changed, or who holds it
	Step     int   // of HALF_OPEN
	Reason   string
	At       time.Time
	Until    time.Time // of the cooldown, or of being forced; zero: not known, or no end
	Forced   bool
	Term     uint64
	Host     string // whose transition it is
}

// Moved tells that the state is another one.
func (c Change) Moved() bool { return c.From != c.To }

// Output is what came of the calls since the last Collect.
type Output struct {
	Changes []Change // in their order
	Ended   []Lease
	// Publish tells that Note is news to others.
	Publish bool
	// Wake tells that Room may give more than it did, to all members but Except (0: to all).
	Wake   bool
	Except uint32
}

// Pending tells that Collect has something to give.
func (b *Breaker) Pending() bool {
	o := &b.out
	return o.Wake || o.Publish || len(o.Changes) > 0 || len(o.Ended) > 0
}

// Collect gives the output and begins a new one.
func (b *Breaker) Collect() Output {
	out := b.out
	b.out = Output{}
	return out
}

func (b *Breaker) wake() { b.out.Wake, b.out.Except = true, 0 }

// announce notes a transition of this host's own, for here and for others.
func (b *Breaker) announce(from State) {
	b.term++
	b.told, b.out.Publish = b.host, true
	b.emit(from)
}

func (b *Breaker) emit(from State) {
	n := b.Note()
	b.out.Changes = append(b.out.Changes, Change{
		Breaker: b.name, From: from, To: b.state, Step: n.Step, Reason: b.reason, At: b.now,
		Until: n.Until, Forced: b.forced, Term: b.term, Host: b.told,
	})
}
