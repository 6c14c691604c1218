package protect

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/go/internal/breaker"
	"sluice/go/internal/destination"
	"sluice/go/internal/event"
)

// backend is a destination whose health a test sets.
type backend struct {
	mu       sync.Mutex
	down     bool
	hangs    time.Duration // before it answers
	inflight int
	most     int
	attempts []time.Time
}

func (d *backend) set(down bool) {
	d.mu.Lock()
	d.down = down
	d.mu.Unlock()
}

func (d *backend) deliver() destination.Result {
	d.mu.Lock()
	d.attempts = append(d.attempts, time.Now())
	d.inflight++
	d.most = max(d.most, d.inflight)
	hangs, down := d.hangs, d.down
	d.mu.Unlock()
	time.Sleep(hangs)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inflight--
	if down {
		return destination.Failure(errors.New("connect: refused"))
	}
	return destination.Delivery(200)
}

func (d *backend) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.attempts)
}

// peak checks how many were in flight at once since forget.
func (d *backend) peak(t *testing.T, most int) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.most > most || d.most == 0 {
		t.Errorf("%d at once, at most %d may be", d.most, most)
	}
}

func (d *backend) forget() {
	d.mu.Lock()
	d.most = 0
	d.mu.Unlock()
}

// since gives the attempts from then on.
func (d *backend) since(from time.Time) []time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []time.Time
	for _, at := range d.attempts {
		if !at.Before(from) {
			list = append(list, at)
		}
	}
	return list
}

// runner does with a gate what delivery does: what fails is due again at once.
type runner struct {
	gate    *Gate
	to      *backend
	due     chan struct{}
	ended   chan struct{}
	mu      sync.Mutex
	queue   int
	flying  int
	asked   int // calls of Admit
	limit   int
	pending sync.WaitGroup
}

func run(t *testing.T, g *Gate, to *backend, events int) *runner {
	r := &runner{
		gate: g, to: to, due: make(chan struct{}, 1), ended: make(chan struct{}), queue: events,
		limit: 8,
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.loop()
	}()
	t.Cleanup(func() {
		close(r.ended)
		<-done
		r.pending.Wait()
	})
	return r
}

func (r *runner) add(n int) {
	r.mu.Lock()
	r.queue += n
	r.mu.Unlock()
	r.wake()
}

func (r *runner) wake() {
	select {
	case r.due <- struct{}{}:
	default:
	}
}

func (r *runner) left() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.queue + r.flying
}

func (r *runner) calls() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

func (r *runner) loop() {
	for {
		timer := time.NewTimer(r.fill())
		select {
		case <-r.ended:
			return
		case <-r.due:
		case <-r.gate.Changed():
		case <-timer.C:
		}
	}
}

func (r *runner) fill() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	room := r.limit - r.flying
	if room <= 0 {
		return time.Minute
	}
	r.asked++
	admitted, wait := r.gate.Admit(time.Now(), room)
	leased := min(admitted, r.queue)
	if admitted > leased {
		r.gate.Withdraw(admitted - leased)
		r.gate.Drained(time.Now())
	}
	r.queue -= leased
	r.flying += leased
	for range leased {
		r.pending.Go(r.attempt)
	}
	if leased < admitted || wait <= 0 {
		return time.Minute
	}
	return wait
}

func (r *runner) attempt() {
	begin := time.Now()
	result := r.to.deliver()
	kind := event.Done
	if result.Kind != destination.Delivered {
		kind = event.Retry
	}
	r.gate.Report(time.Now(), result, kind, time.Since(begin))
	r.mu.Lock()
	r.flying--
	if kind == event.Retry {
		r.queue++
	}
	r.mu.Unlock()
	r.wake()
}

// journal is a log that can be read while it is written.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

// serve runs a service until the test ends.
func serve(t *testing.T, o Options, c Config) *Service {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	s := New(o)
	if err := s.Apply(c); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return s
}

func billing(groups ...string) Target {
	return Target{ID: 1, Name: "billing", Breaker: breaker.Default(), Groups: groups}
}

// pass lets virtual time pass.
func pass(d time.Duration) { time.Sleep(d) }

// await lets virtual time pass until something holds.
func await(t *testing.T, most time.Duration, what string, holds func() bool) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		synctest.Wait()
		if holds() {
			return
		}
		if time.Since(begin) > most {
			t.Fatalf("not within %v: %s", most, what)
		}
	}
}

// at lists the states of all breakers by name.
func at(s *Service) map[string]breaker.State {
	states := map[string]breaker.State{}
	for _, l := range s.List() {
		states[l.Name] = l.State
	}
	return states
}

// hub is a board for several services in one process.
type hub struct {
	mu     sync.Mutex
	boards []*board
	broken bool // nobody hears anybody
	tokens uint64
	holder uint64 // token of the lease; 0: nobody has it
	until  time.Time
	grants int
}

type board struct {
	hub   *hub
	notes chan breaker.Note
	sent  int
	slow  chan struct{} // TryProbe waits for it
}

// noteDelay is how long a note takes to the others.
const noteDelay = 100 * time.Millisecond

var errBroken = errors.New("board is down")

func (h *hub) join() *board {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := &board{hub: h, notes: make(chan breaker.Note, 1000)}
	h.boards = append(h.boards, b)
	return b
}

func (h *hub) set(broken bool) {
	h.mu.Lock()
	h.broken = broken
	h.mu.Unlock()
}

func (b *board) Publish(_ context.Context, n breaker.Note) error {
	b.hub.mu.Lock()
	defer b.hub.mu.Unlock()
	if b.hub.broken {
		return errBroken
	}
	b.sent++
	for _, other := range b.hub.boards {
		if other != b {
			time.AfterFunc(noteDelay, func() { other.notes <- n })
		}
	}
	return nil
}

func (b *board) Notes() <-chan breaker.Note { return b.notes }

func (b *board) TryProbe(ctx context.Context, _ string, ttl time.Duration) (uint64, bool, error) {
	if b.slow != nil {
		select {
		case <-b.slow:
		case <-ctx.Done():
			return 0, false, ctx.Err()
		}
	}
	h := b.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tokens++
	if h.broken {
		return h.tokens, true, nil
	}
	if h.holder != 0 && time.Now().Before(h.until) {
		return 0, false, nil
	}
	h.grants++
	h.holder, h.until = h.tokens, time.Now().Add(ttl)
	return h.holder, true, nil
}

func (b *board) EndProbe(_ context.Context, _ string, token uint64) error {
	b.hub.mu.Lock()
	defer b.hub.mu.Unlock()
	if b.hub.holder == token {
		b.hub.holder = 0
	}
	return nil
}

func (b *board) Hosts() int { return len(b.hub.boards) }

func (b *board) Alone() bool {
	b.hub.mu.Lock()
	defer b.hub.mu.Unlock()
	return b.hub.broken
}
