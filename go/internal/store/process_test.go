package store

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

const ownedDir = "SLUICE_TEST_OWNED_DIR"

// The part of the first process: it opens the store and stays.
func TestOwnerOfTheDirectory(t *testing.T) {
	dir := os.Getenv(ownedDir)
	if dir == "" {
		t.Skipf("is started by another test; needs %s", ownedDir)
	}
	if _, err := onDisk(t, dir); err != nil {
		t.Fatal(err)
	}
	fmt.Println("\nowned")
	select {}
}

// Nothing is stolen: a stopped owner may go on at any moment. A dead one owns nothing.
func TestASecondProcessIsRefusedWhileTheFirstLives(t *testing.T) {
	dir := t.TempDir()
	owner := exec.Command(os.Args[0], "-test.run", "^TestOwnerOfTheDirectory$")
	owner.Env = append(os.Environ(), ownedDir+"="+dir)
	owner.Stderr = os.Stderr
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = owner.Process.Kill() }()
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "owned" {
		continue
	}
	for _, signal := range []syscall.Signal{0, syscall.SIGSTOP} {
		if err := owner.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if _, err := onDisk(t, dir); !errors.Is(err, ErrLocked) {
			t.Fatalf("after signal %d: %v", signal, err)
		}
		if _, err := Check(dir, nil); !errors.Is(err, ErrLocked) {
			t.Fatalf("a check after signal %d: %v", signal, err)
		}
	}
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait() // says that it was killed
	if _, err := onDisk(t, dir); err != nil {
		t.Fatalf("after its death: %v", err)
	}
}
