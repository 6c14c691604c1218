package listen

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNoListener says that a file is not a socket that senders can connect to.
var ErrNoListener = errors.New("not a listening stream socket")

// tune sets a socket's options, those of one that listens already as well, and makes it listen.
// Accepted sockets inherit them, which spares calls per connection.
func tune(file *os.File, spec Spec) error {
	fd := int(file.Fd())
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return err
	}
	if domain == unix.AF_INET || domain == unix.AF_INET6 {
		for _, o := range options(spec) {
			if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
				return fmt.Errorf("socket option %s: %w", o.text, err)
			}
		}
	}
	// A systemd socket may block, and no acceptor may: another worker can be faster.
	if err := unix.SetNonblock(fd, true); err != nil {
		return err
	}
	backlog := spec.Backlog
	if backlog == 0 {
		backlog = backlogDefault
	}
	// On a socket that listens this changes the backlog alone.
	if err := unix.Listen(fd, backlog); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	return nil
}

type option struct {
	text               string
	level, name, value int
}

func options(spec Spec) []option {
	list := []option{
		{"SO_RCVBUF", unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer},
		{"TCP_NODELAY", unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		{"TCP_DEFER_ACCEPT", unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, seconds(spec.DeferAccept)},
	}
	if spec.KeepAlive == 0 {
		return append(list, option{"SO_KEEPALIVE", unix.SOL_SOCKET, unix.SO_KEEPALIVE, 0})
	}
	return append(list,
		option{"SO_KEEPALIVE", unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		option{"TCP_KEEPIDLE", unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, seconds(spec.KeepAlive)},
		option{"TCP_KEEPINTVL", unix.IPPROTO_TCP, unix.TCP_KEEPINTVL,
			seconds(spec.KeepAlive / keepAliveProbes)},
		option{"TCP_KEEPCNT", unix.IPPROTO_TCP, unix.TCP_KEEPCNT, keepAliveProbes})
}

// seconds rounds up, so that what is on stays on.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// checkListener tells whether senders can connect to a socket that somebody else made, and what to
// change where they cannot.
func checkListener(file *os.File) error {
	fd := int(file.Fd())
	option := func(name int) int {
		value, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, name)
		if err != nil {
			return -1 // no socket at all, or one without the option
		}
		return value
	}
	domain := option(unix.SO_DOMAIN)
	switch {
	case option(unix.SO_TYPE) != unix.SOCK_STREAM || option(unix.SO_ACCEPTCONN) != 1:
		return fmt.Errorf("%w: write ListenStream= and Accept=no in its unit", ErrNoListener)
	case domain == unix.AF_UNIX:
		return nil
	case domain != unix.AF_INET && domain != unix.AF_INET6:
		return fmt.Errorf("%w of a family that senders use: want IP or a Unix socket", ErrNoListener)
	case option(unix.SO_PROTOCOL) != unix.IPPROTO_TCP:
		return fmt.Errorf("%w of plain TCP: take SocketProtocol= out of its unit", ErrNoListener)
	}
	return nil
}
