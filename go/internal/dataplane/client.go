package dataplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	pb "sluice/proto/sluice/v1"
	"sluice/shm-abi/shmabi"
)

// ErrRefused says that a data plane did not take a snapshot; it keeps its last one.
var ErrRefused = errors.New("the data plane refused the config")

// Client is the gRPC side of one data plane.
type Client struct {
	conn *grpc.ClientConn
	api  pb.DataPlaneClient
}

// Dial makes a client for a socket. It does not wait for anybody to listen there.
func Dial(socket string) (*Client, error) {
	conn, err := grpc.NewClient("unix:"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()), // a socket of our own directory
		// A data plane that was just started binds within milliseconds; the default waits a second.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: 5 * time.Millisecond, Multiplier: 1.3, MaxDelay: 100 * time.Millisecond,
			},
			MinConnectTimeout: time.Second,
		}),
		grpc.WithDisableServiceConfig())
	if err != nil {
		return nil, fmt.Errorf("dial the data plane: %w", err)
	}
	return &Client{conn, pb.NewDataPlaneClient(conn)}, nil
}

// Close ends the connection.
func (c *Client) Close() { _ = c.conn.Close() }

// Hello asks who is there, waiting for the socket as long as ctx allows.
func (c *Client) Hello(ctx context.Context, journal [16]byte) (*pb.HelloReply, error) {
	return c.api.Hello(ctx, &pb.HelloRequest{
		LayoutHash: shmabi.LayoutHash, JournalId: journal[:],
	}, grpc.WaitForReady(true))
}

// Apply hands a snapshot over and waits until every worker accepts under it.
func (c *Client) Apply(ctx context.Context, s *pb.Snapshot) error {
	reply, err := c.api.Apply(ctx, s)
	if err != nil {
		return fmt.Errorf("apply config %d: %w", s.GetConfigVersion(), err)
	}
	if !reply.GetAccepted() {
		return fmt.Errorf("%w: %s", ErrRefused, reply.GetReason())
	}
	return nil
}

// Drain asks it to stop accepting, finish and exit.
func (c *Client) Drain(ctx context.Context, grace time.Duration) error {
	_, err := c.api.Drain(ctx, &pb.DrainRequest{GraceNs: uint64(grace)})
	return err
}

// State is what it is doing.
func (c *Client) State(ctx context.Context) (*pb.StateReply, error) {
	return c.api.State(ctx, &pb.StateRequest{})
}

// TakeFds asks a living data plane for duplicates of its descriptors.
func TakeFds(socket string, patience time.Duration) (Fds, error) {
	f, err := takeFds(socket, patience)
	if err != nil {
		return Fds{}, fmt.Errorf("take the data plane's descriptors: %w", err)
	}
	return f, nil
}

func takeFds(socket string, patience time.Duration) (Fds, error) {
	conn, err := net.DialTimeout("unix", socket, patience)
	if err != nil {
		return Fds{}, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return Fds{}, err
	}
	text, control := make([]byte, 64), make([]byte, unix.CmsgSpace(4*maxFds))
	n, controlLength, flags, _, err := conn.(*net.UnixConn).ReadMsgUnix(text, control)
	if err != nil {
		return Fds{}, err
	}
	files, err := received(control[:controlLength])
	if err != nil {
		return Fds{}, err
	}
	var workers, listeners int
	_, err = fmt.Sscanf(string(text[:n]), "%d %d", &workers, &listeners)
	if err == nil && flags&unix.MSG_CTRUNC != 0 {
		err = errors.New("descriptors were cut off; is RLIMIT_NOFILE reached?")
	}
	var fds Fds
	if err == nil {
		fds, err = split(files, workers, listeners)
	}
	if err != nil {
		Fds{RequestBells: files}.Close()
		return Fds{}, err
	}
	return fds, nil
}

// maxFds is the kernel's bound on one message (SCM_MAX_FD).
const maxFds = 253

func received(control []byte) ([]*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, err
	}
	var files []*os.File
	var faults []error
	for i := range messages {
		numbers, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue
		}
		for _, fd := range numbers {
			file, err := hold(fd)
			if err != nil {
				faults = append(faults, err)
				continue
			}
			files = append(files, file)
		}
	}
	if err := errors.Join(faults...); err != nil {
		Fds{RequestBells: files}.Close()
		return nil, err
	}
	return files, nil
}

// hold makes a file of a descriptor, or closes it. The runtime's poller must not know it: each ring
// of a doorbell would wake that, and os.NewFile gives it what has O_NONBLOCK. So the descriptor
// takes the place of one that has not.
func hold(fd int) (*os.File, error) {
	defer unix.Close(fd)
	file, err := os.Open(os.DevNull)
	if err != nil {
		return nil, fmt.Errorf("make room for a descriptor: %w", err)
	}
	if err := unix.Dup3(fd, int(file.Fd()), unix.O_CLOEXEC); err != nil {
		_ = file.Close() // nothing was written
		return nil, fmt.Errorf("duplicate a descriptor: %w", err)
	}
	return file, nil
}
