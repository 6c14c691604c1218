package listen

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience is a bound on what is waited for; nothing that works comes near it.
const patience = 30 * time.Second

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func tcp(address string) Spec { return Spec{Network: TCP, Target: address} }

func unixAt(path string) Spec { return Spec{Network: Unix, Target: path, Mode: 0o660} }

// open makes a set that ends with the test.
func open(t testing.TB, p Plan) *Set {
	t.Helper()
	set, err := p.Open(context.Background())
	must(t, err)
	t.Cleanup(func() { closeAll(slices.Concat(set.Rows...)) })
	return set
}

func addressOf(t testing.TB, file *os.File) Addr {
	t.Helper()
	at, err := Address(file)
	must(t, err)
	return at
}

func inodes(t testing.TB, files []*os.File) []uint64 {
	t.Helper()
	var list []uint64
	for _, f := range files {
		inode, err := inodeOf(f)
		must(t, err)
		list = append(list, inode)
	}
	return list
}

// count is the number of different values.
func count[T comparable](list []T) int {
	set := map[T]bool{}
	for _, v := range list {
		set[v] = true
	}
	return len(set)
}

func optionOf(t testing.TB, file *os.File, level, name int) int {
	t.Helper()
	value, err := unix.GetsockoptInt(int(file.Fd()), level, name)
	must(t, err)
	return value
}

// folder is a short one: the path of a socket has 107 bytes.
func folder(t testing.TB) string {
	t.Helper()
	path, err := os.MkdirTemp("", "sl")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(path) })
	return path
}

// accepted waits for a connection on any of the sockets.
func accepted(t testing.TB, files []*os.File) {
	t.Helper()
	must(t, acceptOne(files))
}

// acceptOne takes a connection from whichever socket it comes to, and ends it.
func acceptOne(files []*os.File) error {
	list := make([]unix.PollFd, len(files))
	for i, f := range files {
		list[i] = unix.PollFd{Fd: int32(f.Fd()), Events: unix.POLLIN}
	}
	for {
		n, err := unix.Poll(list, int(patience.Milliseconds()))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case n == 0:
			return errors.New("no connection came")
		}
		at := slices.IndexFunc(list, func(p unix.PollFd) bool { return p.Revents != 0 })
		fd, _, err := unix.Accept4(int(list[at].Fd), unix.SOCK_CLOEXEC)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	}
}

func dial(t testing.TB, network, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial(network, address)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func socketPath(t testing.TB) string { return filepath.Join(folder(t), "in.sock") }
