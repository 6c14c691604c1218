package admin

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"sluice/go/internal/gameday"
	pb "sluice/proto/sluice/v1"
)

var errNoFaults = status.Error(codes.FailedPrecondition,
	"faults are for game days: this daemon was not started with `sluice run --dev`")

// ListFaults shows the faults in force.
func (s *Service) ListFaults(context.Context, *pb.ListFaultsRequest) (*pb.FaultList, error) {
	if s.o.Faults == nil {
		return nil, errNoFaults
	}
	return s.faults(), nil
}

// SetFault puts a fault in force.
func (s *Service) SetFault(ctx context.Context, r *pb.SetFaultRequest) (*pb.FaultList, error) {
	if s.o.Faults == nil {
		return nil, errNoFaults
	}
	err := s.o.Faults.Set(r.GetPoint(), r.GetKind(), r.GetArgument(), time.Duration(r.GetForNs()))
	switch {
	case errors.Is(err, gameday.ErrNotNow):
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	case err != nil:
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	s.o.Log.Warn("fault set", "point", r.GetPoint(), "kind", r.GetKind(),
		"argument", r.GetArgument(), "for", time.Duration(r.GetForNs()), "by", caller(ctx, ""))
	return s.faults(), nil
}

// ClearFault ends the faults of one point, or all.
func (s *Service) ClearFault(ctx context.Context, r *pb.ClearFaultRequest) (*pb.FaultList, error) {
	if s.o.Faults == nil {
		return nil, errNoFaults
	}
	if err := s.o.Faults.Clear(r.GetPoint()); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	s.o.Log.Warn("faults cleared", "point", r.GetPoint(), "by", caller(ctx, ""))
	return s.faults(), nil
}

func (s *Service) faults() *pb.FaultList {
	list := &pb.FaultList{}
	for _, f := range s.o.Faults.Faults() {
		list.Faults = append(list.Faults, &pb.Fault{
			Point: f.Point, Kind: f.Kind, Argument: f.Argument, UntilNs: unixNano(f.Until), Met: f.Met,
		})
	}
	return list
}
