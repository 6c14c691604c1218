package admin

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"sluice/go/internal/event"
	"sluice/go/internal/store"
	pb "sluice/proto/sluice/v1"
	"sluice/shm-abi/shmabi"
)

// ListEvents gives the events that match, newest first.
func (s *Service) ListEvents(r *pb.ListEventsRequest,
	stream grpc.ServerStreamingServer[pb.Event]) error {
	selected, err := s.selection(r.GetFilter())
	if err != nil {
		return err
	}
	ctx, done := s.streamContext(stream.Context())
	defer done()
	names := s.o.Store.Catalogue()
	err = walk(ctx, selected, int(r.GetLimit()), s.o.Store.Events, func(e *store.Event) error {
		return stream.Send(eventLine(e, names))
	})
	return s.streamFault(ctx, stream.Context(), err)
}

// streamFault tells the end of the service from the end of a call.
func (s *Service) streamFault(ctx, call context.Context, err error) error {
	if err != nil && ctx.Err() != nil && call.Err() == nil {
		return s.streamEnd(call)
	}
	if err != nil {
		return fault(err)
	}
	return nil
}

func eventLine(e *store.Event, names *event.Catalogue) *pb.Event {
	line := &pb.Event{
		Id: e.ID.String(), Source: names.SourceName(e.Source), ProviderId: e.ProviderID,
		ReceivedNs: e.Received.UnixNano(), Size: uint64(e.Size), State: e.State.String(),
	}
	for _, d := range e.Destinations {
		line.Destinations = append(line.Destinations, &pb.EventDestination{
			Name: names.DestinationName(d.Destination), State: d.State.String(),
			Attempts: uint32(d.Attempts), NextAttemptNs: unixNano(d.Next), LastError: d.LastError,
		})
	}
	return line
}

// GetEvent gives all of one event.
func (s *Service) GetEvent(_ context.Context, r *pb.GetEventRequest) (*pb.EventDetail, error) {
	id, err := event.ParseID(r.GetId())
	if err != nil {
		return nil, invalid("%v", err)
	}
	detail, err := s.o.Store.Event(id)
	if err != nil {
		return nil, fault(err)
	}
	payload, err := s.o.Store.Read(detail.Seq)
	if err != nil {
		return nil, fault(err)
	}
	defer payload.Release()
	names := s.o.Store.Catalogue()
	out := &pb.EventDetail{
		Event:  eventLine(&detail.Event, names),
		Method: string(payload.Method()), Target: string(payload.Target()),
		// A copy: the message is encoded after the payload was given back.
		Body:        append([]byte{}, payload.Body()...),
		Acknowledge: acknowledge(shmabi.Ack(payload.Frame().C().Ack())),
		SecretIndex: uint32(payload.Frame().C().SecretIndex()),
	}
	if peer := payload.Peer(); peer.IsValid() {
		out.Peer = peer.String()
	}
	for i := range payload.HeaderCount() {
		name, value := payload.Header(i)
		out.Headers = append(out.Headers, &pb.Header{
			Name: append([]byte{}, name...), Value: append([]byte{}, value...),
		})
	}
	for _, o := range detail.Attempts {
		out.Attempts = append(out.Attempts, &pb.Attempt{
			Destination: names.DestinationName(o.Destination), Outcome: o.Kind.String(),
			Attempt: uint32(o.Attempt), Code: uint32(o.Code), AtNs: o.At, NextNs: o.Next,
			Error: o.Err, By: o.By,
		})
	}
	return out, nil
}

func acknowledge(a shmabi.Ack) string {
	switch a {
	case shmabi.AckRing:
		return "ring"
	case shmabi.AckDurable:
		return "durable"
	case shmabi.AckDelivered:
		return "delivered"
	}
	return fmt.Sprintf("level-%d", a)
}

// TailEvents gives events as they become durable. The header of the stream comes when it has begun.
func (s *Service) TailEvents(r *pb.TailEventsRequest,
	stream grpc.ServerStreamingServer[pb.Event]) error {
	source, err := number(r.GetSource(), "source", s.o.Store.Catalogue().Sources)
	if err != nil {
		return err
	}
	ctx, done := s.streamContext(stream.Context())
	defer done()
	tail := s.o.Store.Tail(ctx, store.Filter{Source: source})
	if err := stream.SendHeader(metadata.MD{}); err != nil {
		return err
	}
	for e, err := range tail {
		if err != nil {
			return s.streamFault(ctx, stream.Context(), err)
		}
		// Names may be new since the last event.
		if err := stream.Send(eventLine(&e, s.o.Store.Catalogue())); err != nil {
			return err
		}
	}
	return s.streamEnd(stream.Context())
}

// ReplayEvents makes new deliveries of the events that match: those that wait are left alone, those
// that are being retried are due at once, those that are delivered or dead begin anew.
func (s *Service) ReplayEvents(ctx context.Context, r *pb.ReplayEventsRequest) (*pb.ReplayReply,
	error) {
	selected, err := s.selection(r.GetFilter())
	if err != nil {
		return nil, err
	}
	only, err := number(r.GetDestination(), "destination", s.o.Store.Catalogue().Destinations)
	if err != nil {
		return nil, err
	}
	for i := range selected {
		f := &selected[i]
		switch {
		case f.State == event.Duplicate:
			return nil, invalid("a duplicate has no deliveries; replay the event that it repeats")
		case only != 0 && f.Destination != 0 && f.Destination != only:
			return nil, invalid("the filter names destination %q and the replay %q",
				r.GetFilter().GetDestination(), r.GetDestination())
		case only != 0:
			f.Destination = only
		}
	}
	reply := &pb.ReplayReply{}
	err = walk(ctx, selected, 0, s.o.Store.Events, func(e *store.Event) error {
		n := uint64(0)
		for _, d := range e.Destinations {
			to := selected[0].Destination
			if d.State != event.Pending && (to == 0 || to == d.Destination) {
				n++
			}
		}
		if n > 0 {
			reply.Events++
			reply.Deliveries += n
		}
		return nil
	})
	if err != nil || r.GetDryRun() {
		return reply, faultOrNil(err)
	}
	by := caller(ctx, r.GetBy())
	reply.Deliveries, err = each(selected, func(f store.Filter) (int, error) {
		return s.o.Store.ReplayEvents(ctx, f, by)
	})
	if err != nil {
		return nil, fault(err)
	}
	s.o.Log.Info("events replayed", "deliveries", reply.Deliveries, "by", by)
	return reply, nil
}

func faultOrNil(err error) error {
	if err == nil {
		return nil
	}
	return fault(err)
}

// each runs a command for every filter and adds up.
func each(selected selection, do func(store.Filter) (int, error)) (total uint64, err error) {
	for _, f := range selected {
		n, err := do(f)
		total += uint64(n)
		if err != nil {
			return total, err
		}
	}
	return total, nil
}
