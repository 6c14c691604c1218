package admin

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"sluice/go/internal/gaps"
	pb "sluice/proto/sluice/v1"
)

// told is a ledger that notes what it is asked.
type told struct {
	asked gaps.Filter
	gaps  []gaps.Gap
}

func (l *told) List(f gaps.Filter) []gaps.Gap {
	l.asked = f
	return l.gaps
}

func TestGapsAreListedAsTheLedgerGivesThem(t *testing.T) {
	ledger := &told{gaps: []gaps.Gap{
		{Source: "stripe", Reason: "hold", From: began, To: began.Add(time.Second), Count: 3,
			IDs: []string{"a", "b"}, Unnamed: 1},
		{Source: "github", Reason: "rate", From: began.Add(-1), To: began, Count: 1, Unnamed: 1,
			Closed: began},
	}}
	b := newBench(t, func(o *Options) { o.Gaps = ledger })
	stream, err := b.ListGaps(t.Context(), &pb.ListGapsRequest{})
	list := all(t, stream, err)
	if len(list) != 2 || ledger.asked != (gaps.Filter{}) {
		t.Fatalf("asked for %+v: %v", ledger.asked, list)
	}
	g := list[0]
	if g.GetSource() != "stripe" || g.GetReason() != "hold" || g.GetFromNs() != began.UnixNano() ||
		g.GetToNs() != began.Add(time.Second).UnixNano() || g.GetCount() != 3 ||
		g.GetUnnamed() != 1 || !slices.Equal(g.GetIds(), []string{"a", "b"}) {
		t.Errorf("the first is %v", g)
	}
	if g.GetClosedNs() != 0 || list[1].GetClosedNs() != began.UnixNano() {
		t.Errorf("closed at %d and %d", g.GetClosedNs(), list[1].GetClosedNs())
	}
	stream, err = b.ListGaps(t.Context(), &pb.ListGapsRequest{
		Source: "github", SinceNs: began.UnixNano(), UntilNs: began.UnixNano() + 1, Limit: 7,
		Closed: true,
	})
	all(t, stream, err)
	if f := ledger.asked; f.Source != "github" || !f.Since.Equal(began) ||
		!f.Until.Equal(began.Add(1)) || f.Limit != 7 || !f.Closed {
		t.Errorf("asked for %+v", f)
	}
	for text, r := range map[string]*pb.ListGapsRequest{
		"there are github, stripe": {Source: "gitlab"},
		"since is not before until": {
			SinceNs: began.UnixNano(), UntilNs: began.UnixNano(),
		},
	} {
		stream, err := b.ListGaps(t.Context(), r)
		b.must(err)
		_, err = stream.Recv()
		refused(t, err, codes.InvalidArgument, text)
	}
}
