package listen

import (
	"fmt"
	"net/netip"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Addr is where a socket listens.
type Addr struct {
	Network string // TCP or Unix
	Target  string // host:port, or a path
}

// String is host:port or unix:PATH.
func (a Addr) String() string { return Spec{Network: a.Network, Target: a.Target}.String() }

// Address is where a socket listens, port 0 resolved.
func Address(file *os.File) (Addr, error) {
	name, err := unix.Getsockname(int(file.Fd()))
	if err != nil {
		return Addr{}, fmt.Errorf("address of a listener: %w", err)
	}
	if local, is := name.(*unix.SockaddrUnix); is {
		return Addr{Unix, local.Name}, nil
	}
	at, err := addrPort(name)
	if err != nil {
		return Addr{}, err
	}
	return Addr{TCP, at.String()}, nil
}

// match gives each address the sockets that are its own. An exact address goes before port 0, and a
// systemd name before an address that somebody wrote beside it.
func (p Plan) match(have []*os.File) ([][]*os.File, error) {
	of := make([][]*os.File, len(p.Specs))
	for _, f := range have {
		at, err := Address(f)
		if err != nil {
			return nil, err
		}
		best, rank := -1, 0
		for i, spec := range p.Specs {
			if r := p.fits(spec, at); r > rank {
				best, rank = i, r
			}
		}
		if best >= 0 {
			of[best] = append(of[best], f)
		}
	}
	return of, nil
}

// fits ranks how well a socket's address is that of a spec; 0: not at all.
func (p Plan) fits(spec Spec, at Addr) int {
	switch {
	case spec.Network == Systemd && slices.Contains(p.Inherited.addresses(spec.Target), at):
		return 3
	case spec.Network != at.Network:
		return 0
	case spec.Network == Unix && spec.Target == at.Target:
		return 2
	case spec.Network != TCP:
		return 0
	}
	wanted, err := resolve(spec.Target)
	if err != nil {
		return 0 // opening it says so
	}
	// A socket of ours was bound to an address that parses.
	local, _ := netip.ParseAddrPort(at.Target)
	switch {
	case wanted == local:
		return 2
	case wanted.Port() == 0 && wanted.Addr() == local.Addr():
		return 1
	}
	return 0
}
