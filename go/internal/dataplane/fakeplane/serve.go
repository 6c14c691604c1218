package fakeplane

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	pb "sluice/proto/sluice/v1"
	"sluice/shm-abi/shmabi"
)

type state struct {
	pb.UnimplementedDataPlaneServer
	mu       sync.Mutex
	version  uint32
	draining bool
}

func (p *plane) serve() error {
	l, err := net.Listen("unix", p.path("sock"))
	if err != nil {
		return err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	server := grpc.NewServer()
	pb.RegisterDataPlaneServer(server, p)
	return server.Serve(l)
}

// Hello says who is there.
func (p *plane) Hello(context.Context, *pb.HelloRequest) (*pb.HelloReply, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	reply := &pb.HelloReply{
		Generation: p.generation, Pid: uint32(os.Getpid()), LayoutHash: shmabi.LayoutHash,
		Driver: "fake", ConfigVersion: p.version, Accepting: p.version > 0, Draining: p.draining,
	}
	for worker, l := range p.lanes {
		reply.Lanes = append(reply.Lanes, &pb.Lane{Id: l.id[:], Worker: uint32(worker)})
	}
	return reply, nil
}

// Apply takes a config up.
func (p *plane) Apply(_ context.Context, s *pb.Snapshot) (*pb.ApplyReply, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.is(DiesInApply):
		os.Exit(3)
	case p.is(Slow):
		time.Sleep(100 * time.Millisecond)
	case p.is(Refuses), p.is(RefusesNext) && p.version > 0:
		return &pb.ApplyReply{Reason: "sources[0].path: told to refuse", ConfigVersion: p.version}, nil
	case p.draining:
		return &pb.ApplyReply{Reason: "draining", ConfigVersion: p.version}, nil
	}
	p.version = s.GetConfigVersion()
	return &pb.ApplyReply{Accepted: true, ConfigVersion: p.version}, nil
}

// Drain ends the process soon.
func (p *plane) Drain(context.Context, *pb.DrainRequest) (*pb.DrainReply, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draining = true
	if !p.is(Stubborn) {
		p.close()
		time.AfterFunc(5*time.Millisecond, func() { os.Exit(0) })
	}
	return &pb.DrainReply{}, nil
}

// State is what it does.
func (p *plane) State(context.Context, *pb.StateRequest) (*pb.StateReply, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &pb.StateReply{
		Accepting: p.version > 0, Draining: p.draining, ConfigVersion: p.version,
	}, nil
}

// handOver gives the inherited descriptors to whoever asks.
func (p *plane) handOver() {
	l, err := net.Listen("unix", p.path("fds"))
	if err != nil {
		return
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	listeners, err := strconv.Atoi(p.option["--listeners"])
	if err != nil {
		return
	}
	var fds []int
	for i := range p.workers*listeners + 2*p.workers {
		fds = append(fds, 3+i)
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		if !p.is(KeepsFds) {
			text := fmt.Appendf(nil, "%d %d", p.workers, listeners)
			_, _, _ = conn.(*net.UnixConn).WriteMsgUnix(text, unix.UnixRights(fds...), nil)
		}
		_ = conn.Close()
	}
}

// bytesOf reads hex digits, from a file or as they are.
func bytesOf(text string, file bool) ([]byte, error) {
	if file {
		content, err := os.ReadFile(text)
		if err != nil {
			return nil, err
		}
		text = strings.ReplaceAll(strings.TrimSpace(string(content)), "-", "")
	}
	return hex.DecodeString(text)
}
