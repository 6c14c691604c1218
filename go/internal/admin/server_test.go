package admin

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	reflection "google.golang.org/grpc/reflection/grpc_reflection_v1"

	pb "sluice/proto/sluice/v1"
)

func TestTheSocketIsItsOwnersAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "admin.sock")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("mode is %v", info.Mode())
	}
	if _, err := Listen(path); !errors.Is(err, ErrInUse) {
		t.Errorf("a second daemon hears %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAStaleSocketIsTakenAwayAndAFileIsNot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false) // as after kill -9
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Listen(path)
	if err != nil {
		t.Fatalf("over a stale socket: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path); err == nil {
		t.Error("a file was taken for a socket")
	}
	if text, err := os.ReadFile(path); string(text) != "precious" {
		t.Errorf("the file is %q, %v", text, err)
	}
}

func TestPeersAreKnownByTheKernel(t *testing.T) {
	b := newBench(t, nil)
	path := filepath.Join(t.TempDir(), "admin.sock")
	l, err := Listen(path)
	b.must(err)
	server := NewUnixServer(b.service)
	go func() { _ = server.Serve(l) }() // ends with Stop
	defer server.Stop()
	conn, err := grpc.NewClient("unix:"+path,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	b.must(err)
	defer func() { b.must(conn.Close()) }()
	if _, err := pb.NewAdminClient(conn).GetStatus(t.Context(), &pb.GetStatusRequest{}); err != nil {
		t.Errorf("the own user is refused: %v", err)
	}
	stream, err := reflection.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	b.must(err)
	b.must(stream.Send(&reflection.ServerReflectionRequest{
		MessageRequest: &reflection.ServerReflectionRequest_ListServices{},
	}))
	r, err := stream.Recv()
	b.must(err)
	found := map[string]bool{}
	for _, s := range r.GetListServicesResponse().GetService() {
		found[s.GetName()] = true
	}
	if !found["sluice.v1.Admin"] || !found["grpc.health.v1.Health"] {
		t.Errorf("reflection lists %v", found)
	}
}

func TestStrangersOnTheSocketAreRefused(t *testing.T) {
	own := peerCredentials{uid: 1000}
	for uid, want := range map[uint32]bool{0: true, 1000: true, 1001: false, 65534: false} {
		if own.lets(uid) != want {
			t.Errorf("uid %d: %v, want %v", uid, !want, want)
		}
	}
	here, there := net.Pipe()
	if _, _, err := own.ServerHandshake(here); !errors.Is(err, errNotUnix) {
		t.Errorf("a pipe: %v", err)
	}
	if err := errors.Join(here.Close(), there.Close()); err != nil {
		t.Error(err)
	}
}

func TestAnAddressWantsItsToken(t *testing.T) {
	b := newBench(t, nil)
	if _, err := NewTCPServer(b.service, TCP{}); err == nil {
		t.Error("an address without any proof is served")
	}
	server, err := NewTCPServer(b.service, TCP{Token: []byte("open sesame")})
	b.must(err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	b.must(err)
	go func() { _ = server.Serve(l) }() // ends with Stop
	defer server.Stop()
	conn, err := grpc.NewClient(l.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	b.must(err)
	defer func() { b.must(conn.Close()) }()
	call := func(token string) error {
		ctx := t.Context()
		if token != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", token)
		}
		if _, err := pb.NewAdminClient(conn).GetStatus(ctx, &pb.GetStatusRequest{}); err != nil {
			return err
		}
		stream, err := pb.NewAdminClient(conn).WatchStatus(ctx, &pb.WatchStatusRequest{})
		b.must(err)
		_, err = stream.Recv()
		return err
	}
	for _, wrong := range []string{"", "open sesame", "Bearer open", "Bearer open sesame "} {
		refused(t, call(wrong), codes.Unauthenticated, "token")
	}
	if err := call("Bearer open sesame"); err != nil {
		t.Errorf("the right token: %v", err)
	}
}

func TestWhoAsksIsNamed(t *testing.T) {
	if got := caller(context.Background(), "alice"); got != "alice" {
		t.Errorf("who says it: %q", got)
	}
	if got := caller(context.Background(), ""); got != "unknown" {
		t.Errorf("nobody: %q", got)
	}
	if got := (unixCaller{uid: 0}).name(); got != "root" && got != "uid 0" {
		t.Errorf("uid 0: %q", got)
	}
	if got := (unixCaller{uid: 4_000_000_000}).name(); got != "uid 4000000000" {
		t.Errorf("a uid without a name: %q", got)
	}
}
