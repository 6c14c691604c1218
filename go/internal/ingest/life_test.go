package ingest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/go/internal/event"
	"sluice/go/internal/lane"
	"sluice/shm-abi/shmabi"
)

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// ended waits until the lane of a plane left service.
func (r *rig) ended(p *plane) {
	r.t.Helper()
	eventually(r.t, "the end of the lane", func() bool {
		for _, l := range r.service.Lanes() {
			if l.ID == p.id {
				return false
			}
		}
		return true
	})
}

// kill ends the data plane, as the supervisor sees it.
func (r *rig) kill(p *plane) {
	p.die()
	r.service.Orphaned(p.generation)
}

func TestOrphansAreDrainedWithoutReplies(t *testing.T) {
	r := newRig(t)
	p := r.plane(narrow)
	r.journal.hold()
	fillReplies(t, r, p)
	var want []uint64
	for i := range 30 {
		want = append(want, p.publish(signed(t, durably, fmt.Sprint(i), "{}")))
		p.publish(forged(t, durably, fmt.Sprint(i), "{}"))
	}
	r.kill(p)
	r.journal.inAppend()
	eventually(t, "known as an orphan", func() bool {
		lanes := r.service.Lanes()
		return len(lanes) == 1 && lanes[0].Orphan
	})
	if !exists(p.path) {
		t.Fatal("an orphan that is not drained was removed")
	}
	r.journal.release()
	r.ended(p)
	for _, at := range want {
		if !r.storedAt(p, at) {
			t.Errorf("the frame at %d is lost", at)
		}
	}
	if len(r.journal.all()) != len(want) || exists(p.path) || !r.journal.hasEnded(p.id) {
		t.Errorf("%d stored, file there: %v", len(r.journal.all()), exists(p.path))
	}
}

// The data plane drained some replies after the ring was last found full, and died.
func TestAnOrphanThatWaitedForRoomSleeps(t *testing.T) {
	r := newRig(t)
	p := r.plane(narrow)
	r.journal.hold()
	fillReplies(t, r, p)
	p.publish(signed(t, durably, "evt_1", "{}"))
	p.publish(signed(t, atOnce, "evt_2", "{}"))
	r.journal.inAppend()
	eventually(t, "the wish for room", func() bool {
		return p.load(shmabi.LaneHeaderCPTicketOffset)&3 == 3
	})
	p.store(shmabi.LaneHeaderReplyConsumeOffset, 64)
	header := shmabi.ViewLaneHeader(mapped(t, p.path))
	r.kill(p)
	eventually(t, "asleep as an orphan", func() bool {
		lanes := r.service.Lanes()
		return len(lanes) == 1 && lanes[0].Orphan && header.CPTicket()&3 == 1
	})
	before := header.CPTicket()
	for range 2000 { // nothing happens, so nothing may turn
		r.service.Lanes()
	}
	if after := header.CPTicket(); after != before {
		t.Errorf("the ticket went on from %d to %d with nothing to do", before, after)
	}
	r.journal.release()
	r.ended(p)
}

// mapped is a lane file's header page.
func mapped(t *testing.T, path string) []byte {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer file.Close()
	mem, err := unix.Mmap(int(file.Fd()), 0, shmabi.LaneHeaderSize,
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must(t, err)
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	return mem
}

func TestAProducerThatDiesUnnoticedIsFoundByItsLock(t *testing.T) {
	r := newRig(t)
	r.belt = 5 * time.Millisecond
	r.restart()
	p := r.plane(roomy)
	p.publish(signed(t, durably, "evt_1", "{}"))
	p.die() // and nobody says so
	r.ended(p)
	if len(r.journal.all()) != 1 || exists(p.path) {
		t.Error("not drained")
	}
	r.service.Stop()
	r.service = nil
}

func TestAnOrphansMemoryGoesBackToTheHost(t *testing.T) {
	r := newRig(t)
	p := r.plane(size{1 << 20, 1 << 16})
	f, _ := p.frame(signed(t, anybody, "", string(make([]byte, 700<<10))))
	p.write(f)
	p.show()
	r.verified(p)
	p.take(1)
	r.released(p)
	r.journal.hold()
	p.publish(signed(t, durably, "evt_1", "{}"))
	r.journal.inAppend()
	blocks := func() int64 {
		var st unix.Stat_t
		must(t, unix.Stat(p.path, &st))
		return st.Blocks
	}
	before := blocks()
	r.kill(p)
	eventually(t, "pages given back", func() bool { return blocks() < before/2 })
	r.journal.release()
	r.ended(p)
	if len(r.journal.all()) != 2 {
		t.Errorf("%d stored", len(r.journal.all()))
	}
}

func TestLaneEndIsDurableBeforeTheFileGoes(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	r.journal.set(func(j *journal) {
		j.onEnd = func(event.LaneID) {
			if !exists(p.path) {
				t.Error("the file went before its end was recorded")
			}
		}
	})
	p.publish(signed(t, durably, "evt_1", "{}"))
	p.take(1)
	p.close()
	r.kill(p)
	r.ended(p)
	if exists(p.path) || !r.journal.hasEnded(p.id) {
		t.Error("not ended")
	}
}

func TestALaneWhoseEndIsNotRecordedKeepsItsFile(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	r.journal.set(func(j *journal) { j.endErr = errDisk })
	p.close()
	r.kill(p)
	r.ended(p)
	if !exists(p.path) {
		t.Fatal("the file is gone, its end is not recorded")
	}
	r.journal.set(func(j *journal) { j.endErr = nil })
	r.restart()
	r.ended(p)
	if exists(p.path) || !r.journal.hasEnded(p.id) {
		t.Error("the next life did not end it")
	}
}

func TestALaneThatClosedIsEndedWhenItsLastFrameIsDurable(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	r.journal.hold()
	p.publish(signed(t, durably, "evt_1", "{}"))
	r.journal.inAppend()
	p.close()
	r.journal.release() // the committer has the last word, and must wake the lane
	r.ended(p)
	p.take(1)
}

func TestACorruptWordRetiresOneLaneAndOthersGoOn(t *testing.T) {
	damage := map[string]func(*plane, shmabi.Frame) uint64{
		"payload": func(p *plane, f shmabi.Frame) uint64 {
			f[shmabi.FrameHeader] ^= 1
			return p.write(f)
		},
		"length": func(p *plane, f shmabi.Frame) uint64 {
			binary.LittleEndian.PutUint32(f[shmabi.DLineLengthOffset:], 65)
			return p.write(f)
		},
		"position": func(p *plane, f shmabi.Frame) uint64 {
			f[shmabi.DLinePositionOffset] ^= 64
			return p.write(f)
		},
		"kind": func(p *plane, f shmabi.Frame) uint64 {
			f[shmabi.DLineKindOffset] = byte(shmabi.KindConfig)
			return p.write(f)
		},
		"header": func(p *plane, f shmabi.Frame) uint64 { // whole, but for where the first one lies
			head := shmabi.PayloadHead(f[shmabi.FrameHeader:][:shmabi.PayloadHeadSize])
			index := shmabi.FrameHeader + shmabi.PayloadHeadSize +
				(int(head.TargetLength()+head.HeadersLength())+7)&^7
			binary.LittleEndian.PutUint16(f[index:], uint16(head.HeadersLength()))
			binary.LittleEndian.PutUint32(f[shmabi.DLineCrc32cOffset:],
				crc32.Checksum(f.Payload(), crc32.MakeTable(crc32.Castagnoli)))
			return p.write(f)
		},
		"commit": func(p *plane, f shmabi.Frame) uint64 {
			at := p.commit
			p.commit += p.capacity + 64
			return at
		},
	}
	for name, hurt := range damage {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			p, other := r.plane(narrow), r.plane(roomy)
			r.journal.hold()
			fillReplies(t, r, p) // so that the replies below have to wait
			stored := p.publish(signed(t, durably, "evt_1", "{}"))
			r.verified(p)
			refused := p.publish(forged(t, durably, "evt_2", "{}"))
			r.verified(p)
			f, _ := p.frame(signed(t, durably, "evt_3", "{}"))
			lost := hurt(p, f)
			p.show()
			eventually(t, "the lane retired", p.retired)
			at := other.publish(signed(t, atOnce, "evt_4", "{}"))
			wantOne(t, other.take(1), shmabi.ReplyAccepted, 200, at)
			r.journal.release()
			// What was verified before is finished: stored and answered, although the ring was full.
			eventually(t, "stored", func() bool { return r.storedAt(p, stored) })
			p.drain(64)
			r.service.Orphaned(0) // no such generation: nothing ends
			wakeUp(p)
			answers := p.take(2)
			wantOne(t, answers[:1], shmabi.ReplyRefused, 401, refused)
			wantOne(t, answers[1:], shmabi.ReplyAccepted, 200, stored)
			if r.storedAt(p, lost) || p.verified() != lost {
				t.Errorf("verified %d passes the damage at %d", p.verified(), lost)
			}
			r.kill(p)
			r.ended(p)
			if !exists(p.path+".retired") || exists(p.path) {
				t.Error("the file of a retired lane is not kept")
			}
			at = other.publish(signed(t, durably, "evt_5", "{}"))
			wantOne(t, other.take(1), shmabi.ReplyAccepted, 200, at)
		})
	}
}

// wakeUp rings the service whatever its ticket says: a lane that is retired is looked at by its
// belt, which these tests have not.
func wakeUp(p *plane) {
	if err := p.wake.Ring(); err != nil {
		p.t.Fatal(err)
	}
}

func TestAWrongReplyCursorRetiresTheLaneAndItsFramesAreStored(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	r.journal.hold()
	p.store(shmabi.LaneHeaderReplyConsumeOffset, 64) // of nothing
	at := p.publish(signed(t, durably, "evt_1", "{}"))
	r.journal.inAppend()
	r.journal.release()
	eventually(t, "retired", p.retired)
	eventually(t, "stored", func() bool { return r.storedAt(p, at) })
	r.kill(p)
	r.ended(p)
	if !exists(p.path + ".retired") {
		t.Error("the file is not kept")
	}
}

func TestAFileThatIsCutRetiresItsLaneOnly(t *testing.T) {
	r := newRig(t)
	p, other := r.plane(roomy), r.plane(roomy)
	p.publish(signed(t, durably, "evt_1", "{}"))
	p.take(1)
	r.released(p)
	must(t, os.Truncate(p.path, 0))
	wakeUp(p)
	at := other.publish(signed(t, durably, "evt_2", "{}"))
	wantOne(t, other.take(1), shmabi.ReplyAccepted, 200, at)
	r.kill(p)
	r.ended(p)
	if !exists(p.path + ".retired") {
		t.Error("the file is not kept")
	}
}

func TestStopWhileAppendFailsEndsAndLosesNothing(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	r.journal.failNext(1 << 30)
	at := p.publish(signed(t, durably, "evt_1", "{}"))
	eventually(t, "senders are told", func() bool { return r.control.Writable() == 0 })
	r.stop()
	if p.consume() != 0 || p.verified() != p.commit {
		t.Fatalf("consume %d, verified %d", p.consume(), p.verified())
	}
	r.journal.reopen()
	r.start()
	wantOne(t, p.take(1), shmabi.ReplyAccepted, 200, at)
	if r.control.Writable() != 1 {
		t.Error("a new life is not writable")
	}
}

func TestNothingIsTakenIntoServiceAfterStop(t *testing.T) {
	r := newRig(t)
	service := r.service
	r.stop()
	p := newPlane(t, r.dir, roomy)
	l, err := lane.Attach(p.path, testOwner)
	must(t, err)
	if err := service.Attach(l, p.bells(), 0); !errors.Is(err, ErrStopped) {
		t.Fatalf("attach after stop: %v", err)
	}
}

func TestAnAttachThatFailsLeavesNothingBehind(t *testing.T) {
	r := newRig(t)
	p := newPlane(t, r.dir, roomy)
	l, err := lane.Attach(p.path, testOwner)
	must(t, err)
	bells := p.bells()
	// The journal cannot have more than was verified.
	if err := r.service.Attach(l, bells, 4096); !errors.Is(err, lane.ErrCorrupt) {
		t.Fatalf("attach: %v", err)
	}
	if n := len(r.service.Lanes()); n != 0 {
		t.Errorf("%d lanes in service", n)
	}
	if err := bells.Wake.Ring(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a doorbell stayed open: %v", err)
	}
	// The file is as it was and can be taken up rightly.
	r.planes = append(r.planes, p)
	r.attach(p)
	at := p.publish(signed(t, durably, "evt_1", "{}"))
	wantOne(t, p.take(1), shmabi.ReplyAccepted, 200, at)
}

func TestALaneThatIsNotBelievedKeepsNobodyWaiting(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	r.journal.failNext(1 << 30)
	first := p.publish(r.within(time.Minute, signed(t, waiting, "evt_1", "{}")))
	p.publish(r.within(time.Minute, signed(t, waiting, "evt_2", "{}")))
	r.verified(p)
	r.stop()
	r.journal.reopen()
	r.journal.set(func(j *journal) { j.reached[p.id] = p.commit - shmabi.LineSize })
	r.planes = nil
	r.start()
	l, err := lane.Attach(p.path, testOwner)
	must(t, err)
	if err := r.service.Attach(l, Bells{}, r.journal.reach(p.id)); err == nil {
		t.Errorf("a journal that ends inside the frame behind %d was believed", first)
	}
	r.kept(0)
}

func TestAJournalThatEndsInsideAFrameIsNotBelieved(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	r.journal.failNext(1 << 30)
	p.publish(signed(t, atOnce, "evt_1", "{}"))
	p.take(1)
	r.stop()
	l, err := lane.Attach(p.path, testOwner)
	must(t, err)
	service := New(Options{Store: r.journal, Control: r.control, Log: discard}, r.table)
	defer service.Stop()
	if err := service.Attach(l, Bells{}, 64); !errors.Is(err, lane.ErrCorrupt) {
		t.Fatalf("attach: %v", err)
	}
}

func TestDamageFoundAtAStartKeepsWhatLiesBeforeIt(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	r.journal.failNext(1 << 30)
	first := p.publish(signed(t, atOnce, "evt_1", "{}"))
	second := p.publish(signed(t, atOnce, "evt_2", "{}"))
	p.take(2)
	r.stop()
	p.mem[shmabi.LaneHeaderSize+second+shmabi.FrameHeader] ^= 1
	r.journal.reopen()
	r.start()
	eventually(t, "the frame before the damage", func() bool { return r.storedAt(p, first) })
	if !p.retired() {
		t.Error("not retired")
	}
	r.kill(p)
	r.ended(p)
	if !exists(p.path + ".retired") {
		t.Error("the file is not kept")
	}
}

func TestLanesAreServedBeforeTheirDataPlaneSaysHello(t *testing.T) {
	r := newRig(t)
	r.belt = 5 * time.Millisecond
	r.restart()
	p := newPlane(t, r.dir, roomy)
	at := p.publish(signed(t, atOnce, "evt_1", "{}"))
	l, err := lane.Attach(p.path, testOwner)
	must(t, err)
	must(t, r.service.Attach(l, Bells{}, 0))
	wantOne(t, p.take(1), shmabi.ReplyAccepted, 200, at)
	// Hello: from now on the doorbell does it, and what was published is told.
	if !r.service.Equip(p.id, p.bells()) {
		t.Fatal("no such lane")
	}
	eventually(t, "the unconditional ring", func() bool {
		rung, err := p.peer.Wait(time.Millisecond)
		return rung && err == nil
	})
	at = p.publish(signed(t, durably, "evt_2", "{}"))
	wantOne(t, p.take(1), shmabi.ReplyAccepted, 200, at)
	if r.service.Equip(event.LaneID{9}, Bells{}) {
		t.Error("equipped a lane that nobody serves")
	}
	r.service.Stop()
	r.service = nil
}

func TestDoorbellsMayChangeUnderTraffic(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	for i := range 200 {
		p.publish(signed(t, durably, fmt.Sprint(i), "{}"))
		if !r.service.Equip(p.id, p.bells()) {
			t.Fatal("no such lane")
		}
	}
	p.take(200)
	r.released(p)
}

func TestALaneThatSleepsTakesNewDoorbellsUp(t *testing.T) {
	r := newRig(t)
	p := newPlane(t, r.dir, roomy)
	l, err := lane.Attach(p.path, testOwner)
	must(t, err)
	must(t, r.service.Attach(l, Bells{}, 0))
	asleep := func() bool { return p.load(shmabi.LaneHeaderCPTicketOffset)&1 == 1 }
	eventually(t, "asleep", asleep)
	r.service.Equip(p.id, p.bells())
	at := p.publish(signed(t, durably, "evt_1", "{}"))
	wantOne(t, p.take(1), shmabi.ReplyAccepted, 200, at)
}
