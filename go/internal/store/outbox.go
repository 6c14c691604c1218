package store

import (
	"sync"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/store/journal"
)

const (
	// ownBytesMax bounds what the store adds to a group of frames.
	ownBytesMax = 512 << 10
	// outcomeBytes is what an outcome takes in a group, its texts apart.
	outcomeBytes = 64
	// laneEndBytes is what the end of a lane takes.
	laneEndBytes = 192
	// outcomePause is how long outcomes that nobody waits for may gather before they ask for a
	// group of their own: a write of ten costs as much as one of a hundred. They ride the next
	// group of frames in any case.
	outcomePause = 5 * time.Millisecond
	// outcomesMany of them are enough for a group at once.
	outcomesMany = 256
)

// outbox is what the store itself wants in the next group. Things stay in it until they are
// durable.
type outbox struct {
	mu        sync.Mutex
	outcomes  []event.Outcome
	waits     []*ticket // of the outcome at the same place; nil: nobody waits
	hurried   int       // of the outcomes in front, up to the last one that something waits for
	gathering bool      // a timer will ask for a group
	ends      []laneEnd
	catalogue *newCatalogue
	rescues   []rescue
	carried   []carried
	work      chan struct{}
}

// rescue is an event that goes to the end of the journal, so that its segment may go, with what
// became of it until then.
type rescue struct {
	journal.Rescue
	history []event.Outcome
	wait    *ticket
}

// carried is what goes to the end of the journal about events that go.
type carried struct {
	*journal.Carried
	wait *ticket
}

type laneEnd struct {
	lane event.LaneID
	wait *ticket
}

// newCatalogue replaces one that is still queued, and takes its waiters over.
type newCatalogue struct {
	text  []byte
	waits []*ticket
}

// ticket is a wait until a number of things is durable and applied.
type ticket struct {
	left int
	done chan struct{}
}

// parcel is what one group takes along.
type parcel struct {
	outcomes  []event.Outcome
	ends      []event.LaneID
	catalogue *newCatalogue
	rescues   []journal.Rescue
	history   []event.Outcome // of the rescues
	carried   *journal.Carried
}

func (p *parcel) empty() bool {
	return len(p.outcomes) == 0 && len(p.ends) == 0 && p.catalogue == nil &&
		len(p.rescues) == 0 && p.carried == nil
}

func (p *parcel) config() []byte {
	if p.catalogue == nil {
		return nil
	}
	return p.catalogue.text
}

func (o *outbox) waiting() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.holds()
}

func (o *outbox) holds() bool {
	return len(o.outcomes) > 0 || o.presses()
}

// presses tells whether there is something that waits for no more of its kind.
func (o *outbox) presses() bool {
	return o.hurried > 0 || len(o.ends) > 0 || o.catalogue != nil || len(o.rescues) > 0 ||
		len(o.carried) > 0
}

func (o *outbox) addRescues(list []rescue, wait *ticket) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range list {
		r.wait = wait
		o.rescues = append(o.rescues, r)
	}
	wait.left += len(list)
	notify(o.work)
}

func (o *outbox) addCarried(list []*journal.Carried, wait *ticket) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range list {
		o.carried = append(o.carried, carried{c, wait})
	}
	wait.left += len(list)
	notify(o.work)
}

// addOutcomes queues outcomes. hurry tells that something waits for them, as a ticket always does.
func (o *outbox) addOutcomes(list []event.Outcome, wait *ticket, hurry bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.outcomes = append(o.outcomes, list...)
	for range list {
		o.waits = append(o.waits, wait)
	}
	if wait != nil {
		wait.left += len(list)
	}
	if hurry || wait != nil {
		o.hurried = len(o.outcomes)
		notify(o.work)
		return
	}
	o.gather() // others that hurry have asked already
}

// call asks the committer for a group of what is left.
func (o *outbox) call() {
	if o.presses() {
		notify(o.work)
		return
	}
	o.gather()
}

// gather asks for a group when there are many outcomes, or when they have gathered for a while.
func (o *outbox) gather() {
	switch {
	case len(o.outcomes) >= outcomesMany:
		notify(o.work)
	case len(o.outcomes) > 0 && !o.gathering:
		o.gathering = true
		time.AfterFunc(outcomePause, func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.gathering = false
			if o.holds() {
				notify(o.work)
			}
		})
	}
}

func (o *outbox) addEnd(lane event.LaneID, wait *ticket) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ends = append(o.ends, laneEnd{lane, wait})
	wait.left++
	notify(o.work)
}

func (o *outbox) setCatalogue(text []byte, wait *ticket) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := &newCatalogue{text: text, waits: []*ticket{wait}}
	if o.catalogue != nil {
		c.waits = append(c.waits, o.catalogue.waits...)
	}
	wait.left++
	o.catalogue = c
	notify(o.work)
}

// take gives what fits into room bytes. A catalogue goes alone if it must; rescues, and what else
// is carried forward, go only when nothing comes from the lanes.
func (o *outbox) take(room int, lanes bool) (p parcel) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !lanes {
		size := 0
		for _, r := range o.rescues {
			size += len(r.Frame) + outcomesBytes(r.history)
			if size > rescueBytesMax && len(p.rescues) > 0 {
				break
			}
			p.rescues = append(p.rescues, r.Rescue)
			p.history = append(p.history, r.history...)
		}
		if len(p.rescues) == 0 && len(o.carried) > 0 {
			p.carried = o.carried[0].Carried
		}
	}
	if c := o.catalogue; c != nil && (len(c.text) < room || room == ownBytesMax) {
		p.catalogue, room = c, room-len(c.text)
	}
	for i := 0; i < len(o.ends) && room >= laneEndBytes; i++ {
		p.ends, room = append(p.ends, o.ends[i].lane), room-laneEndBytes
	}
	n := 0
	for ; n < len(o.outcomes); n++ {
		next := &o.outcomes[n]
		if room -= outcomeBytes + len(next.Err) + len(next.By); room < 0 {
			break
		}
	}
	p.outcomes = o.outcomes[:n:n]
	return p
}

// outcomesBytes is what outcomes take in a group.
func outcomesBytes(list []event.Outcome) (size int) {
	for i := range list {
		size += outcomeBytes + len(list[i].Err) + len(list[i].By)
	}
	return size
}

// sent takes a parcel that is durable out and gives the tickets that it fulfils.
func (o *outbox) sent(p parcel) (fulfilled []*ticket) {
	o.mu.Lock()
	defer o.mu.Unlock()
	stamp := func(t *ticket) {
		if t == nil {
			return
		}
		if t.left--; t.left == 0 {
			fulfilled = append(fulfilled, t)
		}
	}
	for _, t := range o.waits[:len(p.outcomes)] {
		stamp(t)
	}
	o.waits = o.waits[len(p.outcomes):]
	o.outcomes = o.outcomes[len(p.outcomes):]
	o.hurried = max(o.hurried-len(p.outcomes), 0)
	for _, e := range o.ends[:len(p.ends)] {
		stamp(e.wait)
	}
	o.ends = o.ends[len(p.ends):]
	if c := p.catalogue; c != nil {
		for _, t := range c.waits {
			stamp(t)
		}
		if o.catalogue == c {
			o.catalogue = nil
		} else { // replaced meanwhile; its waiters are served
			o.catalogue.waits = o.catalogue.waits[:1]
		}
	}
	for _, r := range o.rescues[:len(p.rescues)] {
		stamp(r.wait)
	}
	o.rescues = o.rescues[len(p.rescues):]
	if p.carried != nil {
		stamp(o.carried[0].wait)
		o.carried = o.carried[1:]
	}
	o.call()
	return fulfilled
}

// takeRetries takes the outcomes out that may be lost: a retry that is not recorded costs an
// attempt more, no event.
func (o *outbox) takeRetries() (retries []event.Outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var kept []event.Outcome
	var waits []*ticket
	for i, out := range o.outcomes {
		if out.Kind == event.Retry && o.waits[i] == nil {
			retries = append(retries, out)
			continue
		}
		kept, waits = append(kept, out), append(waits, o.waits[i])
	}
	o.outcomes, o.waits = kept, waits
	o.hurried = min(o.hurried, len(kept))
	return retries
}
