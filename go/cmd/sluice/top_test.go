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
	crowded := look(5, 10)
	crowded.Admission.Overloaded = true
	for i, s := range []*pb.Status{look(100, 0), look(300, 10), crowded} {
		if err := v.show(s, noon.Add(time.Duration(i)*2*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	const rest = "  in flight 3/16  held 0  backlog 5  dead 2\n"
	want := "12:00:00  ready  accepted 100 (-/s)  refused 0 (-/s)" + rest +
		"12:00:02  ready  accepted 300 (100/s)  refused 10 (5/s)" + rest +
		// A daemon that began anew counts from 0: nothing is known of that interval.
		"12:00:04  ready OVERLOADED  accepted 5 (-/s)  refused 10 (0/s)" + rest
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

func TestWhatIsNotKnownOfTheLimitIsNotShownAsZero(t *testing.T) {
	var out bytes.Buffer
	if err := printLimits(&out, &pb.Limits{Limit: 16, Min: 2, Max: 64, Base: 16}); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"base          16\n", "service time  -\n", "share         none\n",
		"hold bound    -\n"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("no %q in\n%s", line, out.String())
		}
	}
}

func TestNumbersForPeopleHaveThreeDigits(t *testing.T) {
	for ns, want := range map[int64]string{
		0: "", 1: "1ns", 999: "999ns", 4_217_499: "4.22ms", 123_456_789: "123ms", 59_990_000_000: "1m0s",
	} {
		if got := shortTime(ns); got != want {
			t.Errorf("%d ns: %q, want %q", ns, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0", 2.125: "2.12", 15.96: "16", 12345.6: "12346"} {
		if got := short3(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}
