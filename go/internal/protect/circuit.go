package protect

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/go/internal/breaker"
)

// circuit is one breaker with its lock and those who pass through it.
type circuit struct {
	service *Service
	name    string
	group   bool
	state   atomic.Uint32 // a copy of the breaker's, to be read without the lock

	mu        sync.Mutex
	breaker   *breaker.Breaker
	probeTime time.Duration
	links     []*link
	members   []string // as Look shows them; not changed once set
	leasing   bool     // a lease is being asked for
}

// link is one gate's way through one circuit. Its fields are under the circuit's lock.
type link struct {
	gate     *Gate
	circuit  *circuit
	inflight int  // attempts that were admitted this way
	gone     bool // it is in use no more
}

// collect hands on what came of the calls since the last one. The caller holds the lock; asking is
// the gate that is about to hear it anyway.
func (c *circuit) collect(now time.Time, asking *Gate) {
	for c.breaker.Pending() {
		out := c.breaker.Collect()
		c.state.Store(uint32(c.breaker.State()))
		if out.Wake {
			for _, l := range c.links {
				if l.gate != asking && (out.Except == 0 || l.gate.id != out.Except) {
					l.gate.signal()
				}
			}
		}
		if out.Publish || len(out.Ended) > 0 {
			c.service.sharing.add(c, out)
		}
		for _, ch := range out.Changes {
			look := c.look(now)
			look.State, look.Reason = ch.To, ch.Reason
			c.service.news.add(Change{Change: ch, Look: look})
		}
	}
}

// do runs f under the lock and hands on what comes of it.
func (c *circuit) do(f func(b *breaker.Breaker, now time.Time)) {
	now := c.service.options.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c.breaker, now)
	c.collect(now, nil)
}

// relink makes links the ways through the circuit. What the others have in flight is reported here
// no more.
func (c *circuit) relink(links []*link, members []string) {
	slices.Sort(members)
	c.do(func(b *breaker.Breaker, _ time.Time) {
		c.members = members
		for _, l := range c.links {
			if !slices.Contains(links, l) {
				l.gone = true
				b.Withdraw(l.inflight)
			}
		}
		c.links = links
		ids := make([]uint32, len(links))
		for i, l := range links {
			ids[i] = l.gate.id
		}
		b.Members(ids)
	})
}

// limit is how many attempts its gates may have in flight together; 0: not known of all.
func (c *circuit) limit() int {
	c.mu.Lock()
	links := slices.Clone(c.links)
	c.mu.Unlock()
	sum := 0
	for _, l := range links {
		n := l.gate.limit()
		if n <= 0 {
			return 0
		}
		sum += n
	}
	return sum
}
