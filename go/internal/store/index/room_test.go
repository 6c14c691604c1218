package index

import (
	"errors"
	"io/fs"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// fickleFS is a file system that refuses what writes, and more, with an error that can be set.
type fickleFS struct {
	vfs.FS
	refuse  atomic.Pointer[error] // of whatever takes space
	open    atomic.Pointer[error]
	creates atomic.Int64
	gone    atomic.Bool // the directory

}

func (f *fickleFS) fault() error {
	if err := f.refuse.Load(); err != nil {
		return *err
	}
	return nil
}

func (f *fickleFS) set(err error) {
	if err == nil {
		f.refuse.Store(nil)
	} else {
		f.refuse.Store(&err)
	}
}

func (f *fickleFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f.creates.Add(1)
	if err := f.fault(); err != nil {
		return nil, err
	}
	file, err := f.FS.Create(name, c)
	return &fickleFile{file, f}, err
}

func (f *fickleFS) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	if err := f.open.Load(); err != nil {
		return nil, *err
	}
	return f.FS.Open(name, o...)
}

func (f *fickleFS) Stat(name string) (vfs.FileInfo, error) {
	if f.gone.Load() {
		return nil, fs.ErrNotExist
	}
	return f.FS.Stat(name)
}

func (f *fickleFS) Remove(name string) error {
	if strings.HasSuffix(name, ballastFile) && f.fault() != nil && f.FS.Remove(name) == nil {
		f.set(nil) // that made room
		return nil
	}
	return f.FS.Remove(name)
}

func (f *fickleFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	if f.fault() != nil {
		return vfs.DiskUsage{TotalBytes: 1 << 40}, nil
	}
	return vfs.DiskUsage{TotalBytes: 1 << 40, AvailBytes: 1 << 39}, nil
}

type fickleFile struct {
	vfs.File
	fs *fickleFS
}

func (f *fickleFile) Write(b []byte) (int, error) {
	if err := f.fs.fault(); err != nil {
		return 0, err
	}
	return f.File.Write(b)
}

func fickle(t *testing.T) (*fickleFS, *Index, Options) {
	t.Helper()
	f := &fickleFS{FS: vfs.NewMem()}
	o := Options{FS: f, Log: slog.New(slog.DiscardHandler)}
	x, err := Open("index", o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Claim([16]byte{1}); err != nil {
		t.Fatal(err)
	}
	return f, x, o
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// advance commits something that a flush writes.
func (x *Index) advance(t *testing.T) {
	t.Helper()
	x.Meta().Applied++
	if err := x.Commit(); err != nil {
		t.Fatal(err)
	}
}

func TestAFullDiskHoldsTheEngineUpUntilThereIsSpace(t *testing.T) {
	f, x, o := fickle(t)
	x.advance(t)
	f.set(syscall.ENOSPC)
	done, err := x.Flush()
	if err != nil {
		t.Fatal(err)
	}
	<-done // the ballast makes room
	if _, err := f.FS.Stat("index/" + ballastFile); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the ballast is there still: %v", err)
	}
	x.advance(t)
	f.set(syscall.ENOSPC)
	if done, err = x.Flush(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it waits for space", x.Full)
	x.advance(t) // memory takes it
	if err := x.Reserve(); err != nil {
		t.Errorf("a ballast on a full disk: %v", err)
	}
	f.set(nil)
	<-done
	eventually(t, "it waits no more", func() bool { return !x.Full() })
	if err := errors.Join(x.Reserve(), x.Close()); err != nil {
		t.Fatal(err)
	}
	f.set(syscall.ENOSPC)
	if x, err = Open("index", o); err != nil {
		t.Fatalf("on a full disk, with a ballast: %v", err)
	}
	if got := x.Meta().Applied; got != 3 {
		t.Errorf("at group %d", got)
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
}

func TestAnIndexOnAFullDiskIsLeftAsItIs(t *testing.T) {
	f, x, _ := fickle(t)
	if err := f.FS.Remove("index/" + ballastFile); err != nil {
		t.Fatal(err)
	}
	x.advance(t)
	f.set(syscall.ENOSPC)
	if err := x.Close(); !errors.Is(err, ErrFull) {
		t.Errorf("closed with %v", err)
	}
}

// An index is thrown away where it is damaged, and not where the operating system says no.
func TestWhatTheSystemRefusesIsNoDamage(t *testing.T) {
	for errno, mend := range mends {
		f, x, o := fickle(t)
		x.advance(t)
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		var refused error = &fs.PathError{Op: "open", Path: "index", Err: errno}
		f.open.Store(&refused)
		if _, err := Open("index", o); errors.Is(err, ErrDamaged) || !errors.Is(err, errno) ||
			!strings.Contains(err.Error(), mend) {
			t.Errorf("%v: %v", errno, err)
		}
		_, err := Check(f, "index", nil)
		if errors.Is(err, ErrDamaged) || !errors.Is(err, errno) {
			t.Errorf("%v: a check says %v", errno, err)
		}
		f.open.Store(nil)
		x, err = Open("index", o)
		if err != nil || x.Meta().Applied != 1 {
			t.Fatalf("%v: then %v", errno, err)
		}
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAnEngineThatFailsAllTheTimePauses(t *testing.T) {
	f := &fickleFS{FS: vfs.NewMem()}
	told := make(chan error, 1)
	x, err := Open("index", Options{
		FS: f, Log: slog.New(slog.DiscardHandler),
		Damaged: func(err error) {
			select {
			case told <- err:
			default:
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	x.advance(t)
	f.set(syscall.EIO)
	f.creates.Store(0)
	began := time.Now()
	if _, err := x.Flush(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it tries again", func() bool { return f.creates.Load() >= 3 })
	tries := f.creates.Load()
	if most := int64(time.Since(began)/enginePause) + 2; tries > most {
		t.Errorf("%d tries in %v, want %d at the most", tries, time.Since(began), most)
	}
	f.gone.Store(true)
	f.set(fs.ErrNotExist)
	if err := <-told; !errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrDamaged) {
		t.Errorf("without its directory it says %v", err)
	}
	f.gone.Store(false)
	f.set(nil)
	if err := x.Close(); err != nil {
		t.Error(err)
	}
}
