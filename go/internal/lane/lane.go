package lane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"sluice/go/internal/event"
	"sluice/shm-abi/shmabi"
)

// Owner says which lanes are ours.
type Owner struct {
	JournalID [16]byte
	BootID    [16]byte
}

// Lane is one lane file, mapped. Intake and replies may be used by two goroutines; each of the two
// by one at a time.
type Lane struct {
	file     *os.File
	path     string
	id       event.LaneID
	header   shmabi.LaneHeader
	request  []byte
	reply    []byte
	capacity uint64
	replyCap uint64

	commit       uint64 // last one that passed the checks
	verified     uint64
	consume      uint64
	replyCommit  uint64 // written, perhaps not published yet
	replyConsume uint64
	refusedAt    uint64 // replyConsume at the first refusal since the last sleep
	refused      bool
	lastRung     uint64
	ticket       uint64

	mapped *mapping
	gone   bool
	closed sync.Once
}

// Attach maps a lane file after checking that it is one of the owner's.
func Attach(path string, owner Owner) (*Lane, error) {
	// Whatever lies there, the open neither waits for somebody (a FIFO) nor leads elsewhere.
	file, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.EISDIR), errors.Is(err, unix.ENXIO):
		return nil, fmt.Errorf("open lane: %w: %w", ErrForeign, err)
	case err != nil:
		return nil, fmt.Errorf("open lane: %w", err)
	}
	l, err := attach(file, owner)
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lane %s: %w", filepath.Base(path), err)
	}
	l.path = path
	return l, nil
}

func attach(file *os.File, owner Owner) (*Lane, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%w: %s", ErrForeign, info.Mode())
	case info.Size() == 0:
		return nil, ErrUnfinished
	case info.Size() < shmabi.LaneHeaderSize:
		return nil, fmt.Errorf("%w: %d bytes", ErrForeign, info.Size())
	}
	page, err := mapParts(file, part{0, shmabi.LaneHeaderSize, 1})
	if err != nil {
		return nil, err
	}
	var capacity, replyCap uint64
	err = page.guard(func() (err error) {
		header := shmabi.ViewLaneHeader(page.bytes(0, shmabi.LaneHeaderSize))
		capacity, replyCap, err = checkHeader(header, owner, uint64(info.Size()))
		return err
	})
	page.unmap()
	if err != nil {
		return nil, err
	}
	mapped, err := mapParts(file,
		part{0, shmabi.LaneHeaderSize, 1},
		part{shmabi.LaneHeaderSize, int(capacity), 2},
		part{shmabi.LaneHeaderSize + int64(capacity), int(replyCap), 2})
	if err != nil {
		return nil, err
	}
	l := &Lane{
		file: file, mapped: mapped, capacity: capacity, replyCap: replyCap,
		header:  shmabi.ViewLaneHeader(mapped.bytes(0, shmabi.LaneHeaderSize)),
		request: mapped.bytes(shmabi.LaneHeaderSize, 2*int(capacity)),
		reply:   mapped.bytes(shmabi.LaneHeaderSize+2*int(capacity), 2*int(replyCap)),
	}
	err = l.Guard(func() error {
		l.id = event.LaneID(l.header.LaneID())
		return l.resume()
	})
	if err != nil {
		mapped.unmap()
		return nil, err
	}
	return l, nil
}

// checkHeader gives the sizes of the two rings, each loaded once.
func checkHeader(h shmabi.LaneHeader, owner Owner, size uint64) (request, reply uint64, err error) {
	request, reply = h.RequestCapacity(), h.ReplyCapacity()
	magic, layout := h.Magic(), h.LayoutHash()
	switch {
	case magic == 0:
		err = ErrUnfinished
	case magic != shmabi.LaneMagic:
		err = fmt.Errorf("%w: magic %#x", ErrForeign, magic)
	case layout != shmabi.LayoutHash:
		err = fmt.Errorf("%w: layout %#x, this program has %#x",
			ErrForeign, layout, uint64(shmabi.LayoutHash))
	case h.BootID() != owner.BootID:
		err = ErrOtherBoot
	case h.JournalID() != owner.JournalID:
		err = fmt.Errorf("%w: %x", ErrOtherJournal, h.JournalID())
	case !ringSize(request) || !ringSize(reply) || size != shmabi.PageSize+request+reply:
		err = fmt.Errorf("%w: rings of %d and %d bytes in a file of %d",
			ErrForeign, request, reply, size)
	}
	return request, reply, err
}

func ringSize(n uint64) bool { return n >= shmabi.PageSize && n <= 1<<40 && n&(n-1) == 0 }

// resume takes the words of an earlier life up.
func (l *Lane) resume() error {
	l.consume, l.verified = l.header.Consume(), l.header.Verified()
	l.replyCommit = l.header.ReplyCommit()
	l.commit, l.replyConsume = l.verified, 0
	l.ticket = l.header.CPTicket() | (ticketNext - 1) // the next one is above the word found
	commit := l.header.Commit()
	if l.consume > l.verified || l.verified > commit || commit-l.consume > l.capacity ||
		(l.consume|l.verified|commit)%shmabi.LineSize != 0 {
		return fmt.Errorf("%w: consume %d, verified %d, commit %d of %d",
			ErrCorrupt, l.consume, l.verified, commit, l.capacity)
	}
	if l.replyCommit%shmabi.LineSize != 0 {
		return corrupt("reply_commit", l.replyCommit)
	}
	_, err := l.replyRoom()
	return err
}

// Guard runs f, which looks at or writes the lane's memory. Where the file was cut under the
// mapping that is ErrCorrupt and not the end of this process. Everything that touches frames, C
// lines, words or replies belongs under it; it holds for the calling goroutine alone and costs no
// check per access.
func (l *Lane) Guard(f func() error) error { return l.mapped.guard(f) }

// ID names the lane for good.
func (l *Lane) ID() event.LaneID { return l.id }

// Path is the lane's file.
func (l *Lane) Path() string { return l.path }

// Generation counts the data planes; Pid is the one that made the lane.
func (l *Lane) Generation() uint32 { return l.header.Generation() }

// Pid of the data plane that made the lane.
func (l *Lane) Pid() int { return int(l.header.Pid()) }

// Capacity is the size of the request ring in bytes.
func (l *Lane) Capacity() uint64 { return l.capacity }

// Consume, Verified: this side's own cursors. Commit: the data plane's, as last checked.
func (l *Lane) Consume() uint64 { return l.consume }

// Verified is the position below which verdicts are final.
func (l *Lane) Verified() uint64 { return l.verified }

// Used is how many bytes of the request ring are not given back yet.
func (l *Lane) Used() uint64 { return l.header.Commit() - l.header.Consume() }

// Commit loads and checks how far the data plane has committed.
func (l *Lane) Commit() (uint64, error) {
	commit := l.header.Commit()
	// Against verified too, which lies in no shared memory: consume may have been written over.
	if commit < l.commit || commit-l.header.Consume() > l.capacity ||
		commit-l.verified > l.capacity || commit%shmabi.LineSize != 0 {
		return 0, corrupt("commit", commit)
	}
	l.commit = commit
	return commit, nil
}

// Frame is the frame at a position, which ends at or before limit. Its length, position and payload
// checksum are checked; the bytes stay until Release passes them.
func (l *Lane) Frame(position, limit uint64) (shmabi.Frame, error) {
	if limit-position > l.capacity {
		return nil, corrupt(fmt.Sprintf("end of the frames at %d", position), limit)
	}
	at := position & (l.capacity - 1)
	f, err := shmabi.ParseFrame(l.request[at : at+limit-position])
	if err != nil {
		return nil, fmt.Errorf("%w: at %d: %w", ErrCorrupt, position, err)
	}
	if f.D().Position() != position {
		return nil, corrupt(fmt.Sprintf("position of the frame at %d", position), f.D().Position())
	}
	if err := f.CheckCRC(); err != nil {
		return nil, fmt.Errorf("%w: at %d: %w", ErrCorrupt, position, err)
	}
	return f, nil
}

// PublishVerified makes the verdicts below a position final. Their C lines must be written.
func (l *Lane) PublishVerified(position uint64) {
	l.verified = position
	l.header.StoreVerified(position)
}

// Release gives the room below a position back to the data plane.
func (l *Lane) Release(position uint64) {
	if position > l.consume {
		l.consume = position
		l.header.StoreConsume(position)
	}
}

// Retire tells the data plane to use this lane no more.
func (l *Lane) Retire() { l.header.StoreRetired(1) }

// Closed tells whether the data plane said that nothing more will come.
func (l *Lane) Closed() bool { return l.header.Closed() != 0 }

// ProducerGone tells whether the process that made the lane is dead: the kernel gave its lock back.
// From then on this side holds the lock.
func (l *Lane) ProducerGone() bool {
	if !l.gone {
		l.gone = unix.Flock(int(l.file.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
	}
	return l.gone
}

// Punch gives the memory outside [consume, commit) of an orphan back to the host. It refuses while
// the producer lives, whose next store would need the memory again.
func (l *Lane) Punch() error {
	if !l.ProducerGone() {
		return fmt.Errorf("punch lane %x: its producer lives", l.id)
	}
	mask := l.capacity - 1
	commit, consume := l.header.Commit(), l.header.Consume()
	if consume > commit || commit-consume > l.capacity || commit < l.verified {
		return fmt.Errorf("punch lane %x: %w", l.id, corrupt("commit", commit))
	}
	from, to := commit, consume+l.capacity // the free stretch, one lap on
	const page = shmabi.PageSize
	from, to = (from+page-1)&^(page-1), to&^(page-1)
	for from < to {
		end := min(to, (from|mask)+1)
		err := unix.Fallocate(int(l.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE,
			int64(page+from&mask), int64(end-from))
		if err != nil {
			return fmt.Errorf("punch lane %x: %w", l.id, err)
		}
		from = end
	}
	return nil
}

// Unlink removes the file; the mapping stays until Close.
func (l *Lane) Unlink() error {
	if err := os.Remove(l.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("unlink lane: %w", err)
	}
	return nil
}

// Close unmaps the lane. No view of it may be used afterwards.
func (l *Lane) Close() {
	l.closed.Do(func() {
		l.mapped.unmap()
		_ = l.file.Close() // nothing was written through the descriptor
	})
}
