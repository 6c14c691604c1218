package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// slotted is a synthetic store: some servers, each of which takes one event at a time, first come
// first served, and the same time for every event. Its capacity is exactly servers/time: a server
// begins with the next event when it is through with the last one, however late the scheduler is.
//
// It is the pool of database connections that receivers usually stand in front of: an ask that is
// abandoned before its turn takes no server.
type slotted struct {
	mu      sync.Mutex
	busy    []time.Time // until when, for each server
	service time.Duration
	queue   []*ask
	wake    *time.Timer
}

type ask struct {
	at    time.Time
	gone  bool
	begun chan time.Time // gets the time at which it will be through
}

func newSlotted(servers int, service time.Duration) *slotted {
	s := &slotted{}
	s.wake = time.AfterFunc(time.Hour, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.begin(time.Now())
	})
	s.set(servers, service)
	return s
}

// set changes the store. Who is being served keeps their time; servers that are taken away are idle
// ones first.
func (s *slotted) set(servers int, service time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.service = service
	for len(s.busy) < servers {
		s.busy = append(s.busy, now)
	}
	slices.SortFunc(s.busy, time.Time.Compare)
	s.busy = slices.Clone(s.busy[len(s.busy)-servers:])
	s.begin(now)
}

func (s *slotted) keep(ctx context.Context, _ string, _ []byte) error {
	a := &ask{at: time.Now(), begun: make(chan time.Time, 1)}
	s.mu.Lock()
	s.queue = append(s.queue, a)
	s.begin(a.at)
	s.mu.Unlock()
	select {
	case through := <-a.begun:
		time.Sleep(time.Until(through))
		return nil
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		a.gone = true
		return ctx.Err()
	}
}

// begin gives free servers to those who wait, and wakes up again when the next one becomes free.
func (s *slotted) begin(now time.Time) {
	for len(s.queue) > 0 {
		first := s.queue[0]
		if !first.gone {
			soonest := 0
			for at := range s.busy {
				if s.busy[at].Before(s.busy[soonest]) {
					soonest = at
				}
			}
			from := s.busy[soonest]
			if from.After(now) {
				s.wake.Reset(from.Sub(now))
				return
			}
			if from.Before(first.at) {
				from = first.at
			}
			s.busy[soonest] = from.Add(s.service)
			first.begun <- s.busy[soonest]
		}
		s.queue[0] = nil
		s.queue = s.queue[1:]
	}
}

func (s *slotted) close() { s.wake.Stop() }

// parseSlots reads KxTIME, as 8x4ms.
func parseSlots(text string) (int, time.Duration, error) {
	count, each, _ := strings.Cut(text, "x")
	servers, err1 := strconv.Atoi(count)
	service, err2 := time.ParseDuration(each)
	if err1 != nil || err2 != nil || servers < 1 || servers > 4096 || service <= 0 {
		return 0, 0, fmt.Errorf("%q: 1 to 4096 servers of a time each, as 8x4ms", text)
	}
	return servers, service, nil
}

// obey sets the store to each line that comes in, until the input ends.
func (s *slotted) obey(in io.Reader) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		servers, service, err := parseSlots(strings.TrimSpace(lines.Text()))
		if err != nil {
			return err
		}
		s.set(servers, service)
	}
	return lines.Err()
}

// bounded is the limit that people put in front of a handler: so many requests at once, the others
// are turned away before anything of them is read.
type bounded struct {
	slots chan struct{}
	next  http.Handler
}

func newBounded(limit int, next http.Handler) http.Handler {
	return &bounded{slots: make(chan struct{}, limit), next: next}
}

func (b *bounded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
		b.next.ServeHTTP(w, r)
	default:
		w.Header().Set("Retry-After", strconv.Itoa(5+rand.IntN(16)))
		http.Error(w, "overloaded", http.StatusServiceUnavailable)
	}
}
