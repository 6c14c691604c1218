package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	pb "sluice/proto/sluice/v1"
)

func look(accepted, refused uint64) *pb.Status {
	return &pb.Status{
		Ready: true, Version: "1.0",
		Admission:    &pb.AdmissionStatus{Limit: 16, Inflight: 3},
		Sources:      []*pb.SourceStatus{{Name: "github", Accepted: accepted, Refused: refused}},
		Destinations: []*pb.DestinationStatus{{Name: "billing", Breaker: "closed", Backlog: 5, Dead: 2}},
	}
}

func TestAViewThatIsNoTerminalWritesALineALook(t *testing.T) {
	var out bytes.Buffer
	v := view{w: &out}
	for i, s := range []*pb.Status{look(100, 0), look(300, 10), look(5, 10)} {
		if err := v.show(s, noon.Add(time.Duration(i)*2*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	const rest = "  in flight 3/16  held 0  backlog 5  dead 2\n"
	want := "12:00:00  ready  accepted 100 (-/s)  refused 0 (-/s)" + rest +
		"12:00:02  ready  accepted 300 (100/s)  refused 10 (5/s)" + rest +
		// A daemon that began anew counts from 0: nothing is known of that interval.
		"12:00:04  ready  accepted 5 (-/s)  refused 10 (0/s)" + rest
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestAViewOnATerminalIsRedrawnInPlace(t *testing.T) {
	var out bytes.Buffer
	v := view{w: &out, screen: true}
	if err := v.show(look(1, 0), noon); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), ansiClear+ansiHome) {
		t.Errorf("the first look begins with %q", out.String()[:10])
	}
	out.Reset()
	if err := v.show(look(11, 0), noon.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if !strings.HasPrefix(text, ansiHome) || strings.Contains(text, ansiClear) ||
		!strings.HasSuffix(text, ansiLineClear+"\n"+ansiRestClear) {
		t.Errorf("the second look is %q", text)
	}
	if strings.Count(text, "\n") != strings.Count(text, ansiLineClear+"\n") {
		t.Error("a line is not cleared behind its text")
	}
	if !strings.Contains(text, "ACCEPTED/S") || !strings.Contains(text, "10 ") {
		t.Errorf("no rates in %q", text)
	}
}
