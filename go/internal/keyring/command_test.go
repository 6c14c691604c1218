package keyring

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// command is a secret that a script prints.
func (r *rig) command(script string) Secret {
	return Secret{
		Origin: "command:sh",
		Command: &Command{Args: []string{"/bin/sh", "-c", script, "sh", r.folder},
			Every: time.Minute, Timeout: 30 * time.Second},
		Read: func(output []byte) ([]byte, error) { return append([]byte(nil), output...), nil },
	}
}

// runs takes part in Run until the commands that are due have ended.
func (r *rig) runs(n int) {
	r.t.Helper()
	r.ring.look(context.Background())
	for range n {
		select {
		case e := <-r.ring.ended:
			r.ring.take(e)
		case <-time.After(time.Minute):
			r.t.Fatal("no command has ended")
		}
	}
}

func TestACommandIsRunAgainWhenItIsDue(t *testing.T) {
	r := newRig(t)
	r.write(filepath.Join(r.folder, "now"), "first\n")
	r.use(r.wanted(r.command(`cat "$1/now"`)))
	r.holds("first", "second")
	r.write(filepath.Join(r.folder, "now"), "second\r\n")
	r.pass(59 * time.Second)
	r.runs(0)
	r.holds("first", "second")
	r.pass(time.Second)
	r.runs(1)
	r.holds("second", "first")
}

func TestACommandThatFailsLeavesTheSecretAndIsRunAgainSoon(t *testing.T) {
	r := newRig(t)
	now := filepath.Join(r.folder, "now")
	r.write(now, "first")
	r.use(r.wanted(r.command(`cat "$1/now"`)))
	_ = os.Remove(now)
	r.pass(time.Minute)
	r.runs(1)
	r.holds("first", "")
	r.problem("ended with exit status 1")
	r.write(now, "second")
	r.pass(commandAgain)
	r.runs(1)
	r.holds("second", "first")
	r.problem("")
}

func TestAReloadRunsACommandAndARenewalDoesNot(t *testing.T) {
	r := newRig(t)
	w := r.wanted(r.command(`echo run >> "$1/runs"; echo first`))
	for _, fresh := range []bool{true, true, false} {
		set, err := r.ring.Prepare(context.Background(), []Wanted{w}, fresh)
		if err != nil {
			t.Fatal(err)
		}
		r.ring.Use(set)
		r.holds("first", "")
	}
	text, err := os.ReadFile(filepath.Join(r.folder, "runs"))
	if err != nil || strings.Count(string(text), "run") != 2 {
		t.Errorf("it has run %q, %v", text, err)
	}
}

func TestWhatACommandComplainsOfIsToldWithoutTheSecret(t *testing.T) {
	r := newRig(t)
	r.use(r.wanted(r.command(`echo "got hunter2-value from the vault" >&2
		echo '{"value": "hunter2-value", "key_id": "k1"}'`)))
	r.holds("hunter2-value", "")
	if !strings.Contains(r.log.String(), "got [secret] from the vault") {
		t.Errorf("the log is %s", r.log)
	}
	r.silent("hunter2")
	if s := r.ring.Statuses()["hooks"][0]; s.KeyID != "k1" || s.Origin != "command:sh" {
		t.Errorf("the status is %+v", s)
	}
}

func TestACommandThatCannotGiveASecretIsAFault(t *testing.T) {
	r := newRig(t)
	for script, why := range map[string]string{
		"echo hunter2; exit 3": "exit status 3", "echo": "printed nothing", "kill -9 $$": "killed",
		"head -c 70000 /dev/zero": "printed more than", "sleep 1000": "did not end within",
		"sleep 1000 & echo hunter2": "kept its output open",
	} {
		s := r.command(script)
		if strings.HasPrefix(why, "did not") {
			s.Command.Timeout = 50 * time.Millisecond
		}
		_, err := r.ring.Prepare(context.Background(), []Wanted{r.wanted(s)}, true)
		fault := (*Fault)(nil)
		if !errors.As(err, &fault) || fault.Index != 0 || !strings.Contains(fault.Problem, why) {
			t.Errorf("%s: the error is %v", script, err)
		} else if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), r.folder) {
			t.Errorf("%s: the error shows output or arguments: %v", script, err)
		}
	}
	s := r.command("")
	s.Command.Args = []string{"/nowhere/vault", "hunter2"}
	_, err := r.ring.Prepare(context.Background(), []Wanted{r.wanted(s)}, true)
	if err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("the error is %v", err)
	}
	r.silent("hunter2")
}

func TestNoProcessOfACommandOutlivesIt(t *testing.T) {
	for how, script := range map[string]string{
		"it ran out of its time": "wait", "it has ended": "echo secret",
		"it has ended and let its output go": "exec >&- 2>&-",
	} {
		r := newRig(t)
		s := r.command(`sleep 1000 & echo $! > "$1/pid.new"; mv "$1/pid.new" "$1/pid"; ` + script)
		if script == "wait" {
			s.Command.Timeout = time.Second
		}
		if _, err := s.Command.Run(context.Background(), r.ring.o.Log); err == nil {
			t.Fatalf("%s: it has given a secret", how)
		}
		text, err := os.ReadFile(filepath.Join(r.folder, "pid"))
		if err != nil {
			t.Skipf("the machine was too slow to begin it: %v", err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		until := time.Now().Add(30 * time.Second)
		for syscall.Kill(pid, 0) == nil && !zombie(pid) {
			if time.Now().After(until) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				t.Fatalf("%s: its child lives", how)
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// zombie tells that a process waits for whoever took it over to look at it.
func zombie(pid int) bool {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	_, after, _ := strings.Cut(string(text), ") ")
	return err != nil || strings.HasPrefix(after, "Z")
}
