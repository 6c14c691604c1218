package store

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"sluice/go/internal/event"
	"sluice/shm-abi/shmabi"
)

// model is what a store is, in maps: no journal, no index, no window, nothing to lose.
type model struct {
	events  map[event.Seq]*modelEvent
	routes  map[uint32][]uint32
	horizon int64
	heads   map[modelKey]*modelDelivery
	leased  map[deliveryID]modelLease
	queued  []event.Outcome
}

// modelLease is of one worker; ended tells that an outcome is on its way.
type modelLease struct {
	term  uint64
	ended bool
}

// modelKey is an ordering key at a destination.
type modelKey struct {
	source, dest uint32
	order        uint64
}

type modelEvent struct {
	Event
	key   [16]byte
	until int64
	order uint64
	dests []*modelDelivery
	tries []event.Outcome
}

const day = int64(24 * time.Hour)

type modelDelivery struct {
	DeliveryState
	next   int64
	blocks bool // a dead letter that keeps its place
	head   bool // of its ordering key, or it has none
}

func newModel(c event.Catalogue) *model {
	m := &model{
		events: map[event.Seq]*modelEvent{}, routes: map[uint32][]uint32{},
		leased: map[deliveryID]modelLease{}, heads: map[modelKey]*modelDelivery{},
	}
	for _, r := range c.Routes {
		m.routes[r.Version] = r.Destinations
	}
	return m
}

func (m *model) seqs() []event.Seq { return slices.Sorted(maps.Keys(m.events)) }

func (m *model) add(seq event.Seq, f shmabi.Frame) {
	d, c := f.D(), f.C()
	view, _ := f.Event()
	received := int64(d.ReceivedNS())
	e := &modelEvent{
		Event: Event{
			Seq: seq, ID: event.ID(c.EventID()), Source: d.SourceID(),
			Received: time.Unix(0, received), Size: uint32(len(view.Body())), Route: c.RouteVersion(),
		},
		key: c.DedupKey(), until: int64(c.DedupUntilNS()), order: c.OrderKey(),
	}
	describe("", f, func(id, kind []byte) { e.ProviderID, e.Type = string(id), string(kind) })
	if first := m.first(e, received); first != nil {
		e.First, e.key = first.ID, [16]byte{}
	} else {
		for _, dest := range m.routes[e.Route] {
			e.dests = append(e.dests, &modelDelivery{
				DeliveryState: DeliveryState{Destination: dest, State: event.Pending},
			})
		}
	}
	m.horizon = max(m.horizon, received)
	m.events[seq] = e
	for _, d := range e.dests {
		m.order(e, d)
	}
	m.open(e, received)
}

// open begins e's window. It takes the place of one that ended before e came, on the same day: that
// one could only matter to a frame that was received before e and comes after it.
func (m *model) open(e *modelEvent, received int64) {
	if e.until <= received {
		e.key = [16]byte{}
	}
	for _, o := range m.events {
		if o != e && o.key == e.key && o.Source == e.Source && o.until/day == e.until/day {
			o.key = [16]byte{}
		}
	}
}

// first is the event that e repeats.
func (m *model) first(e *modelEvent, received int64) (first *modelEvent) {
	if e.key == [16]byte{} {
		return nil
	}
	for _, seq := range m.seqs() {
		o := m.events[seq]
		if o.key == e.key && o.Source == e.Source && o.until > received &&
			o.until/day >= m.horizon/day-1 && (first == nil || o.until < first.until) {
			first = o
		}
	}
	return first
}

// order finds the head of d's ordering key: it stays while it lives, then the first follows.
func (m *model) order(e *modelEvent, d *modelDelivery) {
	if e.order == 0 {
		d.head = true
		return
	}
	d.head = false
	key, places := modelKey{e.Source, d.Destination, e.order}, m.places(e, d.Destination)
	if head := m.heads[key]; head == nil || !head.living() {
		delete(m.heads, key)
		if len(places) > 0 {
			m.heads[key] = places[0]
		}
	}
	for _, p := range places {
		p.head = p == m.heads[key]
	}
}

// places are the deliveries to dest that have one under e's ordering key, in journal order.
func (m *model) places(e *modelEvent, dest uint32) (list []*modelDelivery) {
	for _, seq := range m.seqs() {
		o := m.events[seq]
		if o.order != e.order || o.Source != e.Source {
			continue
		}
		for _, d := range o.dests {
			if d.Destination == dest && (d.living() || d.letter() && d.blocks) {
				list = append(list, d)
			}
		}
	}
	return list
}

func (d *modelDelivery) living() bool {
	return d.State == event.Pending || d.State == event.Retrying
}

func (d *modelDelivery) letter() bool { return d.State == event.DeadLetter && !d.Dropped }

func (m *model) find(seq event.Seq, dest uint32) (*modelEvent, *modelDelivery) {
	e := m.events[seq]
	if e == nil {
		return nil, nil
	}
	for _, d := range e.dests {
		if d.Destination == dest {
			return e, d
		}
	}
	return e, nil
}

// leasable are the deliveries that Lease may give, in journal order.
func (m *model) leasable(dest uint32, now time.Time) (list []event.Seq) {
	for _, seq := range m.seqs() {
		_, d := m.find(seq, dest)
		_, leased := m.leased[deliveryID{seq, dest}]
		if d != nil && d.living() && d.head && d.next <= now.UnixNano() && !leased {
			list = append(list, seq)
		}
	}
	return list
}

// put applies what is queued.
func (m *model) put() {
	for _, o := range m.queued {
		m.apply(o)
	}
	m.queued = nil
}

// finish is Finish: whoever has the delivery now, it is not given out before the outcome is
// applied.
func (m *model) finish(o event.Outcome) {
	m.queued = append(m.queued, o)
	if l, ok := m.leased[deliveryID{o.Seq, o.Destination}]; ok {
		m.leased[deliveryID{o.Seq, o.Destination}] = modelLease{l.term, true}
	}
}

// unlease gives a lease back, if it is the current one.
func (m *model) unlease(d Delivery) {
	id := deliveryID{d.Seq, d.Destination}
	if m.leased[id] == (modelLease{d.term, false}) {
		delete(m.leased, id)
	}
}

func (m *model) apply(o event.Outcome) {
	e, d := m.find(o.Seq, o.Destination)
	if e == nil || d == nil && (o.Kind != event.Replay || !e.First.IsZero()) {
		return
	}
	if d == nil {
		d = &modelDelivery{DeliveryState: DeliveryState{Destination: o.Destination}}
		e.dests = append(e.dests, d)
	}
	switch o.Kind {
	case event.Done, event.Retry, event.Dead, event.Skip:
		if !d.living() {
			return
		}
		if o.Kind != event.Skip {
			d.Attempts = o.Attempt
		}
		d.Code, d.LastError, d.next = o.Code, o.Err, 0
		d.State = map[event.OutcomeKind]event.State{
			event.Done: event.Delivered, event.Retry: event.Retrying, event.Dead: event.DeadLetter,
			event.Skip: event.Delivered,
		}[o.Kind]
		d.blocks = o.Blocks
		if o.Kind == event.Retry {
			d.next = o.Next
		}
	case event.Replay:
		d.State, d.Attempts, d.Dropped, d.next = event.Pending, 0, false, o.Next
	case event.Drop:
		if !d.letter() {
			return
		}
		d.Dropped = true
	}
	d.At = time.Unix(0, o.At)
	e.tries = append(e.tries, o)
	// Who has it and has said nothing yet keeps it while it lives.
	id := deliveryID{o.Seq, o.Destination}
	if l, leased := m.leased[id]; leased && (l.ended || !d.living()) {
		delete(m.leased, id)
	}
	m.order(e, d)
}

// lose is a crash: leases and what was queued are gone.
func (m *model) lose() {
	m.queued = nil
	clear(m.leased)
}

func (e *modelEvent) line() Event {
	out := e.Event
	out.State = event.Delivered
	if !e.First.IsZero() {
		out.State = event.Duplicate
	}
	for _, d := range e.dests {
		out.State = min(out.State, d.State)
		line := d.DeliveryState
		line.Blocked, line.Blocks = d.living() && !d.head, d.letter() && d.blocks
		if d.living() && d.next != 0 {
			line.Next = time.Unix(0, d.next)
		}
		out.Destinations = append(out.Destinations, line)
	}
	return out
}

func (m *model) list(f Filter) (list []Event) {
	seqs := m.seqs()
	if !f.Oldest {
		slices.Reverse(seqs)
	}
	for _, seq := range seqs {
		e := m.events[seq].line()
		if f.Source != 0 && f.Source != e.Source ||
			f.State == 0 && e.State == event.Duplicate && f.ID.IsZero() ||
			f.State != 0 && f.State != e.State ||
			!f.Since.IsZero() && e.Received.Before(f.Since) ||
			!f.Until.IsZero() && !e.Received.Before(f.Until) ||
			!f.ID.IsZero() && f.ID != e.ID ||
			f.Type != "" && f.Type != e.Type || f.ProviderID != "" && f.ProviderID != e.ProviderID {
			continue
		}
		if _, d := m.find(seq, f.Destination); f.Destination != 0 && d == nil {
			continue
		}
		list = append(list, e)
	}
	if f.Limit > 0 {
		list = list[:min(len(list), f.Limit)]
	}
	return list
}

func (m *model) letters(f Filter) (list []DeadLetter) {
	for _, seq := range m.seqs() {
		e := m.events[seq]
		if f.Source != 0 && f.Source != e.Source || !f.ID.IsZero() && f.ID != e.ID ||
			f.Type != "" && f.Type != e.Type || f.ProviderID != "" && f.ProviderID != e.ProviderID {
			continue
		}
		for _, d := range e.dests {
			if d.letter() && (f.Destination == 0 || f.Destination == d.Destination) &&
				(f.Since.IsZero() || !d.At.Before(f.Since)) &&
				(f.Until.IsZero() || d.At.Before(f.Until)) {
				list = append(list, DeadLetter{
					Seq: seq, ID: e.ID, Source: e.Source, Destination: d.Destination,
					Attempts: d.Attempts, Code: d.Code, LastError: d.LastError, At: d.At,
					Blocks: d.blocks,
				})
			}
		}
	}
	slices.SortFunc(list, func(a, b DeadLetter) int {
		return -cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Destination, b.Destination))
	})
	return list
}

// history is an event's outcomes in the order of their times.
func (m *model) history(seq event.Seq) []event.Outcome {
	list := slices.Clone(m.events[seq].tries)
	slices.SortStableFunc(list, func(a, b event.Outcome) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Destination, b.Destination))
	})
	return list
}
