package admin

import (
	"slices"
	"testing"

	pb "sluice/proto/sluice/v1"
)

func TestBytesThatAreNoTextAreShown(t *testing.T) {
	b := newBench(t, nil)
	b.facts.DataPlane.Driver = "caf\xe9" // in a message of the message
	b.facts.Problems = []string{"fine", "\xffbroken", "café"}
	s, err := b.GetStatus(t.Context(), &pb.GetStatusRequest{})
	b.must(err)
	if got := s.GetDataplane().GetDriver(); got != "caf\uFFFD" {
		t.Errorf("driver %q", got)
	}
	if got := s.GetProblems(); !slices.Equal(got, []string{"fine", "\uFFFDbroken", "café"}) {
		t.Errorf("problems %q", got)
	}
}
