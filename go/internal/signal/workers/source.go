package workers

import (
	"context"
	"fmt"
	"time"

	"sluice/go/internal/breaker"
)

// Source is a signal.Source of one breaker.
type Source struct {
	registry *Registry
	o        SourceOptions
	garbage  bool // whether it was said that some heartbeats cannot be read
	closed   bool
}

// Read gives the share of the living workers that wait for a lock for longer than After; nothing
// where no worker lives. Of a worker that does both, its report counts and its heartbeat does not.
func (s *Source) Read(ctx context.Context) ([]breaker.Level, error) {
	workers := s.registry.living(s.o.Breaker)
	if s.o.Redis {
		beats, err := s.registry.heartbeats(ctx, s.o.Breaker)
		if err != nil {
			return nil, fmt.Errorf("read the heartbeats: %w", err)
		}
		for name, report := range beats.reports {
			if _, ok := workers[name]; !ok {
				workers[name] = report
			}
		}
		if beats.bad > 0 && len(workers) == 0 {
			return nil, beats.fault()
		}
		s.complain(beats)
	}
	if len(workers) == 0 {
		return nil, nil
	}
	waiting := 0
	for _, w := range workers {
		if w.state == lockWait && w.span > s.o.After {
			waiting++
		}
	}
	share := float64(waiting) / float64(len(workers))
	return []breaker.Level{s.o.Threshold.Level(s.o.Name, share)}, nil
}

// complain logs once, until all can be read again, that some heartbeats do not count.
func (s *Source) complain(beats heartbeats) {
	if beats.bad > 0 && !s.garbage {
		s.registry.o.Log.Warn("some workers do not count", "breaker", s.o.Breaker,
			"error", beats.fault())
	}
	s.garbage = beats.bad > 0
}

// Close ends the measure; with the last source of a breaker its reports go.
func (s *Source) Close() error {
	if !s.closed {
		s.closed = true
		s.registry.close(s.o.Breaker)
	}
	return nil
}

// heartbeats are what lies in Redis.
type heartbeats struct {
	reports map[string]report
	bad     int   // that cannot be read
	example error // of one of them
}

func (h heartbeats) fault() error {
	return fmt.Errorf("%d heartbeats cannot be read, one because: %w", h.bad, h.example)
}

func (h *heartbeats) spoil(worker string, err error) {
	if h.bad++; h.example == nil {
		h.example = fmt.Errorf("worker %.50q: %w", worker, err)
	}
}

func (h *heartbeats) add(worker, text string, ttl time.Duration) {
	report, err := parseHeartbeat(text, ttl)
	if err != nil {
		h.spoil(worker, err)
		return
	}
	h.reports[worker] = report
}
