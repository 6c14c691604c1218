package listen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// openTCP opens so many more sockets of an address. Where there is none yet, a bind without
// SO_REUSEPORT makes sure that nobody else has it: SO_REUSEPORT would hide a second daemon.
func openTCP(ctx context.Context, spec Spec, have []*os.File, count int) ([]*os.File, error) {
	at, err := resolve(spec.Target)
	if err != nil {
		return nil, err
	}
	if len(have) > 0 {
		at, err = localOf(have[0])
	} else {
		at, err = whenFree(ctx, at)
	}
	if err != nil {
		return nil, err
	}
	var files []*os.File
	for range count {
		file, err := bindTCP(at)
		if errors.Is(err, unix.EADDRINUSE) {
			err = ErrInUse // between the probe and now, or by a socket of another user
		}
		if err != nil {
			return files, err
		}
		files = append(files, file)
	}
	return files, nil
}

// whenFree waits for an address that is taken. Port 0 becomes one that the kernel chooses.
func whenFree(ctx context.Context, at netip.AddrPort) (netip.AddrPort, error) {
	until := time.Now().Add(bindPatience)
	for {
		found, err := probe(at)
		switch {
		case err == nil:
			return found, nil
		case !errors.Is(err, unix.EADDRINUSE):
			return at, err
		case time.Now().After(until):
			return at, ErrInUse
		}
		select {
		case <-ctx.Done():
			return at, ctx.Err()
		case <-time.After(bindInterval):
		}
	}
}

func probe(at netip.AddrPort) (netip.AddrPort, error) {
	fd, err := socketTCP(at)
	if err != nil {
		return at, err
	}
	defer unix.Close(fd)
	if err := bind(fd, at); err != nil {
		return at, err
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return at, err
	}
	return addrPort(name)
}

// bindTCP makes a socket that is tuned and listens later.
func bindTCP(at netip.AddrPort) (*os.File, error) {
	fd, err := socketTCP(at)
	if err != nil {
		return nil, err
	}
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	if err == nil {
		err = bind(fd, at)
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "listener "+at.String()), nil
}

// socketTCP makes a plain TCP socket; Go's own listeners are MPTCP since 1.24, which sockmap, MD5
// and others do not take.
func socketTCP(at netip.AddrPort) (int, error) {
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
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if err == nil && family == unix.AF_INET6 && !at.Addr().IsUnspecified() {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1)
	}
	if err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

func bind(fd int, at netip.AddrPort) error {
	if at.Addr().Is4() {
		return unix.Bind(fd, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()})
	}
	name := &unix.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()}
	if zone := at.Addr().Zone(); zone != "" {
		link, err := net.InterfaceByName(zone)
		if err != nil {
			return fmt.Errorf("interface %s: %w", zone, err)
		}
		name.ZoneId = uint32(link.Index)
	}
	return unix.Bind(fd, name)
}

// resolve makes no host every address of both families.
func resolve(address string) (netip.AddrPort, error) {
	tcp, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return netip.AddrPort{}, err
	}
	at := tcp.AddrPort()
	if !at.Addr().IsValid() {
		at = netip.AddrPortFrom(netip.IPv6Unspecified(), at.Port())
	}
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port()), nil
}

func localOf(file *os.File) (netip.AddrPort, error) {
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
		addr := netip.AddrFrom16(a.Addr)
		if a.ZoneId != 0 {
			zone := strconv.FormatUint(uint64(a.ZoneId), 10)
			if link, err := net.InterfaceByIndex(int(a.ZoneId)); err == nil {
				zone = link.Name
			}
			addr = addr.WithZone(zone)
		}
		return netip.AddrPortFrom(addr, uint16(a.Port)), nil
	}
	return netip.AddrPort{}, fmt.Errorf("a listener of another family: %T", name)
}
