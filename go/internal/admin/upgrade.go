package admin

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "sluice/proto/sluice/v1"
)

// Upgrade replaces the data plane, or this daemon's program. Where that fails, the daemon goes on
// as before, and why is the operator's to read: FAILED_PRECONDITION. A caller that goes away before
// another data plane serves has the upgrade given up.
func (s *Service) Upgrade(r *pb.UpgradeRequest,
	stream grpc.ServerStreamingServer[pb.UpgradeProgress]) error {
	ctx, done := s.streamContext(stream.Context())
	defer done()
	by := caller(ctx, "")
	s.o.Log.Info("upgrade", "control", r.GetControl(), "by", by)
	generation, err := s.o.Upgrade(ctx, r.GetControl(), func(step string) {
		_ = stream.Send(&pb.UpgradeProgress{Step: step}) // the context says that nobody listens
	})
	if err != nil {
		s.o.Log.Error("upgrade", "control", r.GetControl(), "by", by, "error", err)
		if ctx.Err() != nil {
			return s.streamEnd(stream.Context())
		}
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	return stream.Send(&pb.UpgradeProgress{Generation: generation, Done: true})
}
