package ingest

import (
	"container/heap"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/go/internal/destination"
	"sluice/go/internal/event"
	"sluice/go/internal/lane"
	"sluice/shm-abi/shmabi"
)

const (
	// waitsMax bounds the senders that wait for a delivery. They are bounded by the connections
	// already; who comes beyond it is told 202.
	waitsMax = 1 << 16
	// answerBytesMax bounds what is kept of destinations' answers until they leave. One beyond it is
	// not passed on.
	answerBytesMax = 64 << 20
	// answerMargin is how long before the data plane's 503 our own answer leaves.
	answerMargin = 20 * time.Millisecond
)

// wait is a sender that is answered when its event was delivered. It is *decided* when its answer
// is known and *stored* when its frame is durable; the answer leaves when it is both, and which of
// the two comes first does not matter. waits.mu guards what changes.
type wait struct {
	feed     *feed
	id       event.ID
	token    uint64
	seq      uint32
	position uint64
	until    uint64 // boot clock, ns: the data plane's 503
	passes   uint32 // destination whose answer is the sender's; 0: of none
	degraded func() bool

	first  event.ID            // the event that this one repeats; zero: none that we know of
	open   []uint32            // destinations that are not through with it
	answer *destination.Answer // of passes
	ends   uint64              // boot clock, ns: our own answer leaves
	place  int                 // in waits.ends

	stored, decided, over bool

	reply lane.Reply // once it is decided
}

// waits is all of them. Its lock is taken inside a feed's, never around one.
type waits struct {
	mu        sync.Mutex
	undecided map[event.ID]*wait
	ends      earliest // the undecided
	wakes     uint64   // boot clock, ns: when due is called without a signal
	repeats   []event.ID
	count     int // of all, until their answers are in a reply ring
	bytes     int // of answers kept

	few     atomic.Int64  // len(undecided), for a look without the lock
	changed chan struct{} // one ends before wakes
	repeat  chan struct{} // there are repeats
}

func newWaits() *waits {
	return &waits{
		undecided: make(map[event.ID]*wait), wakes: math.MaxUint64,
		changed: make(chan struct{}, 1), repeat: make(chan struct{}, 1),
	}
}

// add begins a wait; false: its budget is over or not known, or there are too many.
func (s *waits) add(w *wait, now uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.until <= now || s.count >= waitsMax || s.undecided[w.id] != nil {
		return false
	}
	w.ends = w.until - min(uint64(answerMargin), (w.until-now)/2)
	s.count++
	s.undecided[w.id] = w
	heap.Push(&s.ends, w)
	s.few.Store(int64(len(s.undecided)))
	if w.ends < s.wakes {
		s.wakes = w.ends
		signal(s.changed)
	}
	return true
}

// has tells whether a sender waits for an event, and whether a destination's answer is for it.
func (s *waits) has(id event.ID) (waits, passes bool) {
	if s.few.Load() == 0 {
		return false, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.undecided[id]
	return w != nil, w != nil && w.passes != 0
}

// conclude takes note of an attempt. It gives the wait whose answer may leave now, or nil.
func (s *waits) conclude(c Conclusion) *wait {
	if s.few.Load() == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.undecided[c.ID]
	if w == nil {
		return nil
	}
	at := slices.Index(w.open, c.Destination)
	if at < 0 {
		return nil
	}
	switch c.Kind {
	case event.Retry:
		return s.decide(w, w.queued())
	case event.Done, event.Skip, event.Dead:
		if c.Destination == w.passes && s.keeps(w, c) {
			w.answer = c.Answer
			s.bytes += len(c.Answer.Body)
		}
		if w.open = slices.Delete(w.open, at, at+1); len(w.open) == 0 {
			return s.decide(w, w.delivered())
		}
	}
	return nil // an operator's doing says nothing about the delivery
}

// keeps tells whether an answer can be passed on.
func (s *waits) keeps(w *wait, c Conclusion) bool {
	a := c.Answer
	if a == nil || strings.ContainsAny(a.ContentType, "\r\n") ||
		s.bytes+len(a.Body) > answerBytesMax || len(headLines(a.ContentType, nil))+len(a.Body) >
		w.feed.judge.answerMax {
		return false
	}
	if c.Kind == event.Dead {
		return a.Status >= 400 && a.Status <= 599
	}
	return a.Status >= 200 && a.Status <= 299
}

// give ends the wait for one event with 202; nil: there is none, or its frame is not durable yet.
func (s *waits) give(id event.ID) *wait {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.undecided[id]; w != nil {
		return s.decide(w, w.queued())
	}
	return nil
}

// opened ends all waits for a destination with 202, and gives those whose answers may leave.
func (s *waits) opened(to uint32) (ready []*wait) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.undecided {
		if slices.Contains(w.open, to) && s.decide(w, w.queued()) != nil {
			ready = append(ready, w)
		}
	}
	return ready
}

// due ends with 202 what has waited as long as it may, and gives those whose answers may leave.
// left is until the next one ends, if there is one.
func (s *waits) due(now uint64) (ready []*wait, left time.Duration, any bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.ends) > 0 {
		w := s.ends[0]
		if w.ends > now {
			s.wakes = w.ends
			return ready, time.Duration(min(w.ends-now, uint64(time.Hour))), true
		}
		if s.decide(w, w.queued()) != nil {
			ready = append(ready, w)
		}
	}
	s.wakes = math.MaxUint64
	return ready, 0, false
}

// repeated takes note that an event repeats another one, which is looked up later.
func (s *waits) repeated(id, first event.ID) {
	if s.few.Load() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.undecided[id]
	if w == nil || !w.first.IsZero() {
		return
	}
	w.first = first
	s.repeats = append(s.repeats, id)
	signal(s.repeat)
}

// nextRepeat gives a repeat to look up.
func (s *waits) nextRepeat() (id, first event.ID, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.repeats) > 0 {
		id, s.repeats = s.repeats[0], s.repeats[1:]
		if w := s.undecided[id]; w != nil {
			return id, w.first, true
		}
	}
	s.repeats = nil
	return id, first, false
}

// same ends the wait of a repeat whose first was delivered.
func (s *waits) same(id event.ID) *wait {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.undecided[id]; w != nil {
		return s.decide(w, lane.Reply{Kind: shmabi.ReplyDuplicate, Code: 200, EventID: w.first})
	}
	return nil
}

// decide fixes an undecided wait's answer and gives it if that may leave.
func (s *waits) decide(w *wait, r lane.Reply) *wait {
	delete(s.undecided, w.id)
	heap.Remove(&s.ends, w.place)
	s.few.Store(int64(len(s.undecided)))
	r.Token, r.Seq, r.Position = w.token, w.seq, w.position
	w.reply, w.decided = r, true
	if w.stored {
		return w
	}
	return nil
}

// store takes note that a wait's frame is durable, and tells whether its answer may leave.
func (s *waits) store(w *wait) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.stored = true
	return w.decided && !w.over
}

// end is for one whose answer is in the ring, or that nobody waits for any more.
func (s *waits) end(w *wait) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.over {
		return
	}
	w.over = true
	if !w.decided {
		s.decide(w, lane.Reply{})
	}
	if w.answer != nil {
		s.bytes -= len(w.answer.Body)
	}
	w.answer, w.reply.Body = nil, nil
	s.count--
}

// queued is 202: durable, and will be delivered.
func (w *wait) queued() lane.Reply {
	id := w.id
	if !w.first.IsZero() {
		id = w.first
	}
	return lane.Reply{Kind: shmabi.ReplyQueued, Code: 202, EventID: id}
}

// delivered is the answer when all destinations are through: the one of the first listed, where it
// is the sender's and could be kept, else 200.
func (w *wait) delivered() lane.Reply {
	r := lane.Reply{Kind: shmabi.ReplyAccepted, Code: 200, EventID: w.id}
	if a := w.answer; a != nil {
		r.Kind, r.Code = shmabi.ReplyInline, uint16(a.Status)
		r.Head, r.Body = headLines(a.ContentType, nil), a.Body
	}
	return r
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// earliest is a heap of waits, the one that ends next first.
type earliest []*wait

func (h earliest) Len() int           { return len(h) }
func (h earliest) Less(i, j int) bool { return h[i].ends < h[j].ends }
func (h earliest) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push appends a *wait.
func (h *earliest) Push(x any) {
	w := x.(*wait)
	w.place = len(*h)
	*h = append(*h, w)
}

// Pop takes the last one.
func (h *earliest) Pop() any {
	last := len(*h) - 1
	w := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return w
}
