package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/store"
	"sluice/shm-abi/shmabi"
)

var errDisk = errors.New("the disk says no")

// stored is one frame in the journal.
type stored struct {
	lane     event.LaneID
	position uint64
	id       event.ID
	frame    shmabi.Frame
}

// journal is a store that does what the test says, and holds every batch against the rules: spans
// only forward, frames in lane order inside them, verified ones only, a failed batch again as it
// was. A stretch that no span covers holds nothing to store; the tests count frames to see that.
type journal struct {
	t testing.TB

	mu      sync.Mutex
	changed *sync.Cond
	held    bool // Append waits
	waiting int  // Appends that wait
	fail    int  // so many Appends fail
	failed  *store.Batch
	groups  []int // frames of each group
	frames  []stored
	reached map[event.LaneID]uint64
	ended   map[event.LaneID]bool
	known   map[recentKey]event.ID
	states  map[event.ID]event.State
	looks   int               // at states
	copied  map[event.ID]bool // by Lay
	// changedBehind tells that a frame is not any more what was judged; nil: none is.
	changedBehind func(shmabi.Frame) bool
	full          bool
	marks         int
	endErr        error
	onEnd         func(event.LaneID)
	onStore       func([]stored) // what is durable now, before Append returns
	work          chan struct{}
}

type recentKey struct {
	source uint32
	key    [16]byte
}

func newJournal(t testing.TB) *journal {
	j := &journal{
		t: t, reached: make(map[event.LaneID]uint64), ended: make(map[event.LaneID]bool),
		known: make(map[recentKey]event.ID), states: make(map[event.ID]event.State),
		work: make(chan struct{}, 1), copied: make(map[event.ID]bool),
	}
	j.changed = sync.NewCond(&j.mu)
	return j
}

func (j *journal) Append(b store.Batch) error {
	before, err := j.append(b)
	if err != nil {
		return err
	}
	j.mu.Lock()
	tell, list := j.onStore, slices.Clone(j.frames[before:])
	j.mu.Unlock()
	if tell != nil {
		tell(list)
	}
	return nil
}

func (j *journal) append(b store.Batch) (before int, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.waiting++
	j.changed.Broadcast()
	for j.held {
		j.changed.Wait()
	}
	j.waiting--
	if err := j.check(b); err != nil {
		j.t.Errorf("a batch that breaks the rules: %v", err)
	}
	if j.fail > 0 {
		j.fail--
		j.failed = &store.Batch{Spans: slices.Clone(b.Spans), Frames: slices.Clone(b.Frames)}
		return 0, fmt.Errorf("%w: %w", store.ErrUnwritable, errDisk)
	}
	j.failed = nil
	before = len(j.frames)
	for _, s := range b.Spans {
		j.reached[s.Lane] = s.To
	}
	for _, raw := range b.Frames {
		f := shmabi.Frame(slices.Clone(raw))
		at := f.D().Position()
		s := stored{position: at, id: f.C().EventID(), frame: f}
		for _, span := range b.Spans {
			if span.From <= at && at < span.To && s.id == event.NewID(span.Lane, at, f.D().ReceivedNS()) {
				s.lane = span.Lane
			}
		}
		if s.lane == (event.LaneID{}) {
			j.t.Errorf("the frame at %d belongs to no span of its batch", at)
		}
		j.frames = append(j.frames, s)
		if key := f.C().DedupKey(); key != ([16]byte{}) {
			k := recentKey{f.D().SourceID(), key}
			if _, ok := j.known[k]; !ok {
				j.known[k] = s.id
			}
		}
	}
	j.groups = append(j.groups, len(b.Frames))
	j.changed.Broadcast()
	return before, nil
}

// Lay notes what it copies, and refuses frames that changed.
func (j *journal) Lay(b *store.Batch) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, f := range b.Frames {
		if j.changedBehind != nil && j.changedBehind(f) {
			return fmt.Errorf("%w: it changed", store.ErrBatch)
		}
	}
	for _, f := range b.Frames {
		j.copied[shmabi.Frame(f).C().EventID()] = true
	}
	return nil
}

// laid tells whether an event was laid out.
func (j *journal) laid(id event.ID) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.copied[id]
}

// check holds a batch against the rules of protocol §3.2.
func (j *journal) check(b store.Batch) error {
	if f := j.failed; f != nil {
		same := slices.Equal(f.Spans, b.Spans) && len(f.Frames) == len(b.Frames)
		for i := range b.Frames {
			same = same && &f.Frames[i][0] == &b.Frames[i][0] && len(f.Frames[i]) == len(b.Frames[i])
		}
		if !same {
			return errors.New("the batch behind a failed one is another one")
		}
	}
	size, next := 0, 0
	for _, span := range b.Spans {
		if span.From < j.reached[span.Lane] || span.To <= span.From {
			return fmt.Errorf("span [%d, %d) where lane %x is durable up to %d",
				span.From, span.To, span.Lane, j.reached[span.Lane])
		}
		at := span.From
		for _, raw := range b.Frames {
			f := shmabi.Frame(raw)
			d := f.D()
			position := d.Position()
			if f.C().EventID() != event.NewID(span.Lane, position, d.ReceivedNS()) {
				continue // of another lane, whose frames may stand between
			}
			if position < at || position+uint64(len(f)) > span.To {
				return fmt.Errorf("the frame at %d of lane %x is not behind %d and before %d",
					position, span.Lane, at, span.To)
			}
			at = position + uint64(len(f))
			next++
		}
	}
	if next != len(b.Frames) {
		return fmt.Errorf("%d of %d frames are in no span", len(b.Frames)-next, len(b.Frames))
	}
	for _, f := range b.Frames {
		size += len(f)
		if state := shmabi.State(shmabi.Frame(f).C().State()); state != shmabi.StateVerified {
			return fmt.Errorf("a frame in state %d was handed over", state)
		}
	}
	for _, f := range b.Frames {
		if !j.copied[shmabi.Frame(f).C().EventID()] {
			return errors.New("a frame was not laid out")
		}
	}
	if size > store.BatchBytesMax && len(b.Frames) > 1 {
		return fmt.Errorf("%d bytes in %d frames", size, len(b.Frames))
	}
	return nil
}

func (j *journal) Work() <-chan struct{} { return j.work }

func (j *journal) Idle() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.marks++
	return nil
}

func (j *journal) Foresee(uint32, [16]byte) {}

func (j *journal) Known(source uint32, key [16]byte, _ int64) (event.ID, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	id, ok := j.known[recentKey{source, key}]
	return id, ok
}

func (j *journal) State(id event.ID) (event.State, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.looks++
	state, ok := j.states[id]
	return state, ok
}

func (j *journal) Space() store.Space {
	j.mu.Lock()
	defer j.mu.Unlock()
	return store.Space{Full: j.full, Writable: j.failed == nil}
}

func (j *journal) EndLane(_ context.Context, id event.LaneID) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.onEnd != nil {
		j.onEnd(id)
	}
	if j.endErr != nil {
		return j.endErr
	}
	j.ended[id] = true
	return nil
}

func (j *journal) Durable() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return uint64(len(j.groups))
}

// set changes what the journal does.
func (j *journal) set(change func(*journal)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change(j)
}

// hold makes Append wait; release lets it go on.
func (j *journal) hold() { j.set(func(j *journal) { j.held = true }) }

func (j *journal) release() {
	j.set(func(j *journal) {
		j.held = false
		j.changed.Broadcast()
	})
}

// failNext makes so many Appends fail from now on.
func (j *journal) failNext(n int) { j.set(func(j *journal) { j.fail = n }) }

// reopen is what the store does at a start: a batch that failed before is not owed any more.
func (j *journal) reopen() { j.set(func(j *journal) { j.failed, j.fail = nil, 0 }) }

// inAppend waits until a batch stands in Append.
func (j *journal) inAppend() {
	j.t.Helper()
	eventually(j.t, "a batch in Append", func() bool {
		j.mu.Lock()
		defer j.mu.Unlock()
		return j.waiting > 0
	})
}

// all is what is stored by now.
func (j *journal) all() []stored {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.frames)
}

// sizes are the numbers of frames of all groups.
func (j *journal) sizes() []int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.groups)
}

func (j *journal) reach(id event.LaneID) uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.reached[id]
}

func (j *journal) hasEnded(id event.LaneID) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.ended[id]
}

// eventually polls a condition until it holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for until := time.Now().Add(30 * time.Second); !holds(); time.Sleep(200 * time.Microsecond) {
		if time.Now().After(until) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
