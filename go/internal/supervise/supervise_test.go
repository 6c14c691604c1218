package supervise

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/go/internal/dataplane"
)

func TestADataPlaneIsStartedServedAndDrained(t *testing.T) {
	b := newBed(t)
	s := b.start()
	st := s.Status()
	if !st.Accepting || st.Generation != 1 || st.Driver != "fake" || st.Problem != "" ||
		!alive(st.Pid) {
		t.Fatalf("status %+v", st)
	}
	if ids := b.port.served[1]; len(ids) != 1 || len(ids[0]) != 16 {
		t.Errorf("served %x", ids)
	}
	must(t, s.Drain(context.Background(), time.Second))
	s.Stop()
	if alive(st.Pid) || len(b.left()) != 0 || !b.port.isOrphaned(1) {
		t.Errorf("left %v, orphaned %v", b.left(), b.port.orphaned)
	}
	b.balanced()
}

func TestADeadDataPlaneIsReplacedOnTheSameSockets(t *testing.T) {
	b := newBed(t)
	s := b.start()
	first, socket := s.Status(), s.Listeners()[0][0]
	kill(t, first.Pid, unix.SIGKILL)
	second := accepting(t, s, 2)
	if second.Restarts != 1 || second.Pid == first.Pid || s.Listeners()[0][0] != socket ||
		b.opened != 1 {
		t.Errorf("status %+v, opened %d times", second, b.opened)
	}
	if !b.port.isOrphaned(1) {
		t.Error("nobody was told that the first one's lanes are orphans")
	}
	must(t, s.Drain(context.Background(), time.Second))
	b.balanced()
}

// A doorbell that the orphans of a dead generation listen on as well could wake them instead.
func TestEachGenerationHasDoorbellsOfItsOwn(t *testing.T) {
	b := newBed(t)
	s := b.start()
	kill(t, s.Status().Pid, unix.SIGKILL)
	accepting(t, s, 2)
	for i := range 2 {
		must(t, b.port.bells[1][i].Ring())
		if rung, err := b.port.bells[2][i].Wait(20 * time.Millisecond); rung || err != nil {
			t.Errorf("doorbell %d of the first generation rings the second one's: %v", i, err)
		}
	}
}

func TestOneThatDiesAtItsStartIsTriedAgain(t *testing.T) {
	b := newBed(t, "2:dies", "3:dies-apply", "4:dies")
	s := b.start()
	kill(t, s.Status().Pid, unix.SIGKILL)
	st := accepting(t, s, 5)
	if st.Problem != "" || st.Restarts != 1 {
		t.Errorf("status %+v", st)
	}
	must(t, s.Drain(context.Background(), time.Second))
	if left := b.left(); len(left) != 0 {
		t.Errorf("left %v", left)
	}
	b.balanced()
}

func TestAStartThatFailsLeavesNothing(t *testing.T) {
	for _, fault := range []string{"dies", "dies-apply", "refuses"} {
		t.Run(fault, func(t *testing.T) {
			b := newBed(t, fault)
			err := b.supervisor().Start(context.Background())
			if err == nil {
				t.Fatal("started")
			}
			want := "ended before it was ready"
			if fault == "refuses" {
				want = "told to refuse"
			}
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
			if left := b.left(); len(left) != 0 {
				t.Errorf("left %v", left)
			}
			b.balanced()
		})
	}
}

func TestAStartIsGivenUpWithItsContext(t *testing.T) {
	b := newBed(t, "never-serves")
	ctx, cancel := context.WithCancel(context.Background())
	started := make(chan error, 1)
	go func() { started <- b.supervisor().Start(ctx) }()
	eventually(t, "the process", func() bool {
		return pidOf(filepath.Join(b.dir, "dp", "1.counters")) > 0
	})
	pid := pidOf(filepath.Join(b.dir, "dp", "1.counters"))
	cancel()
	if err := <-started; err == nil {
		t.Error("started")
	}
	if alive(pid) || len(b.left()) != 0 {
		t.Errorf("left %v", b.left())
	}
}

func TestAMissingProgramIsTold(t *testing.T) {
	b := newBed(t)
	b.binary = filepath.Join(b.dir, "no-such-program")
	if err := b.supervisor().Start(context.Background()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("start: %v", err)
	}
}

func TestARefusedConfigLeavesTheLastOneInForce(t *testing.T) {
	b := newBed(t, "refuses-next")
	s := b.start()
	before := s.Status()
	b.config(2)
	err := s.Apply(context.Background())
	if !errors.Is(err, dataplane.ErrRefused) || !strings.Contains(err.Error(), "sources[0].path") {
		t.Fatalf("apply: %v", err)
	}
	if after := s.Status(); !reflect.DeepEqual(after, before) || !alive(after.Pid) {
		t.Errorf("status %+v, then %+v", before, after)
	}
}

func TestAConfigThatFindsNoDataPlaneGoesToTheNextOne(t *testing.T) {
	b := newBed(t, "2:slow")
	s := b.start()
	kill(t, s.Status().Pid, unix.SIGKILL)
	// It comes while the next one is on its way, perhaps with the older config in its hands.
	eventually(t, "the death is noticed", func() bool { return !s.Status().Accepting })
	b.config(2)
	if err := s.Apply(context.Background()); !errors.Is(err, ErrNone) && err != nil {
		t.Fatalf("apply: %v", err)
	}
	accepting(t, s, 2)
	client, err := dataplane.Dial(s.path(2, "sock"))
	must(t, err)
	defer client.Close()
	state, err := client.State(context.Background())
	must(t, err)
	if state.GetConfigVersion() != 2 {
		t.Errorf("the next one serves config %d", state.GetConfigVersion())
	}
}

func TestOneThatDoesNotEndInTimeIsKilled(t *testing.T) {
	b := newBed(t, "stubborn")
	s := b.start()
	pid := s.Status().Pid
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := s.Drain(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("drain: %v", err)
	}
	if alive(pid) {
		t.Error("it lives on")
	}
	s.Stop()
	b.balanced()
}

func TestNothingIsStartedAfterDrain(t *testing.T) {
	for name, faults := range map[string][]string{
		"while none runs":         {"2:dies", "3:dies", "4:dies", "5:dies", "6:dies"},
		"while one starts":        {"2:never-serves"},
		"while one takes config":  {"2:slow"},
		"while the next is there": nil,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, faults...)
			s := b.start()
			kill(t, s.Status().Pid, unix.SIGKILL)
			eventually(t, "the death is noticed", func() bool {
				return s.Status().Generation != 1 || !s.Status().Accepting
			})
			must(t, s.Drain(context.Background(), time.Second))
			s.Stop()
			if st := s.Status(); st.Accepting || st.Pid != 0 {
				t.Errorf("status %+v", st)
			}
			if left := b.left(); len(left) != 0 {
				t.Errorf("left %v", left)
			}
			b.balanced()
		})
	}
}

func TestOrphansBoundWhatIsStarted(t *testing.T) {
	b := newBed(t)
	s := b.start()
	b.port.set(func(p *port) { p.orphans = orphansMax })
	kill(t, s.Status().Pid, unix.SIGKILL)
	eventually(t, "the reason", func() bool {
		return strings.Contains(s.Status().Problem, "not drained yet")
	})
	if st := s.Status(); st.Accepting || st.Generation != 1 {
		t.Errorf("status %+v", st)
	}
	b.port.set(func(p *port) { p.orphans = orphansMax - 1 })
	if st := accepting(t, s, 2); st.Problem != "" {
		t.Errorf("status %+v", st)
	}
}

// The real program, where it was built: that the fake one is like it.
func TestTheRealDataPlaneIsStartedAdoptedAndDrained(t *testing.T) {
	b := newBed(t)
	binary, err := filepath.Abs("../../../target/debug/sluice-dataplane")
	must(t, err)
	program, err := os.Stat(binary)
	if err != nil {
		t.Skip("target/debug/sluice-dataplane is not built")
	}
	layout, err := os.Stat("../../../shm-abi/layout.abi")
	must(t, err)
	if layout.ModTime().After(program.ModTime()) {
		t.Skip("target/debug/sluice-dataplane is older than the layout")
	}
	if out, err := exec.Command(binary, "--probe").CombinedOutput(); err != nil {
		t.Skipf("it cannot run on this host: %s", out)
	}
	b.binary = binary
	first := b.start()
	pid := first.Status().Pid
	first.Stop()
	second := b.start()
	if st := second.Status(); st.Pid != pid || b.opened != 1 {
		t.Errorf("status %+v, sockets opened %d times", st, b.opened)
	}
	must(t, second.Drain(context.Background(), time.Second))
	second.Stop()
	if alive(pid) || len(b.left()) != 0 {
		t.Errorf("left %v", b.left())
	}
}
