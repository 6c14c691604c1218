package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"sluice/shm-abi/shmabi"
)

const (
	examinePatience = 20 * time.Second // of a config with many certificates
	saidBytesMax    = 2048             // of what a program says that is looked at
)

// successor is the program that is to go on in our place: the file that was looked at, and no other
// that is put there later.
type successor struct {
	path    string
	file    *os.File
	version string
}

// ownProgram is the path by which this program was started, so that a link in it that is turned to
// another version leads there. It is asked before anybody can have done that.
func ownProgram() string {
	called, err := exec.LookPath(os.Args[0])
	if err == nil {
		called, err = filepath.Abs(called)
	}
	if own, exe := fileAt(called), fileAt("/proc/self/exe"); err == nil && os.SameFile(own, exe) {
		return called
	}
	exact, err := os.Executable()
	if err != nil {
		return called
	}
	return exact
}

// fileAt is nil where there is none.
func fileAt(path string) os.FileInfo {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	return info
}

func openSuccessor(path string) (*successor, error) {
	file, err := os.OpenFile(path, unix.O_PATH, 0)
	if err != nil {
		return nil, fmt.Errorf("the next program: %w", err)
	}
	return &successor{path: path, file: file}, nil
}

func (s *successor) close() { _ = s.file.Close() } // only a handle

// introduce asks the program who it is. One that could not drain the lanes that live is refused.
func (s *successor) introduce(ctx context.Context) error {
	said, err := s.ask(ctx, "version", "--json")
	if err != nil {
		return err
	}
	var v struct{ Version, Layout string }
	if err := json.Unmarshal(said, &v); err != nil || v.Layout == "" {
		return fmt.Errorf("%s is no sluice: `version --json` says %q", s.path, cut(said))
	}
	if own := fmt.Sprintf("%016x", uint64(shmabi.LayoutHash)); v.Layout != own {
		return fmt.Errorf("%s is version %s with layout %s and could not read the lanes of the data "+
			"plane that runs, which have %s: stop this daemon in order, then start that one", s.path,
			v.Version, v.Layout, own)
	}
	s.version = v.Version
	return nil
}

// check has the program read a config.
func (s *successor) check(ctx context.Context, file string, dev bool) error {
	args := []string{"check", file}
	if dev {
		args = append(args, "--dev")
	}
	_, err := s.ask(ctx, args...)
	return err
}

// ask runs the program until it ends. What it says where it fails is in the error.
func (s *successor) ask(ctx context.Context, args ...string) ([]byte, error) {
	if err := s.isStillThere(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, examinePatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.path, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = 100 * time.Millisecond // of a pipe that a child of it keeps open
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s %s does not end within %v", s.path, args[0], examinePatience)
	case err != nil:
		return nil, fmt.Errorf("%s %s: %w: %s", s.path, args[0], err,
			cut(bytes.Join([][]byte{out.Bytes(), errs.Bytes()}, nil)))
	}
	return out.Bytes(), nil
}

// isStillThere tells whether the path still leads to the file that was opened.
func (s *successor) isStillThere() error {
	now, err := os.Stat(s.path)
	if err != nil {
		return fmt.Errorf("the next program: %w", err)
	}
	then, err := s.file.Stat()
	if err != nil {
		return fmt.Errorf("the next program: %w", err)
	}
	if !os.SameFile(now, then) {
		return fmt.Errorf("%s was replaced while it was looked at: try again", s.path)
	}
	return nil
}

// exec puts the program in the place of this one, under the same pid, with the same arguments and
// what is added to the environment. It returns only with an error.
func (s *successor) exec(add []string) error {
	if err := s.isStillThere(); err != nil {
		return err
	}
	// Its default action would end the next program before that one listens for it. The config is read
	// at its start in any case.
	signal.Ignore(unix.SIGHUP)
	if err := unix.Exec(s.path, os.Args, append(os.Environ(), add...)); err != nil {
		return fmt.Errorf("execute %s: %w", s.path, err)
	}
	return nil
}

func cut(said []byte) []byte {
	return bytes.TrimSpace(said[max(0, len(said)-saidBytesMax):])
}
