package listen

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAUnixSocketIsOneForAllWorkers(t *testing.T) {
	path := socketPath(t)
	set := open(t, Plan{Specs: []Spec{unixAt(path)}, Workers: 3})
	if len(set.Rows) != 1 || len(set.Rows[0]) != 3 || count(inodes(t, set.Rows[0])) != 1 {
		t.Fatalf("rows %v", set.Rows)
	}
	if at := addressOf(t, set.Rows[0][2]); at.String() != "unix:"+path {
		t.Errorf("it is at %s", at)
	}
	dial(t, "unix", path)
	accepted(t, set.Rows[0])
}

func TestAUnixSocketHasItsModeWhateverTheUmask(t *testing.T) {
	for _, mode := range []fs.FileMode{0o600, 0o666, 0o660} {
		for _, mask := range []int{0, 0o077} {
			path := socketPath(t)
			before := unix.Umask(mask)
			spec := unixAt(path)
			spec.Mode = mode
			open(t, Plan{Specs: []Spec{spec}, Workers: 1})
			unix.Umask(before)
			info, err := os.Stat(path)
			must(t, err)
			if info.Mode().Perm() != mode {
				t.Errorf("mode %v under umask %03o, want %v", info.Mode(), mask, mode)
			}
		}
	}
}

func TestAUnixSocketThatIsThereGetsAnotherMode(t *testing.T) {
	path := socketPath(t)
	first := open(t, Plan{Specs: []Spec{unixAt(path)}, Workers: 1})
	spec := unixAt(path)
	spec.Mode = 0o600
	second := open(t, Plan{Specs: []Spec{spec}, Workers: 1, Have: first.Rows})
	info, err := os.Stat(path)
	must(t, err)
	if info.Mode().Perm() != 0o600 || len(second.Opened) != 0 {
		t.Errorf("mode %v, opened %v", info.Mode(), second.Opened)
	}
}

func TestAUnixSocketWhosePathIsGoneIsMadeAgain(t *testing.T) {
	path := socketPath(t)
	first := open(t, Plan{Specs: []Spec{unixAt(path)}, Workers: 1})
	must(t, os.Remove(path))
	second := open(t, Plan{Specs: []Spec{unixAt(path)}, Workers: 1, Have: first.Rows})
	if len(second.Opened) != 1 || !slices.Equal(second.Unwanted, first.Rows[0]) {
		t.Errorf("opened %v, unwanted %v", second.Opened, second.Unwanted)
	}
	dial(t, "unix", path)
	accepted(t, second.Rows[0])
}

func TestWhatADeadDaemonLeftIsReplaced(t *testing.T) {
	path := socketPath(t)
	dead := open(t, Plan{Specs: []Spec{unixAt(path)}, Workers: 1})
	must(t, dead.Rows[0][0].Close())
	if _, err := os.Stat(path); err != nil {
		t.Fatal("the path of a dead daemon should be there")
	}
	set := open(t, Plan{Specs: []Spec{unixAt(path)}, Workers: 1})
	dial(t, "unix", path)
	accepted(t, set.Rows[0])
}

func TestAFileThatIsNoSocketStays(t *testing.T) {
	path := socketPath(t)
	must(t, os.WriteFile(path, []byte("mine"), 0o600))
	_, err := Plan{Specs: []Spec{unixAt(path)}, Workers: 1}.Open(context.Background())
	if err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("got %v", err)
	}
	if text, err := os.ReadFile(path); string(text) != "mine" {
		t.Errorf("the file is %q, %v", text, err)
	}
}

func TestASocketOfAnotherTypeStays(t *testing.T) {
	path := socketPath(t)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	must(t, unix.Bind(fd, &unix.SockaddrUnix{Name: path}))
	_, err = Plan{Specs: []Spec{unixAt(path)}, Workers: 1}.Open(context.Background())
	if !errors.Is(err, unix.EPROTOTYPE) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

func TestAFolderThatIsNotThereIsNamed(t *testing.T) {
	path := filepath.Join(folder(t), "not", "in.sock")
	_, err := Plan{Specs: []Spec{unixAt(path)}, Workers: 1}.Open(context.Background())
	if err == nil || !strings.Contains(err.Error(), "no folder "+filepath.Dir(path)) {
		t.Errorf("got %v", err)
	}
}

func TestAPathIsRemovedOnceNobodyListens(t *testing.T) {
	path := socketPath(t)
	set := open(t, Plan{Specs: []Spec{unixAt(path)}, Workers: 2})
	must(t, set.Rows[0][0].Close())
	must(t, Unlink([]Spec{unixAt(path)}))
	dial(t, "unix", path)
	must(t, set.Rows[0][1].Close())
	must(t, Unlink([]Spec{unixAt(path), tcp("127.0.0.1:1")}))
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the path is left: %v", err)
	}
}
