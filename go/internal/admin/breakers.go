package admin

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "sluice/proto/sluice/v1"
)

const (
	heldMax          = 30 * 24 * time.Hour
	workerNameMax    = 128
	workerTTLDefault = 15 * time.Second
	workerTTLMax     = 10 * time.Minute
	workerStateMax   = 365 * 24 * time.Hour
)

var (
	breakerStates = []string{"open", "closed", "auto"}
	workerStates  = []string{"idle", "busy", "lock_wait"}
)

func (s *Service) breakers() []Breaker {
	if s.o.Breakers == nil {
		return nil
	}
	return s.o.Breakers.List()
}

// breaker finds one by name, or says which there are.
func (s *Service) breaker(name string) (*Breaker, error) {
	list := s.breakers()
	names := make([]string, len(list))
	for i := range list {
		if list[i].Name == name {
			return &list[i], nil
		}
		names[i] = list[i].Name
	}
	if len(names) == 0 {
		return nil, status.Errorf(codes.NotFound, "there is no breaker %q; there is none at all", name)
	}
	return nil, status.Errorf(codes.NotFound, "there is no breaker %q; there are %s", name,
		strings.Join(names, ", "))
}

// ListBreakers gives all breakers.
func (s *Service) ListBreakers(context.Context, *pb.ListBreakersRequest) (*pb.BreakerList, error) {
	out := &pb.BreakerList{}
	list := s.breakers()
	for i := range list {
		out.Breakers = append(out.Breakers, breakerLine(&list[i]))
	}
	return out, nil
}

// WatchBreakers gives all breakers as they are, then each transition. One that happens in between
// may be told twice.
func (s *Service) WatchBreakers(_ *pb.WatchBreakersRequest,
	stream grpc.ServerStreamingServer[pb.BreakerChange]) error {
	ctx, done := s.streamContext(stream.Context())
	defer done()
	changes := func(func(BreakerChange) bool) { <-ctx.Done() }
	if s.o.Breakers != nil {
		changes = s.o.Breakers.Watch(ctx)
	}
	list := s.breakers()
	for i := range list {
		if err := stream.Send(&pb.BreakerChange{Breaker: breakerLine(&list[i])}); err != nil {
			done()
			for range changes { // it lets go of what it holds when it sees the end
			}
			return err
		}
	}
	for change := range changes {
		err := stream.Send(&pb.BreakerChange{From: change.From, Breaker: breakerLine(&change.Breaker)})
		if err != nil {
			return err
		}
	}
	return s.streamEnd(stream.Context())
}

// SetBreaker holds a breaker open or closed, or lets it go.
func (s *Service) SetBreaker(ctx context.Context, r *pb.SetBreakerRequest) (*pb.Breaker, error) {
	span := time.Duration(r.GetForNs())
	switch {
	case !slices.Contains(breakerStates, r.GetState()):
		return nil, invalid("a breaker is set to %s, not to %q", strings.Join(breakerStates, ", "),
			r.GetState())
	case r.GetState() == "auto" && span != 0:
		return nil, invalid("a breaker is let go at once, not for a while")
	case span < 0 || span > heldMax:
		return nil, invalid("a breaker is held for up to %v, not for %v", heldMax, span)
	}
	if _, err := s.breaker(r.GetName()); err != nil {
		return nil, err
	}
	by := caller(ctx, r.GetBy())
	if err := s.o.Breakers.Set(r.GetName(), r.GetState(), span, by); err != nil {
		return nil, fault(err)
	}
	s.o.Log.Info("breaker set", "breaker", r.GetName(), "state", r.GetState(), "for", span, "by", by)
	now, err := s.breaker(r.GetName())
	if err != nil {
		return nil, err
	}
	return breakerLine(now), nil
}

// ReportWorker takes a worker's sign of life.
func (s *Service) ReportWorker(_ context.Context,
	r *pb.ReportWorkerRequest) (*pb.ReportWorkerReply, error) {
	forTime, ttl := milliseconds(r.GetStateMs()), milliseconds(r.GetTtlMs())
	switch {
	case r.GetWorker() == "" || len(r.GetWorker()) > workerNameMax:
		return nil, invalid("a worker's name has 1 to %d bytes, not %d", workerNameMax,
			len(r.GetWorker()))
	case !slices.Contains(workerStates, r.GetState()):
		return nil, invalid("a worker is %s, not %q", strings.Join(workerStates, ", "), r.GetState())
	case forTime > workerStateMax:
		return nil, invalid("a worker is in one state for up to %v, not for %v", workerStateMax, forTime)
	case ttl > workerTTLMax:
		return nil, invalid("a worker is remembered for up to %v, not for %v", workerTTLMax, ttl)
	case ttl == 0:
		ttl = workerTTLDefault
	}
	err := errNoWorkers
	if s.o.Workers != nil {
		err = s.o.Workers.Report(r.GetBreaker(), r.GetWorker(), r.GetState(), forTime, ttl)
	}
	if err == nil {
		return &pb.ReportWorkerReply{}, nil
	}
	// Workers report often: the list is looked at only where there is something to say about it.
	if _, unknown := s.breaker(r.GetBreaker()); unknown != nil {
		return nil, unknown
	}
	return nil, status.Error(codes.FailedPrecondition, err.Error())
}

var errNoWorkers = errors.New("nobody listens for workers here")

// milliseconds never wraps: what is too long stays too long.
func milliseconds(n uint64) time.Duration {
	return time.Duration(min(n, math.MaxInt64/uint64(time.Millisecond))) * time.Millisecond
}

func breakerLine(b *Breaker) *pb.Breaker {
	line := &pb.Breaker{
		Name: b.Name, State: b.State, Kind: "destination", Members: b.Members, Reason: b.Reason,
		SinceNs: unixNano(b.Since), ProbeNs: unixNano(b.Probe), Phase: b.Phase, Rate: b.Rate,
		HeldUntilNs: unixNano(b.HeldUntil), Held: b.Held, Opened: b.Opened, Hosts: uint32(b.Hosts),
		Alone: b.Alone,
	}
	if b.Group {
		line.Kind = "group"
	}
	for _, g := range b.Signals {
		line.Signals = append(line.Signals, &pb.BreakerSignal{
			Name: g.Name, Value: g.Value, Trip: g.Trip, Recover: g.Recover, Verdict: g.Verdict,
			Stale: g.Stale, Error: g.Error, AtNs: unixNano(g.At),
		})
	}
	return line
}
