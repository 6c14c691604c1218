package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// underVariable tells this program that it is not to test anything, but to become the command in
// its arguments, in another world.
const underVariable = "SLUICE_E2E_UNDER"

// world is in what a daemon is started.
type world struct {
	DenyRing bool // io_uring is forbidden, as Docker's default seccomp profile does it
	User     int  // 0: as it is
	Sockets  bool // LISTEN_PID names the daemon (sd_listen_fds(3))
}

// under has the daemon started in another world.
func (i *installation) under(w world) {
	i.t.Helper()
	program, err := os.Executable()
	must(i.t, err)
	text, err := json.Marshal(w)
	must(i.t, err)
	i.prefix = []string{program}
	i.env = append(i.env, underVariable+"="+string(text))
	if w.User != 0 {
		i.giveTo(w.User)
	}
}

// giveTo hands all that is the installation's to a user, and lets him through to it.
func (i *installation) giveTo(user int) {
	i.t.Helper()
	for _, path := range []string{i.dir, i.config, i.shm} {
		must(i.t, os.Chown(path, user, user))
	}
	// The test's own folder is closed to others.
	must(i.t, os.Chmod(filepath.Dir(i.dir), 0o711))
}

func init() {
	text := os.Getenv(underVariable)
	if text == "" {
		return
	}
	err := become(text, os.Args[1:])
	fmt.Fprintln(os.Stderr, "become the daemon:", err)
	os.Exit(1)
}

// become never returns but with an error.
func become(text string, command []string) error {
	runtime.LockOSThread() // a filter is a thread's; the thread that calls exec keeps it
	var w world
	if err := json.Unmarshal([]byte(text), &w); err != nil {
		return err
	}
	if err := os.Unsetenv(underVariable); err != nil {
		return err
	}
	if w.Sockets {
		if err := os.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid())); err != nil {
			return err
		}
	}
	if w.User != 0 {
		if err := syscall.Setgroups(nil); err != nil {
			return err
		}
		if err := syscall.Setgid(w.User); err != nil {
			return err
		}
		if err := syscall.Setuid(w.User); err != nil {
			return err
		}
	}
	if w.DenyRing {
		if err := denyRing(); err != nil {
			return err
		}
	}
	return syscall.Exec(command[0], command, os.Environ())
}

// denyRing makes the io_uring calls fail with EPERM for this process and all that it starts.
func denyRing() error {
	const (
		loadNumber = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		isEqual    = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		answer     = unix.BPF_RET | unix.BPF_K
	)
	// The number of the call is the first word of struct seccomp_data, on every architecture the
	// same for these three calls.
	filter := []unix.SockFilter{
		{Code: loadNumber, K: 0},
		{Code: isEqual, K: unix.SYS_IO_URING_SETUP, Jt: 3},
		{Code: isEqual, K: unix.SYS_IO_URING_ENTER, Jt: 2},
		{Code: isEqual, K: unix.SYS_IO_URING_REGISTER, Jt: 1},
		{Code: answer, K: unix.SECCOMP_RET_ALLOW},
		{Code: answer, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER,
		uintptr(unsafe.Pointer(&program)), 0, 0)
}

// needRoot skips a test that gives rights away.
func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("this test starts a daemon as another user, which only root can")
	}
}
