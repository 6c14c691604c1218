package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"strconv"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// caller names who asks: as he says himself, else as the connection knows him.
func caller(ctx context.Context, says string) string {
	if says != "" {
		return says
	}
	p, ok := peer.FromContext(ctx)
	if !ok {
		return "unknown"
	}
	switch info := p.AuthInfo.(type) {
	case unixCaller:
		return info.name()
	case credentials.TLSInfo:
		if chains := info.State.VerifiedChains; len(chains) > 0 && len(chains[0]) > 0 {
			return "certificate " + chains[0][0].Subject.CommonName
		}
	}
	return "token from " + p.Addr.String()
}

// unixCaller is the process at the other end of a Unix socket, by the kernel's word at the time it
// connected.
type unixCaller struct {
	credentials.CommonAuthInfo
	uid uint32
	pid int32
}

// AuthType names the way of proof.
func (unixCaller) AuthType() string { return "unix-peer" }

func (c unixCaller) name() string {
	id := strconv.FormatUint(uint64(c.uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return "uid " + id
}

// peerCredentials lets the daemon's own user and root in.
type peerCredentials struct{ uid uint32 }

func ownPeers() credentials.TransportCredentials {
	return peerCredentials{uid: uint32(os.Geteuid())}
}

var errNotUnix = errors.New("the admin socket is a Unix socket")

func (c peerCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, nil, errNotUnix
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, nil, fmt.Errorf("ask for the caller: %w", err)
	}
	var found *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		found, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(err, failed); err != nil {
		return nil, nil, fmt.Errorf("ask for the caller: %w", err)
	}
	if !c.lets(found.Uid) {
		return nil, nil, fmt.Errorf("uid %d (pid %d) is neither root nor the daemon's user %d",
			found.Uid, found.Pid, c.uid)
	}
	info := unixCaller{uid: found.Uid, pid: found.Pid}
	info.SecurityLevel = credentials.PrivacyAndIntegrity // it never leaves this kernel
	return conn, info, nil
}

func (c peerCredentials) lets(uid uint32) bool { return uid == 0 || uid == c.uid }

// ClientHandshake is never used: the calling side needs no proof of the kernel.
func (peerCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn,
	credentials.AuthInfo, error) {
	return nil, nil, errNotUnix
}

func (peerCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "unix-peer"}
}

func (c peerCredentials) Clone() credentials.TransportCredentials { return c }

func (peerCredentials) OverrideServerName(string) error { return nil }
