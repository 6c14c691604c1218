package http

import (
	"bufio"
	"errors"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// socket is the connection at the bottom, under proxies and TLS. It tells what only the kernel
// knows: that a write has to wait, and that something lies unread. One goroutine writes at a time
// while full is set.
type socket struct {
	net.Conn
	system syscall.RawConn // nil: not a socket of the kernel's, cannot be asked
	// full is called once, before the first write that has to wait for the peer to read.
	full func()

	out     []byte
	wrote   int
	failed  error
	silent  bool
	attempt func(fd uintptr) bool // bound once: a closure for each call would be garbage
	look    func(fd uintptr)
}

func newSocket(c net.Conn) *socket {
	s := &socket{Conn: c}
	s.attempt, s.look = s.tryWrite, s.peek
	if asked, ok := c.(syscall.Conn); ok {
		s.system, _ = asked.SyscallConn()
	}
	return s
}

// Write writes all of p, as any connection does.
func (s *socket) Write(p []byte) (int, error) {
	if s.full == nil {
		return s.Conn.Write(p)
	}
	taken := 0
	if s.system != nil {
		s.out = p
		err := s.system.Write(s.attempt)
		s.out = nil
		switch {
		case err != nil:
			return 0, err // closed, or past its deadline
		case s.failed == nil && s.wrote == len(p):
			return len(p), nil
		case s.failed == nil:
			taken = s.wrote
		case !errors.Is(s.failed, syscall.EAGAIN):
			return 0, &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", s.failed)}
		}
	}
	full := s.full
	s.full = nil
	full()
	n, err := s.Conn.Write(p[taken:])
	return taken + n, err
}

// tryWrite gives the kernel what it takes at once.
func (s *socket) tryWrite(fd uintptr) bool {
	for {
		s.wrote, s.failed = syscall.Write(int(fd), s.out)
		if s.failed != syscall.EINTR {
			return true
		}
	}
}

// quiet tells whether the stream is open with nothing to read. One that cannot be asked is not
// trusted.
func (s *socket) quiet() bool {
	if s.system == nil {
		return false
	}
	s.silent = false
	return s.system.Control(s.look) == nil && s.silent
}

func (s *socket) peek(fd uintptr) {
	var b [1]byte
	_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	s.silent = errors.Is(err, syscall.EAGAIN)
}

// unsent is how many bytes the kernel of the peer has not confirmed; 0 where it cannot be asked.
func (s *socket) unsent() int {
	count := 0
	if s.system != nil {
		_ = s.system.Control(func(fd uintptr) { count, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
	}
	return count
}

// records hands its bytes to TLS one record at a time. A TLS connection reads ahead into a buffer
// that nobody can look into; here it is seen whether a record lies behind the last one used.
type records struct {
	net.Conn
	reader *bufio.Reader
	left   int // bytes of the record that is being handed over
}

func newRecords(c net.Conn) *records {
	return &records{Conn: c, reader: bufio.NewReaderSize(c, 4<<10)}
}

// recordHead is the length of a record's header: type, version, length (RFC 8446 §5.1).
const recordHead = 5

func (r *records) Read(p []byte) (int, error) {
	if r.left == 0 {
		head, err := r.reader.Peek(recordHead)
		if err != nil {
			return 0, err
		}
		r.left = recordHead + int(head[3])<<8 + int(head[4])
	}
	n, err := r.reader.Read(p[:min(len(p), r.left)])
	r.left -= n
	return n, err
}

func (r *records) quiet() bool { return r.left == 0 && r.reader.Buffered() == 0 }

// led is a stream whose first bytes were read already.
type led struct {
	net.Conn
	first []byte
}

func (l *led) Read(p []byte) (int, error) {
	if len(l.first) == 0 {
		return l.Conn.Read(p)
	}
	n := copy(p, l.first)
	l.first = l.first[n:]
	return n, nil
}
