package admin

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"sluice/go/internal/config"
	"sluice/go/internal/event"
	"sluice/go/internal/gameday"
	"sluice/go/internal/store"
	pb "sluice/proto/sluice/v1"
)

const (
	watchIntervalMin     = 100 * time.Millisecond
	watchIntervalDefault = time.Second
	pinDefault           = 10 * time.Minute
	pinMax               = 24 * time.Hour
)

// ErrRefused is wrapped by a Reload error that is the operator's to mend, as are all of package
// config.
var ErrRefused = errors.New("the config is refused")

// Options is what the service needs; those that say nothing of nil are required.
type Options struct {
	Store   Store
	Facts   func() Facts
	Limiter Limiter
	// Reload reads the config again and gives the version now in force.
	Reload func(context.Context) (uint32, error)
	// Upgrade replaces the data plane, or with control the program of this daemon, and gives the data
	// plane that serves then. It says each step as it begins.
	Upgrade func(ctx context.Context, control bool, say func(step string)) (uint32, error)
	// Drain begins to stop the daemon and returns at once.
	Drain  func() error
	Faults *gameday.Board // nil: this daemon takes none
	Gaps   Gaps
	// Carried names where the requests of a source carry its secret itself; nil: nowhere.
	Carried func(source string) Carried
	// Reconciler asks providers for what was missed; nil: this daemon asks none.
	Reconciler Reconciler
	Breakers   Breakers // nil: there are none
	Workers    Workers  // nil: nobody listens for them
	Version    string
	Now        func() time.Time // nil: time.Now
	Log        *slog.Logger     // nil: slog.Default
}

// Service answers the calls of sluice.v1.Admin.
type Service struct {
	pb.UnimplementedAdminServer
	o     Options
	ended context.Context
	end   context.CancelFunc
}

// New makes the service; a server of this package makes it reachable.
func New(o Options) *Service {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	s := &Service{o: o}
	s.ended, s.end = context.WithCancel(context.Background())
	return s
}

// Close ends all streams, so that a server can stop gracefully.
func (s *Service) Close() { s.end() }

// streamContext ends with the call and with the service.
func (s *Service) streamContext(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	stop := context.AfterFunc(s.ended, cancel)
	return ctx, func() { stop(); cancel() }
}

// GetStatus gives one look at everything.
func (s *Service) GetStatus(context.Context, *pb.GetStatusRequest) (*pb.Status, error) {
	return s.status(), nil
}

// WatchStatus gives a status now and then one an interval.
func (s *Service) WatchStatus(r *pb.WatchStatusRequest,
	stream grpc.ServerStreamingServer[pb.Status]) error {
	interval := time.Duration(r.GetIntervalMs()) * time.Millisecond
	if interval == 0 {
		interval = watchIntervalDefault
	}
	ctx, done := s.streamContext(stream.Context())
	defer done()
	ticker := time.NewTicker(max(interval, watchIntervalMin))
	defer ticker.Stop()
	for {
		if err := stream.Send(s.status()); err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return s.streamEnd(stream.Context())
		}
	}
}

// streamEnd tells whether a stream ended by its caller or by the daemon.
func (s *Service) streamEnd(ctx context.Context) error {
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	return status.Error(codes.Unavailable, "the daemon is stopping")
}

func (s *Service) status() *pb.Status {
	facts, stats, names := s.o.Facts(), s.o.Store.Stats(), s.o.Store.Catalogue()
	out := &pb.Status{
		Ready: facts.Ready, Generation: facts.Generation, ConfigVersion: facts.ConfigVersion,
		UptimeS: facts.Uptime.Seconds(), Problems: facts.Problems, Version: s.o.Version,
		Admission: &pb.AdmissionStatus{
			Limit: facts.Admission.Limit, Inflight: facts.Admission.Inflight,
			Held: facts.Admission.Held, Overloaded: facts.Admission.Overloaded,
			OverloadedClasses: facts.Admission.OverloadedClasses,
		},
		Journal: &pb.JournalStatus{
			Bytes: uint64(max(stats.JournalBytes, 0)), Events: stats.Events,
			OldestS: s.age(stats.Oldest), Writable: stats.Writable,
			Id: hex.EncodeToString(facts.JournalID[:]), Damage: facts.Damage,
			DurableGroup: stats.Durable, AppliedGroup: stats.Applied,
		},
		Dataplane: &pb.DataPlaneStatus{
			Pid: facts.DataPlane.Pid, Driver: facts.DataPlane.Driver,
			Restarts: facts.DataPlane.Restarts, DriverReason: facts.DataPlane.DriverReason,
			Sandbox: facts.DataPlane.Sandbox, SandboxReason: facts.DataPlane.SandboxReason,
			Retiring: facts.DataPlane.Retiring,
		},
	}
	for _, address := range facts.Listeners {
		out.Listeners = append(out.Listeners, &pb.ListenerStatus{Address: address})
	}
	out.Sources = sources(facts, stats, names)
	out.Destinations = s.destinations(facts, stats, names)
	return out
}

func sources(f Facts, stats store.Stats, names *event.Catalogue) []*pb.SourceStatus {
	var list []*pb.SourceStatus
	byName := map[string]*pb.SourceStatus{}
	for _, source := range f.Sources {
		line := &pb.SourceStatus{
			Name: source.Name, Duplicates: source.Duplicates,
			Unauthorized: source.Unauthorized, Refused: source.Refused,
			RefusedInRow: source.RefusedInRow, Guarded: source.Guarded,
			Provider: source.Provider, Enforce: source.Enforce, Unverified: source.Unverified,
			LastEventNs: unixNano(source.LastEvent), Silent: source.Silent,
			Secrets: secretStatuses(source.Secrets),
		}
		if source.Reconciled != nil {
			line.Reconciled = source.Reconciled.message()
		}
		list, byName[source.Name] = append(list, line), line
	}
	for _, n := range stats.Sources {
		line := byName[names.SourceName(n.Source)]
		if line == nil {
			line = &pb.SourceStatus{Name: names.SourceName(n.Source)}
			list = append(list, line)
		}
		line.Accepted += n.Accepted
		line.Duplicates += n.Duplicates
	}
	return list
}

// destinations gives the config's, and then those that were taken out of it while something still
// waits for them.
func (s *Service) destinations(f Facts, stats store.Stats,
	names *event.Catalogue) []*pb.DestinationStatus {
	var list []*pb.DestinationStatus
	byName := map[string]*pb.DestinationStatus{}
	for _, d := range f.Destinations {
		line := &pb.DestinationStatus{
			Name: d.Name, Breaker: d.Breaker, Inflight: d.Inflight, Limit: d.Limit,
		}
		list, byName[d.Name] = append(list, line), line
	}
	for _, n := range stats.Destinations {
		line := byName[names.DestinationName(n.Destination)]
		if line == nil {
			if n.Backlog == 0 && n.Dead == 0 {
				continue
			}
			line = &pb.DestinationStatus{
				Name: names.DestinationName(n.Destination), Breaker: "closed",
			}
			list = append(list, line)
		}
		line.Backlog, line.Dead, line.OldestS = n.Backlog, n.Dead, s.age(n.Oldest)
	}
	return list
}

// age is 0 for the zero time.
func (s *Service) age(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return max(s.o.Now().Sub(t).Seconds(), 0)
}

// GetLimits shows the limit.
func (s *Service) GetLimits(context.Context, *pb.GetLimitsRequest) (*pb.Limits, error) {
	return s.limits(), nil
}

// SetLimit pins the limit for a while.
func (s *Service) SetLimit(ctx context.Context, r *pb.SetLimitRequest) (*pb.Limits, error) {
	span := time.Duration(r.GetForNs())
	if span == 0 {
		span = pinDefault
	}
	if span < 0 || span > pinMax {
		return nil, invalid("a limit is pinned for up to %v, not for %v", pinMax, span)
	}
	if err := s.o.Limiter.Pin(r.GetLimit(), span); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	s.o.Log.Info("limit pinned", "limit", r.GetLimit(), "for", span, "by", caller(ctx, ""))
	return s.limits(), nil
}

// ResetLimit ends a pin.
func (s *Service) ResetLimit(ctx context.Context, _ *pb.ResetLimitRequest) (*pb.Limits, error) {
	s.o.Limiter.Release()
	s.o.Log.Info("limit let go", "by", caller(ctx, ""))
	return s.limits(), nil
}

func (s *Service) limits() *pb.Limits {
	l := s.o.Limiter.Limits()
	out := &pb.Limits{
		Algorithm: l.Algorithm, Limit: l.Limit, Min: l.Min, Max: l.Max, Base: l.Base,
		PinnedUntilNs: unixNano(l.PinnedUntil), MaxHeld: l.MaxHeld,
		HoldBudgetNs: l.HoldBudget.Nanoseconds(), Inflight: l.Inflight, Held: l.Held,
		ServiceTimeNs: l.ServiceTime.Nanoseconds(), Throughput: l.Throughput,
		HoldBoundNs: l.HoldBound.Nanoseconds(), ShareRate: l.ShareRate,
	}
	for _, c := range l.Changes {
		out.Changes = append(out.Changes,
			&pb.LimitChange{AtNs: unixNano(c.At), From: c.From, To: c.To, Reason: c.Reason})
	}
	return out
}

// Reload reads the config again.
func (s *Service) Reload(ctx context.Context, _ *pb.ReloadRequest) (*pb.ReloadReply, error) {
	version, err := s.o.Reload(ctx)
	var faults config.Faults
	switch {
	case errors.As(err, &faults), errors.Is(err, ErrRefused):
		return nil, status.Error(codes.InvalidArgument, err.Error())
	case err != nil:
		return nil, fault(err)
	}
	s.o.Log.Info("reload", "by", caller(ctx, ""))
	return &pb.ReloadReply{ConfigVersion: version}, nil
}

// Drain begins to stop the daemon.
func (s *Service) Drain(ctx context.Context, _ *pb.AdminDrainRequest) (*pb.AdminDrainReply, error) {
	if err := s.o.Drain(); err != nil {
		return nil, fault(err)
	}
	s.o.Log.Info("drain", "by", caller(ctx, ""))
	return &pb.AdminDrainReply{}, nil
}

func unixNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
