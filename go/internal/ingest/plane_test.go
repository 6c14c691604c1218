package ingest

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"sluice/go/internal/event"
	"sluice/go/internal/lane"
	"sluice/shm-abi/shmabi"
)

var testOwner = lane.Owner{JournalID: [16]byte{1}, BootID: [16]byte{2}}

// plane plays the data plane of one lane over a mapping of its own, doorbells and all. It belongs
// to one goroutine.
type plane struct {
	t             testing.TB
	path          string
	file          *os.File
	mem           []byte
	id            event.LaneID
	generation    uint32
	capacity      uint64
	replyCapacity uint64
	commit        uint64
	replied       uint64 // reply_consume
	lastRung      uint64
	wake, peer    *lane.Bell
	seq           uint32
	answers       []answer
}

// answer is one reply entry as the data plane finds it.
type answer struct {
	kind       shmabi.Reply
	code       uint16
	token      uint64
	seq        uint32
	id         event.ID
	position   uint64
	head, body string
	retryAfter uint32
}

// size is the size of a lane's two rings.
type size struct{ requests, replies uint64 }

var planes atomic.Uint32

// newPlane makes a lane file in dir and keeps its lock, as a data plane does.
func newPlane(t testing.TB, dir string, s size) *plane {
	t.Helper()
	number := planes.Add(1)
	p := &plane{
		t: t, generation: number, capacity: s.requests, replyCapacity: s.replies,
		id: event.LaneID{15: 7},
	}
	binary.BigEndian.PutUint32(p.id[:], number)
	p.path = filepath.Join(dir, fmt.Sprintf("%x", p.id))
	var err error
	p.file, err = os.OpenFile(p.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	must(t, err)
	must(t, unix.Flock(int(p.file.Fd()), unix.LOCK_EX))
	length := shmabi.LaneHeaderSize + int(s.requests+s.replies)
	must(t, p.file.Truncate(int64(length)))
	p.mem, err = unix.Mmap(int(p.file.Fd()), 0, length,
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must(t, err)
	p.wake, err = lane.NewBell()
	must(t, err)
	p.peer, err = lane.NewBell()
	must(t, err)
	t.Cleanup(p.die)
	copy(p.mem[shmabi.LaneHeaderBootIDOffset:], testOwner.BootID[:])
	copy(p.mem[shmabi.LaneHeaderJournalIDOffset:], testOwner.JournalID[:])
	copy(p.mem[shmabi.LaneHeaderLaneIDOffset:], p.id[:])
	binary.LittleEndian.PutUint32(p.mem[shmabi.LaneHeaderGenerationOffset:], p.generation)
	p.store(shmabi.LaneHeaderLayoutHashOffset, shmabi.LayoutHash)
	p.store(shmabi.LaneHeaderRequestCapacityOffset, s.requests)
	p.store(shmabi.LaneHeaderReplyCapacityOffset, s.replies)
	p.store(shmabi.LaneHeaderMagicOffset, shmabi.LaneMagic)
	return p
}

func (p *plane) word(at int) *uint64 { return (*uint64)(unsafe.Pointer(&p.mem[at])) }

func (p *plane) store(at int, v uint64) { atomic.StoreUint64(p.word(at), v) }

func (p *plane) load(at int) uint64 { return atomic.LoadUint64(p.word(at)) }

func (p *plane) consume() uint64  { return p.load(shmabi.LaneHeaderConsumeOffset) }
func (p *plane) verified() uint64 { return p.load(shmabi.LaneHeaderVerifiedOffset) }
func (p *plane) retired() bool    { return p.load(shmabi.LaneHeaderRetiredOffset) != 0 }

// bells are duplicates for the service, as a control plane gets them.
func (p *plane) bells() Bells {
	wake, err := lane.DuplicateBell(p.wake.File())
	must(p.t, err)
	peer, err := lane.DuplicateBell(p.peer.File())
	must(p.t, err)
	return Bells{Wake: wake, Peer: peer}
}

// request is what a sender wants; publish makes a frame of it.
type request struct {
	source   uint32
	client   string // names in its certificate, one a line
	headers  [][2]string
	body     []byte
	received uint64
	admitted uint64 // boot clock
	until    uint64
}

// frame lays the next frame out; false: it does not fit yet.
func (p *plane) frame(r request) (shmabi.Frame, bool) {
	p.t.Helper()
	f, err := shmabi.BuildEvent(shmabi.EventParts{
		Method: "POST", Target: "/hook", Headers: r.headers, Body: r.body, SourceID: r.source,
		Seq: p.seq + 1, Token: uint64(p.seq+1) << 20, ReceivedNS: r.received, Position: p.commit,
		UntilNS: r.until, Client: r.client, AdmittedNS: r.admitted,
	})
	must(p.t, err)
	// What an older lap left in the C line is garbage; let it look as good as garbage can.
	c := f.C()
	c.SetState(uint16(shmabi.StateVerified))
	c.SetReplyCode(200)
	c.SetAck(uint8(shmabi.AckRing))
	c.SetEventID([16]byte{0xee, 15: 0xee})
	c.SetDedupKey([16]byte{0xdd})
	c[len(c)-1] = 0xff
	return f, p.commit+uint64(len(f))-p.consume() <= p.capacity
}

// write puts a frame behind the last one, invisible until show.
func (p *plane) write(f shmabi.Frame) uint64 {
	ring := p.mem[shmabi.LaneHeaderSize : shmabi.LaneHeaderSize+p.capacity]
	at := p.commit & (p.capacity - 1)
	copy(ring, f[copy(ring[at:], f):])
	position := p.commit
	p.commit += uint64(len(f))
	p.seq++
	return position
}

// show commits what was written and rings if the other side sleeps.
func (p *plane) show() {
	p.store(shmabi.LaneHeaderCommitOffset, p.commit)
	p.ring(true, false)
}

// publish makes one request a committed frame and gives its position.
func (p *plane) publish(r request) uint64 {
	p.t.Helper()
	f, fits := p.frame(r)
	if !fits {
		p.t.Fatalf("a frame of %d bytes does not fit into the lane", len(f))
	}
	at := p.write(f)
	p.show()
	return at
}

func (p *plane) ring(published, freed bool) {
	ticket := p.load(shmabi.LaneHeaderCPTicketOffset)
	if ticket&1 != 0 && (published || ticket&2 != 0 && freed) && ticket != p.lastRung {
		p.lastRung = ticket
		must(p.t, p.wake.Ring())
	}
}

// drain reads at most n replies and gives their room back.
func (p *plane) drain(n int) []answer {
	p.t.Helper()
	ring := p.mem[shmabi.LaneHeaderSize+p.capacity:]
	from, end := p.replied, p.load(shmabi.LaneHeaderReplyCommitOffset)
	first := len(p.answers)
	for ; n > 0 && p.replied < end; n-- {
		at := p.replied & (p.replyCapacity - 1)
		e := shmabi.ReplyEntry(ring[at : at+shmabi.ReplyEntrySize])
		rest := make([]byte, 0, e.HeadLength()+e.BodyLength())
		for i := range uint64(cap(rest)) {
			rest = append(rest, ring[(at+shmabi.ReplyEntrySize+i)&(p.replyCapacity-1)])
		}
		p.answers = append(p.answers, answer{
			kind: shmabi.Reply(e.Kind()), code: e.Code(), token: e.Token(), seq: e.Seq(),
			id: e.EventID(), position: e.Position(), retryAfter: e.RetryAfterS(),
			head: string(rest[:e.HeadLength()]), body: string(rest[e.HeadLength():]),
		})
		if e.Length() == 0 {
			p.t.Fatalf("reply at %d has no length", p.replied)
		}
		p.replied += uint64(e.Length())
	}
	if p.replied != from {
		p.store(shmabi.LaneHeaderReplyConsumeOffset, p.replied)
		p.ring(false, true)
	}
	return p.answers[first:]
}

// take waits for the next n replies.
func (p *plane) take(n int) []answer {
	p.t.Helper()
	first := len(p.answers)
	eventually(p.t, fmt.Sprintf("%d replies", n), func() bool {
		p.drain(n - (len(p.answers) - first))
		return len(p.answers)-first == n
	})
	return p.answers[first:]
}

// close says that nothing more will come.
func (p *plane) close() { p.store(shmabi.LaneHeaderClosedOffset, 1) }

// die ends the process that made the lane: its lock is free.
func (p *plane) die() {
	if p.mem != nil {
		_ = unix.Munmap(p.mem)
		_ = p.file.Close()
		p.mem = nil
	}
}
