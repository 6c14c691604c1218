package dataplane

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/go/internal/dataplane/fakeplane"
)

// put puts a script in the place of a program, as a package manager would.
func put(t *testing.T, path, script string) {
	t.Helper()
	must(t, os.WriteFile(path+".next", []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	must(t, os.Rename(path+".next", path))
}

func TestAProgramSaysWhoItIs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dataplane")
	name, _ := fakeplane.Env()
	plane := func(faults string) string {
		return "export " + name + "='" + faults + "'; exec '" + os.Args[0] + "' \"$@\""
	}
	for what, test := range map[string]struct{ script, version, says string }{
		"a data plane":          {script: plane(""), version: "0.0.0-fake"},
		"one without a layout":  {script: "echo sluice-dataplane 1.2", version: "1.2"},
		"one of another layout": {script: plane(fakeplane.Foreign), says: "another"},
		"another program":       {script: "echo hello; exit 0", says: `"hello"`},
		"a failing one":         {script: "echo no such thing >&2; exit 4", says: "no such thing"},
		"one that hangs":        {script: "echo sluice-dataplane 1.2; sleep 60", says: "does not answer"},
	} {
		t.Run(what, func(t *testing.T) {
			put(t, path, test.script)
			p, err := OpenProgram(path)
			must(t, err)
			defer p.Close()
			ctx := t.Context()
			if strings.Contains(test.script, "sleep") {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, 100*time.Millisecond)
				defer cancel()
			}
			version, err := p.Check(ctx)
			switch {
			case test.version != "":
				if err != nil || version != test.version {
					t.Errorf("version %q: %v", version, err)
				}
			case !errors.Is(err, ErrForeignProgram):
				t.Errorf("taken as %q: %v", version, err)
			case test.says != "another" && !strings.Contains(err.Error(), test.says):
				t.Errorf("%v, want %q", err, test.says)
			}
		})
	}
	if _, err := OpenProgram(path + ".none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no program: %v", err)
	}
}

func TestAProgramStaysWhatItWasWhenItWasOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dataplane")
	put(t, path, "echo sluice-dataplane 1")
	first, err := OpenProgram(path)
	must(t, err)
	defer first.Close()
	put(t, path, "echo sluice-dataplane 2")
	second, err := OpenProgram(path)
	must(t, err)
	defer second.Close()
	must(t, os.Remove(path))
	for want, p := range map[string]*Program{"1": first, "2": second} {
		if version, err := p.Check(t.Context()); err != nil || version != want {
			t.Errorf("version %q, want %s: %v", version, want, err)
		}
	}
}

func TestAProcessRunsAsItWasStarted(t *testing.T) {
	dir, fds, p := start(t)
	greet(t, dir)
	spec := Spec{
		Dir: dir, JournalID: journalID, Generation: 7, Fds: fds,
		Settings: Settings{RingSize: 1 << 20, MaxConnections: 16, LockMemory: true},
	}
	if !RunsAs(p.Pid, spec) {
		t.Error("it runs otherwise")
	}
	for what, change := range map[string]func(*Spec){
		"generation": func(s *Spec) { s.Generation++ },
		"ring size":  func(s *Spec) { s.RingSize *= 2 },
		"memory":     func(s *Spec) { s.LockMemory = false },
		"driver":     func(s *Spec) { s.Driver = "epoll" },
		"sandbox":    func(s *Spec) { s.Sandbox = "off" },
		"user":       func(s *Spec) { s.User = "daemon" },
		"rows":       func(s *Spec) { s.Listeners = append(s.Listeners, s.Listeners[0]) },
		"workers":    func(s *Spec) { s.RequestBells = s.RequestBells[:1] },
	} {
		other := spec
		change(&other)
		if RunsAs(p.Pid, other) {
			t.Errorf("another %s is not seen", what)
		}
	}
	p.Kill()
	ended(t, p)
	if RunsAs(p.Pid, spec) {
		t.Error("a dead process runs")
	}
}

func TestTooManyDescriptorsAreAnErrorOfTheConfig(t *testing.T) {
	spec := Spec{Fds: Fds{
		Listeners:    [][]*os.File{make([]*os.File, 64), make([]*os.File, 64)},
		RequestBells: make([]*os.File, 64), ReplyBells: make([]*os.File, 64),
	}}
	if _, err := Start(spec); err == nil || !strings.Contains(err.Error(), "fewer addresses") {
		t.Errorf("start: %v", err)
	}
}

// A program that replaced another one under its pid is the parent of data planes that it never
// started.
func TestAChildOfTheProgramBeforeIsReaped(t *testing.T) {
	args := (&Spec{Dir: "/nowhere", JournalID: journalID, Generation: 9}).args()
	orphan := func() int {
		cmd := exec.Command("sh", append([]string{"-c", "sleep 60; :", "x"}, args...)...)
		cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
		must(t, cmd.Start())
		return cmd.Process.Pid // and nobody waits for it
	}
	pid := orphan()
	p, err := Watch(pid, journalID, 9)
	must(t, err)
	must(t, unix.Kill(-pid, unix.SIGKILL))
	ended(t, p)
	if p.Exit() != "signal: killed" || unix.Kill(pid, 0) == nil {
		t.Errorf("exit %q, there is still something: %v", p.Exit(), unix.Kill(pid, 0) == nil)
	}
	pid = orphan()
	Reap(pid) // it lives
	if unix.Kill(pid, 0) != nil {
		t.Error("a living child was taken away")
	}
	must(t, unix.Kill(-pid, unix.SIGKILL))
	for until := time.Now().Add(patience); unix.Kill(pid, 0) == nil; time.Sleep(time.Millisecond) {
		Reap(pid)
		if time.Now().After(until) {
			t.Fatal("a dead child is left")
		}
	}
	Reap(0)
	Reap(os.Getpid())
}
