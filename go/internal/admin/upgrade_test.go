package admin

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "sluice/proto/sluice/v1"
)

// upgrade calls and gives the steps, the generation of the last message, and the error.
func (b *bench) upgrade(ctx context.Context, control bool) (
	steps []string, last uint32, err error,
) {
	b.t.Helper()
	stream, err := b.Upgrade(ctx, &pb.UpgradeRequest{Control: control})
	for err == nil {
		var p *pb.UpgradeProgress
		if p, err = stream.Recv(); err == nil && p.GetDone() {
			last = p.GetGeneration()
		} else if err == nil {
			steps = append(steps, p.GetStep())
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return steps, last, err
}

func TestAnUpgradeTellsItsSteps(t *testing.T) {
	var asked []bool
	b := newBench(t, func(o *Options) {
		o.Upgrade = func(_ context.Context, control bool, say func(string)) (uint32, error) {
			asked = append(asked, control)
			say("one")
			say("two")
			return 7, nil
		}
	})
	for _, control := range []bool{false, true} {
		steps, last, err := b.upgrade(t.Context(), control)
		if err != nil || last != 7 || !slices.Equal(steps, []string{"one", "two"}) {
			t.Errorf("control %v: steps %q, generation %d, %v", control, steps, last, err)
		}
	}
	if !slices.Equal(asked, []bool{false, true}) {
		t.Errorf("asked for control: %v", asked)
	}
}

func TestAnUpgradeThatFailsSaysWhy(t *testing.T) {
	b := newBench(t, func(o *Options) {
		o.Upgrade = func(_ context.Context, _ bool, say func(string)) (uint32, error) {
			say("one")
			return 0, errors.New("data plane 2: it ended before it was ready")
		}
	})
	steps, last, err := b.upgrade(t.Context(), false)
	if status.Code(err) != codes.FailedPrecondition || last != 0 || len(steps) != 1 ||
		status.Convert(err).Message() != "data plane 2: it ended before it was ready" {
		t.Errorf("steps %q, generation %d, %v", steps, last, err)
	}
}

func TestAnUpgradeIsGivenUpWithItsCaller(t *testing.T) {
	ended := make(chan error, 1)
	b := newBench(t, func(o *Options) {
		o.Upgrade = func(ctx context.Context, _ bool, say func(string)) (uint32, error) {
			say("one")
			<-ctx.Done()
			ended <- ctx.Err()
			return 0, ctx.Err()
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := b.Upgrade(ctx, &pb.UpgradeRequest{})
	b.must(err)
	_, err = stream.Recv()
	b.must(err)
	cancel()
	<-ended
	// So does the end of the daemon.
	done := make(chan error, 1)
	go func() {
		_, _, err := b.upgrade(context.Background(), false)
		done <- err
	}()
	b.service.Close()
	if err := <-done; status.Code(err) != codes.Unavailable {
		t.Errorf("the end of the daemon: %v", err)
	}
}
