package tune

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"sluice/go/internal/config"
	"sluice/shm-abi/shmabi"
)

// seeded is a generator that prints its seed; SLUICE_SEED repeats a run.
func seeded(t testing.TB) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("SLUICE_SEED"); text != "" {
		given, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = given
	}
	t.Logf("SLUICE_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

func soak(short, full int) int {
	if os.Getenv("SLUICE_SOAK") != "" {
		return full
	}
	return short
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newPage() shmabi.ControlPage {
	return shmabi.ViewControlPage(make([]byte, shmabi.ControlPageSize))
}

// standard is the config that an operator gets who writes none.
func standard() config.Admission {
	return config.Admission{
		Algorithm: "slope", InitialLimit: 16, MinLimit: 2, MaxLimit: 4096,
		Patience: 500 * time.Millisecond, Smoothing: 0.2, Tolerance: 1.5, Overload: "queue",
		TargetDelay: 5 * time.Millisecond, Interval: 100 * time.Millisecond, Pacing: "off",
		HoldBudget: 2500 * time.Millisecond, MaxHeld: 77, ShedStatus: 503,
	}
}

// pages are a data plane's counters in memory of our own.
type pages struct {
	shmabi.CountersHeader
	header           []byte
	memory           []byte
	workers, sources int
}

func newPages(workers, sources int) *pages {
	p := &pages{workers: workers, sources: sources}
	p.header = make([]byte, shmabi.CountersHeaderSize)
	p.CountersHeader = shmabi.ViewCountersHeader(p.header)
	p.memory = make([]byte, workers*shmabi.WorkerCountersSize+
		workers*sources*shmabi.SourceCountersSize)
	return p
}

func (p *pages) WorkerCount() int { return p.workers }
func (p *pages) SourceCount() int { return p.sources }

func (p *pages) Worker(i int) shmabi.WorkerCounters {
	return shmabi.ViewWorkerCounters(p.memory[i*shmabi.WorkerCountersSize:])
}

func (p *pages) sourceAt(worker, slot int) int {
	return p.workers*shmabi.WorkerCountersSize +
		(worker*p.sources+slot)*shmabi.SourceCountersSize
}

func (p *pages) Source(worker, slot int) shmabi.SourceCounters {
	return shmabi.ViewSourceCounters(p.memory[p.sourceAt(worker, slot):])
}

// set and add write a word of the header; count adds to one of a worker, offer to a source's.
func (p *pages) set(offset int, v uint64) { binary.LittleEndian.PutUint64(p.header[offset:], v) }

func (p *pages) add(offset int, v uint64) {
	p.set(offset, binary.LittleEndian.Uint64(p.header[offset:])+v)
}

func (p *pages) count(worker, offset int, v uint64) {
	word := p.memory[worker*shmabi.WorkerCountersSize+offset:]
	binary.LittleEndian.PutUint64(word, binary.LittleEndian.Uint64(word)+v)
}

func (p *pages) offer(worker, slot int, n uint64) {
	word := p.memory[p.sourceAt(worker, slot)+shmabi.SourceCountersOfferedOffset:]
	binary.LittleEndian.PutUint64(word, binary.LittleEndian.Uint64(word)+n)
	p.count(worker, shmabi.WorkerCountersClassOfferedOffset+8*(slot%int(shmabi.Classes)), n)
}

// store is a backend with so many servers, each of which takes so long for an event; senders ask
// for more than it can do. It counts as a data plane would that obeys the page.
type store struct {
	servers float64
	service time.Duration
	rest    float64 // of an event, carried over
}

// pass lets time go by, in which the limit is what the page has.
func (s *store) pass(page shmabi.ControlPage, p *pages, span time.Duration) {
	taken := float64(page.Limit())
	rate := min(taken, s.servers) / s.service.Seconds()
	exact := rate*span.Seconds() + s.rest
	n := uint64(exact)
	s.rest = exact - float64(n)
	each := time.Duration(taken / rate * float64(time.Second))
	p.count(0, shmabi.WorkerCountersSamplesOffset, n)
	p.count(0, shmabi.WorkerCountersSampleSumNSOffset, n*uint64(each))
	p.count(0, shmabi.WorkerCountersClassShedOffset, n) // as many again
	p.add(shmabi.CountersHeaderMeteredNSOffset, uint64(span))
	p.add(shmabi.CountersHeaderAreaNSOffset, uint64(taken*float64(span)))
	p.add(shmabi.CountersHeaderSaturatedNSOffset, uint64(span))
	p.set(shmabi.CountersHeaderInflightOffset, page.Limit())
	p.set(shmabi.CountersHeaderPeakOffset, page.Limit())
	p.set(shmabi.CountersHeaderHeldOffset, 5)
}

// bed is a service with a clock of its own.
type bed struct {
	*Service
	t    testing.TB
	page shmabi.ControlPage
	now  time.Duration
	wall time.Time
}

var began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newBed(t testing.TB, c config.Admission, page shmabi.ControlPage) *bed {
	t.Helper()
	b := &bed{t: t, page: page, wall: began}
	s, err := New(Options{
		Control: page, Config: c,
		Now:  func() time.Duration { return b.now },
		Wall: func() time.Time { return b.wall },
	})
	must(t, err)
	b.Service = s
	return b
}

// pass lets time go by, first for the world and then for the service.
func (b *bed) pass(span time.Duration, world func(time.Duration)) {
	for ; span > 0; span -= TickInterval {
		b.now += TickInterval
		b.wall = b.wall.Add(TickInterval)
		if world != nil {
			world(TickInterval)
		}
		b.Step()
	}
}

// busy is a data plane in front of a store, as what bed.pass takes.
func (b *bed) busy(s *store, p *pages) func(time.Duration) {
	return func(span time.Duration) { s.pass(b.page, p, span) }
}
