package thread

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestAStageIsSeenByItsName(t *testing.T) {
	for name, want := range map[string]string{
		"committer": "committer", "a name that is too long": "a name that is ",
	} {
		got := make(chan string)
		go func() {
			Own(name)
			text, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/comm", unix.Gettid()))
			if err != nil {
				got <- err.Error()
			}
			got <- strings.TrimSuffix(string(text), "\n")
		}()
		if name := <-got; name != want {
			t.Errorf("the thread is named %q, want %q", name, want)
		}
	}
}

func TestWorkTakesTime(t *testing.T) {
	done := make(chan bool)
	go func() {
		Own("worker")
		before := Used()
		for Used() == before { // ends, because the loop itself takes time
		}
		done <- Used() > before
	}()
	if !<-done {
		t.Error("a busy loop took no time")
	}
}

func TestAMeterScalesWhatItSees(t *testing.T) {
	var m Meter
	spent := time.Duration(0)
	for n := range 10 * meterEvery {
		began := m.Begin()
		if measured := began >= 0; measured != (n%meterEvery == 0) {
			t.Fatalf("stretch %d is measured: %v", n, measured)
		} else if measured {
			for Used() == began {
			}
			spent += Used() - began
		}
		m.End(began)
	}
	// What End sees is a little more than what was seen before it.
	if got := m.Total(); got < meterEvery*spent || spent == 0 {
		t.Errorf("%v is the estimate for %v in one of %d", got, spent, meterEvery)
	}
}
