package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sluice/go/internal/store"
)

// Progress is how far a run has come.
type Progress struct {
	Source string    `json:"source"`
	Since  time.Time `json:"since,omitzero"`
	Until  time.Time `json:"until,omitzero"`
	Pages  uint64    `json:"pages"`
	// Seen are the events that the provider named, Known those of them that are here, or that it
	// takes for delivered.
	Seen  uint64 `json:"seen"`
	Known uint64 `json:"known"`
	// Taken were taken in, Requested asked for again, and Lost are those that it could not give.
	Taken     uint64 `json:"taken"`
	Requested uint64 `json:"requested"`
	Lost      uint64 `json:"lost"`
	// GapsClosed are gaps of the ledger.
	GapsClosed uint64 `json:"gaps_closed"`
	// Waiting says what is waited for; empty: nothing.
	Waiting string `json:"-"`
	Done    bool   `json:"done"`
	// Error is why it ended early; what was done by then stands.
	Error string    `json:"error,omitempty"`
	Ended time.Time `json:"ended,omitzero"`
}

// run is one reconciliation of one source. It belongs to one goroutine.
type run struct {
	service *Service
	target  Target
	feed    feed
	shelf   *shelf
	whole   span
	// from is where it began, which is before whole where it goes on for an earlier life.
	from time.Time
	// covers tells that it begins no later than one by itself would have.
	covers bool
	dry    bool
	// advance is told up to where all is dealt with.
	advance func(time.Time)
	say     func(Progress)
	p       Progress
	pace    pacer
	// awaited were asked for again and are not here yet.
	awaited []awaited
}

type awaited struct {
	id string
	at time.Time
}

// errTooMuch says that a slice has more than fits.
var errTooMuch = errors.New("more is missing than fits in memory")

// do goes through the whole stretch of time.
func (r *run) do(ctx context.Context) error {
	left := []span{r.whole}
	for len(left) > 0 {
		s := left[0]
		before := r.p
		missing, err := r.list(ctx, s)
		if errors.Is(err, errTooMuch) {
			pages := r.p.Pages
			r.p = before
			r.p.Pages = pages
			half := s.since.Add((s.length() / 2).Truncate(sliceMin))
			left = append([]span{{s.since, half}, {half, s.until}}, left[1:]...)
			continue
		}
		if err != nil {
			return err
		}
		if err := r.deal(ctx, missing); err != nil {
			return err
		}
		if len(r.awaited) == 0 {
			r.advance(s.until)
		}
		left = left[1:]
	}
	return r.await(ctx)
}

// list reads one slice and gives what of it is missing, the oldest first. Where the slice cannot be
// halved, what is too much is dealt with as it comes.
func (r *run) list(ctx context.Context, s span) ([]*record, error) {
	traits := r.feed.traits()
	if traits.resources {
		if err := r.shelf.takeStock(ctx, s.since); err != nil {
			return nil, err
		}
	}
	l := listed{
		run: r, span: s, halves: traits.halves && s.length() >= 2*sliceMin,
		seen: map[string]int{}, missing: map[string]*record{},
	}
	cursors := map[string]bool{}
	cursor, stale := "", 0
	for pages := 0; ; pages++ {
		got, err := r.feed.list(ctx, s, cursor)
		if err != nil {
			return nil, err
		}
		r.p.Pages++
		fresh, err := l.page(ctx, got.records)
		if err != nil {
			return nil, err
		}
		r.tell()
		if cursor = got.next; cursor == "" {
			return l.sorted(), nil
		}
		if stale++; fresh {
			stale = 0
		}
		if cursors[cursor] || stale == stalePagesMax || pages == pagesMax {
			return nil, &Fault{Text: "the provider's list does not end: its cursor leads to pages that " +
				"were there before"}
		}
		cursors[cursor] = true
	}
}

// listed is what one slice's pages have named so far.
type listed struct {
	*run
	span    span
	halves  bool
	seen    map[string]int // how often
	missing map[string]*record
	bytes   int
	order   []*record
}

// page goes through the records of a page and tells whether it named anything new.
func (l *listed) page(ctx context.Context, records []record) (fresh bool, err error) {
	for i := range records {
		one := &records[i]
		id := l.shelf.identify(one)
		if id == "" {
			id = one.id
			if one.body != nil {
				return fresh, errNoID
			}
		}
		if l.seen[id]++; l.seen[id] > 1 {
			l.again(id, one)
			continue
		}
		fresh = true
		if !l.span.holds(one.at) {
			continue
		}
		l.p.Seen++
		known := one.delivered
		if !known {
			if known, err = l.shelf.has(one, id); err != nil {
				return fresh, err
			}
		}
		if known {
			l.p.Known++
			continue
		}
		l.missing[id] = one
		l.order = append(l.order, one)
		if l.bytes += one.bytes(); l.bytes <= recordBytesMax && len(l.missing) <= l.service.o.records {
			continue
		}
		if l.halves {
			return fresh, errTooMuch
		}
		if err := l.deal(ctx, l.sorted()); err != nil {
			return fresh, err
		}
		l.bytes, l.order = 0, nil
		clear(l.missing)
	}
	return fresh, nil
}

var errNoID = &Fault{Text: "the provider's record has no id where the source looks for one: set " +
	"id_from of the source, or the header it names under reconcile.set"}

// again is a record that has an id that was there before: another attempt of the provider's.
func (l *listed) again(id string, one *record) {
	m := l.missing[id]
	if m == nil {
		return
	}
	_, resends := l.feed.(resender)
	hopeless := resends && l.seen[id] > attemptsMax
	if !one.delivered && !hopeless {
		return
	}
	l.bytes -= m.bytes()
	delete(l.missing, id)
	if one.delivered {
		l.p.Known++
	} else {
		l.lose(m, errRefused)
	}
}

var errRefused = errors.New("it was sent several times and refused each time: see the log for " +
	"why, and have it sent again by hand where that is mended")

// sorted gives what is missing, the oldest first. Of one time they come as the list had them,
// turned round where it has the newest first.
func (l *listed) sorted() []*record {
	list := make([]*record, 0, len(l.missing))
	left := map[*record]bool{}
	for _, m := range l.missing {
		left[m] = true
	}
	for _, m := range l.order {
		if left[m] {
			list = append(list, m)
		}
	}
	if n := len(list); n > 1 && list[0].at.After(list[n-1].at) {
		slices.Reverse(list)
	}
	slices.SortStableFunc(list, func(a, b *record) int { return a.at.Compare(b.at) })
	return list
}

// deal takes in what is missing, or asks for it again.
func (r *run) deal(ctx context.Context, missing []*record) error {
	if r.dry {
		return nil
	}
	if again, is := r.feed.(resender); is {
		return r.resend(ctx, again, missing)
	}
	for len(missing) > 0 {
		chunk := missing[:min(len(missing), takenMax)]
		missing = missing[len(chunk):]
		if err := r.take(ctx, chunk); err != nil {
			return err
		}
	}
	return nil
}

// take takes in a few records as one group, or as several where they are large.
func (r *run) take(ctx context.Context, chunk []*record) error {
	var group []*record
	size := 0
	flush := func() error {
		if len(group) == 0 {
			return nil
		}
		result, err := r.shelf.take(ctx, group)
		for errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrUnwritable) {
			r.wait("room in the journal") // nothing of the group is in it
			if err = sleep(ctx, gatePoll); err == nil {
				result, err = r.shelf.take(ctx, group)
			}
		}
		if err != nil {
			return err
		}
		r.p.Taken += uint64(result.Taken - result.Duplicates)
		r.p.Known += uint64(result.Known + result.Duplicates)
		group, size = nil, 0
		r.tell()
		return nil
	}
	for _, one := range chunk {
		if time.Until(r.pace.next) > flushPause {
			if err := flush(); err != nil {
				return err
			}
		}
		if err := r.turn(ctx); err != nil {
			return err
		}
		ready, err := r.complete(ctx, one)
		if err != nil {
			return err
		}
		if !ready {
			continue
		}
		if size+one.bytes() > takenBytesMax {
			if err := flush(); err != nil {
				return err
			}
		}
		group, size = append(group, one), size+one.bytes()
	}
	return flush()
}

// complete has a record whole; false: it is here meanwhile, or cannot be had.
func (r *run) complete(ctx context.Context, one *record) (bool, error) {
	if fetch, is := r.feed.(fetcher); is && one.body == nil {
		err := fetch.fetch(ctx, one)
		if errors.Is(err, errGone) {
			r.lose(one, err)
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	if int64(len(one.body)) > r.target.Source.MaxBody {
		r.lose(one, errTooLarge)
		return false, nil
	}
	id := r.shelf.identify(one)
	if id == "" {
		return false, errNoID
	}
	known, err := r.shelf.knows(id)
	if known {
		r.p.Known++
	}
	return err == nil && !known, err
}

// lose notes a record that the provider has and that cannot be taken in.
func (r *run) lose(one *record, why error) {
	r.p.Lost++
	r.service.o.Log.Warn("an event cannot be reconciled", "source", r.target.Name, "id", one.id,
		"why", why)
}

// resend asks for what is missing again.
func (r *run) resend(ctx context.Context, feed resender, missing []*record) error {
	for _, one := range missing {
		if err := r.turn(ctx); err != nil {
			return err
		}
		id := r.shelf.identify(one)
		if id == "" {
			return errNoID
		}
		err := feed.resend(ctx, one)
		if errors.Is(err, errGone) {
			r.lose(one, err)
			continue
		}
		if err != nil {
			return err
		}
		r.p.Requested++
		r.awaited = append(r.awaited, awaited{id, one.at})
		r.tell()
	}
	return nil
}

// await waits for what was asked for again.
func (r *run) await(ctx context.Context) error {
	until := time.Now().Add(r.service.o.arrival)
	for {
		var left []awaited
		for _, a := range r.awaited {
			here, err := r.shelf.knows(a.id)
			if err != nil {
				return err
			}
			if !here {
				left = append(left, a)
			}
		}
		if r.awaited = left; len(left) == 0 {
			r.wait("")
			r.advance(r.whole.until)
			return nil
		}
		if !time.Now().Before(until) {
			oldest := slices.MinFunc(left, func(a, b awaited) int { return a.at.Compare(b.at) })
			r.advance(oldest.at)
			return &Fault{Text: fmt.Sprintf("%d of %d events that were asked for again have not come "+
				"within %v: the next run asks for them once more", len(left), r.p.Requested,
				r.service.o.arrival)}
		}
		r.wait(fmt.Sprintf("what was asked for again: %d of %d", len(left), r.p.Requested))
		if err := sleep(ctx, arrivalPoll); err != nil {
			return err
		}
	}
}

// turn waits until one more event may come in: nobody else waits for the store, since what is
// reconciled comes last, and the bound on events a second lets it pass.
func (r *run) turn(ctx context.Context) error {
	for {
		what := r.service.o.Room()
		r.wait(what)
		if what == "" {
			return r.pace.pause(ctx)
		}
		if err := sleep(ctx, gatePoll); err != nil {
			return err
		}
	}
}

// wait says what is waited for.
func (r *run) wait(what string) {
	if r.p.Waiting != what {
		r.p.Waiting = what
		r.say(r.p)
	}
}

func (r *run) tell() { r.say(r.p) }

// pacer lets so many events a second pass.
type pacer struct {
	interval time.Duration
	next     time.Time
}

func (p *pacer) pause(ctx context.Context) error {
	if wait := time.Until(p.next); wait > 0 {
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	p.next = time.Now().Add(p.interval)
	return nil
}
