package e2e

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// delivery is one request that the destination got.
type delivery struct {
	method, target string
	fields         []field // as they came, with their case
	body           string
	key            string // Idempotency-Key
}

// sink is a destination that keeps all that it is sent. It reads the wire itself, because a library
// would hide the case and order of fields.
type sink struct {
	url      string
	code     atomic.Int64 // what it answers
	digest   bool         // keep bodies as their hex SHA-256 alone
	listener net.Listener
	work     sync.WaitGroup

	mu    sync.Mutex
	got   []delivery
	conns map[net.Conn]bool
	ended bool
	fault error
}

func newSink(t testing.TB) *sink {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := &sink{url: "http://" + l.Addr().String() + "/in", listener: l, conns: map[net.Conn]bool{}}
	s.code.Store(200)
	s.work.Go(s.accept)
	t.Cleanup(func() {
		_ = l.Close()
		s.mu.Lock()
		s.ended = true
		for c := range s.conns {
			_ = c.Close()
		}
		s.mu.Unlock()
		s.work.Wait()
		if s.fault != nil {
			t.Errorf("the destination was sent what is no request: %v", s.fault)
		}
	})
	return s
}

func (s *sink) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[conn] = true
		ended := s.ended
		s.mu.Unlock()
		if ended {
			_ = conn.Close()
			return
		}
		s.work.Go(func() { s.serve(conn) })
	}
}

func (s *sink) serve(conn net.Conn) {
	defer func() {
		_ = conn.Close()
		s.mu.Lock()
		delete(s.conns, conn)
		s.mu.Unlock()
	}()
	r := bufio.NewReader(conn)
	for {
		d, err := readDelivery(r)
		if errors.Is(err, errEnd) {
			return // the connection ended, maybe with its process
		}
		s.mu.Lock()
		if err != nil {
			s.fault = err
			s.mu.Unlock()
			return
		}
		if s.digest {
			d.body = sha256Hex(d.body)
		}
		s.got = append(s.got, d)
		s.mu.Unlock()
		if _, err := fmt.Fprintf(conn, "HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n",
			s.code.Load()); err != nil {
			return
		}
	}
}

func sha256Hex(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// readDelivery reads one request: a head as it stands, and a body of a known length.
func readDelivery(r *bufio.Reader) (delivery, error) {
	var d delivery
	line, err := r.ReadString('\n')
	if err != nil {
		return d, errEnd
	}
	words := strings.Fields(line)
	if len(words) != 3 || words[2] != "HTTP/1.1" {
		return d, fmt.Errorf("request line %q", line)
	}
	d.method, d.target = words[0], words[1]
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return d, errEnd
		}
		line = strings.TrimSuffix(line, "\r\n")
		if line == "" {
			break
		}
		name, text, ok := strings.Cut(line, ": ")
		if !ok {
			return d, fmt.Errorf("field %q", line)
		}
		d.fields = append(d.fields, field{name, text})
	}
	d.key, _ = value(d.fields, "Idempotency-Key")
	length := 0
	if text, ok := value(d.fields, "Content-Length"); ok {
		if length, err = strconv.Atoi(text); err != nil {
			return d, err
		}
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(r, body); err != nil {
		return d, errEnd
	}
	d.body = string(body)
	return d, nil
}

// all is what came so far.
func (s *sink) all() []delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]delivery{}, s.got...)
}

func (s *sink) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.got)
}

// config is the destination's part of a config file. Tests that make it fail are about something
// else than its breaker, which is switched off.
func (s *sink) config(name string) string {
	return fmt.Sprintf("  %s:\n    http: {url: %q}\n    retry: {base: 100ms, max: 1s, attempts: 50}\n"+
		"    breaker: {failures: 0, ratio: 0, inflight: false}\n", name, s.url)
}
