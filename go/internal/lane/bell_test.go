package lane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// polled counts which of the descriptors of this process an epoll instance of it watches: each of
// them has its number in the line "tfd:" (proc_pid_fdinfo(5)).
func polled(t *testing.T) map[string]int {
	t.Helper()
	all := map[string]int{}
	paths, err := filepath.Glob("/proc/self/fdinfo/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, _ := os.ReadFile(path) // the descriptor of the Glob is gone
		for line := range strings.Lines(string(text)) {
			if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "tfd:" {
				all[fields[1]]++
			}
		}
	}
	return all
}

func TestOnlyABellThatIsWaitedOnIsInThePoller(t *testing.T) {
	original, err := NewBell()
	if err != nil {
		t.Fatal(err)
	}
	defer original.Close()
	other, err := DuplicateBell(original.File())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for range 3 {
		if rung, err := other.Wait(time.Millisecond); rung || err != nil {
			t.Fatal(rung, err)
		}
	}
	seen := polled(t)
	for name, b := range map[string]*Bell{"original": original, "duplicate": other} {
		if fd := fmt.Sprint(b.file.Fd()); seen[fd] != 0 {
			t.Errorf("the %s's descriptor %s is in the poller", name, fd)
		}
	}
	if fd := fmt.Sprint(other.waiter.file.Fd()); seen[fd] != 1 {
		t.Errorf("the poller has the descriptor %s %d times", fd, seen[fd])
	}
	if err := original.Ring(); err != nil {
		t.Fatal(err)
	}
	if rung, err := other.Wait(time.Minute); !rung || err != nil {
		t.Fatal(rung, err)
	}
}

func TestARingEndsAWaitUnderWayAndSoDoesTheEnd(t *testing.T) {
	b, err := NewBell()
	if err != nil {
		t.Fatal(err)
	}
	type answer struct {
		rung bool
		err  error
	}
	answers := make(chan answer)
	go func() {
		for range 1001 {
			rung, err := b.Wait(time.Hour)
			answers <- answer{rung, err}
		}
	}()
	for n := range 1000 {
		if err := b.Ring(); err != nil {
			t.Fatal(err)
		}
		if a := <-answers; !a.rung || a.err != nil {
			t.Fatal(n, a)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if a := <-answers; a.rung || !errors.Is(a.err, os.ErrClosed) {
		t.Fatal(a)
	}
	if _, err := b.Wait(time.Minute); !errors.Is(err, os.ErrClosed) {
		t.Fatal(err)
	}
	if err := b.Ring(); !errors.Is(err, os.ErrClosed) {
		t.Fatal(err)
	}
}

func TestAWaitTakesAtMostItsTimeHoweverLongTheLastOneMightTake(t *testing.T) {
	b, err := NewBell()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Ring(); err != nil {
		t.Fatal(err)
	}
	for _, d := range []time.Duration{time.Hour, time.Millisecond, time.Hour} {
		rung, err := b.Wait(d)
		if err != nil || rung != (d == time.Hour) {
			t.Fatal(d, rung, err)
		}
		if err := b.Ring(); err != nil {
			t.Fatal(err)
		}
		if d == time.Millisecond {
			continue
		}
		if rung, err := b.Wait(d); !rung || err != nil {
			t.Fatal(d, rung, err)
		}
	}
}
