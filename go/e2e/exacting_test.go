package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// exacting is senders that bear nothing but a 2xx: each request is sent once, and whatever else
// comes of it is a failure.
type exacting struct {
	i       *installation
	prefix  string
	halt    chan struct{}
	senders sync.WaitGroup

	mu     sync.Mutex
	taken  map[string]string // event ids by delivery
	failed []string
	begun  int
	codes  map[int]int
}

// seldom is the senders of a source that send seldom, so that some begin while others wait.
const seldom = 12

// keepSending starts so many senders that keep their connection, and so many that take a new one
// for each request, for each source.
func keepSending(i *installation, random *rand.Rand, keep, fresh int, sources ...string) *exacting {
	s := &exacting{
		i: i, prefix: fmt.Sprintf("%08x", random.Uint32()), halt: make(chan struct{}),
		taken: map[string]string{}, codes: map[int]int{},
	}
	for _, source := range sources {
		for n := range keep + fresh + seldom {
			own, pause := rand.New(rand.NewPCG(random.Uint64(), random.Uint64())), 4*time.Millisecond
			if n >= keep+fresh {
				pause = 200 * time.Millisecond
			}
			s.senders.Go(func() { s.send(source, own, n < keep, pause) })
		}
	}
	return s
}

func (s *exacting) end() {
	close(s.halt)
	s.senders.Wait()
}

// send has pauses of up to so long between two requests.
func (s *exacting) send(source string, random *rand.Rand, keep bool, pause time.Duration) {
	var w *wire
	used := 0
	for {
		select {
		case <-s.halt:
			if w != nil {
				_ = w.conn.Close()
			}
			return
		case <-time.After(time.Duration(random.Int64N(int64(pause)))):
		}
		s.mu.Lock()
		s.begun++
		delivery := fmt.Sprintf("%s-%s-%06d", s.prefix, source, s.begun)
		s.mu.Unlock()
		if w == nil {
			var err error
			if w, err = connect(s.i.address); err != nil {
				s.note(delivery, nil, fmt.Errorf("connect: %w", err))
				continue
			}
			used = 0
		}
		used++
		a, err := w.exchange(github("/hooks/"+source, delivery, fmt.Sprintf(`{"delivery":%q}`, delivery)))
		if err != nil {
			err = fmt.Errorf("request %d of its connection: %w", used, err)
		}
		s.note(delivery, a, err)
		if err != nil || a.closes() || !keep {
			_ = w.conn.Close()
			w = nil
		}
	}
}

func (s *exacting) note(delivery string, a *answer, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		s.failed = append(s.failed, fmt.Sprintf("%s: %v", delivery, err))
	case a.code == 200 && a.get("X-Event-Id") != "":
		s.codes[200]++
		s.taken[delivery] = a.get("X-Event-Id")
	default:
		s.codes[a.code]++
		s.failed = append(s.failed, fmt.Sprintf("%s: %v", delivery, a))
	}
}

// loaded waits until so many more requests were taken, or one failed.
func (s *exacting) loaded(more int) {
	s.i.t.Helper()
	count := func() (taken, failed int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.taken), len(s.failed)
	}
	from, _ := count()
	eventually(s.i.t, "requests are taken", func() bool {
		taken, failed := count()
		return taken >= from+more || failed > 0
	})
}

// holds checks that nothing failed, and that each 2xx is stored exactly once.
func (s *exacting) holds(t testing.TB) {
	t.Helper()
	eventually(t, "the lanes are drained", s.i.drained)
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, failure := range s.failed {
		if n == 20 {
			t.Errorf("and %d more", len(s.failed)-n)
			break
		}
		t.Error(failure)
	}
	stored := map[string][]string{}
	for _, e := range s.i.events(nil) {
		stored[e.GetProviderId()] = append(stored[e.GetProviderId()], e.GetId())
	}
	for delivery, id := range s.taken {
		if ids := stored[delivery]; len(ids) != 1 || ids[0] != id {
			t.Errorf("%s was taken as %s and is stored as %v", delivery, id, ids)
		}
	}
	t.Logf("%d requests, %d failed, %v", s.begun, len(s.failed), s.codes)
}

// refusals connects all the time until it is ended, and gives the first connect that failed.
func refusals(i *installation) (end func() error) {
	halt, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			w, err := connect(i.address)
			if err != nil {
				done <- err
				return
			}
			_ = w.conn.Close()
			select {
			case <-halt:
				done <- nil
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return func() error {
		close(halt)
		if err := <-done; err != nil {
			return errors.Join(errors.New("a connect was refused"), err)
		}
		return nil
	}
}
