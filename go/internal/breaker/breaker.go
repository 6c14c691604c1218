package breaker

import (
	"slices"
	"time"
)

// Breaker is the state machine of one destination, or of one group. It is not safe for concurrent
// use.
type Breaker struct {
	name, host string
	config     Config
	now        time.Time // the latest that was handed in

	state    State
	since    time.Time // of the state
	reason   string
	cooldown time.Duration // the present one
	until    time.Time     // of the cooldown, while Open
	era      time.Time     // it last opened; what began before says nothing
	opened   uint64        // times

	forced      bool
	forcedUntil time.Time // zero: without an end

	term uint64
	told string // the host whose transition made the term

	members  []uint32
	waiting  map[uint32]bool // members of which something due may wait; empty while Closed
	inflight int
	strays   int // of inflight, those from before it opened, at most
	limit    int // of attempts in flight; 0: not known
	hosts    int

	row    int     // failures without a success between them
	last   Attempt // the last failure
	window window
	meter  meter
	gauges map[string]*gauge
	probe  probe
	ramp   ramp
	out    Output
}

// New makes a closed breaker. host names this host in its notes.
func New(name, host string, c Config, now time.Time) *Breaker {
	c = c.Normalized()
	return &Breaker{
		name: name, host: host, config: c, now: now, since: now, reason: "start",
		cooldown: c.Cooldown, told: host, waiting: map[uint32]bool{}, hosts: 1,
		window: newWindow(c, now), meter: meter{at: now}, gauges: map[string]*gauge{},
	}
}

// Configure goes on with another config. The state stays.
func (b *Breaker) Configure(now time.Time, c Config) {
	b.fill(b.advance(now))
	old := b.config
	b.config = c.Normalized()
	if old.Window != b.config.Window || old.Latency != b.config.Latency {
		b.window = newWindow(b.config, b.now)
	}
	b.cooldown = min(max(b.cooldown, b.config.Cooldown), b.config.CooldownMax)
	if b.state == HalfOpen {
		b.ramp.step = min(b.ramp.step, b.drain())
	}
	b.wake()
}

// Members says which destinations pass through this breaker. One that joins while it is not closed
// has to drain as well.
func (b *Breaker) Members(ids []uint32) {
	if b.state != Closed {
		for _, id := range ids {
			if !slices.Contains(b.members, id) {
				b.waiting[id] = true
			}
		}
	}
	for _, id := range b.members {
		if !slices.Contains(ids, id) {
			delete(b.waiting, id)
		}
	}
	b.members = slices.Clone(ids)
	if b.probe.flying && !slices.Contains(ids, b.probe.member) {
		b.inconclusive(0)
	}
}

// Limit says how many attempts may be in flight over all members; 0: not known.
func (b *Breaker) Limit(n int) { b.limit = n }

// Hosts says how many share this breaker and with it the ramp.
func (b *Breaker) Hosts(now time.Time, n int) {
	if n = max(n, 1); n != b.hosts {
		b.fill(b.advance(now))
		b.hosts = n
		b.wake()
	}
}

// State is where it stands.
func (b *Breaker) State() State { return b.state }

// InFlight is how many attempts were admitted and have not ended.
func (b *Breaker) InFlight() int { return b.inflight }

// Room tells how many of n attempts of a member may begin, and after how long to ask again when
// they are fewer; 0: when Output.Wake is told. It admits nothing, but notes that somebody wants to.
func (b *Breaker) Room(now time.Time, member uint32, n int) (room int, wait time.Duration) {
	now = b.advance(now)
	switch {
	case b.state == Closed:
		return n, 0
	case b.state == Open:
		wait = b.untilProbe(now)
	case b.ramp.step == 0:
		room, wait = b.probeRoom(now)
	default:
		room, wait = b.rampRoom(now, n)
	}
	room = min(room, n)
	if room < n {
		b.waiting[member] = true
	}
	return room, wait
}

// untilProbe is how long an open breaker surely stays so.
func (b *Breaker) untilProbe(now time.Time) time.Duration {
	end := b.until
	if b.forced {
		end = b.forcedUntil
	}
	if end.IsZero() || !end.After(now) {
		return 0
	}
	return end.Sub(now)
}

// Take admits n attempts of a member, at most what Room gave just before.
func (b *Breaker) Take(member uint32, n int) {
	b.inflight += n
	if n == 0 || b.state != HalfOpen {
		return
	}
	if b.ramp.step == 0 {
		b.probe.flying, b.probe.member, b.probe.at = true, member, b.now
		return
	}
	b.ramp.tokens = max(b.ramp.tokens-float64(n), 0)
}

// Withdraw gives n admissions back that were not used, or whose attempt we ended. Their share of
// the ramp is not given back: some of it may have been used, and it is soon there again.
func (b *Breaker) Withdraw(n int) {
	b.ended(n)
	// Which of those in flight was withdrawn is not told. Only when none of them is from before the
	// breaker opened it is the probe for sure.
	if b.probe.flying && b.strays == 0 {
		b.unused()
	}
}

// ended takes n out of those in flight.
func (b *Breaker) ended(n int) {
	b.inflight = max(b.inflight-n, 0)
	b.strays = min(b.strays, b.inflight)
}

// Drained tells that nothing of a member waits that is due: its queue gave less than was admitted.
// It is told after the Withdraw of what was admitted in vain.
func (b *Breaker) Drained(now time.Time, member uint32) {
	if b.state == Closed {
		return
	}
	delete(b.waiting, member)
	if b.probe.flying && b.probe.member == member {
		b.unused() // a probe is one admission, and the queue had less than one
	}
	b.advance(now)
}

// Excuse tells that what waits of a member does not wait for this breaker: another one holds it.
func (b *Breaker) Excuse(member uint32) { delete(b.waiting, member) }

// Advance lets time pass: ends of cooldowns, steps, probes and holds. To be called a few times a
// second; the other methods that are told the time do it as well.
func (b *Breaker) Advance(now time.Time) { b.advance(now) }

// advance takes in the time and gives back the one to go by.
func (b *Breaker) advance(now time.Time) time.Time {
	if now.Before(b.now) {
		now = b.now
	}
	b.now = now
	if now.Sub(b.meter.at) >= meterTick {
		b.tick(now)
	}
	if b.state != Closed || b.forced {
		b.settle(now)
	}
	return now
}

// tick looks at what is not worth a look at each attempt.
func (b *Breaker) tick(now time.Time) {
	if !b.flowing() {
		b.meter.skip(now)
		return
	}
	b.meter.tick(now, b.state == Closed, b.inflight-b.strays, b.limit, b.rate())
	b.window.slide(now)
	if b.config.Inflight && b.meter.jam(now) {
		b.trip(now, b.jamReason())
		return
	}
	if b.window.times == nil {
		return
	}
	p99, known := b.window.times.p99(b.config.Samples)
	switch {
	case known && p99 >= b.config.Latency:
		b.trip(now, b.latencyReason(p99))
	case known && p99 >= b.config.Latency/2:
		b.ramp.wellSince = now
	}
}

// flowing tells that more than a probe passes.
func (b *Breaker) flowing() bool {
	return b.state == Closed || b.state == HalfOpen && b.ramp.step > 0
}

// settle makes the transitions that time and levels alone make.
func (b *Breaker) settle(now time.Time) {
	if b.forced {
		if !b.forcedUntil.IsZero() && !now.Before(b.forcedUntil) {
			b.Release(now, "the end of its time")
		}
		return
	}
	switch {
	case b.state == Open:
		if !now.Before(b.until) && b.sickest(now) == nil {
			b.toStep(now, 0, "cooldown over, one probe")
			b.announce(Open)
		}
	case b.state == HalfOpen && b.ramp.step == 0:
		b.watchProbe(now)
	case b.state == HalfOpen:
		b.climb(now)
		if b.recovered(now) {
			b.shut(now, "healthy and drained")
			b.announce(HalfOpen)
		}
	}
}

// recovered tells that nothing speaks against CLOSED.
func (b *Breaker) recovered(now time.Time) bool {
	return b.ramp.step == b.drain() && len(b.waiting) == 0 &&
		now.Sub(b.ramp.wellSince) >= b.cooldown && b.sickest(now) == nil
}

// trip opens because of what was seen here, unless an operator holds it.
func (b *Breaker) trip(now time.Time, reason string) {
	if b.forced || b.state == Open {
		return
	}
	from := b.state
	if from == HalfOpen {
		b.cooldown = min(2*b.cooldown, b.config.CooldownMax)
	} else {
		b.cooldown = b.config.Cooldown
	}
	b.open(now, now.Add(b.cooldown), reason)
	b.announce(from)
}

// open begins anew: what was measured before says nothing of what comes after.
func (b *Breaker) open(now, until time.Time, reason string) {
	b.enter(now, Open, reason)
	b.until, b.era, b.strays = until, now, b.inflight
	b.opened++
	b.row, b.last = 0, Attempt{}
	b.window = newWindow(b.config, now)
	b.meter.jamSince = time.Time{}
	b.dropProbe()
	b.ramp = ramp{}
	for _, id := range b.members {
		b.waiting[id] = true
	}
}

// shut makes it CLOSED.
func (b *Breaker) shut(now time.Time, reason string) {
	b.enter(now, Closed, reason)
	b.dropProbe()
	b.cooldown = b.config.Cooldown
	b.row, b.last = 0, Attempt{}
	clear(b.waiting)
}

func (b *Breaker) enter(now time.Time, s State, reason string) {
	if b.state != s {
		b.since = now
	}
	b.state, b.reason = s, reason
	b.wake()
}
