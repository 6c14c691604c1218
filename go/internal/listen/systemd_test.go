package listen

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// envReport makes this test program tell what it inherits instead of testing.
const envReport = "SLUICE_TEST_REPORT"

func TestMain(m *testing.M) {
	if os.Getenv(envReport) == "" {
		os.Exit(m.Run())
	}
	if err := reportInherited(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// report is what a program that systemd started sees.
type report struct {
	Names   []string
	Known   map[string][]Addr
	Left    []string // variables of the protocol that a child would see
	OnExec  bool     // all sockets close on exec
	Rows    int
	Inodes  int
	Address string
}

// reportInherited opens systemd:web for 2 workers, says what it found and accepts a connection.
func reportInherited() error {
	i, err := Inherit()
	if err != nil {
		return err
	}
	r := report{Names: i.Names(), Known: i.known, OnExec: true}
	for _, variable := range os.Environ() {
		if strings.HasPrefix(variable, "LISTEN_") || strings.HasPrefix(variable, envHanded) {
			r.Left = append(r.Left, variable)
		}
	}
	for fd := firstFd; fd < firstFd+len(i.Names()); fd++ {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		r.OnExec = r.OnExec && err == nil && flags&unix.FD_CLOEXEC != 0
	}
	set, err := Plan{
		Specs: []Spec{{Network: Systemd, Target: "web"}}, Workers: 2, Inherited: i,
	}.Open(context.Background())
	if err != nil {
		return err
	}
	all := slices.Concat(set.Rows...)
	seen := map[uint64]bool{}
	for _, f := range all {
		inode, err := inodeOf(f)
		if err != nil {
			return err
		}
		seen[inode] = true
	}
	at, err := Address(all[0])
	if err != nil {
		return err
	}
	r.Rows, r.Inodes, r.Address = len(set.Rows), len(seen), at.String()
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		return err
	}
	return acceptOne(all)
}

// readReport reads the report of a program that was started, and connects so that it ends.
func readReport(t *testing.T, cmd *exec.Cmd) report {
	t.Helper()
	out, err := cmd.StdoutPipe()
	must(t, err)
	var told strings.Builder
	cmd.Stderr = &told
	must(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		_ = cmd.Wait()
		t.Fatalf("%v: %s", err, told.String())
	}
	var r report
	must(t, json.Unmarshal(line, &r))
	network, address := TCP, r.Address
	if path, is := strings.CutPrefix(address, "unix:"); is {
		network, address = Unix, path
	}
	dial(t, network, address)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, told.String())
	}
	return r
}

// as starts this program as systemd does: under the pid that it is told, which a shell knows.
func as(names string, files ...*os.File) *exec.Cmd {
	cmd := exec.Command("/bin/sh", "-c", `LISTEN_PID=$$ exec "$0"`, os.Args[0])
	cmd.Env = append(os.Environ(), envReport+"=1", envNames+"="+names,
		envCount+"="+strconv.Itoa(len(files)))
	cmd.ExtraFiles = files
	return cmd
}

func TestSocketsOfSystemdAreTakenByName(t *testing.T) {
	web := open(t, Plan{Specs: []Spec{tcp("127.0.0.1:0")}, Workers: 1}).Rows[0][0]
	other := open(t, Plan{Specs: []Spec{unixAt(socketPath(t))}, Workers: 1}).Rows[0][0]
	r := readReport(t, as("web:other", web, other))
	if !slices.Equal(r.Names, []string{"other", "web"}) || len(r.Left) != 0 || !r.OnExec {
		t.Errorf("inherited %+v", r)
	}
	if r.Rows != 1 || r.Inodes != 1 || r.Address != addressOf(t, web).String() {
		t.Errorf("listens on %+v", r)
	}
	if at := r.Known["other"]; len(at) != 1 || at[0] != addressOf(t, other) {
		t.Errorf("knows %v", r.Known)
	}
}

func TestEachSocketOfANameHasAnAcceptor(t *testing.T) {
	files := open(t, Plan{Specs: []Spec{tcp("127.0.0.1:0")}, Workers: 3}).Rows[0]
	if r := readReport(t, as("web:web:web", files...)); r.Rows != 2 || r.Inodes != 3 {
		t.Errorf("3 sockets for 2 workers: %+v", r)
	}
}

func TestTheRealSystemdActivatesIt(t *testing.T) {
	activate, err := exec.LookPath("systemd-socket-activate")
	if err != nil {
		t.Skip("systemd-socket-activate is not here: apt install systemd")
	}
	path := socketPath(t)
	cmd := exec.Command(activate, "--listen="+path, "--fdname=web", "--setenv="+envReport+"=1",
		os.Args[0])
	// It starts the program at the first connection, which that finds in its queue.
	told := make(chan report, 1)
	go func() { told <- readReport(t, cmd) }()
	for {
		conn, err := net.Dial("unix", path)
		if err == nil {
			_ = conn.Close()
			break
		}
		select {
		case r := <-told:
			t.Fatalf("it ended early: %+v", r)
		default:
		}
	}
	r := <-told
	if !slices.Equal(r.Names, []string{"web"}) || r.Address != "unix:"+path || len(r.Left) != 0 {
		t.Errorf("got %+v", r)
	}
}

// inheritHere is inherit with sockets of this process.
func inheritHere(t *testing.T, names string, files ...*os.File) *Inherited {
	t.Helper()
	// Descriptors in a row are hard to get by: each is inherited alone.
	all := &Inherited{files: map[string][]*os.File{}, known: map[string][]Addr{}}
	for n, name := range strings.Split(names, ":") {
		copied, err := unix.FcntlInt(files[n].Fd(), unix.F_DUPFD, 0)
		must(t, err)
		must(t, all.add(name, copied))
	}
	t.Cleanup(func() {
		for _, list := range all.files {
			closeAll(list)
		}
	})
	return all
}

func TestASocketThatBlocksIsTakenWithoutThat(t *testing.T) {
	file := open(t, Plan{Specs: []Spec{tcp("127.0.0.1:0")}, Workers: 1}).Rows[0][0]
	must(t, unix.SetNonblock(int(file.Fd()), false))
	set := open(t, Plan{
		Specs: []Spec{{Network: Systemd, Target: "web"}}, Workers: 1,
		Inherited: inheritHere(t, "web", file),
	})
	flags, err := unix.FcntlInt(set.Rows[0][0].Fd(), unix.F_GETFL, 0)
	must(t, err)
	if flags&unix.O_NONBLOCK == 0 {
		t.Error("an accept that another worker was faster with would hang")
	}
}

func TestANameThatSystemdDoesNotHaveIsAnErrorThatListsThose(t *testing.T) {
	file := open(t, Plan{Specs: []Spec{tcp("127.0.0.1:0")}, Workers: 1}).Rows[0][0]
	plan := Plan{Specs: []Spec{{Network: Systemd, Target: "web"}}, Workers: 1}
	_, err := plan.Open(context.Background())
	if err == nil || !strings.Contains(err.Error(), "passed no socket to this process") {
		t.Errorf("without systemd: %v", err)
	}
	plan.Inherited = inheritHere(t, "b:a", file, file)
	_, err = plan.Open(context.Background())
	if err == nil || !strings.Contains(err.Error(), "name one of a, b") {
		t.Errorf("with other names: %v", err)
	}
}

func TestWhatDoesNotListenIsRefused(t *testing.T) {
	null, err := os.Open(os.DevNull)
	must(t, err)
	defer null.Close()
	socket := func(family, kind, protocol int) *os.File {
		fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
		if err != nil {
			t.Logf("left out: family %d, protocol %d: %v", family, protocol, err)
			return null
		}
		file := os.NewFile(uintptr(fd), "test")
		t.Cleanup(func() { _ = file.Close() })
		return file
	}
	multipath := socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP)
	if multipath != null {
		must(t, unix.Listen(int(multipath.Fd()), 1))
	}
	for what, file := range map[string]*os.File{
		"a file":               null,
		"a datagram socket":    socket(unix.AF_INET, unix.SOCK_DGRAM, 0),
		"one that is no door":  socket(unix.AF_INET, unix.SOCK_STREAM, 0),
		"one of multipath TCP": multipath,
	} {
		_, err := Plan{
			Specs: []Spec{{Network: Systemd, Target: "web"}}, Workers: 1,
			Inherited: inheritHere(t, "web", file),
		}.Open(context.Background())
		if !errors.Is(err, ErrNoListener) || !strings.Contains(err.Error(), "systemd:web") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestWhatIsMeantForAnotherProcessIsLeftAlone(t *testing.T) {
	i, err := inherit(map[string]string{envPid: "1", envCount: "2"}, 1000)
	if err != nil || len(i.Names()) != 0 {
		t.Errorf("got %v, %v", i.Names(), err)
	}
	self := strconv.Itoa(os.Getpid())
	for _, environment := range []map[string]string{
		{envPid: self, envCount: "x"}, {envPid: self, envCount: "-1"}, {envPid: self},
		{envPid: self, envCount: "99999999"}, {envPid: self, envCount: "2", envNames: "one"},
		{envHanded: "{"},
	} {
		if _, err := inherit(environment, 1000); err == nil {
			t.Errorf("%v is taken", environment)
		}
	}
}

func TestTheNextProgramKnowsTheNamesAgain(t *testing.T) {
	path := socketPath(t)
	made := open(t, Plan{Specs: []Spec{unixAt(path), tcp("127.0.0.1:0")}, Workers: 1}).Rows
	first := inheritHere(t, "web:web", made[0][0], made[1][0])
	spec := Spec{Network: Systemd, Target: "web"}
	before := open(t, Plan{Specs: []Spec{spec}, Workers: 1, Inherited: first})
	if len(before.Rows) != 2 {
		t.Fatalf("rows %v", before.Rows)
	}
	environment := map[string]string{}
	for _, variable := range first.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		environment[name] = value
	}
	next, err := inherit(environment, 1000)
	must(t, err)
	after := open(t, Plan{Specs: []Spec{spec}, Workers: 1, Inherited: next, Have: before.Rows})
	if !slices.EqualFunc(after.Rows, before.Rows, slices.Equal) || len(after.Opened) != 0 {
		t.Errorf("rows %v, opened %v", after.Rows, after.Opened)
	}
	if !slices.Equal(next.Environ(), first.Environ()) {
		t.Errorf("the one after that would be told %v", next.Environ())
	}
	// systemd passes the same sockets again to a program that it starts anew.
	again := open(t, Plan{Specs: []Spec{spec}, Workers: 1, Inherited: first, Have: before.Rows})
	if len(again.Opened) != 0 {
		t.Errorf("opened %v", again.Opened)
	}
}
