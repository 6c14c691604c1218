package breaker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"sluice/go/internal/retry"
)

// world is several hosts that share one breaker, the destination behind it, and the one who gives
// leases; it is driven at random and holds what the hosts do against what they may.
type world struct {
	t      *testing.T
	seed   uint64
	random *rand.Rand
	now    time.Time
	hosts  []*host
	sick   bool // the destination fails

	pool   float64
	config Config

	tokens     uint64
	lease      *host // who has it
	leaseToken uint64
	leaseUntil time.Time
}

type host struct {
	w       *world
	name    string
	b       *Breaker
	members []uint32
	flights []flight
	inbox   []Note // with a delay: taken out at random
	waiting map[uint32]bool
	asleep  map[uint32]time.Time // members that were given nothing and wait until then to ask again
	bucket  float64              // what was admitted above the rate
	rate    float64              // since the last call
	term    uint64
	state   State
	probed  time.Time // the probe last succeeded, here or elsewhere
	log     []string
}

type flight struct {
	member uint32
	begun  time.Time
	probe  time.Time // the end of its lease, of a probe
}

func seeds(t *testing.T, count int) []uint64 {
	if text := os.Getenv("SLUICE_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return []uint64{seed}
	}
	first := rand.Uint64() >> 1
	t.Logf("seeds %d to %d (SLUICE_SEED=N runs one)", first, first+uint64(count)-1)
	list := make([]uint64, count)
	for i := range list {
		list[i] = first + uint64(i)
	}
	return list
}

func TestARandomLifeBreaksNoPromise(t *testing.T) {
	for _, seed := range seeds(t, 100) {
		w := newWorld(t, seed)
		for range 2000 {
			w.step()
			if t.Failed() {
				w.show()
				return
			}
		}
		w.settle()
		if t.Failed() {
			w.show()
			return
		}
	}
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, seed: seed, now: began, random: rand.New(rand.NewPCG(seed, 1))}
	w.config = Config{
		Failures: 1 + w.random.IntN(6), Ratio: 0.15, Inflight: true, Cooldown: 10 * time.Second,
		CooldownMax: 45 * time.Second, Ramp: []float64{10, 50, 200}[:1+w.random.IntN(3)],
		RampStep: 2 * time.Second, ProbeTime: 3 * time.Second, DeadLetters: 30,
	}
	if w.random.IntN(2) == 0 {
		w.config.Rate = 100
	}
	if w.random.IntN(2) == 0 {
		w.config.Latency = 400 * time.Millisecond
	}
	for i := range 1 + w.random.IntN(3) {
		h := &host{w: w, name: string(rune('a' + i)), waiting: map[uint32]bool{},
			asleep: map[uint32]time.Time{}}
		h.b = New("db", h.name, w.config, w.now)
		for m := range 1 + w.random.IntN(3) {
			h.members = append(h.members, uint32(10*i+m+1))
		}
		h.b.Members(h.members)
		w.hosts = append(w.hosts, h)
	}
	for _, h := range w.hosts {
		h.b.Hosts(w.now, len(w.hosts))
		h.b.Limit(16 * len(h.members))
		h.after()
	}
	return w
}

func (w *world) step() {
	h := w.hosts[w.random.IntN(len(w.hosts))]
	switch w.random.IntN(24) {
	case 0, 1:
		w.pass(time.Duration(w.random.Int64N(int64(4 * time.Second))))
	case 2, 3, 4, 5:
		w.pass(time.Duration(w.random.Int64N(int64(200 * time.Millisecond))))
	case 6:
		w.sick = w.random.IntN(3) == 0
	case 7:
		if w.random.IntN(4) == 0 {
			w.pool = w.random.Float64()
		}
		h.call("level", func() {
			h.b.Level(w.now, Level{Signal: "pool", Value: w.pool, Trip: 0.85, Recover: 0.5, Pool: true})
		})
	case 8:
		if w.random.IntN(10) == 0 {
			h.call("stale", func() { h.b.Stale(w.now, "pool", "dead") })
		}
	case 9:
		w.force(h)
	case 10, 11, 12:
		h.hear()
	case 13, 14, 15, 16, 17:
		h.ask()
	default:
		h.end()
	}
	h.lead()
}

func (w *world) pass(d time.Duration) {
	d++ // so that no time is nothing
	w.now = w.now.Add(d)
	for _, h := range w.hosts {
		// What time alone changes is seen after it has passed, so the higher rate may count.
		h.bucket = max(h.bucket-h.rate*d.Seconds(), 0)
		h.call("advance", func() { h.b.Advance(w.now) })
		if w.lease == h && !w.now.Before(w.leaseUntil) {
			w.lease = nil
		}
	}
}

func (w *world) force(h *host) {
	switch w.random.IntN(60) {
	case 0:
		h.call("force", func() {
			s := []State{Open, Closed}[w.random.IntN(2)]
			if err := h.b.Force(w.now, s, w.now.Add(20*time.Second), "model"); err != nil {
				w.t.Error(err)
			}
		})
	case 1:
		h.call("release", func() { h.b.Release(w.now, "model") })
	}
}

// hear delivers the oldest note, as a board does.
func (h *host) hear() {
	if len(h.inbox) == 0 {
		return
	}
	n := h.inbox[0]
	h.inbox = h.inbox[1:]
	h.call(fmt.Sprintf("hear %v", n), func() { h.b.Hear(h.w.now, n) })
}

// ask is what a runner does: admit, lease, withdraw, tell that it is drained.
func (h *host) ask() {
	w := h.w
	m := h.members[w.random.IntN(len(h.members))]
	n := 1 + w.random.IntN(16)
	queue := w.random.IntN(20)
	if w.random.IntN(3) == 0 {
		queue = 0
	}
	h.call(fmt.Sprintf("ask %d of %d", n, m), func() {
		room, wait := h.b.Room(w.now, m, n)
		state, atProbe := h.b.state, h.b.atProbe()
		if room < 0 || room > n {
			w.t.Errorf("room for %d of %d", room, n)
		}
		if state == Open && room > 0 {
			w.t.Errorf("%d admitted while open", room)
		}
		if atProbe && room > 1 {
			w.t.Errorf("%d probes at once", room)
		}
		if room < n {
			h.waiting[m] = true
		}
		h.b.out.Wake = false // who asks needs no waking by what asking brought about
		delete(h.asleep, m)
		if room == 0 && wait == 0 {
			h.asleep[m] = w.now.Add(time.Hour)
		} else if room == 0 {
			h.asleep[m] = w.now.Add(wait)
		}
		h.b.Take(m, room)
		used := min(room, queue)
		for range used {
			f := flight{member: m, begun: w.now}
			if atProbe {
				f.probe = h.b.probe.until
				if w.lease != h {
					w.t.Error("a probe without a lease")
				}
			}
			h.flights = append(h.flights, f)
		}
		if state == HalfOpen && !atProbe {
			h.bucket += float64(room)
		}
		if room > used {
			h.b.Withdraw(room - used)
			delete(h.waiting, m)
			h.b.Drained(w.now, m)
		}
	})
	probes := 0
	for _, o := range w.hosts {
		for _, f := range o.flights {
			if w.now.Before(f.probe) {
				probes++
			}
		}
	}
	if probes > 1 {
		w.t.Errorf("%d probes in flight", probes)
	}
}

// end concludes one attempt, whichever.
func (h *host) end() {
	w := h.w
	if len(h.flights) == 0 {
		return
	}
	i := w.random.IntN(len(h.flights))
	f := h.flights[i]
	h.flights = slices.Delete(h.flights, i, i+1)
	a := Attempt{Verdict: retry.Delivered, Code: 200, Took: w.now.Sub(f.begun)}
	switch {
	case w.random.IntN(20) == 0:
		h.call("withdraw", func() { h.b.Withdraw(1) })
		return
	case w.random.IntN(20) == 0:
		a.Verdict, a.Code, a.RetryAfter = retry.Retry, 429, time.Second
	case w.random.IntN(20) == 0:
		a.Verdict, a.Code, a.Dead = retry.Permanent, 404, true
	case w.sick || w.random.IntN(200) == 0:
		a.Verdict, a.Code, a.Err = retry.Retry, 500, errors.New("it broke")
	}
	h.call(fmt.Sprintf("end %v %d", a.Verdict, a.Code), func() { h.b.Report(w.now, a) })
}

// lead asks the lease service for a host that wants to probe.
func (h *host) lead() {
	w := h.w
	if !h.b.WantsProbe() || w.random.IntN(3) > 0 {
		return
	}
	h.call("lease", func() {
		if w.lease != nil {
			h.b.Refuse(w.now)
			return
		}
		w.tokens++
		until := w.now.Add(w.config.ProbeTime)
		if h.b.Grant(w.now, w.tokens, until) {
			w.lease, w.leaseToken, w.leaseUntil = h, w.tokens, until
		}
	})
}

// call does something to a host and checks all that can be seen of it.
func (h *host) call(what string, f func()) {
	w := h.w
	rate := h.b.rate()
	f()
	h.log = append(h.log, fmt.Sprintf("%v %s: %s → %v %d", w.now.Sub(began), h.name, what, h.b.state,
		h.b.ramp.step))
	h.checkRamp(rate)
	h.after()
}

// checkRamp is a second, independent bucket: it leaks at the rate that was in force and may never
// hold more than the depth.
func (h *host) checkRamp(before float64) {
	if h.b.state != HalfOpen || h.b.ramp.step == 0 {
		h.bucket, h.rate = 0, 0
		return
	}
	rate := h.b.rate()
	if depth := depth(max(before, rate)); h.bucket > depth+1e-3 {
		h.w.t.Errorf("%g above a rate of %g/s", h.bucket, rate)
	}
	if rate < before {
		// What passed was within what was allowed then, and what was left of that may be used still.
		h.bucket = max(h.bucket-(depth(before)-depth(rate)), 0)
	}
}

func (h *host) after() {
	w, b := h.w, h.b
	out := b.Collect()
	for _, c := range out.Changes {
		h.change(c)
	}
	if out.Wake {
		for m := range h.asleep {
			if m != out.Except {
				delete(h.asleep, m)
			}
		}
	}
	flows := b.flowing() && b.ramp.tokens >= 1 || b.state == Closed ||
		b.probe.leased && !b.probe.flying && b.sickest(w.now) == nil
	for m, until := range h.asleep {
		if flows && w.now.Before(until) && m != b.probe.member {
			w.t.Errorf("member %d sleeps until %v though there is room", m, until.Sub(began))
		}
	}
	for _, l := range out.Ended {
		if w.lease == h && l.Token == w.leaseToken && !l.Used {
			w.lease = nil // one that was used lingers until its end
		}
	}
	if out.Publish {
		if b.term <= h.term && len(out.Changes) == 0 {
			w.t.Errorf("published term %d after %d", b.term, h.term)
		}
		for _, o := range w.hosts {
			if o != h {
				o.inbox = append(o.inbox, b.Note())
			}
		}
	}
	if b.term < h.term {
		w.t.Errorf("term fell from %d to %d", h.term, b.term)
	}
	h.term, h.state = b.term, b.state
	if b.cooldown < w.config.Cooldown || b.cooldown > w.config.CooldownMax {
		w.t.Errorf("cooldown %v", b.cooldown)
	}
	if b.inflight != len(h.flights) {
		w.t.Errorf("%d in flight, it says %d", len(h.flights), b.inflight)
	}
	if use, _, known := b.pool(w.now); known && w.config.Rate > 0 && b.state == HalfOpen &&
		b.ramp.step > 0 && b.rate() > w.config.Rate*(1-use)+1e-9 {
		w.t.Errorf("%g/s with %g of the pool in use", b.rate(), use)
	}
	// What leaks out until the next call.
	h.rate = b.rate()
}

func (h *host) change(c Change) {
	w := h.w
	own := c.Host == h.name
	if own && c.Term <= h.term && c.Moved() {
		w.t.Errorf("own transition %v has term %d after %d", c, c.Term, h.term)
	}
	h.log = append(h.log,
		fmt.Sprintf("    %s: %v → %v %d, %s", h.name, c.From, c.To, c.Step, c.Reason))
	switch {
	case c.To == Open && c.From != Open:
		for _, m := range h.members {
			h.waiting[m] = true
		}
	case c.To == HalfOpen && c.Step > 0 && (c.From == Open || c.Step == 1):
		if h.probed.IsZero() {
			h.probed = w.now
		}
	}
	if c.From == HalfOpen && c.To == Closed && !c.Forced {
		if len(h.waiting) > 0 {
			w.t.Errorf("closed while %v may wait", h.waiting)
		}
		if since := w.now.Sub(h.probed); since < w.config.Cooldown {
			w.t.Errorf("closed %v after the probe", since)
		}
	}
	if c.To != HalfOpen {
		h.probed = time.Time{}
	}
	if c.To == Closed {
		clear(h.waiting)
	}
}

// settle makes the destination well and waits: every host has to come back.
func (w *world) settle() {
	w.sick, w.pool = false, 0.1
	for _, h := range w.hosts {
		h.call("release", func() { h.b.Release(w.now, "model") })
	}
	for range 4000 {
		w.pass(100 * time.Millisecond)
		closed := 0
		for _, h := range w.hosts {
			h.call("level", func() {
				h.b.Level(w.now, Level{Signal: "pool", Value: 0.1, Trip: 0.85, Recover: 0.5, Pool: true})
			})
			for len(h.inbox) > 0 {
				h.hear()
			}
			for len(h.flights) > 0 {
				f := h.flights[0]
				h.flights = h.flights[1:]
				h.call("end", func() {
					h.b.Report(w.now, Attempt{Verdict: retry.Delivered, Took: w.now.Sub(f.begun)})
				})
			}
			h.ask()
			h.lead()
			if h.b.State() == Closed {
				closed++
			}
		}
		if w.t.Failed() || closed == len(w.hosts) {
			return
		}
	}
	w.t.Error("not every host has closed again")
}

func (w *world) show() {
	w.t.Logf("SLUICE_SEED=%d", w.seed)
	for _, h := range w.hosts {
		for _, line := range h.log[max(len(h.log)-40, 0):] {
			w.t.Log(line)
		}
	}
}
