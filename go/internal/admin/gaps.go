package admin

import (
	"google.golang.org/grpc"

	"sluice/go/internal/gaps"
	pb "sluice/proto/sluice/v1"
)

// Gaps is the ledger of refusals.
type Gaps interface {
	// List gives gaps, the newest first.
	List(gaps.Filter) []gaps.Gap
}

// ListGaps gives the stretches of time in which requests were turned away, the newest first; those
// that are closed only to who asks for them.
func (s *Service) ListGaps(r *pb.ListGapsRequest, stream grpc.ServerStreamingServer[pb.Gap]) error {
	_, err := number(r.GetSource(), "source", s.o.Store.Catalogue().Sources)
	if err != nil {
		return err
	}
	f := gaps.Filter{
		Source: r.GetSource(), Since: timeOf(r.GetSinceNs()), Until: timeOf(r.GetUntilNs()),
		Limit: int(r.GetLimit()), Closed: r.GetClosed(),
	}
	if !f.Since.IsZero() && !f.Until.IsZero() && !f.Since.Before(f.Until) {
		return invalid("since is not before until, so nothing could match")
	}
	ctx, done := s.streamContext(stream.Context())
	defer done()
	for _, g := range s.o.Gaps.List(f) {
		if err := ctx.Err(); err != nil {
			return s.streamEnd(stream.Context())
		}
		if err := stream.Send(&pb.Gap{
			Source: g.Source, FromNs: g.From.UnixNano(), ToNs: g.To.UnixNano(), Reason: g.Reason,
			Count: g.Count, Ids: g.IDs, Unnamed: g.Unnamed,
			ClosedNs: unixNano(g.Closed),
		}); err != nil {
			return err
		}
	}
	return nil
}
