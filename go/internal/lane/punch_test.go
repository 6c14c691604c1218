package lane

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/shm-abi/shmabi"
)

func le64(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }

// putHeader fills what the maker of a lane writes.
func putHeader(page []byte, request, reply uint64) {
	for at, v := range map[int]uint64{
		shmabi.LaneHeaderMagicOffset:           shmabi.LaneMagic,
		shmabi.LaneHeaderLayoutHashOffset:      shmabi.LayoutHash,
		shmabi.LaneHeaderJournalIDOffset:       1,
		shmabi.LaneHeaderBootIDOffset:          2,
		shmabi.LaneHeaderLaneIDOffset:          3,
		shmabi.LaneHeaderRequestCapacityOffset: request,
		shmabi.LaneHeaderReplyCapacityOffset:   reply,
	} {
		copy(page[at:], le64(v))
	}
}

// TestPunchTakesFreePagesAndNoByteInUse tries every pair of cursors on lines of a ring of two
// pages, over two laps.
func TestPunchTakesFreePagesAndNoByteInUse(t *testing.T) {
	const capacity, page, line = 2 * shmabi.PageSize, shmabi.PageSize, shmabi.LineSize
	fd, err := unix.MemfdCreate("lane", unix.MFD_CLOEXEC) // tmpfs, where a lane lives
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "lane")
	image := make([]byte, page+capacity+page)
	putHeader(image, capacity, page)
	if _, err := file.WriteAt(image, 0); err != nil {
		t.Fatal(err)
	}
	l, err := attach(file, testOwner)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	full := bytes.Repeat([]byte{0xab}, capacity)
	ring := make([]byte, capacity)
	for consume := uint64(0); consume < 2*capacity; consume += line {
		for used := uint64(0); used <= capacity; used += line {
			commit := consume + used
			if _, err := file.WriteAt(full, page); err != nil {
				t.Fatal(err)
			}
			l.verified = consume
			copy(l.mapped.bytes(shmabi.LaneHeaderConsumeOffset, 8), le64(consume))
			copy(l.mapped.bytes(shmabi.LaneHeaderCommitOffset, 8), le64(commit))
			if err := l.Punch(); err != nil {
				t.Fatal(err)
			}
			if _, err := file.ReadAt(ring, page); err != nil {
				t.Fatal(err)
			}
			if err := checkPunched(ring, consume, commit); err != nil {
				t.Fatalf("consume %d, commit %d: %v", consume, commit, err)
			}
		}
	}
}

func checkPunched(ring []byte, consume, commit uint64) error {
	capacity, page := uint64(len(ring)), uint64(shmabi.PageSize)
	for at := consume; at < commit; at += shmabi.LineSize {
		if ring[at%capacity] != 0xab {
			return fmt.Errorf("byte %d in use was taken", at)
		}
	}
	// Free pages in one piece: those of the stretch that goes around from commit to consume.
	for from := (commit + page - 1) / page * page; from+page <= consume+capacity; from += page {
		if ring[from%capacity] != 0 {
			return fmt.Errorf("the free page at %d was kept", from)
		}
	}
	return nil
}

func TestPunchRefusesALivingProducerAndCursorsThatCannotBe(t *testing.T) {
	p, path := testLane(t)
	l := mustAttach(t, path)
	p.publish(make([]byte, 1000))
	commit, err := l.Commit()
	if err != nil {
		t.Fatal(err)
	}
	l.PublishVerified(commit)
	if err := l.Punch(); err == nil {
		t.Fatal("punched under a living producer")
	}
	_ = p.file.Close()
	again, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	p.file = again
	for _, commit := range []uint64{0, 64, commit - 64, 4096 + 64, 1 << 63} {
		p.store(shmabi.LaneHeaderCommitOffset, commit)
		if err := l.Punch(); !errors.Is(err, ErrCorrupt) {
			t.Errorf("commit %d: %v", commit, err)
		}
	}
	p.store(shmabi.LaneHeaderCommitOffset, commit)
	if _, err := l.Frame(0, commit); err != nil {
		t.Errorf("what was verified is gone: %v", err)
	}
}
