package supervise

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/go/internal/dataplane"
	"sluice/go/internal/dataplane/fakeplane"
	"sluice/go/internal/listen"
)

// variable makes this test binary a control plane that upgrades: the value is its directory and the
// address.
const variable = "SLUICE_TEST_CONTROL"

// control is a control plane in a process of its own, which can be killed: it starts a data plane,
// says so, upgrades, and waits before each step for a line. After that it supervises until it is
// killed.
func control() {
	dir, address, on := strings.Cut(os.Getenv(variable), " ")
	if !on {
		return
	}
	said, read := bufio.NewWriter(os.Stdout), bufio.NewReader(os.Stdin)
	step := func(text string) {
		_, _ = fmt.Fprintln(said, text)
		_ = said.Flush()
		if _, err := read.ReadString('\n'); err != nil {
			os.Exit(1) // the test is gone
		}
	}
	must := func(err error) {
		if err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	must(os.Unsetenv(variable)) // its children are data planes
	b := &bed{dir: dir, binary: os.Args[0], port: newPort(), plan: planFor(address)}
	b.settings = settings
	b.config(1)
	s := b.supervisor()
	ctx := context.Background()
	must(s.Start(ctx))
	step("serves")
	_, err := s.Upgrade(ctx, step)
	step(fmt.Sprintf("upgraded: %v", err))
	if err == nil {
		_ = s.AwaitElders(ctx)
		step("the old one ended")
	}
	step("idle")
	select {}
}

// life is a control plane that can be killed.
type life struct {
	t     *testing.T
	cmd   *exec.Cmd
	steps *bufio.Reader
	goOn  io.Writer
}

func (b *bed) live(address string) *life {
	b.t.Helper()
	l := &life{t: b.t, cmd: exec.Command(os.Args[0])}
	l.cmd.Env = append(os.Environ(), variable+"="+b.dir+" "+address)
	l.cmd.Stderr = os.Stderr
	out, err := l.cmd.StdoutPipe()
	must(b.t, err)
	l.steps = bufio.NewReader(out)
	l.goOn, err = l.cmd.StdinPipe()
	must(b.t, err)
	must(b.t, l.cmd.Start())
	b.t.Cleanup(l.kill)
	return l
}

// next lets it go on to its next step; empty: it is dead.
func (l *life) next(begin bool) string {
	l.t.Helper()
	if !begin {
		if _, err := fmt.Fprintln(l.goOn); err != nil {
			return ""
		}
	}
	text, err := l.steps.ReadString('\n')
	if err != nil {
		return ""
	}
	return strings.TrimSpace(text)
}

func (l *life) kill() {
	_ = l.cmd.Process.Kill()
	_ = l.cmd.Wait()
}

// planes are the pids of all data planes of the directory.
func (b *bed) planes() (pids []int) {
	entries, err := os.ReadDir("/proc")
	must(b.t, err)
	for _, entry := range entries {
		var pid int
		if _, err := fmt.Sscanf(entry.Name(), "%d", &pid); err != nil {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		if err == nil && strings.Contains(string(line), "--shm\x00"+b.dir+"\x00") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// accepting counts those that accept and do not drain.
func (b *bed) accepting() (count int) {
	sockets, err := filepath.Glob(filepath.Join(b.dir, "dp", "*.sock"))
	must(b.t, err)
	for _, socket := range sockets {
		client, err := dataplane.Dial(socket)
		must(b.t, err)
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		hello, err := client.Hello(ctx, journalID)
		cancel()
		client.Close()
		if err == nil && hello.GetAccepting() && !hello.GetDraining() {
			count++
		}
	}
	return count
}

func TestAnUpgradeKilledAnywhereEndsWithOneAccepting(t *testing.T) {
	const (
		steps                      = 8 // of an upgrade where nobody dies, and the start before it
		controlBit, oldBit, newBit = 1, 2, 4
	)
	t.Setenv(fakeplane.Env(fakeplane.Outlives))
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	for at := range steps {
		for victims := controlBit; victims <= controlBit|oldBit|newBit; victims++ {
			name := fmt.Sprintf("step %d, ", at)
			for i, who := range []string{"control plane ", "old ", "new "} {
				if victims>>i&1 != 0 {
					name += who
				}
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				killedAt(t, at, victims&controlBit != 0, victims&oldBit != 0, victims&newBit != 0)
			})
		}
	}
}

// killedAt kills the control plane, the old and the new data plane, or some of them, when an
// upgrade begins its nth step, and looks at what is left when all has settled. Where the control
// plane lives it goes on; else the next one starts.
func killedAt(t *testing.T, at int, controlPlane, old, next bool) {
	b := newBareBed(t)
	t.Cleanup(func() {
		for _, pid := range b.planes() {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	})
	address := freeAddress(t)
	l := b.live(address)
	step := l.next(true)
	for range at {
		step = l.next(false)
	}
	if step == "" {
		t.Fatal("the control plane ended")
	}
	t.Logf("killed when it said %q", step)
	if controlPlane {
		l.kill()
	}
	for number, dies := range map[uint32]bool{1: old, 2: next} {
		pid := pidOf(filepath.Join(b.dir, "dp", fmt.Sprintf("%d.counters", number)))
		if dies && pid > 0 && dataplane.IsDataPlane(pid, journalID, number) {
			kill(t, pid, unix.SIGKILL)
			eventually(t, "its death", func() bool { return !alive(pid) })
		}
	}
	survivors := 0
	if controlPlane {
		survivors = b.accepting()
		b.plan = planFor(address)
		b.config(1)
		s := b.start()
		if st := s.Status(); !st.Accepting || st.Problem != "" {
			t.Errorf("status %+v", st)
		}
	} else {
		for step = l.next(false); step != "idle"; step = l.next(false) {
			if step == "" {
				t.Fatal("the control plane ended by itself")
			}
		}
	}
	eventually(t, "one data plane is left and accepts", func() bool {
		return len(b.planes()) == 1 && b.accepting() == 1
	})
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatalf("nobody listens: %v", err)
	}
	_ = conn.Close()
	if survivors > 0 && b.opened > 0 {
		t.Errorf("%d sockets were opened though a data plane had them", b.opened)
	}
}

func planFor(address string) listen.Plan {
	return listen.Plan{Workers: 1, Specs: []listen.Spec{{Network: listen.TCP, Target: address}}}
}
