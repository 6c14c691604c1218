package e2e

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/go/internal/testserver"
)

// host is one of several gateways that share breakers through Redis.
func host(t *testing.T, redis *testserver.RedisServer, to *moody) *installation {
	t.Helper()
	i := install(t, "redis: {url: \"env:SLUICE_TEST_REDIS\", prefix: "+
		strings.NewReplacer("/", "-").Replace(t.Name())+"}\nsources:\n"+
		githubSource("github", "durable", "billing")+"destinations:\n"+to.impatient("billing"))
	i.env = append(os.Environ(), "SLUICE_TEST_REDIS="+redis.URL)
	return i
}

func TestHostsShareABreakerAndProbeOnce(t *testing.T) {
	redis := testserver.Redis(t)
	to := newMoody(t)
	hosts := []*installation{host(t, redis, to), host(t, redis, to), host(t, redis, to)}
	for _, i := range hosts {
		i.start()
	}
	for n, i := range hosts {
		eventually(t, "the hosts see each other", func() bool {
			return i.breaker("billing").GetHosts() == 3
		})
		if a := i.post("/hooks/github", fmt.Sprintf("first-%d", n), "{}"); a.code != 200 {
			t.Fatalf("host %d: %v", n, a)
		}
	}
	eventually(t, "each host delivered one", func() bool { return len(to.all()) == 3 })

	// Only the first host sees it fail; all of them leave it alone.
	to.set(sick)
	hosts[0].post("/hooks/github", "trip", "{}")
	for n, i := range hosts {
		eventually(t, "the breaker is open everywhere", func() bool {
			return i.breaker("billing").GetState() != "closed"
		})
		eventually(t, "its events are queued", func() bool {
			return queued(i.post("/hooks/github", fmt.Sprintf("%d-%d", n, time.Now().UnixNano()), "{}"))
		})
	}
	// A destination that is asked one thing at a time by three hosts is probed by one at a time.
	var mu sync.Mutex
	most, present, probes := 0, 0, 0
	to.set(func(w http.ResponseWriter, _ *http.Request, _ string) bool {
		mu.Lock()
		present++
		probes++
		most = max(most, present)
		mu.Unlock()
		time.Sleep(50 * time.Millisecond)
		mu.Lock()
		present--
		mu.Unlock()
		w.WriteHeader(http.StatusServiceUnavailable)
		return false
	})
	eventually(t, "it was probed five times", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return probes >= 5
	})
	mu.Lock()
	if most > 1 {
		t.Errorf("%d probes at once", most)
	}
	mu.Unlock()

	to.set(well)
	for _, i := range hosts {
		eventually(t, "it is closed everywhere and nothing waits", func() bool {
			return i.breaker("billing").GetState() == "closed" &&
				i.status().GetDestinations()[0].GetBacklog() == 0
		})
	}
	for _, i := range hosts {
		i.stop()
	}
}

func TestWithoutRedisEachHostGoesOnAlone(t *testing.T) {
	redis := testserver.Redis(t)
	to := newMoody(t)
	i := host(t, redis, to)
	i.start()
	eventually(t, "it is not alone", func() bool { return !i.breaker("billing").GetAlone() })
	redis.Kill()
	eventually(t, "it is alone", func() bool { return i.breaker("billing").GetAlone() })
	to.set(sick)
	i.post("/hooks/github", "d-1", "{}")
	eventually(t, "it opens alone", func() bool {
		return i.breaker("billing").GetState() != "closed"
	})
	to.set(well)
	eventually(t, "it probes and closes alone", func() bool {
		return len(to.all()) == 1 && i.breaker("billing").GetState() == "closed"
	})
	redis.Start()
	eventually(t, "it joins again", func() bool { return !i.breaker("billing").GetAlone() })
	i.stop()
	i.start() // one that starts without Redis does not wait for it
	redis.Kill()
	i.stop()
	i.start()
	if a := i.post("/hooks/github", "d-2", "{}"); a.code != 200 {
		t.Errorf("started without Redis: %v", a)
	}
	i.stop()
}
