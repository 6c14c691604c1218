package gameday

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// stage records what is done to the kinds of its board.
type stage struct {
	t     *testing.T
	board *Board
	log   []string
	err   error
}

func newStage(t *testing.T) *stage {
	s := &stage{t: t}
	kind := func(point, name, argument string) Kind {
		return Kind{
			Name: name, Argument: argument,
			Set: func(text string) (string, error) {
				s.log = append(s.log, fmt.Sprint("set ", point, " ", name, " ", text))
				return strings.ToUpper(text), s.err
			},
			Clear: func() { s.log = append(s.log, fmt.Sprint("clear ", point, " ", name)) },
			Met:   func() uint64 { return uint64(len(s.log)) },
		}
	}
	once, short := kind("plane", "kill", ""), kind("plane", "stop", "")
	once.Once, once.Met = true, nil
	short.Span = 5 * time.Second
	s.board = NewBoard([]Point{
		{Name: "disk", Kinds: []Kind{kind("disk", "delay", "DURATION"), kind("disk", "error", "ERRNO")}},
		{Name: "plane", Kinds: []Kind{once, short}},
	})
	return s
}

func (s *stage) set(point, kind, argument string, span time.Duration) {
	s.t.Helper()
	if err := s.board.Set(point, kind, argument, span); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) want(log, list string) {
	s.t.Helper()
	if got := strings.Join(s.log, "; "); got != log {
		s.t.Errorf("done: %s\nwant: %s", got, log)
	}
	s.log = nil
	var faults []string
	for _, f := range s.board.Faults() {
		faults = append(faults, strings.TrimSpace(f.Point+" "+f.Kind+" "+f.Argument))
	}
	if got := strings.Join(faults, "; "); got != list {
		s.t.Errorf("in force: %s\nwant: %s", got, list)
	}
}

func TestFaultsHoldUntilTheyAreReplacedOrCleared(t *testing.T) {
	s := newStage(t)
	s.set("disk", "error", "eio", 0)
	s.set("disk", "delay", "5ms", 0)
	s.want("set disk error eio; set disk delay 5ms", "disk delay 5MS; disk error EIO")
	s.set("disk", "error", "enospc", 0)
	s.want("set disk error enospc", "disk delay 5MS; disk error ENOSPC")
	s.set("plane", "kill", "", 0)
	s.set("plane", "stop", "", 0)
	s.want("set plane kill ; set plane stop ", "disk delay 5MS; disk error ENOSPC; plane stop")
	if err := s.board.Clear("plane"); err != nil {
		t.Error(err)
	}
	s.want("clear plane stop", "disk delay 5MS; disk error ENOSPC")
	if err := s.board.Clear(""); err != nil {
		t.Error(err)
	}
	s.want("clear disk delay; clear disk error", "")
	if err := s.board.Clear("disk"); err != nil {
		t.Error(err)
	}
	s.want("", "")
	s.set("disk", "delay", "5ms", 0)
	s.board.Close()
	s.want("set disk delay 5ms; clear disk delay", "")
	if err := s.board.Set("disk", "delay", "5ms", 0); !errors.Is(err, ErrNotNow) {
		t.Errorf("a closed board: %v", err)
	}
}

func TestAFaultEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		end := time.Now().Add(20 * time.Second)
		s.set("disk", "error", "eio", 20*time.Second)
		s.set("plane", "stop", "", 0)
		faults := s.board.Faults()
		if len(faults) != 2 || !faults[0].Until.Equal(end) ||
			!faults[1].Until.Equal(end.Add(-15*time.Second)) || faults[0].Met != 2 ||
			faults[0].String() != "fault disk error EIO is set until "+end.UTC().Format(time.RFC3339) {
			t.Errorf("in force: %v", faults)
		}
		wait := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		s.log = nil
		wait(5*time.Second - 1)
		s.want("", "disk error EIO; plane stop")
		wait(1)
		s.want("clear plane stop", "disk error EIO")
		// What takes its place has its own end, and the end of the one before is none for it.
		wait(10 * time.Second)
		s.set("disk", "error", "eio", 0)
		s.log = nil
		wait(time.Hour)
		s.want("", "disk error EIO")
		s.set("disk", "error", "eio", time.Second)
		_ = s.board.Clear("")
		s.set("disk", "error", "erofs", 2*time.Second)
		s.log = nil
		wait(time.Second)
		s.want("", "disk error EROFS")
		wait(time.Second)
		s.want("clear disk error", "")
	})
}

func TestWhatIsNoFaultIsRefusedWithWhatThereIs(t *testing.T) {
	s := newStage(t)
	for _, c := range []struct {
		point, kind, argument string
		span                  time.Duration
		want                  string
	}{
		{"disc", "error", "EIO", 0, `no fault point "disc"; there are disk, plane`},
		{"disk", "kill", "", 0, `disk has no kind of fault "kill"; it has delay DURATION, error ERRNO`},
		{"disk", "delay", "", 0, "disk delay takes an argument: disk delay DURATION"},
		{"plane", "kill", "9", 0, `plane kill takes no argument, not "9"`},
		{"plane", "kill", "", time.Second, "over at once"},
		{"disk", "delay", "1s", -1, "up to 24h"},
		{"disk", "delay", "1s", SpanMax + 1, "up to 24h"},
	} {
		err := s.board.Set(c.point, c.kind, c.argument, c.span)
		if err == nil || errors.Is(err, ErrNotNow) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s %s: %v, want %s", c.point, c.kind, c.argument, err, c.want)
		}
	}
	if err := s.board.Clear("disc"); err == nil || !strings.Contains(err.Error(), "disk, plane") {
		t.Errorf("clear: %v", err)
	}
	s.want("", "")
	// A kind that fails to be set leaves the one before in force.
	s.set("disk", "error", "eio", 0)
	s.err = fmt.Errorf("%w: asleep", ErrNotNow)
	if err := s.board.Set("disk", "error", "x", 0); !errors.Is(err, ErrNotNow) ||
		!strings.Contains(err.Error(), "disk error: not now: asleep") {
		t.Error(err)
	}
	s.want("set disk error eio; set disk error x", "disk error EIO")
}

func TestArguments(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"50ms": 50 * time.Millisecond, "1m": time.Minute, "1ns": 1,
		"61s": 0, "0s": 0, "-1s": 0, "50": 0, "": 0, "ms": 0,
	} {
		got, err := Delay(text)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("delay %q: %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]syscall.Errno{
		"ENOSPC": syscall.ENOSPC, "eio": syscall.EIO, "EBADF": 0, "": 0, "5": 0,
	} {
		got, err := Errno(text)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("errno %q: %v, %v", text, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), "EDQUOT, EIO, ENODEV, ENOSPC, EROFS") {
			t.Error(err)
		}
	}
	for text, want := range map[string]string{
		"8x4ms": "8 4ms", "1x1m": "1 1m0s", "4096x1ns": "4096 1ns",
		"0x4ms": "", "-1x4ms": "", "4097x4ms": "", "8x0s": "", "8x61s": "", "8x-4ms": "",
		"8": "", "x": "", "8x4": "", "8x4msx": "", "": "", "8 x 4ms": "",
	} {
		servers, each, err := Slots(text)
		got := fmt.Sprint(servers, " ", each)
		if err != nil {
			got = ""
		}
		if got != want || err != nil && !strings.Contains(err.Error(), "8x4ms") {
			t.Errorf("slots %q: %s, %v", text, got, err)
		}
	}
}
