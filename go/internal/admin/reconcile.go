package admin

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "sluice/proto/sluice/v1"
)

// ErrAsked is wrapped by errors of what a caller asks for: his to mend.
var ErrAsked = errors.New("this cannot be asked for")

// Reconciler asks providers for what was missed.
type Reconciler interface {
	// Reconcile makes one run, tells of it now and then, and gives how it ended. An error, which wraps
	// ErrNotNow or ErrAsked, says why it did not begin.
	Reconcile(ctx context.Context, a ReconcileAsk, say func(Reconciled)) (Reconciled, error)
}

// ReconcileAsk is what a run is to do; zero times leave it to the daemon.
type ReconcileAsk struct {
	Source       string
	Since, Until time.Time
	Dry          bool
}

// Reconciled is how far a run has come.
type Reconciled struct {
	Source       string
	Since, Until time.Time
	Pages        uint64
	Seen, Known  uint64 // events that the provider named; those of them that are here
	Taken        uint64
	Requested    uint64
	Lost         uint64
	GapsClosed   uint64
	Waiting      string
	Done         bool
	Error        string
	Ended        time.Time
}

func (r *Reconciled) message() *pb.ReconcileProgress {
	return &pb.ReconcileProgress{
		Source: r.Source, SinceNs: unixNano(r.Since), UntilNs: unixNano(r.Until), Pages: r.Pages,
		Seen: r.Seen, Known: r.Known, Taken: r.Taken, Requested: r.Requested, Lost: r.Lost,
		GapsClosed: r.GapsClosed, Waiting: r.Waiting, Done: r.Done, Error: r.Error,
		EndedNs: unixNano(r.Ended),
	}
}

// Reconcile asks the provider of a source for what was missed. It ends with its caller.
func (s *Service) Reconcile(r *pb.ReconcileRequest,
	stream grpc.ServerStreamingServer[pb.ReconcileProgress]) error {
	if s.o.Reconciler == nil {
		return status.Error(codes.FailedPrecondition, "this daemon asks no provider")
	}
	if r.GetSource() == "" {
		return invalid("no source is named")
	}
	if _, err := number(r.GetSource(), "source", s.o.Store.Catalogue().Sources); err != nil {
		return err
	}
	ctx, done := s.streamContext(stream.Context())
	defer done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.o.Log.Info("reconcile", "source", r.GetSource(), "dry_run", r.GetDryRun(),
		"by", caller(ctx, ""))
	last, err := s.o.Reconciler.Reconcile(ctx, ReconcileAsk{
		Source: r.GetSource(), Since: timeOf(r.GetSinceNs()), Until: timeOf(r.GetUntilNs()),
		Dry: r.GetDryRun(),
	}, func(p Reconciled) {
		if stream.Send(p.message()) != nil {
			cancel() // nobody listens any more
		}
	})
	switch {
	case errors.Is(err, ErrAsked):
		return invalid("%v", err)
	case err != nil:
		return fault(err)
	}
	return stream.Send(last.message())
}
