package daemon

import (
	"fmt"
	"time"

	"sluice/go/internal/admin"
	"sluice/go/internal/config"
	"sluice/go/internal/ingest"
)

// withUnenforced adds the sources that take what is not proven to what an operator should look at.
// They are no reason not to be ready.
func (d *Daemon) withUnenforced(problems []string) []string {
	p, judged := d.plan.Load(), d.seenIngest.Load()
	if p == nil || judged == nil {
		return problems
	}
	for i := range p.config.Sources {
		s := &p.config.Sources[i]
		if isLax(s) {
			taken := unverified(judged.Tally(idOf(p.catalogue.Sources, s.Name)))
			problems = append(problems, fmt.Sprintf("source %s takes what is not proven (enforce: false): "+
				"%d since the start", s.Name, taken))
		}
	}
	return problems
}

// tellUnenforced logs the sources of a config that take what is not proven.
func (d *Daemon) tellUnenforced(c *config.Config) {
	for i := range c.Sources {
		if s := &c.Sources[i]; isLax(s) {
			d.log.Warn("a source takes what is not proven: enforce is false", "source", s.Name)
		}
	}
}

func isLax(s *config.Source) bool { return !s.Enforce && s.Provider != "none" }

// unverified counts the events that were taken without a proof.
func unverified(t *ingest.Tally) (n uint64) {
	for i := range t.Unproven {
		n += t.Unproven[i].Load()
	}
	return n
}

// doubts counts them by reason.
func doubts(t *ingest.Tally) map[string]uint64 {
	found := make(map[string]uint64)
	for reason := range t.Unproven {
		if n := t.Unproven[reason].Load(); n > 0 {
			found[admin.DoubtName(uint8(reason))] = n
		}
	}
	return found
}

// lastEvent is when the last event that was taken was received; zero: none since the start.
func lastEvent(t *ingest.Tally) time.Time {
	ns := t.LastNS.Load()
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}
