package reconcile

import (
	"sluice/go/internal/gaps"
)

// Gaps is the ledger of refusals.
type Gaps interface {
	// List gives gaps, the newest first.
	List(gaps.Filter) []gaps.Gap
	// Close notes that everything of gaps was found, and gives how many it closed.
	Close([]gaps.Gap) int
}

// close closes the gaps of which everything is stored: each id that the ledger knows, and, where
// there are refusals without one, all that the provider listed of the gap's time. listed tells that
// the run went through its stretch of time to the end.
func (r *run) close(listed bool) error {
	var found []gaps.Gap
	ledger := r.service.o.Gaps
	for _, g := range ledger.List(gaps.Filter{Source: r.target.Name, Until: r.whole.until}) {
		if g.To.After(r.whole.until) {
			continue
		}
		traits := r.feed.traits()
		covered := listed && !g.From.Add(-traits.reach).Before(r.from)
		if traits.resources {
			if covered {
				found = append(found, g)
			}
			continue
		}
		missing, err := r.missing(g.IDs)
		if err != nil {
			return err
		}
		if missing > 0 && covered {
			r.p.Lost += uint64(missing) // the provider does not list them
		}
		if missing == 0 && (g.Unnamed == 0 || covered) {
			found = append(found, g)
		}
	}
	if !r.dry {
		r.p.GapsClosed += uint64(ledger.Close(found))
	}
	return nil
}

// missing counts the ids of which nothing is stored.
func (r *run) missing(ids []string) (n int, err error) {
	for _, id := range ids {
		known, err := r.shelf.knows(id)
		if err != nil {
			return n, err
		}
		if !known {
			n++
		}
	}
	return n, nil
}
