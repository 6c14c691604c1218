package thread

import (
	"fmt"
	"os"
	"strings"
	"testing"

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
