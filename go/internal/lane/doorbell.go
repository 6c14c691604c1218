package lane

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The ticket word: bit 0 asleep, bit 1 wants room in the ring it fills, the rest counts.
const (
	ticketAsleep = 1
	ticketRoom   = 2
	ticketNext   = 4
)

// RingDue tells whether the data plane's eventfd must be written. published: replies were published
// since the last call; freed: room was given back. Call it after both; Go's atomics are
// sequentially consistent, so the stores before it and its load need no fence between them.
func (l *Lane) RingDue(published, freed bool) bool {
	if !published && !freed {
		return false
	}
	ticket := l.header.DPTicket()
	wanted := published || ticket&ticketRoom != 0
	if ticket&ticketAsleep == 0 || !wanted || ticket == l.lastRung {
		return false
	}
	l.lastRung = ticket
	return true
}

// Sleep announces that this side is about to block. False: there is work (a commit past seen, or,
// where wantsRoom is set, room that came since Reply first refused) and the ticket is taken back.
// After a true one Wake ends the sleep.
func (l *Lane) Sleep(seen uint64, wantsRoom bool) bool {
	l.ticket = (l.ticket + ticketNext) &^ (ticketNext - 1)
	word := l.ticket | ticketAsleep
	if wantsRoom {
		word |= ticketRoom
	}
	l.header.StoreCPTicket(word)
	refusedAt := l.replyConsume
	if l.refused {
		refusedAt, l.refused = l.refusedAt, false
	}
	if l.header.Commit() != seen || (wantsRoom && l.header.ReplyConsume() != refusedAt) {
		l.Wake()
		return false
	}
	return true
}

// Wake ends a sleep.
func (l *Lane) Wake() {
	l.ticket = (l.ticket + ticketNext) &^ (ticketNext - 1)
	l.header.StoreCPTicket(l.ticket)
}

// Bell is an eventfd. The consumer of a ring waits on it; the producer writes it.
//
// The runtime's poller is woken by every descriptor of the eventfd that it knows, so it knows one
// of a bell that somebody waits on, and none of another. What does not block is not told to the
// runtime: it would wake its monitor, which for a while looks after the processors every 20 µs.
type Bell struct {
	file *os.File // unknown to the poller
	conn syscall.RawConn

	mu     sync.Mutex
	waiter *waiter // nil: nobody waited yet
	closed bool
}

// waiter is what one goroutine waits with.
type waiter struct {
	file  *os.File // known to the poller
	conn  syscall.RawConn
	until time.Time // its deadline
	rung  bool
	drain func(fd uintptr) (done bool)
}

// NewBell makes an eventfd.
func NewBell() (*Bell, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make an eventfd: %w", err)
	}
	b := &Bell{file: os.NewFile(uintptr(fd), "eventfd")}
	// Only now, since a file that is made of a descriptor with O_NONBLOCK goes to the poller.
	if b.conn, err = b.file.SyscallConn(); err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		_ = b.file.Close() // nothing was written
		return nil, fmt.Errorf("set an eventfd up: %w", err)
	}
	return b, nil
}

// DuplicateBell makes a bell of another descriptor of the same eventfd.
func DuplicateBell(file *os.File) (*Bell, error) {
	b, err := NewBell() // the other one takes the place of its descriptor, unknown to the poller
	if err != nil {
		return nil, err
	}
	// Both share O_NONBLOCK, which an eventfd of ours has from its birth.
	if err := unix.Dup3(int(file.Fd()), int(b.file.Fd()), unix.O_CLOEXEC); err != nil {
		_ = b.file.Close() // nothing was written
		return nil, fmt.Errorf("duplicate an eventfd: %w", err)
	}
	return b, nil
}

// File is the descriptor, to be handed to the data plane.
func (b *Bell) File() *os.File { return b.file }

// Ring wakes whoever waits. Its only error is os.ErrClosed.
func (b *Bell) Ring() error {
	if b.conn.Control(ring) != nil {
		return os.ErrClosed
	}
	return nil
}

// ring fails only where the eventfd counts to its end already, and so has rung.
func ring(fd uintptr) {
	one := uint64(1)
	_, _, _ = syscall.RawSyscall(unix.SYS_WRITE, fd, uintptr(unsafe.Pointer(&one)), 8)
}

// Wait blocks until the bell was rung since the last Wait, or for at most d, and at least half of
// it. It tells which. One goroutine at a time may wait.
func (b *Bell) Wait(d time.Duration) (rung bool, err error) {
	w, err := b.waits()
	if err != nil {
		return false, err
	}
	// To move a deadline costs more than the rest.
	now := time.Now()
	if left := w.until.Sub(now); left < d/2 || left > d {
		w.until = now.Add(d)
		if err := w.file.SetReadDeadline(w.until); err != nil {
			return false, fmt.Errorf("eventfd: %w", err)
		}
	}
	w.rung = false
	switch err := w.conn.Read(w.drain); {
	case err == nil:
		return w.rung, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return false, nil
	default:
		return false, os.ErrClosed // there is no other reason
	}
}

// waits gives what to wait with.
func (b *Bell) waits() (*waiter, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, os.ErrClosed
	}
	if b.waiter != nil {
		return b.waiter, nil
	}
	fd, err := unix.FcntlInt(b.file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("duplicate an eventfd: %w", err)
	}
	w := &waiter{file: os.NewFile(uintptr(fd), "eventfd")}
	if w.conn, err = w.file.SyscallConn(); err != nil {
		_ = w.file.Close() // nothing was written
		return nil, fmt.Errorf("wait on an eventfd: %w", err)
	}
	w.drain = func(fd uintptr) bool {
		var count uint64
		_, _, errno := syscall.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&count)), 8)
		w.rung = errno == 0
		return errno != unix.EAGAIN
	}
	b.waiter = w
	return w, nil
}

// Close gives the descriptors back; a Wait under way ends with os.ErrClosed.
func (b *Bell) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.waiter != nil {
		_ = b.waiter.file.Close() // nothing was written
	}
	return b.file.Close()
}
