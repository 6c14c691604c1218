package listen

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// openUnix makes a socket at a path. What a dead daemon left there is removed; a living one, or a
// file that is no socket, stays and is an error.
func openUnix(ctx context.Context, spec Spec) ([]*os.File, error) {
	until := time.Now().Add(bindPatience)
	for {
		err := removeStale(spec.Target)
		if err == nil {
			var file *os.File
			if file, err = bindUnix(spec); err == nil {
				return []*os.File{file}, nil
			}
		}
		if !errors.Is(err, ErrInUse) && !errors.Is(err, unix.EADDRINUSE) {
			return nil, err
		}
		if time.Now().After(until) {
			return nil, ErrInUse
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(bindInterval):
		}
	}
}

// bindUnix binds a socket, which is tuned and listens later: nobody can connect before, so the mode
// is right when somebody does.
func bindUnix(spec Spec) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: spec.Target})
	if errors.Is(err, unix.ENOENT) {
		err = fmt.Errorf("there is no folder %s: make it", filepath.Dir(spec.Target))
	}
	if err == nil {
		if err = os.Chmod(spec.Target, spec.Mode.Perm()); err != nil {
			err = errors.Join(err, os.Remove(spec.Target))
		}
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "listener "+spec.String()), nil
}

// Unlink removes the paths of Unix sockets on which nobody listens any more. The one who opened
// them calls it when it lets them go for good: after the last process that holds them has ended,
// and not where the sockets go on to another program.
func Unlink(specs []Spec) error {
	var problems []error
	for _, spec := range specs {
		if spec.Network != Unix {
			continue
		}
		if err := removeStale(spec.Target); err != nil && !errors.Is(err, ErrInUse) {
			problems = append(problems, fmt.Errorf("remove the path of a listener: %w", err))
		}
	}
	return errors.Join(problems...)
}

func isSocket(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().Type() == fs.ModeSocket
}

// removeStale removes a socket that refuses connections, and is done where there is nothing.
func removeStale(path string) error {
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is there and is no socket: move it away, or name another path", path)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// EAGAIN is a full queue. EPROTOTYPE is a socket of another type, of which a living one cannot be
	// told from a dead one.
	switch err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); {
	case err == nil || errors.Is(err, unix.EAGAIN):
		return ErrInUse
	case errors.Is(err, unix.ECONNREFUSED):
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return nil
	default:
		return fmt.Errorf("%s does not say whether somebody listens: %w", path, err)
	}
}
