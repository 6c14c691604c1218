package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// through asks `count` times at once and gives when each ask was through, ascending.
func through(t *testing.T, s *slotted, count int) []time.Duration {
	t.Helper()
	var mu sync.Mutex
	var ends []time.Duration
	var wg sync.WaitGroup
	from := time.Now()
	for range count {
		wg.Go(func() {
			if err := s.keep(t.Context(), "", nil); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			ends = append(ends, time.Since(from))
		})
	}
	wg.Wait()
	slices.Sort(ends)
	return ends
}

func TestTheSyntheticStoreHasExactlyItsCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			servers int
			service time.Duration
		}{{8, 4 * time.Millisecond}, {1, time.Second}, {3, 7 * time.Microsecond}} {
			s := newSlotted(c.servers, c.service)
			for at, end := range through(t, s, 100) {
				if want := time.Duration(at/c.servers+1) * c.service; end != want {
					t.Fatalf("%d x %v: event %d was through at %v, want %v",
						c.servers, c.service, at, end, want)
				}
			}
			// An idle store saves no capacity up.
			time.Sleep(time.Minute)
			ends := through(t, s, 2*c.servers)
			if last := ends[len(ends)-1]; last != 2*c.service {
				t.Fatalf("after a rest the second round was through at %v", last)
			}
			s.close()
		}
	})
}

func TestTheSyntheticStoreIsSwitchedWhileItWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlotted(2, 10*time.Second)
		defer s.close()
		time.AfterFunc(time.Second, func() {
			if err := s.obey(strings.NewReader("4x2s\n")); err != nil {
				t.Error(err)
			}
		})
		got := through(t, s, 6)
		// Two keep their ten seconds, two more servers come, the others have the new time.
		want := []time.Duration{3, 3, 5, 5, 10, 10}
		for at := range want {
			if got[at] != want[at]*time.Second {
				t.Fatalf("got %v, want %v s", got, want)
			}
		}
		time.AfterFunc(time.Second, func() { s.set(1, time.Second) })
		got = through(t, s, 4)
		want = []time.Duration{2, 2, 2, 2}
		for at := range want {
			if got[at] != want[at]*time.Second {
				t.Fatalf("got %v, want %v s", got, want)
			}
		}
		if ends := through(t, s, 3); ends[2] != 3*time.Second {
			t.Fatalf("one server of a second was through with three at %v", ends[2])
		}
		if err := s.obey(strings.NewReader("0x1s\n")); err == nil {
			t.Error("a store without servers was set")
		}
	})
}

func TestAnAbandonedAskTakesNoServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlotted(1, time.Second)
		defer s.close()
		go func() { _ = s.keep(t.Context(), "", nil) }()
		synctest.Wait()
		for range 5 {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				if err := s.keep(ctx, "", nil); err == nil {
					t.Error("an ask was served before its turn")
				}
			}()
		}
		time.Sleep(200 * time.Millisecond)
		if ends := through(t, s, 1); ends[0] != 1800*time.Millisecond {
			t.Fatalf("the next ask was through after %v", ends[0])
		}
	})
}

func TestTheFixedLimitRefusesWhatIsOverIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlotted(1, time.Second)
		defer s.close()
		h := newBounded(2, newHook([]byte(guideSecret), s))
		codes := make(chan *httptest.ResponseRecorder, 5)
		for range 5 {
			go func() {
				r := httptest.NewRequest("POST", "/", strings.NewReader(guideBody))
				r.Header.Set("X-Hub-Signature-256", guideSignature)
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				codes <- w
			}()
		}
		count := map[int]int{}
		for range 5 {
			w := <-codes
			count[w.Code]++
			if refused := w.Code == http.StatusServiceUnavailable; refused !=
				(w.Header().Get("Retry-After") != "") {
				t.Errorf("%d with Retry-After %q", w.Code, w.Header().Get("Retry-After"))
			}
		}
		if count[200] != 2 || count[503] != 3 {
			t.Fatalf("codes %v", count)
		}
	})
}
