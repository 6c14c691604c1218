package ingest

import (
	"cmp"
	"container/heap"
	"slices"
	"sync"
	"time"
)

// station is a slow store for game days: so many servers, each busy for the same time with one
// frame, and one queue before them in the order of the verdicts. A frame joins a group only after
// its time with a server. Nothing waits inside: each frame is told when it leaves, so capacity is
// servers ÷ time exactly, however late timers are.
type station struct {
	mu      sync.Mutex
	each    time.Duration
	free    instants // when each server is free, by Service.clock
	entered uint64
}

// enter gives the instant at which a frame that comes now leaves; it is later than now.
func (s *station) enter(now time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	leaves := max(now, s.free[0]) + s.each
	s.free[0] = leaves
	heap.Fix(&s.free, 0)
	s.entered++
	return leaves
}

// resize changes the servers for frames that come from here on. Those that go on serving are the
// ones that are busy longest, so that what is inside is not served twice over.
func (s *station) resize(servers int, each time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortFunc(s.free, func(a, b time.Duration) int { return cmp.Compare(b, a) })
	for len(s.free) < servers {
		s.free = append(s.free, 0)
	}
	s.free, s.each = s.free[:servers], each
	heap.Init(&s.free)
}

// instants is a heap, the earliest first.
type instants []time.Duration

func (h instants) Len() int           { return len(h) }
func (h instants) Less(i, j int) bool { return h[i] < h[j] }
func (h instants) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push and Pop are not used: the number of servers is fixed between two calls of resize.
func (h instants) Push(any) {}
func (h instants) Pop() any { return nil }

// SetStation makes every frame that is to be stored pass one of so many servers, for that long,
// before it may join a group; both are at least 1. Set again, frames inside keep the instant at
// which they leave and servers stay busy as long as they are.
func (s *Service) SetStation(servers int, each time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.station.Load()
	if st == nil {
		st = &station{}
	}
	st.resize(servers, each)
	s.station.Store(st)
}

// ClearStation takes the station away. Frames inside pass at once, as from a store that is fast
// again.
func (s *Service) ClearStation() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.station.Store(nil)
	s.nudge()
}

// StationEntered counts frames that entered the station since it was set first; 0 without one.
func (s *Service) StationEntered() uint64 {
	st := s.station.Load()
	if st == nil {
		return 0
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.entered
}
