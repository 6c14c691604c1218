package lane

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

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
type Bell struct{ file *os.File }

// NewBell makes an eventfd.
func NewBell() (*Bell, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("make an eventfd: %w", err)
	}
	return &Bell{os.NewFile(uintptr(fd), "eventfd")}, nil
}

// DuplicateBell makes a bell of another descriptor of the same eventfd.
func DuplicateBell(file *os.File) (*Bell, error) {
	// Both share O_NONBLOCK, which an eventfd of ours has from its birth.
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("duplicate an eventfd: %w", err)
	}
	return &Bell{os.NewFile(uintptr(fd), "eventfd")}, nil
}

// File is the descriptor, to be handed to the data plane.
func (b *Bell) File() *os.File { return b.file }

// Ring wakes whoever waits.
func (b *Bell) Ring() error {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, err := b.file.Write(one[:])
	return err
}

// Wait blocks until the bell was rung since the last Wait, or for at most d. It tells which.
func (b *Bell) Wait(d time.Duration) (bool, error) {
	if err := b.file.SetReadDeadline(time.Now().Add(d)); err != nil {
		return false, fmt.Errorf("eventfd: %w", err)
	}
	var count [8]byte
	_, err := b.file.Read(count[:])
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return false, nil
	}
	return err == nil, err
}

// Close gives the descriptor back; a Wait under way ends with os.ErrClosed.
func (b *Bell) Close() error { return b.file.Close() }
