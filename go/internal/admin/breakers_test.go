package admin

import (
	"context"
	"errors"
	"iter"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "sluice/proto/sluice/v1"
)

// board holds breakers that do as they are told, and tells of each change.
type board struct {
	breakers []Breaker
	changes  chan BreakerChange
	by       string
	span     time.Duration
	reports  []string
}

func newBoard() *board {
	return &board{changes: make(chan BreakerChange, 8), breakers: []Breaker{
		{
			Name: "billing", State: "half_open", Members: []string{"orders"}, Reason: "5 in a row",
			Since: began, Phase: "ramp", Rate: 50, Opened: 3, Hosts: 2, Alone: true,
			Signals: []BreakerSignal{{
				Name: "pool", Value: 0.6, Trip: 0.85, Recover: 0.5, Verdict: "between", Stale: true,
				Error: "no answer", At: began,
			}},
		},
		{Name: "orders", State: "open", Group: true, Members: []string{"billing"},
			Probe: began.Add(time.Minute)},
	}}
}

func (b *board) List() []Breaker { return b.breakers }

func (b *board) Set(name, state string, span time.Duration, by string) error {
	if name == "orders" && state == "closed" {
		return errors.New("ours")
	}
	for i := range b.breakers {
		if b.breakers[i].Name != name {
			continue
		}
		before := b.breakers[i].State
		b.breakers[i].Held = state != "auto"
		if b.breakers[i].Held {
			b.breakers[i].State, b.breakers[i].HeldUntil = state, began.Add(span)
		}
		b.by, b.span = by, span
		b.changes <- BreakerChange{From: before, Breaker: b.breakers[i]}
	}
	return nil
}

func (b *board) Watch(ctx context.Context) iter.Seq[BreakerChange] {
	return func(yield func(BreakerChange) bool) {
		for {
			select {
			case change := <-b.changes:
				if !yield(change) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

func (b *board) Report(breaker, worker, state string, forTime, ttl time.Duration) error {
	if breaker == "billing" {
		return errors.New("billing has no signal of workers")
	}
	if breaker != "orders" {
		return errors.New("unknown")
	}
	b.reports = append(b.reports, strings.Join(
		[]string{breaker, worker, state, forTime.String(), ttl.String()}, " "))
	return nil
}

func withBoard(b *board) func(*Options) {
	return func(o *Options) { o.Breakers, o.Workers = b, b }
}

func TestABreakerIsShownWhole(t *testing.T) {
	b := newBench(t, withBoard(newBoard()))
	reply, err := b.ListBreakers(t.Context(), &pb.ListBreakersRequest{})
	b.must(err)
	billing, orders := reply.GetBreakers()[0], reply.GetBreakers()[1]
	if billing.GetName() != "billing" || billing.GetKind() != "destination" ||
		billing.GetState() != "half_open" || billing.GetReason() != "5 in a row" ||
		billing.GetPhase() != "ramp" || billing.GetRate() != 50 || billing.GetOpened() != 3 ||
		billing.GetHosts() != 2 || !billing.GetAlone() || billing.GetProbeNs() != 0 ||
		billing.GetSinceNs() != began.UnixNano() || billing.GetMembers()[0] != "orders" {
		t.Errorf("billing is %v", billing)
	}
	s := billing.GetSignals()[0]
	if s.GetName() != "pool" || s.GetValue() != 0.6 || s.GetTrip() != 0.85 ||
		s.GetRecover() != 0.5 || s.GetVerdict() != "between" || !s.GetStale() ||
		s.GetError() != "no answer" || s.GetAtNs() != began.UnixNano() {
		t.Errorf("its signal is %v", s)
	}
	if orders.GetKind() != "group" || orders.GetProbeNs() != began.Add(time.Minute).UnixNano() {
		t.Errorf("orders is %v", orders)
	}
}

func TestABreakerIsHeldAndLetGoInTheCallersName(t *testing.T) {
	held := newBoard()
	b := newBench(t, withBoard(held))
	now, err := b.SetBreaker(t.Context(), &pb.SetBreakerRequest{
		Name: "billing", State: "open", ForNs: time.Hour.Nanoseconds(), By: "alice",
	})
	b.must(err)
	if now.GetState() != "open" || !now.GetHeld() || held.by != "alice" || held.span != time.Hour ||
		now.GetHeldUntilNs() != began.Add(time.Hour).UnixNano() {
		t.Errorf("held as %v, by %q for %v", now, held.by, held.span)
	}
	now, err = b.SetBreaker(t.Context(), &pb.SetBreakerRequest{Name: "billing", State: "auto"})
	b.must(err)
	if now.GetHeld() {
		t.Errorf("let go as %v", now)
	}
}

func TestAWatchBeginsWithAllBreakersAndGoesOnWithChanges(t *testing.T) {
	b := newBench(t, withBoard(newBoard()))
	stream, err := b.WatchBreakers(t.Context(), &pb.WatchBreakersRequest{})
	b.must(err)
	next := func() *pb.BreakerChange {
		change, err := stream.Recv()
		b.must(err)
		return change
	}
	for _, name := range []string{"billing", "orders"} {
		if c := next(); c.GetFrom() != "" || c.GetBreaker().GetName() != name {
			t.Errorf("the watch begins with %v", c)
		}
	}
	_, err = b.SetBreaker(t.Context(), &pb.SetBreakerRequest{Name: "billing", State: "open"})
	b.must(err)
	c := next()
	if c.GetFrom() != "half_open" || c.GetBreaker().GetState() != "open" {
		t.Errorf("the change is %v", c)
	}
	b.service.Close()
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("a stopping daemon ends the watch with %v", err)
	}
}

func TestAWatchWithoutBreakersWaits(t *testing.T) {
	b := newBench(t, nil)
	stream, err := b.WatchBreakers(t.Context(), &pb.WatchBreakersRequest{})
	b.must(err)
	b.service.Close()
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("it ends with %v", err)
	}
}

func TestAWorkersSignOfLifeIsHandedOn(t *testing.T) {
	board := newBoard()
	b := newBench(t, withBoard(board))
	for _, r := range []*pb.ReportWorkerRequest{
		{Breaker: "orders", Worker: "a-1", State: "lock_wait", StateMs: 2500},
		{Breaker: "orders", Worker: "a-2", State: "idle", TtlMs: 1000},
	} {
		_, err := b.ReportWorker(t.Context(), r)
		b.must(err)
	}
	want := "orders a-1 lock_wait 2.5s 15s\norders a-2 idle 0s 1s"
	if got := strings.Join(board.reports, "\n"); got != want {
		t.Errorf("handed on\n%s\nwant\n%s", got, want)
	}
}

func TestAWrongCallAboutABreakerSaysWhatIsRight(t *testing.T) {
	b := newBench(t, withBoard(newBoard()))
	set := func(r *pb.SetBreakerRequest) error {
		_, err := b.SetBreaker(t.Context(), r)
		return err
	}
	report := func(r *pb.ReportWorkerRequest) error {
		_, err := b.ReportWorker(t.Context(), r)
		return err
	}
	const known = "there are billing, orders"
	for _, c := range []struct {
		err  error
		code codes.Code
		says string
	}{
		{set(&pb.SetBreakerRequest{Name: "bill", State: "open"}), codes.NotFound, known},
		{set(&pb.SetBreakerRequest{Name: "billing", State: "half_open"}), codes.InvalidArgument,
			"open, closed, auto"},
		{set(&pb.SetBreakerRequest{Name: "billing", State: "auto", ForNs: 1}), codes.InvalidArgument,
			"at once"},
		{set(&pb.SetBreakerRequest{Name: "billing", State: "open", ForNs: -1}), codes.InvalidArgument,
			"up to 720h"},
		{set(&pb.SetBreakerRequest{Name: "billing", State: "open", ForNs: math.MaxInt64}),
			codes.InvalidArgument, "up to 720h"},
		{set(&pb.SetBreakerRequest{Name: "orders", State: "closed"}), codes.Internal, "ours"},
		{report(&pb.ReportWorkerRequest{Breaker: "none", Worker: "a", State: "idle"}), codes.NotFound,
			known},
		{report(&pb.ReportWorkerRequest{Breaker: "billing", Worker: "a", State: "idle"}),
			codes.FailedPrecondition, "no signal of workers"},
		{report(&pb.ReportWorkerRequest{Breaker: "orders", State: "idle"}), codes.InvalidArgument,
			"not 0"},
		{report(&pb.ReportWorkerRequest{Breaker: "orders", Worker: strings.Repeat("a", 129),
			State: "idle"}), codes.InvalidArgument, "not 129"},
		{report(&pb.ReportWorkerRequest{Breaker: "orders", Worker: "a", State: "asleep"}),
			codes.InvalidArgument, "idle, busy, lock_wait"},
		{report(&pb.ReportWorkerRequest{Breaker: "orders", Worker: "a", State: "idle",
			TtlMs: math.MaxUint64}), codes.InvalidArgument, "up to 10m"},
		{report(&pb.ReportWorkerRequest{Breaker: "orders", Worker: "a", State: "idle",
			StateMs: math.MaxUint64}), codes.InvalidArgument, "up to 8760h"},
	} {
		if status.Code(c.err) != c.code || !strings.Contains(status.Convert(c.err).Message(), c.says) {
			t.Errorf("got %v, want %v with %q", c.err, c.code, c.says)
		}
	}
}

func TestWithoutBreakersNothingIsFound(t *testing.T) {
	b := newBench(t, nil)
	list, err := b.ListBreakers(t.Context(), &pb.ListBreakersRequest{})
	b.must(err)
	_, setErr := b.SetBreaker(t.Context(), &pb.SetBreakerRequest{Name: "a", State: "open"})
	_, reportErr := b.ReportWorker(t.Context(),
		&pb.ReportWorkerRequest{Breaker: "a", Worker: "b", State: "idle"})
	if len(list.GetBreakers()) != 0 || status.Code(setErr) != codes.NotFound ||
		status.Code(reportErr) != codes.NotFound {
		t.Errorf("got %v, %v, %v", list, setErr, reportErr)
	}
}
