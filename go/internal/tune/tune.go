package tune

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"sluice/go/internal/admission"
	"sluice/go/internal/config"
	"sluice/shm-abi/shmabi"
)

// TickInterval is the time between two ticks.
const TickInterval = 20 * time.Millisecond

// repeatShare is the part of the limit that repeats may use, in thousandths: when all else waits,
// what was refused before waits too.
const repeatShare = 800

// elderFall is the part by which the limit of older data planes falls in a tick: to a tenth within
// half a second.
const elderFall = 10

// lenientTicks are the two seconds after a start in which who waits has waited for us, and is not
// turned away for it: there is no hold bound but hold_budget until nobody waits any more.
const lenientTicks = int(2 * time.Second / TickInterval)

// ErrStopped means that the service was stopped.
var ErrStopped = errors.New("the limit is not tuned any more: the daemon stops")

// Options of New; Control and Now are required.
type Options struct {
	Control shmabi.ControlPage
	Config  config.Admission
	// Now is a clock that only goes forward, from any origin.
	Now func() time.Duration
	// Wall is the time that people read; nil: time.Now. Nothing follows from it.
	Wall func() time.Time
}

// Service tunes the numbers of one control page.
type Service struct {
	control shmabi.ControlPage
	now     func() time.Duration
	wall    func() time.Time

	mu      sync.Mutex
	config  config.Admission
	limiter *admission.Limiter
	planes  []*plane
	slots   []int // of sources that the config has
	sums    sums
	numbers admission.Numbers
	changes changes
	pinned  bool
	pinEnd  time.Duration
	pinWall time.Time
	stopped bool

	newest uint32 // of the data planes that accept; 0: not known yet
	elder  uint64 // the limit of older ones

	lenient int // ticks for which there is no hold bound yet
}

// New takes the limit up where the control page has it, or begins with the config's. It publishes
// at once.
func New(o Options) (*Service, error) {
	if o.Wall == nil {
		o.Wall = time.Now
	}
	s := &Service{
		control: o.Control, now: o.Now, wall: o.Wall, config: o.Config, lenient: lenientTicks,
	}
	settings := settingsOf(o.Config)
	settings.Start = float64(o.Control.BaseLimitMilli()) / 1000
	var err error
	if s.limiter, err = admission.New(settings); err != nil {
		return nil, err
	}
	s.control.StoreNewestGeneration(0) // of an earlier life; numbers may begin anew
	s.changes.shown = float64(o.Config.InitialLimit)
	s.numbers = s.limiter.Numbers()
	s.publish()
	return s, nil
}

func settingsOf(c config.Admission) admission.Config {
	return admission.Config{
		Algorithm: c.Algorithm, InitialLimit: uint64(c.InitialLimit), MinLimit: uint64(c.MinLimit),
		MaxLimit: uint64(c.MaxLimit), Patience: c.Patience, Smoothing: c.Smoothing,
		Tolerance: c.Tolerance, Pacing: c.Pacing == "little",
	}
}

// Run ticks until ctx ends.
func (s *Service) Run(ctx context.Context) {
	ticker := time.NewTicker(TickInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.Step()
		}
	}
}

// Stop keeps the numbers as they are: the control page may go when it returns.
func (s *Service) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
}

// Leave is Stop for a successor that follows soon: until then nobody is turned away because of
// waiting for longer than others would have to.
func (s *Service) Leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.lenient = lenientTicks
		s.publish()
	}
	s.stopped = true
}

// Attach begins to read a data plane's counters. What it counted before is nobody's.
func (s *Service) Attach(generation uint32, c Counters) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.planes) == 0 {
		s.sums.metered = c.MeteredNS() // the time without a data plane says nothing
	}
	s.planes = append(s.planes, newPlane(generation, c))
}

// Detach reads a data plane's counters no more: they may be unmapped when it returns.
func (s *Service) Detach(generation uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.planes = slices.DeleteFunc(s.planes, func(p *plane) bool { return p.generation == generation })
}

// Newest tells which data plane accepts from now on. Older ones finish what they have, within a
// limit that only falls, and the newest gets the rest.
func (s *Service) Newest(generation uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	s.newest, s.elder = generation, s.control.Limit()
	s.publish()
}

// UseSlots tells which source slots are looked at: those of sources that there are. The others have
// no share.
func (s *Service) UseSlots(slots []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slots = slices.Clone(slots)
	if len(slots) > 0 {
		if need := slices.Max(slots) + 1; need > len(s.sums.offered) {
			s.sums.offered = append(s.sums.offered, make([]uint64, need-len(s.sums.offered))...)
		}
	}
}

// Configure takes another config up. The limit stays, inside the new bounds, and so does a pin.
func (s *Service) Configure(c config.Admission) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return ErrStopped
	}
	if err := s.limiter.Reconfigure(settingsOf(c)); err != nil {
		return err
	}
	s.config = c
	s.tick()
	return nil
}

// Pin holds the limit at a number for a while.
func (s *Service) Pin(limit uint64, span time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	low, high := uint64(s.config.MinLimit), uint64(s.config.MaxLimit)
	switch {
	case s.stopped:
		return ErrStopped
	case limit < low || limit > high:
		return fmt.Errorf("limit %d: the config bounds it to %d..%d", limit, low, high)
	case span <= 0:
		return errors.New("a pin lasts longer than 0")
	}
	s.limiter.Pin(limit)
	s.pinned, s.pinEnd, s.pinWall = true, s.now()+span, s.wall().Add(span)
	s.tick()
	return nil
}

// Release lets the limit go, if it is pinned: the controller goes on from where it stood before.
func (s *Service) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pinned && !s.stopped {
		s.unpin()
		s.tick()
	}
}

func (s *Service) unpin() {
	s.limiter.Unpin()
	s.pinned, s.pinWall = false, time.Time{}
}

// Step is one tick.
func (s *Service) Step() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	if s.pinned && s.now() >= s.pinEnd {
		s.unpin()
	}
	s.tick()
}

// tick reads, computes and publishes; the caller holds the lock.
func (s *Service) tick() {
	c := &s.sums.counts
	c.Inflight, c.Held, c.Peak = 0, 0, 0
	for _, p := range s.planes {
		s.sums.read(p, s.slots)
	}
	if s.lenient > 0 {
		s.lenient--
		if len(s.planes) > 0 && c.Held == 0 {
			s.lenient = 0
		}
	}
	s.numbers = s.limiter.Tick(s.now(), *c, s.sums.offered)
	if s.numbers.Reason != "" {
		to := s.numbers.Base
		if s.numbers.Reason == admission.ReasonPinned {
			to = float64(s.numbers.Limit) // the base waits for the pin's end
		}
		s.changes.moved(s.wall(), to, s.numbers.Reason)
	}
	s.publish()
}
