package e2e

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Senders connect to every address of the config, over IPv4, IPv6 and a Unix socket.
func TestEveryListenerOfTheConfigServes(t *testing.T) {
	t.Parallel()
	onDrivers(t, func(t *testing.T, driver string) {
		i := install(t, "")
		six := strings.Replace(freeAddress(t), "127.0.0.1", "[::1]", 1)
		if l, err := net.Listen("tcp", six); err != nil {
			t.Skipf("this host has no IPv6: %v", err)
		} else {
			must(t, l.Close())
		}
		second := freeAddress(t)
		path := filepath.Join(i.shm, "in.sock") // a path short enough for any temporary folder
		i.configure(fmt.Sprintf("driver: %s\nworkers: 2\nlisteners:\n  - address: %s\n  - address: %s\n"+
			"  - address: '%s'\n  - address: unix:%s\n    mode: '0666'\n%s", driver, i.address, second,
			six, path, plainOpen))
		serves := func() {
			t.Helper()
			for _, at := range []string{i.address, second, six, path} {
				network := "tcp"
				if at == path {
					network = "unix"
				}
				for range 4 {
					conn, err := net.DialTimeout(network, at, patience)
					must(t, err)
					w := &wire{conn, bufio.NewReader(conn)}
					a := w.ask(t, request{path: "/hooks/open", body: "{}"})
					if a.code != 200 {
						t.Errorf("%s: %v", at, a)
					}
					peer, want := i.peerOf(a.get("X-Event-Id")), conn.LocalAddr().String()
					if network == "tcp" && peer != want {
						t.Errorf("%s: the event's peer is %s, want %s", at, peer, want)
					}
					must(t, conn.Close())
				}
			}
		}
		i.start()
		info, err := os.Stat(path)
		must(t, err)
		if info.Mode().Perm() != 0o666 {
			t.Errorf("the socket's mode is %v", info.Mode())
		}
		before := i.holdings()
		serves()
		i.holdsAgain(before)
		// The sockets outlive either process, and what dead ones left is no obstacle.
		i.replacesPlane()
		serves()
		i.killControl()
		i.start()
		serves()
		i.killBoth()
		i.start()
		serves()
		i.stop()
		if _, err := os.Stat(path); err == nil {
			t.Error("an orderly stop leaves the socket's path behind")
		}
	})
}

// bound makes listening sockets as systemd does, some at one address (ReusePort=yes).
func bound(t testing.TB, address string, sockets int) (files []*os.File) {
	t.Helper()
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		if controlErr := c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
		}); controlErr != nil {
			return controlErr
		}
		return err
	}}
	config.SetMultipathTCP(false)
	for range sockets {
		l, err := config.Listen(context.Background(), "tcp", address)
		must(t, err)
		file, err := l.(*net.TCPListener).File() // a duplicate, which stays when the other is closed
		must(t, err)
		must(t, l.Close())
		t.Cleanup(func() { _ = file.Close() })
		files = append(files, file)
	}
	return files
}

// Sockets that systemd made are taken over. One alone is shared by all workers, and each of several
// has somebody who accepts.
func TestSocketsOfSystemdAreTakenOver(t *testing.T) {
	t.Parallel()
	for _, sockets := range []int{1, 3, 2, 5}[:count(2, 4)] {
		t.Run(fmt.Sprint(sockets), func(t *testing.T) {
			onDrivers(t, func(t *testing.T, driver string) {
				i := install(t, "")
				i.passed = bound(t, i.address, sockets)
				names := strings.TrimSuffix(strings.Repeat("web:", sockets), ":")
				i.env = append(i.env, fmt.Sprintf("LISTEN_FDS=%d", sockets), "LISTEN_FDNAMES="+names)
				i.under(world{Sockets: true})
				i.configure("driver: " + driver + "\nworkers: 2\nlisteners:\n  - address: systemd:web\n" +
					plainOpen)
				// Who comes before the daemon waits for it.
				early := i.dial(t)
				must(t, early.write(request{path: "/hooks/open", body: "{}"}.bytes()))
				i.start()
				if a, err := early.read("POST"); err != nil || a.code != 200 {
					t.Errorf("who came before the daemon: %v %v", a, err)
				}
				eventually(t, "every worker has served", func() bool {
					i.isServed(t)
					for _, w := range i.workers() {
						if w.GetLanePosition() == 0 {
							return false
						}
					}
					return true
				})
				i.replacesPlane()
				i.isServed(t)
				i.stop()
				late := i.dial(t) // systemd holds the sockets: nobody is refused
				must(t, late.write(request{path: "/hooks/open", body: "{}"}.bytes()))
				i.start()
				if a, err := late.read("POST"); err != nil || a.code != 200 {
					t.Errorf("who came between two daemons: %v %v", a, err)
				}
				i.stop()
			})
		})
	}
}

// isServed sends requests over new connections, more than there are sockets for: one whose queue
// nobody accepts from would keep some.
func (i *installation) isServed(t testing.TB) {
	t.Helper()
	numbers := make([]int, 40)
	each(numbers, func(int) {
		a, err := i.send(request{path: "/hooks/open", body: "{}"})
		if err != nil || a.code != 200 {
			t.Errorf("a new connection: %v %v", a, err)
		}
	})
}

// A name that systemd did not pass is a fault, and says which there are.
func TestASocketThatSystemdDidNotPassIsNamed(t *testing.T) {
	t.Parallel()
	i := install(t, "")
	i.passed = bound(t, i.address, 1)
	i.env = append(i.env, "LISTEN_FDS=1", "LISTEN_FDNAMES=web")
	i.under(world{Sockets: true})
	i.configure("listeners:\n  - address: systemd:hooks\n" + plainOpen)
	i.launch()
	if code := i.awaitExit(); code != 1 && code != 2 {
		t.Errorf("it exits with %d", code)
	}
	if !i.logged("hooks") || !i.logged("web") {
		t.Error("the log does not name the socket that is wanted and the one there is")
	}
}
