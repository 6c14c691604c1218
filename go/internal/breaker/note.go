package breaker

import "time"

// Note is what other hosts should know.
func (b *Breaker) Note() Note {
	n := Note{
		Breaker: b.name, Host: b.told, State: b.state, Term: b.term, Reason: b.reason,
		At: b.since.Round(0), Cooldown: b.cooldown, Forced: b.forced,
	}
	switch {
	case b.forced:
		n.Until = b.forcedUntil.Round(0)
	case b.state == Open:
		n.Until = b.until.Round(0)
	case b.state == HalfOpen:
		n.Step = b.ramp.step
	}
	return n
}

// Hear takes in what another host says; false: it is older than what is known here.
func (b *Breaker) Hear(now time.Time, n Note) bool {
	now = b.advance(now)
	own := b.Note()
	if n.Breaker != b.name || n.State > HalfOpen || n.Compare(own) <= 0 {
		if n.Breaker == b.name && n.Term == own.Term && n.caution() < own.caution() {
			// Two hosts moved at once. The less cautious may have been heard last elsewhere.
			b.term++
			b.told, b.out.Publish = b.host, true
		}
		return false
	}
	from, step, fresh, wasForced := b.state, b.ramp.step, b.term == 0, b.forced
	b.term, b.told = n.Term, n.Host
	reason := n.Reason
	if n.Forced {
		b.hold(now, n.State, n.end(now), reason)
	} else {
		if b.forced {
			b.release(now, reason)
		}
		b.follow(now, n, fresh)
	}
	if b.state != from || b.ramp.step != step || b.forced != wasForced {
		b.emit(from)
	}
	b.settle(now)
	return true
}

// follow takes over the state of a host that is not forced. Each host closes by itself, because
// only it knows whether its own queue is drained.
func (b *Breaker) follow(now time.Time, n Note, fresh bool) {
	switch {
	case n.State == Open:
		until := n.end(now)
		if b.state == Open {
			b.enter(now, Open, n.Reason)
			b.until = until
		} else {
			b.open(now, until, n.Reason)
		}
		b.cooldown = min(max(n.Cooldown, b.config.Cooldown), b.config.CooldownMax)
	case n.State == HalfOpen && n.Step <= 0:
		// Every open host comes here by its own clock; one that is closed missed that it opened.
		if b.state == Closed {
			b.open(now, now, n.Reason)
		}
	case n.State == HalfOpen && b.state == Closed:
		// Others still drain what they have. A host that just began takes part.
		if fresh {
			b.open(now, now, n.Reason)
			b.toStep(now, min(n.Step, b.drain()), n.Reason)
		}
	case n.State == HalfOpen:
		b.toStep(now, min(n.Step, b.drain()), n.Reason)
	case b.state == Open || b.atProbe():
		b.toStep(now, 1, n.Reason)
	}
}

// end is a note's Until by this host's clock. What has passed since is believed as far as it can be
// true, so that clocks that differ shorten a cooldown at most.
func (n Note) end(now time.Time) time.Time {
	if n.Until.IsZero() {
		return time.Time{}
	}
	span := max(n.Until.Sub(n.At), 0)
	passed := min(max(now.Round(0).Sub(n.At), 0), span)
	return now.Add(span - passed)
}
