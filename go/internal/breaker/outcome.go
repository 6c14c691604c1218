package breaker

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"sluice/go/internal/retry"
)

// Attempt is what became of one admitted attempt. Those that we ended ourselves are no attempts:
// they are withdrawn.
type Attempt struct {
	Verdict    retry.Verdict
	Code       int           // HTTP status; 0 where there was none
	RetryAfter time.Duration // the destination's own wish
	Took       time.Duration
	Dead       bool  // it made a dead letter
	Err        error // of a failure; names no body and no secret
}

const tooManyRequests = 429 // RFC 6585 §4

// failed tells that the destination is to blame. A permanent refusal is about the event, and 429
// comes from one that is alive and says when.
func (a *Attempt) failed() bool {
	return a.Verdict == retry.Retry && a.Code != tooManyRequests
}

// answered tells that the destination did its work, whatever it thinks of the event.
func (a *Attempt) answered() bool {
	return a.Verdict == retry.Delivered || a.Verdict == retry.Permanent
}

// Report takes in an attempt that ended now.
func (b *Breaker) Report(now time.Time, a Attempt) {
	now = b.advance(now)
	begun := now.Add(-a.Took)
	switch {
	case b.probe.flying && !begun.Before(b.probe.at):
		b.ended(1)
		b.probed(now, a)
		return
	case begun.Before(b.era):
		b.strays = max(b.strays-1, 0)
		b.ended(1)
		return
	}
	b.ended(1)
	if !b.flowing() {
		return
	}
	b.count(now, a)
	if cause := b.cause(a); cause != "" {
		b.trip(now, cause)
	}
	if b.state == HalfOpen && !begun.Before(b.ramp.at) {
		b.judge(now, a)
	}
}

func (b *Breaker) count(now time.Time, a Attempt) {
	var c counts
	switch {
	case a.failed():
		c.failed = 1
		b.row++
		b.last = a
	case a.Verdict == retry.Delivered:
		c.well = 1
		b.row = 0
	}
	if a.Dead {
		c.dead = 1
	}
	if a.answered() {
		b.meter.answered++
	}
	b.window.add(now, c, a.answered(), a.Took)
}

// cause says why the attempt just counted trips; empty: it does not.
func (b *Breaker) cause(a Attempt) string {
	c := &b.config
	if a.failed() {
		if c.Failures == 1 {
			return "failed: " + b.last.text()
		}
		if c.Failures > 0 && b.row >= c.Failures {
			return fmt.Sprintf("%d failures in a row, last: %s", b.row, b.last.text())
		}
		share, known := b.window.share(c.Samples)
		if known && c.Ratio > 0 && share > c.Ratio {
			n := b.window.sum
			return fmt.Sprintf("%d of %d attempts failed within %v, last: %s",
				n.failed, n.well+n.failed, c.Window, b.last.text())
		}
	}
	if a.Dead && c.DeadLetters > 0 && b.window.deadRate() >= c.DeadLetters {
		return fmt.Sprintf("%d dead letters within %v", b.window.sum.dead, c.Window)
	}
	return ""
}

func (b *Breaker) latencyReason(p99 time.Duration) string {
	return fmt.Sprintf("p99 of latency is %v or more within %v, %v trips",
		p99.Round(time.Millisecond), b.config.Window, b.config.Latency)
}

func (b *Breaker) jamReason() string {
	return fmt.Sprintf("%d of %d attempts in flight and %.3g answers/s, where %.3g/s is usual",
		b.inflight, b.limit, b.meter.recent, b.meter.baseline)
}

func levelReason(g *gauge) string {
	text := fmt.Sprintf("%s is %.4g, %.4g trips", g.Signal, g.Value, g.Trip)
	if g.For > 0 {
		text += fmt.Sprintf(" after %v", g.For)
	}
	return text
}

// quoteMax bounds, in bytes, what a reason quotes of an error or of a name.
const quoteMax = 200

func (a *Attempt) text() string {
	if a.Err == nil || a.Err.Error() == "" {
		return fmt.Sprintf("status %d", a.Code)
	}
	return quote(a.Err.Error())
}

// quote fits foreign text into a reason.
func quote(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	if len(text) <= quoteMax {
		return text
	}
	cut := quoteMax
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
