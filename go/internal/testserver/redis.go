package testserver

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// RedisServer is a running Redis of one test. It writes nothing to the disk: after Stop or Kill it
// comes back empty. Its methods are for the goroutine of the test.
type RedisServer struct {
	// Addr is where it listens, host:port.
	Addr string
	// URL names database 0, for go-redis.
	URL string

	t       testing.TB
	path    string
	dir     string
	args    []string
	running *process
	paused  bool
}

// Redis starts a server for this test alone. Arguments are those of redis-server, as
// "--requirepass", "secret".
func Redis(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		missing(t, fmt.Sprintf("no Redis here; on Debian: apt-get install redis-server: %v", err))
	}
	dir, err := folder("redis", nil)
	if err != nil {
		t.Fatalf("start Redis: %v", err)
	}
	s := &RedisServer{t: t, path: path, dir: dir}
	t.Cleanup(func() {
		s.Kill()
		_ = os.RemoveAll(dir)
	})
	// Another process may take the port between the look and the bind.
	for range startTries {
		port, lookErr := freePort()
		if lookErr != nil {
			t.Fatalf("start Redis: %v", lookErr)
		}
		s.Addr = fmt.Sprintf("127.0.0.1:%d", port)
		s.URL = "redis://" + s.Addr + "/0"
		s.args = append([]string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1",
			"--save", "", "--appendonly", "no", "--dir", dir}, args...)
		if err = s.start(); err == nil {
			return s
		}
	}
	t.Fatalf("start Redis: %v", err)
	return nil
}

// Start starts a stopped server again, empty and at the same address.
func (s *RedisServer) Start() {
	s.t.Helper()
	if err := s.start(); err != nil {
		s.t.Fatalf("start Redis: %v", err)
	}
}

// Stop ends the server in order. One that does not run stays so.
func (s *RedisServer) Stop() { s.t.Helper(); s.end(syscall.SIGTERM) }

// Kill ends the server at once.
func (s *RedisServer) Kill() { s.t.Helper(); s.end(syscall.SIGKILL) }

// Pause lets connections hang: the kernel takes what comes, nobody answers. Data stays.
func (s *RedisServer) Pause() { s.t.Helper(); s.signal(syscall.SIGSTOP); s.paused = true }

// Resume ends Pause.
func (s *RedisServer) Resume() { s.t.Helper(); s.signal(syscall.SIGCONT); s.paused = false }

func (s *RedisServer) signal(sig syscall.Signal) {
	s.t.Helper()
	if s.running == nil {
		s.t.Fatalf("%v: this Redis does not run", sig)
	}
	if err := s.running.command.Process.Signal(sig); err != nil {
		s.t.Fatalf("%v: %v", sig, err)
	}
}

func (s *RedisServer) start() error {
	if s.running != nil {
		return nil
	}
	p, err := launch(s.path, s.args, s.dir, nil, syscall.SIGKILL)
	if err != nil {
		return err
	}
	if err := p.await(func() error { return ping(s.Addr) }); err != nil {
		_ = p.end(syscall.SIGKILL)
		return err
	}
	s.running = p
	return nil
}

func (s *RedisServer) end(with syscall.Signal) {
	s.t.Helper()
	if s.running == nil {
		return
	}
	if s.paused {
		s.Resume() // a stopped process takes no SIGTERM
	}
	p := s.running
	s.running = nil
	if err := p.end(with); err != nil {
		s.t.Fatalf("end Redis: %v", err)
	}
}

// ping asks whether a Redis answers; one that wants a password does.
func ping(addr string) error {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	reply, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err
	}
	if !strings.HasPrefix(reply, "+PONG") && !strings.HasPrefix(reply, "-NOAUTH") {
		return fmt.Errorf("reply to PING: %s", strings.TrimSpace(reply))
	}
	return nil
}
