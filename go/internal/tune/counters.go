package tune

import (
	"time"

	"sluice/go/internal/admission"
	"sluice/shm-abi/shmabi"
)

// Counters are the words of one data plane, for reading.
type Counters interface {
	WorkerCount() int
	SourceCount() int
	Worker(i int) shmabi.WorkerCounters
	Source(worker, slot int) shmabi.SourceCounters
	Inflight() uint64
	Held() uint64
	Peak() uint64
	MeteredNS() uint64
	AreaNS() uint64
	SaturatedNS() uint64
}

// recentTicks is how many ticks make half a second.
const recentTicks = uint64(500 * time.Millisecond / TickInterval)

// sums are what all data planes counted since this service began: each difference between two
// readings of one data plane is added, whichever data planes there are.
type sums struct {
	counts  admission.Counts
	offered []uint64 // by source slot
	metered uint64   // the latest boot clock instant that a data plane metered up to; 0: none yet
}

// plane is one data plane with its last reading.
type plane struct {
	generation uint32
	counters   Counters
	last       meter
	workers    []workerReading
	next       []workerReading // room to read in
	recent     uint64          // area_ns of the last half second or so
}

// meter is what a data plane writes in one step.
type meter struct{ until, area, saturated uint64 }

// readMeter reads the three words of one step, as far as the data plane lets it.
func readMeter(c Counters) meter {
	const tries = 3
	var m meter
	for range tries {
		m = meter{c.MeteredNS(), c.AreaNS(), c.SaturatedNS()}
		if c.MeteredNS() == m.until {
			break
		}
	}
	return m
}

type workerReading struct {
	samples, sampleSum, void, drops, sheds uint64

	classes uint64   // requests offered, of all classes
	quiet   bool     // nothing was offered between the last two readings
	offered []uint64 // by source slot
}

// newPlane takes the first reading, from which on differences count.
func newPlane(generation uint32, c Counters) *plane {
	p := &plane{generation: generation, counters: c}
	p.last = readMeter(c)
	p.workers = make([]workerReading, c.WorkerCount())
	p.next = make([]workerReading, c.WorkerCount())
	for i := range p.workers {
		w := &p.workers[i]
		*w = readWorker(c.Worker(i))
		w.offered = make([]uint64, c.SourceCount())
		for slot := range w.offered {
			w.offered[slot] = c.Source(i, slot).Offered()
		}
	}
	return p
}

func readWorker(words shmabi.WorkerCounters) workerReading {
	w := workerReading{
		samples: words.Samples(), sampleSum: words.SampleSumNS(), void: words.VoidNS(),
		drops: words.Drops(),
	}
	for class := range int(shmabi.Classes) {
		w.sheds += words.ClassShed(class)
		w.classes += words.ClassOffered(class)
	}
	return w
}

// shrank tells that one of these counts did: it is another's by now.
func (m meter) shrank(before meter) bool {
	return fell(before.until, m.until) || fell(before.area, m.area) ||
		fell(before.saturated, m.saturated)
}

func (w *workerReading) shrank(before *workerReading) bool {
	return fell(before.samples, w.samples) || fell(before.sampleSum, w.sampleSum) ||
		fell(before.void, w.void) || fell(before.drops, w.drops) ||
		fell(before.sheds, w.sheds) || fell(before.classes, w.classes)
}

// fell compares modulo 2^64.
func fell(before, now uint64) bool { return now-before >= 1<<63 }

// look takes the next reading, beside the last; false: it is no continuation of that.
func (p *plane) look() (now meter, goesOn bool) {
	now = readMeter(p.counters)
	goesOn = !now.shrank(p.last)
	for i := range p.next {
		p.next[i] = readWorker(p.counters.Worker(i))
		goesOn = goesOn && !p.next[i].shrank(&p.workers[i])
	}
	return now, goesOn
}

// read adds what one data plane counted since its last reading. slots are those of sources that the
// config has. Where a count fell nothing is believed, and the next reading begins anew.
func (s *sums) read(p *plane, slots []int) {
	c := p.counters
	s.counts.Inflight += c.Inflight()
	s.counts.Held += c.Held()
	s.counts.Peak += c.Peak()
	now, goesOn := p.look()
	if !goesOn {
		*p = *newPlane(p.generation, c)
		s.metered = 0
		return
	}
	area := now.area - p.last.area
	s.counts.SaturatedNS += now.saturated - p.last.saturated
	p.last = now
	void, drops := uint64(0), uint64(0)
	for i := range p.workers {
		w, next := &p.workers[i], &p.next[i]
		s.counts.Samples += next.samples - w.samples
		s.counts.SampleSumNS += next.sampleSum - w.sampleSum
		s.counts.Sheds += next.sheds - w.sheds
		drops += next.drops - w.drops
		void += next.void - w.void
		// Where nobody asked there is nothing to look for; a tick later once more, since a request is
		// not counted by class and by source in one instant.
		next.offered, next.quiet = w.offered, next.classes == w.classes
		if !next.quiet || !w.quiet {
			for _, slot := range slots {
				if slot < len(next.offered) {
					n := c.Source(i, slot).Offered()
					s.offered[slot] += n - next.offered[slot]
					next.offered[slot] = n
				}
			}
		}
		*w = *next
	}
	s.counts.Drops += drops
	s.counts.AreaNS += area - p.void(area, void, drops > 0)
	s.meter(now.until)
}

// void is how much of an area belongs to frames that gave no sample, which is known only when their
// slots are given back. It may be more than this tick's area, of ticks before: the sum of a window
// comes out right. What is longer ago than about half a second was judged with the samples of its
// time. So was the time of frames that were dropped, which are the long ones.
func (p *plane) void(area, void uint64, dropped bool) uint64 {
	p.recent += area - p.recent/recentTicks
	if dropped {
		return min(void, area)
	}
	return min(void, p.recent)
}

// meter moves the end of what was metered. The boot clock is one for all data planes, so the latest
// of them counts; the time before the first of them is nobody's.
func (s *sums) meter(until uint64) {
	if until > s.metered {
		if s.metered > 0 {
			s.counts.MeteredNS += until - s.metered
		}
		s.metered = until
	}
}
