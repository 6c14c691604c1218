package lane

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/shm-abi/shmabi"
)

// TestNothingButALaneIsAttached puts whatever a directory can hold where a lane should be.
func TestNothingButALaneIsAttached(t *testing.T) {
	for name, c := range map[string]struct {
		make func(path string) error
		want error
	}{
		"nothing":   {func(string) error { return nil }, fs.ErrNotExist},
		"directory": {func(path string) error { return os.Mkdir(path, 0o700) }, ErrForeign},
		"fifo":      {func(path string) error { return unix.Mkfifo(path, 0o600) }, ErrForeign},
		"socket": {func(path string) error {
			l, err := net.Listen("unix", path)
			if err == nil {
				t.Cleanup(func() { _ = l.Close() })
			}
			return err
		}, ErrForeign},
		"symlink to a lane": {func(path string) error {
			_, lane := testLane(t)
			return os.Symlink(lane, path)
		}, ErrForeign},
		"symlink to itself": {func(path string) error { return os.Symlink(path, path) }, ErrForeign},
		"empty":             {sized(0), ErrUnfinished},
		"one byte":          {sized(1), ErrForeign},
		"almost a header":   {sized(shmabi.LaneHeaderSize - 1), ErrForeign},
		"zeroes":            {sized(shmabi.LaneHeaderSize + 2*4096), ErrUnfinished},
		"no rings":          {cut(shmabi.LaneHeaderSize), ErrForeign},
		"half a ring":       {cut(shmabi.LaneHeaderSize + 2048), ErrForeign},
		"one ring":          {cut(shmabi.LaneHeaderSize + 4096), ErrForeign},
		"a byte short":      {cut(shmabi.LaneHeaderSize + 2*4096 - 1), ErrForeign},
		"a byte long":       {cut(shmabi.LaneHeaderSize + 2*4096 + 1), ErrForeign},
		"capacity 0":        {with(shmabi.LaneHeaderRequestCapacityOffset, 0), ErrForeign},
		"capacity 3 pages":  {with(shmabi.LaneHeaderRequestCapacityOffset, 3*4096), ErrForeign},
		"capacity 2^63":     {with(shmabi.LaneHeaderRequestCapacityOffset, 1<<63), ErrForeign},
		"reply ring 2^41":   {with(shmabi.LaneHeaderReplyCapacityOffset, 1<<41), ErrForeign},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "lane")
			if err := c.make(path); err != nil {
				t.Fatal(err)
			}
			l, err := Attach(path, testOwner)
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if l != nil {
				t.Fatal("a lane beside the error")
			}
		})
	}
}

func TestADeviceIsNoLane(t *testing.T) {
	if _, err := Attach("/dev/null", testOwner); !errors.Is(err, ErrForeign) {
		t.Fatal(err)
	}
}

func sized(bytes int64) func(string) error {
	return func(path string) error {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			return err
		}
		return os.Truncate(path, bytes)
	}
}

// laneFile is a good lane of two rings of a page.
func laneFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	image := make([]byte, shmabi.PageSize+2*4096)
	putHeader(image, 4096, 4096)
	_, err = file.WriteAt(image, 0)
	return file, err
}

func cut(bytes int64) func(string) error {
	return func(path string) error {
		file, err := laneFile(path)
		if err != nil {
			return err
		}
		return errors.Join(file.Truncate(bytes), file.Close())
	}
}

func with(at int64, value uint64) func(string) error {
	return func(path string) error {
		file, err := laneFile(path)
		if err != nil {
			return err
		}
		_, err = file.WriteAt(le64(value), at)
		return errors.Join(err, file.Close())
	}
}

// TestAFileCutUnderTheMappingIsATypedError cuts a lane at every page while it is in use.
func TestAFileCutUnderTheMappingIsATypedError(t *testing.T) {
	for pages := range int64(3) {
		p, path := testLane(t)
		l := mustAttach(t, path)
		at := p.publish(make([]byte, 3000))
		if err := os.Truncate(path, pages*shmabi.PageSize); err != nil {
			t.Fatal(err)
		}
		uses := map[string]func() error{
			"commit": func() error { _, err := l.Commit(); return err },
			"frame":  func() error { _, err := l.Frame(at, 3328); return err },
			"reply":  func() error { _, err := l.Reply(&Reply{}); return err },
			"words":  func() error { l.PublishVerified(0); l.Sleep(0, true); return nil },
		}
		faults := map[string]bool{
			"commit": pages < 1, "words": pages < 1, "frame": pages < 2, "reply": pages < 3,
		}
		for name, use := range uses {
			if err := l.Guard(use); errors.Is(err, ErrCorrupt) != faults[name] {
				t.Errorf("%d pages left, %s: %v", pages, name, err)
			}
		}
	}
}

func TestTheGuardLetsOtherPanicsAndErrorsThrough(t *testing.T) {
	_, path := testLane(t)
	l := mustAttach(t, path)
	want := errors.New("its own")
	if err := l.Guard(func() error { return want }); !errors.Is(err, want) {
		t.Fatal(err)
	}
	for _, f := range []func() error{
		func() error { panic("ours") },
		func() error { var p *Lane; p.capacity++; return nil },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a panic of our own was taken for a fault of the file")
				}
			}()
			_ = l.Guard(f)
		}()
	}
}
