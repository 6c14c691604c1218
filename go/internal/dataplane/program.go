package dataplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sluice/shm-abi/shmabi"
)

const (
	versionPatience = 5 * time.Second
	versionBytesMax = 200 // of what a program says that is none of ours
)

// ErrForeignProgram says that a program is no data plane, or one that was laid out otherwise.
var ErrForeignProgram = errors.New("not a data plane that this sluice can work with")

// Program is a data plane's binary as it was when it was opened. What is put in its place later
// comes into use by opening it anew, so that a crash is mended by the version that served before.
type Program struct {
	path string
	file *os.File
}

// OpenProgram takes the file that has the path now.
func OpenProgram(path string) (*Program, error) {
	// O_PATH: a program may be executable and not readable.
	file, err := os.OpenFile(path, unix.O_PATH, 0)
	if err != nil {
		return nil, fmt.Errorf("the data plane's program: %w", err)
	}
	return &Program{path, file}, nil
}

// Close gives the file up; processes that were started go on.
func (p *Program) Close() { _ = p.file.Close() } // only a handle

// command is a call of the program: by its path as long as that leads to it, which is what a
// process is named by, else by our descriptor. That has our pid in its name, since the child's
// numbers are the child's.
func (p *Program) command(args ...string) *exec.Cmd {
	path := p.path
	then, err := p.file.Stat()
	if now, gone := os.Stat(path); err != nil || gone != nil || !os.SameFile(now, then) {
		path = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), p.file.Fd())
	}
	cmd := exec.Command(path, args...)
	cmd.Args[0] = p.path
	return cmd
}

// Check asks the program who it is and gives its version. ErrForeignProgram: it is none, does not
// answer, or has another layout.
func (p *Program) Check(ctx context.Context) (version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, versionPatience)
	defer cancel()
	said, err := p.ask(ctx, "--version")
	line, _, _ := bytes.Cut(said, []byte("\n"))
	rest, ours := strings.CutPrefix(string(line), "sluice-dataplane ")
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s: %w: it does not answer --version within %v", p.path,
			ErrForeignProgram, versionPatience)
	case err != nil:
		return "", fmt.Errorf("%s: %w: --version: %w, it says %q", p.path, ErrForeignProgram, err,
			said[:min(len(said), versionBytesMax)])
	case !ours:
		return "", fmt.Errorf("%s: %w: --version says %q", p.path, ErrForeignProgram,
			line[:min(len(line), versionBytesMax)])
	}
	version, layout, told := strings.Cut(rest, " (layout ")
	if own := fmt.Sprintf("%016x", uint64(shmabi.LayoutHash)); told && layout != own+")" {
		return "", fmt.Errorf("%s: %w: it is version %s with layout %s, this program has layout %s; "+
			"a new layout takes an orderly stop and a start of both", p.path, ErrForeignProgram,
			version, strings.TrimSuffix(layout, ")"), own)
	}
	return version, nil
}

// ask runs the program until it ends, or until ctx does, and gives what it printed.
func (p *Program) ask(ctx context.Context, args ...string) ([]byte, error) {
	cmd := p.command(args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 100 * time.Millisecond // of a pipe that a child of it keeps open
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // ESRCH: it ended
	})
	defer stop()
	err := cmd.Wait()
	return out.Bytes(), err
}
