package protect

import (
	"context"
	"sync"
	"time"

	"sluice/go/internal/breaker"
)

// Board is how hosts that share breakers hear each other.
type Board interface {
	// Publish tells the others.
	Publish(ctx context.Context, n breaker.Note) error
	// Notes are what others told. It may leave out a note for which there is a later one of the same
	// breaker.
	Notes() <-chan breaker.Note
	// TryProbe takes the lease of a breaker's probe, if nobody has it. A board that is alone grants
	// it.
	TryProbe(ctx context.Context, name string, ttl time.Duration) (token uint64, ok bool, err error)
	// EndProbe gives the lease back before its time.
	EndProbe(ctx context.Context, name string, token uint64) error
	// Hosts is how many share, this one included.
	Hosts() int
	// Alone tells that the others cannot be heard.
	Alone() bool
}

const (
	// boardTimeout bounds each call of the board.
	boardTimeout = 2 * time.Second
	// probeLinger is how long a lease is kept after what came of its probe was published.
	probeLinger = time.Second
	// publishPause is the time before a failed Publish is tried again.
	publishPause = time.Second
)

// hosts is how many share the ramps.
func (s *Service) hosts() int {
	if b := s.options.Board; b != nil && !b.Alone() {
		return max(b.Hosts(), 1)
	}
	return 1
}

// ask asks the board for the lease of a circuit whose lock the caller holds, and that is leasing.
func (s *Service) ask(c *circuit) {
	ttl := c.probeTime
	go func() {
		board, begun := s.options.Board, s.options.Now()
		ctx, cancel := context.WithTimeout(s.ctx, boardTimeout)
		defer cancel()
		token, ok, err := board.TryProbe(ctx, c.name, ttl)
		if err != nil {
			// Alone, nobody else can send one. Otherwise the answer may come yet.
			token, ok = s.localToken(), board.Alone()
		}
		c.do(func(b *breaker.Breaker, now time.Time) {
			c.leasing = false
			switch {
			case !ok:
				b.Refuse(now)
			case !b.Grant(now, token, begun.Add(ttl)):
				s.sharing.add(c, breaker.Output{Ended: []breaker.Lease{{Token: token}}})
			}
		})
	}()
}

// listen hears the others.
func (s *Service) listen(ctx context.Context) {
	notes := s.options.Board.Notes()
	for {
		select {
		case <-ctx.Done():
			return
		case n, open := <-notes:
			if !open {
				return
			}
			s.mu.Lock()
			c := s.circuits[n.Breaker]
			s.mu.Unlock()
			if c != nil {
				c.do(func(b *breaker.Breaker, now time.Time) { b.Hear(now, n) })
			}
		}
	}
}

// sharing is what waits to be told to the board: of each circuit the latest note at most, and the
// leases to give back.
type sharing struct {
	service *Service
	wake    chan struct{}
	alone   bool // at the last watch

	mu      sync.Mutex
	waiting map[*circuit]*outgoing
}

type outgoing struct {
	note  bool
	ended []breaker.Lease
}

func (s *sharing) init(service *Service) {
	s.service, s.wake = service, make(chan struct{}, 1)
	s.waiting = map[*circuit]*outgoing{}
}

// add takes what a circuit, whose lock the caller holds, has to tell. A circuit has one lease at a
// time and a second one only after the first was given back or ran out, so they are few.
func (s *sharing) add(c *circuit, out breaker.Output) {
	if s.service.options.Board == nil {
		return
	}
	s.mu.Lock()
	o := s.waiting[c]
	if o == nil {
		o = &outgoing{}
		s.waiting[c] = o
	}
	o.note = o.note || out.Publish
	o.ended = append(o.ended, out.Ended...)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// watch notices that the board came back, and tells it where everything stands.
func (s *sharing) watch() {
	board := s.service.options.Board
	if board == nil {
		return
	}
	alone := board.Alone()
	back := s.alone && !alone
	s.alone = alone
	if back {
		for _, c := range s.service.all() {
			c.mu.Lock()
			if c.breaker.Note().Term > 0 {
				s.add(c, breaker.Output{Publish: true})
			}
			c.mu.Unlock()
		}
	}
}

func (s *sharing) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
		s.mu.Lock()
		waiting := s.waiting
		s.waiting = map[*circuit]*outgoing{}
		s.mu.Unlock()
		var failed error
		for c, o := range waiting {
			if err := s.send(ctx, c, o); err != nil {
				failed = err
				s.add(c, breaker.Output{Publish: true})
			}
		}
		if failed != nil {
			s.service.options.Log.Warn("breakers not shared, trying again", "error", failed)
			select {
			case <-ctx.Done():
				return
			case <-time.After(publishPause):
			}
		}
	}
}

// send tells one circuit's note, then gives its leases back. An error is the note's, which is to be
// told again.
func (s *sharing) send(ctx context.Context, c *circuit, o *outgoing) error {
	board := s.service.options.Board
	var err error
	if o.note {
		c.mu.Lock()
		note := c.breaker.Note()
		c.mu.Unlock()
		call, cancel := context.WithTimeout(ctx, boardTimeout)
		err = board.Publish(call, note)
		cancel()
		if err != nil && board.Alone() {
			err = nil // when it is back, it is told where everything stands
		}
	}
	for _, lease := range o.ended {
		linger := time.Duration(0)
		if lease.Used {
			linger = probeLinger
		}
		time.AfterFunc(linger, func() {
			call, cancel := context.WithTimeout(ctx, boardTimeout)
			defer cancel()
			// One that cannot be given back ends by itself.
			_ = board.EndProbe(call, c.name, lease.Token)
		})
	}
	return err
}
