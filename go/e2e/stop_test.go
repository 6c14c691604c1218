package e2e

import (
	"fmt"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestStoppingFinishesWhatWasTakenWithinASecond(t *testing.T) {
	i := install(t, "sources:\n"+githubSource("github", "durable", ""))
	withinASecond(t, func() time.Duration { return stopUnderWay(t, i) })
}

// withinASecond tries a few times: a loaded machine may be slow once.
func withinASecond(t *testing.T, stop func() time.Duration) {
	t.Helper()
	var took []time.Duration
	for range 4 {
		took = append(took, stop())
		if took[len(took)-1] < time.Second {
			return
		}
	}
	t.Errorf("stopping took %v, want a second at most", took)
}

// stopUnderWay stops the daemon while a connection sends a request each 100 ms.
func stopUnderWay(t *testing.T, i *installation) time.Duration {
	t.Helper()
	i.start()
	w := i.dial(t)
	taken := map[string]bool{}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var asked time.Time
	for n := 0; ; n++ {
		<-tick.C
		if n == 5 {
			asked = time.Now()
			i.signal(syscall.SIGTERM)
		}
		delivery := fmt.Sprintf("%d-%d", time.Now().UnixNano(), n)
		a, err := w.exchange(github("/hooks/github", delivery, "{}"))
		if err != nil {
			if n < 5 {
				t.Fatal(err)
			}
			break // the connection ended
		}
		if a.code == 200 {
			taken[a.get("X-Event-Id")] = true
		} else if a.code != 503 || n < 5 {
			t.Fatalf("request %d: %v", n, a)
		}
		if a.closes() {
			if n < 5 {
				t.Fatalf("request %d closes: %v", n, a)
			}
			w.isClosed(t)
			break
		}
	}
	if code := i.awaitExit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	took := time.Since(asked)
	if left := i.planes(); len(left) != 0 {
		t.Errorf("data planes %v outlive an orderly stop", left)
	}
	lanes, err := filepath.Glob(filepath.Join(i.shm, "*", "lanes", "*"))
	must(t, err)
	if len(lanes) != 0 {
		t.Errorf("lanes %v outlive an orderly stop", lanes)
	}
	i.start()
	for _, e := range i.events(nil) {
		delete(taken, e.GetId())
	}
	if len(taken) != 0 {
		t.Errorf("acknowledged and not listed after the stop: %v", taken)
	}
	i.stop()
	return took
}

func TestStoppingDoesNotWaitForIdleConnections(t *testing.T) {
	i := install(t, "sources:\n"+githubSource("github", "durable", ""))
	withinASecond(t, func() time.Duration {
		i.start()
		idle, fresh, halfway := i.dial(t), i.dial(t), i.dial(t)
		if a := idle.ask(t, github("/hooks/github", "d-1", "{}")); a.code != 200 {
			t.Fatal(a)
		}
		must(t, halfway.write("POST /hooks/github HTTP/1.1\r\nHost: a\r\n"))
		asked := time.Now()
		i.stop()
		took := time.Since(asked)
		idle.isClosed(t)
		fresh.isClosed(t)
		return took
	})
}

func TestStoppingUnderLoadAnswersWhatWasSent(t *testing.T) {
	i := install(t, "workers: 2\n"+"sources:\n"+githubSource("durable", "durable", "")+
		githubSource("ring", "ring", ""))
	for round := range count(3, 20) {
		i.start()
		var senders sync.WaitGroup
		var mu sync.Mutex
		taken := map[string]bool{}
		begun := make(chan struct{}, 16)
		for s := range 8 {
			w := i.dial(t)
			senders.Go(func() {
				for n := 0; ; n++ {
					source := []string{"durable", "ring"}[s%2]
					a, err := w.exchange(github("/hooks/"+source, fmt.Sprintf("%d-%d-%d", round, s, n),
						`{"some":"body"}`))
					if err != nil {
						t.Errorf("request %d of sender %d has no answer: %v", n, s, err)
						return
					}
					if a.code == 200 {
						mu.Lock()
						taken[a.get("X-Event-Id")] = true
						mu.Unlock()
					} else if a.code != 503 || !a.closes() {
						t.Errorf("request %d of sender %d: %v", n, s, a)
					}
					if n == 20 {
						begun <- struct{}{}
					}
					if a.closes() {
						return
					}
				}
			})
		}
		for range 8 {
			<-begun
		}
		i.stop()
		senders.Wait()
		i.start()
		for _, e := range i.events(nil) {
			delete(taken, e.GetId())
		}
		if len(taken) > 0 {
			t.Errorf("acknowledged and not listed after the stop: %v", taken)
		}
		i.stop()
	}
}
