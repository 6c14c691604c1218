package doctor

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"syscall"
)

// ports tries to bind what the daemon will bind.
func ports(h Host, o Options) []Finding {
	var findings []Finding
	for _, address := range o.Addresses {
		name := "port " + address
		path, isUnix := strings.CutPrefix(address, "unix:")
		if isUnix {
			findings = append(findings, socket(h, "socket "+path, path))
			continue
		}
		if unit, is := strings.CutPrefix(address, "systemd:"); is {
			findings = append(findings, good("socket "+address,
				"opened by systemd, by the .socket unit with FileDescriptorName=%s", unit))
			continue
		}
		err := h.Bind("tcp", address)
		switch {
		case err == nil:
			findings = append(findings, good(name, "free"))
		case errors.Is(err, syscall.EADDRINUSE) && o.Running:
			findings = append(findings, good(name, "taken, as it should be while the daemon runs"))
		case errors.Is(err, syscall.EADDRINUSE):
			findings = append(findings, bad(Fail, name, "stop what listens there, or take another port",
				"taken"))
		case errors.Is(err, syscall.EACCES):
			findings = append(findings, bad(Fail, name, h.privileged(address), "not allowed"))
		case errors.Is(err, syscall.EADDRNOTAVAIL):
			findings = append(findings, bad(Fail, name, "take an address that `ip address` shows",
				"not an address of this host"))
		default:
			findings = append(findings, bad(Fail, name, "take another address", "%v", err))
		}
	}
	return findings
}

// privileged is the mend of a port that only root may bind.
func (h Host) privileged(address string) string {
	const mend = "add AmbientCapabilities=CAP_NET_BIND_SERVICE to the unit, let systemd open it " +
		"(address: systemd:NAME), or take another port"
	_, port, err := net.SplitHostPort(address)
	start, _ := h.read("proc/sys/net/ipv4/ip_unprivileged_port_start")
	number, errPort := strconv.Atoi(port)
	first, errStart := strconv.Atoi(start)
	if err != nil || errPort != nil || errStart != nil || number >= first {
		return mend
	}
	return mend + " from " + start + " on"
}

// socket tries the folder only: the daemon replaces a socket that nobody listens on.
func socket(h Host, name, path string) Finding {
	folder := h.existing(path[:strings.LastIndex(path, "/")+1])
	if err := h.Write(folder); err != nil {
		return bad(Fail, name, "make its folder writable for sluice", "%v", err)
	}
	return good(name, "can be made")
}
