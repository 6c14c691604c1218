package admin

import (
	"errors"

	"sluice/go/internal/destination/split"
	"sluice/go/internal/event"
	"sluice/go/internal/store"
	pb "sluice/proto/sluice/v1"
	"sluice/shm-abi/shmabi"
)

// itemsShown bounds the items that an original names.
const itemsShown = 1000

// relate tells of which original an event was an item, and which events its own items became.
func (s *Service) relate(out *pb.EventDetail, id event.ID, f shmabi.Frame) error {
	e, err := f.Event()
	if err != nil {
		return fault(err)
	}
	if original, number, yes := split.Of(&e); yes {
		out.Batch, out.Item = original.String(), number
		return nil
	}
	for number := range uint32(itemsShown) {
		item := id.Item(number)
		_, err := s.o.Store.Event(item)
		if errors.Is(err, store.ErrNotFound) {
			break
		}
		if err != nil {
			return fault(err)
		}
		out.Items = append(out.Items, item.String())
	}
	return nil
}
