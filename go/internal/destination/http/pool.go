package http

import (
	"slices"
	"sync"
	"time"
)

// pool keeps idle connections, the freshest on top: the older ones age out when load falls.
type pool struct {
	timeout  time.Duration
	countMax int
	now      func() time.Time

	mu     sync.Mutex
	idle   []*conn // by idleSince
	timer  *time.Timer
	closed bool
}

// take gives an idle connection that can be used, or nil.
func (p *pool) take() *conn {
	for {
		p.mu.Lock()
		last := len(p.idle) - 1
		if last < 0 {
			p.mu.Unlock()
			return nil
		}
		c := p.idle[last]
		p.idle[last] = nil
		p.idle = p.idle[:last]
		p.mu.Unlock()
		if p.now().Sub(c.idleSince) < p.timeout && c.quiet() {
			return c
		}
		c.abort()
	}
}

func (p *pool) put(c *conn) {
	c.idleSince = p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) >= p.countMax {
		c.abort()
		return
	}
	p.idle = append(p.idle, c)
	if p.timer == nil {
		p.timer = time.AfterFunc(p.timeout, p.expire)
	}
}

// expire ends what was idle for too long and comes again as long as something is.
func (p *pool) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, old := p.now(), 0
	for old < len(p.idle) && now.Sub(p.idle[old].idleSince) >= p.timeout {
		p.idle[old].abort()
		old++
	}
	p.idle = slices.Delete(p.idle, 0, old)
	if p.closed || len(p.idle) == 0 {
		p.timer = nil
		return
	}
	p.timer.Reset(p.timeout)
}

func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.idle {
		c.abort()
	}
	p.idle = nil
	if p.timer != nil {
		p.timer.Stop()
	}
}
