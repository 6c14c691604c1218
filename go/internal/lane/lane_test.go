package lane

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/shm-abi/shmabi"
)

var testOwner = Owner{JournalID: [16]byte{1}, BootID: [16]byte{2}}

// producer plays the data plane by hand over the file itself.
type producer struct {
	t        *testing.T
	file     *os.File
	commit   uint64
	capacity uint64
}

func (p *producer) store(at int64, v uint64) {
	p.t.Helper()
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	if _, err := p.file.WriteAt(b[:], at); err != nil {
		p.t.Fatal(err)
	}
}

func (p *producer) load(at int64) uint64 {
	p.t.Helper()
	var b [8]byte
	if _, err := p.file.ReadAt(b[:], at); err != nil {
		p.t.Fatal(err)
	}
	return binary.LittleEndian.Uint64(b[:])
}

// publish writes a frame behind the last one, around the end of the ring if need be.
func (p *producer) publish(body []byte) uint64 {
	p.t.Helper()
	f, err := shmabi.BuildEvent(shmabi.EventParts{
		Method: "POST", Target: "/a", Body: body, Position: p.commit,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	for i, b := range f {
		at := (p.commit + uint64(i)) & (p.capacity - 1)
		if _, err := p.file.WriteAt([]byte{b}, int64(shmabi.PageSize+at)); err != nil {
			p.t.Fatal(err)
		}
	}
	position := p.commit
	p.commit += uint64(len(f))
	p.store(shmabi.LaneHeaderCommitOffset, p.commit)
	return position
}

func testLane(t *testing.T) (*producer, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lane")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	p := &producer{t: t, file: file, capacity: 4096}
	if err := file.Truncate(shmabi.PageSize + 2*4096); err != nil {
		t.Fatal(err)
	}
	p.store(shmabi.LaneHeaderLayoutHashOffset, shmabi.LayoutHash)
	p.store(shmabi.LaneHeaderJournalIDOffset, 1)
	p.store(shmabi.LaneHeaderBootIDOffset, 2)
	p.store(shmabi.LaneHeaderLaneIDOffset, 3)
	p.store(shmabi.LaneHeaderRequestCapacityOffset, 4096)
	p.store(shmabi.LaneHeaderReplyCapacityOffset, 4096)
	p.store(shmabi.LaneHeaderMagicOffset, shmabi.LaneMagic)
	return p, path
}

func mustAttach(t *testing.T, path string) *Lane {
	t.Helper()
	l, err := Attach(path, testOwner)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func TestFramesAreReadAroundTheEndOfTheRing(t *testing.T) {
	p, path := testLane(t)
	l := mustAttach(t, path)
	body := make([]byte, 900)
	for i := range 30 {
		body[0] = byte(i)
		at := p.publish(body)
		commit, err := l.Commit()
		if err != nil {
			t.Fatal(err)
		}
		f, err := l.Frame(at, commit)
		if err != nil {
			t.Fatal(err)
		}
		e, err := f.Event()
		if err != nil || e.Body()[0] != byte(i) {
			t.Fatalf("frame %d: %v", i, err)
		}
		l.PublishVerified(commit)
		l.Release(commit)
	}
	if got := p.load(shmabi.LaneHeaderConsumeOffset); got != p.commit {
		t.Errorf("consume = %d, want %d", got, p.commit)
	}
}

func TestWhatCannotBeIsATypedError(t *testing.T) {
	t.Run("commit beyond the ring", func(t *testing.T) {
		p, path := testLane(t)
		l := mustAttach(t, path)
		p.store(shmabi.LaneHeaderCommitOffset, 4096+64)
		if _, err := l.Commit(); !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
	})
	t.Run("commit going back", func(t *testing.T) {
		p, path := testLane(t)
		l := mustAttach(t, path)
		p.store(shmabi.LaneHeaderCommitOffset, 128)
		if _, err := l.Commit(); err != nil {
			t.Fatal(err)
		}
		p.store(shmabi.LaneHeaderCommitOffset, 64)
		if _, err := l.Commit(); !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
	})
	t.Run("commit and consume far ahead together", func(t *testing.T) {
		p, path := testLane(t)
		l := mustAttach(t, path)
		p.store(shmabi.LaneHeaderConsumeOffset, 1<<32)
		p.store(shmabi.LaneHeaderCommitOffset, 1<<32)
		if _, err := l.Commit(); !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
		if _, err := l.Frame(0, 1<<32); !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
	})
	t.Run("payload flipped", func(t *testing.T) {
		p, path := testLane(t)
		l := mustAttach(t, path)
		at := p.publish([]byte("x"))
		if _, err := p.file.WriteAt([]byte{0xff}, shmabi.PageSize+200); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Frame(at, p.commit); !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
	})
	t.Run("frame of another position", func(t *testing.T) {
		p, path := testLane(t)
		l := mustAttach(t, path)
		at := p.publish([]byte("x"))
		p.store(shmabi.PageSize+shmabi.DLinePositionOffset, 64)
		if _, err := l.Frame(at, p.commit); !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
	})
	t.Run("reply_consume ahead", func(t *testing.T) {
		p, path := testLane(t)
		l := mustAttach(t, path)
		p.store(shmabi.LaneHeaderReplyConsumeOffset, 64)
		if _, err := l.Reply(&Reply{}); !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
	})
}

func TestOnlyOurLanesAreAttached(t *testing.T) {
	for name, c := range map[string]struct {
		at   int64
		want error
	}{
		"magic":   {shmabi.LaneHeaderMagicOffset, ErrForeign},
		"layout":  {shmabi.LaneHeaderLayoutHashOffset, ErrForeign},
		"boot":    {shmabi.LaneHeaderBootIDOffset, ErrOtherBoot},
		"journal": {shmabi.LaneHeaderJournalIDOffset, ErrOtherJournal},
		"size":    {shmabi.LaneHeaderRequestCapacityOffset, ErrForeign},
	} {
		t.Run(name, func(t *testing.T) {
			p, path := testLane(t)
			p.store(c.at, 8192)
			if _, err := Attach(path, testOwner); !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestRepliesWaitForRoomAndLoseNothing(t *testing.T) {
	p, path := testLane(t)
	l := mustAttach(t, path)
	sent := 0
	for {
		r := Reply{Kind: shmabi.ReplyInline, Code: 200, Seq: uint32(sent), Body: []byte("pong")}
		ok, err := l.Reply(&r)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		sent++
	}
	if sent != 4096/128 {
		t.Fatalf("%d replies fit", sent)
	}
	l.PublishReplies()
	if !l.Sleep(0, true) {
		t.Fatal("no sleep although nothing moved")
	}
	l.Wake()
	p.store(shmabi.LaneHeaderReplyConsumeOffset, 128)
	if l.Sleep(0, true) {
		t.Fatal("slept although there is room")
	}
	if ok, err := l.Reply(&Reply{Seq: 99}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if _, err := l.Reply(&Reply{Body: make([]byte, 4096)}); err == nil {
		t.Fatal("a reply over a quarter of the ring was taken")
	}
}

func TestTheTicketContinuesAboveTheWordFound(t *testing.T) {
	p, path := testLane(t)
	p.store(shmabi.LaneHeaderCPTicketOffset, 4*77|3)
	l := mustAttach(t, path)
	if !l.Sleep(0, false) {
		t.Fatal("no sleep")
	}
	if got := p.load(shmabi.LaneHeaderCPTicketOffset); got <= 4*77|3 || got&3 != 1 {
		t.Errorf("ticket %d", got)
	}
}

func TestADeadProducerGivesItsLockBack(t *testing.T) {
	p, path := testLane(t)
	l := mustAttach(t, path)
	if l.ProducerGone() {
		t.Fatal("gone while its lock is held")
	}
	_ = p.file.Close()
	if !l.ProducerGone() {
		t.Fatal("still there after its lock was given back")
	}
}

func TestABellWakesItsWaiterOnce(t *testing.T) {
	b, err := NewBell()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Ring(); err != nil {
		t.Fatal(err)
	}
	if rung, err := b.Wait(time.Minute); !rung || err != nil {
		t.Fatal(rung, err)
	}
	if rung, err := b.Wait(time.Millisecond); rung || err != nil {
		t.Fatal(rung, err)
	}
}

func TestTheControlPageIsKeptAndForeignOnesRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control")
	c, err := OpenControl(path, [16]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	c.StoreLimit(77)
	c.Close()
	c, err = OpenControl(path, [16]byte{1})
	if err != nil || c.Limit() != 77 {
		t.Fatal(err)
	}
	c.Close()
	if _, err := OpenControl(path, [16]byte{9}); !errors.Is(err, ErrOtherJournal) {
		t.Fatal(err)
	}
}
