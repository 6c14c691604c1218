package observe

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"sluice/shm-abi/shmabi"
)

// words is memory laid out like a data plane's counters.
type words struct {
	workers, sources int
	memory           []byte
	inflight, held   uint64
}

func newWords(workers, sources int) *words {
	size := workers*shmabi.WorkerCountersSize + workers*sources*shmabi.SourceCountersSize
	return &words{workers: workers, sources: sources, memory: make([]byte, size)}
}

func (w *words) WorkerCount() int    { return w.workers }
func (w *words) SourceCount() int    { return w.sources }
func (w *words) Inflight() uint64    { return w.inflight }
func (w *words) Held() uint64        { return w.held }
func (w *words) Connections() uint64 { return 7 }

func (w *words) Worker(i int) shmabi.WorkerCounters {
	return shmabi.ViewWorkerCounters(w.memory[w.workerAt(i):])
}

func (w *words) workerAt(i int) int { return i * shmabi.WorkerCountersSize }

func (w *words) sourceAt(worker, slot int) int {
	return w.workers*shmabi.WorkerCountersSize +
		(worker*w.sources+slot)*shmabi.SourceCountersSize
}

// worker and source write the word at an offset of the layout.
func (w *words) worker(i, offset int, v uint64) { w.write(w.workerAt(i)+offset, v) }

func (w *words) source(worker, slot, offset int, v uint64) {
	w.write(w.sourceAt(worker, slot)+offset, v)
}

func (w *words) write(at int, v uint64) { binary.LittleEndian.PutUint64(w.memory[at:], v) }

func (w *words) Source(worker, slot int) shmabi.SourceCounters {
	return shmabi.ViewSourceCounters(w.memory[w.sourceAt(worker, slot):])
}

func ackBucket(i int) int { return shmabi.SourceCountersAckBucketOffset + 8*i }

func newMetrics(change func(*Facts), why *[]string) *Metrics {
	return New(Options{
		Version: "v1",
		Facts: func() Facts {
			f := Facts{ConfigVersion: 2, Generation: 3, Restarts: 1}
			if change != nil {
				change(&f)
			}
			return f
		},
		Ready: func() []string {
			if why == nil {
				return nil
			}
			return *why
		},
	})
}

func slotNames(slot int) (Slot, bool) {
	names := []Slot{{"github", "high"}, {"stripe", "default"}}
	if slot >= len(names) {
		return Slot{}, false
	}
	return names[slot], true
}

// has holds the text of a scrape to whole lines.
func has(t *testing.T, text string, lines ...string) {
	t.Helper()
	got := strings.Split(text, "\n")
	for _, line := range lines {
		if !slices.Contains(got, line) {
			name, _, _ := strings.Cut(line, " ")
			name, _, _ = strings.Cut(name, "{")
			var near []string
			for _, l := range got {
				if strings.HasPrefix(l, name) {
					near = append(near, l)
				}
			}
			t.Errorf("no line %q; there is\n%s", line, strings.Join(near, "\n"))
		}
	}
}

func scrapeText(t *testing.T, m *Metrics) string {
	t.Helper()
	recorder := httptest.NewRecorder()
	m.Handler().ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
	if recorder.Code != http.StatusOK {
		t.Fatalf("GET /metrics: %d %s", recorder.Code, recorder.Body)
	}
	return recorder.Body.String()
}

func TestEveryMetricOfTheContractIsThere(t *testing.T) {
	m := newMetrics(func(f *Facts) {
		f.Lanes = []Lane{{"3-0", 64, 1 << 20}}
		f.Destinations = []Destination{{Name: "billing", Breaker: Open}}
		f.Gaps = 7
	}, nil)
	m.Attach(3, newWords(1, 1), slotNames)
	m.Committed(time.Millisecond, 3)
	m.Committed(time.Millisecond, 0)
	m.Attempted("billing", "delivered", 200, time.Millisecond)
	text := scrapeText(t, m)
	for _, series := range []string{
		"webhook_ingress_concurrency_limit ", "webhook_ingress_inflight_requests ",
		`webhook_ingress_shed_total{priority="high",reason="hold",source="github"} `,
		`webhook_ingress_queue_delay_seconds_bucket{le="0.002"} `, "webhook_ingress_overloaded ",
		`webhook_ingress_requests_total{code="2xx",source="github"} `,
		`webhook_ingress_ack_seconds_bucket{source="github",le="0.000128"} `,
		`webhook_ring_used_bytes{lane="3-0"} 64`,
		"webhook_journal_commit_seconds_count 2", "webhook_journal_batch_events_sum 3",
		"webhook_journal_batch_events_count 1",
		`webhook_backlog_events{destination="billing"} `,
		`webhook_backlog_oldest_seconds{destination="billing"} `,
		`webhook_delivery_attempts_total{destination="billing",outcome="delivered"} 1`,
		`webhook_breaker_state{destination="billing"} 2`,
		`webhook_dead_letters{destination="billing"} `, "webhook_dataplane_restarts_total 1",
		"webhook_gaps 7",
	} {
		if !strings.Contains(text, "\n"+series) {
			t.Errorf("no series %q", series)
		}
	}
}

func TestNamesAndHelpTextsFollowTheConventions(t *testing.T) {
	m := newMetrics(func(f *Facts) {
		f.Lanes = []Lane{{"3-0", 64, 1 << 20}}
		f.Destinations = []Destination{{Name: "billing"}}
		f.Breakers = []BreakerLook{{Name: "orders", Group: true, Signals: []BreakerSignal{{Name: "p"}}}}
		f.Sources = []Source{{Name: "github"}}
		f.Admission.Changes = map[string]uint64{"slope": 1}
	}, nil)
	m.Attach(3, newWords(1, 1), slotNames)
	m.Attempted("billing", "delivered", 200, time.Millisecond)
	m.Delivered("billing", time.Second)
	m.Transitioned("billing", "open")
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestCountersAreSummedOverWorkersAndDataPlanes(t *testing.T) {
	m := newMetrics(nil, nil)
	first, second := newWords(2, 3), newWords(1, 3)
	first.inflight, second.inflight, second.held = 3, 4, 1
	first.worker(0, shmabi.WorkerCountersRequestsOffset, 100) // requests
	first.worker(1, shmabi.WorkerCountersRequestsOffset, 20)
	first.worker(1, shmabi.WorkerCountersRingsOffset, 6) // rings
	first.worker(1, shmabi.WorkerCountersWakesOffset, 4) // wakes
	first.source(0, 0, shmabi.SourceCountersCode2xxOffset, 90)
	first.source(1, 0, shmabi.SourceCountersCode2xxOffset, 9)
	first.source(1, 1, shmabi.SourceCountersCode401Offset, 5)  // 401
	first.source(1, 1, shmabi.SourceCountersShedHoldOffset, 2) // shed_hold
	first.source(1, 2, shmabi.SourceCountersCode2xxOffset, 77) // a slot without a source
	second.source(0, 0, shmabi.SourceCountersCode2xxOffset, 1)
	first.worker(0, shmabi.WorkerCountersKeptBytesOffset, 300)
	first.worker(0, shmabi.WorkerCountersTLSHandshakesOffset, 8)
	second.worker(0, shmabi.WorkerCountersKeptBytesOffset, 45)
	m.Attach(1, first, slotNames)
	m.Attach(2, second, slotNames)
	text := scrapeText(t, m)
	has(t, text,
		"webhook_dataplane_requests_total 120",
		"webhook_ingress_wakes_per_request 0.08333333333333333",
		"webhook_ingress_inflight_requests 7",
		"webhook_ingress_held_requests 1",
		"webhook_ingress_connections 14",
		"webhook_ingress_receive_memory_bytes 345",
		"webhook_dataplane_tls_handshakes_total 8",
		`webhook_ingress_requests_total{code="2xx",source="github"} 100`,
		`webhook_ingress_requests_total{code="401",source="stripe"} 5`,
		`webhook_ingress_shed_total{priority="default",reason="hold",source="stripe"} 2`)
	if m.Shed("stripe") != 2 || m.Shed("github") != 0 || m.Shed("other") != 0 {
		t.Errorf("shed: %d of stripe, %d of github", m.Shed("stripe"), m.Shed("github"))
	}
	if strings.Contains(text, " 77\n") {
		t.Error("a slot without a source is shown")
	}
	m.Detach(1)
	has(t, scrapeText(t, m), "webhook_ingress_receive_memory_bytes 45",
		"webhook_dataplane_tls_handshakes_total 8")
}

func TestTheDataPlaneShowsItsWayAndWhatItGaveUp(t *testing.T) {
	m := newMetrics(func(f *Facts) {
		f.DataPlane = DataPlane{Driver: "epoll", Sandbox: []string{"user", "seccomp"}, Retiring: 1}
		f.Certificates = []Certificate{{"0.0.0.0:8443", "/etc/tls.crt", time.Unix(1_900_000_000, 0)}}
	}, nil)
	has(t, scrapeText(t, m),
		`webhook_dataplane_driver_info{driver="epoll"} 1`,
		`webhook_dataplane_sandbox_layer{layer="user"} 1`,
		`webhook_dataplane_sandbox_layer{layer="seccomp"} 1`,
		"webhook_dataplane_retiring 1",
		`webhook_certificate_expiry_timestamp_seconds{certificate="/etc/tls.crt",`+
			`listener="0.0.0.0:8443"} 1.9e+09`)
}

func TestAdmissionIsShownByClassAndBySource(t *testing.T) {
	m := newMetrics(func(f *Facts) {
		f.Admission = Admission{
			Limit: 18, MaxHeld: 1024, Overloaded: 1<<6 | 1<<7, HoldBound: 10 * time.Millisecond,
			ServiceTime: 4 * time.Millisecond, ShareRate: 40.5, Saturation: 0.75,
			Changes: map[string]uint64{"slope": 7, "drops": 1},
		}
		f.Sources = []Source{{Name: "github", RefusedInRow: 3, Guarded: true}, {Name: "stripe"}}
	}, nil)
	first, second := newWords(2, 2), newWords(1, 2)
	for class := range shmabi.Classes {
		first.worker(0, shmabi.WorkerCountersClassOfferedOffset+8*class, uint64(1000+class))
		first.worker(1, shmabi.WorkerCountersClassAdmittedOffset+8*class, uint64(700+class))
		second.worker(0, shmabi.WorkerCountersClassHeldOffset+8*class, uint64(20+class))
		second.worker(0, shmabi.WorkerCountersClassShedOffset+8*class, uint64(3+class))
	}
	first.worker(0, shmabi.WorkerCountersDropsOffset, 4)
	second.worker(0, shmabi.WorkerCountersDropsOffset, 1)
	first.source(0, 0, shmabi.SourceCountersRepeatsOffset, 11)
	first.source(1, 0, shmabi.SourceCountersRepeatsOffset, 1)
	first.source(1, 0, shmabi.SourceCountersOverShareOffset, 5)
	second.source(0, 1, shmabi.SourceCountersFlooredOffset, 2)
	m.Attach(1, first, slotNames)
	m.Attach(2, second, slotNames)
	for range 2 { // also when the first is dead
		text := scrapeText(t, m)
		has(t, text,
			"webhook_ingress_concurrency_limit 18",
			"webhook_ingress_overloaded 1",
			`webhook_ingress_overloaded{class="high"} 0`,
			`webhook_ingress_overloaded{class="default_over_share"} 0`,
			`webhook_ingress_overloaded{class="repeat"} 1`,
			`webhook_ingress_overloaded{class="low_over_share"} 1`,
			`webhook_ingress_offered_total{class="high"} 1000`,
			`webhook_ingress_offered_total{class="low_over_share"} 1007`,
			`webhook_ingress_decisions_total{class="never_retries",decision="admitted"} 701`,
			`webhook_ingress_decisions_total{class="default",decision="held"} 22`,
			`webhook_ingress_decisions_total{class="low",decision="shed"} 6`,
			"webhook_ingress_hold_bound_seconds 0.01",
			"webhook_ingress_service_seconds 0.004",
			"webhook_ingress_share_rate 40.5",
			"webhook_ingress_saturation_ratio 0.75",
			"webhook_ingress_drops_total 5",
			`webhook_ingress_limit_changes_total{reason="slope"} 7`,
			`webhook_ingress_limit_changes_total{reason="drops"} 1`,
			`webhook_ingress_repeats_total{source="github"} 12`,
			`webhook_ingress_over_share_total{source="github"} 5`,
			`webhook_ingress_floored_total{source="stripe"} 2`,
			`webhook_ingress_refused_in_row{source="github"} 3`,
			`webhook_ingress_guarded{source="github"} 1`,
			`webhook_ingress_guarded{source="stripe"} 0`)
		m.Detach(1)
		clear(first.memory)
	}
}

func TestWithoutOverloadEverySeriesIsZero(t *testing.T) {
	text := scrapeText(t, newMetrics(nil, nil))
	has(t, text, "webhook_ingress_overloaded 0")
	for _, class := range Classes {
		has(t, text, `webhook_ingress_overloaded{class="`+class+`"} 0`)
	}
}

func TestTotalsNeverGoBackwardsWhenADataPlaneDies(t *testing.T) {
	m := newMetrics(nil, nil)
	first := newWords(1, 1)
	first.worker(0, shmabi.WorkerCountersRequestsOffset, 100)
	first.source(0, 0, shmabi.SourceCountersCode2xxOffset, 90)
	first.source(0, 0, ackBucket(0), 90) // ack_bucket 0
	first.inflight = 5
	m.Attach(1, first, slotNames)
	m.Detach(1)
	clear(first.memory) // as if it were unmapped
	has(t, scrapeText(t, m),
		"webhook_dataplane_requests_total 100",
		"webhook_ingress_inflight_requests 0",
		`webhook_ingress_requests_total{code="2xx",source="github"} 90`)
	second := newWords(1, 1)
	second.worker(0, shmabi.WorkerCountersRequestsOffset, 11)
	second.source(0, 0, shmabi.SourceCountersCode2xxOffset, 10)
	second.source(0, 0, ackBucket(1), 10)
	// The source's priority is another one by now; it is still the same source.
	m.Attach(2, second, func(int) (Slot, bool) { return Slot{"github", "low"}, true })
	has(t, scrapeText(t, m),
		"webhook_dataplane_requests_total 111",
		`webhook_ingress_requests_total{code="2xx",source="github"} 100`,
		`webhook_ingress_ack_seconds_bucket{source="github",le="6.4e-05"} 90`,
		`webhook_ingress_ack_seconds_bucket{source="github",le="0.000128"} 100`,
		`webhook_ingress_ack_seconds_count{source="github"} 100`)
	m.Detach(2)
	m.Detach(2)
	has(t, scrapeText(t, m), "webhook_dataplane_requests_total 111")
}

func TestAnAnswerSlowerThanEveryBoundIsCounted(t *testing.T) {
	m := newMetrics(nil, nil)
	w := newWords(1, 1)
	w.source(0, 0, ackBucket(shmabi.LatencyBuckets-1), 4)
	m.Attach(1, w, slotNames)
	has(t, scrapeText(t, m),
		`webhook_ingress_ack_seconds_bucket{source="github",le="268.435456"} 0`,
		`webhook_ingress_ack_seconds_bucket{source="github",le="+Inf"} 4`)
}

func TestScrapesAndDetachesMayMeet(t *testing.T) {
	m := newMetrics(nil, nil)
	var group sync.WaitGroup
	for g := range uint32(8) {
		w := newWords(2, 2)
		w.worker(0, shmabi.WorkerCountersRequestsOffset, 1)
		m.Attach(g, w, slotNames)
		group.Go(func() { m.Detach(g) })
		group.Go(func() { _, _ = m.Gatherer().Gather() })
	}
	group.Wait()
	has(t, scrapeText(t, m), "webhook_dataplane_requests_total 8")
}

func TestReadyzSaysWhyNot(t *testing.T) {
	why := []string{"the journal is full", "no data plane"}
	m := newMetrics(nil, &why)
	get := func(path string) (int, string) {
		recorder := httptest.NewRecorder()
		m.Handler().ServeHTTP(recorder, httptest.NewRequest("GET", path, nil))
		return recorder.Code, recorder.Body.String()
	}
	if code, text := get("/readyz"); code != 503 || text != "the journal is full\nno data plane\n" {
		t.Errorf("not ready: %d %q", code, text)
	}
	if code, _ := get("/healthz"); code != 200 {
		t.Errorf("/healthz is %d while not ready", code)
	}
	has(t, scrapeText(t, m), "webhook_ready 0")
	why = nil
	if code, text := get("/readyz"); code != 200 || text != "ok\n" {
		t.Errorf("ready: %d %q", code, text)
	}
	has(t, scrapeText(t, m), "webhook_ready 1")
	if code, _ := get("/other"); code != 404 {
		t.Errorf("another path: %d", code)
	}
}

func TestADestinationThatIsGoneIsForgotten(t *testing.T) {
	m := newMetrics(nil, nil)
	m.Attempted("billing", "retry", 503, time.Second)
	m.Attempted("archive", "delivered", 200, time.Second)
	m.Delivered("billing", time.Second)
	m.Transitioned("billing", "open")
	m.Transitioned("billing", "half_open")
	m.Forget("billing")
	text := scrapeText(t, m)
	if strings.Contains(text, `"billing"`) {
		t.Error("billing is still shown")
	}
	has(t, text, `webhook_delivery_attempts_total{destination="archive",outcome="delivered"} 1`)
}

func TestServeEndsWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, l, newMetrics(nil, nil).Handler()) }()
	r, err := http.Get("http://" + l.Addr().String() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r.Body)
	if err := r.Body.Close(); err != nil {
		t.Fatal(err)
	}
	if r.StatusCode != 200 || string(text) != "ok\n" || err != nil {
		t.Errorf("%d %q %v", r.StatusCode, text, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
