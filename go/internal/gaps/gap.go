package gaps

import (
	"cmp"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"sluice/shm-abi/shmabi"
)

// Gap is a stretch of time in which requests of a source were turned away for one reason.
type Gap struct {
	Source, Reason string
	From, To       time.Time
	Count          uint64
	// IDs are senders' own ids, each once, in the order in which they were seen.
	IDs []string
	// Unnamed are the requests whose id is not among IDs.
	Unnamed uint64
	// Closed is when everything of it was found, as far as anybody can know; zero: it is open.
	Closed time.Time
}

// gap is one in the ledger. Times are wall-clock nanoseconds.
type gap struct {
	Source string   `json:"source"`
	Reason string   `json:"reason"`
	From   int64    `json:"from_ns"`
	To     int64    `json:"to_ns"`
	Count  uint64   `json:"count"`
	Named  uint64   `json:"named,omitempty"` // refusals whose id is among IDs
	IDs    []string `json:"ids,omitempty"`
	// Coarse is one that stands for all older ones of its source and reason.
	Coarse bool `json:"coarse,omitempty"`
	// Closed is when everything of it was found; 0: it is open. A closed one never grows.
	Closed int64 `json:"closed_ns,omitempty"`

	last time.Time           // it grew; with the monotonic clock where this life saw it
	seen map[string]struct{} // IDs, while it may grow
}

// pair is what a gap is of.
type pair struct{ source, reason string }

// span is the time around two looks; the wall clock may have been set in between.
type span struct{ from, to int64 }

func spanOf(before, now time.Time) span {
	return span{min(before.UnixNano(), now.UnixNano()), max(before.UnixNano(), now.UnixNano())}
}

// cover widens the gap.
func (g *gap) cover(s span) { g.From, g.To = min(g.From, s.from), max(g.To, s.to) }

// total is never less than what has a name: a data plane may note the id before it counts.
func (g *gap) total() uint64 { return max(g.Count, g.Named) }

// name notes the id of one refusal, where there is room; it gives the number of ids more.
func (g *gap) name(id string, room int) int {
	if g.seen == nil {
		g.seen = make(map[string]struct{}, len(g.IDs))
		for _, known := range g.IDs {
			g.seen[known] = struct{}{}
		}
	}
	if _, known := g.seen[id]; known {
		g.Named++
		return 0
	}
	if len(g.IDs) >= room {
		return 0
	}
	g.seen[id] = struct{}{}
	g.IDs = append(g.IDs, id)
	g.Named++
	return 1
}

// unname forgets the ids and gives their number.
func (g *gap) unname() int {
	n := len(g.IDs)
	g.Count = g.total()
	g.IDs, g.seen, g.Named = nil, nil, 0
	return n
}

// Filter picks gaps; what is zero picks all.
type Filter struct {
	Source string
	// Since and Until pick gaps of which a part lies between them.
	Since, Until time.Time
	// Closed picks those that are closed too.
	Closed bool
	Limit  int
}

func (f *Filter) picks(g *gap) bool {
	return (f.Source == "" || f.Source == g.Source) && (f.Closed || g.Closed == 0) &&
		(f.Since.IsZero() || g.To >= f.Since.UnixNano()) &&
		(f.Until.IsZero() || g.From < f.Until.UnixNano())
}

// List gives gaps, the newest first; those that were put together come last.
func (l *Ledger) List(f Filter) []Gap {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := slices.SortedFunc(maps.Values(l.coarse), func(a, b *gap) int {
		return cmp.Or(cmp.Compare(a.To, b.To), cmp.Compare(a.Source, b.Source),
			cmp.Compare(a.Reason, b.Reason))
	})
	var list []Gap
	for _, gaps := range [][]*gap{l.gaps, old} {
		for _, g := range slices.Backward(gaps) {
			if f.Limit > 0 && len(list) == f.Limit {
				return list
			}
			if f.picks(g) {
				list = append(list, g.shown())
			}
		}
	}
	return list
}

func (g *gap) shown() Gap {
	out := Gap{
		Source: g.Source, Reason: g.Reason, From: time.Unix(0, g.From), To: time.Unix(0, g.To),
		// Ids are only ever appended or let go whole, so the list may be shared.
		Count: g.total(), IDs: g.IDs, Unnamed: g.total() - g.Named,
	}
	if g.Closed != 0 {
		out.Closed = time.Unix(0, g.Closed)
	}
	return out
}

// Close notes that everything of these gaps was found, and gives how many it closed: not those that
// are no more as they were listed, because something was refused meanwhile, nor those that still
// may be given a name by the next look.
func (l *Ledger) Close(found []Gap) (closed int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.o.Now()
	for i := range found {
		g := l.find(&found[i])
		if g == nil || now.Sub(time.Unix(0, g.To)) < closeAfter {
			continue
		}
		g.Closed, g.seen = now.UnixNano(), nil
		if p := (pair{g.Source, g.Reason}); l.open[p] == g {
			delete(l.open, p)
		}
		l.changes++
		closed++
	}
	return closed
}

// find gives the open gap that is exactly as it was listed.
func (l *Ledger) find(listed *Gap) *gap {
	same := func(g *gap) bool {
		return g.Closed == 0 && g.Source == listed.Source && g.Reason == listed.Reason &&
			g.From == listed.From.UnixNano() && g.To == listed.To.UnixNano() &&
			g.total() == listed.Count
	}
	for _, g := range l.gaps {
		if same(g) {
			return g
		}
	}
	if g := l.coarse[pair{listed.Source, listed.Reason}]; g != nil && same(g) {
		return g
	}
	return nil
}

// Len is the number of open gaps.
func (l *Ledger) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	open := 0
	for _, g := range l.gaps {
		if g.Closed == 0 {
			open++
		}
	}
	for _, g := range l.coarse {
		if g.Closed == 0 {
			open++
		}
	}
	return open
}

// grow adds refusals of a time to the pair's gap, or begins one.
func (l *Ledger) grow(p pair, s span, now time.Time, count uint64) *gap {
	l.changes++
	g := l.open[p]
	if g != nil {
		if d := now.Sub(g.last); d < 0 || d >= gapPause {
			g.seen, g = nil, nil
		}
	}
	if g == nil {
		g = &gap{Source: p.source, Reason: p.reason, From: s.from, To: s.to}
		l.gaps = append(l.gaps, g)
		l.open[p] = g
	}
	g.cover(s)
	g.Count += count
	g.last = now
	return g
}

// bound lets ids and then single gaps go, the oldest first. Closed gaps go before open ones, and
// for good: nobody misses anything of them.
func (l *Ledger) bound() {
	if l.ids > l.o.bounds.ids || len(l.gaps) > l.o.bounds.gaps {
		l.forgetClosed()
	}
	for i := 0; l.ids > l.o.bounds.ids && i < len(l.gaps); i++ {
		l.ids -= l.gaps[i].unname()
	}
	for len(l.gaps) > l.o.bounds.gaps {
		l.coarsen(l.gaps[0])
		l.gaps[0] = nil
		l.gaps = l.gaps[1:]
	}
}

// forgetClosed lets closed gaps go, the oldest first, as far as the bounds ask for it.
func (l *Ledger) forgetClosed() {
	excess := len(l.gaps) - l.o.bounds.gaps
	l.gaps = slices.DeleteFunc(l.gaps, func(g *gap) bool {
		spare := excess > 0 || len(g.IDs) > 0 && l.ids > l.o.bounds.ids
		if g.Closed == 0 || !spare {
			return false
		}
		l.ids -= len(g.IDs)
		excess--
		return true
	})
}

// coarsen puts a gap together with the older ones of its source and reason.
func (l *Ledger) coarsen(g *gap) {
	p := pair{g.Source, g.Reason}
	if l.open[p] == g {
		delete(l.open, p)
	}
	l.ids -= g.unname()
	g.Coarse = true
	if old := l.coarse[p]; old != nil && old.Closed == 0 {
		old.cover(span{g.From, g.To})
		old.Count += g.Count
		return
	}
	l.coarse[p] = g
}

// reasons are the counters of refusals with their names.
var reasons = [...]struct {
	shed shmabi.Shed
	name string
	read func(shmabi.SourceCounters) uint64
}{
	{shmabi.ShedHold, "hold", shmabi.SourceCounters.ShedHold},
	{shmabi.ShedHeldFull, "held_full", shmabi.SourceCounters.ShedHeldFull},
	{shmabi.ShedLane, "lane", shmabi.SourceCounters.ShedLane},
	{shmabi.ShedRate, "rate", shmabi.SourceCounters.ShedRate},
	{shmabi.ShedJournal, "journal", shmabi.SourceCounters.ShedJournal},
	{shmabi.ShedStopping, "stopping", shmabi.SourceCounters.ShedStopping},
	{shmabi.ShedBudget, "budget", shmabi.SourceCounters.ShedBudget},
	{shmabi.ShedClass, "class", shmabi.SourceCounters.ShedClass},
}

// reasonOf names a reason; false for a number that is none.
func reasonOf(shed uint16) (string, bool) {
	for i := range reasons {
		if uint16(reasons[i].shed) == shed {
			return reasons[i].name, true
		}
	}
	return "", false
}

// textOf is an id as text: UTF-8 where it is that, otherwise a character for each byte (ISO
// 8859-1), so that no byte is lost.
func textOf(id []byte) string {
	if utf8.Valid(id) {
		return string(id)
	}
	runes := make([]rune, len(id))
	for i, b := range id {
		runes[i] = rune(b)
	}
	return string(runes)
}
