package admission

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// tick is how often the limiter is asked.
const tick = 20 * time.Millisecond

// seeded gives the run's seed, which SLUICE_SEED repeats.
func seeded(t testing.TB) uint64 {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("SLUICE_SEED"); text != "" {
		parsed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("SLUICE_SEED: %v", err)
		}
		seed = parsed
	}
	t.Logf("SLUICE_SEED=%d", seed)
	return seed
}

func random(seed, stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }

// count is the full number under SLUICE_SOAK and the short one otherwise.
func count(short, full int) int {
	if os.Getenv("SLUICE_SOAK") == "1" {
		return full
	}
	return short
}

// plant is a store behind slots, in virtual time: servers that take jobs first come first served,
// each up to batch jobs at once, and a limiter that sets the number of slots every tick.
type plant struct {
	limiter *Limiter
	rng     *rand.Rand
	servers int
	batch   int
	// service is how long a server takes for so many jobs while so many slots are taken, in
	// seconds of work; speed is how much work is done in a second.
	service func(jobs, taken int) float64
	speed   float64
	// rate is of the arrivals, requests a second; 0: there is always one waiting.
	rate   float64
	budget float64 // seconds that one may wait

	now, work float64
	inflight  int
	busy      int
	taken     []float64 // jobs by their order: when the slot was taken
	next      int       // the first that no server has taken
	finishing finishes
	waiting   []float64
	arrival   float64 // when the next comes
	offered   uint64
	ended     uint64 // arrivals that got no slot in their budget
	longest   float64
	area, sat float64
	sum       float64
	samples   uint64
	peak      int
	peaks     []int
	numbers   Numbers
	ticks     int
	drops     uint64
}

// finish ends jobs first to first+count at this point of the work.
type finish struct {
	at           float64
	first, count int
}

type finishes []finish

func (f finishes) Len() int           { return len(f) }
func (f finishes) Less(i, j int) bool { return f[i].at < f[j].at }
func (f finishes) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }
func (f *finishes) Push(x any)        { *f = append(*f, x.(finish)) }
func (f *finishes) Pop() any {
	last := (*f)[len(*f)-1]
	*f = (*f)[:len(*f)-1]
	return last
}

func newPlant(t testing.TB, c Config, rng *rand.Rand) *plant {
	l, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	p := &plant{limiter: l, rng: rng, servers: 1, batch: 1, speed: 1, budget: 2.5}
	p.numbers = l.Numbers()
	return p
}

// varied is a lognormal factor of mean 1.
func varied(rng *rand.Rand, sigma float64) float64 {
	return math.Exp(sigma*rng.NormFloat64() - sigma*sigma/2)
}

// constant makes servers of one mean time, a third of it noise.
func (p *plant) constant(servers int, seconds float64) {
	p.servers = servers
	p.service = func(int, int) float64 { return seconds * varied(p.rng, 0.3) }
}

// run goes on for so long and asks the limiter every tick; each sees every tick's numbers.
func (p *plant) run(seconds float64, each func(Numbers)) {
	for range int(math.Round(seconds / tick.Seconds())) {
		p.ticks++
		p.until(float64(p.ticks) * tick.Seconds())
		p.ask()
		if each != nil {
			each(p.numbers)
		}
	}
}

func (p *plant) ask() {
	p.peaks = append(p.peaks, p.peak)
	if len(p.peaks) > 10 {
		p.peaks = p.peaks[1:]
	}
	p.peak = p.inflight
	most := 0
	for _, peak := range p.peaks {
		most = max(most, peak)
	}
	c := Counts{Samples: p.samples, SampleSumNS: uint64(p.sum * 1e9), AreaNS: uint64(p.area * 1e9),
		SaturatedNS: uint64(p.sat * 1e9), MeteredNS: uint64(p.now * 1e9), Sheds: p.ended,
		Drops: p.drops, Peak: uint64(most), Inflight: uint64(p.inflight),
		Held: uint64(len(p.waiting))}
	p.numbers = p.limiter.Tick(time.Duration(p.ticks)*tick, c, []uint64{p.offered})
	for len(p.waiting) > 0 && p.now-p.waiting[0] > p.budget {
		p.waiting = p.waiting[1:]
		p.ended++
	}
	p.fill()
}

// until moves time on, event by event.
func (p *plant) until(end float64) {
	p.fill()
	for {
		at, what := end, 0
		if p.rate > 0 && p.arrival < at {
			at, what = p.arrival, 1
		}
		if len(p.finishing) > 0 {
			if done := p.now + (p.finishing[0].at-p.work)/p.speed; done < at {
				at, what = max(done, p.now), 2
			}
		}
		p.pass(at)
		switch what {
		case 0:
			return
		case 1:
			p.offered++
			p.waiting = append(p.waiting, p.now)
			p.arrival += p.rng.ExpFloat64() / p.rate
		case 2:
			p.finish(heap.Pop(&p.finishing).(finish))
		}
		p.fill()
	}
}

// from begins arrivals at that rate now.
func (p *plant) from(rate float64) {
	p.rate = rate
	p.arrival = p.now + p.rng.ExpFloat64()/rate
}

// pass meters the time up to there.
func (p *plant) pass(at float64) {
	span := at - p.now
	p.area += span * float64(p.inflight)
	if p.inflight >= int(p.numbers.Limit) {
		p.sat += span
	}
	p.work += span * p.speed
	p.now = at
}

func (p *plant) finish(f finish) {
	p.busy--
	for _, taken := range p.taken[f.first : f.first+f.count] {
		p.sum += p.now - taken
	}
	p.samples += uint64(f.count)
	p.inflight -= f.count
}

// fill gives out free slots and starts free servers.
func (p *plant) fill() {
	for p.inflight < int(p.numbers.Limit) {
		if p.rate > 0 {
			if len(p.waiting) == 0 {
				break
			}
			p.longest = max(p.longest, p.now-p.waiting[0])
			p.waiting = p.waiting[1:]
		} else {
			p.offered++
		}
		p.inflight++
		p.taken = append(p.taken, p.now)
	}
	p.peak = max(p.peak, p.inflight)
	for p.busy < p.servers && p.next < len(p.taken) {
		jobs := min(p.batch, len(p.taken)-p.next)
		p.busy++
		heap.Push(&p.finishing, finish{p.work + p.service(jobs, p.inflight), p.next, jobs})
		p.next += jobs
	}
}

// standard is the default config.
func standard(algorithm string) Config {
	return Config{Algorithm: algorithm, InitialLimit: 16, MinLimit: 2, MaxLimit: 4096,
		Patience: 500 * time.Millisecond, Smoothing: 0.2, Tolerance: 1.5}
}

var algorithms = []string{Slope, Gradient2, MinGradient, AIMD, Fixed}
