package admin

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"sluice/go/internal/event"
	"sluice/go/internal/provider"
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
		Type: e.Type,
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
	out := eventDetail(&detail, payload, s.o.Store.Catalogue())
	if r.GetConceal() && s.o.Carried != nil {
		s.o.Carried(out.GetEvent().GetSource()).conceal(out)
	}
	return out, s.relate(out, detail.ID, payload.Frame())
}

// eventDetail copies all of a payload: the message is encoded after it was given back.
func eventDetail(detail *store.Detail, payload Payload, names *event.Catalogue) *pb.EventDetail {
	out := &pb.EventDetail{
		Event:  eventLine(&detail.Event, names),
		Method: string(payload.Method()), Target: string(payload.Target()),
		Body:        append([]byte{}, payload.Body()...),
		Acknowledge: acknowledge(shmabi.Ack(payload.Frame().C().Ack())),
		SecretIndex: uint32(payload.Frame().C().SecretIndex()),
		Unverified:  unverified(payload.Frame().C().Flags()),
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
			Error: o.Err, By: o.By, Blocks: o.Blocks,
		})
	}
	return out
}

// unverified is why an event was taken without a proof; empty: it was proven.
func unverified(flags uint8) string {
	if flags&uint8(shmabi.VerdictFlagUnverified) == 0 {
		return ""
	}
	return DoubtName(event.DoubtOf(flags))
}

// DoubtName names the reason why an event was taken without a proof.
func DoubtName(reason uint8) string {
	if reason == uint8(provider.OK) {
		return "no-proof"
	}
	return provider.Outcome(reason).String()
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
	if selected[0].State == event.Duplicate {
		return nil, invalid("a duplicate has no deliveries; replay the event that it repeats")
	}
	replay, err := s.replay(r.GetDestination(), r.GetRate(), caller(ctx, r.GetBy()))
	if err != nil {
		return nil, err
	}
	reply := &pb.ReplayReply{}
	err = walk(ctx, selected, 0, s.o.Store.Events, func(e *store.Event) error {
		if n := replayed(e, selected[0].Destination, replay.To); n > 0 {
			reply.Events++
			reply.Deliveries += n
		}
		return nil
	})
	if err != nil || r.GetDryRun() {
		return reply, faultOrNil(err)
	}
	filter, ids := selected.whole()
	replay.IDs = ids
	count, err := s.o.Store.ReplayEvents(ctx, filter, replay)
	if err != nil {
		return nil, fault(err)
	}
	reply.Deliveries = uint64(count)
	s.o.Log.Info("events replayed", "deliveries", reply.Deliveries, "by", replay.By,
		"to", r.GetDestination(), "rate", replay.Rate)
	return reply, nil
}

// replayed counts the deliveries that a replay makes of one event: of those that it has (from: only
// of that destination), or the one to another.
func replayed(e *store.Event, from, to uint32) (n uint64) {
	for _, d := range e.Destinations {
		switch {
		case d.Destination == to && d.State == event.Pending:
			return 0
		case to == 0 && d.State != event.Pending && (from == 0 || from == d.Destination):
			n++
		}
	}
	if to != 0 {
		return 1
	}
	return n
}

// replay checks where replays go and how fast.
func (s *Service) replay(to string, rate float64, by string) (store.Replay, error) {
	// NaN is between no two numbers.
	if rate != 0 && !(rate >= store.RateMin && rate <= replayRateMax) {
		return store.Replay{}, invalid("a replay makes %v to %d deliveries a second, not %v",
			store.RateMin, replayRateMax, rate)
	}
	destination, err := number(to, "destination", s.o.Store.Catalogue().Destinations)
	if err != nil {
		return store.Replay{}, err
	}
	configured := func(d Destination) bool { return d.Name == to }
	if to != "" && !slices.ContainsFunc(s.o.Facts().Destinations, configured) {
		return store.Replay{}, invalid("destination %q is in the config no more: nothing would be "+
			"delivered there", to)
	}
	return store.Replay{To: destination, Rate: rate, By: by}, nil
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
