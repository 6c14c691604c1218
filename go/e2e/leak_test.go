package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// held is what the control plane holds open, by kind. Sockets are left out: how many there are is
// the destination's business.
func (i *installation) held(t testing.TB) map[string]int {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d", i.control.Process.Pid)
	entries, err := os.ReadDir(filepath.Join(dir, "fd"))
	must(t, err)
	kinds := map[string]int{}
	for _, entry := range entries {
		to, err := os.Readlink(filepath.Join(dir, "fd", entry.Name()))
		if err != nil || strings.HasPrefix(to, "socket:") || strings.HasPrefix(to, i.data) {
			continue // closed meanwhile, or the store's, which grow and go with what it holds
		}
		if strings.HasPrefix(to, i.shm) {
			to = "shm"
		}
		kinds[to]++
	}
	maps, err := os.ReadFile(filepath.Join(dir, "maps"))
	must(t, err)
	kinds["mapped lanes"] = strings.Count(string(maps), "/lanes/")
	return kinds
}

// files lists what lies in shared memory, without the names that change.
func (i *installation) files(t testing.TB) (lanes, planes int) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(i.shm, "*", "lanes", "*"))
	must(t, err)
	lanes = len(found)
	found, err = filepath.Glob(filepath.Join(i.shm, "*", "dp", "*.counters"))
	must(t, err)
	return lanes, len(found)
}

func TestDeadDataPlanesLeaveNothingBehind(t *testing.T) {
	i := install(t, "workers: 2\nsources:\n"+githubSource("ring", "ring", ""))
	i.start()
	next := func(n int) {
		i.accepted(github("/hooks/ring", fmt.Sprintf("d-%d", n), "{}"))
		i.killPlanes()
		eventually(t, "the next generation serves alone", func() bool {
			s := i.status()
			if !s.GetReady() || s.GetGeneration() != uint32(n)+2 || s.GetDataplane().GetPid() == 0 {
				return false
			}
			lanes, planes := i.files(t)
			return lanes == 2 && planes == 1
		})
	}
	next(0)
	before := i.held(t)
	kills := count(4, 8)
	for n := 1; n <= kills; n++ {
		next(n)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("held %v, at first %v", i.held(t), before)
		}
	})
	eventually(t, "what dead data planes used is let go", func() bool {
		return fmt.Sprint(i.held(t)) == fmt.Sprint(before)
	})
	i.stop()
	if lanes, planes := i.files(t); lanes+planes > 0 {
		t.Errorf("%d lanes and %d counters outlive an orderly stop", lanes, planes)
	}
}

func TestACrashDuringAReloadLosesNothing(t *testing.T) {
	random := seeded(t)
	to := newSink(t)
	i := install(t, both(to))
	i.start()
	f := begin(i, random, 2, "ring", "durable")
	for round := range count(10, 60) {
		i.configure(shuffled(random, to, round))
		i.signal(syscall.SIGHUP)
		time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond) // any moment will do
		switch random.IntN(3) {
		case 0:
			i.killControl()
			i.start()
		case 1:
			i.killBoth()
			i.start()
		default:
			i.killPlanes()
			eventually(t, "the next data plane serves", func() bool {
				return i.readyz() == 200 && len(i.planes()) == 1
			})
		}
		f.loaded(5)
	}
	f.end()
	f.holds(t, to)
	for _, e := range i.events(nil) {
		if e.GetSource() != "ring" && e.GetSource() != "durable" {
			t.Errorf("an event of %q", e.GetSource())
		}
	}
}

// shuffled is a config with the two sources and some more, in an order of its own.
func shuffled(random *rand.Rand, to *sink, round int) string {
	parts := []string{
		githubSource("ring", "ring", "billing"), githubSource("durable", "durable", "billing"),
		fmt.Sprintf("  extra%d: {path: /hooks/extra, provider: none, deliver: [billing]}\n", round%3),
		"  quiet: {path: /hooks/quiet, provider: none, deliver: []}\n",
	}
	parts = parts[:2+random.IntN(3)]
	random.Shuffle(len(parts), func(a, b int) { parts[a], parts[b] = parts[b], parts[a] })
	return "sources:\n" + strings.Join(parts, "") + "destinations:\n" + to.config("billing")
}
