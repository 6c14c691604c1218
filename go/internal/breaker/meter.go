package breaker

import (
	"math"
	"time"
)

const (
	meterTick = time.Second
	// A longer time without a tick is not measured: the host slept.
	meterGapMax = 10 * time.Second
	// Throughput is compared over as long as the baseline takes for jamAnswers, so that a few that
	// come late are no collapse; a destination for which that is over a minute is too slow to judge.
	jamAnswers = 10
	jamSpanMin = 5 * time.Second
	jamSpanMax = time.Minute
	// jamInflight of the limit in flight while less than jamShare of the baseline is answered is a
	// jam. A limit of one or two is always full.
	jamInflight = 0.85
	jamShare    = 0.2
	jamLimitMin = 3
	// The baseline is a slow mean, known after baselineMin of traffic.
	baselineSpan = 2 * time.Minute
	baselineMin  = 30 * time.Second
)

// meter knows what throughput is usual.
type meter struct {
	at       time.Time // of the last tick
	answered int       // since then
	baseline float64   // answers a second while closed and busy
	learned  time.Duration
	recent   float64   // answers a second over jamSpan
	best     float64   // the most that recent was while closed
	jamSince time.Time // zero: there is none
}

// span is over how long throughput is compared.
func (m *meter) span() time.Duration {
	if m.baseline*jamSpanMin.Seconds() >= jamAnswers {
		return jamSpanMin
	}
	if m.baseline*jamSpanMax.Seconds() <= jamAnswers {
		return jamSpanMax
	}
	return time.Duration(jamAnswers / m.baseline * float64(time.Second))
}

// skip lets time pass in which nothing is to be learned.
func (m *meter) skip(now time.Time) { m.at, m.answered, m.jamSince = now, 0, time.Time{} }

// tick takes in what was answered since the last one. rate is what may pass in a second at most;
// learn is false where that is less than what comes.
func (m *meter) tick(now time.Time, learn bool, inflight, limit int, rate float64) {
	took, answered := now.Sub(m.at), m.answered
	if took > meterGapMax {
		m.skip(now)
		return
	}
	m.at, m.answered = now, 0
	throughput := float64(answered) / took.Seconds()
	m.recent += (throughput - m.recent) * weight(took, m.span())
	switch {
	case !m.jammed(inflight, limit, rate):
		m.jamSince = time.Time{}
	case m.jamSince.IsZero():
		m.jamSince = now
	}
	if !learn || !m.jamSince.IsZero() || answered == 0 && inflight == 0 {
		return
	}
	// The plain mean until that is slower than the moving one.
	m.learned += took
	share := float64(took) / float64(m.learned)
	m.baseline += (throughput - m.baseline) * max(share, weight(took, baselineSpan))
	m.best = max(m.best, m.recent)
}

func weight(took, span time.Duration) float64 {
	return 1 - math.Exp(-float64(took)/float64(span))
}

func (m *meter) jammed(inflight, limit int, rate float64) bool {
	if limit < jamLimitMin || m.learned < baselineMin ||
		m.baseline*jamSpanMax.Seconds() < jamAnswers {
		return false
	}
	return float64(inflight) > jamInflight*float64(limit) &&
		m.recent < jamShare*min(m.baseline, rate)
}

// jam tells that it has lasted.
func (m *meter) jam(now time.Time) bool {
	return !m.jamSince.IsZero() && now.Sub(m.jamSince) >= m.span()
}
