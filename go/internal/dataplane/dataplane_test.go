package dataplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/go/internal/dataplane/fakeplane"
	pb "sluice/proto/sluice/v1"
)

func TestMain(m *testing.M) {
	fakeplane.Main()
	os.Exit(m.Run())
}

const patience = 30 * time.Second

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var journalID = [16]byte{0xd0, 15: 0x0d}

// start runs this test binary as a data plane with one listener and two workers.
func start(t *testing.T, faults ...string) (dir string, fds Fds, p *Process) {
	t.Helper()
	t.Setenv(fakeplane.Env(faults...))
	t.Setenv("GORACE", "atexit_sleep_ms=0") // for the data plane, which is a race build as well
	dir, err := os.MkdirTemp("", "plane")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for _, sub := range []string{"dp", "lanes"} {
		must(t, os.Mkdir(filepath.Join(dir, sub), 0o700))
	}
	var sockets []*os.File
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		file, err := l.(*net.TCPListener).File()
		must(t, err)
		must(t, l.Close())
		sockets = append(sockets, file)
	}
	var bells []*os.File
	for range 4 {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
		must(t, err)
		bells = append(bells, os.NewFile(uintptr(fd), "eventfd"))
	}
	fds = Fds{Listeners: [][]*os.File{sockets}, RequestBells: bells[:2], ReplyBells: bells[2:]}
	t.Cleanup(fds.Close)
	program, err := OpenProgram(os.Args[0])
	must(t, err)
	defer program.Close()
	p, err = Start(Spec{
		Program: program, Dir: dir, JournalID: journalID, Generation: 7, Fds: fds,
		Settings: Settings{RingSize: 1 << 20, MaxConnections: 16, LockMemory: true},
	})
	must(t, err)
	t.Cleanup(func() {
		p.Kill()
		<-p.Done()
	})
	return dir, fds, p
}

// greet waits for the data plane's socket.
func greet(t *testing.T, dir string) *Client {
	t.Helper()
	client, err := Dial(filepath.Join(dir, "dp", "7.sock"))
	must(t, err)
	t.Cleanup(client.Close)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	hello, err := client.Hello(ctx, journalID)
	must(t, err)
	if hello.GetGeneration() != 7 || len(hello.GetLanes()) != 2 {
		t.Fatalf("hello %v", hello)
	}
	return client
}

func ended(t *testing.T, p *Process) {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
}

func inode(t *testing.T, file *os.File) uint64 {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Fstat(int(file.Fd()), &st))
	return st.Ino
}

func TestDescriptorsComeBackAsTheyWereHandedDown(t *testing.T) {
	dir, fds, _ := start(t)
	greet(t, dir)
	var taken Fds
	for until := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		var err error
		if taken, err = TakeFds(filepath.Join(dir, "dp", "7.fds"), patience); err == nil {
			break
		}
		if time.Now().After(until) {
			t.Fatal(err)
		}
	}
	defer taken.Close()
	if taken.Workers() != 2 || len(taken.Listeners) != 1 || len(taken.Listeners[0]) != 2 {
		t.Fatalf("%d workers, listeners %v", taken.Workers(), taken.Listeners)
	}
	for i, file := range taken.Listeners[0] {
		if inode(t, file) != inode(t, fds.Listeners[0][i]) {
			t.Errorf("listener %d is another socket", i)
		}
	}
	// Doorbells have no inode of their own: what is rung on one side is heard on the other.
	pairs := [][2]*os.File{
		{fds.RequestBells[0], taken.RequestBells[0]}, {fds.RequestBells[1], taken.RequestBells[1]},
		{fds.ReplyBells[0], taken.ReplyBells[0]}, {fds.ReplyBells[1], taken.ReplyBells[1]},
	}
	for i, pair := range pairs {
		_, err := pair[0].Write([]byte{byte(i + 1), 0, 0, 0, 0, 0, 0, 0})
		must(t, err)
	}
	for i, pair := range pairs {
		var count [8]byte
		if _, err := pair[1].Read(count[:]); err != nil || count[0] != byte(i+1) {
			t.Errorf("doorbell %d says %d: %v", i, count[0], err)
		}
		flags, err := unix.FcntlInt(pair[1].Fd(), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("doorbell %d would be inherited: %v", i, err)
		}
	}
}

func TestADataPlaneThatHandsNothingOverIsAnError(t *testing.T) {
	dir, _, _ := start(t, fakeplane.KeepsFds)
	greet(t, dir)
	if _, err := TakeFds(filepath.Join(dir, "dp", "7.fds"), patience); err == nil {
		t.Error("descriptors out of nothing")
	}
	silent, err := net.Listen("unix", filepath.Join(dir, "silent"))
	must(t, err)
	defer silent.Close()
	if _, err := TakeFds(filepath.Join(dir, "silent"), time.Millisecond); !errors.Is(err,
		os.ErrDeadlineExceeded) {
		t.Errorf("a silent one: %v", err)
	}
}

func TestARefusalNamesItsReason(t *testing.T) {
	dir, _, _ := start(t, fakeplane.Refuses)
	err := greet(t, dir).Apply(context.Background(), &pb.Snapshot{ConfigVersion: 1})
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "sources[0].path") {
		t.Errorf("apply: %v", err)
	}
}

func TestADrainedDataPlaneEndsByItself(t *testing.T) {
	dir, _, p := start(t)
	client := greet(t, dir)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	must(t, client.Apply(ctx, &pb.Snapshot{ConfigVersion: 3}))
	state, err := client.State(ctx)
	must(t, err)
	if !state.GetAccepting() || state.GetConfigVersion() != 3 {
		t.Errorf("state %v", state)
	}
	if p.Exit() != "" {
		t.Errorf("exit %q while it runs", p.Exit())
	}
	must(t, client.Drain(ctx, time.Second))
	ended(t, p)
	if p.Exit() != "exit status 0" {
		t.Errorf("exit %q", p.Exit())
	}
	p.Kill() // of a dead one does nothing
}

func TestOnlyThatDataPlaneIsWatched(t *testing.T) {
	dir, _, p := start(t)
	greet(t, dir)
	stranger := exec.Command("sleep", "60")
	must(t, stranger.Start())
	defer func() {
		_ = stranger.Process.Kill()
		_ = stranger.Wait()
	}()
	for name, test := range map[string]struct {
		pid        int
		journal    [16]byte
		generation uint32
	}{
		"a stranger":         {stranger.Process.Pid, journalID, 7},
		"another journal's":  {p.Pid, [16]byte{1}, 7},
		"another generation": {p.Pid, journalID, 8},
		"no pid":             {0, journalID, 7},
		"this process":       {os.Getpid(), journalID, 7},
		"a pid of nobody":    {1 << 22, journalID, 7},
	} {
		if _, err := Watch(test.pid, test.journal, test.generation); !errors.Is(err, ErrNotDataPlane) {
			t.Errorf("%s: %v", name, err)
		}
	}
	watched, err := Watch(p.Pid, journalID, 7)
	must(t, err)
	watched.Kill()
	ended(t, watched)
	ended(t, p)
	if watched.Exit() == "" || p.Exit() != "signal: killed" {
		t.Errorf("exits %q and %q", watched.Exit(), p.Exit())
	}
	watched.Kill()
	if IsDataPlane(p.Pid, journalID, 7) {
		t.Error("a dead process is a data plane")
	}
}

func TestAWrongNumberOfDescriptorsIsAnError(t *testing.T) {
	for _, test := range []struct{ files, workers, listeners int }{
		{0, 0, 0}, {3, 1, 2}, {5, 1, 2}, {4, -1, 1}, {2, 1, -1},
	} {
		if _, err := split(make([]*os.File, test.files), test.workers, test.listeners); err == nil {
			t.Errorf("%+v was taken", test)
		}
	}
	fds, err := split(make([]*os.File, 8), 2, 2)
	if got := fmt.Sprint(len(fds.Listeners), len(fds.Listeners[1]), fds.Workers(),
		len(fds.ReplyBells)); err != nil || got != "2 2 2 2" {
		t.Errorf("%s: %v", got, err)
	}
}

// The poller is woken by every descriptor of an eventfd that it knows, at each ring.
func TestADescriptorThatIsTakenStaysOutOfThePoller(t *testing.T) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	must(t, err)
	file, err := hold(fd)
	must(t, err)
	defer file.Close()
	if err := file.SetReadDeadline(time.Now()); !errors.Is(err, os.ErrNoDeadline) {
		t.Errorf("it takes a deadline: %v", err)
	}
	if _, err := file.Write([]byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
		t.Errorf("it is no eventfd: %v", err)
	}
	if flags, err := unix.FcntlInt(file.Fd(), unix.F_GETFL, 0); flags&unix.O_NONBLOCK == 0 {
		t.Errorf("it blocks: flags %#x, %v", flags, err)
	}
}
