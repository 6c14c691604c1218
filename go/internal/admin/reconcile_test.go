package admin

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	pb "sluice/proto/sluice/v1"
)

// asked is a reconciler that notes what it is asked and says what it was told to.
type asked struct {
	ask  ReconcileAsk
	say  []Reconciled
	last Reconciled
	err  error
}

func (a *asked) Reconcile(_ context.Context, ask ReconcileAsk, say func(Reconciled)) (Reconciled,
	error) {
	a.ask = ask
	for _, p := range a.say {
		say(p)
	}
	return a.last, a.err
}

func TestAReconciliationTellsHowFarItIs(t *testing.T) {
	r := &asked{
		say: []Reconciled{{Source: "stripe", Pages: 1, Seen: 2, Waiting: "the provider's rate"}},
		last: Reconciled{
			Source: "stripe", Since: began, Until: began.Add(time.Hour), Pages: 3, Seen: 4, Known: 5,
			Taken: 6, Requested: 7, Lost: 8, GapsClosed: 9, Done: true, Error: "why", Ended: began,
		},
	}
	b := newBench(t, func(o *Options) { o.Reconciler = r })
	stream, err := b.Reconcile(t.Context(), &pb.ReconcileRequest{
		Source: "stripe", SinceNs: began.UnixNano(), UntilNs: began.UnixNano() + 1, DryRun: true,
	})
	list := all(t, stream, err)
	if want := (ReconcileAsk{"stripe", began, began.Add(1), true}); !r.ask.Since.Equal(want.Since) ||
		!r.ask.Until.Equal(want.Until) || r.ask.Source != want.Source || !r.ask.Dry {
		t.Errorf("asked %+v, want %+v", r.ask, want)
	}
	if len(list) != 2 || list[0].GetWaiting() != "the provider's rate" || list[0].GetDone() {
		t.Fatalf("told %v", list)
	}
	p := list[1]
	if p.GetSource() != "stripe" || p.GetSinceNs() != began.UnixNano() ||
		p.GetUntilNs() != began.Add(time.Hour).UnixNano() || p.GetPages() != 3 || p.GetSeen() != 4 ||
		p.GetKnown() != 5 || p.GetTaken() != 6 || p.GetRequested() != 7 || p.GetLost() != 8 ||
		p.GetGapsClosed() != 9 || !p.GetDone() || p.GetError() != "why" ||
		p.GetEndedNs() != began.UnixNano() {
		t.Errorf("the last one is %v", p)
	}
}

func TestAReconciliationThatCannotBeginSaysWhoseFaultItIs(t *testing.T) {
	r := &asked{}
	for _, c := range []struct {
		source string
		err    error
		code   codes.Code
		text   string
	}{
		{"", nil, codes.InvalidArgument, "no source is named"},
		{"gitlab", nil, codes.InvalidArgument, "there are github, stripe"},
		{"stripe", errors.Join(ErrAsked, errors.New("no block")), codes.InvalidArgument, "no block"},
		{"stripe", errors.Join(ErrNotNow, errors.New("one runs")), codes.FailedPrecondition, "one runs"},
		{"stripe", errors.New("ours"), codes.Internal, "ours"},
	} {
		r.err = c.err
		b := newBench(t, func(o *Options) { o.Reconciler = r })
		stream, err := b.Reconcile(t.Context(), &pb.ReconcileRequest{Source: c.source})
		b.must(err)
		_, err = stream.Recv()
		refused(t, err, c.code, c.text)
	}
	b := newBench(t, nil)
	stream, err := b.Reconcile(t.Context(), &pb.ReconcileRequest{Source: "stripe"})
	b.must(err)
	if _, err = stream.Recv(); errors.Is(err, io.EOF) {
		t.Error("a daemon that asks no provider says nothing")
	}
	refused(t, err, codes.FailedPrecondition, "asks no provider")
}
