package store

import (
	"context"
	"errors"
	"fmt"

	"sluice/go/internal/event"
	"sluice/shm-abi/shmabi"
)

// ErrDerive is wrapped where a frame cannot be made an event: ours to mend.
var ErrDerive = errors.New("no event to derive")

// Derive makes events durable that were made of another one, as Import does: as one group of at
// most ImportMax events and ImportBytesMax bytes (or one event), in order, but for those whose ID
// is known, so that who was interrupted may do it again. Frames are whole, their C lines final;
// where they go their routes say, which a config must have.
func (s *Store) Derive(ctx context.Context, frames []shmabi.Frame) (ImportResult, error) {
	list := make([]Imported, len(frames))
	names := s.Catalogue()
	for i, f := range frames {
		c := f.C()
		if _, known := names.Route(c.RouteVersion()); !known || c.EventID() == (event.ID{}) {
			return ImportResult{}, fmt.Errorf("%w: %d has route %d and id %x", ErrDerive, i,
				c.RouteVersion(), c.EventID())
		}
		list[i].Frame = f
	}
	s.importMu.Lock()
	defer s.importMu.Unlock()
	return s.takeIn(ctx, list)
}
