package dataplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Spec is how a data plane is started. Its stderr is ours, since it outlives us.
type Spec struct {
	Program *Program
	// Dir is the journal's directory on tmpfs, with control, dp/ and lanes/.
	Dir        string
	JournalID  [16]byte
	Generation uint32
	Settings
	Fds
}

// Settings are what the config says on a data plane's command line; another one takes another
// process.
type Settings struct {
	RingSize       uint64 // bytes, of each worker's lane
	MaxConnections int
	LockMemory     bool
	// Driver, Sandbox and User are words of the data plane's own; empty: its default.
	Driver, Sandbox, User string
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

// args is the command line without the program's name.
func (s *Spec) args() []string {
	args := []string{
		"--shm", s.Dir,
		"--journal-id", fmt.Sprintf("%x", s.JournalID),
		"--generation", strconv.FormatUint(uint64(s.Generation), 10),
		"--workers", strconv.Itoa(s.Workers()),
		"--listeners", strconv.Itoa(len(s.Listeners)),
		"--ring-size", strconv.FormatUint(s.RingSize, 10),
		"--max-connections", strconv.Itoa(s.MaxConnections),
	}
	if s.LockMemory {
		args = append(args, "--lock-memory")
	}
	for _, o := range [][2]string{
		{"--driver", s.Driver}, {"--sandbox", s.Sandbox}, {"--user", s.User},
	} {
		if o[1] != "" {
			args = append(args, o[0], o[1])
		}
	}
	return args
}

// children are the processes by pid that Start has to reap, and nobody else may.
var children sync.Map

// Start starts a data plane. It outlives this process if need be.
func Start(s Spec) (*Process, error) {
	if n := len(s.list()); n > maxFds {
		return nil, fmt.Errorf("start the data plane: %d workers and %d rows of listening sockets "+
			"take %d descriptors, which can be %d: name fewer addresses or workers",
			s.Workers(), len(s.Listeners), n, maxFds)
	}
	cmd := s.Program.command(s.args()...)
	cmd.ExtraFiles = s.list()
	cmd.Stderr = os.Stderr
	// A process group of its own: Ctrl-C on the terminal is ours to turn into a drain.
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the data plane: %w", err)
	}
	p := &Process{
		Pid: cmd.Process.Pid, Generation: s.Generation, done: make(chan struct{}),
		child: cmd.Process, pidfd: -1,
	}
	children.Store(p.Pid, p)
	go func() {
		_ = cmd.Wait() // the state says it all
		p.exit = cmd.ProcessState.String()
		children.Delete(p.Pid)
		close(p.done)
	}()
	return p, nil
}

// ErrNotDataPlane says that a pid is not, or no longer, a data plane of the journal and generation.
var ErrNotDataPlane = errors.New("not that data plane's process")

// Watch takes over the watch on a data plane that an earlier life started. It may be our child all
// the same: of the program that we replaced under the same pid. Any other process is refused, so
// that none is ever killed for a pid that was used again.
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
		var exit string
		if own, ours := children.Load(pid); ours {
			<-own.(*Process).done
			exit = own.(*Process).exit
		} else {
			exit = reap(pid) // until then its pid is nobody else's
		}
		p.mu.Lock()
		p.pidfd = -1
		_ = unix.Close(fd)
		p.mu.Unlock()
		p.exit = exit
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

// Reap takes away what is left of a dead child that nobody watches: one that an earlier program of
// our pid started. Who is no child of ours, or lives, is left alone.
func Reap(pid int) {
	if pid > 0 {
		_ = reap(pid)
	}
}

// reap says how a dead process ended, if it was our child.
func reap(pid int) string {
	var status unix.WaitStatus
	for {
		got, err := unix.Wait4(pid, &status, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil || got != pid:
			return "ended (it was another process's child)"
		case status.Signaled():
			return "signal: " + status.Signal().String()
		}
		return fmt.Sprintf("exit status %d", status.ExitStatus())
	}
}

// IsDataPlane tells whether a pid is, at this moment, the data plane of a journal and generation.
func IsDataPlane(pid int, journal [16]byte, generation uint32) bool {
	words := commandLine(pid)
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

// RunsAs tells whether a process has the command line that it would be started with now.
func RunsAs(pid int, s Spec) bool {
	words := commandLine(pid)
	return len(words) > 0 && slices.Equal(words[1:], s.args())
}

// commandLine is that of a living process; nil: there is none.
func commandLine(pid int) []string {
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil || len(line) == 0 {
		return nil
	}
	return strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
}
