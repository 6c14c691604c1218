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
// then what is in it. So no write of it fails for what the operating system refuses: it waits (see
// patient). For space, a ballast goes first. Who takes events in must stop meanwhile, see
// Index.Full.

const (
	// ballastBytes is what is set aside for the engine: enough for what is in memory to be written
	// once. On small disks it is a ballastShare of them.
	ballastBytes = memtableBytes
	ballastShare = 64
	// ballastRoom is how many times the ballast must be free for it to be made.
	ballastRoom = 8
	// roomBytes of free space end a wait for it, and roomEvery is how often what was refused is
	// tried again.
	roomBytes = 1 << 20
	roomEvery = 100 * time.Millisecond
	// tellEvery is the time between two lines in the log about one wait.
	tellEvery = time.Minute
	// readWait bounds how long a read is tried again. Beyond it, whoever reads is told, unless
	// that is the writer (see Hold): a sector that is gone must not keep a search for ever.
	readWait = 5 * time.Second
	// flushesFailed and mergesFailed in a row are as good as a write that waits. Merges have time.
	flushesFailed = 2
	mergesFailed  = 50

	ballastFile = "BALLAST"
)

// room is what the operating system lets the engine do in its directory.
type room struct {
	fs      vfs.FS
	dir     string
	log     *slog.Logger
	writes  bool         // whether what is refused may wait
	running atomic.Bool  // before, who opens is told of reads that are refused
	waiting atomic.Int32 // writes, and reads of the writer
	// hold is odd while the writer cannot do without what it reads, another number each time.
	hold    atomic.Uint64
	leaving atomic.Bool // the writer has to do without all the same
	// flushes and merges count what failed since the last that did not.
	flushes, merges atomic.Int32
	refused         atomic.Pointer[error] // the last read that was, see openFault
	readWait        time.Duration         // instead of the constant, for tests
	closing         chan struct{}
}

func newRoom(o Options, dir string) *room {
	return &room{fs: o.FS, dir: dir, log: o.Log, readWait: readWait,
		closing: make(chan struct{})}
}

// full tells that the engine does not get on with what it writes.
func (r *room) full() bool {
	return r.waiting.Load() > 0 || r.flushes.Load() >= flushesFailed ||
		r.merges.Load() >= mergesFailed
}

// insist does what writes, again and again while the operating system refuses it. Once the index is
// closing, what waits does so until the process ends: nothing is written behind the back of the
// next one.
func (r *room) insist(what string, write func() error) error {
	err := write()
	if err == nil {
		return nil
	}
	var told time.Time
	for waits := false; Mend(err) != "" && r.writes; err = write() {
		if r.giveBallast(err) {
			continue
		}
		if !waits {
			waits = true
			r.waiting.Add(1)
			defer func() {
				r.waiting.Add(-1)
				r.log.Info("the index can be written again", "what", what)
			}()
		}
		if now := time.Now(); now.Sub(told) >= tellEvery {
			told = now
			r.log.Error("the index waits until it can be written", "what", what, "err", err,
				"mend", Mend(err))
		}
		r.pause(err)
	}
	return err
}

// giveBallast makes room, once.
func (r *room) giveBallast(err error) bool {
	if !noRoom(err) || r.fs.Remove(filepath.Join(r.dir, ballastFile)) != nil {
		return false
	}
	r.log.Warn("the disk is full; the index gives up its ballast", "dir", r.dir)
	return true
}

// pause lasts until what was refused is worth another try.
func (r *room) pause(err error) {
	tick := time.NewTicker(roomEvery)
	defer tick.Stop()
	for {
		select {
		case <-r.closing:
			select {}
		case <-tick.C:
		}
		if !errors.Is(err, syscall.ENOSPC) || r.some() {
			return
		}
	}
}

// some tells whether there is space. A disk that does not say is asked by the next write.
func (r *room) some() bool {
	usage, err := r.fs.GetDiskUsage(r.dir)
	return err != nil || usage.AvailBytes >= min(roomBytes, usage.TotalBytes/ballastShare)
}

// retry reads, again for a while, once the index runs, if the operating system refuses it, and as
// long as it takes if the writer cannot go on without. What a disk gave back at last is as good as
// any: each block has a checksum.
func (r *room) retry(op, name string, read func() error) error {
	err := read()
	if err == nil || Mend(err) == "" {
		return err
	}
	var held uint64
	waits := false
	defer func() { r.holdUp(op, name, &waits, false, nil) }()
	for end := time.Now().Add(r.readWait); err != nil && Mend(err) != ""; err = read() {
		r.refused.Store(&err)
		// The same hold as at the last try: it does not get on, for want of this read or another.
		before := held
		held = r.hold.Load()
		needed := held == before && held%2 == 1 && !r.leaving.Load()
		r.holdUp(op, name, &waits, needed, err)
		if !r.running.Load() || r.leaving.Load() || !needed && time.Now().After(end) {
			return err
		}
		select {
		case <-r.closing:
			return err
		case <-time.After(roomEvery):
		}
	}
	return err
}

// holdUp notes whether a read holds the writer up, and says so when that changes.
func (r *room) holdUp(op, name string, waits *bool, needed bool, err error) {
	switch {
	case needed && !*waits:
		r.waiting.Add(1)
		r.log.Error("the index waits until it can be read", "what", op+" "+name, "err", err,
			"mend", Mend(err)+"; if the disk never gives it back, stop sluice and remove the index: "+
				"it is built again from the journal")
	case !needed && *waits:
		r.waiting.Add(-1)
		r.log.Info("the index waits for no read any more", "what", op+" "+name)
	}
	*waits = needed
}

// count takes the end of a flush or a merge into account.
func count(failed *atomic.Int32, err error) {
	switch {
	case err == nil:
		failed.Store(0)
	case Mend(err) != "":
		failed.Add(1)
	}
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
	if x.room.full() {
		return nil
	}
	return x.room.reserve()
}

// Full tells that the index waits for its disk to take what it writes, for want of space most of
// all, or to give what the writer reads: nothing should be taken in.
func (x *Index) Full() bool { return x.room.full() }

// Hold and Release stand around what the writer does that cannot be left half done, or ends
// everything where it fails: reads that the operating system refuses meanwhile are tried until it
// gives them, and the index is Full as long as one holds the writer up. They do not nest.
func (x *Index) Hold() { x.room.hold.Add(1) }

// Release ends what Hold began.
func (x *Index) Release() { x.room.hold.Add(1) }

// Leave has every read end at once from now on that the operating system refuses: who holds the
// index is about to close it.
func (x *Index) Leave() { x.room.leaving.Store(true) }
