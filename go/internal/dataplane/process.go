package dataplane

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Spec is how a data plane is started.
type Spec struct {
	Binary string
	// Dir is the journal's directory on tmpfs, with control, dp/ and lanes/.
	Dir            string
	JournalID      [16]byte
	Generation     uint32
	RingSize       uint64
	MaxConnections int
	LockMemory     bool
	// Output takes its stderr; nil is ours.
	Output io.Writer
	Fds
}

// Fds are the descriptors that each data plane gets: they outlive it, so neither a crash nor an
// upgrade closes a listening socket.
type Fds struct {
	// Listeners holds one listening socket per address and worker.
	Listeners [][]*os.File
	// RequestBells are rung by the data plane, ReplyBells wake it; one per worker each.
	RequestBells, ReplyBells []*os.File
}

// Workers is the number of worker threads.
func (f Fds) Workers() int { return len(f.RequestBells) }

func (f Fds) list() []*os.File {
	var all []*os.File
	for _, address := range f.Listeners {
		all = append(all, address...)
	}
	return append(append(all, f.RequestBells...), f.ReplyBells...)
}

// Close closes all of them.
func (f Fds) Close() {
	for _, file := range f.list() {
		_ = file.Close() // nothing is buffered in a socket or an eventfd of ours
	}
}

// split puts a list back into its parts, as the command line orders them.
func split(all []*os.File, workers, listeners int) (Fds, error) {
	if workers < 1 || len(all) != workers*listeners+2*workers {
		return Fds{}, fmt.Errorf("%d descriptors for %d workers and %d listeners",
			len(all), workers, listeners)
	}
	var f Fds
	for range listeners {
		f.Listeners, all = append(f.Listeners, all[:workers:workers]), all[workers:]
	}
	f.RequestBells, f.ReplyBells = all[:workers:workers], all[workers:]
	return f, nil
}

// Process is a data plane that runs, or ran: our child, or one that outlived another control plane.
type Process struct {
	Pid        int
	Generation uint32
	done       chan struct{}
	exit       string
	child      *os.Process // ours; nil: another process's

	mu    sync.Mutex
	pidfd int // of one that is not our child; -1: none, or given back
}

// Start starts a data plane. It outlives this process if need be.
func Start(s Spec) (*Process, error) {
	cmd := exec.Command(s.Binary,
		"--shm", s.Dir,
		"--journal-id", fmt.Sprintf("%x", s.JournalID),
		"--generation", strconv.FormatUint(uint64(s.Generation), 10),
		"--workers", strconv.Itoa(s.Workers()),
		"--listeners", strconv.Itoa(len(s.Listeners)),
		"--ring-size", strconv.FormatUint(s.RingSize, 10),
		"--max-connections", strconv.Itoa(s.MaxConnections))
	if s.LockMemory {
		cmd.Args = append(cmd.Args, "--lock-memory")
	}
	cmd.ExtraFiles = s.list()
	cmd.Stderr = s.Output
	if s.Output == nil {
		cmd.Stderr = os.Stderr
	}
	// A process group of its own: Ctrl-C on the terminal is ours to turn into a drain.
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the data plane: %w", err)
	}
	p := &Process{
		Pid: cmd.Process.Pid, Generation: s.Generation, done: make(chan struct{}),
		child: cmd.Process, pidfd: -1,
	}
	go func() {
		_ = cmd.Wait() // the state says it all
		p.exit = cmd.ProcessState.String()
		close(p.done)
	}()
	return p, nil
}

// ErrNotDataPlane says that a pid is not, or no longer, a data plane of the journal and generation.
var ErrNotDataPlane = errors.New("not that data plane's process")

// Watch takes over the watch on a data plane that is not our child. Any other process is refused,
// so that none is ever killed for a pid that was used again.
func Watch(pid int, journal [16]byte, generation uint32) (*Process, error) {
	if pid <= 0 {
		return nil, fmt.Errorf("%w: pid %d", ErrNotDataPlane, pid)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("watch process %d: %w: %w", pid, ErrNotDataPlane, err)
	}
	if !IsDataPlane(pid, journal, generation) { // looked at behind the open: now it stays the same
		_ = unix.Close(fd)
		return nil, fmt.Errorf("watch process %d: %w", pid, ErrNotDataPlane)
	}
	p := &Process{Pid: pid, Generation: generation, done: make(chan struct{}), pidfd: fd}
	go func() {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for {
			if _, err := unix.Poll(poll, -1); !errors.Is(err, unix.EINTR) {
				break
			}
		}
		p.mu.Lock()
		p.pidfd = -1
		_ = unix.Close(fd)
		p.mu.Unlock()
		p.exit = "ended (it was another process's child)"
		close(p.done)
	}()
	return p, nil
}

// Done is closed when the process is dead.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit says how it ended; empty while it runs.
func (p *Process) Exit() string {
	select {
	case <-p.done:
		return p.exit
	default:
		return ""
	}
}

// Kill ends it at once. A process that is dead already is no error.
func (p *Process) Kill() { p.Signal(unix.SIGKILL) }

// Signal sends it a signal, and never to another process that has its pid now. One to a process
// that is dead already is no error.
func (p *Process) Signal(s unix.Signal) {
	if p.child != nil {
		_ = p.child.Signal(s) // os.ErrProcessDone: it is reaped
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pidfd >= 0 {
		_ = unix.PidfdSendSignal(p.pidfd, s, nil, 0) // ESRCH: it is dead
	}
}

// IsDataPlane tells whether a pid is, at this moment, the data plane of a journal and generation.
func IsDataPlane(pid int, journal [16]byte, generation uint32) bool {
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return false
	}
	words := strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
	has := func(option, value string) bool {
		for i := range len(words) - 1 {
			if words[i] == option && words[i+1] == value {
				return true
			}
		}
		return false
	}
	return has("--journal-id", fmt.Sprintf("%x", journal)) &&
		has("--generation", strconv.FormatUint(uint64(generation), 10))
}
