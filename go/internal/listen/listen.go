// Package listen opens the sockets that senders connect to, for a data plane that never binds.
//
// It accepts nothing, knows no protocol above TCP, and starts no process.
//
// Each address gets rows of sockets, each row with one file per worker. On TCP these are as many
// SO_REUSEPORT sockets, because a multishot accept on a shared one gives every connection to one
// worker. A Unix socket, or one that systemd made, cannot be opened again: its row holds
// duplicates, which the data plane tells by their inode and accepts from one connection at a time.
// A socket that nobody accepts on is a black hole, so where there are more sockets than workers,
// there are more rows.
//
// What was opened once is kept as long as anything can be in its queue: a Plan takes up the sockets
// that a living data plane handed over, and opens only what is missing.
package listen

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// The networks of a Spec.
const (
	TCP     = "tcp"
	Unix    = "unix"
	Systemd = "systemd"
)

// ErrInUse says that another program listens on the address: the operator's to mend.
var ErrInUse = errors.New("the address is in use by another program")

// Spec is one address with how its sockets are to be. The zero of an option is the kernel's
// default, except for Backlog.
type Spec struct {
	Network string // TCP, Unix or Systemd
	// Target is host:port, an absolute path, or the name that the socket unit gave.
	Target string
	// Backlog is how many connections may wait to be accepted; 0: 4096. The kernel cuts it to
	// net.core.somaxconn.
	Backlog int
	// DeferAccept is how long a connection without data is kept from the worker (tcp(7)); whole
	// seconds, rounded up.
	DeferAccept time.Duration
	// KeepAlive is the silence after which the kernel asks whether the peer is there; a peer that
	// does not answer is given up after twice that time. Whole seconds, rounded up.
	KeepAlive time.Duration
	// Mode is what a Unix socket's path may be used by.
	Mode fs.FileMode
}

// String is the address as a config has it.
func (s Spec) String() string {
	if s.Network == TCP {
		return s.Target
	}
	return s.Network + ":" + s.Target
}

// Plan is what to listen on, and what there is already.
type Plan struct {
	Specs   []Spec
	Workers int // files in a row, at least 1
	// Have are the sockets that a data plane handed over, in any order. They stay the caller's.
	Have [][]*os.File
	// Inherited are systemd's; nil: there are none.
	Inherited *Inherited
}

// Set is the outcome of a Plan.
type Set struct {
	// Rows are for the data plane; each has a file for each worker, and no file is in two of them.
	Rows [][]*os.File
	// Spec says for each row which of the plan's addresses it belongs to.
	Spec []int
	// Opened are the files of Rows that were not in Have; Unwanted those of Have that are in no row.
	Opened, Unwanted []*os.File

	made []Spec // Unix sockets that were not there before
}

// Abandon closes what the plan opened, and leaves what there was before.
func (s *Set) Abandon() {
	closeAll(s.Opened)
	_ = Unlink(s.made) // what stays refuses connections, and the next one to open it removes it
}

// Settle closes what the plan does not want any more. No data plane may need it by then.
func (s *Set) Settle() { closeAll(s.Unwanted) }

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // a socket has nothing to write
	}
}

// Open opens what is missing. When that fails, nothing that was there is closed.
func (p Plan) Open(ctx context.Context) (*Set, error) {
	have := slices.Concat(p.Have...)
	matched, err := p.match(have)
	if err != nil {
		return nil, err
	}
	set := &Set{}
	for i, spec := range p.Specs {
		if err := set.add(ctx, i, spec, p, matched[i]); err != nil {
			set.Abandon()
			return nil, fmt.Errorf("listen on %s: %w", spec, err)
		}
	}
	used := slices.Concat(set.Rows...)
	set.Unwanted = slices.DeleteFunc(have, func(f *os.File) bool { return slices.Contains(used, f) })
	return set, nil
}

// add makes the rows of one address.
func (s *Set) add(ctx context.Context, index int, spec Spec, p Plan, have []*os.File) error {
	files, fresh, err := sockets(ctx, spec, p, have)
	s.Opened = append(s.Opened, fresh...)
	if err != nil {
		return err
	}
	if spec.Network == Unix && len(fresh) > 0 {
		s.made = append(s.made, spec)
	}
	for _, f := range files {
		if err := tune(f, spec); err != nil {
			return err
		}
	}
	rows, copies, err := spread(files, p.Workers)
	s.Opened = append(s.Opened, copies...)
	if err != nil {
		return err
	}
	for _, row := range rows {
		s.Rows, s.Spec = append(s.Rows, row), append(s.Spec, index)
	}
	return nil
}

// sockets are those of one address, each once, the ones there are first. Fresh ones are opened, and
// the caller's to close even where there is an error.
func sockets(
	ctx context.Context, spec Spec, p Plan, have []*os.File,
) (all, fresh []*os.File, _ error) {
	all, err := distinct(have)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case spec.Network == Systemd:
		if fresh, err = p.Inherited.take(spec.Target, all); err == nil && len(all)+len(fresh) == 0 {
			err = p.Inherited.lacks(spec.Target)
		}
	case spec.Network == Unix && len(all) > 0 && isSocket(spec.Target):
		err = os.Chmod(spec.Target, spec.Mode.Perm())
	case spec.Network == Unix:
		// Where somebody removed the path, nobody can connect to what there is.
		all = nil
		fresh, err = openUnix(ctx, spec)
	case spec.Network == TCP && len(all) < p.Workers:
		fresh, err = openTCP(ctx, spec, all, p.Workers-len(all))
	}
	return append(all, fresh...), fresh, err
}

// distinct leaves out what is a duplicate of another one.
func distinct(files []*os.File) ([]*os.File, error) {
	var list []*os.File
	seen := map[uint64]bool{}
	for _, f := range files {
		inode, err := inodeOf(f)
		if err != nil {
			return nil, err
		}
		if !seen[inode] {
			seen[inode], list = true, append(list, f)
		}
	}
	return list, nil
}

func inodeOf(file *os.File) (uint64, error) {
	var s unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &s); err != nil {
		return 0, fmt.Errorf("look at a listening socket: %w", err)
	}
	return s.Ino, nil
}

// spread puts sockets into rows, worker after worker, and fills the last row with duplicates: every
// socket has an acceptor then, and every worker one in each row.
func spread(files []*os.File, workers int) (rows [][]*os.File, copies []*os.File, _ error) {
	for part := range slices.Chunk(files, workers) {
		row := slices.Clone(part)
		for i := len(part); i < workers; i++ {
			copied, err := duplicate(part[i%len(part)])
			if err != nil {
				return nil, copies, err
			}
			row, copies = append(row, copied), append(copies, copied)
		}
		rows = append(rows, row)
	}
	return rows, copies, nil
}

func duplicate(file *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("duplicate a listening socket: %w", err)
	}
	return os.NewFile(uintptr(fd), file.Name()), nil
}
