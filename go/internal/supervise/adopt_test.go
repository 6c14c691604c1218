package supervise

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/go/internal/dataplane"
	"sluice/shm-abi/shmabi"
)

// inode names a socket: it is the same one as long as nobody closed it.
func inode(t *testing.T, file *os.File) uint64 {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Fstat(int(file.Fd()), &st))
	return st.Ino
}

func TestALivingDataPlaneIsTakenOverWithItsDescriptors(t *testing.T) {
	b := newBed(t)
	first := b.start()
	pid, socket := first.Status().Pid, inode(t, first.Listeners()[0][0])
	lanes := b.port.served[1]
	first.Stop()
	if !alive(pid) {
		t.Fatal("the data plane ended with its supervisor")
	}
	b.config(7)
	second := b.start()
	st := second.Status()
	if st.Pid != pid || st.Generation != 1 || b.opened != 1 || st.Restarts != 0 {
		t.Fatalf("status %+v, sockets opened %d times", st, b.opened)
	}
	if got := inode(t, second.Listeners()[0][0]); got != socket {
		t.Errorf("socket %d became %d", socket, got)
	}
	if !slices.EqualFunc(lanes, b.port.served[1], slices.Equal) {
		t.Errorf("lanes %x became %x", lanes, b.port.served[1])
	}
	// The same doorbells: a ring of the old duplicate is heard by the new one.
	must(t, b.port.bells[1][0].Ring())
	if rung, err := b.port.bells[1][2].Wait(patience); !rung || err != nil {
		t.Errorf("the doorbell was not taken over: %v", err)
	}
	kill(t, pid, unix.SIGKILL)
	accepting(t, second, 2)
}

func TestASilentOneIsKilled(t *testing.T) {
	b := newBed(t)
	first := b.start()
	pid := first.Status().Pid
	first.Stop()
	kill(t, pid, unix.SIGSTOP)
	eventually(t, "it is stopped", func() bool { return state(pid) == 'T' })
	second := b.start()
	if st := second.Status(); st.Generation != 2 || alive(pid) {
		t.Errorf("status %+v, the silent one lives: %v", st, alive(pid))
	}
	if !b.port.isOrphaned(1) {
		t.Error("its lanes are not drained")
	}
}

func TestADeadOneIsNotWaitedFor(t *testing.T) {
	b := newBed(t)
	first := b.start()
	pid := first.Status().Pid
	first.Stop()
	kill(t, pid, unix.SIGKILL)
	eventually(t, "its death", func() bool { return !alive(pid) })
	second := b.start()
	if st := second.Status(); st.Generation != 2 || !b.port.isOrphaned(1) {
		t.Errorf("status %+v", st)
	}
	if left := b.left(); slices.ContainsFunc(left, func(name string) bool {
		return strings.HasPrefix(name, "1.")
	}) {
		t.Errorf("left %v", left)
	}
}

// A pid in a file is a number that the kernel may have given to anybody since.
func TestNobodyElsesProcessIsKilled(t *testing.T) {
	b := newBed(t)
	stranger := exec.Command("sleep", "60")
	must(t, stranger.Start())
	defer func() {
		_ = stranger.Process.Kill()
		_ = stranger.Wait()
	}()
	page := make([]byte, shmabi.CountersHeaderSize)
	binary.LittleEndian.PutUint64(page[shmabi.CountersHeaderMagicOffset:], shmabi.CountersMagic)
	binary.LittleEndian.PutUint32(page[shmabi.CountersHeaderPidOffset:], uint32(stranger.Process.Pid))
	must(t, os.WriteFile(b.dir+"/dp/5.counters", page, 0o600))
	must(t, os.WriteFile(b.dir+"/dp/notes", nil, 0o600))
	s := b.start()
	if !alive(stranger.Process.Pid) {
		t.Error("a stranger was killed")
	}
	if st := s.Status(); st.Generation != 6 {
		t.Errorf("generation %d; numbers only grow", st.Generation)
	}
	if !slices.Contains(b.left(), "notes") {
		t.Error("a file that is none of ours was removed")
	}
}

func TestOfSeveralReadyOnesTheNewestStaysAndOlderOnesDrain(t *testing.T) {
	b := newBed(t)
	oldest, older, newest := b.spawn(1, 1), b.spawn(2, 1), b.spawn(10, 1)
	s := b.start()
	if st := s.Status(); st.Pid != newest.Pid || st.Generation != 10 {
		t.Fatalf("status %+v", st)
	}
	for _, p := range []*dataplane.Process{oldest, older} {
		select {
		case <-p.Done():
		case <-time.After(patience):
			t.Fatalf("generation %d accepts for ever", p.Generation)
		}
		eventually(t, "its lanes are orphans", func() bool { return b.port.isOrphaned(p.Generation) })
	}
	if !alive(newest.Pid) {
		t.Error("the newest one was drained")
	}
	must(t, s.Drain(context.Background(), time.Second))
	s.Stop()
	b.balanced()
}

func TestANewestThatWasNeverReadyIsKilled(t *testing.T) {
	b := newBed(t)
	ready, unready := b.spawn(3, 1), b.spawn(4, 0)
	s := b.start()
	if st := s.Status(); st.Pid != ready.Pid {
		t.Errorf("status %+v", st)
	}
	if alive(unready.Pid) {
		t.Error("one that was never ready lives")
	}
}

func TestOneThatDrainsIsNotTakenOver(t *testing.T) {
	b := newBed(t, "3:stubborn")
	p := b.spawn(3, 1)
	client, err := dataplane.Dial(b.dir + "/dp/3.sock")
	must(t, err)
	must(t, client.Drain(context.Background(), time.Second))
	client.Close()
	before := b.opened
	s := b.start()
	if st := s.Status(); st.Generation != 4 || !st.Accepting {
		t.Errorf("status %+v", st)
	}
	if b.opened != before {
		t.Error("its listening sockets were not taken over")
	}
	p.Kill()
	eventually(t, "its lanes are orphans", func() bool { return b.port.isOrphaned(3) })
}

func TestOneThatDoesNotTakeOurConfigServesUntilAnotherDoes(t *testing.T) {
	b := newBed(t, "1:refuses-next")
	old := b.spawn(1, 1)
	b.config(2)
	s := b.start()
	if st := s.Status(); st.Generation != 2 || !st.Accepting || st.Problem != "" {
		t.Errorf("status %+v", st)
	}
	<-old.Done()
	eventually(t, "the old one's lanes are orphans", func() bool { return b.port.isOrphaned(1) })
}

func TestOneThatDoesNotTakeOurConfigGoesOnWhereNoOtherStarts(t *testing.T) {
	b := newBed(t, "1:refuses-next", "2:dies")
	old := b.spawn(1, 1)
	b.config(2)
	s := b.start()
	st := s.Status()
	if st.Pid != old.Pid || !alive(old.Pid) || !strings.Contains(st.Problem, "data plane 2") {
		t.Fatalf("status %+v", st)
	}
	kill(t, old.Pid, unix.SIGKILL)
	if st := accepting(t, s, 3); st.Problem != "" {
		t.Errorf("status %+v", st)
	}
}

func TestOneThatHandsNoDescriptorsOverIsReplacedFirst(t *testing.T) {
	b := newBed(t, "1:keeps-fds")
	old := b.spawn(1, 1)
	s := b.start()
	if st := s.Status(); st.Generation != 2 || !st.Accepting {
		t.Errorf("status %+v", st)
	}
	select {
	case <-old.Done():
	case <-time.After(patience):
		t.Error("two accept for ever")
	}
}

func TestOneWhoseLanesCannotBeServedIsReplacedAsSoonAsAnotherIs(t *testing.T) {
	b := newBed(t)
	old := b.spawn(1, 1)
	b.port.set(func(p *port) { p.refuse = errors.New("no such lane") })
	s := b.start()
	if st := s.Status(); st.Pid != old.Pid || !strings.Contains(st.Problem, "no such lane") {
		t.Errorf("status %+v", st)
	}
	b.port.set(func(p *port) { p.refuse = nil })
	kill(t, old.Pid, unix.SIGKILL)
	accepting(t, s, 3)
}
