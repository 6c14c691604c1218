package supervise

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/go/internal/dataplane"
	"sluice/go/internal/dataplane/fakeplane"
	"sluice/go/internal/listen"
)

// install puts a program at the path from which data planes are started: a script.
func (b *bed) install(script string) {
	b.t.Helper()
	next := filepath.Join(b.dir, "next")
	must(b.t, os.WriteFile(next, []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	b.binary = filepath.Join(b.dir, "dataplane")
	must(b.t, os.Rename(next, b.binary))
}

// installPlane puts the fake data plane there, with faults of its own.
func (b *bed) installPlane(faults ...string) {
	b.t.Helper()
	name, value := fakeplane.Env(faults...)
	b.install(fmt.Sprintf("export %s='%s'; exec '%s' \"$@\"", name, value, os.Args[0]))
}

func silent(string) {}

// upgraded is the outcome of an upgrade that runs.
type upgraded struct {
	generation uint32
	err        error
}

func begin(ctx context.Context, s *Supervisor) <-chan upgraded {
	done := make(chan upgraded, 1)
	go func() {
		generation, err := s.Upgrade(ctx, silent)
		done <- upgraded{generation, err}
	}()
	return done
}

// pid waits for the process of a generation.
func (b *bed) pid(number uint32) (pid int) {
	b.t.Helper()
	eventually(b.t, fmt.Sprintf("generation %d runs", number), func() bool {
		pid = pidOf(filepath.Join(b.dir, "dp", fmt.Sprintf("%d.counters", number)))
		return pid > 0
	})
	return pid
}

func (b *bed) gone(s *Supervisor, number uint32) {
	b.t.Helper()
	eventually(b.t, fmt.Sprintf("generation %d is gone", number), func() bool {
		return b.port.isOrphaned(number) && s.Status().Retiring == 0 &&
			!slices.ContainsFunc(b.left(), func(name string) bool {
				return strings.HasPrefix(name, fmt.Sprintf("%d.", number))
			})
	})
}

func TestAnUpgradeReplacesTheDataPlaneOnTheSameSockets(t *testing.T) {
	b := newBed(t)
	s := b.start()
	first, socket := s.Status(), inode(t, s.Listeners()[0][0])
	var steps []string
	number, err := s.Upgrade(context.Background(), func(step string) {
		steps = append(steps, step)
		if st := s.Status(); strings.HasPrefix(step, "start") && st.Pid != first.Pid {
			t.Errorf("status %+v while the next one starts", st)
		}
	})
	must(t, err)
	must(t, s.AwaitElders(context.Background()))
	st := s.Status()
	if number != 2 || st.Generation != 2 || st.Pid == first.Pid || !st.Accepting || st.Restarts != 0 ||
		st.Retiring != 0 || b.newest.Load() != 2 {
		t.Errorf("number %d, newest %d, status %+v", number, b.newest.Load(), st)
	}
	if got := inode(t, s.Listeners()[0][0]); got != socket || b.opened != 1 {
		t.Errorf("socket %d became %d, %d were opened", socket, got, b.opened)
	}
	want := []string{"look at ", "start data plane 2, version 0.0.0-fake",
		"data plane 2 takes the config", "data plane 2 accepts", "data plane 1 finishes what it has"}
	if !slices.EqualFunc(steps, want, strings.HasPrefix) {
		t.Errorf("steps %q", steps)
	}
	b.gone(s, 1)
	if alive(first.Pid) {
		t.Error("the old one lives")
	}
	kill(t, st.Pid, unix.SIGKILL)
	accepting(t, s, 3)
	must(t, s.Drain(context.Background(), time.Second))
	s.Stop()
	b.balanced()
}

func TestAnUpgradeThatFailsIsNotNoticed(t *testing.T) {
	for name, test := range map[string]struct {
		faults  []string // of the new one
		script  string   // instead of a data plane
		says    string
		patient time.Duration // 0: as long as it takes
	}{
		"it dies at once":         {faults: []string{"dies"}, says: "was told to die"},
		"it dies in its config":   {faults: []string{"dies-apply"}, says: "exit status 3"},
		"it refuses the config":   {faults: []string{"refuses"}, says: "sources[0].path"},
		"it hangs":                {faults: []string{"never-serves"}, patient: 300 * time.Millisecond},
		"it does not say who":     {faults: []string{"mute"}, patient: 300 * time.Millisecond},
		"it has another layout":   {faults: []string{"foreign"}, says: "sluice test"},
		"it is another program":   {script: "exit 1", says: "--version"},
		"it prints nothing":       {script: "exec /bin/true", says: "not a data plane"},
		"it is no program at all": {script: "", says: ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.installPlane()
			s := b.start()
			before, socket := s.Status(), inode(t, s.Listeners()[0][0])
			switch {
			case test.faults != nil:
				b.installPlane(test.faults...)
			case test.script != "":
				b.install(test.script)
			default:
				must(t, os.Remove(b.binary))
			}
			ctx, cancel := context.WithCancel(context.Background())
			if test.patient > 0 {
				ctx, cancel = context.WithTimeout(ctx, test.patient)
			}
			defer cancel()
			more := other(t)
			b.plan.Specs = append(b.plan.Specs, more)
			_, err := s.Upgrade(ctx, silent)
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, want %q", err, test.says)
			}
			if conn, err := net.Dial("tcp", more.Target); err == nil {
				_ = conn.Close()
				t.Error("what was opened for the new one is still there")
			}
			st := s.Status()
			if st.Pid != before.Pid || !st.Accepting || st.Problem != "" || st.Restarts != 0 ||
				!alive(st.Pid) || b.newest.Load() != 1 {
				t.Errorf("status %+v", st)
			}
			if slices.ContainsFunc(b.left(), func(name string) bool { return name[0] != '1' }) {
				t.Errorf("left %v", b.left())
			}
			// Whatever lies at the path now: what served before mends its death.
			kill(t, st.Pid, unix.SIGKILL)
			eventually(t, "another one accepts", func() bool {
				st = s.Status()
				return st.Accepting && st.Pid != before.Pid
			})
			if got := inode(t, s.Listeners()[0][0]); got != socket {
				t.Errorf("socket %d became %d", socket, got)
			}
			must(t, s.Drain(context.Background(), time.Second))
			s.Stop()
			b.balanced()
		})
	}
}

func TestAnUpgradeWaitsForTheOneBefore(t *testing.T) {
	b := newBed(t, "1:stubborn")
	s := b.start()
	stubborn := s.Status().Pid
	_, err := s.Upgrade(context.Background(), silent)
	must(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := s.Upgrade(ctx, silent); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second upgrade: %v", err)
	}
	if st := s.Status(); st.Generation != 2 || st.Retiring != 1 {
		t.Errorf("status %+v", st)
	}
	done := begin(context.Background(), s)
	kill(t, stubborn, unix.SIGKILL)
	if u := <-done; u.err != nil || u.generation != 3 {
		t.Errorf("upgrade %+v", u)
	}
}

func TestOneThatDiesWhileItsSuccessorStartsIsReplacedAtOnce(t *testing.T) {
	b := newBed(t, "2:never-serves")
	s := b.start()
	done := begin(context.Background(), s)
	next := b.pid(2)
	kill(t, s.Status().Pid, unix.SIGKILL)
	if u := <-done; u.err == nil || !strings.Contains(u.err.Error(), "data plane 1 died") ||
		strings.Contains(u.err.Error(), "Deadline") { // it was not waited for
		t.Errorf("upgrade %+v", u)
	}
	st := accepting(t, s, 3)
	if st.Restarts != 1 || alive(next) {
		t.Errorf("status %+v, the one that hung lives: %v", st, alive(next))
	}
}

func TestASuccessorThatDiesIsReplacedWhileTheOneBeforeFinishes(t *testing.T) {
	b := newBed(t, "1:stubborn")
	s := b.start()
	stubborn := s.Status().Pid
	_, err := s.Upgrade(context.Background(), silent)
	must(t, err)
	kill(t, s.Status().Pid, unix.SIGKILL)
	if st := accepting(t, s, 3); st.Retiring != 1 || st.Restarts != 1 || !alive(stubborn) {
		t.Errorf("status %+v", st)
	}
	// An orderly stop does not wait for it longer than it was told.
	must(t, s.Drain(context.Background(), 10*time.Millisecond))
	s.Stop()
	if alive(stubborn) || len(b.left()) != 0 {
		t.Errorf("left %v", b.left())
	}
	b.balanced()
}

func TestTheEndOfTheSupervisionEndsAnUpgrade(t *testing.T) {
	for name, end := range map[string]func(*Supervisor) error{
		"drain": func(s *Supervisor) error { return s.Drain(context.Background(), time.Second) },
		"stop":  func(*Supervisor) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, "2:never-serves")
			s := b.start()
			pid := s.Status().Pid
			done := begin(context.Background(), s)
			next := b.pid(2)
			must(t, end(s))
			s.Stop()
			if u := <-done; !errors.Is(u.err, ErrGivenUp) {
				t.Errorf("upgrade %+v", u)
			}
			if alive(next) || alive(pid) != (name == "stop") {
				t.Errorf("the next one lives: %v, the old one: %v", alive(next), alive(pid))
			}
			if name == "stop" {
				again := b.start()
				if st := again.Status(); st.Pid != pid {
					t.Errorf("status %+v", st)
				}
			}
		})
	}
}

func TestOrphansBoundUpgrades(t *testing.T) {
	b := newBed(t)
	s := b.start()
	b.port.set(func(p *port) { p.orphans = orphansMax })
	if _, err := s.Upgrade(context.Background(), silent); err == nil ||
		!strings.Contains(err.Error(), "not drained yet") {
		t.Errorf("upgrade: %v", err)
	}
}

// sockets names all that the next generation would get, each once, and checks that each row has one
// for each worker.
func sockets(t *testing.T, s *Supervisor, workers int) []uint64 {
	t.Helper()
	var list []uint64
	for _, row := range inodesOf(s.Listeners()) {
		if len(row) != workers {
			t.Errorf("a row of %d for %d workers", len(row), workers)
		}
		list = append(list, row...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func TestAnUpgradeTakesOtherWorkersAndAddressesUp(t *testing.T) {
	b := newBed(t)
	b.plan.Specs[0].Target = freeAddress(t)
	s := b.start()
	upgrade := func() {
		t.Helper()
		_, err := s.Upgrade(context.Background(), silent)
		must(t, err)
		must(t, s.AwaitElders(context.Background()))
	}
	one := sockets(t, s, 1)
	b.plan.Workers = 3
	upgrade()
	three := sockets(t, s, 3)
	if len(three) != 3 || !slices.Contains(three, one[0]) {
		t.Errorf("sockets %v, then %v", one, three)
	}
	b.plan.Workers = 2 // none is closed: connections may wait in it
	upgrade()
	if got := sockets(t, s, 2); !slices.Equal(got, three) {
		t.Errorf("sockets %v, then %v", three, got)
	}
	b.plan.Specs = append(b.plan.Specs, listen.Spec{Network: listen.TCP, Target: freeAddress(t)})
	upgrade()
	more := sockets(t, s, 2)
	if len(more) != 5 {
		t.Errorf("sockets %v, then %v", three, more)
	}
	b.plan.Specs = b.plan.Specs[1:]
	upgrade()
	if got := sockets(t, s, 2); len(got) != 2 {
		t.Errorf("of %v, %v are left", more, got)
	}
	if s.Status().Generation != 5 {
		t.Errorf("status %+v", s.Status())
	}
}

func TestAnAddressThatIsTakenLeavesEverythingAsItWas(t *testing.T) {
	b := newBed(t)
	s := b.start()
	before, had := s.Status(), sockets(t, s, 1)
	taken, err := listen.Plan{Workers: 1, Specs: []listen.Spec{
		{Network: listen.TCP, Target: "127.0.0.1:0"},
	}}.Open(context.Background())
	must(t, err)
	defer taken.Abandon()
	at, err := listen.Address(taken.Rows[0][0])
	must(t, err)
	b.plan.Specs = append(b.plan.Specs, listen.Spec{Network: listen.TCP, Target: at.String()})
	if _, err := s.Upgrade(context.Background(), silent); !errors.Is(err, listen.ErrInUse) {
		t.Errorf("upgrade: %v", err)
	}
	if st := s.Status(); st.Pid != before.Pid || !slices.Equal(sockets(t, s, 1), had) {
		t.Errorf("status %+v", st)
	}
}

func TestOneThatWasStartedOtherwiseIsReplacedAtTheStart(t *testing.T) {
	for name, change := range map[string]func(*bed){
		"another ring size":   func(b *bed) { b.settings.RingSize *= 2 },
		"another driver":      func(b *bed) { b.settings.Driver = "epoll" },
		"more workers":        func(b *bed) { b.plan.Workers = 2 },
		"one address more":    func(b *bed) { b.plan.Specs = append(b.plan.Specs, other(b.t)) },
		"another address":     func(b *bed) { b.plan.Specs[0] = other(b.t) },
		"fewer workers again": func(b *bed) { b.plan.Workers = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			if strings.HasPrefix(name, "fewer") {
				b.plan.Workers = 2
			}
			first := b.start()
			pid := first.Status().Pid
			first.Stop()
			change(b)
			second := b.start()
			if st := second.Status(); st.Generation != 2 || !st.Accepting || st.Problem != "" {
				t.Errorf("status %+v", st)
			}
			b.gone(second, 1)
			if alive(pid) {
				t.Error("the old one lives")
			}
			second.Stop()
			third := b.start()
			if st := third.Status(); st.Generation != 2 {
				t.Errorf("it was replaced again: %+v", st)
			}
		})
	}
}

func TestOneThatCannotBeReplacedGoesOnUntilTheConfigIsMended(t *testing.T) {
	b := newBed(t)
	b.installPlane()
	first := b.start()
	pid := first.Status().Pid
	first.Stop()
	b.settings.RingSize *= 2
	b.installPlane("dies")
	second := b.start()
	if st := second.Status(); st.Pid != pid || st.Problem == "" {
		t.Fatalf("status %+v", st)
	}
	// A reload finds it with other settings than the config has: it takes a successor.
	must(t, os.Remove(b.binary))
	if err := second.Apply(context.Background()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("apply: %v", err)
	}
	b.installPlane()
	must(t, second.Apply(context.Background()))
	if st := second.Status(); st.Pid == pid || st.Problem != "" || !st.Accepting {
		t.Errorf("status %+v", st)
	}
	b.gone(second, 1)
}

func TestAConfigThatComesDuringAnUpgradeReachesTheNextOne(t *testing.T) {
	b := newBed(t, "2:slow")
	s := b.start()
	done := begin(context.Background(), s)
	b.pid(2)
	b.config(2)
	must(t, s.Apply(context.Background()))
	if u := <-done; u.err != nil {
		t.Fatal(u.err)
	}
	client, err := dataplane.Dial(s.path(2, "sock"))
	must(t, err)
	defer client.Close()
	state, err := client.State(context.Background())
	must(t, err)
	if state.GetConfigVersion() != 2 {
		t.Errorf("the next one serves config %d", state.GetConfigVersion())
	}
}

// What a data plane says that has a successor meanwhile is no verdict on the config.
func TestAConfigThatMeetsOneThatEndsGoesToItsSuccessor(t *testing.T) {
	b := newBed(t, "1:stubborn")
	s := b.start()
	upgrade := func() {
		_, err := s.Upgrade(context.Background(), silent)
		must(t, err)
		client, err := dataplane.Dial(s.path(1, "sock"))
		must(t, err)
		defer client.Close()
		eventually(t, "the old one drains", func() bool {
			state, err := client.State(context.Background())
			return err == nil && state.GetDraining()
		})
	}
	b.config(2)
	b.meanwhile.Store(&upgrade)
	must(t, s.Apply(context.Background()))
	if st := s.Status(); st.Generation != 2 || st.Retiring != 1 || st.Restarts != 0 {
		t.Errorf("status %+v", st)
	}
}

func other(t *testing.T) listen.Spec {
	return listen.Spec{Network: listen.TCP, Target: freeAddress(t)}
}

// freeAddress is one that nobody listens on, and that no outgoing connection takes meanwhile.
func freeAddress(t *testing.T) string {
	t.Helper()
	set, err := listen.Plan{Workers: 1, Specs: []listen.Spec{
		{Network: listen.TCP, Target: "127.0.0.1:0"},
	}}.Open(context.Background())
	must(t, err)
	defer set.Abandon()
	at, err := listen.Address(set.Rows[0][0])
	must(t, err)
	return at.String()
}
