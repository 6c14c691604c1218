package admin

import (
	"context"
	"slices"
	"strings"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/store"
	pb "sluice/proto/sluice/v1"
)

const (
	pageEvents = 256
	idsMax     = 10_000
	// replayRateMax bounds the deliveries a second that an operator may ask for.
	replayRateMax = 1_000_000
)

// selection is a filter of the API in the store's words: one for each id, or one.
type selection []store.Filter

// selection checks names, times and ids of a filter.
func (s *Service) selection(f *pb.EventFilter) (selection, error) {
	names := s.o.Store.Catalogue()
	base := store.Filter{
		Since: timeOf(f.GetSinceNs()), Until: timeOf(f.GetUntilNs()), ProviderID: f.GetProviderId(),
		Type: f.GetType(),
	}
	var err error
	if base.Source, err = number(f.GetSource(), "source", names.Sources); err != nil {
		return nil, err
	}
	base.Destination, err = number(f.GetDestination(), "destination", names.Destinations)
	if err != nil {
		return nil, err
	}
	if text := f.GetState(); text != "" {
		if base.State, err = event.ParseState(text); err != nil {
			return nil, invalid("%v", err)
		}
	}
	if !base.Since.IsZero() && !base.Until.IsZero() && !base.Since.Before(base.Until) {
		return nil, invalid("since is not before until, so nothing could match")
	}
	if len(f.GetIds()) > idsMax {
		return nil, invalid("%d ids are more than %d; use a filter", len(f.GetIds()), idsMax)
	}
	if len(f.GetIds()) == 0 {
		return selection{base}, nil
	}
	ids := make([]event.ID, 0, len(f.GetIds()))
	for _, text := range f.GetIds() {
		id, err := event.ParseID(text)
		if err != nil {
			return nil, invalid("%v", err)
		}
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b event.ID) int { return slices.Compare(b[:], a[:]) })
	var out selection
	for _, id := range slices.Compact(ids) {
		one := base
		one.ID = id
		out = append(out, one)
	}
	return out, nil
}

// whole is the selection as one filter and the ids that it is about; nil: all that match.
func (s selection) whole() (store.Filter, []event.ID) {
	f := s[0]
	if f.ID.IsZero() {
		return f, nil
	}
	f.ID = event.ID{}
	ids := make([]event.ID, len(s))
	for i := range s {
		ids[i] = s[i].ID
	}
	return f, ids
}

// number finds the number of a name; the empty name is 0. Names that the config dropped are found
// as long as the store knows them.
func number(name, what string, list []event.Named) (uint32, error) {
	if name == "" {
		return 0, nil
	}
	known := make([]string, 0, len(list))
	for _, n := range list {
		if n.Name == name {
			return n.ID, nil
		}
		known = append(known, n.Name)
	}
	if len(known) == 0 {
		return 0, invalid("there is no %s %q; there is none at all", what, name)
	}
	slices.Sort(known)
	return 0, invalid("there is no %s %q; there are %s", what, name, strings.Join(known, ", "))
}

func timeOf(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

// walk goes through a listing, a page at a time, until limit (0: all) or an error.
func walk[T any](ctx context.Context, selected selection, limit int,
	read func(store.Filter) (store.Page[T], error), visit func(*T) error) error {
	left := limit
	for _, f := range selected {
		for {
			if err := ctx.Err(); err != nil {
				return err
			}
			f.Limit = pageEvents
			if limit > 0 {
				f.Limit = min(left, pageEvents)
			}
			page, err := read(f)
			if err != nil {
				return err
			}
			for i := range page.Items {
				if err := visit(&page.Items[i]); err != nil {
					return err
				}
			}
			left -= len(page.Items)
			if limit > 0 && left <= 0 {
				return nil
			}
			if page.Next == (store.Cursor{}) {
				break
			}
			f.Before = page.Next
		}
	}
	return nil
}
