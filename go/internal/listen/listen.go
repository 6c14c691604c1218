// Package listen opens listening sockets for a data plane that never binds: one SO_REUSEPORT socket
// per worker, because a multishot accept on a shared one gives every connection to one worker.
//
// It accepts nothing and knows no protocol above TCP.
package listen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	bindPatience  = 2 * time.Second
	bindInterval  = 50 * time.Millisecond
	receiveBuffer = 256 << 10 // bounds what one sender can have under way
	backlog       = 4096      // the kernel cuts it to net.core.somaxconn
)

// ErrInUse says that another program listens on the address: the operator's to mend.
var ErrInUse = errors.New("the address is in use by another program")

// Open opens the address for so many workers. A first bind without SO_REUSEPORT makes sure that
// nobody else has it: SO_REUSEPORT would hide a second daemon. It is tried for 2 s, since the
// sockets of a process that was killed live on for some milliseconds.
func Open(ctx context.Context, address string, workers int) ([]*os.File, error) {
	at, err := resolve(address)
	if err != nil {
		return nil, err
	}
	until := time.Now().Add(bindPatience)
	for {
		// Port 0: the kernel chooses one, the others follow it.
		at, err = probe(at)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EADDRINUSE) {
			return nil, fmt.Errorf("listen on %s: %w", address, err)
		}
		if time.Now().After(until) {
			return nil, fmt.Errorf("listen on %s: %w", address, ErrInUse)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(bindInterval):
		}
	}
	var files []*os.File
	for range workers {
		file, err := open(at)
		if err != nil {
			for _, f := range files {
				_ = f.Close() // nobody connected yet
			}
			return nil, fmt.Errorf("listen on %s: %w", address, err)
		}
		files = append(files, file)
	}
	return files, nil
}

// Address is where a socket listens.
func Address(file *os.File) (netip.AddrPort, error) {
	name, err := unix.Getsockname(int(file.Fd()))
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("address of a listener: %w", err)
	}
	return addrPort(name)
}

func addrPort(name unix.Sockaddr) (netip.AddrPort, error) {
	switch a := name.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)), nil
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port)), nil
	}
	return netip.AddrPort{}, fmt.Errorf("a listener of another family: %T", name)
}

func resolve(address string) (netip.AddrPort, error) {
	tcp, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("listen on %q: %w", address, err)
	}
	at := tcp.AddrPort()
	if !at.Addr().IsValid() {
		at = netip.AddrPortFrom(netip.IPv6Unspecified(), at.Port())
	}
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port()), nil
}

func probe(at netip.AddrPort) (netip.AddrPort, error) {
	fd, err := socket(at)
	if err != nil {
		return at, err
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, sockaddr(at)); err != nil {
		return at, err
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return at, err
	}
	return addrPort(name)
}

func open(at netip.AddrPort) (*os.File, error) {
	fd, err := socket(at)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "listener "+at.String())
	// Accepted sockets inherit these, which spares calls per connection.
	options := []struct{ level, name, value int }{
		{unix.SOL_SOCKET, unix.SO_REUSEPORT, 1},
		{unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer},
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
	}
	for _, o := range options {
		if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			return nil, errors.Join(fmt.Errorf("socket option %d: %w", o.name, err), file.Close())
		}
	}
	if err := unix.Bind(fd, sockaddr(at)); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if err := unix.Listen(fd, backlog); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// socket makes a plain TCP socket; Go's own listeners are MPTCP since 1.24, which sockmap, MD5 and
// others do not take.
func socket(at netip.AddrPort) (int, error) {
	family := unix.AF_INET6
	if at.Addr().Is4() {
		family = unix.AF_INET
	}
	kind := unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
	fd, err := unix.Socket(family, kind, unix.IPPROTO_TCP)
	if err != nil {
		return -1, err
	}
	// Connections of an earlier life in TIME_WAIT are no obstacle; a living listener still is.
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	if family == unix.AF_INET6 && !at.Addr().IsUnspecified() {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); err != nil {
			return -1, errors.Join(err, unix.Close(fd))
		}
	}
	return fd, nil
}

func sockaddr(at netip.AddrPort) unix.Sockaddr {
	if at.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()}
}
