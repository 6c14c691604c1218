package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const limitedDir = "SLUICE_TEST_LIMITED_DIR"

// The part of the process whose files may not grow: it takes events and says what becomes of that.
func TestOwnerWhoseFilesMayNotGrow(t *testing.T) {
	dir := os.Getenv(limitedDir)
	if dir == "" {
		t.Skipf("is started by another test; needs %s", limitedDir)
	}
	b, err := onDisk(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("\nopen")
	body, held, turns := string(make([]byte, 64<<10)), false, 0
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		batch := Batch{Frames: [][]byte{b.frame(plain(body))}}
		for err = b.Append(batch); err != nil; err = b.Append(batch) {
			if !errors.Is(err, unix.EFBIG) || !errors.Is(err, ErrUnwritable) || b.Err() != nil {
				t.Fatalf("append: %v, %v", err, b.Err())
			}
			if !held {
				held = true
				fmt.Println("held")
			}
			if time.Now().After(end) {
				t.Fatal("it is held to the end")
			}
			time.Sleep(10 * time.Millisecond)
		}
		b.must(b.flush(context.Background()))
		if turns++; held {
			b.must(b.Store.Close())
			fmt.Printf("took %d\n", turns)
			return
		}
	}
	t.Error("it was never held")
}

// A limit on the size of files (ulimit -f, LimitFSIZE) is a refusal like others, not the death by
// SIGXFSZ that it is for most programs.
func TestALimitOfFileSizesIsOutlasted(t *testing.T) {
	dir := t.TempDir()
	c := exec.Command("sh", "-c", `ulimit -S -f 64
		exec "$0" -test.run '^TestOwnerWhoseFilesMayNotGrow$' 2>&1`, os.Args[0])
	c.Env = append(os.Environ(), limitedDir+"="+dir)
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill() }()
	lines := bufio.NewScanner(out)
	says := func(word string) (rest string) {
		t.Helper()
		for lines.Scan() {
			if _, rest, ok := strings.Cut(lines.Text(), word); ok {
				return rest
			}
		}
		t.Fatalf("it ended without a word of %q: %v", word, c.Wait())
		return ""
	}
	says("held")
	none := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if err := unix.Prlimit(c.Process.Pid, unix.RLIMIT_FSIZE, &none, nil); err != nil {
		t.Fatal(err)
	}
	took := says("took ")
	if err := c.Wait(); err != nil {
		t.Fatalf("it ended with %v", err)
	}
	b, err := onDisk(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(b.Stats().Events); got != took || b.Recovery().IndexRebuilt {
		t.Errorf("%s events are there, it took %s; built again: %v", got, took,
			b.Recovery().IndexRebuilt)
	}
}
