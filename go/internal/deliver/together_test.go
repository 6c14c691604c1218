package deliver

import (
	"context"
	"fmt"
	"io"
	stdlog "log"
	"math/rand/v2"
	nethttp "net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/go/internal/destination"
	"sluice/go/internal/destination/http"
	"sluice/go/internal/event"
	"sluice/go/internal/retry"
	"sluice/go/internal/store"
	"sluice/shm-abi/shmabi"
)

// journaled opens a real store with one route, and nothing in it.
func journaled(t testing.TB) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{Dir: t.TempDir(), Log: log(nil)})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	err = s.PutCatalogue(t.Context(), event.Catalogue{
		ConfigVersion: 1, Sources: []event.Named{{ID: 1, Name: "github"}},
		Destinations: []event.Named{{ID: destinationID, Name: "billing"}},
		Routes:       []event.Route{{Version: 1, Source: 1, Destinations: []uint32{destinationID}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// commit makes durable what the store has queued, until ctx ends.
func commit(ctx context.Context, t testing.TB, s *store.Store) {
	for {
		select {
		case <-s.Work():
			if err := s.Append(store.Batch{}); err != nil {
				t.Error(err)
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

func frames(t *testing.T, first, n int, key func(i int) uint64) store.Batch {
	t.Helper()
	var b store.Batch
	lane := event.LaneID{byte(first), byte(first >> 8), 1}
	at := uint64(0)
	for i := first; i < first+n; i++ {
		received := uint64(time.Now().UnixNano())
		f, err := shmabi.BuildEvent(shmabi.EventParts{
			Method: "POST", Target: "/hooks/github", Headers: [][2]string{{"X-Number", fmt.Sprint(i)}},
			Body: []byte(fmt.Sprint("body ", i)), SourceID: 1, ReceivedNS: received, Position: at,
		})
		if err != nil {
			t.Fatal(err)
		}
		c := f.C()
		c.SetState(uint16(shmabi.StateVerified))
		c.SetEventID(event.NewID(lane, at, received))
		c.SetRouteVersion(1)
		c.SetOrderKey(key(i))
		b.Frames = append(b.Frames, f)
		at += uint64(len(f))
	}
	b.Spans = []event.Span{{Lane: lane, To: at}}
	return b
}

func TestWhatTheStoreHoldsReachesAFlakyServer(t *testing.T) {
	const events, keys = 400, 7
	var mu sync.Mutex
	tries, order, ids := map[string]int{}, map[int][]int{}, map[string]string{}
	server := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter,
		r *nethttp.Request) {
		body, _ := io.ReadAll(r.Body)
		number := r.Header.Get("X-Number")
		var i int
		_, err := fmt.Sscan(number, &i)
		mu.Lock()
		defer mu.Unlock()
		tries[number]++
		id := r.Header.Get("Idempotency-Key")
		known := ids[number]
		if err != nil || string(body) != "body "+number || known != "" && known != id {
			t.Errorf("event %s: body %q, key %s after %s", number, body, id, known)
		}
		ids[number] = id
		switch {
		case i%5 == 0 && tries[number] <= 2:
			w.WriteHeader(500)
			return
		case i%11 == 1:
			w.WriteHeader(422)
		}
		order[i%keys] = append(order[i%keys], i)
	}))
	defer server.Close()

	s := journaled(t)
	ctx, cancel := context.WithCancel(context.Background())
	var committing sync.WaitGroup
	committing.Go(func() { commit(ctx, t, s) })
	adapter, err := http.New(http.Options{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	service := New(Options{Queue: FromStore(s), Log: log(nil)})
	err = service.Apply([]Target{{
		ID: destinationID, Name: "billing", Destination: adapter,
		Retry: retry.Policy{Base: time.Millisecond, Max: 5 * time.Millisecond},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for first := 0; first < events; first += 100 {
		batch := frames(t, first, 100, func(i int) uint64 { return uint64(1 + i%keys) })
		if err := s.Append(batch); err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.Now().Add(30 * time.Second)
	for {
		mu.Lock()
		over := 0
		for _, list := range order {
			over += len(list)
		}
		mu.Unlock()
		if over == events {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d events are through", over, events)
		}
		time.Sleep(time.Millisecond)
	}
	stop(t, service)
	cancel()
	committing.Wait()
	if err := s.Append(store.Batch{}); err != nil { // what the last attempts left
		t.Error(err)
	}
	for refused := uint64((events + 9) / 11); ; time.Sleep(time.Millisecond) {
		d := s.Stats().Destinations[0]
		if d.Backlog == 0 && d.Leased == 0 && d.Dead == refused {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the store says %+v, %d were refused", d, refused)
		}
	}
	for key, list := range order {
		for i := 1; i < len(list); i++ {
			if list[i] < list[i-1] {
				t.Errorf("key %d: event %d after %d", key, list[i], list[i-1])
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// counted knows how many attempts its adapter had at once.
type counted struct {
	destination.Destination
	now, peak atomic.Int32
}

func (c *counted) Deliver(ctx context.Context, r *destination.Request) destination.Result {
	n := c.now.Add(1)
	defer c.now.Add(-1)
	for peak := c.peak.Load(); n > peak && !c.peak.CompareAndSwap(peak, n); peak = c.peak.Load() {
	}
	return c.Destination.Deliver(ctx, r)
}

// moody is a server that answers, fails, is slow, hangs and hangs up, in turns of some requests.
type moody struct {
	t     *testing.T
	mu    sync.Mutex
	rng   *rand.Rand
	turn  int // requests left of it
	mood  int
	calm  bool
	taken map[string]int // events that were answered with 200
	order map[string][]int
}

func (m *moody) ServeHTTP(w nethttp.ResponseWriter, r *nethttp.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // whoever sent it has given it up
	}
	m.mu.Lock()
	if m.turn--; m.turn < 0 {
		m.turn, m.mood = m.rng.IntN(60), m.rng.IntN(6)
		if m.mood == 3 {
			m.turn /= 10 // each of them takes as long as its timeout
		}
	}
	mood := m.mood
	if m.calm {
		mood = 0
	}
	m.mu.Unlock()
	switch mood {
	case 1:
		w.WriteHeader(500)
		return
	case 2:
		time.Sleep(2 * time.Millisecond)
	case 3:
		<-r.Context().Done()
		return
	case 4:
		panic(nethttp.ErrAbortHandler)
	case 5:
		w.WriteHeader(429)
		return
	}
	number := r.Header.Get("X-Number")
	var i int
	if _, err := fmt.Sscan(number, &i); err != nil || string(body) != "body "+number {
		m.t.Errorf("event %s: body %q: %v", number, body, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := fmt.Sprint(i % lifeKeys)
	if m.taken[number]++; m.taken[number] == 1 {
		m.order[key] = append(m.order[key], i)
	}
}

const lifeKeys = 11

func TestNothingIsLostAndOrderIsKeptWhateverTheServerDoes(t *testing.T) {
	const events, limit = 600, 8
	m := &moody{t: t, rng: seeded(t), taken: map[string]int{}, order: map[string][]int{}}
	server := httptest.NewUnstartedServer(m)
	server.Config.ErrorLog = stdlog.New(io.Discard, "", 0)
	server.Start()
	defer server.Close()
	s := journaled(t)
	ctx, cancel := context.WithCancel(context.Background())
	var committing sync.WaitGroup
	committing.Go(func() { commit(ctx, t, s) })
	adapter, err := http.New(http.Options{URL: server.URL, Timeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	to := &counted{Destination: adapter}
	service := New(Options{Queue: FromStore(s), Log: log(nil)})
	err = service.Apply([]Target{{
		ID: destinationID, Name: "billing", Destination: to, Concurrency: Auto{Max: limit},
		Retry: retry.Policy{Base: time.Millisecond, Max: 20 * time.Millisecond, Attempts: 1 << 15},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for first := 0; first < events; first += 100 {
		batch := frames(t, first, 100, func(i int) uint64 { return uint64(1 + i%lifeKeys) })
		if err := s.Append(batch); err != nil {
			t.Fatal(err)
		}
	}
	// A third of them through its moods, and then it is well.
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		m.mu.Lock()
		over := len(m.taken)
		m.calm = over >= events/3
		m.mu.Unlock()
		if d := s.Stats().Destinations; over == events && len(d) == 1 && d[0].Backlog == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d events are through: %+v", over, events, service.Statuses())
		}
	}
	stop(t, service)
	cancel()
	committing.Wait()
	for key, list := range m.order {
		if !slices.IsSorted(list) {
			t.Errorf("key %s: %v", key, list)
		}
	}
	if peak := to.peak.Load(); peak > limit {
		t.Errorf("%d attempts at once", peak)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
