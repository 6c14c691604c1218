package lane

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/shm-abi/shmabi"
)

// FuzzAWildProducer lets a producer write anything anywhere under a consumer at work. Whatever it
// does is a typed error of the lane, never a panic, a fault or an endless loop.
//
// The input is a list of steps of eleven bytes: what to do, where, and a value.
func FuzzAWildProducer(f *testing.F) {
	const size = shmabi.PageSize + 2*4096
	step := func(do byte, at uint16, value uint64) []byte {
		where := binary.LittleEndian.AppendUint16([]byte{do}, at)
		return binary.LittleEndian.AppendUint64(where, value)
	}
	f.Add([]byte{})
	for _, at := range []uint16{
		shmabi.LaneHeaderMagicOffset, shmabi.LaneHeaderRequestCapacityOffset,
		shmabi.LaneHeaderCommitOffset, shmabi.LaneHeaderConsumeOffset,
		shmabi.LaneHeaderVerifiedOffset, shmabi.LaneHeaderReplyCommitOffset,
		shmabi.LaneHeaderReplyConsumeOffset, shmabi.LaneHeaderDPTicketOffset,
		shmabi.PageSize, shmabi.PageSize + shmabi.DLinePositionOffset, shmabi.PageSize + 128,
		shmabi.PageSize + 136, shmabi.PageSize + 140, shmabi.PageSize + 144,
	} {
		for _, value := range []uint64{0, 1, 63, 64, 4096, 4097, 1 << 31, 1<<63 - 1, 1<<64 - 1} {
			f.Add(append(step(0, at, value), step(2, 0, 0)...))
			f.Add(append(step(0, at, value), step(1, 0, 0)...))
		}
	}
	f.Add(append(step(3, 1, 0), step(2, 0, 0)...))
	// Both cursors far ahead, so that they fit each other.
	f.Add(bytes.Join([][]byte{
		step(0, shmabi.LaneHeaderConsumeOffset, 1<<32),
		step(0, shmabi.LaneHeaderCommitOffset, 1<<32), step(2, 0, 0),
	}, nil))
	f.Fuzz(func(t *testing.T, steps []byte) {
		fd, err := unix.MemfdCreate("lane", unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		file := os.NewFile(uintptr(fd), "lane")
		defer file.Close()
		image := make([]byte, size)
		putHeader(image, 4096, 4096)
		at := shmabi.PageSize
		for _, body := range []int{10, 700, 0} {
			frame, err := shmabi.BuildEvent(shmabi.EventParts{
				Method: "POST", Target: "/a", Headers: [][2]string{{"Host", "x"}},
				Body: make([]byte, body), Position: uint64(at - shmabi.PageSize),
			})
			if err != nil {
				t.Fatal(err)
			}
			at += copy(image[at:], frame)
		}
		copy(image[shmabi.LaneHeaderCommitOffset:], le64(uint64(at-shmabi.PageSize)))
		if _, err := file.WriteAt(image, 0); err != nil {
			t.Fatal(err)
		}
		l := mustBeTyped(t, file)
		for ; len(steps) >= 11 && l != nil; steps = steps[11:] {
			where := int64(binary.LittleEndian.Uint16(steps[1:])) % (size - 8)
			switch steps[0] % 4 {
			case 0:
				if _, err := file.WriteAt(steps[3:11], where); err != nil {
					t.Fatal(err)
				}
			case 1:
				l.mapped.unmap() // the consumer dies, another one attaches
				l = mustBeTyped(t, file)
			case 2:
				typed(t, l.Guard(func() error { return consumeAll(l) }))
			case 3:
				if err := file.Truncate(where / 4096 * 4096); err != nil {
					t.Fatal(err)
				}
			}
		}
		if l != nil {
			typed(t, l.Guard(func() error { return consumeAll(l) }))
			l.mapped.unmap()
		}
	})
}

func mustBeTyped(t *testing.T, file *os.File) *Lane {
	t.Helper()
	l, err := attach(file, testOwner)
	typed(t, err)
	return l
}

func typed(t *testing.T, err error) {
	t.Helper()
	for _, known := range []error{
		nil, ErrCorrupt, ErrForeign, ErrUnfinished, ErrOtherBoot, ErrOtherJournal,
	} {
		if errors.Is(err, known) {
			return
		}
	}
	t.Errorf("an error of no kind: %v", err)
}

// consumeAll is what intake, replier and supervisor do with a lane.
func consumeAll(l *Lane) error {
	commit, err := l.Commit()
	if err != nil {
		return err
	}
	for at := l.Verified(); at < commit; {
		f, err := l.Frame(at, commit)
		if err != nil {
			return err
		}
		if e, err := f.Event(); err == nil {
			_ = e.ValidHeaders()
			for i := range e.HeaderCount() {
				_, _ = e.Header(i)
			}
			_, _, _ = len(e.Body()), len(e.Target()), e.Peer()
		}
		f.C().SetState(uint16(shmabi.StateVerified))
		at += uint64(len(f))
		l.PublishVerified(at)
		body := f.Payload()[:min(64, len(f.Payload()))]
		if ok, err := l.Reply(&Reply{Code: 200, Body: body}); err != nil || !ok {
			return err
		}
		l.PublishReplies()
		l.Release(at)
	}
	l.RingDue(true, true)
	if l.Sleep(l.Verified(), true) {
		l.Wake()
	}
	_ = l.Used()
	return l.Punch()
}
