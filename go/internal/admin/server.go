package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	pb "sluice/proto/sluice/v1"
)

const (
	requestBytesMax = 1 << 20 // idsMax ids fit
	callsMax        = 64      // of one connection at a time
	handshakeMax    = 5 * time.Second
	staleDialMax    = time.Second
	keepaliveTime   = 30 * time.Second
	keepaliveMin    = 10 * time.Second
	socketMode      = 0o600
)

// ErrInUse says that another daemon listens on the admin socket.
var ErrInUse = errors.New("another daemon listens there")

// Listen binds the admin socket, for its owner alone. A socket that nobody listens on any more is
// taken away first; a live one is ErrInUse.
func Listen(path string) (net.Listener, error) {
	if err := removeStale(path); err != nil {
		return nil, fmt.Errorf("admin socket %s: %w", path, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("admin socket: %w", err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("admin socket: %w", err)
	}
	// Whoever connects before the mode is set meets the check of peer credentials.
	if err := os.Chmod(path, socketMode); err != nil {
		_ = listener.Close() // the first error is the one to tell
		return nil, fmt.Errorf("admin socket: %w", err)
	}
	return listener, nil
}

func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("there is a file of that name which is no socket; name another path")
	}
	conn, err := net.DialTimeout("unix", path, staleDialMax)
	if err == nil {
		_ = conn.Close() // nothing was sent on it
		return ErrInUse
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("ask whether anybody listens: %w", err)
	}
	return os.Remove(path)
}

// NewUnixServer serves on the socket of Listen. Close the service before a graceful stop.
func NewUnixServer(s *Service) *grpc.Server { return newServer(s, grpc.Creds(ownPeers())) }

// TCP says how callers over the network prove themselves: by certificates, a token, or both.
type TCP struct {
	TLS   *tls.Config // nil: plain
	Token []byte      // empty: none
}

// NewTCPServer serves on an address of the operator's choice.
func NewTCPServer(s *Service, o TCP) (*grpc.Server, error) {
	mutual := o.TLS != nil && o.TLS.ClientAuth == tls.RequireAndVerifyClientCert
	if !mutual && len(o.Token) == 0 {
		return nil, errors.New("an admin address needs mutual TLS or a token, or anybody could call")
	}
	options := []grpc.ServerOption{grpc.Creds(insecure.NewCredentials())}
	if o.TLS != nil {
		options = []grpc.ServerOption{grpc.Creds(credentials.NewTLS(o.TLS))}
	}
	if len(o.Token) > 0 {
		t := token(sha256.Sum256(o.Token))
		options = append(options, grpc.UnaryInterceptor(t.unary), grpc.StreamInterceptor(t.stream))
	}
	return newServer(s, options...), nil
}

func newServer(s *Service, options ...grpc.ServerOption) *grpc.Server {
	server := grpc.NewServer(append(options,
		grpc.ForceServerCodecV2(newLegible()),
		grpc.MaxRecvMsgSize(requestBytesMax),
		grpc.MaxConcurrentStreams(callsMax),
		grpc.ConnectionTimeout(handshakeMax),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveTime}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: keepaliveMin, PermitWithoutStream: true,
		}),
	)...)
	pb.RegisterAdminServer(server, s)
	grpc_health_v1.RegisterHealthServer(server, &health{service: s})
	reflection.Register(server)
	return server
}

// token is the SHA-256 of the token, so that comparing takes the same time for every length.
type token [sha256.Size]byte

func (t token) check(ctx context.Context) error {
	md, _ := metadata.FromIncomingContext(ctx)
	for _, value := range md.Get("authorization") {
		shown, found := strings.CutPrefix(value, "Bearer ")
		sum := sha256.Sum256([]byte(shown))
		if found && subtle.ConstantTimeCompare(sum[:], t[:]) == 1 {
			return nil
		}
	}
	return status.Error(codes.Unauthenticated, "the admin address wants its token")
}

func (t token) unary(ctx context.Context, request any, _ *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler) (any, error) {
	if err := t.check(ctx); err != nil {
		return nil, err
	}
	return handler(ctx, request)
}

func (t token) stream(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo,
	handler grpc.StreamHandler) error {
	if err := t.check(stream.Context()); err != nil {
		return err
	}
	return handler(server, stream)
}
