package daemon

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/go/internal/dataplane"
	"sluice/go/internal/event"
	"sluice/go/internal/ingest"
	"sluice/go/internal/lane"
	"sluice/go/internal/store"
	"sluice/shm-abi/shmabi"
)

var (
	testOwner = lane.Owner{JournalID: [16]byte{1}, BootID: [16]byte{2}}
	discard   = slog.New(slog.DiscardHandler)
)

// laneFile makes a lane as a data plane does, and lets change spoil its header. It keeps the lock.
func laneFile(t *testing.T, dir string, number byte, change func(page []byte)) (string, *os.File) {
	t.Helper()
	const ring = 4096
	id := [16]byte{number, 15: 1}
	path := filepath.Join(dir, fmt.Sprintf("%x", id))
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	must(t, err)
	t.Cleanup(func() { _ = file.Close() })
	must(t, unix.Flock(int(file.Fd()), unix.LOCK_EX))
	page, le := make([]byte, shmabi.LaneHeaderSize), binary.LittleEndian
	le.PutUint64(page[shmabi.LaneHeaderMagicOffset:], shmabi.LaneMagic)
	le.PutUint64(page[shmabi.LaneHeaderLayoutHashOffset:], shmabi.LayoutHash)
	copy(page[shmabi.LaneHeaderBootIDOffset:], testOwner.BootID[:])
	copy(page[shmabi.LaneHeaderJournalIDOffset:], testOwner.JournalID[:])
	copy(page[shmabi.LaneHeaderLaneIDOffset:], id[:])
	le.PutUint32(page[shmabi.LaneHeaderGenerationOffset:], uint32(number))
	le.PutUint64(page[shmabi.LaneHeaderRequestCapacityOffset:], ring)
	le.PutUint64(page[shmabi.LaneHeaderReplyCapacityOffset:], ring)
	if change != nil {
		change(page)
	}
	_, err = file.WriteAt(page, 0)
	must(t, err)
	must(t, file.Truncate(shmabi.LaneHeaderSize+2*ring))
	return path, file
}

// newLanes serves a folder with a store of its own.
func newLanes(t *testing.T) *lanes {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{Dir: t.TempDir(), Log: discard})
	must(t, err)
	must(t, s.Settle(t.Context()))
	service := ingest.New(ingest.Options{Store: s, Control: controlPage(t), Log: discard},
		&ingest.Table{})
	service.Start()
	t.Cleanup(func() {
		service.Stop()
		must(t, s.Close())
	})
	return &lanes{
		dir: t.TempDir(), owner: testOwner, ingest: service, log: discard,
		durable: make(map[event.LaneID]uint64),
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestWhatACrashLeftIsTakenUpOrSetAside(t *testing.T) {
	l := newLanes(t)
	good, _ := laneFile(t, l.dir, 1, nil)
	ended, _ := laneFile(t, l.dir, 2, nil)
	reboot, _ := laneFile(t, l.dir, 3, func(p []byte) { p[shmabi.LaneHeaderBootIDOffset] ^= 1 })
	wrong, _ := laneFile(t, l.dir, 4, func(p []byte) { p[shmabi.LaneHeaderVerifiedOffset] = 64 })
	beyond, _ := laneFile(t, l.dir, 5, nil)
	l.durable[event.LaneID{5, 15: 1}] = 4096 // the journal has what was never there
	unfinished := func(p []byte) { clear(p[:8]) }
	dead, file := laneFile(t, l.dir, 6, unfinished)
	must(t, file.Close())
	born, _ := laneFile(t, l.dir, 7, unfinished) // its producer lives
	notes := filepath.Join(l.dir, "notes")
	must(t, os.WriteFile(notes, nil, 0o600))
	must(t, os.Mkdir(filepath.Join(l.dir, "00000000000000000000000000000000"), 0o700))

	must(t, l.takeUp(map[event.LaneID]bool{{2, 15: 1}: true}))
	var served []event.LaneID
	for _, lane := range l.ingest.Lanes() {
		served = append(served, lane.ID)
	}
	if !slices.Equal(served, []event.LaneID{{1, 15: 1}}) {
		t.Errorf("served %x", served)
	}
	for path, there := range map[string]bool{
		good: true, ended: false, dead: false, born: true, notes: true,
		reboot: false, reboot + ".aside": true,
		wrong: false, wrong + ".aside": true,
		beyond: false, beyond + ".aside": true,
	} {
		if exists(path) != there {
			t.Errorf("%s is there: %v, want %v", filepath.Base(path), !there, there)
		}
	}
}

func TestALaneOfAnotherVersionKeepsTheDaemonFromStarting(t *testing.T) {
	l := newLanes(t)
	path, _ := laneFile(t, l.dir, 1, func(p []byte) { p[shmabi.LaneHeaderLayoutHashOffset] ^= 1 })
	if err := l.takeUp(nil); !errors.Is(err, errForeignLane) || !errors.Is(err, lane.ErrForeign) {
		t.Errorf("take up: %v", err)
	}
	if !exists(path) {
		t.Error("the file is gone: an acknowledged event may lie in it")
	}
}

func TestALaneOfAnotherJournalKeepsTheDaemonFromStarting(t *testing.T) {
	l := newLanes(t)
	path, _ := laneFile(t, l.dir, 1, func(p []byte) { p[shmabi.LaneHeaderJournalIDOffset] ^= 1 })
	if err := l.takeUp(nil); !errors.Is(err, lane.ErrOtherJournal) || !exists(path) {
		t.Errorf("take up: %v", err)
	}
}

func TestALaneIsServedOnceWhoeverNamesItFirst(t *testing.T) {
	l := newLanes(t)
	laneFile(t, l.dir, 1, nil)
	must(t, l.takeUp(nil))
	laneFile(t, l.dir, 2, nil) // made since
	bells, err := newBells(4)
	must(t, err)
	fds := dataplane.Fds{RequestBells: bells[:2], ReplyBells: bells[2:]}
	defer fds.Close()
	one, two := event.LaneID{1, 15: 1}, event.LaneID{2, 15: 1}
	for range 2 { // a second hello gives doorbells again, and no second service
		must(t, l.Serve(1, [][]byte{one[:], two[:]}, fds))
	}
	if n := len(l.ingest.Lanes()); n != 2 {
		t.Errorf("%d lanes in service", n)
	}
	missing := event.LaneID{9}
	for name, ids := range map[string][][]byte{
		"a lane without a file":  {one[:], missing[:]},
		"fewer lanes than bells": {one[:]},
		"no lanes":               nil,
		"a name that is none":    {one[:], []byte("short")},
		"a worker without lane":  {nil, two[:]},
	} {
		if err := l.Serve(1, ids, fds); err == nil {
			t.Errorf("%s was served", name)
		}
	}
}
