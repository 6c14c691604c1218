package admin

import (
	"context"
	"strings"

	"google.golang.org/grpc"

	"sluice/go/internal/event"
	"sluice/go/internal/store"
	pb "sluice/proto/sluice/v1"
)

// ListDeadLetters gives the dead letters that match, those of the newest event first.
func (s *Service) ListDeadLetters(r *pb.ListDeadLettersRequest,
	stream grpc.ServerStreamingServer[pb.DeadLetter]) error {
	selected, err := s.deadSelection(r.GetFilter())
	if err != nil {
		return err
	}
	ctx, done := s.streamContext(stream.Context())
	defer done()
	names := s.o.Store.Catalogue()
	err = walk(ctx, selected, int(r.GetLimit()), s.o.Store.DeadLetters,
		func(d *store.DeadLetter) error {
			return stream.Send(&pb.DeadLetter{
				Id: d.ID.String(), Source: names.SourceName(d.Source),
				Destination: names.DestinationName(d.Destination), Attempts: uint32(d.Attempts),
				LastError: d.LastError, DeadNs: unixNano(d.At),
			})
		})
	return s.streamFault(ctx, stream.Context(), err)
}

func (s *Service) deadSelection(f *pb.EventFilter) (selection, error) {
	selected, err := s.selection(f)
	if err == nil && selected[0].State != 0 && selected[0].State != event.DeadLetter {
		return nil, invalid("a dead letter's state is dead, not %q", f.GetState())
	}
	return selected, err
}

// ReplayDeadLetters makes new deliveries of the dead letters that match, or of their events to
// another destination.
func (s *Service) ReplayDeadLetters(ctx context.Context,
	r *pb.DeadLettersRequest) (*pb.ReplayReply, error) {
	selected, err := s.deadSelection(r.GetFilter())
	if err != nil {
		return nil, err
	}
	replay, err := s.replay(r.GetDestination(), r.GetRate(), caller(ctx, r.GetBy()))
	if err != nil {
		return nil, err
	}
	reply, err := s.countDead(ctx, selected)
	if replay.To != 0 {
		// One each, however many dead letters it has. What waits there already is counted as well,
		// and then left alone.
		reply.Deliveries = reply.Events
	}
	if err != nil || r.GetDryRun() {
		return reply, faultOrNil(err)
	}
	filter, ids := selected.whole()
	replay.IDs = ids
	count, err := s.o.Store.ReplayDead(ctx, filter, replay)
	if err != nil {
		return nil, fault(err)
	}
	reply.Deliveries = uint64(count)
	s.o.Log.Info("dead letters replayed", "deliveries", reply.Deliveries, "by", replay.By,
		"to", r.GetDestination(), "rate", replay.Rate)
	return reply, nil
}

// DropDeadLetters gives the dead letters that match up for good.
func (s *Service) DropDeadLetters(ctx context.Context,
	r *pb.DropDeadLettersRequest) (*pb.DropReply, error) {
	selected, err := s.deadSelection(r.GetFilter())
	if err != nil {
		return nil, err
	}
	if !r.GetDryRun() && strings.TrimSpace(r.GetReason()) == "" {
		return nil, invalid("a dead letter is dropped with a reason, which is recorded")
	}
	if r.GetDryRun() {
		count, err := s.countDead(ctx, selected)
		return &pb.DropReply{Deliveries: count.Deliveries}, faultOrNil(err)
	}
	by := caller(ctx, r.GetBy())
	dropped, err := each(selected, func(f store.Filter) (int, error) {
		return s.o.Store.DropDead(ctx, f, r.GetReason(), by)
	})
	if err != nil {
		return nil, fault(err)
	}
	s.o.Log.Info("dead letters dropped", "deliveries", dropped, "by", by, "reason", r.GetReason())
	return &pb.DropReply{Deliveries: dropped}, nil
}

// countDead counts what a command would touch. An event's dead letters are neighbours in the
// listing.
func (s *Service) countDead(ctx context.Context, selected selection) (*pb.ReplayReply, error) {
	reply := &pb.ReplayReply{}
	var last event.ID
	err := walk(ctx, selected, 0, s.o.Store.DeadLetters, func(d *store.DeadLetter) error {
		if reply.Deliveries++; d.ID != last {
			reply.Events++
			last = d.ID
		}
		return nil
	})
	return reply, err
}
