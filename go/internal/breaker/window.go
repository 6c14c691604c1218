package breaker

import (
	"math"
	"slices"
	"time"
)

// windowBuckets is how finely the window slides.
const windowBuckets = 30

// counts are outcomes in a stretch of time.
type counts struct{ well, failed, dead int }

func (c *counts) add(o counts, sign int) {
	c.well += sign * o.well
	c.failed += sign * o.failed
	c.dead += sign * o.dead
}

// window counts what ended in the last Config.Window, in a ring of buckets with their sum beside.
type window struct {
	begin time.Time
	width time.Duration // of a bucket
	head  int64         // number of the newest bucket since begin
	ring  [windowBuckets]counts
	sum   counts
	times *latencies // nil: nobody asks
}

func newWindow(c Config, now time.Time) window {
	w := window{begin: now, width: c.Window / windowBuckets}
	if c.Latency > 0 {
		w.times = newLatencies(c.Latency)
	}
	return w
}

// slide forgets what is too old.
func (w *window) slide(now time.Time) {
	to := int64(now.Sub(w.begin) / w.width)
	if to <= w.head {
		return
	}
	for range min(to-w.head, windowBuckets) {
		w.head++
		slot := int(w.head % windowBuckets)
		w.sum.add(w.ring[slot], -1)
		w.ring[slot] = counts{}
		if w.times != nil {
			w.times.clear(slot)
		}
	}
	w.head = to
}

// add counts one outcome; answered tells that took is a latency.
func (w *window) add(now time.Time, c counts, answered bool, took time.Duration) {
	w.slide(now)
	slot := int(w.head % windowBuckets)
	w.ring[slot].add(c, 1)
	w.sum.add(c, 1)
	if answered && w.times != nil {
		w.times.add(slot, took)
	}
}

// share is the ratio of failures, where there are enough samples.
func (w *window) share(samples int) (float64, bool) {
	n := w.sum.well + w.sum.failed
	if n == 0 || n < samples {
		return 0, false
	}
	return float64(w.sum.failed) / float64(n), true
}

// deadRate is the dead letters a minute.
func (w *window) deadRate() float64 {
	return float64(w.sum.dead) * float64(time.Minute) / float64(w.width*windowBuckets)
}

const (
	latencyOctave = 4 // classes in a doubling
	latencySpan   = 6 // octaves below and above the scale
	latencyLast   = 2 * latencyOctave * latencySpan
	// strays of the slowest are left out of a p99 at least: in a small sample one is no evidence.
	strays = 2
)

// latencies is a histogram in classes of a quarter of an octave around a scale. The scale and its
// half are edges, so whether the p99 reaches one of them is exact.
type latencies struct {
	edges [latencyLast]time.Duration // class i+1 begins at edges[i]
	ring  [windowBuckets][latencyLast + 1]int32
	sum   [latencyLast + 1]int32
	count int
}

func newLatencies(scale time.Duration) *latencies {
	l := &latencies{}
	for i := range l.edges {
		octaves := float64(i+1)/latencyOctave - latencySpan
		l.edges[i] = time.Duration(float64(scale) * math.Exp2(octaves))
	}
	return l
}

func (l *latencies) add(slot int, took time.Duration) {
	class, exact := slices.BinarySearch(l.edges[:], took)
	if exact {
		class++
	}
	l.ring[slot][class]++
	l.sum[class]++
	l.count++
}

func (l *latencies) clear(slot int) {
	for class, n := range l.ring[slot] {
		l.sum[class] -= n
		l.count -= int(n)
	}
	l.ring[slot] = [latencyLast + 1]int32{}
}

// p99 is the lower edge of the class in which it lies; false: there are too few samples.
func (l *latencies) p99(samples int) (time.Duration, bool) {
	if l.count < samples {
		return 0, false
	}
	left := max(l.count/100, strays)
	for class := latencyLast; class > 0; class-- {
		if left -= int(l.sum[class]); left < 0 {
			return l.edges[class-1], true
		}
	}
	return 0, true
}
