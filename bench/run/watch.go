package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"sluice/bench/referee"
)

// look is what was seen of a stand at one moment.
type look struct {
	at        time.Duration // since the generator's start
	parts     map[string]referee.Process
	rss       map[string]memoryUse
	generator float64            // CPU seconds
	metrics   map[string]float64 // sluice's own
}

// memoryUse is resident memory in bytes.
type memoryUse struct {
	all  int64
	anon int64 // of it: the process' own, without mapped files and tmpfs
}

// What sluice says of itself.
const (
	metricLimit    = "webhook_ingress_concurrency_limit"
	metricInflight = "webhook_ingress_inflight_requests"
	metricService  = "webhook_ingress_service_seconds"
)

// watch looks at a stand once a second until it is told to stop.
type watch struct {
	stand *stand
	gen   *generator
	stop  chan struct{}
	done  sync.WaitGroup
	mu    sync.Mutex
	looks []look
}

const lookEvery = time.Second

func startWatch(s *stand, g *generator) *watch {
	w := &watch{stand: s, gen: g, stop: make(chan struct{})}
	w.done.Go(func() {
		for next := g.start; ; next = next.Add(lookEvery) {
			select {
			case <-w.stop:
				return
			case <-time.After(time.Until(next)):
				w.add(w.look())
			}
		}
	})
	return w
}

// end gives everything that was seen, in order.
func (w *watch) end() []look {
	close(w.stop)
	w.done.Wait()
	return w.looks
}

func (w *watch) add(l look) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks = append(w.looks, l)
}

func (w *watch) look() look {
	l := look{at: time.Since(w.gen.start), parts: w.stand.parts(), rss: map[string]memoryUse{}}
	for name, p := range l.parts {
		if m, err := readMemory(p.PID); err == nil {
			l.rss[name] = m
		}
	}
	if p, err := referee.ReadProcess(w.gen.cmd.Process.Pid); err == nil {
		l.generator = p.Own
	}
	l.metrics = scrape(w.stand.metrics, metricLimit, metricInflight, metricService)
	return l
}

func readMemory(pid int) (memoryUse, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return memoryUse{}, err
	}
	return parseMemory(string(data))
}

// parseMemory reads proc_pid_status(5).
func parseMemory(text string) (memoryUse, error) {
	var m memoryUse
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		var kb int64
		if _, err := fmt.Sscanf(value, "%d kB", &kb); err != nil {
			continue
		}
		switch name {
		case "VmRSS":
			m.all = kb << 10
		case "RssAnon":
			m.anon = kb << 10
		}
	}
	if m.all == 0 {
		return memoryUse{}, fmt.Errorf("no resident memory in %q", text)
	}
	return m, nil
}

// spent is CPU seconds of a part between two looks, in all and outside the kernel; 0 for a part
// that was not there, or was another process, at one of them.
func spent(from, to look, part string) (all, user float64) {
	a, ok1 := from.parts[part]
	b, ok2 := to.parts[part]
	if !ok1 || !ok2 || a.PID != b.PID {
		return 0, 0
	}
	return b.Own - a.Own, b.User - a.User
}

// lookAt is the last look not after a time, the first one if there is none.
func lookAt(looks []look, at time.Duration) look {
	found := look{}
	for n, l := range looks {
		// A look is a little late; half of its distance tells which one is meant.
		if n == 0 || l.at <= at+lookEvery/2 {
			found = l
		}
	}
	return found
}
