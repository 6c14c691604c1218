package observe

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Options of New; Facts and Ready are required.
type Options struct {
	Version string
	Facts   func() Facts
	// Ready says why the daemon is not ready; nothing means that it is.
	Ready func() []string
	Log   *slog.Logger // nil: slog.Default
}

// Metrics holds every number that is shown. Its methods may be called from any goroutine.
type Metrics struct {
	o        Options
	registry *prometheus.Registry

	commitSeconds  prometheus.Histogram
	batchEvents    prometheus.Histogram
	attempts       *prometheus.CounterVec
	attemptSeconds *prometheus.HistogramVec
	deliverSeconds *prometheus.HistogramVec
	transitions    *prometheus.CounterVec
	whole          *prometheus.CounterVec

	mu     sync.Mutex
	planes []plane
	past   totals // of the data planes that are gone
}

// New makes the metrics of one daemon.
func New(o Options) *Metrics {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	m := &Metrics{
		o: o, registry: prometheus.NewRegistry(), past: newTotals(),
		commitSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "webhook_journal_commit_seconds",
			Help: "Time in which a group became durable, tries that failed left out.",
			// 64 µs to 8 s: a RAM disk to a disk in trouble.
			Buckets: prometheus.ExponentialBuckets(64e-6, 2, 18),
		}),
		batchEvents: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "webhook_journal_batch_events",
			Help:    "Events made durable by one write and sync.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 14),
		}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "webhook_delivery_attempts_total",
			Help: "Attempts at deliveries by what became of them.",
		}, []string{"destination", "outcome"}),
		attemptSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "webhook_delivery_attempt_seconds",
			Help:    "Time of an attempt, from its start to the destination's answer.",
			Buckets: prometheus.ExponentialBuckets(1e-3, 2, 16),
		}, []string{"destination"}),
		deliverSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "webhook_delivery_seconds",
			Help: "Time from the receipt of an event to its delivery, retries included.",
			// 1 ms to 3 days: a sender that waits to a destination that was down for long.
			Buckets: prometheus.ExponentialBuckets(1e-3, 4, 15),
		}, []string{"destination"}),
		transitions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "webhook_breaker_transitions_total",
			Help: "Transitions of breakers by the state that they led to.",
		}, []string{"breaker", "to"}),
		whole: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "webhook_batches_whole_total",
			Help: "Bodies of a source with split that could not be taken apart and went on whole.",
		}, []string{"source"}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "webhook_build_info", Help: "1, with the version that runs.",
		ConstLabels: prometheus.Labels{"version": o.Version},
	})
	build.Set(1)
	m.registry.MustRegister(build, m.commitSeconds, m.batchEvents, m.attempts, m.attemptSeconds,
		m.deliverSeconds, m.transitions, m.whole, collector{m}, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Committed tells of a group that became durable. It is the observer of package ingest. Groups of
// outcomes alone have no frames and say nothing about batches of events.
func (m *Metrics) Committed(took time.Duration, frames int) {
	m.commitSeconds.Observe(took.Seconds())
	if frames > 0 {
		m.batchEvents.Observe(float64(frames))
	}
}

// Attempted tells of an attempt at a delivery. It is the outcome hook of package deliver. What a
// filter skipped was no attempt and took no time.
func (m *Metrics) Attempted(destination, outcome string, _ int, took time.Duration) {
	m.attempts.WithLabelValues(destination, outcome).Inc()
	if outcome != skipped {
		m.attemptSeconds.WithLabelValues(destination).Observe(took.Seconds())
	}
}

// skipped is the outcome of a delivery that its destination does not want.
const skipped = "skipped"

// Delivered tells of a delivery that ended well, so long after its event was received.
func (m *Metrics) Delivered(destination string, since time.Duration) {
	m.deliverSeconds.WithLabelValues(destination).Observe(max(since, 0).Seconds())
}

// Transitioned tells of a breaker that went to a state: closed, open or half_open.
func (m *Metrics) Transitioned(breaker, to string) {
	m.transitions.WithLabelValues(breaker, to).Inc()
}

// Whole tells of a body of a source that could not be taken apart.
func (m *Metrics) Whole(source string) { m.whole.WithLabelValues(source).Inc() }

// Forget drops what was counted of a destination or group that the config no longer has.
func (m *Metrics) Forget(name string) {
	m.attempts.DeletePartialMatch(prometheus.Labels{"destination": name})
	m.attemptSeconds.DeleteLabelValues(name)
	m.deliverSeconds.DeleteLabelValues(name)
	m.transitions.DeletePartialMatch(prometheus.Labels{"breaker": name})
}

// Gatherer gives all numbers, for a handler of another's.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

func (m *Metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog: logger{m.o.Log}, ErrorHandling: promhttp.ContinueOnError,
		EnableOpenMetrics: true, MaxRequestsInFlight: scrapesMax,
	})
}

// logger takes what a scrape has to complain about.
type logger struct{ log *slog.Logger }

func (l logger) Println(v ...any) { l.log.Warn("scrape", "problem", v) }
