package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/go/internal/testserver"
	pb "sluice/proto/sluice/v1"
)

// A destination goes through all moods while traffic comes in: nothing is lost, nothing overtakes
// within its key, and never is more under way than it can bear.
func TestAFlappingDestinationLosesNothingAndKeepsEachKeysOrder(t *testing.T) {
	const limit = 6
	random := seeded(t)
	to := newMoody(t)
	i := install(t, "sources:\n"+githubSource("github", "durable", "billing")+
		"    order_by: json:/key\ndestinations:\n"+strings.Replace(to.impatient("billing"),
		"timeout: 2s", "timeout: 300ms", 1)+fmt.Sprintf("    concurrency: %d\n", limit))
	i.start()
	pause := func(d time.Duration) mood {
		return func(w http.ResponseWriter, r *http.Request, body string) bool {
			select {
			case <-time.After(d):
				return well(w, r, body)
			case <-r.Context().Done(): // it was not told, so it did not take it
				return false
			}
		}
	}
	moods := map[string]mood{
		"well": well, "sick": sick, "slow": pause(40 * time.Millisecond), "hangs": pause(time.Minute),
		"throttles": func(w http.ResponseWriter, _ *http.Request, _ string) bool {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return false
		},
		"hangs up": func(w http.ResponseWriter, _ *http.Request, _ string) bool {
			panic(http.ErrAbortHandler)
		},
	}
	names := []string{"well", "sick", "slow", "hangs", "throttles", "hangs up"}
	sent := map[string]int{}
	w := i.dial(t)
	for round := range count(18, 200) {
		mood := names[random.IntN(len(names))]
		to.set(moods[mood])
		for n := range 20 + random.IntN(40) {
			key := fmt.Sprintf("k%d", random.IntN(5))
			sent[key]++
			a := w.ask(t, github("/hooks/github", fmt.Sprintf("d-%d-%d", round, n),
				fmt.Sprintf(`{"key":%q,"n":%d}`, key, sent[key])))
			if a.code != 200 && !queued(a) {
				t.Fatalf("while it %s: %v", mood, a)
			}
		}
		time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond) // any moment will do
	}
	to.set(well)
	eventually(t, "nothing waits and the breaker is closed", func() bool {
		return i.status().GetDestinations()[0].GetBacklog() == 0 &&
			i.breaker("billing").GetState() == "closed"
	})
	if _, most := to.look(); most > limit {
		t.Errorf("%d requests at once, over the limit of %d", most, limit)
	}
	next := map[string]int{}
	for _, body := range to.all() {
		var e struct {
			Key string
			N   int
		}
		must(t, json.Unmarshal([]byte(body), &e))
		switch {
		case e.N == next[e.Key]+1:
			next[e.Key]++
		case e.N > next[e.Key]:
			t.Fatalf("%s: %d came when %d was next", e.Key, e.N, next[e.Key]+1)
		} // else its answer was lost on the way, and it came again
	}
	for key, n := range sent {
		if next[key] != n {
			t.Errorf("%s: %d of %d came", key, next[key], n)
		}
	}
	if b := i.breaker("billing"); b.GetOpened() == 0 {
		t.Error("it never opened: the moods were none")
	}
	i.stop()
}

func TestASlowDestinationIsLeftAloneByItsLatency(t *testing.T) {
	to := newMoody(t)
	i := install(t, "sources:\n"+githubSource("github", "durable", "billing")+"destinations:\n"+
		replaced(t, to.impatient("billing"), "failures: 5", "latency: 100ms, samples: 10, failures: 5"))
	i.start()
	to.set(func(w http.ResponseWriter, r *http.Request, body string) bool {
		time.Sleep(150 * time.Millisecond)
		return well(w, r, body)
	})
	sent := 0
	eventually(t, "it opens though nothing fails", func() bool {
		sent++
		return queued(i.post("/hooks/github", fmt.Sprintf("d-%d", sent), fmt.Sprint(sent)))
	})
	if b := i.breaker("billing"); !strings.Contains(b.GetReason(), "p99") {
		t.Errorf("it opened for another reason: %s", b.GetReason())
	}
	to.set(well)
	eventually(t, "it closes", func() bool {
		return len(to.all()) == sent && i.breaker("billing").GetState() == "closed"
	})
	i.stop()
}

func TestEachKindOfSignalOpensAndCloses(t *testing.T) {
	cache := testserver.Redis(t)
	var sickness atomic.Int64 // what the measured service says, in percent
	measured := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		share := float64(sickness.Load()) / 100
		if r.URL.Path == "/api/v1/query" {
			_, _ = fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[`+
				`{"metric":{},"value":[%d,"%g"]}]}}`, time.Now().Unix(), share)
			return
		}
		_, _ = fmt.Fprintf(w, `{"pool":{"used_ratio":%g}}`, share)
	}))
	t.Cleanup(measured.Close)
	to := newMoody(t)
	destinations := ""
	for name, signal := range map[string]string{
		"by-http": fmt.Sprintf("http: {url: %q, pointer: /pool/used_ratio, pool: true}",
			measured.URL+"/health"),
		"by-prometheus": fmt.Sprintf("prometheus: {url: %q, query: max(used), trip: 0.85, "+
			"recover: 0.5}", measured.URL),
		"by-grpc":  "workers: {after: 1s, redis: false}",
		"by-redis": "workers: {after: 1s, redis: true}",
	} {
		destinations += replaced(t, to.impatient(name), "failures: 5",
			"failures: 5, signals: [{interval: 250ms, "+signal+"}]")
	}
	i := install(t, "redis: {url: \"env:SLUICE_TEST_REDIS\", prefix: sig}\nsources:\n"+
		githubSource("github", "durable", "by-http")+"destinations:\n"+destinations)
	i.env = append(os.Environ(), "SLUICE_TEST_REDIS="+cache.URL)
	i.start()
	client := redis.NewClient(&redis.Options{Addr: cache.Addr})
	defer client.Close()
	say := func(state string, ms int) {
		i.ask(func(ctx context.Context, api pb.AdminClient) error {
			_, err := api.ReportWorker(ctx, &pb.ReportWorkerRequest{
				Breaker: "by-grpc", Worker: "w1", State: state, StateMs: uint64(ms),
			})
			return err
		})
		must(t, client.Set(t.Context(), "sig:worker:by-redis:w1",
			fmt.Sprintf(`{"state":%q,"state_ms":%d}`, state, ms), time.Minute).Err())
	}
	all := []string{"by-http", "by-prometheus", "by-grpc", "by-redis"}
	is := func(state string) bool {
		for _, name := range all {
			if i.breaker(name).GetState() != state {
				return false
			}
		}
		return true
	}
	say("busy", 0)
	eventually(t, "all signals are read", func() bool {
		for _, name := range all {
			read := false
			for _, s := range i.breaker(name).GetSignals() {
				read = read || strings.Contains(s.GetName(), "http") && s.GetVerdict() == "well" ||
					strings.Contains(s.GetName(), "prometheus") && s.GetVerdict() == "well" ||
					strings.Contains(s.GetName(), "workers") && s.GetVerdict() == "well"
			}
			if !read {
				return false
			}
		}
		return true
	})
	if !is("closed") {
		t.Fatal("a well signal opened a breaker")
	}
	sickness.Store(95)
	say("lock_wait", 5000)
	eventually(t, "all open", func() bool { return is("open") })
	if a := i.post("/hooks/github", "d-1", "{}"); !queued(a) {
		t.Errorf("while the pool is full: %v", a)
	}
	sickness.Store(10)
	say("idle", 0)
	// Without an event nothing is there to probe with: only the one with a backlog comes back.
	eventually(t, "the one with a backlog closes", func() bool {
		return i.breaker("by-http").GetState() == "closed" && len(to.all()) == 1
	})
	i.stop()
}
