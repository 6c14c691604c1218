package index

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The engine ends the process when its list of files cannot be written, because it does not know
// then what is in it. So no write of it fails for want of space: a ballast goes first, then writes
// wait. Who takes events in must stop meanwhile, see Index.Full.

const (
	// ballastBytes is what is set aside for the engine: enough for what is in memory to be written
	// once. On small disks it is a ballastShare of them.
	ballastBytes = memtableBytes
	ballastShare = 64
	// ballastRoom is how many times the ballast must be free for it to be made.
	ballastRoom = 8
	// roomBytes of free space end a wait, and roomEvery is how often it is looked at.
	roomBytes = 1 << 20
	roomEvery = 100 * time.Millisecond

	ballastFile = "BALLAST"
)

// room is the space of the engine's directory.
type room struct {
	fs      vfs.FS
	dir     string
	log     *slog.Logger
	running atomic.Bool // before, nobody waits: who opens is told of the error
	full    atomic.Bool
	closing chan struct{}
}

func newRoom(o Options, dir string) *room {
	return &room{fs: o.FS, dir: dir, log: o.Log, closing: make(chan struct{})}
}

// wait holds a write back until there is space. Once the index is closing, what waits does so until
// the process ends: nothing is written behind the back of the next one.
func (r *room) wait() {
	if r.fs.Remove(filepath.Join(r.dir, ballastFile)) == nil {
		r.log.Warn("the disk is full; the index gives up its ballast", "dir", r.dir)
		return
	}
	if !r.running.Load() {
		return
	}
	r.full.Store(true)
	r.log.Error("the disk is full; the index waits for space", "dir", r.dir)
	for !r.some() {
		select {
		case <-r.closing:
			select {}
		case <-time.After(roomEvery):
		}
	}
	r.full.Store(false)
	r.log.Info("the disk has space again", "dir", r.dir)
}

// some tells whether there is space. A disk that does not say is asked by the next write.
func (r *room) some() bool {
	usage, err := r.fs.GetDiskUsage(r.dir)
	return err != nil || usage.AvailBytes >= min(roomBytes, usage.TotalBytes/ballastShare)
}

// reserve makes the ballast where there is none and plenty of space.
func (r *room) reserve() error {
	name := filepath.Join(r.dir, ballastFile)
	if _, err := r.fs.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	usage, err := r.fs.GetDiskUsage(r.dir)
	size := min(ballastBytes, usage.TotalBytes/ballastShare)
	if err != nil || usage.AvailBytes < ballastRoom*size {
		return nil
	}
	f, err := r.fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("make ballast: %w", err)
	}
	if err := errors.Join(f.Preallocate(0, int64(size)), f.Close()); err != nil {
		return errors.Join(fmt.Errorf("make ballast: %w", err), r.fs.Remove(name))
	}
	return nil
}

// Reserve makes the ballast again, once there is space.
func (x *Index) Reserve() error {
	if x.room.full.Load() {
		return nil
	}
	return x.room.reserve()
}

// Full tells that the index waits for space on its disk: nothing should be taken in.
func (x *Index) Full() bool { return x.room.full.Load() }

// errnoMends are errors of the operating system that say nothing about what is in the files, and
// what an operator can do.
var errnoMends = map[syscall.Errno]string{
	syscall.EACCES: "let the user of sluice read and write it",
	syscall.EDQUOT: "raise the quota of the user of sluice",
	syscall.EMFILE: "raise the limit of open files (LimitNOFILE)",
	syscall.ENFILE: "raise the limit of open files of the machine (fs.file-max)",
	syscall.ENOMEM: "give the machine more memory",
	syscall.ENOSPC: "make room on the disk",
	syscall.EPERM:  "let the user of sluice read and write it",
	syscall.EROFS:  "mount its disk for writing",
}

// openFault tells damage from what the operating system refused: that leaves the index as it is.
func openFault(dir string, err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		if mend, ok := errnoMends[errno]; ok {
			return fmt.Errorf("open index %s: %w; %s, and start again", dir, err,
				mend)
		}
	}
	return fmt.Errorf("%w: open %s: %w", ErrDamaged, dir, err)
}
