package testserver

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	startPatience = 60 * time.Second // a start on a machine that is busy
	stopPatience  = 60 * time.Second
	pollInterval  = 10 * time.Millisecond
	portTries     = 20
	startTries    = 3    // each on another port
	logTail       = 2000 // bytes of a server's log in an error
)

// missing ends the test: it asked for a server that is not installed.
func missing(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("SLUICE_NEED_SERVERS") == "1" {
		t.Fatalf("%s (SLUICE_NEED_SERVERS=1)", why)
	}
	t.Skip(why)
}

// base is the folder of all servers of this process. The shell that removes it is a session of its
// own, so that an interrupt from the terminal does not reach it.
var base = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp(openTempDir(), "sluice-testserver-")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	// The servers may need a moment to end; what they still write makes rm fail.
	const wait = `cat; for i in 1 2 3 4 5 6 7 8 9 10; do rm -rf "$0" && exit; sleep 1; done`
	remover := exec.Command("/bin/sh", "-c", wait, dir)
	remover.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	// The other end of the pipe is never closed but by the end of the process. As a bare number it is
	// out of the garbage collector's reach.
	var pipe [2]int
	if err := syscall.Pipe2(pipe[:], syscall.O_CLOEXEC); err != nil {
		return "", err
	}
	end := os.NewFile(uintptr(pipe[0]), "pipe")
	defer end.Close()
	remover.Stdin = end
	return dir, remover.Start()
})

// openTempDir is the temporary directory, or /tmp where another user could not get into it.
func openTempDir() string {
	for dir := os.TempDir(); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm()&0o001 == 0 {
			return "/tmp"
		}
		if dir == filepath.Dir(dir) {
			return os.TempDir()
		}
	}
}

// folder makes a new folder for one server, of the user that runs it.
func folder(kind string, owner *syscall.Credential) (string, error) {
	parent, err := base()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(parent, kind+"-")
	if err != nil || owner == nil {
		return dir, err
	}
	return dir, os.Chown(dir, int(owner.Uid), int(owner.Gid))
}

// freePort is a port on which nobody listens now.
func freePort() (int, error) {
	var last error
	for range portTries {
		port := 20000 + rand.IntN(12000)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return port, l.Close()
		}
		last = err
	}
	return 0, fmt.Errorf("no free port below the kernel's own range: %w", last)
}

// process is one run of a server.
type process struct {
	command *exec.Cmd
	ended   chan struct{}
	log     string // path
}

// launch starts a server. The kernel's signal comes when the *thread* that started it ends, so one
// thread stays with it.
func launch(path string, args []string, dir string, owner *syscall.Credential,
	onDeath syscall.Signal) (*process, error) {
	logFile, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer logFile.Close()
	p := &process{command: exec.Command(path, args...), ended: make(chan struct{}),
		log: logFile.Name()}
	p.command.Dir, p.command.Stdout, p.command.Stderr = dir, logFile, logFile
	// A group of its own keeps an interrupt from the terminal away from it.
	p.command.SysProcAttr = &syscall.SysProcAttr{Credential: owner, Pdeathsig: onDeath, Setpgid: true}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.command.Start()
		started <- err
		if err == nil {
			_ = p.command.Wait() // how it ended is in its log
			close(p.ended)
		}
	}()
	return p, <-started
}

// await waits until the server answers.
func (p *process) await(ready func() error) error {
	deadline := time.Now().Add(startPatience)
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("it ended at its start: %s", p.tail())
		case <-time.After(pollInterval):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not ready after %v: %w; %s", startPatience, err, p.tail())
		}
	}
}

// end signals the server and waits until it is gone.
func (p *process) end(with syscall.Signal) error {
	if err := p.command.Process.Signal(with); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.ended:
		return nil
	case <-time.After(stopPatience):
		_ = p.command.Process.Kill()
		return fmt.Errorf("still there %v after %v", stopPatience, with)
	}
}

// tail is the end of the server's log.
func (p *process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text[max(0, len(text)-logTail):]))
}
