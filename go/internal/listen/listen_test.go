package listen

import (
	"context"
	"errors"
	"net"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

func TestEveryWorkerGetsASocketOfTheSamePort(t *testing.T) {
	files, err := Open(context.Background(), "127.0.0.1:0", 3)
	if err != nil {
		t.Fatal(err)
	}
	first, err := Address(files[0])
	if err != nil || first.Port() == 0 {
		t.Fatal(first, err)
	}
	for _, f := range files {
		at, err := Address(f)
		if err != nil || at != first {
			t.Errorf("%v, %v; want %v", at, err, first)
		}
		protocol, err := unix.GetsockoptInt(int(f.Fd()), unix.SOL_SOCKET, unix.SO_PROTOCOL)
		if err != nil || protocol != unix.IPPROTO_TCP {
			t.Errorf("protocol %d, %v: want plain TCP", protocol, err)
		}
		_ = f.Close()
	}
}

func TestASecondDaemonOnThePortIsSeen(t *testing.T) {
	files, err := Open(context.Background(), "127.0.0.1:0", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer files[0].Close()
	at, err := Address(files[0])
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Open(ctx, at.String(), 1); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v: it must still be trying", err)
	}
	_, err = Open(context.Background(), at.String(), 1)
	if !errors.Is(err, ErrInUse) {
		t.Fatalf("got %v, want %v", err, ErrInUse)
	}
}

func TestNoHostIsEveryAddress(t *testing.T) {
	files, err := Open(context.Background(), ":0", 1)
	if err != nil {
		t.Skipf("this host has no IPv6: %v", err)
	}
	defer files[0].Close()
	at, err := Address(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"127.0.0.1", "::1"} {
		conn, err := net.Dial("tcp", net.JoinHostPort(host, strconv.Itoa(int(at.Port()))))
		if err != nil {
			t.Errorf("%s: %v", host, err)
			continue
		}
		_ = conn.Close()
	}
}
