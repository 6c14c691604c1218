package admin

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"sluice/go/internal/gameday"
	pb "sluice/proto/sluice/v1"
)

func TestFaultsAreForDevelopmentOnly(t *testing.T) {
	b := newBench(t, nil)
	_, err := b.ListFaults(t.Context(), &pb.ListFaultsRequest{})
	refused(t, err, codes.FailedPrecondition, "sluice run --dev")
	_, err = b.SetFault(t.Context(), &pb.SetFaultRequest{Point: "disk", Kind: "error"})
	refused(t, err, codes.FailedPrecondition, "sluice run --dev")
	_, err = b.ClearFault(t.Context(), &pb.ClearFaultRequest{})
	refused(t, err, codes.FailedPrecondition, "sluice run --dev")
}

func TestFaultsAreSetListedAndCleared(t *testing.T) {
	var fails error
	b := newBench(t, func(o *Options) {
		o.Faults = gameday.NewBoard([]gameday.Point{{Name: "disk", Kinds: []gameday.Kind{{
			Name: "error", Argument: "ERRNO",
			Set:   func(text string) (string, error) { return text, fails },
			Clear: func() {},
			Met:   func() uint64 { return 7 },
		}}}})
	})
	want := func(list *pb.FaultList, err error, n int) *pb.FaultList {
		t.Helper()
		b.must(err)
		if len(list.GetFaults()) != n {
			t.Fatalf("in force: %v, want %d", list, n)
		}
		return list
	}
	list, err := b.ListFaults(t.Context(), &pb.ListFaultsRequest{})
	want(list, err, 0)
	before := time.Now()
	list, err = b.SetFault(t.Context(), &pb.SetFaultRequest{
		Point: "disk", Kind: "error", Argument: "EIO", ForNs: time.Hour.Nanoseconds(),
	})
	f := want(list, err, 1).GetFaults()[0]
	if until := time.Unix(0, f.GetUntilNs()); f.GetPoint() != "disk" || f.GetKind() != "error" ||
		f.GetArgument() != "EIO" || f.GetMet() != 7 || until.Before(before.Add(time.Hour)) {
		t.Errorf("the fault is %v", f)
	}
	list, err = b.SetFault(t.Context(),
		&pb.SetFaultRequest{Point: "disk", Kind: "error", Argument: "EIO"})
	if f := want(list, err, 1).GetFaults()[0]; f.GetUntilNs() != 0 {
		t.Errorf("without an end it is %v", f)
	}
	_, err = b.SetFault(t.Context(), &pb.SetFaultRequest{Point: "disc", Kind: "error"})
	refused(t, err, codes.InvalidArgument, "there are disk")
	_, err = b.ClearFault(t.Context(), &pb.ClearFaultRequest{Point: "disc"})
	refused(t, err, codes.InvalidArgument, "there are disk")
	fails = fmt.Errorf("%w: the daemon is starting", gameday.ErrNotNow)
	_, err = b.SetFault(t.Context(),
		&pb.SetFaultRequest{Point: "disk", Kind: "error", Argument: "EIO"})
	refused(t, err, codes.FailedPrecondition, "starting")
	list, err = b.ListFaults(t.Context(), &pb.ListFaultsRequest{})
	want(list, err, 1)
	list, err = b.ClearFault(t.Context(), &pb.ClearFaultRequest{Point: "disk"})
	want(list, err, 0)
}
